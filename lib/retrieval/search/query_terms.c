/* retrieval/search/query_terms.c - see query_terms.h. Queries share most of their words,
 * so short words are kept with the term that each became: the stemmer and the dictionary
 * are asked once. */
#include "retrieval/search/query_terms.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

#define TERMS_MAX 1024
#define COUNT_MAX 65535 /* of one term; keeps sums of scores within 63 bits */
#define WORDS_KEPT 16384
#define WORD_MAX 23 /* longest word that is kept */

/* A word and its term; df 0: the index has none, or the word is dropped. */
struct query_word {
    char text[WORD_MAX];
    uint8_t n; /* 0: free */
    struct sr1__index_term term;
};

struct sr1__query_terms {
    const struct sr1__index *ix;
    const struct sr1__analyzer *analyzer;
    struct sr1__buf scratch;
    struct sr1__buf token;
    struct sr1__bm25_query_term terms[TERMS_MAX];
    uint32_t counts[TERMS_MAX]; /* of each in the query */
    size_t n;
    struct query_word words[WORDS_KEPT];
};

static sr1_status look_up_word(struct sr1__query_terms *q, const char *word, size_t n,
                               struct sr1__index_term *out)
{
    sr1__buf_clear(&q->token);
    SR1__TRY(q->analyzer->normalise(word, n, &q->token));
    *out = (struct sr1__index_term){0, NULL, 0};
    if (q->token.len == 0 || q->token.len > SR1__TOKEN_MAX_BYTES)
        return SR1_OK;
    return sr1__index_find(q->ix, q->token.data, q->token.len, out);
}

static sr1_status find_word_term(struct sr1__query_terms *q, const char *word, size_t n,
                                 struct sr1__index_term *out)
{
    struct query_word *w = &q->words[sr1__hash64(word, n, 0) % WORDS_KEPT];

    if (w->n == n && memcmp(w->text, word, n) == 0) {
        *out = w->term;
        return SR1_OK;
    }
    SR1__TRY(look_up_word(q, word, n, out));
    if (n <= WORD_MAX) {
        memcpy(w->text, word, n);
        w->n = (uint8_t)n;
        w->term = *out;
    }
    return SR1_OK;
}

/* sr1__token_fn of words. A term's postings lie nowhere else, so they tell it. */
static sr1_status count_query_word(void *arg, const char *word, size_t n)
{
    struct sr1__query_terms *q = arg;
    struct sr1__index_term term;

    SR1__TRY(find_word_term(q, word, n, &term));
    if (term.df == 0)
        return SR1_OK;
    for (size_t i = 0; i < q->n; i++) {
        if (q->terms[i].term.bytes == term.bytes) {
            q->counts[i] += q->counts[i] < COUNT_MAX;
            return SR1_OK;
        }
    }
    if (q->n < TERMS_MAX) {
        q->terms[q->n].term = term;
        q->counts[q->n++] = 1;
    }
    return SR1_OK;
}

sr1_status sr1__query_terms_find(struct sr1__query_terms *q, const char *text,
                                 const struct sr1__bm25_query_term **terms, size_t *n)
{
    uint64_t documents = sr1__index_meta(q->ix)->documents;

    q->n = 0;
    SR1__TRY(q->analyzer->split(text, strlen(text), &q->scratch, count_query_word, q));
    for (size_t i = 0; i < q->n; i++)
        q->terms[i].weight =
            sr1__bm25_weight(documents, q->terms[i].term.df, q->counts[i]);
    *terms = q->terms;
    *n = q->n;
    return SR1_OK;
}

sr1_status sr1__query_terms_new(struct sr1__query_terms **out,
                                const struct sr1__index *ix,
                                const struct sr1__analyzer *analyzer)
{
    struct sr1__query_terms *q = sr1__calloc(1, sizeof(*q));

    if (q == NULL)
        return sr1__fail_nomem("query");
    q->ix = ix;
    q->analyzer = analyzer;
    sr1__buf_init(&q->scratch, 0);
    sr1__buf_init(&q->token, 0);
    *out = q;
    return SR1_OK;
}

void sr1__query_terms_free(struct sr1__query_terms *q)
{
    if (q == NULL)
        return;
    sr1__buf_free(&q->scratch);
    sr1__buf_free(&q->token);
    sr1__free(q);
}
