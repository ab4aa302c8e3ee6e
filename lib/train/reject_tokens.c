/* train/reject_tokens.c - see reject_tokens.h. Whether a token is rejected depends on its
 * own trajectory alone (signal/loss/rejection.c), so that the cut into mini-batches,
 * micro-batches and ranks does not change it. What is rejected becomes context: it has no
 * part in the loss, its KL, the entropy bonus, the critic's loss or the counts by which
 * means are taken. */
#include "train/reject_tokens.h"

#include "base/log.h"
#include "base/mem.h"
#include "train/masked_copy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the tokens ---- */

static int is_in_update(const struct sr1__step_batch *b, size_t i, int32_t arg)
{
    (void)arg;
    return b->drop[i] == SR1__DROP_NONE;
}

/* Their log-probs, one trajectory after the other. */
struct rejection_job {
    const sr1_trainer *tr;
    struct sr1_step_metrics *metrics;
    struct sr1__batch_view v;
    struct sr1__kept_tokens *kept;
    float *old, *rollout; /* [tokens] */
};

static sr1_status reserve_rejection(struct rejection_job *j)
{
    struct sr1__kept_tokens *kept = j->kept;
    size_t n;

    kept->n = j->v.n;
    SR1__CALLOC(kept->begin, kept->n + 1, "rejected tokens");
    for (size_t k = 0; k < kept->n; k++)
        kept->begin[k + 1] =
            kept->begin[k] + (int64_t)sr1_trajectory_policy_count(j->v.t[k]);
    n = (size_t)kept->begin[kept->n];
    SR1__CALLOC(kept->keep, n + 1, "rejected tokens");
    memset(kept->keep, 1, n);
    j->old = sr1__calloc(n + 1, 2 * sizeof(float));
    if (!j->old)
        return sr1__fail_nomem("rejected tokens");
    j->rollout = j->old + n;
    return SR1_OK;
}

static void read_log_probs(struct rejection_job *j)
{
    for (size_t k = 0; k < j->v.n; k++) {
        size_t n = sr1_trajectory_policy_count(j->v.t[k]);
        size_t at = (size_t)j->kept->begin[k];

        if (n == 0)
            continue;
        memcpy(j->old + at, sr1_trajectory_column(j->v.t[k], SR1_COLUMN_OLD),
               n * sizeof(float));
        memcpy(j->rollout + at, sr1_trajectory_policy_log_probs(j->v.t[k]),
               n * sizeof(float));
    }
}

/* ---- figures ---- */

#define FIGURE(field)                                                                    \
    {                                                                                    \
#field, offsetof(sr1_rejection_report, field)                                    \
    }

static const struct {
    const char *name;
    size_t at;
} figures[] = {
    FIGURE(masked_fraction),
    FIGURE(seq_masked_fraction),
    FIGURE(mean),
    FIGURE(std),
    FIGURE(max),
    FIGURE(min),
    FIGURE(fraction_high),
    FIGURE(fraction_low),
    FIGURE(seq_mean),
    FIGURE(seq_std),
    FIGURE(seq_max),
    FIGURE(seq_min),
    FIGURE(seq_max_deviation),
    FIGURE(seq_fraction_high),
    FIGURE(seq_fraction_low),
};

/* verl's names. */
static void report_criterion(struct rejection_job *j, const struct sr1__criterion *k,
                             const sr1_rejection_report *r)
{
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        char name[96];
        double v;

        memcpy(&v, (const char *)r + figures[i].at, sizeof(v));
        snprintf(name, sizeof(name), "rollout_corr/rollout_rs_%s_%s",
                 sr1__criterion_name(k), figures[i].name);
        sr1__metrics_add(j->metrics, name, v, SR1__LAST);
    }
}

/* Of all tokens: an update sees those alone that are near. */
static void report_differences(struct rejection_job *j)
{
    size_t n = (size_t)j->kept->begin[j->kept->n];
    double sum = 0.0, most = 0.0, probs_sum = 0.0, probs_most = 0.0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)j->old[i] - j->rollout[i]);
        double p = fabs(exp((double)j->old[i]) - exp((double)j->rollout[i]));

        sum += d;
        most = fmax(most, d);
        probs_sum += p;
        probs_most = fmax(probs_most, p);
    }
    sr1__metrics_add(j->metrics, "rollout_diff_max", most, SR1__LAST);
    sr1__metrics_add(j->metrics, "rollout_diff_mean", n ? sum / (double)n : 0.0,
                     SR1__LAST);
    sr1__metrics_add(j->metrics, "probs_diff_max", probs_most, SR1__LAST);
    sr1__metrics_add(j->metrics, "probs_diff_mean", n ? probs_sum / (double)n : 0.0,
                     SR1__LAST);
}

/* ---- all criteria ---- */

static void judge_tokens(struct rejection_job *j)
{
    const struct sr1__rejection *r = &j->tr->set.rejection;
    const sr1_loss_batch b = {.n = (size_t)j->kept->begin[j->kept->n],
                              .old_log_probs = j->old,
                              .rollout_log_probs = j->rollout,
                              .n_seqs = j->kept->n,
                              .seq_begin = j->kept->begin};
    sr1_rejection_report report = {0};

    for (size_t i = 0; i < r->n; i++) {
        sr1__reject_by(&r->criteria[i], &b, j->kept->keep, &report);
        report_criterion(j, &r->criteria[i], &report);
    }
    sr1__rejection_count(&b, j->kept->keep, &report);
    sr1__metrics_add(j->metrics, "rs_masked", report.masked_fraction, SR1__LAST);
    sr1__metrics_add(j->metrics, "rs_seq_masked", report.seq_masked_fraction, SR1__LAST);
    report_differences(j);
    if (b.n > 0 && report.masked_fraction == 1.0)
        sr1__log(SR1_LOG_WARN,
                 "step %" PRId64 ": rollout_rs rejects every token, and nothing is "
                 "trained; give the server newer weights, or raise rollout_rs_threshold",
                 j->tr->step + 1);
}

/* If not, the update has to see them: it names the first, and is skipped. */
static int are_finite(const struct rejection_job *j)
{
    size_t n = (size_t)j->kept->begin[j->kept->n], i = 0;

    while (i < n && isfinite(j->old[i]) && isfinite(j->rollout[i]))
        i++;
    return i == n;
}

sr1_status sr1__reject_tokens(const struct sr1__step_batch *b,
                              struct sr1__kept_tokens *out)
{
    struct rejection_job j = {.tr = b->tr, .metrics = b->metrics, .kept = out};
    sr1_status st;

    *out = (struct sr1__kept_tokens){0};
    if (b->tr->set.rejection.n == 0)
        return SR1_OK;
    SR1__TRY(sr1__batch_view_of(b, 0, is_in_update, 0, &j.v));
    st = reserve_rejection(&j);
    if (st == SR1_OK) {
        read_log_probs(&j);
        if (are_finite(&j))
            judge_tokens(&j);
    }
    sr1__free(j.old);
    sr1__batch_view_free(&j.v);
    if (st != SR1_OK)
        sr1__kept_tokens_free(out);
    return st;
}

void sr1__kept_tokens_free(struct sr1__kept_tokens *k)
{
    sr1__free(k->begin);
    sr1__free(k->keep);
    *k = (struct sr1__kept_tokens){0};
}

sr1_status sr1__without_rejected(const struct sr1__kept_tokens *kept, size_t k,
                                 const sr1_trajectory *t, sr1_trajectory **out)
{
    const uint8_t *keep;
    const int32_t *at = sr1_trajectory_policy_positions(t);
    size_t n = sr1_trajectory_policy_count(t);
    struct sr1__masking m;
    sr1_status st;

    *out = NULL;
    if (!kept->keep)
        return SR1_OK;
    keep = kept->keep + kept->begin[k];
    if (n == 0 || !memchr(keep, 0, n))
        return SR1_OK;
    st = sr1__masking_open(&m, t);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        m.keep[at[i]] = keep[i];
    if (st == SR1_OK)
        st = sr1__masked_copy(&m, out);
    sr1__masking_close(&m);
    return st;
}
