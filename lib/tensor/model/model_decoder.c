/* tensor/model/model_decoder.c - sequences being decoded: feeding, forking, sampling.
 *
 * A feed packs the new tokens of all its rows into one forward pass; through the cache
 * (kv.h) each token attends to its own row. Only the last token of each row goes through
 * the vocabulary head.
 *
 * On a device a pass of single tokens reads its numbers where the last one did, so that
 * its kernels can be replayed (step_graphs.h), and is launched ahead: behind a draw, with
 * the ids that it puts there, before the host has looked at them. A row takes the result
 * when it is fed just that id; until then nothing of it can be seen. */
#include "tensor/model/model_decoder.h"

#include "base/mem.h"
#include "tensor/model/device_head.h"
#include "tensor/model/host_pass.h"
#include "tensor/model/host_score.h"
#include "tensor/model/kv.h"
#include "tensor/model/lane_pass.h"
#include "tensor/model/multiply.h"

#include <string.h>

#define PARALLEL_LOGITS 4000 /* logits below which threads do not pay */

struct decoder_sequence {
    int64_t length;
    uint64_t version; /* of the weights that its cache was made with */
    int known;        /* the next token's distribution is there: */
    float *logits;    /* [V] after the last token, on the CPU */
    int64_t feed;     /* number of the last feed that named this row */
    int ahead;        /* a pass over its next token has been launched, */
    int32_t next_id;  /* which is this */
};

struct sr1__decoder {
    sr1_model *model;
    struct sr1__kv *kv;
    struct sr1__team *team;      /* on the CPU; else NULL */
    struct sr1__host_pass *host; /* passes of models that it supports */
    /* on a device; NULL on the CPU */
    struct sr1__device_head *head; /* in place of the logits */
    struct sr1__step_graphs *graphs;
    struct sr1__lane_pass lanes;
    struct sr1__pool *pool;
    struct decoder_sequence *rows;
    int32_t n_rows;
    int64_t max_tokens;
    struct sr1__decoder_stats stats;
    int64_t feed;
    /* scratch of one feed */
    struct sr1__kv_span *spans;      /* [n_rows] */
    int64_t *last;                   /* [n_rows] index of each span's last token */
    struct sr1__decode_input *feeds; /* [n_rows] those of a call that a pass takes */
    int64_t *draw_lanes;             /* [n_rows] where drawn ids go */
    int32_t *ids;
    int64_t *numbers;            /* [5,cap] by what they are, below */
    size_t cap;                  /* of ids and numbers */
    struct sr1__sample *samples; /* [n_rows] */
    const float **logits;        /* [n_rows] */
    float **next_logits;         /* [n_rows] where a pass puts them */
};

/* What a pass says of its tokens, and of the n spans: one array, one copy to a device. */
enum {
    POSITIONS, /* [total] */
    IDS,       /* [total] */
    PLACES,    /* [total] in the cache */
    LAST,      /* [n] index of each span's last token */
    HIDDEN,    /* [n] where the head keeps the hidden state */
    NUMBERS
};

/* ---- making ---- */

static int runs_on_host(const struct sr1__decoder *d)
{
    return d->host && sr1__host_supports(d->model);
}

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

    if (m->device == SR1__CPU)
        SR1__TRY(sr1__team_new(&d->team, sr1__torch_threads_get()));
    if (m->device != SR1__CPU || m->dtype == SR1__F16)
        return sr1__kv_slots_new(&d->kv, m, d->n_rows, d->max_tokens);
    SR1__TRY(sr1__kv_paged_new(&d->kv, m, d->n_rows, d->pool));
    return sr1__host_pass_new(&d->host, d->model, d->kv, d->team, 0);
}

static sr1_status new_device_parts(struct sr1__decoder *d)
{
    sr1__device device = d->model->device;

    SR1__TRY(sr1__step_graphs_new(&d->graphs, device));
    SR1__TRY(sr1__lane_pass_init(&d->lanes, device, d->kv->most_lanes));
    return sr1__device_head_new(&d->head, d->model, d->n_rows, d->graphs);
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
    d->draw_lanes = sr1__calloc(n, sizeof *d->draw_lanes);
    d->samples = sr1__calloc(n, sizeof *d->samples);
    d->logits = sr1__calloc(n, sizeof *d->logits);
    d->next_logits = sr1__calloc(n, sizeof *d->next_logits);
    if (!d->rows || !d->spans || !d->last || !d->feeds || !d->draw_lanes || !d->samples ||
        !d->logits || !d->next_logits)
        status = sr1__fail_nomem("decoder");
    else
        status = sr1__pool_new(&d->pool, sr1__torch_threads_get());
    if (status == SR1_OK)
        status = new_cache(d);
    if (status == SR1_OK && m->device != SR1__CPU)
        status = new_device_parts(d);
    SR1__RETURN_NEW(out, d, status, sr1__decoder_free);
}

void sr1__decoder_eager(struct sr1__decoder *d, int on)
{
    if (d->graphs)
        sr1__step_graphs_eager(d->graphs, on);
}

sr1_status sr1__decoder_quantize(struct sr1__decoder *d)
{
    struct sr1__host_pass *host;

    if (!runs_on_host(d))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "decoder: int8 weights are for a CPU, in fp32 or bf16");
    SR1__TRY(sr1__host_pass_new(&host, d->model, d->kv, d->team, 1));
    sr1__host_pass_free(d->host);
    d->host = host;
    return SR1_OK;
}

sr1_status sr1__decoder_narrow_cache(struct sr1__decoder *d)
{
    if (!runs_on_host(d))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "decoder: a bf16 cache is for a CPU, in fp32 or bf16");
    sr1__kv_paged_narrow(d->kv);
    return SR1_OK;
}

void sr1__decoder_free(struct sr1__decoder *d)
{
    if (!d)
        return;
    if (d->kv) {
        sr1__decoder_reset(d);
        sr1__host_pass_free(d->host);
        d->kv->ops->free(d->kv);
    }
    sr1__team_free(d->team);
    sr1__device_head_free(d->head);
    sr1__lane_pass_free(&d->lanes);
    sr1__step_graphs_free(d->graphs);
    sr1__pool_free(d->pool);
    sr1__free(d->rows);
    sr1__free(d->spans);
    sr1__free(d->last);
    sr1__free(d->feeds);
    sr1__free(d->draw_lanes);
    sr1__free(d->ids);
    sr1__free(d->numbers);
    sr1__free(d->samples);
    sr1__free(d->logits);
    sr1__free(d->next_logits);
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
    int64_t *numbers;

    if (n <= d->cap)
        return SR1_OK;
    ids = sr1__realloc(d->ids, 2 * n, sizeof *ids);
    SR1__CHECK_ALLOC(ids, "decoder");
    d->ids = ids;
    numbers = sr1__realloc(d->numbers, 2 * n, NUMBERS * sizeof *numbers);
    SR1__CHECK_ALLOC(numbers, "decoder");
    d->numbers = numbers;
    d->cap = 2 * n;
    return SR1_OK;
}

/* The spans of the inputs; *top receives the largest position + 1. */
static sr1_status list_spans(struct sr1__decoder *d,
                             const struct sr1__decode_input *feeds, size_t n,
                             int64_t *top)
{
    *top = 0;
    d->feed++;
    for (size_t i = 0; i < n; i++) {
        struct sr1__kv_span *sp = &d->spans[i];

        SR1__TRY(check_decode_input(d, &feeds[i]));
        *sp = (struct sr1__kv_span){feeds[i].row, 0, d->rows[feeds[i].row].length,
                                    (int64_t)feeds[i].n_ids};
        *top = sp->past + sp->n > *top ? sp->past + sp->n : *top;
    }
    return SR1_OK;
}

/* Ids and positions where the cache wants them; tokens of no span are id 0 at position 0.
 */
static sr1_status fill_tokens(struct sr1__decoder *d,
                              const struct sr1__decode_input *feeds, size_t n,
                              int64_t *total)
{
    *total = d->kv->ops->layout(d->kv, d->spans, n);
    SR1__TRY(grow_scratch(d, (size_t)*total + n));
    memset(d->ids, 0, (size_t)*total * sizeof *d->ids);
    memset(d->numbers, 0, (size_t)*total * sizeof *d->numbers);
    for (size_t i = 0; i < n; i++) {
        const struct sr1__kv_span *sp = &d->spans[i];

        memcpy(d->ids + sp->first, feeds[i].ids, feeds[i].n_ids * sizeof *d->ids);
        for (int64_t t = 0; t < sp->n; t++)
            d->numbers[sp->first + t] = sp->past + t;
        d->last[i] = sp->first + sp->n - 1;
    }
    return SR1_OK;
}

static sr1_status reserve_logits(const struct sr1__decoder *d, struct decoder_sequence *r)
{
    if (!r->logits)
        r->logits = sr1__calloc((size_t)d->model->config.vocab_size, sizeof *r->logits);
    return r->logits ? SR1_OK : sr1__fail_nomem("logits");
}

/* Everything that can fail for lack of memory, before the pass, but the pass's own. */
static sr1_status reserve_decode(struct sr1__decoder *d, size_t n, int64_t top)
{
    for (size_t i = 0; i < n && !d->head; i++)
        SR1__TRY(reserve_logits(d, &d->rows[d->spans[i].row]));
    if (d->head) {
        SR1__TRY(sr1__device_head_reserve(d->head));
        SR1__TRY(sr1__lane_pass_reserve(&d->lanes));
    }
    SR1__TRY(sr1__model_reserve_positions(d->model, top));
    return d->kv->ops->reserve(d->kv, d->spans, n);
}

/* All that comes before a pass; *total receives its number of tokens. Even a pass that
 * fails may have written over what one launched ahead has read. */
static sr1_status pack_inputs(struct sr1__decoder *d,
                              const struct sr1__decode_input *feeds, size_t n,
                              int64_t *total)
{
    int64_t top;

    SR1__TRY(list_spans(d, feeds, n, &top));
    SR1__TRY(reserve_decode(d, n, top));
    for (size_t i = 0; i < n; i++)
        d->rows[feeds[i].row].ahead = 0;
    return fill_tokens(d, feeds, n, total);
}

struct decode_pass {
    struct sr1__decoder *d;
    size_t n;
    int64_t total;
    sr1_tensor *numbers[NUMBERS]; /* of a cache of tensors, else NULL */
};

/* ids and so on behind the positions, then all of them as views of one tensor. */
static void upload_numbers(sr1_scope *s, struct decode_pass *p)
{
    struct sr1__decoder *d = p->d;
    int64_t n = (int64_t)p->n;
    const int64_t sizes[NUMBERS] = {p->total, p->total, p->total, n, n};
    int64_t *v = d->numbers + p->total;

    for (int64_t i = 0; i < p->total; i++)
        *v++ = d->ids[i];
    d->kv->ops->list_places(d->kv, d->spans, p->n, v, p->total);
    v += p->total;
    for (int64_t i = 0; i < n; i++) {
        v[i] = d->last[i];
        v[n + i] =
            d->head ? sr1__device_head_next(d->head, d->spans[i].row) : d->spans[i].row;
    }
    t_split(s, t_from_i64(s, d->numbers, T_SHAPE(3 * p->total + 2 * n)), sizes, NUMBERS,
            0, p->numbers);
    d->kv->ops->begin(s, d->kv, p->numbers[PLACES], p->numbers[POSITIONS]);
}

static sr1_tensor *attend_cached(sr1_scope *s, void *self, int32_t layer, sr1_tensor *q,
                                 sr1_tensor *k, sr1_tensor *v)
{
    const struct decode_pass *p = self;
    struct sr1__kv *kv = p->d->kv;

    return kv->ops->attend(s, kv, layer, p->d->spans, p->n, q, k, v);
}

static sr1_tensor *attend_cached_qkv(sr1_scope *s, void *self, int32_t layer,
                                     const struct sr1__heads_op *heads, sr1_tensor *qkv)
{
    const struct decode_pass *p = self;
    struct sr1__kv *kv = p->d->kv;

    return kv->ops->attend_qkv(s, kv, layer, heads, qkv);
}

static sr1_tensor *multiply_weight(sr1_scope *s, void *self, sr1_tensor *x, sr1_tensor *w,
                                   sr1_tensor *bias)
{
    const struct decode_pass *p = self;

    return sr1__multiply(s, p->d->pool, x, w, bias);
}

/* Hidden states [n,E] of the spans' last tokens. */
static sr1_tensor *select_last(sr1_scope *s, const struct decode_pass *p,
                               sr1_tensor *hidden)
{
    sr1_tensor *last = p->numbers[LAST];
    int64_t n = (int64_t)p->n, i = 0;

    while (i < n && p->d->last[i] == i)
        i++;
    if (i == n && n == p->total)
        return hidden;
    return t_index_select(s, hidden, 0,
                          last ? last : t_from_i64(s, p->d->last, T_SHAPE(n)));
}

/* Logits of each span's last token into its row. */
static void read_logits(sr1_scope *s, struct sr1__decoder *d, size_t n,
                        sr1_tensor *hidden)
{
    size_t vocab = (size_t)d->model->config.vocab_size;
    sr1_tensor *logits;
    const float *v;

    logits = sr1__multiply(s, d->pool, hidden, d->model->head, NULL);
    logits = t_contiguous(s, t_to_device(s, t_to(s, logits, SR1__F32), SR1__CPU));
    v = sr1__shim_data(logits);
    for (size_t i = 0; v && i < n; i++)
        memcpy(d->rows[d->spans[i].row].logits, v + i * vocab, vocab * sizeof *v);
}

/* Hidden states [total,E] of what was packed. */
static sr1_tensor *run_decoder_body(sr1_scope *s, struct decode_pass *p)
{
    struct sr1__decoder *d = p->d;
    const struct sr1__attention attention = {
        .fn = attend_cached,
        .self = p,
        .linear = multiply_weight,
        .qkv_fn = d->kv->ops->attend_qkv ? attend_cached_qkv : NULL,
        .in_place = d->model->device != SR1__CPU,
    };
    struct sr1__placed_tokens in = {
        .ids = d->ids, .positions = d->numbers, .n = (size_t)p->total};

    in.ids_there = p->numbers[IDS];
    in.positions_there = p->numbers[POSITIONS];
    return sr1__causal_lm_body(s, d->model, &in, &attention);
}

/* A cache of tensors wants the pass's numbers there. */
static void begin_pass(sr1_scope *s, struct decode_pass *p)
{
    if (p->d->kv->ops->list_places)
        upload_numbers(s, p);
}

/* Neither a graph nor the pass in C looks at an id. */
static sr1_status check_ids(const struct sr1__decoder *d, int64_t total)
{
    for (int64_t i = 0; i < total; i++)
        if (d->ids[i] < 0 || d->ids[i] >= d->model->config.vocab_size)
            return sr1__fail(
                SR1_E_INVALID, "decode: token %lld: id %d is not in [0, %lld)",
                (long long)i, (int)d->ids[i], (long long)d->model->config.vocab_size);
    return SR1_OK;
}

/* The same in C on the CPU; wanted are the tokens whose hidden states it keeps. */
static sr1_status run_host(struct sr1__decoder *d, size_t n, int64_t total,
                           const int64_t *wanted, size_t n_wanted)
{
    const struct sr1__host_input in = {.spans = d->spans,
                                       .n_spans = n,
                                       .ids = d->ids,
                                       .wanted = wanted,
                                       .n_wanted = n_wanted};

    SR1__TRY(check_ids(d, total));
    SR1__TRY(sr1__host_pass_reserve(d->host, &in));
    return sr1__host_pass_run(d->host, &in);
}

static sr1_status decode_on_host(struct sr1__decoder *d, size_t n, int64_t total)
{
    SR1__TRY(run_host(d, n, total, d->last, n));
    for (size_t i = 0; i < n; i++)
        d->next_logits[i] = d->rows[d->spans[i].row].logits;
    sr1__host_pass_logits(d->host, 0, n, d->next_logits);
    return SR1_OK;
}

static sr1_status run_packed(struct sr1__decoder *d, size_t n, int64_t total)
{
    sr1_scope *s = sr1__scope_open(d->model->device, "decode");

    struct decode_pass p = {.d = d, .n = n, .total = total};
    sr1_tensor *hidden;

    sr1__scope_inference(s);
    begin_pass(s, &p);
    hidden = select_last(s, &p, run_decoder_body(s, &p));
    if (d->head)
        sr1__device_head_store(s, d->head, hidden, p.numbers[HIDDEN]);
    else
        read_logits(s, d, n, hidden);
    return sr1__scope_close(s);
}

/* ---- single tokens on a device ---- */

static void fill_lanes(struct sr1__decoder *d, size_t n, int64_t total)
{
    int64_t *ids = sr1__lane_numbers(&d->lanes, SR1__LANE_IDS, total);
    int64_t *positions = sr1__lane_numbers(&d->lanes, SR1__LANE_POSITIONS, total);
    int64_t *hidden = sr1__lane_numbers(&d->lanes, SR1__LANE_HIDDEN, total);

    for (int64_t i = 0; i < total; i++) {
        ids[i] = d->ids[i];
        positions[i] = d->numbers[i];
        hidden[i] = sr1__device_head_next(d->head, d->n_rows);
    }
    for (size_t i = 0; i < n; i++)
        hidden[d->spans[i].first] = sr1__device_head_next(d->head, d->spans[i].row);
    d->kv->ops->list_places(d->kv, d->spans, n,
                            sr1__lane_numbers(&d->lanes, SR1__LANE_PLACES, total), total);
}

static void launch_lanes(sr1_scope *s, void *arg)
{
    struct decode_pass *p = arg;
    struct sr1__decoder *d = p->d;
    sr1_tensor *views[SR1__LANE_NUMBERS];

    sr1__lane_views(s, &d->lanes, p->total, views);
    p->numbers[IDS] = views[SR1__LANE_IDS];
    p->numbers[POSITIONS] = views[SR1__LANE_POSITIONS];
    d->kv->ops->begin(s, d->kv, views[SR1__LANE_PLACES], views[SR1__LANE_POSITIONS]);
    sr1__device_head_store(s, d->head, run_decoder_body(s, p), views[SR1__LANE_HIDDEN]);
}

static sr1_status upload_lanes(struct sr1__decoder *d, size_t n, int64_t total)
{
    fill_lanes(d, n, total);
    return sr1__lane_upload(&d->lanes, total);
}

/* One token of each of n rows. No graph can hold a layer with experts, which waits for
 * the host to sort tokens by them (experts.c). */
static sr1_status run_lanes(struct sr1__decoder *d, size_t n, int64_t total)
{
    struct decode_pass p = {.d = d, .n = n, .total = total};
    const struct sr1__step_key key = {{'l', total, 0, 0, 0, 0}};
    int routed = sr1__hf_config_has(&d->model->config, SR1__LAYER_EXPERTS);

    return sr1__step_graphs_run(d->graphs, "decode", routed ? NULL : &key, launch_lanes,
                                &p);
}

/* Graphs are of the cache, the tables and the weights of now. */
static void keep_graphs(struct sr1__decoder *d)
{
    const struct sr1__step_state state = {
        .version = d->model->version, .rope = d->model->rope.n, .cache = d->kv->moves};

    sr1__step_graphs_keep(d->graphs, &state);
}

static sr1_status run_decode(struct sr1__decoder *d, size_t n, int64_t total)
{
    if (runs_on_host(d))
        return decode_on_host(d, n, total);
    if (!d->head || total != d->kv->n_lanes)
        return run_packed(d, n, total);
    SR1__TRY(check_ids(d, total));
    keep_graphs(d);
    SR1__TRY(upload_lanes(d, n, total));
    return run_lanes(d, n, total);
}

/* A row has read n more tokens. */
static void record_tokens(struct sr1__decoder *d, int32_t row, int64_t n, int known)
{
    struct decoder_sequence *r = &d->rows[row];

    r->length += n;
    r->version = d->model->version;
    r->known = known;
    r->ahead = 0;
    d->stats.tokens_fed += n;
    if (d->head && known)
        sr1__device_head_advance(d->head, row);
}

/* Record that the packed tokens are now in the cache of their rows. */
static void record_decoded(struct sr1__decoder *d, size_t n, int known)
{
    for (size_t i = 0; i < n; i++)
        record_tokens(d, d->spans[i].row, d->spans[i].n, known);
    d->stats.forwards++;
}

static sr1_status check_sequence_count(const struct sr1__decoder *d, size_t n)
{
    if (n > (size_t)d->n_rows)
        return sr1__fail(SR1_E_INVALID, "decoder: %zu feeds for %d rows", n,
                         (int)d->n_rows);
    return SR1_OK;
}

static sr1_status decode_now(struct sr1__decoder *d,
                             const struct sr1__decode_input *feeds, size_t n)
{
    int64_t total;

    SR1__TRY(pack_inputs(d, feeds, n, &total));
    SR1__TRY(run_decode(d, n, total));
    record_decoded(d, n, 1);
    return SR1_OK;
}

/* Is it what a pass launched ahead has read? */
static int is_read_ahead(const struct sr1__decoder *d, const struct sr1__decode_input *f)
{
    const struct decoder_sequence *r = &d->rows[f->row];

    return r->ahead && f->n_ids == 1 && f->ids[0] == r->next_id;
}

static void take_read_ahead(struct sr1__decoder *d, const struct sr1__decode_input *feeds,
                            size_t n)
{
    int any = 0;

    for (size_t i = 0; i < n; i++) {
        if (!is_read_ahead(d, &feeds[i]))
            continue;
        record_tokens(d, feeds[i].row, 1, 1);
        any = 1;
    }
    d->stats.forwards += any;
}

/* What a pass launched ahead has not read is decoded now. */
static sr1_status decode_rest(struct sr1__decoder *d,
                              const struct sr1__decode_input *feeds, size_t n)
{
    size_t rest = 0;
    int64_t top;

    SR1__TRY(list_spans(d, feeds, n, &top)); /* checks all, before any is fed */
    for (size_t i = 0; i < n; i++)
        if (!is_read_ahead(d, &feeds[i]))
            d->feeds[rest++] = feeds[i];
    if (rest > 0)
        SR1__TRY(decode_now(d, d->feeds, rest));
    take_read_ahead(d, feeds, n);
    return SR1_OK;
}

sr1_status sr1__decoder_decode(struct sr1__decoder *d,
                               const struct sr1__decode_input *feeds, size_t n)
{
    if (n == 0)
        return SR1_OK;
    SR1__TRY(check_sequence_count(d, n));
    return d->head ? decode_rest(d, feeds, n) : decode_now(d, feeds, n);
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

static sr1_status score_on_host(struct sr1__decoder *d, size_t n, int64_t total,
                                const int64_t *places, const int64_t *targets, size_t m,
                                double temperature, float *both)
{
    const struct sr1__sampling how = {.temperature = temperature, .top_p = 1.0};

    SR1__TRY(run_host(d, n, total, places, m));
    return sr1__host_score_kept(d->model, d->host, d->pool, targets, m, &how, both,
                                both + m);
}

/* both [2,m]: log-probs, entropies */
static sr1_status run_decoder_score(struct sr1__decoder *d, size_t n, int64_t total,
                                    const int64_t *places, const int64_t *targets,
                                    size_t m, double temperature, float *both)
{
    struct decode_pass p = {.d = d, .n = n, .total = total};
    sr1_tensor *hidden, *log_prob, *entropy = NULL, *parts[2];
    sr1_scope *s;

    if (runs_on_host(d))
        return score_on_host(d, n, total, places, targets, m, temperature, both);
    s = sr1__scope_open(d->model->device, "decoder score");
    sr1__scope_no_grad(s);
    begin_pass(s, &p);
    hidden = t_index_select(s, run_decoder_body(s, &p), 0,
                            t_from_i64(s, places, T_SHAPE((int64_t)m)));
    log_prob = sr1__nn_token_log_probs(s, hidden, d->model->head,
                                       t_from_i64(s, targets, T_SHAPE((int64_t)m)),
                                       temperature, 0, &entropy);
    parts[0] = log_prob;
    parts[1] = entropy;
    t_to_host_f32(s, t_cat(s, parts, 2, 0), both, 2 * m);
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
    int64_t total, *places, *targets;
    float *both;
    size_t m;
    sr1_status st;

    if (n == 0)
        return SR1_OK;
    SR1__TRY(check_score_inputs(d, feeds, asked, n, &m));
    SR1__TRY(pack_inputs(d, d->feeds, n, &total));
    SR1__CALLOC(places, 3 * m, "decoder");
    targets = places + m;
    both = (float *)(targets + m);
    list_scored_tokens(d, feeds, asked, n, places, targets);
    st = run_decoder_score(d, n, total, places, targets, m, temperature, both);
    if (st == SR1_OK) {
        memcpy(log_probs, both, m * sizeof *both);
        memcpy(entropies, both + m, m * sizeof *both);
    }
    sr1__free(places);
    if (st == SR1_OK)
        record_decoded(d, n, 0);
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
        SR1__TRY(d->head ? sr1__device_head_copy(d->head, from, to)
                         : copy_logits(d, a, b));
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
    d->rows[row].ahead = 0;
}

void sr1__decoder_reset(struct sr1__decoder *d)
{
    for (int32_t i = 0; i < d->n_rows; i++) {
        sr1__decoder_clear(d, i);
        sr1__free(d->rows[i].logits);
        d->rows[i].logits = NULL;
    }
    if (d->head) {
        sr1__step_graphs_drop(d->graphs);
        sr1__device_head_reset(d->head);
        sr1__lane_pass_reset(&d->lanes);
    }
    if (d->host)
        sr1__host_pass_reset(d->host);
    d->kv->ops->trim(d->kv);
}

static const float *fetch_logits(struct sr1__decoder *d, int32_t row)
{
    struct decoder_sequence *r = &d->rows[row];

    return reserve_logits(d, r) == SR1_OK &&
                   sr1__device_head_logits(d->head, row, r->logits) == SR1_OK
               ? r->logits
               : NULL;
}

const float *sr1__decoder_logits(struct sr1__decoder *d, int32_t row)
{
    if (row < 0 || row >= d->n_rows || !d->rows[row].known)
        return NULL;
    return d->head ? fetch_logits(d, row) : d->rows[row].logits;
}

int64_t sr1__decoder_length(const struct sr1__decoder *d, int32_t row)
{
    return row >= 0 && row < d->n_rows ? d->rows[row].length : 0;
}

void sr1__decoder_stats(const struct sr1__decoder *d, struct sr1__decoder_stats *out)
{
    *out = d->stats;
    out->cache_bytes = d->kv->ops->bytes(d->kv);
    if (d->graphs)
        sr1__step_graphs_stats(d->graphs, &out->graphs);
}

/* ---- drawing ---- */

static sr1_status check_draws(const struct sr1__decoder *d, const int32_t *rows, size_t n,
                              const struct sr1__sampling *sampling,
                              struct sr1__rng *const *rngs)
{
    if (n > (size_t)d->n_rows)
        return sr1__fail(SR1_E_INVALID, "decoder: %zu draws from %d rows", n,
                         (int)d->n_rows);
    if (!rngs && sampling->temperature > 0)
        return sr1__fail(SR1_E_INVALID, "decoder: a draw needs a random stream");
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(check_sequence_index(d, rows[i]));
        if (!d->rows[rows[i]].known)
            return sr1__fail(SR1_E_STATE, "decoder: row %d has read nothing new yet",
                             (int)rows[i]);
    }
    return SR1_OK;
}

static sr1_status sample_here(struct sr1__decoder *d, const int32_t *rows, size_t n,
                              const struct sr1__sampling *sampling,
                              struct sr1__rng *const *rngs)
{
    size_t vocab = (size_t)d->model->config.vocab_size;

    for (size_t i = 0; i < n; i++)
        d->logits[i] = d->rows[rows[i]].logits;
    return sr1__sample_rows(n * vocab > PARALLEL_LOGITS ? d->team : NULL, d->logits, n,
                            vocab, sampling, rngs, d->samples);
}

/* There the logits are computed by the draw, from the weights of now. */
static sr1_status check_versions(const struct sr1__decoder *d, const int32_t *rows,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (d->rows[rows[i]].version != d->model->version)
            return sr1__fail(SR1_E_STATE,
                             "decoder: the weights have changed since row %d was read; "
                             "clear it",
                             (int)rows[i]);
    return SR1_OK;
}

/* Where a pass ahead fails there is none; what is wrong is said when the token is fed,
 * but for a lack of host memory. */
static sr1_status check_ahead(sr1_status st)
{
    return st == SR1_E_NOMEM ? st : SR1_OK;
}

/* Rows that have room for the token being drawn are laid out for a pass over it: *n_ahead
 * of them, in a pass of *total, ids 0 until the draw puts its own there. */
static sr1_status plan_ahead(struct sr1__decoder *d, const int32_t *rows, size_t n,
                             size_t *n_ahead, int64_t *total)
{
    static const int32_t unknown;
    size_t m = 0, at = 0;
    sr1_status st = SR1_OK;

    for (size_t i = 0; i < n; i++) {
        d->rows[rows[i]].ahead = 0;
        if (d->rows[rows[i]].length < d->max_tokens)
            d->feeds[m++] = (struct sr1__decode_input){rows[i], &unknown, 1};
    }
    if (m > 0)
        st = pack_inputs(d, d->feeds, m, total);
    if (m > 0 && st == SR1_OK)
        st = upload_lanes(d, m, *total);
    m = st == SR1_OK ? m : 0;
    for (size_t i = 0; i < n; i++)
        d->draw_lanes[i] = at < m && d->feeds[at].row == rows[i]
                               ? d->spans[at++].first
                               : sr1__lane_nobody(&d->lanes);
    *n_ahead = m;
    return check_ahead(st);
}

static void record_ahead(struct sr1__decoder *d, const int32_t *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct decoder_sequence *r = &d->rows[rows[i]];

        r->ahead = d->draw_lanes[i] != sr1__lane_nobody(&d->lanes);
        r->next_id = d->samples[i].id;
    }
}

static sr1_status sample_there(struct sr1__decoder *d, const int32_t *rows, size_t n,
                               const struct sr1__sampling *sampling,
                               struct sr1__rng *const *rngs)
{
    struct sr1__device_draw draw = {.rows = rows,
                                    .n = n,
                                    .how = sampling,
                                    .rngs = rngs,
                                    .lanes = d->draw_lanes,
                                    .nobody = sr1__lane_nobody(&d->lanes)};
    size_t n_ahead;
    int64_t total = 0;
    sr1_status st = SR1_OK;

    SR1__TRY(check_versions(d, rows, n));
    SR1__TRY(plan_ahead(d, rows, n, &n_ahead, &total));
    keep_graphs(d);
    draw.ids = d->lanes.there;
    SR1__TRY(sr1__device_head_draw(d->head, &draw));
    if (n_ahead > 0)
        st = run_lanes(d, n_ahead, total);
    if (check_ahead(st) != SR1_OK) {
        sr1__device_head_undo(d->head, &draw);
        return st;
    }
    SR1__TRY(sr1__device_head_read(d->head, &draw, d->samples));
    if (n_ahead > 0 && st == SR1_OK)
        record_ahead(d, rows, n);
    return SR1_OK;
}

sr1_status sr1__decoder_sample(struct sr1__decoder *d, const int32_t *rows, size_t n,
                               const struct sr1__sampling *sampling,
                               struct sr1__rng *const *rngs, int32_t *ids,
                               float *log_probs, float *entropies)
{
    if (n == 0)
        return SR1_OK;
    SR1__TRY(check_draws(d, rows, n, sampling, rngs));
    SR1__TRY(d->head ? sample_there(d, rows, n, sampling, rngs)
                     : sample_here(d, rows, n, sampling, rngs));
    for (size_t i = 0; i < n; i++) {
        ids[i] = d->samples[i].id;
        if (log_probs)
            log_probs[i] = d->samples[i].log_prob;
        if (entropies)
            entropies[i] = d->samples[i].entropy;
    }
    return SR1_OK;
}
