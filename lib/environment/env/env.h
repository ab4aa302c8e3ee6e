/* environment/env/env.h - the interface between rollouts and environments (see
 * searchr1/env.h). */
#ifndef SR1__ENV_ENV_H
#define SR1__ENV_ENV_H

#include "base/buf.h"
#include "base/json.h"
#include "environment/env/protocol.h"

#include <searchr1/env.h>
#include <searchr1/search.h>

/* One closed action tag; text is its stripped content, borrowed. */
struct sr1__action {
    size_t row;
    const char *text;
    size_t len;
    int32_t turn;
    int64_t episode; /* sr1__env_begin; 0: none */
};

/* No action was there to answer; joins SR1_ANSWER_*. */
#define SR1__ANSWER_NOTICE 0x10000

/* An observation is inserted as head, body, tail; only the body may be truncated. All
 * three are empty when no action was executed. */
struct sr1__observation {
    struct sr1__buf head, body, tail;
    int32_t status; /* SR1_ACTION_*; after TIMEOUT and ERROR the body is empty */
    int32_t n_hits;
    char **hit_ids; /* [n_hit_ids], best first; a hit without id is "" */
    int32_t n_hit_ids;
    int32_t done;  /* 1: the trajectory ends here */
    int32_t flags; /* SR1_ANSWER_*, SR1__ANSWER_NOTICE */
    int32_t success;
    double reward;
    char *failure; /* why, after TIMEOUT and ERROR; NULL: nobody said it */
};

/* Zeroed observations are empty. Both leave *o empty and reusable. */
void sr1__observation_init(struct sr1__observation *o);
void sr1__observation_free(struct sr1__observation *o);

/* As sr1_env_add_tool. shown: the schema that the prompt has in place of the one that
 * arguments are checked by, retained; NULL: that one. */
sr1_status sr1__env_add_tool(sr1_env *env, const sr1_tool_ops *ops, const json_t *shown,
                             void *self);

/* One more reference, given back by sr1_env_free; from any thread. */
sr1_env *sr1__env_retain(sr1_env *env);

/* SR1_ENV_WAITS, _CONCURRENT, _SEPARATE: with CONCURRENT sr1__env_act may run in several
 * threads at a time, with SEPARATE on some of a turn's actions. */
int32_t sr1__env_flags(const sr1_env *env);

/* With SR1_ENV_SINGLE: 1 if this action may share a call with other such actions. */
int32_t sr1__env_can_batch(const sr1_env *env, const char *text, size_t len);

/* The observation of an action that was not answered (SR1_ACTION_TIMEOUT, ...): an empty
 * block, and why. On failure *out is empty, with the status set. */
sr1_status sr1__env_failed_observation(const sr1_env *env, int32_t status,
                                       const char *why, struct sr1__observation *out);

/* The protocol's notice after a message with neither an action nor an answer; the
 * protocol must have such a notice. On failure *out is empty. */
sr1_status sr1__env_notice(const sr1_env *env, struct sr1__observation *out);

/* Answer actions a[n] as one batch; out[n] is initialised here, and
 * free with sr1__observation_free. A search that fails is an observation with a status,
 * not a failure of this call. On failure all of out[n] is empty. */
sr1_status sr1__env_act(struct sr1_env *env, const struct sr1__action *a, size_t n,
                        struct sr1__observation *out);

/* The same in a rollout: if an environment of the caller fails, each of these actions
 * gets SR1_ACTION_TIMEOUT or _ERROR, and the key search_failure decides about their
 * trajectories. SR1_E_NOMEM, SR1_E_CANCELLED and SR1_E_CONFIG are still returned. */
sr1_status sr1__env_act_rows(struct sr1_env *env, const struct sr1__action *a, size_t n,
                             struct sr1__observation *out);

/* sr1_env_new for an environment of the library, whose failures are passed on as they
 * are. */
sr1_status sr1__env_new_builtin(sr1_env **out, const sr1_env_ops *ops, void *self,
                                const sr1_env_options *options);

/* A trajectory begins: e->struct_size and e->episode are set here, and *episode. 0 where
 * nothing is kept for trajectories. End it with sr1_env_finish. */
sr1_status sr1__env_begin(sr1_env *env, sr1_env_episode *e, int64_t *episode);

/* The observation of an action that may not be carried out: text for the policy, which
 * begins with "Error: ". On failure *out is empty. */
sr1_status sr1__env_refusal(const sr1_env *env, const char *text,
                            struct sr1__observation *out);

/* The names of its tools, a new reference; NULL without memory. */
json_t *sr1__env_tool_names(const sr1_env *env);

/* Actions that a message may hold: 1 unless the protocol has several. */
int32_t sr1__env_calls_of_message(const sr1_env *env);
/* The same where something answers them, else 1. */
int32_t sr1__env_max_calls(const sr1_env *env);

/* The environment's protocol. Static. */
const struct sr1__protocol *sr1__env_protocol(const struct sr1_env *env);

/* 0 for an environment that carries no action out ("none"): every block is empty. */
int32_t sr1__env_acts(const struct sr1_env *env);

#endif
