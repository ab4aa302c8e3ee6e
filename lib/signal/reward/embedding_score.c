/* signal/reward/embedding_score.c - cosines between the vectors of answers and ground
 * truths. The samples of a group share their ground truths, and often their answers, so
 * each text is embedded once. */
#include "signal/reward/embedding_score.h"

#include "base/hash_index.h"
#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/embed.h"

#include <string.h>

struct distinct_texts {
    char **text; /* [n] distinct */
    size_t n;
    struct sr1__hash_index index;
    float *vectors; /* [n, dim] */
};

static void distinct_texts_free(struct distinct_texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        sr1__free(t->text[i]);
    sr1__free(t->text);
    sr1__hash_index_free(&t->index);
    sr1__free(t->vectors);
}

static sr1_status distinct_texts_init(struct distinct_texts *t,
                                      const struct sr1__answer_pair *items, size_t n)
{
    size_t most = n;

    for (size_t i = 0; i < n; i++)
        most += items[i].truths.n;
    SR1__CALLOC(t->text, most + 1, "texts to embed");
    return SR1_OK;
}

/* The number of a text; t->n where it is none of them. */
static size_t find_text(const struct distinct_texts *t, struct sr1__str s)
{
    struct sr1__hash_probe p = {sr1__hash64(s.s, s.n, 0)};

    while (sr1__hash_index_next(&t->index, &p))
        if (sr1__str_is(s, t->text[p.item]))
            return p.item;
    return t->n;
}

/* Text after a NUL character is not compared. */
static struct sr1__str until_nul(struct sr1__str s)
{
    s.n = s.n > 0 ? strnlen(s.s, s.n) : 0;
    return s;
}

static sr1_status add_distinct_text(struct distinct_texts *t, struct sr1__str s)
{
    s = until_nul(s);
    if (s.n == 0 || find_text(t, s) < t->n)
        return SR1_OK;
    t->text[t->n] = sr1__strndup(s.s, s.n);
    SR1__CHECK_ALLOC(t->text[t->n], "a text to embed");
    t->n++;
    return sr1__hash_index_add(&t->index, sr1__hash64(s.s, s.n, 0), t->n - 1);
}

static sr1_status add_answers_and_truths(struct distinct_texts *t,
                                         const struct sr1__answer_pair *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].answer.n == 0)
            continue;
        SR1__TRY(add_distinct_text(t, items[i].answer));
        for (size_t k = 0; k < items[i].truths.n; k++)
            SR1__TRY(add_distinct_text(t, sr1__ground_truth_at(&items[i].truths, k)));
    }
    return SR1_OK;
}

/* NULL for an empty text. */
static const float *vector_of(const struct distinct_texts *t, struct sr1__str s,
                              size_t dim)
{
    s = until_nul(s);
    return s.n == 0 ? NULL : t->vectors + find_text(t, s) * dim;
}

static double best_cosine(const struct distinct_texts *t,
                          const struct sr1__answer_pair *item, size_t dim)
{
    const float *answer = vector_of(t, item->answer, dim);
    double best = 0.0;

    for (size_t k = 0; answer != NULL && k < item->truths.n; k++) {
        const float *truth = vector_of(t, sr1__ground_truth_at(&item->truths, k), dim);
        double one = truth != NULL ? sr1__embed_cosine(answer, truth, dim) : 0.0;

        best = one > best ? one : best;
    }
    return best;
}

static sr1_status embed_distinct_texts(struct distinct_texts *t, sr1_embedder *e)
{
    t->vectors = sr1__calloc(t->n + 1, (size_t)sr1_embedder_dim(e) * sizeof(float));
    SR1__CHECK_ALLOC(t->vectors, "vectors of answers");
    return sr1_embedder_embed(e, (const char *const *)t->text, t->n, SR1_EMBED_QUERY,
                              t->vectors);
}

sr1_status sr1__embedding_scores(sr1_embedder *e, const struct sr1__answer_pair *items,
                                 size_t n, double *out)
{
    struct distinct_texts t = {0};
    sr1_status status = distinct_texts_init(&t, items, n);

    if (status == SR1_OK)
        status = add_answers_and_truths(&t, items, n);
    if (status == SR1_OK)
        status = embed_distinct_texts(&t, e);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        out[i] = best_cosine(&t, &items[i], (size_t)sr1_embedder_dim(e));
    distinct_texts_free(&t);
    return status;
}
