/* rollout/internal.h - what the files of this module share.
 *
 *     sr1_rollout      model, tokenizer, environment and limits of one configuration
 *     sr1__generation  one call of sr1_rollout_generate
 *     row (row.h)      one trajectory in the making
 *     lane (lane.c)    one decoder that advances many rows together
 *     remote.h         rows that a server continues */
#ifndef SR1__ROLLOUT_INTERNAL_H
#define SR1__ROLLOUT_INTERNAL_H

#include "base/pool.h"
#include "config/config.h"
#include "env/env.h"
#include "model/decoder.h"
#include "model/model.h"
#include "rollout/rollout.h"
#include "tokenizer/chat_turn.h"
#include "weights/sampling.h"

#include <searchr1/critique.h>
#include <searchr1/rollout.h>

#include <pthread.h>

struct sr1__asker;
struct sr1__remote;
struct sr1__template;

struct sr1__limits {
    int64_t max_tokens;       /* sampled, a trajectory */
    int64_t max_turn_tokens;  /* sampled, a turn; 0: no limit of its own */
    int64_t max_prompt;
    int32_t filter;           /* leave out questions whose prompts are longer */
    int64_t max_observation;
    int64_t max_context;      /* tokens of a whole sequence */
    int32_t max_turns;        /* blocks inserted */
    int32_t max_calls;        /* actions carried out */
    int32_t count_unexecuted; /* max_calls counts every action */
    int32_t go_on;            /* without the answer of a search that failed */
    int32_t max_rows;         /* decoded at once, over all lanes */
    int32_t ask_threads;      /* calls of an environment that lets one wait */
    double ask_deadline;      /* seconds; 0: none */
};

struct sr1_rollout {
    sr1_model *model;           /* NULL: a server generates and no weights are needed */
    struct sr1__remote *remote; /* NULL: the model generates */
    int32_t local;              /* the model does, though there is a server */
    int32_t trained;            /* its weights learn: there is a model in any case */
    int64_t server_version;     /* of the server's weights; -1: not known */
    sr1_tokenizer *tokenizer;
    sr1_search *search;    /* NULL in the environment "none" */
    sr1_problems *problems; /* of the environment critique, else NULL */
    sr1_writer *reviser;    /* likewise */
    sr1_env *env;
    struct sr1__asker *asker; /* of env when it lets one wait, else NULL */
    sr1_env *deaf_env;     /* searches find nothing: the no_search ablation */
    struct sr1__limits limits;
    struct sr1__sampling sampling;
    int32_t thinking;      /* chat template's enable_thinking */
    char *system_source;   /* system message as given, NULL for none */
    char *system;          /* with the tools in it */
    struct sr1__template *question; /* the user's message; NULL: the question itself */
    struct sr1__chat_border border; /* of messages, where the protocol has them */
    int64_t score_tokens;  /* token budget of a log-prob pass */
    int64_t logit_chunk;
    int64_t weights_version; /* recorded in trajectories */
    int32_t n_lanes;
    sr1_model **replicas;           /* [n_lanes] the model, then sharers of its weights */
    struct sr1__decoder **decoders; /* [n_lanes], made when first needed */
    struct sr1__pool *pool;         /* [n_lanes] threads; NULL for one lane */
    pthread_mutex_t env_lock;       /* one call into the environment at a time */
    struct sr1__rollout_stats stats; /* of the last generate */
};

/* The prompt's token ids: system message, history, question, opening of the answer.
 * Caller frees with sr1_free. */
sr1_status sr1__rollout_prompt(const sr1_rollout *r, const sr1_query *q, int32_t **ids,
                               size_t *n);

/* The same as messages, one call of add each; texts are borrowed for the call. */
typedef sr1_status (*sr1__message_fn)(void *to, const char *role, const char *text,
                                      size_t n);
sr1_status sr1__rollout_messages(const sr1_rollout *r, const sr1_query *q,
                                 sr1__message_fn add, void *to);

/* What one generate call works on; borrowed by lanes. */
struct sr1__generation {
    sr1_rollout *rollout;
    sr1_env *env;
    const sr1_query *queries;
    size_t n_queries;
    int32_t group_size;
    struct sr1__sampling sampling;
    int64_t max_tokens;
    uint64_t seed;
    int64_t weights_version; /* recorded in trajectories */
    int32_t rows; /* of each lane at once */
    const sr1_rollout_options *options;
    sr1_trajectory **out; /* [n_queries * group_size] */
    double *entropy; /* of each lane, or each trajectory of a server: summed in their
                        order, which no thread changes */
    pthread_mutex_t lock; /* over all below and the caller's callbacks */
    size_t finished;
    struct sr1__rollout_stats stats;
};

/* Rows of each lane, as configured. */
int32_t sr1__rollout_lane_rows(const sr1_rollout *r);
/* Of its decoder, which can hold a step at four levels (levels.c) too. */
#define SR1__LEVEL_ROWS 6
int32_t sr1__rollout_decoder_rows(const sr1_rollout *r);
/* Those of all lanes, where they are not there yet. */
sr1_status sr1__rollout_make_decoders(sr1_rollout *r);

/* Make the trajectories of every query q with q % n_lanes == lane. */
sr1_status sr1__lane_run(struct sr1__generation *g, int32_t lane);

/* Query i of a caller's array, whose elements lie queries[0].struct_size apart; 0 for the
 * fields that an older caller's struct lacks. */
sr1_query sr1__query_at(const sr1_query *queries, size_t i);

/* Can its history be put into a prompt? SR1_E_INVALID, SR1_E_LIMIT. */
sr1_status sr1__query_check(const sr1_query *queries, size_t i);

/* Id of a query: its own, or derived from its text and history into buf. */
#define SR1__QUERY_ID_MAX 32
const char *sr1__query_id(const sr1_query *q, char buf[SR1__QUERY_ID_MAX]);

/* An empty trajectory for a query that asks nothing. */
int sr1__query_is_empty(const sr1_query *q);

#endif
