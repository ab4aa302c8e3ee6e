/* env/env.h - what rollouts need of an environment (see searchr1/env.h). */
#ifndef SR1__ENV_ENV_H
#define SR1__ENV_ENV_H

#include "base/buf.h"
#include "env/protocol.h"

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

/* The block to insert is head, body, tail, in this order; only the body may be cut to a
 * token budget. All three are empty when the environment carried nothing out. */
#define SR1__ANSWER_NOTICE                                                               \
    0x10000 /* no action was there to answer; joins SR1_ANSWER_*                         \
             */

struct sr1__observation {
    struct sr1__buf head, body, tail;
    int32_t status; /* SR1_SEARCH_*; after TIMEOUT and ERROR the body is empty */
    int32_t n_hits;
    char **hit_ids; /* [n_hit_ids], best first; a hit without id is "" */
    int32_t n_hit_ids;
    int32_t done; /* 1: the trajectory ends here */
    int32_t flags; /* SR1_ANSWER_*, SR1__ANSWER_NOTICE */
    int32_t success;
    double reward;
};

/* Zeroed observations are empty. Both leave *o empty and reusable. */
void sr1__observation_init(struct sr1__observation *o);
void sr1__observation_free(struct sr1__observation *o);

/* One more reference, given back by sr1_env_free; from any thread. */
sr1_env *sr1__env_retain(sr1_env *env);

/* SR1_ENV_WAITS, _CONCURRENT, _SEPARATE: with CONCURRENT sr1__env_act may run in several
 * threads at a time, with SEPARATE on some of a turn's actions. */
int32_t sr1__env_flags(const sr1_env *env);

/* The observation of an action that was not answered (SR1_SEARCH_TIMEOUT, ...): an empty
 * block. On failure *out is empty, with the status set. */
sr1_status sr1__env_no_answer(const sr1_env *env, int32_t status,
                              struct sr1__observation *out);

/* What the protocol tells a message with neither an action nor an answer; the protocol
 * must have such a notice. On failure *out is empty. */
sr1_status sr1__env_notice(const sr1_env *env, struct sr1__observation *out);

/* Answer actions a[n] as one batch; out[n] is initialised here, and
 * free with sr1__observation_free. A search that fails is an observation with a status,
 * not a failure of this call. On failure all of out[n] is empty. */
sr1_status sr1__env_act(struct sr1_env *env, const struct sr1__action *a, size_t n,
                        struct sr1__observation *out);

/* A trajectory begins: e->struct_size and e->episode are set here, and *episode. 0 where
 * nothing is kept for trajectories. End it with sr1_env_finish. */
sr1_status sr1__env_begin(sr1_env *env, sr1_env_episode *e, int64_t *episode);

/* The environment's protocol. Static. */
const struct sr1__protocol *sr1__env_protocol(const struct sr1_env *env);

/* 0 for an environment that carries no action out ("none"): every block is empty. */
int32_t sr1__env_acts(const struct sr1_env *env);

#endif
