/* retrieval/server/rerank_request.c - order each query's documents by score; documents of
 * equal score keep their order. The reference pairs every query with every query's
 * documents; here a query gets its own. */
#include "retrieval/server/rerank_request.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct ranked_document {
    double score;
    size_t index;
};

static int compare_ranked_documents(const void *a, const void *b)
{
    const struct ranked_document *x = a;
    const struct ranked_document *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void sr1__rerank_passage(struct sr1__buf *b, const char *text)
{
    size_t title = strcspn(text, "\n");

    sr1__buf_str(b, "(Title: ");
    sr1__buf_add(b, text, title);
    sr1__buf_str(b, ") ");
    sr1__buf_str(b, text + title + (text[title] == '\n'));
}

/* The passage as a JSON string. */
static void write_passage(struct sr1__buf *b, struct sr1__buf *scratch, const char *text)
{
    sr1__buf_clear(scratch);
    sr1__rerank_passage(scratch, text);
    sr1__wire_text(b, sr1__buf_cstr(scratch), scratch->len);
}

static sr1_status write_passage_list(const struct sr1__rerank_request *r,
                                     const char *const *documents,
                                     const struct ranked_document *order, size_t n,
                                     struct sr1__buf *b)
{
    struct sr1__buf scratch;
    sr1_status status = SR1_OK;

    sr1__buf_init(&scratch, 0);
    sr1__buf_char(b, '[');
    for (size_t k = 0; status == SR1_OK && k < n && k < (size_t)r->top_k; k++) {
        sr1__buf_str(b, k > 0 ? "," : "");
        sr1__buf_str(b, r->scores ? "{\"document\":" : "");
        write_passage(b, &scratch, documents[order[k].index]);
        status = sr1__buf_status(&scratch, "document");
        if (r->scores) {
            sr1__buf_str(b, ",\"score\":");
            sr1__wire_number(b, order[k].score);
            sr1__buf_char(b, '}');
        }
    }
    sr1__buf_char(b, ']');
    sr1__buf_free(&scratch);
    return status;
}

static sr1_status rank_one(const struct sr1__rerank_request *r,
                           const struct sr1__pair_scorer *scorer, size_t query,
                           struct sr1__buf *b)
{
    size_t begin = query > 0 ? r->ends[query - 1] : 0;
    size_t n = r->ends[query] - begin;
    const char *const *documents = r->documents + begin;
    double *scores = sr1__calloc(n + 1, sizeof(*scores));
    struct ranked_document *order = sr1__calloc(n + 1, sizeof(*order));
    sr1_status status = SR1_OK;

    if (scores == NULL || order == NULL)
        status = sr1__fail_nomem("documents to order");
    if (status == SR1_OK && n > 0)
        status = scorer->score(scorer->self, r->queries[query], documents, n, scores);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        order[i] = (struct ranked_document){scores[i], i};
    if (status == SR1_OK) {
        qsort(order, n, sizeof(*order), compare_ranked_documents);
        status = write_passage_list(r, documents, order, n, b);
    }
    sr1__free(scores);
    sr1__free(order);
    return status;
}

sr1_status sr1__rerank_write_answer(const struct sr1__rerank_request *r,
                                    const struct sr1__pair_scorer *scorer,
                                    struct sr1__buf *answer)
{
    sr1__buf_str(answer, "{\"result\":[");
    for (size_t i = 0; i < r->n; i++) {
        sr1__buf_str(answer, i > 0 ? "," : "");
        SR1__TRY(
            sr1__context(rank_one(r, scorer, i, answer), "scorer '%s'", scorer->name));
    }
    sr1__buf_str(answer, "]}");
    return sr1__buf_status(answer, "the answer");
}
