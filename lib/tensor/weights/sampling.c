/* tensor/weights/sampling.c - one draw from a row of logits.
 *
 * Let e_i = exp((x_i - max) / T). The kept tokens are a prefix of all tokens ordered by
 * logit (descending) and id (ascending), so the last kept token (the cut) describes them.
 * The cut is found without sorting the vocabulary: tokens are counted and weighed in
 * buckets of (max - x_i) / T, and only the bucket in which a limit is reached is sorted.
 */
#include "tensor/weights/sampling.h"

#include "base/mem.h"
#include "kernels/softmax.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 2816 /* to exp(-88), where weights end; the last takes the rest */
#define BUCKETS_PER_NAT 32.0F

/* Tokens ordered up to and including this one are kept. */
struct cut {
    float logit;
    size_t id;
};

/* A row at work. */
struct logits_row {
    const float *x;
    size_t n;
    const struct sr1__sampling *s;
    double t; /* temperature; 1 for greedy */
    float max;
    float *e;       /* [n] */
    double *sums;   /* of e, by block */
    double all;     /* sum of e before a cut */
    double moment;  /* sum of e z before a cut */
    double kept;    /* sum of e after it */
    struct cut cut; /* -INFINITY: none */
    void *memory;
};

struct bucket {
    double mass;
    size_t count;
};

sr1_status sr1__sampling_check(const struct sr1__sampling *s)
{
    if (!(s->temperature >= 0 && s->temperature <= 100))
        return sr1__fail(SR1_E_INVALID, "temperature must be from 0 to 100, not %g",
                         s->temperature);
    if (s->temperature > 0 && s->temperature < SR1__TEMPERATURE_MIN)
        return sr1__fail(SR1_E_INVALID,
                         "temperature %g is too small to draw with; use 0 for greedy, or "
                         "at least %g",
                         s->temperature, SR1__TEMPERATURE_MIN);
    if (s->top_k < 0)
        return sr1__fail(SR1_E_INVALID, "top_k must not be negative (0: all), not %d",
                         (int)s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return sr1__fail(SR1_E_INVALID, "top_p must be above 0 and at most 1, not %g",
                         s->top_p);
    return SR1_OK;
}

static double sum_block_masses(const double *v, size_t n)
{
    double total = 0;

    for (size_t i = 0; i < n; i++)
        total += v[i];
    return total;
}

/* Exponentials and their sums; memory is freed by the caller, also on failure. */
static sr1_status weigh_logits(struct logits_row *r, const float *x, size_t n,
                               const struct sr1__sampling *s)
{
    size_t blocks = sr1__softmax_blocks(n);

    SR1__TRY(sr1__sampling_check(s));
    if (n == 0 || n > INT32_MAX)
        return sr1__fail(SR1_E_INVALID, "a row of %zu logits", n);
    if (!sr1__softmax_max(x, n, &r->max))
        return sr1__fail(SR1_E_NUMERIC, "a logit is not finite; are the weights?");
    r->memory = sr1__malloc(blocks * sizeof *r->sums + n * sizeof *r->e);
    SR1__CHECK_ALLOC(r->memory, "sampling");
    r->sums = r->memory;
    r->e = (float *)(r->sums + blocks);
    r->x = x;
    r->n = n;
    r->s = s;
    r->t = s->temperature > 0 ? s->temperature : 1.0;
    r->moment = sr1__softmax_weights(x, n, r->max, r->t, r->e, r->sums);
    r->all = sum_block_masses(r->sums, blocks);
    r->kept = r->all;
    r->cut.logit = -INFINITY;
    return SR1_OK;
}

/* ---- the cut ---- */

static size_t bucket_of(const struct logits_row *r, float x)
{
    float depth = (r->max - x) * (float)(1.0 / r->t) * BUCKETS_PER_NAT;

    return depth < (float)(BUCKETS - 1) ? (size_t)depth : BUCKETS - 1;
}

static int is_kept(const struct cut *c, float x, size_t id)
{
    return x > c->logit || (x == c->logit && id <= c->id);
}

/* logit falling, id rising */
static int compare_cut_rank(const void *a, const void *b)
{
    const struct cut *p = a;
    const struct cut *q = b;

    if (p->logit != q->logit)
        return p->logit > q->logit ? -1 : 1;
    return (p->id > q->id) - (p->id < q->id);
}

/* The tokens of bucket b that c keeps, in order; freed by the caller with sr1__free. */
static struct cut *sorted_bucket(const struct logits_row *r, const struct bucket *buckets,
                                 size_t b, const struct cut *c)
{
    struct cut *members = sr1__malloc((buckets[b].count + 1) * sizeof *members);
    size_t n = 0;

    if (!members)
        return NULL;
    for (size_t i = 0; i < r->n; i++)
        if (is_kept(c, r->x[i], i) && bucket_of(r, r->x[i]) == b)
            members[n++] = (struct cut){r->x[i], i};
    if (n > 1)
        qsort(members, n, sizeof *members, compare_cut_rank);
    return members;
}

/* Move the cut, which keeps all so far, to the k largest and whatever equals the last of
 * them. */
static sr1_status cut_top_k(const struct logits_row *r, const struct bucket *buckets,
                            size_t k, struct cut *c)
{
    struct cut *members;
    size_t b = 0;

    while (buckets[b].count < k)
        k -= buckets[b++].count;
    members = sorted_bucket(r, buckets, b, c);
    SR1__CHECK_ALLOC(members, "sampling");
    *c = (struct cut){members[k - 1].logit, r->n};
    sr1__free(members);
    return SR1_OK;
}

/* Take everything beyond the cut out of the buckets. */
static void apply_cut(const struct logits_row *r, struct bucket *buckets,
                      const struct cut *c)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!is_kept(c, r->x[i], i)) {
            struct bucket *b = &buckets[bucket_of(r, r->x[i])];

            b->mass = --b->count ? b->mass - (double)r->e[i] : 0.0;
        }
    }
}

/* The cut after the token at which the mass reaches target; c is a former cut. */
static sr1_status cut_top_p(const struct logits_row *r, const struct bucket *buckets,
                            double p, struct cut *c)
{
    double left = 0;
    struct cut *members;
    size_t b = 0;
    size_t i = 0;
    size_t last = 0;

    for (size_t j = 0; j < BUCKETS; j++)
        left += buckets[j].mass;
    left *= p;
    for (size_t j = 0; j < BUCKETS; j++)
        if (buckets[j].count)
            last = j;
    while (b < last && buckets[b].mass < left)
        left -= buckets[b++].mass;
    members = sorted_bucket(r, buckets, b, c);
    SR1__CHECK_ALLOC(members, "sampling");
    while (i + 1 < buckets[b].count && (double)r->e[members[i].id] < left)
        left -= (double)r->e[members[i++].id];
    *c = members[i];
    sr1__free(members);
    return SR1_OK;
}

static void fill_logit_buckets(const struct logits_row *r, struct bucket *buckets)
{
    for (size_t i = 0; i < r->n; i++) {
        struct bucket *b = &buckets[bucket_of(r, r->x[i])];

        b->mass += (double)r->e[i];
        b->count++;
    }
}

/* Zero the weights beyond the cut and sum again. */
static void drop_tail(struct logits_row *r, const struct cut *c)
{
    r->kept = 0;
    for (size_t begin = 0, block = 0; begin < r->n;
         begin += SR1__SOFTMAX_BLOCK, block++) {
        size_t end =
            begin + SR1__SOFTMAX_BLOCK < r->n ? begin + SR1__SOFTMAX_BLOCK : r->n;
        double total = 0;

        for (size_t i = begin; i < end; i++) {
            r->e[i] = is_kept(c, r->x[i], i) ? r->e[i] : 0.0F;
            total += (double)r->e[i];
        }
        r->sums[block] = total;
        r->kept += total;
    }
}

static sr1_status apply_top_k_top_p(struct logits_row *r)
{
    struct cut c = {-INFINITY, 0};
    size_t k = (size_t)r->s->top_k;
    struct bucket *buckets;
    sr1_status status = SR1_OK;

    if (r->s->temperature == 0 || ((k == 0 || k >= r->n) && r->s->top_p >= 1))
        return SR1_OK;
    SR1__CALLOC(buckets, BUCKETS, "sampling");
    fill_logit_buckets(r, buckets);
    if (k > 0 && k < r->n) {
        status = cut_top_k(r, buckets, k, &c);
        if (status == SR1_OK && r->s->top_p < 1)
            apply_cut(r, buckets, &c);
    }
    if (status == SR1_OK && r->s->top_p < 1)
        status = cut_top_p(r, buckets, r->s->top_p, &c);
    sr1__free(buckets);
    if (status == SR1_OK) {
        r->cut = c;
        drop_tail(r, &c);
    }
    return status;
}

static sr1_status prepare_row(struct logits_row *r, const float *x, size_t n,
                              const struct sr1__sampling *s)
{
    SR1__TRY(weigh_logits(r, x, n, s));
    return apply_top_k_top_p(r);
}

/* ---- the draw ---- */

static size_t first_max(const struct logits_row *r)
{
    size_t i = 0;

    while (r->x[i] != r->max)
        i++;
    return i;
}

/* The token at which the running sum of weights passes u times their sum. */
static size_t sample_row_token(const struct logits_row *r, double u)
{
    double left = u * r->kept;
    size_t blocks = sr1__softmax_blocks(r->n);
    size_t last = 0;
    size_t b = 0;
    size_t end;

    while (b + 1 < blocks && r->sums[b] <= left)
        left -= r->sums[b++];
    while (r->sums[b] == 0) /* rounding carried u past the last weight */
        b--;
    last = b * SR1__SOFTMAX_BLOCK;
    end = last + SR1__SOFTMAX_BLOCK < r->n ? last + SR1__SOFTMAX_BLOCK : r->n;
    for (size_t i = last; i < end; i++) {
        if (r->e[i] == 0)
            continue;
        last = i;
        left -= (double)r->e[i];
        if (left < 0)
            break;
    }
    return last;
}

static double log_prob(const struct logits_row *r, size_t id)
{
    if (!is_kept(&r->cut, r->x[id], id))
        return -INFINITY;
    return ((double)r->x[id] - (double)r->max) / r->t - log(r->kept);
}

static void report_token(const struct logits_row *r, size_t id, struct sr1__sample *out)
{
    out->id = (int32_t)id;
    out->log_prob = (float)log_prob(r, id);
    out->entropy = (float)(log(r->all) - r->moment / r->all);
    out->log_kept = (float)(r->kept < r->all ? log(r->kept / r->all) : 0.0);
}

sr1_status sr1__sample_row(const float *logits, size_t vocab,
                           const struct sr1__sampling *s, struct sr1__rng *rng,
                           struct sr1__sample *out)
{
    struct logits_row r = {.memory = NULL};
    sr1_status status = prepare_row(&r, logits, vocab, s);

    if (status == SR1_OK)
        report_token(&r,
                     s->temperature == 0 ? first_max(&r)
                                         : sample_row_token(&r, sr1__rng_uniform(rng)),
                     out);
    sr1__free(r.memory);
    return status;
}

sr1_status sr1__sample_given(const float *logits, size_t vocab,
                             const struct sr1__sampling *s, int32_t id,
                             struct sr1__sample *out)
{
    struct logits_row r = {.memory = NULL};
    sr1_status status;

    if (id < 0 || (size_t)id >= vocab)
        return sr1__fail(SR1_E_INVALID, "token %d is not below %zu", (int)id, vocab);
    status = prepare_row(&r, logits, vocab, s);
    if (status == SR1_OK)
        report_token(&r, (size_t)id, out);
    sr1__free(r.memory);
    return status;
}

sr1_status sr1__sample_log_prob(const float *logits, size_t vocab,
                                const struct sr1__sampling *s, int32_t id, float *out)
{
    struct sr1__sample told = {0};

    SR1__TRY(sr1__sample_given(logits, vocab, s, id, &told));
    *out = told.log_prob;
    return SR1_OK;
}

/* ---- many rows ---- */

struct sampling_batch {
    const float *const *logits;
    size_t vocab;
    const struct sr1__sampling *s;
    struct sr1__rng *const *rngs;
    struct sr1__sample *out;
    pthread_mutex_t lock; /* guards the rest */
    struct sr1__error error;
    size_t failed; /* the first row that has */
};

static void keep_first_failure(struct sampling_batch *b, size_t i, sr1_status st)
{
    pthread_mutex_lock(&b->lock);
    if (b->error.code == SR1_OK || i < b->failed) {
        sr1__error_save(&b->error, st);
        b->failed = i;
    }
    pthread_mutex_unlock(&b->lock);
}

static void sample_batch_row(void *arg, size_t i, int32_t thread)
{
    struct sampling_batch *b = arg;
    sr1_status st = sr1__context(sr1__sample_row(b->logits[i], b->vocab, b->s,
                                                 b->rngs ? b->rngs[i] : NULL, &b->out[i]),
                                 "row %zu", i);

    (void)thread;
    if (st != SR1_OK)
        keep_first_failure(b, i, st);
}

sr1_status sr1__sample_rows(struct sr1__team *team, const float *const *logits, size_t n,
                            size_t vocab, const struct sr1__sampling *s,
                            struct sr1__rng *const *rngs, struct sr1__sample *out)
{
    struct sampling_batch b = {.logits = logits,
                               .vocab = vocab,
                               .s = s,
                               .rngs = rngs,
                               .out = out,
                               .error = {.code = SR1_OK}};

    pthread_mutex_init(&b.lock, NULL);
    sr1__team_run(team, n, sample_batch_row, &b);
    pthread_mutex_destroy(&b.lock);
    return sr1__error_raise(&b.error);
}
