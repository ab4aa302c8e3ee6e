/* searchr1/ext/remote.h - what a generation server gave to a rollout (key use_openai).
 *
 * Errors:    outputs are untouched on failure.
 * Threads:   as the rollout.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_REMOTE_H
#define SEARCHR1_EXT_REMOTE_H

#include <searchr1/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a server gave, where the configuration says use_openai, since the rollout was
 * made; all 0 without one. An answer is what it said in one turn, or in a part of it. */
typedef struct sr1_remote_report {
    size_t struct_size;
    int64_t answers;
    int64_t exact;   /* of them: it gave the token ids */
    int64_t spelled; /* it gave the texts of its tokens, which are tokens of ours */
    int64_t encoded; /* it gave text only, encoded anew: ids are likely, not certain,
                        and without log-probs */
    int64_t drifted; /* answers whose text, encoded anew, has other ids (exact,
                        spelled) or not as many as the server counted (encoded) */
    int64_t prompts_differ; /* answers to a prompt that the server read as other ids, or
                               another number of them, than the trajectory has */
    int64_t dropped_tokens; /* given beyond the end of a turn */
    int64_t server_tokens;  /* generated, as the server counted */
    int64_t failed;         /* trajectories dropped (SR1_STOP_ERROR): no answer came */
} sr1_remote_report;

/* Fill *out (struct_size set) with the counts since the rollout was made; all are 0
 * without a server. */
SR1_API sr1_status sr1_rollout_remote_get(const sr1_rollout *rollout,
                                          sr1_remote_report *out);

#ifdef __cplusplus
}
#endif
#endif
