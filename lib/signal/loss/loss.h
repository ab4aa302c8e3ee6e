/* signal/loss/loss.h - the inside of the losses, shared by the files of this module and
 * called by the trainer.
 *
 *     losses.def             every policy loss
 *     loss_forms.c           the loss of a token as a function of ratio and advantage
 *     registered_losses.c    losses of the program's own
 *     importance_weights.c   weights of tokens that another policy sampled
 *     rejection.c            tokens that are left out for what sampled them
 *     loss_check.c           checks of the caller's arrays and options
 *     loss.c                 the table; one loss over a batch
 *     aggregation.c          each token's share in the mean
 *     entropy_threshold.c    tokens of high entropy alone
 *     covariance_choice.c    tokens that clip_cov and kl_cov treat apart
 *     value_loss.c           the critic's loss */
#ifndef SR1__LOSS_LOSS_H
#define SR1__LOSS_LOSS_H

#include "signal/kl/kl.h"

#include "base/error.h"

#include <searchr1/ext/loss.h>

/* ---- what one token costs ---- */

struct sr1__loss_term {
    double value; /* TRL: per_token_loss */
    double slope; /* d value / d new log-prob, or d log r: autograd's part elsewhere */
    int bound;    /* what holds it, SR1_LOSS_BOUND_* */
};

struct sr1__loss_token {
    double log_ratio; /* d, as the loss's row says */
    double ratio;     /* exp(d), bounded */
    int live;         /* 0: the bound holds, gradient 0 */
    double advantage;
    double now; /* new log-prob */
    int chosen; /* of the batch's: covariance_choice.c */
};

typedef struct sr1__loss_term (*sr1__loss_form)(const struct sr1__loss_token *t,
                                                const sr1_loss_options *o);

struct sr1__loss_term sr1__form_clip(const struct sr1__loss_token *t,
                                     const sr1_loss_options *o);
struct sr1__loss_term sr1__form_bounded_weight(const struct sr1__loss_token *t,
                                               const sr1_loss_options *o);
struct sr1__loss_term sr1__form_soft_gate(const struct sr1__loss_token *t,
                                          const sr1_loss_options *o);
struct sr1__loss_term sr1__form_gamma_weight(const struct sr1__loss_token *t,
                                             const sr1_loss_options *o);
struct sr1__loss_term sr1__form_gain(const struct sr1__loss_token *t,
                                     const sr1_loss_options *o);
struct sr1__loss_term sr1__form_clip_cov(const struct sr1__loss_token *t,
                                         const sr1_loss_options *o);
struct sr1__loss_term sr1__form_kl_cov(const struct sr1__loss_token *t,
                                       const sr1_loss_options *o);
struct sr1__loss_term sr1__form_total_variation(const struct sr1__loss_token *t,
                                                const sr1_loss_options *o);
struct sr1__loss_term sr1__form_binary_kl(const struct sr1__loss_token *t,
                                          const sr1_loss_options *o);
struct sr1__loss_term sr1__form_squared_ratio(const struct sr1__loss_token *t,
                                              const sr1_loss_options *o);
struct sr1__loss_term sr1__form_log_prob(const struct sr1__loss_token *t,
                                         const sr1_loss_options *o);
struct sr1__loss_term sr1__form_imitation(const struct sr1__loss_token *t,
                                          const sr1_loss_options *o);

/* exp of x within +-20; *live is 0 where that bound holds. */
double sr1__bounded_exp(double x, int *live);

/* ---- importance_weights.c ---- */

/* A row of the table of corrections. */
struct sr1__correction {
    const char *name;
    int by_sequence;
    int masks; /* drops what is out of bounds instead of cutting it */
};

/* name NULL: none. SR1_E_NOT_FOUND lists the names. */
sr1_status sr1__correction_find(const char *name, const struct sr1__correction **out);
/* weights[n] of a checked batch's tokens under the correction of o, cut as it says. */
void sr1__importance_weights(const sr1_loss_options *o, const sr1_loss_batch *b,
                             double *weights);

/* ---- rejection.c ---- */

struct sr1__criterion_row;

/* A criterion and the values it keeps, from low to high; of k2 and k3 low is 0. */
struct sr1__criterion {
    const struct sr1__criterion_row *row;
    double low, high;
};

#define SR1__CRITERIA 11

struct sr1__rejection {
    size_t n; /* 0: nothing is rejected */
    struct sr1__criterion criteria[SR1__CRITERIA];
};

/* verl's rollout_rs and rollout_rs_threshold. SR1_E_NOT_FOUND lists the criteria;
 * SR1_E_INVALID: there is none, one is there twice, or thresholds do not fit. */
sr1_status sr1__rejection_parse(struct sr1__rejection *out, const char *criteria,
                                const char *thresholds);
const char *sr1__criterion_name(const struct sr1__criterion *k);
int sr1__criterion_by_token(const struct sr1__criterion *k);
/* Clear keep[n] of the tokens of a checked batch that k rejects; its figures. */
void sr1__reject_by(const struct sr1__criterion *k, const sr1_loss_batch *b,
                    uint8_t *keep, sr1_rejection_report *report);
/* The fractions of all criteria together, of which keep is what they left. */
void sr1__rejection_count(const sr1_loss_batch *b, const uint8_t *keep,
                          sr1_rejection_report *report);

/* ---- the table ---- */

enum sr1__ratio {
    SR1__RATIO_TOKEN,
    SR1__RATIO_SEQUENCE,
    SR1__RATIO_SEQUENCE_CLIPPED,
    SR1__RATIO_SEQUENCE_TOKEN,
    SR1__RATIO_SEQUENCE_SUM
};

struct sr1__loss_call;

struct sr1__loss_row {
    const char *name, *formula, *source, *options, *aggregation;
    int32_t needs;
    enum sr1__ratio ratio;
    sr1__loss_form form; /* NULL: one that was registered */
    sr1_loss_options defaults;
    sr1_loss_ops ops; /* of one that was registered */
    void *self;
};

/* The loss of that name, or NULL. */
const struct sr1__loss_row *sr1__loss_find(const char *name);
/* The same; SR1_E_NOT_FOUND lists the names. */
sr1_status sr1__loss_named(const char *name, const struct sr1__loss_row **out);

/* ---- registered_losses.c ---- */

/* Loss i of those that the program registered; NULL past the last. */
const struct sr1__loss_row *sr1__registered_loss(size_t i);
/* Fill c->terms, of which c owns one block; free with sr1__loss_terms_free. */
sr1_status sr1__loss_terms_make(struct sr1__loss_call *c);
void sr1__loss_terms_free(struct sr1__loss_call *c); /* zeroed terms are fine */

/* Is the slope of a token without advantage 0? */
static inline int sr1__loss_is_zero_without_advantage(const struct sr1__loss_row *row)
{
    return row->form
               ? row->form != sr1__form_kl_cov && row->form != sr1__form_squared_ratio
               : row->ops.zero_without_advantage;
}

/* Are clip_low and clip_high bounds of a divergence, not of the ratio? */
static inline int sr1__loss_holds_divergence(const struct sr1__loss_row *row)
{
    return row->form == sr1__form_total_variation || row->form == sr1__form_binary_kl;
}

/* ---- covariance_choice.c ---- */

/* Has the loss tokens that it treats apart? at_old: where new and old log-probs are of
 * the same weights, |new - old| and its slope are 0. */
int sr1__loss_chooses(const struct sr1__loss_row *row, int32_t at_old);
/* sr1_loss_choose of a row of the table. */
sr1_status sr1__loss_choose(const struct sr1__loss_row *row, const sr1_loss_batch *batch,
                            const sr1_loss_options *options, uint64_t seed,
                            uint8_t *chosen);

/* One call: what was given, read whole and checked, and what it leads to. */
struct sr1__loss_call {
    const struct sr1__loss_row *row;
    sr1_loss_batch b;
    sr1_loss_options o;
    struct sr1__kl kl;
    const struct sr1__correction *correction;
    double *log_ratios;   /* [n] d */
    double *factors;      /* [n] importance weights, 0 for what has no policy loss */
    double *gradient;     /* [n] */
    sr1_loss_terms terms; /* of a loss that was registered */
    sr1_loss_report sum;
};

/* Token i's share. */
static inline double sr1__loss_weight(const sr1_loss_batch *b, size_t i)
{
    return b->weights ? b->weights[i] : 1.0 / (double)b->n;
}

/* Has token i no policy loss by its entropy? */
static inline int sr1__loss_entropy_is_low(const struct sr1__loss_call *c, size_t i)
{
    return c->o.entropy_threshold > 0.0 && c->b.entropies[i] < c->o.entropy_threshold;
}

/* Factors of all tokens and what the report says of them. */
void sr1__loss_apply_correction(struct sr1__loss_call *c);

/* sr1_loss_compute of a row of the table; options NULL: its defaults. */
sr1_status sr1__loss_run(const struct sr1__loss_row *row, const sr1_loss_batch *batch,
                         const sr1_loss_options *options, float *gradient,
                         float *entropy_gradient, sr1_loss_report *report);

/* Add the report of one part of a batch to the running total. */
void sr1__loss_report_add(sr1_loss_report *total, const sr1_loss_report *part);
/* 1 - error / returns, of variances; 0 where that of returns is only what rounding leaves
 * of equal ones, whose mean square is `square`. */
double sr1__explained_variance(double error, double returns, double square);

void sr1__value_report_add(sr1_value_report *total, const sr1_value_report *part);
/* Multiply what adds up, tokens apart, by v. */
void sr1__loss_report_scale(sr1_loss_report *r, double v);
void sr1__value_report_scale(sr1_value_report *r, double v);

/* ---- loss_check.c ---- */

/* Fill c->b, c->o, c->kl and c->correction from what the caller gave. */
sr1_status sr1__loss_read(struct sr1__loss_call *c, const sr1_loss_batch *batch,
                          const sr1_loss_options *options);
/* SR1_E_NUMERIC names the first of v[n] (may be NULL) that is not finite. */
sr1_status sr1__loss_check_finite(const char *array, const float *v, size_t n);
/* begin[n + 1] rises from 0. */
sr1_status sr1__loss_check_begin(const int64_t *begin, size_t n);
/* Where seq_begin is given, whole sequences take up all tokens. */
sr1_status sr1__loss_check_sequences(const sr1_loss_batch *b);

/* ---- aggregation.c ---- */

struct sr1__aggregation;

/* The aggregation of that name; SR1_E_NOT_FOUND lists the names. */
sr1_status sr1__aggregation_find(const char *name, const struct sr1__aggregation **out);
/* 1 where the weights of a whole batch sum to 1. */
int sr1__aggregation_is_mean(const struct sr1__aggregation *a);
/* 1 where they are counted by groups. */
int sr1__aggregation_by_group(const struct sr1__aggregation *a);
/* sr1_loss_weights of a row of the table. */
sr1_status sr1__aggregation_weights(const struct sr1__aggregation *a,
                                    const sr1_loss_maps *maps, float *weights);

/* A sequence for the sums of its group. */
struct sr1__group_member {
    uint64_t key;
    size_t at;
    int64_t tokens;
};

/* Sort members by key; out[at] becomes the tokens of the whole group of each. Returns the
 * number of groups with any. */
int64_t sr1__group_tokens(struct sr1__group_member *list, size_t n, int64_t *out);

#endif
