/* searchr1/ext/episodes.h - drive an environment by hand: single actions, and episodes
 * outside of rollouts.
 *
 * Ownership, errors and threads as in searchr1/env.h.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_EPISODES_H
#define SEARCHR1_EXT_EPISODES_H

#include <searchr1/env.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return the environment's name. Borrowed until the environment is freed. */
SR1_API const char *sr1_env_name(const sr1_env *env);

/* Carry out one action outside of any trajectory. *text receives the observation block as
 * a rollout would insert it, tags included; it is NUL-terminated and *len bytes long.
 * Caller frees *text with sr1_free. */
SR1_API sr1_status sr1_env_answer(sr1_env *env, const char *action, size_t action_len,
                                  char **text, size_t *len);

/* How an action went. */
typedef struct sr1_env_reply {
    size_t struct_size; /* set by the caller; later versions append fields */
    int32_t status;     /* SR1_ACTION_* */
    int32_t flags;      /* SR1_ANSWER_* */
    int32_t done;       /* 1: the trajectory ends here */
    int32_t success;    /* 1: its goal is reached */
    double reward;
} sr1_env_reply;

/* Begin a trajectory outside of rollouts. *episode receives its number for sr1_env_step
 * and sr1_env_finish; 0 when the environment keeps no state for trajectories. query_id
 * NULL counts as "". */
SR1_API sr1_status sr1_env_begin(sr1_env *env, const char *query_id, const char *query,
                                 size_t query_len, uint64_t seed, int64_t *episode);

/* Carry out one action of an episode. *text and *len as in sr1_env_answer; *reply (may
 * be NULL; struct_size set) receives how the action ended. Caller frees *text with
 * sr1_free. */
SR1_API sr1_status sr1_env_step(sr1_env *env, int64_t episode, const char *action,
                                size_t action_len, sr1_env_reply *reply, char **text,
                                size_t *len);

/* End an episode; call it once for each sr1_env_begin. NULL and episode 0 are fine. */
SR1_API void sr1_env_finish(sr1_env *env, int64_t episode);

#ifdef __cplusplus
}
#endif
#endif
