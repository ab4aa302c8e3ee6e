/* signal/loss/covariance_choice.c - the tokens that clip_cov and kl_cov treat apart (Cui
 * et al. 2025, "The Entropy Mechanism", arXiv 2505.22617; verl): by
 *
 *     cov = (A - mean of A) (log p - mean of log p)
 *
 * over all tokens of a batch. kl_cov takes the largest; clip_cov draws of those between
 * two bounds that the clip does not hold. */
#include "signal/loss/loss.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"

#include <stdlib.h>
#include <string.h>

/* A batch whose tokens are chosen. */
struct choosing {
    const struct sr1__loss_call *c;
    uint64_t seed;
    double *covariances; /* [n] */
    int64_t *candidates; /* [n] room */
    uint8_t *chosen;     /* [n] to be marked, zeros before */
};

static double mean_of(const float *v, size_t n)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

static void fill_covariances(const struct choosing *k)
{
    const sr1_loss_batch *b = &k->c->b;
    double advantage = mean_of(b->advantages, b->n);
    double log_prob = mean_of(b->new_log_probs, b->n);

    for (size_t i = 0; i < b->n; i++)
        k->covariances[i] =
            (b->advantages[i] - advantage) * (b->new_log_probs[i] - log_prob);
}

/* That share of n, at least one. */
static size_t count_chosen(double share, size_t n)
{
    size_t count = (size_t)(share * (double)n);

    return count > 1 ? count : 1;
}

static int is_clipped(const struct sr1__loss_call *c, size_t i)
{
    struct sr1__loss_token t = {.log_ratio =
                                    (double)c->b.new_log_probs[i] - c->b.old_log_probs[i],
                                .advantage = c->b.advantages[i]};

    t.ratio = sr1__bounded_exp(t.log_ratio, &t.live);
    return sr1__form_clip_cov(&t, &c->o).bound != SR1_LOSS_BOUND_NONE;
}

static void draw_candidates(struct choosing *k)
{
    const sr1_loss_options *o = &k->c->o;
    size_t n = k->c->b.n, found = 0, count = count_chosen(o->clip_cov_ratio, n);
    struct sr1__rng r;

    for (size_t i = 0; i < n; i++)
        if (k->covariances[i] > o->clip_cov_lb && k->covariances[i] < o->clip_cov_ub &&
            !is_clipped(k->c, i))
            k->candidates[found++] = (int64_t)i;
    sr1__rng_seed(&r, k->seed, 0);
    sr1__rng_shuffle(&r, k->candidates, found);
    for (size_t i = 0; i < found && i < count; i++)
        k->chosen[k->candidates[i]] = 1;
}

struct ranked_covariance {
    double covariance;
    size_t index;
};

static int larger_covariance_first(const void *a, const void *b)
{
    const struct ranked_covariance *x = a, *y = b;

    if (x->covariance != y->covariance)
        return x->covariance > y->covariance ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static sr1_status take_largest(struct choosing *k)
{
    size_t n = k->c->b.n, count = count_chosen(k->c->o.kl_cov_ratio, n);
    struct ranked_covariance *ranks;

    SR1__CALLOC(ranks, n, "covariances");
    for (size_t i = 0; i < n; i++)
        ranks[i] = (struct ranked_covariance){k->covariances[i], i};
    qsort(ranks, n, sizeof(*ranks), larger_covariance_first);
    for (size_t i = 0; i < n && i < count; i++)
        k->chosen[ranks[i].index] = 1;
    sr1__free(ranks);
    return SR1_OK;
}

static sr1_status mark_chosen(struct choosing *k)
{
    fill_covariances(k);
    if (k->c->row->form == sr1__form_kl_cov)
        return take_largest(k);
    draw_candidates(k);
    return SR1_OK;
}

int sr1__loss_chooses(const struct sr1__loss_row *row, int32_t at_old)
{
    return row->form == sr1__form_clip_cov || (row->form == sr1__form_kl_cov && !at_old);
}

/* What the choice reads of the options: nothing that asks for more of the batch. */
static sr1_status read_choice_options(const struct sr1__loss_row *row,
                                      const sr1_loss_options *given, sr1_loss_options *o)
{
    *o = row->defaults;
    if (given)
        SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                                  SR1__STRUCT_END(sr1_loss_options, clip_high),
                                  "loss options"));
    o->struct_size = sizeof(*o);
    o->beta = o->entropy_coef = o->off_policy_delta = o->entropy_threshold = 0.0;
    o->correction = NULL;
    return SR1_OK;
}

sr1_status sr1__loss_choose(const struct sr1__loss_row *row, const sr1_loss_batch *batch,
                            const sr1_loss_options *options, uint64_t seed,
                            uint8_t *chosen)
{
    struct sr1__loss_call c = {.row = row};
    sr1_loss_options o;
    struct choosing k = {.c = &c, .seed = seed, .chosen = chosen};
    size_t n;
    sr1_status st;

    SR1__TRY(read_choice_options(row, options, &o));
    SR1__TRY(sr1__loss_read(&c, batch, &o));
    n = c.b.n;
    if (n == 0)
        return SR1_OK;
    SR1__REQUIRE(chosen, "loss: room for the chosen tokens");
    k.covariances = sr1__calloc(n, sizeof(*k.covariances) + sizeof(*k.candidates));
    if (!k.covariances)
        return sr1__fail_nomem("covariances");
    k.candidates = (int64_t *)(k.covariances + n);
    memset(chosen, 0, n);
    st = sr1__loss_chooses(row, 0) ? mark_chosen(&k) : SR1_OK;
    sr1__free(k.covariances);
    return st;
}

sr1_status sr1_loss_choose(const char *name, const sr1_loss_batch *batch,
                           const sr1_loss_options *options, uint64_t seed,
                           uint8_t *chosen)
{
    const struct sr1__loss_row *row = NULL;

    SR1__TRY(sr1__loss_named(name, &row));
    return sr1__loss_choose(row, batch, options, seed, chosen);
}
