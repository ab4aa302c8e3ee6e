/* tensor/encoder/reranker.c - sr1_reranker_open: a cross-encoder that reads a query
 * and a text together, behind the handle of searchr1/ext/embed.h. */
#include "tensor/encoder/text_model.h"

#include "base/mem.h"
#include "retrieval/search/embed.h"

struct reranker {
    struct sr1__text_model model;
    size_t max_tokens; /* of both texts */
    int64_t batch_tokens;
};

#define PAIR_TOKENS 512

static void reranker_destroy(void *self)
{
    struct reranker *r = self;

    sr1__text_model_close(&r->model);
    sr1__free(r);
}

static sr1_status score_text_pairs(void *self, const char *query,
                                   const char *const *texts, size_t n, double *scores)
{
    const struct reranker *r = self;
    struct sr1__text_input in = {.before = query, .max_tokens = r->max_tokens};
    float *logits = sr1__calloc(n, sizeof *logits);
    sr1_status status;

    SR1__CHECK_ALLOC(logits, "scores");
    status = sr1__text_model_run(&r->model, &in, texts, n, r->batch_tokens, logits);
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        scores[i] = logits[i];
    sr1__free(logits);
    return status;
}

static sr1_status open_reranker_model(struct reranker *r, const char *folder,
                                      const sr1_encoder_options *o,
                                      const struct sr1__model_place *place)
{
    SR1__TRY(sr1__text_model_open(&r->model, "reranker", folder, o, place, 1));
    r->batch_tokens = o->batch_tokens;
    return sr1__text_max_tokens(o->document_tokens, "document_tokens", PAIR_TOKENS,
                                r->model.encoder->config.max_positions, &r->max_tokens);
}

sr1_status sr1_reranker_open(sr1_reranker **out, const char *folder,
                             const sr1_encoder_options *options)
{
    sr1_reranker_ops ops = {
        .struct_size = sizeof ops,
        .name = folder,
        .score = score_text_pairs,
        .destroy = reranker_destroy,
    };
    struct sr1__model_place place;
    sr1_encoder_options o;
    struct reranker *r;
    sr1_status status;

    if (!out || !folder || !*folder)
        return sr1__fail(SR1_E_INVALID, "sr1_reranker_open: out and folder are needed");
    SR1__TRY(sr1__encoder_options_take(&o, options, &place));
    SR1__CALLOC(r, 1, "reranker");
    status = open_reranker_model(r, folder, &o, &place);
    if (status == SR1_OK)
        status = sr1__reranker_new_builtin(out, &ops, r);
    if (status != SR1_OK)
        reranker_destroy(r);
    return status;
}
