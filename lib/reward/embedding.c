/* reward/embedding.c - cosines between the vectors of answers and gold answers. A group's
 * samples share their gold answers, and often their answers: each text is embedded once.
 */
#include "reward/embedding.h"

#include "base/mem.h"
#include "base/rng.h"
#include "search/embed.h"

#include <string.h>

struct texts {
    char **text; /* [n] distinct */
    size_t n;
    size_t *table; /* [slots] 1 + index of a text; 0: free */
    size_t slots;
    float *vectors; /* [n, dim] */
};

static void texts_free(struct texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        sr1__free(t->text[i]);
    sr1__free(t->text);
    sr1__free(t->table);
    sr1__free(t->vectors);
}

static sr1_status texts_init(struct texts *t, const struct sr1__answered *items, size_t n)
{
    size_t most = n;

    for (size_t i = 0; i < n; i++)
        most += items[i].truths.n;
    t->slots = 2 * most + 1;
    t->text = sr1__calloc(most + 1, sizeof(*t->text));
    t->table = sr1__calloc(t->slots, sizeof(*t->table));
    return t->text && t->table ? SR1_OK : sr1__fail_nomem("texts to embed");
}

/* The place of a text in the table: its own, or a free one. */
static size_t *place_of(const struct texts *t, struct sr1__text s)
{
    size_t at = sr1__hash64(s.s, s.n, 0) % t->slots;

    for (; t->table[at] != 0; at = (at + 1) % t->slots) {
        const char *have = t->text[t->table[at] - 1];

        if (strncmp(have, s.s, s.n) == 0 && strlen(have) == s.n)
            break;
    }
    return &t->table[at];
}

/* What follows a NUL character is not compared. */
static struct sr1__text until_nul(struct sr1__text s)
{
    s.n = s.n > 0 ? strnlen(s.s, s.n) : 0;
    return s;
}

static sr1_status add_text(struct texts *t, struct sr1__text s)
{
    size_t *place;

    s = until_nul(s);
    if (s.n == 0)
        return SR1_OK;
    place = place_of(t, s);
    if (*place != 0)
        return SR1_OK;
    t->text[t->n] = sr1__strndup(s.s, s.n);
    if (t->text[t->n] == NULL)
        return sr1__fail_nomem("a text to embed");
    *place = ++t->n;
    return SR1_OK;
}

static sr1_status add_all(struct texts *t, const struct sr1__answered *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].answer.n == 0)
            continue;
        SR1__TRY(add_text(t, items[i].answer));
        for (size_t k = 0; k < items[i].truths.n; k++)
            SR1__TRY(add_text(t, sr1__truth(&items[i].truths, k)));
    }
    return SR1_OK;
}

/* NULL for an empty text. */
static const float *vector_of(const struct texts *t, struct sr1__text s, size_t dim)
{
    s = until_nul(s);
    return s.n == 0 ? NULL : t->vectors + (*place_of(t, s) - 1) * dim;
}

static double best_cosine(const struct texts *t, const struct sr1__answered *item,
                          size_t dim)
{
    const float *answer = vector_of(t, item->answer, dim);
    double best = 0.0;

    for (size_t k = 0; answer != NULL && k < item->truths.n; k++) {
        const float *truth = vector_of(t, sr1__truth(&item->truths, k), dim);
        double one = truth != NULL ? sr1__embed_cosine(answer, truth, dim) : 0.0;

        best = one > best ? one : best;
    }
    return best;
}

static sr1_status embed(struct texts *t, sr1_embedder *e)
{
    t->vectors = sr1__calloc(t->n + 1, (size_t)sr1_embedder_dim(e) * sizeof(float));
    if (t->vectors == NULL)
        return sr1__fail_nomem("vectors of answers");
    return sr1_embedder_embed(e, (const char *const *)t->text, t->n, SR1_EMBED_QUERY,
                              t->vectors);
}

sr1_status sr1__embedding_scores(sr1_embedder *e, const struct sr1__answered *items,
                                 size_t n, double *out)
{
    struct texts t = {0};
    sr1_status status = texts_init(&t, items, n);

    if (status == SR1_OK)
        status = add_all(&t, items, n);
    if (status == SR1_OK)
        status = embed(&t, e);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        out[i] = best_cosine(&t, &items[i], (size_t)sr1_embedder_dim(e));
    texts_free(&t);
    return status;
}
