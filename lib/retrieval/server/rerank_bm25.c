/* retrieval/server/rerank_bm25.c - BM25 over a handful of documents:
 *
 *     sum over the query's terms of qtf * ln(1 + (N - df + 0.5) / (df + 0.5)) *
 *         tf / (tf + k1 * (1 - b + b * len / avglen)),   k1 0.9, b 0.4
 *
 * with N, df and avglen of the documents given (Anserini's defaults; exact lengths). */
#include "retrieval/server/rerank_request.h"

#include "base/mem.h"
#include "retrieval/search/analyze.h"

#include <math.h>
#include <string.h>

#define TERMS_MAX 256 /* distinct ones of a query; further ones are left out */
#define K1 0.9
#define B 0.4

struct scored_term {
    size_t begin; /* in words */
    size_t n;
    double count;  /* in the query */
    uint32_t df;   /* documents that have it */
    uint32_t seen; /* in the document at hand */
};

struct posting {
    uint32_t document;
    uint32_t term;
    uint32_t tf;
};

struct scoring {
    const struct sr1__analyzer *analyzer;
    struct sr1__analysis scratch;
    struct sr1__buf words;
    struct sr1__buf postings; /* of struct posting */
    struct scored_term terms[TERMS_MAX];
    size_t n_terms;
    uint32_t *lengths; /* [documents] */
    uint32_t length;   /* of the document at hand */
};

static struct scored_term *find_query_term(struct scoring *s, const char *word, size_t n)
{
    for (size_t i = 0; i < s->n_terms; i++) {
        struct scored_term *t = &s->terms[i];

        if (t->n == n && memcmp(s->words.data + t->begin, word, n) == 0)
            return t;
    }
    return NULL;
}

/* sr1__token_fn, for the query */
static sr1_status count_query_term(void *arg, const char *word, size_t n)
{
    struct scoring *s = arg;
    struct scored_term *t = find_query_term(s, word, n);

    if (t == NULL && s->n_terms == TERMS_MAX)
        return SR1_OK;
    if (t == NULL) {
        t = &s->terms[s->n_terms++];
        *t = (struct scored_term){.begin = s->words.len, .n = n};
        sr1__buf_add(&s->words, word, n);
    }
    t->count++;
    return sr1__buf_status(&s->words, "query");
}

/* sr1__token_fn, for a document */
static sr1_status count_word(void *arg, const char *word, size_t n)
{
    struct scoring *s = arg;
    struct scored_term *t = find_query_term(s, word, n);

    s->length++;
    if (t != NULL)
        t->seen++;
    return SR1_OK;
}

static sr1_status count_document(struct scoring *s, uint32_t document, const char *text)
{
    s->length = 0;
    SR1__TRY(sr1__analyze(s->analyzer, text, strlen(text), &s->scratch, count_word, s));
    s->lengths[document] = s->length;
    for (uint32_t i = 0; i < s->n_terms; i++) {
        struct scored_term *t = &s->terms[i];
        struct posting p = {document, i, t->seen};

        if (t->seen == 0)
            continue;
        t->df++;
        t->seen = 0;
        sr1__buf_add(&s->postings, &p, sizeof(p));
    }
    return sr1__buf_status(&s->postings, "words of the documents");
}

static void sum_bm25_scores(const struct scoring *s, size_t n, double *scores)
{
    double total = 0;
    struct posting p;

    for (size_t i = 0; i < n; i++) {
        total += s->lengths[i];
        scores[i] = 0;
    }
    for (size_t at = 0; at < s->postings.len; at += sizeof(p)) {
        const struct scored_term *t;
        double length;
        double idf;

        memcpy(&p, s->postings.data + at, sizeof(p));
        t = &s->terms[p.term];
        length = s->lengths[p.document] * (double)n / total;
        idf = log(1 + ((double)n - t->df + 0.5) / (t->df + 0.5));
        scores[p.document] += t->count * idf * p.tf / (p.tf + K1 * (1 - B + B * length));
    }
}

static sr1_status score_documents_bm25(void *self, const char *query,
                                       const char *const *documents, size_t n,
                                       double *scores)
{
    struct scoring *s = sr1__calloc(1, sizeof(*s));
    sr1_status status = SR1_OK;

    (void)self;
    SR1__CHECK_ALLOC(s, "scoring");
    s->analyzer = sr1__analyzer_find("english", NULL);
    sr1__analysis_init(&s->scratch);
    sr1__buf_init(&s->words, 0);
    sr1__buf_init(&s->postings, 0);
    s->lengths = sr1__calloc(n, sizeof(*s->lengths));
    if (s->lengths == NULL)
        status = sr1__fail_nomem("scoring");
    if (status == SR1_OK)
        status = sr1__analyze(s->analyzer, query, strlen(query), &s->scratch,
                              count_query_term, s);
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = count_document(s, (uint32_t)i, documents[i]);
    if (status == SR1_OK)
        sum_bm25_scores(s, n, scores);
    sr1__analysis_free(&s->scratch);
    sr1__buf_free(&s->words);
    sr1__buf_free(&s->postings);
    sr1__free(s->lengths);
    sr1__free(s);
    return status;
}

const struct sr1__pair_scorer sr1__pair_scorer_bm25 = {"bm25", score_documents_bm25,
                                                       NULL};
