/* tensor/encoder/encoder_run.c - run texts, as token ids, through an encoder: batches
 * of similar length, one forward pass each, then pooling of the hidden states. */
#include "tensor/encoder/encoder.h"

#include "base/mem.h"

#include <stdlib.h>

/* ---- outputs ---- */

static sr1_tensor *pool_hidden_mean(sr1_scope *s, const struct sr1__encoder *e,
                                    const struct sr1__packing *p, sr1_tensor *hidden)
{
    (void)e;
    return sr1__packing_mean(s, p, hidden);
}

static sr1_tensor *pool_hidden_first(sr1_scope *s, const struct sr1__encoder *e,
                                     const struct sr1__packing *p, sr1_tensor *hidden)
{
    (void)e;
    return t_index_select(s, hidden, 0, p->starts);
}

/* classifier(tanh(pooler(first))) */
static sr1_tensor *classify_hidden(sr1_scope *s, const struct sr1__encoder *e,
                                   const struct sr1__packing *p, sr1_tensor *hidden)
{
    sr1_tensor *y = pool_hidden_first(s, e, p, hidden);

    y = t_tanh(s, t_linear(s, y, e->pooler, e->pooler_bias));
    return t_linear(s, y, e->classifier, e->classifier_bias);
}

/* [N,E] -> [n_seqs, dim], rows in the order of enum sr1__pooling */
static sr1_tensor *(*const outputs[SR1__OUTPUTS])(sr1_scope *s,
                                                  const struct sr1__encoder *e,
                                                  const struct sr1__packing *p,
                                                  sr1_tensor *hidden) = {
    [SR1__POOL_MEAN] = pool_hidden_mean,
    [SR1__POOL_CLS] = pool_hidden_first,
    [SR1__POOL_DECODER] = sr1__t5_decoder,
    [SR1__OUTPUT_SCORE] = classify_hidden,
};

static sr1_tensor *(*const bodies[SR1__ENCODER_ARCHS])(
    sr1_scope *s, const struct sr1__encoder *e, const struct sr1__encoder_pass *p) = {
    [SR1__ENCODER_BERT] = sr1__bert_hidden,
    [SR1__ENCODER_DPR] = sr1__bert_hidden,
    [SR1__ENCODER_T5] = sr1__t5_hidden,
};

sr1_tensor *sr1__encoder_act(sr1_scope *s, int32_t act, sr1_tensor *x)
{
    static sr1_tensor *(*const acts[SR1__ACTS])(sr1_scope * s, sr1_tensor * a) = {
        [SR1__ACT_GELU] = t_gelu,
        [SR1__ACT_GELU_TANH] = t_gelu_tanh,
        [SR1__ACT_RELU] = t_relu,
        [SR1__ACT_SILU] = t_silu,
    };

    return acts[act](s, x);
}

int64_t sr1__encoder_dim(const struct sr1__encoder *e)
{
    if (e->output == SR1__OUTPUT_SCORE)
        return 1;
    return e->config.projection_dim ? e->config.projection_dim : e->config.hidden_size;
}

/* ---- one batch ---- */

/* Numbers of a batch on the host. */
struct host {
    int64_t *ids; /* [N], likewise types and positions */
    int64_t *types;
    int64_t *positions;
    int64_t *cu_seqlens; /* [n + 1] */
    float *out;          /* [n, dim] */
};

/* A text and its place among the caller's. */
struct encoder_entry {
    const struct sr1__encoder_text *text;
    size_t at;
};

static void host_free(struct host *h)
{
    sr1__free(h->ids);
    sr1__free(h->types);
    sr1__free(h->positions);
    sr1__free(h->cu_seqlens);
    sr1__free(h->out);
}

static sr1_status host_fill(struct host *h, const struct encoder_entry *list, size_t n,
                            size_t dim)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++)
        total += list[i].text->n;
    h->ids = sr1__calloc(total, sizeof *h->ids);
    h->types = sr1__calloc(total, sizeof *h->types);
    h->positions = sr1__calloc(total, sizeof *h->positions);
    h->cu_seqlens = sr1__calloc(n + 1, sizeof *h->cu_seqlens);
    h->out = sr1__calloc(n, dim * sizeof *h->out);
    SR1__CHECK_ALLOC(h->ids && h->types && h->positions && h->cu_seqlens && h->out,
                     "batch of texts");
    for (size_t i = 0; i < n; i++) {
        const struct sr1__encoder_text *text = list[i].text;
        size_t at = (size_t)h->cu_seqlens[i];

        for (size_t t = 0; t < text->n; t++) {
            h->ids[at + t] = text->ids[t];
            h->types[at + t] = text->types ? text->types[t] : 0;
            h->positions[at + t] = (int64_t)t;
        }
        h->cu_seqlens[i + 1] = (int64_t)(at + text->n);
    }
    return SR1_OK;
}

static void run_encoder_forward(sr1_scope *s, const struct sr1__encoder *e,
                                const struct host *h, size_t n)
{
    int64_t total = h->cu_seqlens[n];
    struct sr1__encoder_pass p = {0};
    sr1_tensor *y;

    sr1__packing_make(s, &p.packing, h->cu_seqlens, n, e->pad);
    p.ids = t_from_i64(s, h->ids, T_SHAPE(total));
    if (e->types) {
        p.types = t_from_i64(s, h->types, T_SHAPE(total));
        p.positions = t_from_i64(s, h->positions, T_SHAPE(total));
    }
    if (sr1__scope_status(s) == SR1_OK) {
        y = outputs[e->output](s, e, &p.packing, bodies[e->config.arch](s, e, &p));
        if (e->project)
            y = t_linear(s, y, e->project, e->project_bias);
        t_to_host_f32(s, y, h->out, n * (size_t)sr1__encoder_dim(e));
    }
    sr1__packing_free(&p.packing);
}

static sr1_status run_batch(const struct sr1__encoder *e,
                            const struct encoder_entry *list, size_t n, float *out)
{
    size_t dim = (size_t)sr1__encoder_dim(e);
    struct host h = {0};
    sr1_status status = host_fill(&h, list, n, dim);

    if (status == SR1_OK) {
        sr1_scope *s = sr1__scope_open(e->device, "encoder");

        sr1__scope_inference(s);
        run_encoder_forward(s, e, &h, n);
        status = sr1__scope_close(s);
    }
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        for (size_t d = 0; d < dim; d++)
            out[list[i].at * dim + d] = h.out[i * dim + d];
    host_free(&h);
    return status;
}

/* ---- all of them ---- */

static sr1_status check_encoder_text(const struct sr1__encoder_config *c,
                                     const struct sr1__encoder_text *text)
{
    if (text->n < 1 || (int64_t)text->n > c->max_positions)
        return sr1__fail(SR1_E_INVALID, "%zu tokens; the model reads 1 to %lld", text->n,
                         (long long)c->max_positions);
    for (size_t t = 0; t < text->n; t++) {
        if (text->ids[t] < 0 || text->ids[t] >= c->vocab_size)
            return sr1__fail(SR1_E_INVALID, "token %zu: id %d is not in [0, %lld)", t,
                             (int)text->ids[t], (long long)c->vocab_size);
        if (text->types && c->n_types &&
            (text->types[t] < 0 || text->types[t] >= c->n_types))
            return sr1__fail(SR1_E_INVALID, "token %zu: type %d is not in [0, %lld)", t,
                             (int)text->types[t], (long long)c->n_types);
    }
    return SR1_OK;
}

/* Longest first, so that an out-of-memory failure occurs in the first batch or never. */
static int compare_text_length(const void *a, const void *b)
{
    const struct encoder_entry *x = a;
    const struct encoder_entry *y = b;

    if (x->text->n != y->text->n)
        return x->text->n > y->text->n ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static sr1_status run_sorted(const struct sr1__encoder *e,
                             const struct encoder_entry *list, size_t n,
                             size_t batch_tokens, float *out)
{
    for (size_t i = 0; i < n;) {
        size_t most = batch_tokens / list[i].text->n;
        size_t take = most < 1 ? 1 : most < n - i ? most : n - i;

        SR1__TRY(run_batch(e, list + i, take, out));
        i += take;
    }
    return SR1_OK;
}

sr1_status sr1__encoder_run(const struct sr1__encoder *e,
                            const struct sr1__encoder_text *texts, size_t n,
                            int64_t batch_tokens, float *out)
{
    struct encoder_entry *list = sr1__calloc(n, sizeof *list);
    sr1_status status = list || !n ? SR1_OK : sr1__fail_nomem("list of texts");

    for (size_t i = 0; i < n && status == SR1_OK; i++) {
        list[i] = (struct encoder_entry){&texts[i], i};
        status = sr1__context(check_encoder_text(&e->config, &texts[i]), "text %zu", i);
    }
    if (n && status == SR1_OK) {
        qsort(list, n, sizeof *list, compare_text_length);
        status = run_sorted(e, list, n, (size_t)batch_tokens, out);
    }
    sr1__free(list);
    return status;
}
