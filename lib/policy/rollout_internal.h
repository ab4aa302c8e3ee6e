/* policy/rollout_internal.h - what the files of this module share.
 *
 *     sr1_rollout      model, tokenizer, environment and limits of one configuration
 *     sr1__generation  one call of sr1_rollout_generate
 *     sr1__sequence    one trajectory in the making (sequence.h)
 *     sr1__engine      what continues many of them (generation_engine.h): decoders of
 *                      this process (local_engine.c), a server (server_engine.c)
 *     engine_loop.h    the one loop over an engine; its clients are
 *     multi_turn.c     that makes trajectories with the environment, and
 *     level_branches.c that compares thinking levels
 *     background_rollout.h  a generation by servers on a thread of its own
 */
#ifndef SR1__POLICY_ROLLOUT_INTERNAL_H
#define SR1__POLICY_ROLLOUT_INTERNAL_H

#include "base/life.h"
#include "base/messages.h"
#include "base/pool.h"
#include "config/config.h"
#include "environment/env/env.h"
#include "tensor/model/model_decoder.h"
#include "tensor/model/model.h"
#include "policy/engine_loop.h"
#include "policy/rollout.h"
#include "retrieval/search/search_engine.h"
#include "text/tokenizer/chat_turn.h"
#include "tensor/weights/sampling.h"

#include <searchr1/ext/critique.h>
#include <searchr1/rollout.h>

#include <pthread.h>
#include <stdatomic.h>

struct sr1__env_executor;
struct sr1__row_text;
struct sr1__prompt_template;

struct sr1__rollout_limits {
    int64_t max_tokens;      /* sampled, a trajectory */
    int64_t max_turn_tokens; /* sampled, a turn; 0: no limit of its own */
    int64_t max_prompt;
    int32_t filter; /* leave out questions whose prompts are longer */
    int64_t max_observation;
    int64_t max_context;      /* tokens of a whole sequence */
    int32_t max_turns;        /* blocks inserted */
    int32_t max_calls;        /* actions carried out */
    int32_t count_unexecuted; /* max_calls counts every action */
    int32_t go_on;            /* without the answer of a search that failed */
    int32_t max_rows;         /* decoded at once, over all engines */
    int32_t batch_steps;      /* rounds an action waits for those of other rows */
    double batch_wait;        /* seconds, where the executor carries it out */
    int32_t ask_threads;      /* calls of an environment that lets one wait */
    double ask_deadline;      /* seconds; 0: none */
};

struct sr1_rollout {
    sr1_model *model;            /* NULL: a server generates and no weights are needed */
    struct sr1__engine server;   /* ops NULL: the model generates */
    int32_t local;               /* the model does, though there is a server */
    int32_t trained;             /* its weights learn: there is a model in any case */
    atomic_llong server_version; /* of the server's weights; -1: not known */
    int64_t server_context;      /* tokens that it reads; 0: it does not say */
    struct sr1__remote_stats remote_total; /* since the server was opened */
    sr1_tokenizer *tokenizer;
    sr1_tokenizer *speech;    /* the same for what the policy says: tags of the protocol
                               * are text, though they be special tokens */
    sr1_search *search;       /* NULL in the environment "none" */
    sr1_problems *problems;   /* of the environment critique, else NULL */
    sr1_generator *reviser;   /* likewise */
    sr1_model *reviser_model; /* of the reviser; NULL for a server */
    sr1_env *env;
    struct sr1__env_executor *executor; /* of env when it lets one wait or a
                                          server generates, else NULL */
    sr1_env *no_search_env; /* searches find nothing: the no_search ablation */
    char *no_env;           /* why env is none that may be asked; else NULL */
    char *no_engine; /* what to say where env searches a mock that knows nothing, since
                      * nobody named an engine; else NULL */
    char *odd_pair;  /* likewise where its protocol is that of another environment */
    int32_t warned;  /* both were said, or a run says them */
    const atomic_int *stop; /* of whoever trains it: once it is not 0, answers that do not
                             * come are not waited for; NULL: nobody */
    struct sr1__rollout_limits limits;
    int32_t go_on;        /* search_failure, and search_deadline, as configured: */
    double ask_deadline;  /* limits has what holds in this environment */
    uint64_t answer_keys; /* hash of the keys that decide what answers actions, and of
                           * the policy's precision */
    struct sr1__sampling sampling;
    int32_t thinking;             /* chat template's enable_thinking */
    int32_t closed_thoughts;      /* what counts as well-formed */
    char *gold_ids_field;         /* column of a row with the ids of its documents */
    char *system_source;          /* system message as given, NULL for none */
    char *system;                 /* with the tools in it */
    struct sr1__spans system_own; /* where the tools are not */
    struct sr1__prompt_template
        *question; /* the user's message; NULL: the question itself */
    struct sr1__turn_delimiters border;  /* of messages, where the protocol has them */
    struct sr1__turn_delimiters ipython; /* of results; zeroed: those are the user's */
    int64_t score_tokens;                /* token budget of a log-prob pass */
    int64_t logit_chunk;
    int share_prompts;       /* of a group in such a pass, where the device can */
    int64_t weights_version; /* recorded in trajectories */
    int32_t n_engines;
    sr1_model **replicas;        /* [n_engines] the model, then sharers of its weights */
    struct sr1__engine *engines; /* [n_engines] one over each */
    struct sr1__pool *pool;      /* [n_engines] threads; NULL for one engine */
    int32_t threads;             /* of one operation of each engine */
    int32_t deterministic;       /* it holds libtorch's determinism */
    pthread_mutex_t env_lock;    /* one call into the environment at a time */
    struct sr1__rollout_stats stats; /* of the last generate */
    struct sr1__life life;
    atomic_int working; /* it generates: its callbacks cannot ask for more */
    atomic_int beside;  /* generations of background_rollout.h */
};

/* One without parts. */
sr1_status sr1__rollout_new_empty(sr1_rollout **out);
/* Take another environment (no_search: for the no_search ablation), with the prompt,
 * limits and executor that suit it; keeps references of its own. reviser: what answers in
 * it, NULL unless that is a model. On failure nothing has changed. */
sr1_status sr1__rollout_use_env(sr1_rollout *r, sr1_env *env, sr1_env *no_search,
                                const sr1_generator *reviser);

/* The prompt's token ids: system message, history, question, opening of the answer.
 * Caller frees with sr1_free. */
sr1_status sr1__rollout_prompt(const sr1_rollout *r, const sr1_query *q, int32_t **ids,
                               size_t *n);

/* Append the same as messages to m, which has copies of all texts. */
sr1_status sr1__rollout_messages(const sr1_rollout *r, const sr1_query *q,
                                 struct sr1__messages *m);

/* What one generate call works on; borrowed by its loops. */
struct sr1__generation {
    sr1_rollout *rollout;
    sr1_env *env;
    const sr1_query *queries;
    struct sr1__row_text **row_texts; /* [n_queries] shared by their trajectories */
    size_t n_queries;
    int32_t group_size;
    struct sr1__sampling sampling;
    int64_t max_tokens;
    uint64_t seed;
    int64_t weights_version; /* recorded in trajectories */
    struct sr1__engine_set set;
    const sr1_rollout_options *options;
    sr1_trajectory **out; /* [n_queries * group_size] */
    double *entropy; /* [n_entropies] of each engine, or each trajectory: summed in their
                        order, which no thread changes */
    size_t n_entropies;
    struct sr1__search_tally searches; /* of the rollout's engine, for its actions; under
                                          the lock of whoever calls the environment */
    pthread_mutex_t lock;              /* over all below and the caller's callbacks */
    struct sr1__error outage;          /* why the first trajectory was dropped */
    size_t begun;                      /* trajectories that ask something */
    size_t finished;
    struct sr1__rollout_stats stats;
};

/* sr1_rollout_generate by an engine of the caller's, which no other generation uses: any
 * number side by side, and beside sr1_rollout_generate. What it counts goes to *stats
 * alone. */
sr1_status sr1__rollout_generate_beside(sr1_rollout *r, struct sr1__engine *engine,
                                        int64_t version, const sr1_query *queries,
                                        size_t n, const sr1_rollout_options *options,
                                        sr1_trajectory **out,
                                        struct sr1__rollout_stats *stats);

/* Sequences of each engine at once, as configured. */
int32_t sr1__rollout_engine_sequences(const sr1_rollout *r);
/* Of its decoder, which can hold a step at four levels (level_branches.c) too: a prefix,
 * four branches, and a row that slots are cut back with. */
#define SR1__LEVEL_BRANCH_ROWS 6
int32_t sr1__rollout_decoder_rows(const sr1_rollout *r);
/* The decoders of all engines, where they are not there yet. */
sr1_status sr1__rollout_make_decoders(sr1_rollout *r);

/* Around a result that is a message. */
static inline const struct sr1__turn_delimiters *
sr1__result_border(const struct sr1_rollout *r)
{
    return r->ipython.close ? &r->ipython : &r->border;
}

/* Query i of a caller's array, whose elements lie queries[0].struct_size apart; 0 for the
 * fields that an older caller's struct lacks. */
sr1_query sr1__query_at(const sr1_query *queries, size_t i);

/* Can its history be put into a prompt? SR1_E_INVALID, SR1_E_LIMIT. */
sr1_status sr1__query_check(const sr1_query *queries, size_t i);
/* The same of all, and their struct_size (generate.c). */
sr1_status sr1__queries_check(const sr1_query *queries, size_t n);

/* Id of a query: its own, or derived from its text and history into buf. */
#define SR1__QUERY_ID_MAX 32
const char *sr1__query_id(const sr1_query *q, char buf[SR1__QUERY_ID_MAX]);

/* Of the streams of its group's samples: a function of the seed and the question alone.
 */
uint64_t sr1__group_seed(uint64_t seed, const char *id, int64_t copy);

/* An empty trajectory for a query that asks nothing. */
int sr1__query_is_empty(const sr1_query *q);

#endif
