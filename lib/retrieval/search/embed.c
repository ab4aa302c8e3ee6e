/* retrieval/search/embed.c - embedders and rerankers: a table of functions behind a
 * counted handle. What comes back is checked, whoever made it. */
#include "retrieval/search/embed.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "base/utf8.h"
#include "retrieval/search/caller_status.h"
#include "retrieval/search/encoding.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* What both kinds of handle have. */
struct plugin {
    atomic_int references;
    const char *kind; /* "embedder", "reranker"; static */
    char *name;
    void *self;
    void (*destroy)(void *self);
    int builtin;
    int locked;           /* one call at a time */
    pthread_mutex_t lock; /* around it */
};

struct sr1_embedder {
    struct plugin plugin;
    sr1_embedder_ops ops;
    char *encoding; /* NULL: not known */
};

struct sr1_reranker {
    struct plugin plugin;
    sr1_reranker_ops ops;
};

/* ---- the handle ---- */

static sr1_status plugin_init(struct plugin *p, const char *kind, const char *name,
                              void *self, void (*destroy)(void *), int32_t flags,
                              int builtin)
{
    p->kind = kind;
    p->name = sr1__strdup(name);
    SR1__CHECK_ALLOC(p->name, kind);
    p->self = self;
    p->destroy = destroy;
    p->builtin = builtin;
    p->locked = !(flags & SR1_EMBED_CONCURRENT);
    atomic_init(&p->references, 1);
    pthread_mutex_init(&p->lock, NULL);
    return SR1_OK;
}

/* Was this the last reference? Then all but the memory of the handle is gone. */
static int plugin_release(struct plugin *p)
{
    if (atomic_fetch_sub(&p->references, 1) != 1)
        return 0;
    if (p->destroy)
        p->destroy(p->self);
    pthread_mutex_destroy(&p->lock);
    sr1__free(p->name);
    return 1;
}

static void plugin_begin(struct plugin *p, struct sr1__error *before)
{
    if (p->locked)
        pthread_mutex_lock(&p->lock);
    sr1__error_save(before, SR1_OK);
}

/* Returns the call's status as ours. */
static sr1_status plugin_end(struct plugin *p, const struct sr1__error *before,
                             sr1_status status)
{
    if (p->locked)
        pthread_mutex_unlock(&p->lock);
    if (p->builtin)
        return sr1__context(status, "%s '%s'", p->kind, p->name);
    return sr1__caller_status(before, status, p->kind, p->name);
}

/* ---- texts ---- */

/* The texts with what is not UTF-8 replaced. */
struct input_texts {
    const char **use; /* [n] the caller's, or one of owned */
    char **owned;     /* [n] NULL: as given */
    size_t n;
};

static void input_texts_free(struct input_texts *t)
{
    for (size_t i = 0; t->owned && i < t->n; i++)
        sr1__free(t->owned[i]);
    sr1__free(t->owned);
    sr1__free((void *)t->use);
}

static sr1_status mend_input_text(char **out, const char *text)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    sr1__buf_utf8(&b, text, strlen(text));
    return sr1__buf_finish(&b, "text", out);
}

static sr1_status input_texts_fill(struct input_texts *t, const char *const *given)
{
    t->use = sr1__calloc(t->n, sizeof(*t->use));
    t->owned = sr1__calloc(t->n, sizeof(*t->owned));
    SR1__CHECK_ALLOC(t->use && t->owned, "texts");
    for (size_t i = 0; i < t->n; i++) {
        if (!given[i])
            return sr1__fail(SR1_E_INVALID, "text %zu of %zu is NULL", i, t->n);
        t->use[i] = given[i];
        if (sr1__utf8_valid(given[i], strlen(given[i])))
            continue;
        SR1__TRY(mend_input_text(&t->owned[i], given[i]));
        t->use[i] = t->owned[i];
    }
    return SR1_OK;
}

static sr1_status input_texts_take(struct input_texts *t, const char *const *given,
                                   size_t n, const char *kind)
{
    sr1_status st;

    t->n = n;
    st = sr1__context(input_texts_fill(t, given), "%s", kind);
    if (st != SR1_OK)
        input_texts_free(t);
    return st;
}

/* ---- embedders ---- */

static void embedder_drop(sr1_embedder *e)
{
    sr1__free(e->encoding);
    sr1__free(e);
}

/* encoding NULL: not the library's own. */
static sr1_status embedder_init(sr1_embedder *e, const char *encoding, void *self)
{
    if (encoding && strlen(encoding) > SR1__ENCODING_MAX)
        return sr1__fail(SR1_E_INVALID, "embedder '%.100s': its prefixes are too long",
                         e->ops.name);
    if (encoding) {
        e->encoding = sr1__strdup(encoding);
        SR1__CHECK_ALLOC(e->encoding, "encoding of an embedder");
    }
    return plugin_init(&e->plugin, "embedder", e->ops.name, self, e->ops.destroy,
                       e->ops.flags, encoding != NULL);
}

static sr1_status embedder_new(sr1_embedder **out, const sr1_embedder_ops *given,
                               const char *encoding, void *self)
{
    sr1_embedder_ops ops = {0};
    sr1_embedder *e;

    if (!out || !given)
        return sr1__fail(SR1_E_INVALID, "embedder: out and ops are required");
    SR1__TRY(sr1__struct_take(&ops, sizeof(ops), given,
                              SR1__STRUCT_END(sr1_embedder_ops, dim), "embedder ops"));
    if (!ops.name || !*ops.name || !ops.embed)
        return sr1__fail(SR1_E_INVALID, "embedder: it needs a name and embed");
    if (ops.dim < 1 || ops.dim > SR1_EMBED_DIM_MAX)
        return sr1__fail(SR1_E_INVALID, "embedder '%.100s': dim is %d, not 1 to %d",
                         ops.name, (int)ops.dim, SR1_EMBED_DIM_MAX);
    SR1__CALLOC(e, 1, "embedder");
    e->ops = ops;
    SR1__RETURN_NEW(out, e, embedder_init(e, encoding, self), embedder_drop);
}

sr1_status sr1_embedder_new(sr1_embedder **out, const sr1_embedder_ops *ops, void *self)
{
    return embedder_new(out, ops, NULL, self);
}

sr1_status sr1__embedder_new_builtin(sr1_embedder **out, const sr1_embedder_ops *ops,
                                     const char *encoding, void *self)
{
    return embedder_new(out, ops, encoding, self);
}

sr1_embedder *sr1_embedder_retain(sr1_embedder *e)
{
    if (e)
        atomic_fetch_add(&e->plugin.references, 1);
    return e;
}

void sr1_embedder_free(sr1_embedder *e)
{
    if (e && plugin_release(&e->plugin))
        embedder_drop(e);
}

const char *sr1__embedder_encoding(const sr1_embedder *e)
{
    return e->encoding ? e->encoding : "";
}

uint64_t sr1__embedder_origin(const sr1_embedder *e, uint64_t vectors)
{
    return e->encoding ? sr1__hash64(e->encoding, strlen(e->encoding), vectors) : 0;
}

const char *sr1_embedder_name(const sr1_embedder *e)
{
    return e ? e->plugin.name : "";
}

int32_t sr1_embedder_dim(const sr1_embedder *e)
{
    return e ? e->ops.dim : 0;
}

static sr1_status check_vectors_finite(const float *v, size_t n, size_t dim)
{
    for (size_t i = 0; i < n * dim; i++)
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC, "the vector of text %zu is not finite",
                             i / dim);
    return SR1_OK;
}

static sr1_status embed_texts(sr1_embedder *e, const struct input_texts *t, int32_t kind,
                              float *v)
{
    struct sr1__error before;
    sr1_status st;

    plugin_begin(&e->plugin, &before);
    st = e->ops.embed(e->plugin.self, t->use, t->n, kind, v);
    SR1__TRY(plugin_end(&e->plugin, &before, st));
    return sr1__context(check_vectors_finite(v, t->n, (size_t)e->ops.dim),
                        "embedder '%s'", e->plugin.name);
}

sr1_status sr1_embedder_embed(sr1_embedder *e, const char *const *texts, size_t n,
                              int32_t kind, float *out)
{
    struct input_texts t = {0};
    float *v;
    size_t dim;
    sr1_status st;

    if (!e || (n && (!texts || !out)))
        return sr1__fail(SR1_E_INVALID, "embed: embedder, texts and out are required");
    if (kind != SR1_EMBED_QUERY && kind != SR1_EMBED_DOCUMENT)
        return sr1__fail(SR1_E_INVALID, "embed: %d is no kind of text", (int)kind);
    if (n == 0)
        return SR1_OK;
    dim = (size_t)e->ops.dim;
    v = sr1__calloc(n, dim * sizeof(*v));
    SR1__CHECK_ALLOC(v, "vectors");
    sr1_embedder_retain(e); /* its callback may free it */
    st = input_texts_take(&t, texts, n, "embed");
    if (st == SR1_OK) {
        st = embed_texts(e, &t, kind, v);
        input_texts_free(&t);
    }
    if (st == SR1_OK)
        memcpy(out, v, n * dim * sizeof(*v));
    sr1_embedder_free(e);
    sr1__free(v);
    return st;
}

static double compute_dot(const float *a, const float *b, size_t n)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

double sr1__embed_cosine(const float *a, const float *b, size_t dim)
{
    double length = sqrt(compute_dot(a, a, dim)) * sqrt(compute_dot(b, b, dim));

    return length > 0.0 ? fmax(-1.0, fmin(1.0, compute_dot(a, b, dim) / length)) : 0.0;
}

sr1_status sr1_embedder_similarity(sr1_embedder *e, const char *a, const char *b,
                                   double *out)
{
    const char *texts[2] = {a, b};
    size_t dim = (size_t)sr1_embedder_dim(e);
    float *v;
    sr1_status st;

    if (!e || !out)
        return sr1__fail(SR1_E_INVALID, "similarity: embedder and out are required");
    SR1__CALLOC(v, 2 * dim, "vectors");
    st = sr1_embedder_embed(e, texts, 2, SR1_EMBED_QUERY, v);
    if (st == SR1_OK)
        *out = sr1__embed_cosine(v, v + dim, dim);
    sr1__free(v);
    return st;
}

/* ---- rerankers ---- */

static sr1_status reranker_new(sr1_reranker **out, const sr1_reranker_ops *given,
                               void *self, int builtin)
{
    sr1_reranker_ops ops = {0};
    sr1_reranker *r;

    if (!out || !given)
        return sr1__fail(SR1_E_INVALID, "reranker: out and ops are required");
    SR1__TRY(sr1__struct_take(&ops, sizeof(ops), given,
                              SR1__STRUCT_END(sr1_reranker_ops, score), "reranker ops"));
    if (!ops.name || !*ops.name || !ops.score)
        return sr1__fail(SR1_E_INVALID, "reranker: it needs a name and score");
    SR1__CALLOC(r, 1, "reranker");
    r->ops = ops;
    SR1__RETURN_NEW(out, r,
                    plugin_init(&r->plugin, "reranker", ops.name, self, ops.destroy,
                                ops.flags, builtin),
                    sr1__free);
}

sr1_status sr1_reranker_new(sr1_reranker **out, const sr1_reranker_ops *ops, void *self)
{
    return reranker_new(out, ops, self, 0);
}

sr1_status sr1__reranker_new_builtin(sr1_reranker **out, const sr1_reranker_ops *ops,
                                     void *self)
{
    return reranker_new(out, ops, self, 1);
}

sr1_reranker *sr1_reranker_retain(sr1_reranker *r)
{
    if (r)
        atomic_fetch_add(&r->plugin.references, 1);
    return r;
}

void sr1_reranker_free(sr1_reranker *r)
{
    if (r && plugin_release(&r->plugin))
        sr1__free(r);
}

const char *sr1_reranker_name(const sr1_reranker *r)
{
    return r ? r->plugin.name : "";
}

/* t->use[0] is the query. */
static sr1_status score_texts(sr1_reranker *r, const struct input_texts *t,
                              double *scores)
{
    size_t n = t->n - 1;
    struct sr1__error before;
    sr1_status st;

    plugin_begin(&r->plugin, &before);
    st = r->ops.score(r->plugin.self, t->use[0], t->use + 1, n, scores);
    SR1__TRY(plugin_end(&r->plugin, &before, st));
    for (size_t i = 0; i < n; i++)
        if (!isfinite(scores[i]))
            return sr1__fail(SR1_E_NUMERIC, "reranker '%s': score %zu is not finite",
                             r->plugin.name, i);
    return SR1_OK;
}

sr1_status sr1_reranker_score(sr1_reranker *r, const char *query,
                              const char *const *texts, size_t n, double *scores)
{
    struct input_texts t = {0};
    const char **all;
    double *made;
    sr1_status st;

    if (!r || !query || (n && (!texts || !scores)))
        return sr1__fail(SR1_E_INVALID,
                         "rerank: reranker, query, texts and scores are required");
    if (n == 0)
        return SR1_OK;
    all = sr1__calloc(n + 1, sizeof(*all));
    made = sr1__calloc(n, sizeof(*made));
    st = all && made ? SR1_OK : sr1__fail_nomem("texts");
    if (st == SR1_OK) {
        all[0] = query;
        memcpy((void *)(all + 1), (const void *)texts, n * sizeof(*all));
        st = input_texts_take(&t, all, n + 1, "rerank");
    }
    if (st == SR1_OK) {
        sr1_reranker_retain(r); /* its callback may free it */
        st = score_texts(r, &t, made);
        sr1_reranker_free(r);
        input_texts_free(&t);
    }
    if (st == SR1_OK)
        memcpy(scores, made, n * sizeof(*made));
    sr1__free((void *)all);
    sr1__free(made);
    return st;
}
