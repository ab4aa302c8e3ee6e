/* searchr1/ext/synthesis.h - demonstrations made from trajectories, for stage sft.
 *
 * Ownership: arguments are borrowed for the call.
 * Errors:    outputs are untouched on failure.
 * Threads:   as the rollout that makes them.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_SYNTHESIS_H
#define SEARCHR1_EXT_SYNTHESIS_H

#include <searchr1/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Write a trajectory as a demonstration for stage sft: one line of JSON (no line end)
 * with question, history (if any) and segments, then id, sample, reward, data_source, and
 * model where a server generated it. Caller frees *text with sr1_free. SR1_E_UNSUPPORTED:
 * the trajectory has no closed answer, the protocol had to correct it, or one of its
 * texts is not UTF-8 without NUL. */
SR1_API sr1_status sr1_rollout_demonstration(const sr1_rollout *rollout,
                                             const sr1_trajectory *trajectory,
                                             char **text, size_t *n);

typedef struct sr1_synth_options {
    size_t struct_size;   /* set by sr1_synth_options_init */
    int64_t max_rows;     /* 0, the default: all */
    int32_t samples;      /* trajectories made for each question; default 1 */
    int32_t per_question; /* written at most, the best reward first; default 1 */
    double min_reward;    /* of those; default 1 */
    int32_t greedy;       /* default 0 */
    uint64_t seed;
    /* As in sr1_rollout_options, over all trajectories. */
    sr1_status (*progress)(void *user, int64_t finished, int64_t total, int64_t tokens);
    void *user;
    sr1_ranks *ranks; /* processes that share the questions (searchr1/ext/ranks.h); NULL,
                         the default: this one alone. Each makes the same call; the first
                         rank writes, all get the report */
} sr1_synth_options;

typedef struct sr1_synth_report {
    size_t struct_size;
    int64_t rows;         /* questions done, those of an earlier call among them */
    int64_t resumed;      /* that were done before this call */
    int64_t trajectories; /* made */
    int64_t written;
    int64_t below;    /* not written: their reward is below min_reward */
    int64_t unfit;    /* ... they have no closed answer, or the protocol corrected them */
    int64_t excluded; /* ... a search of theirs, the server or a reward failed */
} sr1_synth_report;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_synth_options_init(sr1_synth_options *options);

/* Answer every question of a dataset and append the good trajectories to path as
 * demonstrations. A call that was stopped is continued by the same call, which reads
 * path.state; a finished one does nothing. options and report (struct_size set) may be
 * NULL. SR1_E_STATE: path was made with other settings, or by something else. */
SR1_API sr1_status sr1_synthesise(const char *path, sr1_rollout *rollout,
                                  sr1_reward_set *rewards, const sr1_dataset *dataset,
                                  const sr1_synth_options *options,
                                  sr1_synth_report *report);

#ifdef __cplusplus
}
#endif
#endif
