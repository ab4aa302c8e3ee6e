/* tensor/model/model_decoder.c - sequences being decoded: feeding, forking, sampling.
 *
 * A feed packs the new tokens of all its rows into one forward pass; through the cache
 * (kv.h) each token attends to its own row. Only the last token of each row goes through
 * the vocabulary head. */
#include "tensor/model/model_decoder.h"

#include "base/mem.h"
#include "tensor/model/kv.h"
#include "tensor/model/multiply.h"

#include <string.h>

#define PARALLEL_LOGITS 100000 /* logits below which waking threads does not pay */

struct decoder_sequence {
    int64_t length;
    uint64_t version; /* of the weights that its cache was made with */
    float *logits;    /* [V] after the last token, valid while `known` is 1 */
    int known;
    int64_t feed; /* number of the last feed that named this row */
};

struct sr1__decoder {
    sr1_model *model;
    struct sr1__kv *kv;
    struct sr1__pool *pool;
    struct decoder_sequence *rows;
    int32_t n_rows;
    int64_t max_tokens;
    struct sr1__decoder_stats stats;
    int64_t feed;
    /* scratch of one feed */
    struct sr1__kv_span *spans;      /* [n_rows] */
    int64_t *last;                   /* [n_rows] index of each span's last token */
    struct sr1__decode_input *feeds; /* [n_rows] of a score */
    int32_t *ids;
    int64_t *positions;
    size_t cap;                  /* of ids and positions */
    struct sr1__sample *samples; /* [n_rows] */
    const float **logits;        /* [n_rows] */
};

/* ---- making ---- */

static sr1_status check_sequence_index(const struct sr1__decoder *d, int32_t row)
{
    if (row < 0 || row >= d->n_rows)
        return sr1__fail(SR1_E_INVALID, "decoder: row %d is not in [0, %d)", (int)row,
                         (int)d->n_rows);
    return SR1_OK;
}

static sr1_status new_cache(struct sr1__decoder *d)
{
    const sr1_model *m = d->model;

    if (m->device == SR1__CPU && m->dtype != SR1__F16)
        return sr1__kv_paged_new(&d->kv, m, d->n_rows, d->pool);
    return sr1__kv_slots_new(&d->kv, m, d->n_rows, d->max_tokens);
}

sr1_status sr1__decoder_new(struct sr1__decoder **out, sr1_model *m, int32_t max_rows,
                            int64_t max_tokens_per_row)
{
    struct sr1__decoder *d;
    size_t n = (size_t)max_rows;
    sr1_status status;

    if (max_rows < 1 || max_tokens_per_row < 1 || max_tokens_per_row > INT32_MAX)
        return sr1__fail(SR1_E_INVALID, "decoder: %d rows of %lld tokens", (int)max_rows,
                         (long long)max_tokens_per_row);
    SR1__CALLOC(d, 1, "decoder");
    d->model = sr1__model_retain(m);
    d->n_rows = max_rows;
    d->max_tokens = max_tokens_per_row;
    d->rows = sr1__calloc(n, sizeof *d->rows);
    d->spans = sr1__calloc(n, sizeof *d->spans);
    d->last = sr1__calloc(n, sizeof *d->last);
    d->feeds = sr1__calloc(n, sizeof *d->feeds);
    d->samples = sr1__calloc(n, sizeof *d->samples);
    d->logits = sr1__calloc(n, sizeof *d->logits);
    if (!d->rows || !d->spans || !d->last || !d->feeds || !d->samples || !d->logits)
        status = sr1__fail_nomem("decoder");
    else
        status = sr1__pool_new(&d->pool, sr1__torch_threads_get());
    if (status == SR1_OK)
        status = new_cache(d);
    SR1__RETURN_NEW(out, d, status, sr1__decoder_free);
}

void sr1__decoder_free(struct sr1__decoder *d)
{
    if (!d)
        return;
    if (d->kv) {
        sr1__decoder_reset(d);
        d->kv->ops->free(d->kv);
    }
    sr1__pool_free(d->pool);
    sr1__free(d->rows);
    sr1__free(d->spans);
    sr1__free(d->last);
    sr1__free(d->feeds);
    sr1__free(d->ids);
    sr1__free(d->positions);
    sr1__free(d->samples);
    sr1__free(d->logits);
    sr1_model_free(d->model);
    sr1__free(d);
}

/* ---- feeding ---- */

static sr1_status check_decode_input(struct sr1__decoder *d,
                                     const struct sr1__decode_input *f)
{
    struct decoder_sequence *r;

    SR1__TRY(check_sequence_index(d, f->row));
    r = &d->rows[f->row];
    if (r->feed == d->feed)
        return sr1__fail(SR1_E_INVALID, "decoder: row %d is fed twice at once",
                         (int)f->row);
    r->feed = d->feed;
    if (f->n_ids == 0)
        return sr1__fail(SR1_E_INVALID, "decoder: row %d is fed no tokens", (int)f->row);
    if (f->n_ids > (size_t)(d->max_tokens - r->length))
        return sr1__fail(
            SR1_E_LIMIT, "decoder: row %d would have %zu tokens; its maximum is %lld",
            (int)f->row, (size_t)r->length + f->n_ids, (long long)d->max_tokens);
    if (r->length > 0 && r->version != d->model->version)
        return sr1__fail(SR1_E_STATE,
                         "decoder: the weights have changed since row %d began; clear it",
                         (int)f->row);
    return SR1_OK;
}

static sr1_status grow_scratch(struct sr1__decoder *d, size_t n)
{
    int32_t *ids;
    int64_t *positions;

    if (n <= d->cap)
        return SR1_OK;
    ids = sr1__realloc(d->ids, 2 * n, sizeof *ids);
    SR1__CHECK_ALLOC(ids, "decoder");
    d->ids = ids;
    positions = sr1__realloc(d->positions, 2 * n, sizeof *positions);
    SR1__CHECK_ALLOC(positions, "decoder");
    d->positions = positions;
    d->cap = 2 * n;
    return SR1_OK;
}

/* Lay the tokens end to end. *total receives their number, *top the largest position + 1.
 */
static sr1_status pack_inputs(struct sr1__decoder *d,
                              const struct sr1__decode_input *feeds, size_t n,
                              int64_t *total, int64_t *top)
{
    int64_t at = 0;

    *top = 0;
    d->feed++;
    for (size_t i = 0; i < n; i++) {
        struct sr1__kv_span *sp = &d->spans[i];

        SR1__TRY(check_decode_input(d, &feeds[i]));
        *sp = (struct sr1__kv_span){feeds[i].row, at, d->rows[feeds[i].row].length,
                                    (int64_t)feeds[i].n_ids};
        SR1__TRY(grow_scratch(d, (size_t)(at + sp->n)));
        memcpy(d->ids + at, feeds[i].ids, feeds[i].n_ids * sizeof *d->ids);
        for (int64_t t = 0; t < sp->n; t++)
            d->positions[at + t] = sp->past + t;
        at += sp->n;
        d->last[i] = at - 1;
        *top = sp->past + sp->n > *top ? sp->past + sp->n : *top;
    }
    *total = at;
    return SR1_OK;
}

static sr1_status reserve_logits(const struct sr1__decoder *d, struct decoder_sequence *r)
{
    if (!r->logits)
        r->logits = sr1__calloc((size_t)d->model->config.vocab_size, sizeof *r->logits);
    return r->logits ? SR1_OK : sr1__fail_nomem("logits");
}

/* Everything that can fail for lack of memory, before the pass. */
static sr1_status reserve_decode(struct sr1__decoder *d, size_t n, int64_t top)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(reserve_logits(d, &d->rows[d->spans[i].row]));
    SR1__TRY(sr1__rope_reserve(&d->model->rope, top));
    return d->kv->ops->reserve(d->kv, d->spans, n);
}

struct decode_pass {
    struct sr1__decoder *d;
    size_t n;
};

static sr1_tensor *attend_cached(sr1_scope *s, void *self, int32_t layer, sr1_tensor *q,
                                 sr1_tensor *k, sr1_tensor *v)
{
    const struct decode_pass *p = self;
    struct sr1__kv *kv = p->d->kv;

    return kv->ops->attend(s, kv, layer, p->d->spans, p->n, q, k, v);
}

static sr1_tensor *multiply_weight(sr1_scope *s, void *self, sr1_tensor *x, sr1_tensor *w,
                                   sr1_tensor *bias)
{
    const struct decode_pass *p = self;

    return sr1__multiply(s, p->d->pool, x, w, bias);
}

/* Logits of each span's last token into its row. */
static void read_logits(sr1_scope *s, struct sr1__decoder *d, size_t n, int64_t total,
                        sr1_tensor *hidden)
{
    size_t vocab = (size_t)d->model->config.vocab_size;
    sr1_tensor *logits;
    const float *v;

    if ((int64_t)n < total)
        hidden =
            t_index_select(s, hidden, 0, t_from_i64(s, d->last, T_SHAPE((int64_t)n)));
    logits = sr1__multiply(s, d->pool, hidden, d->model->head, NULL);
    logits = t_contiguous(s, t_to_device(s, t_to(s, logits, SR1__F32), SR1__CPU));
    v = sr1__shim_data(logits);
    for (size_t i = 0; v && i < n; i++)
        memcpy(d->rows[d->spans[i].row].logits, v + i * vocab, vocab * sizeof *v);
}

/* Hidden states [total,E] of what was packed. */
static sr1_tensor *run_decoder_body(sr1_scope *s, struct sr1__decoder *d, size_t n,
                                    int64_t total)
{
    struct decode_pass p = {d, n};
    const struct sr1__attention attention = {attend_cached, &p, multiply_weight};

    return sr1__qwen_body(s, d->model, d->ids, d->positions, (size_t)total, &attention);
}

static sr1_status run_decode(struct sr1__decoder *d, size_t n, int64_t total)
{
    sr1_scope *s = sr1__scope_open(d->model->device, "decode");

    sr1__scope_inference(s);
    read_logits(s, d, n, total, run_decoder_body(s, d, n, total));
    return sr1__scope_close(s);
}

/* Record that the packed tokens are now in the cache of their rows. */
static void record_decoded(struct sr1__decoder *d, size_t n, int64_t total, int known)
{
    for (size_t i = 0; i < n; i++) {
        struct decoder_sequence *r = &d->rows[d->spans[i].row];

        r->length += d->spans[i].n;
        r->version = d->model->version;
        r->known = known;
    }
    d->stats.forwards++;
    d->stats.tokens_fed += total;
}

static sr1_status check_sequence_count(const struct sr1__decoder *d, size_t n)
{
    if (n > (size_t)d->n_rows)
        return sr1__fail(SR1_E_INVALID, "decoder: %zu feeds for %d rows", n,
                         (int)d->n_rows);
    return SR1_OK;
}

sr1_status sr1__decoder_decode(struct sr1__decoder *d,
                               const struct sr1__decode_input *feeds, size_t n)
{
    int64_t total;
    int64_t top;

    if (n == 0)
        return SR1_OK;
    SR1__TRY(check_sequence_count(d, n));
    SR1__TRY(pack_inputs(d, feeds, n, &total, &top));
    SR1__TRY(reserve_decode(d, n, top));
    SR1__TRY(run_decode(d, n, total));
    record_decoded(d, n, total, 1);
    return SR1_OK;
}

/* ---- log-probs of given tokens ---- */

/* The asked tokens of all feeds: places[m] that predict them, and targets[m] themselves.
 */
static void list_scored_tokens(const struct sr1__decoder *d,
                               const struct sr1__decode_input *feeds, const size_t *asked,
                               size_t n, int64_t *places, int64_t *targets)
{
    for (size_t i = 0, at = 0; i < n; i++) {
        for (size_t k = asked[i]; k > 0; k--, at++) {
            places[at] = d->last[i] + 1 - (int64_t)k;
            targets[at] = feeds[i].ids[feeds[i].n_ids - k];
        }
    }
}

static sr1_status run_decoder_score(struct sr1__decoder *d, size_t n, int64_t total,
                                    const int64_t *places, const int64_t *targets,
                                    size_t m, double temperature, float *log_probs,
                                    float *entropies)
{
    sr1_scope *s = sr1__scope_open(d->model->device, "decoder score");
    sr1_tensor *hidden, *log_prob, *entropy = NULL;

    sr1__scope_no_grad(s);
    hidden = t_index_select(s, run_decoder_body(s, d, n, total), 0,
                            t_from_i64(s, places, T_SHAPE((int64_t)m)));
    log_prob = sr1__nn_token_log_probs(s, hidden, d->model->head,
                                       t_from_i64(s, targets, T_SHAPE((int64_t)m)),
                                       temperature, 0, &entropy);
    t_to_host_f32(s, log_prob, log_probs, m);
    t_to_host_f32(s, entropy, entropies, m);
    return sr1__scope_close(s);
}

/* The last id is not fed, so that the pass does not look at it. */
static sr1_status check_target(const struct sr1__decoder *d,
                               const struct sr1__decode_input *f)
{
    int32_t id = f->ids[f->n_ids - 1];

    if (id >= 0 && id < d->model->config.vocab_size)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID, "decoder: id %d of row %d is not in [0, %lld)",
                     (int)id, (int)f->row, (long long)d->model->config.vocab_size);
}

static sr1_status check_score_inputs(struct sr1__decoder *d,
                                     const struct sr1__decode_input *feeds,
                                     const size_t *asked, size_t n, size_t *m)
{
    SR1__TRY(check_sequence_count(d, n));
    *m = 0;
    for (size_t i = 0; i < n; i++) {
        if (asked[i] == 0 || asked[i] >= feeds[i].n_ids)
            return sr1__fail(SR1_E_INVALID,
                             "decoder: %zu of the %zu tokens of row %d are asked for",
                             asked[i], feeds[i].n_ids, (int)feeds[i].row);
        SR1__TRY(check_target(d, &feeds[i]));
        d->feeds[i] = feeds[i];
        d->feeds[i].n_ids--;
        *m += asked[i];
    }
    return SR1_OK;
}

sr1_status sr1__decoder_score(struct sr1__decoder *d,
                              const struct sr1__decode_input *feeds, const size_t *asked,
                              size_t n, double temperature, float *log_probs,
                              float *entropies)
{
    int64_t total, top, *places, *targets;
    size_t m;
    sr1_status st;

    if (n == 0)
        return SR1_OK;
    SR1__TRY(check_score_inputs(d, feeds, asked, n, &m));
    SR1__TRY(pack_inputs(d, d->feeds, n, &total, &top));
    SR1__TRY(reserve_decode(d, n, top));
    SR1__CALLOC(places, 2 * m, "decoder");
    targets = places + m;
    list_scored_tokens(d, feeds, asked, n, places, targets);
    st = run_decoder_score(d, n, total, places, targets, m, temperature, log_probs,
                           entropies);
    sr1__free(places);
    if (st == SR1_OK)
        record_decoded(d, n, total, 0);
    return st;
}

/* ---- rows ---- */

static sr1_status copy_logits(const struct sr1__decoder *d,
                              const struct decoder_sequence *a,
                              struct decoder_sequence *b)
{
    size_t vocab = (size_t)d->model->config.vocab_size;

    SR1__TRY(reserve_logits(d, b));
    memcpy(b->logits, a->logits, vocab * sizeof *b->logits);
    return SR1_OK;
}

sr1_status sr1__decoder_fork_part(struct sr1__decoder *d, int32_t from, int32_t to,
                                  int64_t n_tokens)
{
    const struct decoder_sequence *a;
    struct decoder_sequence *b;
    int known;

    SR1__TRY(check_sequence_index(d, from));
    SR1__TRY(check_sequence_index(d, to));
    if (to == from)
        return sr1__fail(SR1_E_INVALID, "decoder: row %d is forked to itself", (int)from);
    a = &d->rows[from];
    b = &d->rows[to];
    if (n_tokens < 0 || n_tokens > a->length)
        return sr1__fail(SR1_E_INVALID, "decoder: %lld tokens of row %d, which has %lld",
                         (long long)n_tokens, (int)from, (long long)a->length);
    sr1__decoder_clear(d, to);
    if (n_tokens == 0)
        return SR1_OK;
    known = n_tokens == a->length && a->known;
    if (known)
        SR1__TRY(copy_logits(d, a, b));
    SR1__TRY(d->kv->ops->fork(d->kv, from, to, n_tokens));
    b->known = known;
    b->length = n_tokens;
    b->version = a->version;
    return SR1_OK;
}

sr1_status sr1__decoder_fork(struct sr1__decoder *d, int32_t from, const int32_t *to,
                             size_t n)
{
    SR1__TRY(check_sequence_index(d, from));
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1__decoder_fork_part(d, from, to[i], d->rows[from].length));
    return SR1_OK;
}

void sr1__decoder_clear(struct sr1__decoder *d, int32_t row)
{
    if (row < 0 || row >= d->n_rows)
        return;
    d->kv->ops->clear(d->kv, row);
    d->rows[row].length = 0;
    d->rows[row].known = 0;
}

void sr1__decoder_reset(struct sr1__decoder *d)
{
    for (int32_t i = 0; i < d->n_rows; i++) {
        sr1__decoder_clear(d, i);
        sr1__free(d->rows[i].logits);
        d->rows[i].logits = NULL;
    }
    d->kv->ops->trim(d->kv);
}

const float *sr1__decoder_logits(const struct sr1__decoder *d, int32_t row)
{
    return row >= 0 && row < d->n_rows && d->rows[row].known ? d->rows[row].logits : NULL;
}

int64_t sr1__decoder_length(const struct sr1__decoder *d, int32_t row)
{
    return row >= 0 && row < d->n_rows ? d->rows[row].length : 0;
}

void sr1__decoder_stats(const struct sr1__decoder *d, struct sr1__decoder_stats *out)
{
    *out = d->stats;
    out->cache_bytes = d->kv->ops->bytes(d->kv);
}

/* ---- drawing ---- */

sr1_status sr1__decoder_sample(struct sr1__decoder *d, const int32_t *rows, size_t n,
                               const struct sr1__sampling *sampling,
                               struct sr1__rng *const *rngs, int32_t *ids,
                               float *log_probs, float *entropies)
{
    size_t vocab = (size_t)d->model->config.vocab_size;

    if (n > (size_t)d->n_rows)
        return sr1__fail(SR1_E_INVALID, "decoder: %zu draws from %d rows", n,
                         (int)d->n_rows);
    if (!rngs && sampling->temperature > 0)
        return sr1__fail(SR1_E_INVALID, "decoder: a draw needs a random stream");
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(check_sequence_index(d, rows[i]));
        d->logits[i] = sr1__decoder_logits(d, rows[i]);
        if (!d->logits[i])
            return sr1__fail(SR1_E_STATE, "decoder: row %d has read nothing new yet",
                             (int)rows[i]);
    }
    SR1__TRY(sr1__sample_rows(n * vocab > PARALLEL_LOGITS ? d->pool : NULL, d->logits, n,
                              vocab, sampling, rngs, d->samples));
    for (size_t i = 0; i < n; i++) {
        ids[i] = d->samples[i].id;
        if (log_probs)
            log_probs[i] = d->samples[i].log_prob;
        if (entropies)
            entropies[i] = d->samples[i].entropy;
    }
    return SR1_OK;
}
