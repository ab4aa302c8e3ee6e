/* signal/advantage/advantage_internal.h - declarations shared by the estimators of
 * estimators.def. */
#ifndef SR1__ADVANTAGE_ADVANTAGE_INTERNAL_H
#define SR1__ADVANTAGE_ADVANTAGE_INTERNAL_H

#include "signal/advantage/group.h"

#include <searchr1/advantage.h>
#include <searchr1/ext/estimators.h>

struct sr1__advantage_call;

/* A row of the table of estimators, or one that the program registered. */
struct sr1__estimator {
    sr1_advantage_info info;
    sr1_status (*estimate)(struct sr1__advantage_call *a);
    sr1_advantage_options published;
    sr1_advantage_ops ops; /* of one that was registered */
    void *self;
};

/* One call of an estimator. The batch and the options are read whole and checked. */
struct sr1__advantage_call {
    const struct sr1__estimator *row;
    const sr1_advantage_batch *b;
    const sr1_advantage_options *o;
    size_t n;                          /* trajectories */
    size_t n_tokens;                   /* T */
    size_t n_turns;                    /* U */
    const double *scores;              /* [n] rewards with their token_rewards */
    const struct sr1__member *members; /* [n] trajectories by group */
    /* Filled by the estimator; zeros before. */
    double *each;    /* [n] where tokens do not differ */
    double *tokens;  /* [T] SR1_ADVANTAGE_GIVES_TOKENS */
    double *returns; /* [T] SR1_ADVANTAGE_GIVES_RETURNS */
    double *turns;   /* [U] SR1_ADVANTAGE_GIVES_TURNS */
    sr1_advantage_report report;
};

/* Every estimator: fills what its row says it gives. */
#define ADVANTAGE(name, ...)                                                             \
    sr1_status sr1__advantage_##name(struct sr1__advantage_call *a);
#include "signal/advantage/estimators.def"
#undef ADVANTAGE

/* ---- advantage.c ---- */

/* The estimator of that name; SR1_E_NOT_FOUND lists the names. */
sr1_status sr1__estimator_find(const char *name, const struct sr1__estimator **out);

/* ---- registered_estimators.c ---- */

/* Estimator i of those that the program registered; NULL past the last. */
const struct sr1__estimator *sr1__registered_estimator(size_t i);

/* ---- advantage_batch.c ---- */

/* *b holds what the caller gave, checked: maps that fit together, finite numbers. */
sr1_status sr1__advantage_read(const sr1_advantage_batch *given, sr1_advantage_batch *b);

/* Name of the first field of `needs` that b lacks, or NULL. */
const char *sr1__advantage_missing(const sr1_advantage_batch *b, int32_t needs);

/* ---- reward_maps.c ---- */

/* Turn of policy token t within its trajectory. */
size_t sr1__turn_of(const sr1_advantage_batch *b, size_t t);

/* Does component c not apply to trajectory i? */
static inline int sr1__component_absent(const sr1_advantage_batch *b, size_t i, size_t c)
{
    return b->component_absent != NULL && b->component_absent[i * b->n_components + c];
}

/* Is it one of the tokens that have what belongs to their turn (step_tokens)? */
int sr1__has_turn_advantage(const sr1_advantage_batch *b, size_t t);

/* scores[n]: rewards with the token_rewards of the trajectory. */
void sr1__advantage_scores(const sr1_advantage_batch *b, double *scores);

/* out[n]: scores without what turns were given. *flat receives the rounding that is left
 * in them: differences up to it are none. */
void sr1__advantage_outcomes(const struct sr1__advantage_call *a, double *out,
                             double *flat);

/* out[T]: the whole reward by token: token_rewards; that of a turn at the turn's last
 * policy token (one before it if it has none, else the first); what is left at the last
 * of the trajectory. Sums to the score wherever a trajectory has tokens. */
void sr1__token_rewards(const struct sr1__advantage_call *a, double *out);

/* out[U]: discounted sum of a turn's rewards and those behind it. outcome: the reward
 * that is no turn's and the token_rewards count too. */
void sr1__turn_returns(const struct sr1__advantage_call *a, int outcome, double *out);

/* v[T] becomes v_t + gamma v_{t+1} + ... within each trajectory. */
void sr1__discount_tokens(const struct sr1__advantage_call *a, double gamma, double *v);

/* tokens[t] = each[i] + w * turns[u] of each token's trajectory i and turn u; each[i]
 * where step_tokens has 0. */
void sr1__turns_to_tokens(struct sr1__advantage_call *a, double w);

/* ---- group.c ---- */

/* How o normalises a group; divide by the standard deviation or not. */
struct sr1__norm sr1__norm_of(const sr1_advantage_options *o, int32_t divide);

/* Of every group of trajectories, v[n] normalised into out[n]; may be the same. */
sr1_status sr1__normalise_groups(const struct sr1__advantage_call *a, const double *v,
                                 const struct sr1__norm *how, double *out);

/* Of the turns m[0..count) sorted, turns[] normalised within each run of one key. Counts
 * turns compared and alone. */
sr1_status sr1__normalise_turns(struct sr1__advantage_call *a,
                                const struct sr1__member *m, size_t count,
                                const struct sr1__norm *how);

/* The turns with use[u] (NULL: all), sorted by group of their trajectory, then keys[u].
 * Caller frees *out with sr1__free. */
sr1_status sr1__turn_groups(const struct sr1__advantage_call *a, const uint64_t *keys,
                            const uint8_t *use, struct sr1__member **out, size_t *count);

/* each[] divided by the deviation of all scores of the batch + eps; as it is where they
 * are all equal. */
sr1_status sr1__divide_by_batch_std(struct sr1__advantage_call *a);

/* v[0..n) to mean 0 and variance 1: (v - mean) / sqrt(var + eps), var unbiased (verl's
 * masked_whiten); weights: how often each counts, NULL: once. Equal values give 0, too
 * large ones NaN. */
void sr1__whiten(double *v, const double *weights, size_t n, double eps);

/* each[] whitened; every trajectory counts as often as it has policy tokens. */
sr1_status sr1__whiten_by_tokens(struct sr1__advantage_call *a);

#endif
