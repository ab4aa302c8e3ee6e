/* advantage/internal.h - what the estimators of estimators.def share. */
#ifndef SR1__ADVANTAGE_INTERNAL_H
#define SR1__ADVANTAGE_INTERNAL_H

#include "advantage/group.h"

#include <searchr1/advantage.h>

/* One call of an estimator. The batch and the options are read whole and checked. */
struct sr1__advantage {
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
#define ADVANTAGE(name, ...) sr1_status sr1__advantage_##name(struct sr1__advantage *a);
#include "advantage/estimators.def"
#undef ADVANTAGE

/* ---- batch.c ---- */

/* *b holds what the caller gave, checked: maps that fit together, finite numbers. */
sr1_status sr1__advantage_read(const sr1_advantage_batch *given, sr1_advantage_batch *b);

/* Name of the first field of `needs` that b lacks, or NULL. */
const char *sr1__advantage_missing(const sr1_advantage_batch *b, int32_t needs);

/* ---- maps.c ---- */

/* Turn of policy token t within its trajectory. */
size_t sr1__turn_of(const sr1_advantage_batch *b, size_t t);

/* Is it one of the tokens that have what belongs to their turn (step_tokens)? */
int sr1__has_turns_part(const sr1_advantage_batch *b, size_t t);

/* scores[n]: rewards with the token_rewards of the trajectory. */
void sr1__advantage_scores(const sr1_advantage_batch *b, double *scores);

/* out[n]: scores without what turns were given. *flat receives the rounding that is left
 * in them: differences up to it are none. */
void sr1__advantage_outcomes(const struct sr1__advantage *a, double *out, double *flat);

/* out[T]: the whole reward by token: token_rewards; that of a turn at the turn's last
 * policy token (one before it if it has none, else the first); what is left at the last
 * of the trajectory. Sums to the score wherever a trajectory has tokens. */
void sr1__token_rewards(const struct sr1__advantage *a, double *out);

/* out[U]: discounted sum of a turn's rewards and those behind it. outcome: the reward
 * that is no turn's and the token_rewards count too. */
void sr1__turn_returns(const struct sr1__advantage *a, int outcome, double *out);

/* v[T] becomes v_t + gamma v_{t+1} + ... within each trajectory. */
void sr1__discount_tokens(const struct sr1__advantage *a, double gamma, double *v);

/* tokens[t] = each[i] + w * turns[u] of each token's trajectory i and turn u; each[i]
 * where step_tokens has 0. */
void sr1__turns_to_tokens(struct sr1__advantage *a, double w);

/* ---- group.c ---- */

/* How o normalises a group; divide by the standard deviation or not. */
struct sr1__norm sr1__norm_of(const sr1_advantage_options *o, int32_t divide);

/* Of every group of trajectories, v[n] normalised into out[n]; may be the same. */
sr1_status sr1__normalise_groups(const struct sr1__advantage *a, const double *v,
                                 const struct sr1__norm *how, double *out);

/* Of the turns m[0..count) sorted, turns[] normalised within each run of one key. Counts
 * turns compared and alone. */
sr1_status sr1__normalise_turns(struct sr1__advantage *a, const struct sr1__member *m,
                                size_t count, const struct sr1__norm *how);

/* The turns with use[u] (NULL: all), sorted by group of their trajectory, then keys[u].
 * Caller frees *out with sr1__free. */
sr1_status sr1__turn_groups(const struct sr1__advantage *a, const uint64_t *keys,
                            const uint8_t *use, struct sr1__member **out, size_t *count);

/* v[0..n) to mean 0 and variance 1: (v - mean) / sqrt(var + eps), var unbiased (verl's
 * masked_whiten); weights: how often each counts, NULL: once. Equal values give 0, too
 * large ones NaN. */
void sr1__whiten(double *v, const double *weights, size_t n, double eps);

#endif
