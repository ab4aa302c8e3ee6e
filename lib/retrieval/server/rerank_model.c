/* retrieval/server/rerank_model.c - a reranker (searchr1/ext/embed.h) as scorer of
 * /rerank. It reads documents in the form of the answer: "(Title: first line) rest". */
#include "retrieval/server/rerank_request.h"

#include "base/mem.h"

static sr1_status write_passages(const char *const *documents, size_t n, char **texts)
{
    struct sr1__buf b;

    for (size_t i = 0; i < n; i++) {
        sr1__buf_init(&b, 0);
        sr1__rerank_passage(&b, documents[i]);
        SR1__TRY(sr1__buf_finish(&b, "document", &texts[i]));
    }
    return SR1_OK;
}

/* sr1__pair_scorer.score */
static sr1_status score_documents_model(void *self, const char *query,
                                        const char *const *documents, size_t n,
                                        double *scores)
{
    char **texts = sr1__calloc(n, sizeof(*texts));
    sr1_status status;

    SR1__CHECK_ALLOC(texts, "documents to order");
    status = write_passages(documents, n, texts);
    if (status == SR1_OK)
        status = sr1_reranker_score(self, query, (const char *const *)texts, n, scores);
    for (size_t i = 0; i < n; i++)
        sr1__free(texts[i]);
    sr1__free(texts);
    return status;
}

struct sr1__pair_scorer sr1__pair_scorer_model(sr1_reranker *reranker)
{
    return (struct sr1__pair_scorer){sr1_reranker_name(reranker), score_documents_model,
                                     reranker};
}
