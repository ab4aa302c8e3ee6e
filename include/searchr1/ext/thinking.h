/* searchr1/ext/thinking.h - thinking levels: how much a step thinks before it acts
 * (protocol "rlvcr").
 *
 * Ownership: arguments are borrowed for the call.
 * Errors:    outputs are untouched on failure.
 * Threads:   no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_THINKING_H
#define SEARCHR1_EXT_THINKING_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How much a step of the protocol "rlvcr" thinks, from acting at once to weighing plans.
 */
#define SR1_THINKING_LEVELS 4

/* Get the name of a level, 1 to SR1_THINKING_LEVELS, and its description in prompts; each
 * pointer may be NULL. Static. SR1_E_INVALID: there is no such level. */
SR1_API sr1_status sr1_thinking_level(int32_t level, const char **name,
                                      const char **text);

/* What was not as the protocol has it. */
enum {
    SR1_THINKING_LEVEL_OPEN = 1, /* the level's tag is not closed; its number was read */
    SR1_THINKING_LEVEL_GUESSED = 2, /* there is no level: 1, since nothing is thought */
    SR1_THINKING_LEVEL_UNKNOWN = 4, /* there is none that is 1 to 4: level is 0 */
    SR1_THINKING_THINK_OPEN = 8,    /* thoughts are not closed: they end at the action */
    SR1_THINKING_ACTION_OPEN = 16,  /* the action is not closed: it is the rest */
    SR1_THINKING_NO_ACTION = 32     /* there is none */
};

/* One message of the protocol, as places in its text. */
typedef struct sr1_thinking_step {
    size_t struct_size; /* set by the caller; later versions append fields */
    int32_t level;      /* 1 .. SR1_THINKING_LEVELS; 0: unknown */
    int32_t fallbacks;  /* SR1_THINKING_* together; 0: as it should be */
    size_t level_begin; /* the level with its tags */
    size_t level_len;
    size_t think_begin; /* what is between the tags, stripped */
    size_t think_len;
    size_t action_begin; /* likewise */
    size_t action_len;
    size_t prefix_len; /* the text up to where the action's content begins, tag included,
                          the context an action is scored in; len without an action */
} sr1_thinking_step;

/* Parse a message <level>n</level><think>...</think><action>...</action> in text [len],
 * into *out (struct_size set). The action is the one that a rollout carries out: the
 * first that is closed (sr1_protocol_parse), else one that is open at the end. Level and
 * thoughts are the first of their kind before the action. Text may be any bytes. */
SR1_API sr1_status sr1_thinking_parse(const char *text, size_t len,
                                      sr1_thinking_step *out);

/* Compute how sure the policy was of an action of n tokens (RLVCR's c_l):
 *
 *     "entropy"    - mean of entropies[n]: -sum p log p of the distribution at each token
 *     "mean"       mean of log_probs[n]
 *     "mean_prob"  exp(mean of log_probs), within 1e-6 and 1, as RLVCR's published code
 *     "min"        exp(least of log_probs)
 *
 * include [n]: 0 leaves a token out, such as those of the level's tag; NULL: all count.
 * The array that kind does not read may be NULL. *out is NaN when no token is left, which
 * means that the action was not made. SR1_E_NOT_FOUND lists the kinds. */
SR1_API sr1_status sr1_thinking_confidence(const char *kind, const float *log_probs,
                                           const float *entropies, const uint8_t *include,
                                           size_t n, double *out);

#ifdef __cplusplus
}
#endif
#endif
