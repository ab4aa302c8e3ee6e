/* tensor/encoder/embedder.c - sr1_embedder_open: one encoder for queries and
 * documents, or one for each, behind the handle of searchr1/ext/embed.h. */
#include "tensor/encoder/text_model.h"

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/embed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How texts of a kind are read. */
struct side {
    const struct sr1__text_model *model;
    char *prefix;
    size_t max_tokens;
};

struct embedder {
    struct sr1__text_model models[2]; /* the second one empty unless documents have one */
    struct side sides[2];             /* SR1_EMBED_QUERY, SR1_EMBED_DOCUMENT */
    int64_t batch_tokens;
};

/* Search-R1's retriever cuts texts to so many tokens. */
#define TEXT_TOKENS 256

static void embedder_destroy(void *self)
{
    struct embedder *e = self;

    for (int i = 0; i < 2; i++) {
        sr1__free(e->sides[i].prefix);
        sr1__text_model_close(&e->models[i]);
    }
    sr1__free(e);
}

/* v / max(|v|, 1e-12), as torch's normalize. */
static void normalize_embedding(float *v, size_t n)
{
    double sum = 0.0;
    double length;

    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * v[i];
    length = fmax(sqrt(sum), 1e-12);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(v[i] / length);
}

static sr1_status embed_text_batch(void *self, const char *const *texts, size_t n,
                                   int32_t kind, float *out)
{
    const struct embedder *e = self;
    const struct side *side = &e->sides[kind];
    struct sr1__text_input in = {.prefix = side->prefix, .max_tokens = side->max_tokens};
    size_t dim = (size_t)sr1__encoder_dim(side->model->encoder);

    SR1__TRY(sr1__text_model_run(side->model, &in, texts, n, e->batch_tokens, out));
    for (size_t i = 0; side->model->use.normalize && i < n; i++)
        normalize_embedding(out + i * dim, dim);
    return SR1_OK;
}

/* ---- opening ---- */

static sr1_status side_init(struct side *s, const struct sr1__text_model *model,
                            const char *prefix, int32_t tokens, const char *name)
{
    const struct sr1__encoder_config *c = &model->encoder->config;
    int64_t own = model->use.max_tokens;

    s->model = model;
    s->prefix = sr1__strdup(prefix);
    SR1__CHECK_ALLOC(s->prefix, "prefix");
    return sr1__text_max_tokens(tokens, name, own < TEXT_TOKENS ? own : TEXT_TOKENS,
                                c->max_positions, &s->max_tokens);
}

static sr1_status sides_init(struct embedder *e, const sr1_encoder_options *o)
{
    const struct sr1__text_model *queries = &e->models[0];
    const struct sr1__text_model *documents = &e->models[o->document_folder != NULL];

    SR1__TRY(side_init(&e->sides[SR1_EMBED_QUERY], queries,
                       o->query_prefix ? o->query_prefix : queries->use.query_prefix,
                       o->query_tokens, "query_tokens"));
    SR1__TRY(side_init(&e->sides[SR1_EMBED_DOCUMENT], documents,
                       o->document_prefix ? o->document_prefix
                                          : documents->use.document_prefix,
                       o->document_tokens, "document_tokens"));
    if (sr1__encoder_dim(queries->encoder) != sr1__encoder_dim(documents->encoder))
        return sr1__fail(SR1_E_INVALID,
                         "encoders '%s': vectors of queries have %lld dimensions, those "
                         "of documents %lld",
                         o->document_folder,
                         (long long)sr1__encoder_dim(queries->encoder),
                         (long long)sr1__encoder_dim(documents->encoder));
    return SR1_OK;
}

static sr1_status open_embedder_models(struct embedder *e, const char *folder,
                                       const sr1_encoder_options *o,
                                       const struct sr1__model_place *place)
{
    SR1__TRY(sr1__text_model_open(&e->models[0], "encoder", folder, o, place, 0));
    if (o->document_folder)
        SR1__TRY(sr1__text_model_open(&e->models[1], "encoder", o->document_folder, o,
                                      place, 0));
    e->batch_tokens = o->batch_tokens;
    return sides_init(e, o);
}

/* ---- how it embeds (retrieval/search/encoding.h) ---- */

static json_t *side_as_json(const struct side *s)
{
    char hash[17];

    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->model->hash);
    return json_pack("{s:s,s:s,s:i,s:I,s:o}", "weights", hash, "pooling",
                     sr1__pooling_name(s->model->use.pooling), "normalize",
                     (int)s->model->use.normalize, "tokens", (json_int_t)s->max_tokens,
                     "prefix", sr1__json_text(s->prefix, strlen(s->prefix)));
}

static sr1_status write_encoding(const struct embedder *e, struct sr1__buf *out)
{
    json_t *all = json_pack("{s:s,s:o,s:o}", "dtype",
                            sr1__weight_dtype_name(e->models[0].encoder->dtype), "query",
                            side_as_json(&e->sides[SR1_EMBED_QUERY]), "document",
                            side_as_json(&e->sides[SR1_EMBED_DOCUMENT]));
    sr1_status status;

    SR1__CHECK_ALLOC(all, "encoding of an embedder");
    status = sr1__json_dump(all, 0, out);
    json_decref(all);
    return status;
}

static sr1_status wrap_embedder(sr1_embedder **out, const char *folder,
                                struct embedder *e)
{
    struct sr1__buf encoding;
    sr1_status status;
    sr1_embedder_ops ops = {
        .struct_size = sizeof ops,
        .name = folder,
        .embed = embed_text_batch,
        .destroy = embedder_destroy,
        .dim = (int32_t)sr1__encoder_dim(e->models[0].encoder),
    };

    sr1__buf_init(&encoding, 0);
    status = write_encoding(e, &encoding);
    if (status == SR1_OK)
        status = sr1__embedder_new_builtin(out, &ops, sr1__buf_cstr(&encoding), e);
    sr1__buf_free(&encoding);
    return status;
}

sr1_status sr1_embedder_open(sr1_embedder **out, const char *folder,
                             const sr1_encoder_options *options)
{
    struct sr1__model_place place;
    sr1_encoder_options o;
    struct embedder *e;
    sr1_status status;

    if (!out || !folder || !*folder)
        return sr1__fail(SR1_E_INVALID, "sr1_embedder_open: out and folder are needed");
    SR1__TRY(sr1__encoder_options_take(&o, options, &place));
    SR1__CALLOC(e, 1, "encoder");
    status = open_embedder_models(e, folder, &o, &place);
    if (status == SR1_OK)
        status = wrap_embedder(out, folder, e);
    if (status != SR1_OK)
        embedder_destroy(e);
    return status;
}
