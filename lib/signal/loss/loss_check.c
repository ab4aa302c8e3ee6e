/* signal/loss/loss_check.c - read the caller's arrays and options, as far as their
 * structs go, and check them before anything is computed. */
#include "signal/loss/loss.h"

#include "base/buf.h"
#include "base/struct.h"

#include <math.h>

sr1_status sr1__loss_check_finite(const char *array, const float *v, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC,
                             "loss: token %zu of %zu: %s is not finite (%g)", i, n, array,
                             (double)v[i]);
    return SR1_OK;
}

sr1_status sr1__loss_check_begin(const int64_t *begin, size_t n)
{
    if (begin[0] != 0)
        return sr1__fail(SR1_E_INVALID, "loss: seq_begin must start at 0");
    for (size_t s = 0; s < n; s++)
        if (begin[s + 1] < begin[s])
            return sr1__fail(SR1_E_INVALID, "loss: seq_begin falls after sequence %zu",
                             s);
    return SR1_OK;
}

static sr1_status require_loss_array(const struct sr1__loss_call *c, const void *array,
                                     const char *name)
{
    if (array || c->b.n == 0)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID, "loss %s: %s is required", c->row->name, name);
}

sr1_status sr1__loss_check_sequences(const sr1_loss_batch *b)
{
    if (!b->seq_begin)
        return SR1_OK;
    SR1__TRY(sr1__loss_check_begin(b->seq_begin, b->n_seqs));
    if (b->seq_begin[b->n_seqs] != (int64_t)b->n)
        return sr1__fail(SR1_E_INVALID, "loss: seq_begin ends at %lld, not at n = %zu",
                         (long long)b->seq_begin[b->n_seqs], b->n);
    for (size_t s = 0; b->seq_tokens && s < b->n_seqs; s++) {
        int64_t here = b->seq_begin[s + 1] - b->seq_begin[s];

        if (here != b->seq_tokens[s])
            return sr1__fail(SR1_E_INVALID,
                             "loss: sequence %zu was cut: %lld of its %lld tokens are "
                             "here; keep sequences whole",
                             s, (long long)here, (long long)b->seq_tokens[s]);
    }
    return SR1_OK;
}

static sr1_status check_loss_needs(const struct sr1__loss_call *c)
{
    const sr1_loss_options *o = &c->o;
    int by_sequence = (c->row->needs & SR1_LOSS_NEEDS_SEQUENCES) != 0 ||
                      o->off_policy_delta > 0.0 ||
                      (c->correction && c->correction->by_sequence);

    SR1__TRY(require_loss_array(c, c->b.new_log_probs, "new_log_probs"));
    if (c->row->needs & SR1_LOSS_NEEDS_OLD)
        SR1__TRY(require_loss_array(c, c->b.old_log_probs, "old_log_probs"));
    if (c->row->needs & SR1_LOSS_NEEDS_ADVANTAGES)
        SR1__TRY(require_loss_array(c, c->b.advantages, "advantages"));
    if (c->row->needs == 0)
        return SR1_OK;
    if (by_sequence)
        SR1__TRY(require_loss_array(c, c->b.seq_begin, "seq_begin"));
    if (o->beta != 0.0 && !c->b.ref_log_probs && c->b.n)
        return sr1__fail(SR1_E_INVALID, "loss: beta is not 0 but ref_log_probs is NULL");
    if (o->entropy_coef != 0.0)
        SR1__TRY(require_loss_array(c, c->b.entropies, "entropies (for entropy_coef)"));
    if (o->entropy_threshold > 0.0)
        SR1__TRY(
            require_loss_array(c, c->b.entropies, "entropies (for entropy_threshold)"));
    if (c->correction && c->row->ratio == SR1__RATIO_SEQUENCE_SUM)
        return sr1__fail(
            SR1_E_INVALID,
            "loss %s weighs sequences by their importance itself; give the "
            "rollout policy's log-probs as old_log_probs, without a correction",
            c->row->name);
    return SR1_OK;
}

static sr1_status check_loss_finite(const struct sr1__loss_call *c)
{
    const sr1_loss_batch *b = &c->b;

    SR1__TRY(sr1__loss_check_finite("new_log_probs", b->new_log_probs, b->n));
    SR1__TRY(sr1__loss_check_finite("weights", b->weights, b->n));
    if (c->row->needs == 0)
        return SR1_OK;
    SR1__TRY(sr1__loss_check_finite("old_log_probs", b->old_log_probs, b->n));
    SR1__TRY(sr1__loss_check_finite("advantages", b->advantages, b->n));
    SR1__TRY(sr1__loss_check_finite("ref_log_probs", b->ref_log_probs, b->n));
    SR1__TRY(sr1__loss_check_finite("rollout_log_probs", b->rollout_log_probs, b->n));
    return sr1__loss_check_finite("entropies", b->entropies, b->n);
}

/* ---- options ---- */

static sr1_status bad_option(const char *name, double v, const char *want)
{
    return sr1__fail(SR1_E_INVALID,
                     "loss options: %s is %g, which is not %s; begin with "
                     "sr1_loss_options_init",
                     name, v, want);
}

static sr1_status check_loss_options(const struct sr1__loss_call *c)
{
    const sr1_loss_options *o = &c->o;
    sr1__loss_form form = c->row->form;
    const struct {
        const char *name;
        double v;
        int ok;
        const char *want;
    } rules[] = {
        {"clip_low", o->clip_low, o->clip_low >= 0.0, "0 or more"},
        {"clip_high", o->clip_high, o->clip_high >= 0.0, "0 or more"},
        {"dual_clip", o->dual_clip, o->dual_clip == 0.0 || o->dual_clip > 1.0,
         "0 or above 1"},
        {"ratio_cap", o->ratio_cap, o->ratio_cap == 0.0 || o->ratio_cap > 1.0,
         "0 or above 1"},
        {"ratio_cap", o->ratio_cap,
         o->ratio_cap == 0.0 || form != sr1__form_clip ||
             o->ratio_cap >= 1.0 + o->clip_high,
         "0 or at least 1 + clip_high (inside the clip a cap would take the gradient)"},
        {"tau_positive", o->tau_positive,
         o->tau_positive > 0.0 || form != sr1__form_soft_gate, "above 0"},
        {"tau_negative", o->tau_negative,
         o->tau_negative > 0.0 || form != sr1__form_soft_gate, "above 0"},
        {"lambda_positive", o->lambda_positive,
         o->lambda_positive > 0.0 || form != sr1__form_gamma_weight, "above 0"},
        {"lambda_negative", o->lambda_negative,
         o->lambda_negative > 0.0 || form != sr1__form_gamma_weight, "above 0"},
        {"k_positive", o->k_positive, o->k_positive >= 0.0, "0 or more"},
        {"k_negative", o->k_negative, o->k_negative >= 0.0, "0 or more"},
        {"beta", o->beta, 1, ""},
        {"entropy_coef", o->entropy_coef, 1, ""},
        {"correction_high", o->correction_high,
         o->correction_high > 0.0 || !c->correction, "above 0"},
        {"correction_low", o->correction_low,
         o->correction_low >= 0.0 &&
             (!c->correction || o->correction_low <= o->correction_high),
         "from 0 to correction_high"},
        {"off_policy_delta", o->off_policy_delta, o->off_policy_delta >= 0.0,
         "0 or more"},
        {"clip_cov_ratio", o->clip_cov_ratio,
         (o->clip_cov_ratio > 0.0 && o->clip_cov_ratio <= 1.0) ||
             form != sr1__form_clip_cov,
         "above 0, and at most 1"},
        {"clip_cov_lb", o->clip_cov_lb, 1, ""},
        {"clip_cov_ub", o->clip_cov_ub,
         o->clip_cov_ub >= o->clip_cov_lb || form != sr1__form_clip_cov,
         "clip_cov_lb or more"},
        {"kl_cov_ratio", o->kl_cov_ratio,
         (o->kl_cov_ratio > 0.0 && o->kl_cov_ratio <= 1.0) || form != sr1__form_kl_cov,
         "above 0, and at most 1"},
        {"ppo_kl_coef", o->ppo_kl_coef, o->ppo_kl_coef >= 0.0, "0 or more"},
        {"dro_beta", o->dro_beta, o->dro_beta >= 0.0, "0 or more"},
        {"entropy_threshold", o->entropy_threshold, o->entropy_threshold >= 0.0,
         "0 or more"},
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (!isfinite(rules[i].v) || !rules[i].ok)
            return bad_option(rules[i].name, rules[i].v,
                              isfinite(rules[i].v) ? rules[i].want : "finite");
    return SR1_OK;
}

static sr1_status read_loss_call_options(struct sr1__loss_call *c,
                                         const sr1_loss_options *given)
{
    c->o = c->row->defaults;
    c->o.struct_size = sizeof(c->o);
    if (given) {
        c->o = (sr1_loss_options){0};
        SR1__TRY(sr1__struct_take(&c->o, sizeof(c->o), given,
                                  SR1__STRUCT_END(sr1_loss_options, clip_high),
                                  "loss options"));
    }
    SR1__TRY(sr1__kl_find(c->o.kl_kind ? c->o.kl_kind : "k3", &c->kl));
    SR1__TRY(sr1__correction_find(c->o.correction, &c->correction));
    return c->row->needs ? check_loss_options(c) : SR1_OK;
}

sr1_status sr1__loss_read(struct sr1__loss_call *c, const sr1_loss_batch *batch,
                          const sr1_loss_options *options)
{
    if (!batch)
        return sr1__fail(SR1_E_INVALID, "loss: batch is required");
    SR1__TRY(sr1__struct_take(&c->b, sizeof(c->b), batch,
                              SR1__STRUCT_END(sr1_loss_batch, new_log_probs),
                              "loss batch"));
    SR1__TRY(read_loss_call_options(c, options));
    SR1__TRY(check_loss_needs(c));
    SR1__TRY(sr1__loss_check_sequences(&c->b));
    return check_loss_finite(c);
}
