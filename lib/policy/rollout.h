/* policy/rollout.h - rollouts as the trainer sees them (see searchr1/rollout.h). */
#ifndef SR1__POLICY_ROLLOUT_H
#define SR1__POLICY_ROLLOUT_H

#include "tensor/model/model.h"
#include "environment/trajectory/microbatch.h"
#include "retrieval/net/server_pool.h"
#include "tensor/weights/sampling.h"

#include <searchr1/rollout.h>

struct sr1__pool;

/* Engines work side by side on trajectories of their own (key `workers`): their number, a
 * model for each that shares the weights, and a pool of as many threads (NULL for one
 * engine). All borrowed until the rollout is freed. */
int32_t sr1__rollout_replicas(const sr1_rollout *r, sr1_model ***replicas,
                              struct sr1__pool **pool);

/* Threads of one operation of each of them, 0 where there are none. Who computes with
 * its weights on the caller's thread swaps them in for that time
 * (sr1__torch_threads_swap): what was opened since may have others. */
int32_t sr1__rollout_threads(const sr1_rollout *r);

/* Of answers of servers. */
struct sr1__remote_stats {
    int64_t answers;
    int64_t sources[3];     /* of them, by SR1__SERVER_* */
    int64_t drifted;        /* their text alone would have given other ids */
    int64_t prompts_differ; /* the server read other ids than the row has */
    int64_t dropped_tokens; /* given beyond the end of a turn */
    int64_t server_tokens;  /* generated, as the server counted */
    int64_t failed;         /* trajectories dropped: it gave no answer */
    struct sr1__server_counts servers[SR1__SERVERS_MAX]; /* in the order of their key */
    int64_t n_servers;                                   /* 0: nothing was asked */
    int64_t live; /* of them, when the last generation was over */
};
/* The prompt of row i; *ids NULL: it is too long, and such rows are left out (key
 * filter_overlong_prompts). Caller frees *ids with sr1_free. */
sr1_status sr1__rollout_row_prompt(const sr1_rollout *r, const sr1_dataset *d, int64_t i,
                                   int32_t **ids, size_t *n);
/* Of the first n rows those whose prompts fit (key filter_overlong_prompts); without that
 * key the first that does not is SR1_E_LIMIT. what: "questions", for messages. Free *rows
 * with sr1__free. */
sr1_status sr1__rollout_filter_prompts(const sr1_rollout *r, const sr1_dataset *d,
                                       const char *what, int64_t n, int64_t **rows,
                                       int64_t *kept);
/* As sr1_evaluate, of a dataset all of whose prompts are known to fit; by the ranks of d,
 * which each get the scores of all rows; d NULL: by this process. */
struct sr1__dist;
sr1_status sr1__evaluate_filtered(sr1_evaluation **out, struct sr1__dist *d,
                                  sr1_rollout *rollout, const sr1_dataset *dataset,
                                  const sr1_eval_options *options);
/* Does the environment of c search an engine that nobody named? SR1_E_CONFIG if so; the
 * other asks that of a rollout, whose engine may be the caller's. */
int sr1__engine_is_unnamed(const sr1_config *c);
sr1_status sr1__engine_check(const sr1_config *c);
sr1_status sr1__rollout_check_engine(const sr1_rollout *r);
/* SR1_E_CONFIG where the program of the run gave it an environment and nobody gives the
 * rollout one; the one above finds that too. */
sr1_status sr1__rollout_check_env(const sr1_rollout *r);
/* What to say of such a configuration. */
void sr1__engine_warning(const sr1_config *c, char *text, size_t size);
/* 1 with what to say where the policy is told to do what its environment does not answer,
 * else 0. */
int sr1__env_pair_warning(const sr1_config *c, char *text, size_t size);
/* The model that revises critiques; NULL without one that is local. It stands still.
 * Borrowed until the rollout is freed. */
sr1_model *sr1__rollout_reviser(const sr1_rollout *r);
/* The problems of the environment critique, else NULL. Borrowed likewise. */
struct sr1_problems *sr1__rollout_problems(const sr1_rollout *r);

/* Sums over one sr1_rollout_generate. */
struct sr1__rollout_stats {
    double entropy;        /* nats, over policy tokens */
    double search_seconds; /* in which an engine's loop could only wait for answers */
    int64_t policy_tokens;
    int64_t decode_steps; /* forwards of the decoders */
    int64_t searches;
    int64_t failed_searches;
    int64_t refused_actions; /* wrong in themselves: nothing was carried out */
    char failure[512];       /* why the last of them failed; "": nobody said it */
    int64_t engine_queries;  /* asked of the search engine */
    int64_t engine_calls;    /* that this took */
    struct sr1__remote_stats remote;
};

/* Add what is counted; of live servers the fewer. */
void sr1__remote_stats_add(struct sr1__remote_stats *sum,
                           const struct sr1__remote_stats *s);
/* Of the last generate. */
void sr1__rollout_stats(const sr1_rollout *r, struct sr1__rollout_stats *out);
/* What a generation counted: it is the last one. */
void sr1__rollout_count(sr1_rollout *r, const struct sr1__rollout_stats *stats);
/* Those of several rollouts that together were one. */
void sr1__rollout_set_stats(sr1_rollout *r, const struct sr1__rollout_stats *stats);
/* Steps the weights have seen, recorded in trajectories. */
void sr1__rollout_set_version(sr1_rollout *r, int64_t version);

/* sr1_rollout_new for one who learns: with a model also where a server generates, which
 * must then give ids and log-probs. */
sr1_status sr1__rollout_new_trained(sr1_rollout **out, const sr1_config *config,
                                    sr1_search *search);
/* 1 where a server generates. */
int32_t sr1__rollout_is_remote(const sr1_rollout *r);
/* The servers; NULL where none generates. Borrowed until the rollout is freed. */
struct sr1__server_pool *sr1__rollout_servers(const sr1_rollout *r);
/* 1: the model generates in its place from now on, for its own evaluation; 0: no more. */
void sr1__rollout_use_local(sr1_rollout *r, int32_t local);
/* Steps the server's weights have seen: -1 until this is said. */
void sr1__rollout_set_server_version(sr1_rollout *r, int64_t version);
int64_t sr1__rollout_server_version(const sr1_rollout *r);

/* Dropout of adapters in an update: the masks of a token are a function of key, its
 * owner (of a prompt its group, else its trajectory's index) and its place, however the
 * update is cut into micro-batches. */
struct sr1__token_dropout {
    double p;
    uint64_t key;
};

/* Log-probs [M] of a micro-batch's policy tokens by a model: the training forward. */
struct sr1__log_prob_options {
    double temperature;
    int64_t logit_chunk;
    int checkpoint;
    sr1_tensor **entropy; /* receives their distributions' entropies [M]; or NULL */
    const struct sr1__token_dropout *dropout; /* NULL: none */
    struct sr1__router_loss *router;          /* NULL: none */
    struct sr1__route_log *routes; /* which experts tokens go through; NULL: any */
    uint32_t recording;            /* as in struct sr1__routes */
};
sr1_tensor *sr1__forward_log_probs(sr1_scope *s, sr1_model *m,
                                   const struct sr1__microbatch *mb,
                                   const struct sr1__log_prob_options *o);
/* Keep the experts that tokens of a micro-batch, by its number from 0 on, go through
 * (tensor/model/route_log.h). */
sr1_status sr1__record_routes(sr1_model *m, const struct sr1__microbatch *mb,
                              size_t number, struct sr1__route_log *log);
/* The same numbers where no gradient is wanted, under the distribution of `how`: in fp32
 * on a CPU by the pass that decodes, and with its bits. */
sr1_status sr1__score_log_probs(sr1_model *m, const struct sr1__microbatch *mb,
                                const struct sr1__sampling *how, int64_t logit_chunk,
                                float *out);
/* Entropies of these tokens' distributions, where no gradient is wanted. */
sr1_status sr1__score_entropies(sr1_model *m, const struct sr1__microbatch *mb,
                                double temperature, int64_t logit_chunk, float *out);
/* Their score norms, 1 - 2 p + the sum of squared probabilities, likewise. */
sr1_status sr1__score_norms(sr1_model *m, const struct sr1__microbatch *mb,
                            double temperature, int64_t logit_chunk, float *out);
/* A critic's values [M] of the states before these tokens, fp32; dropout may be NULL. */
sr1_tensor *sr1__forward_values(sr1_scope *s, sr1_model *critic,
                                const struct sr1__microbatch *mb, int checkpoint,
                                const struct sr1__token_dropout *dropout);

#endif
