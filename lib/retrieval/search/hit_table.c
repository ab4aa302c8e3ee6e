/* retrieval/search/hit_table.c - results as arrays, for callers to whom a call costs more
 * than a hit (Python). Made when it is asked for; its texts are those of the answers. */
#include <searchr1/ext/search_arrays.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "retrieval/search/search_results.h"

#include <stdint.h>

struct sr1__hit_table {
    sr1_search_table t;
    int32_t *status;
    size_t *ends;
    double *scores;
    uint32_t *documents; /* of the hits */
    const char **ids;
    const char **contents;
    const char **rows;
    uint32_t *seen; /* [slots] 1 + a document that answers hold by reference; 0: free */
    const struct sr1__doc **held; /* [n_documents] NULL: the texts are an answer's own */
    size_t slots;                 /* a power of two */
};

void sr1__hit_table_free(struct sr1__hit_table *t)
{
    if (t == NULL)
        return;
    sr1__free(t->status);
    sr1__free(t->ends);
    sr1__free(t->scores);
    sr1__free(t->documents);
    sr1__free((void *)t->ids);
    sr1__free((void *)t->contents);
    sr1__free((void *)t->rows);
    sr1__free(t->seen);
    sr1__free((void *)t->held);
    sr1__free(t);
}

static size_t count_hits(const sr1_search_results *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += (size_t)sr1__query_result_hit_count(r->answers[i]);
    return n;
}

/* Room for all hits, each of a document of its own. */
static sr1_status allocate_table(struct sr1__hit_table *t, size_t queries, size_t hits)
{
    for (t->slots = 16; t->slots < 2 * hits; t->slots *= 2)
        ;
    t->status = sr1__calloc(queries + 1, sizeof(*t->status));
    t->ends = sr1__calloc(queries + 1, sizeof(*t->ends));
    t->scores = sr1__calloc(hits + 1, sizeof(*t->scores));
    t->documents = sr1__calloc(hits + 1, sizeof(*t->documents));
    t->ids = sr1__calloc(hits + 1, sizeof(*t->ids));
    t->contents = sr1__calloc(hits + 1, sizeof(*t->contents));
    t->rows = sr1__calloc(hits + 1, sizeof(*t->rows));
    t->seen = sr1__calloc(t->slots, sizeof(*t->seen));
    t->held = sr1__calloc(hits + 1, sizeof(*t->held));
    return t->status && t->ends && t->scores && t->documents && t->ids && t->contents &&
                   t->rows && t->seen && t->held
               ? SR1_OK
               : sr1__fail_nomem("table of hits");
}

/* Where the document is, or would be. */
static uint32_t *find_slot(struct sr1__hit_table *t, const struct sr1__doc *doc)
{
    size_t at = (size_t)sr1__hash64(&doc, sizeof(doc), 0) & (t->slots - 1);

    while (t->seen[at] != 0 && t->held[t->seen[at] - 1] != doc)
        at = (at + 1) & (t->slots - 1);
    return &t->seen[at];
}

static uint32_t add_document(struct sr1__hit_table *t, const struct sr1__doc *doc,
                             const sr1_search_hit *hit)
{
    size_t at = t->t.documents++;

    t->held[at] = doc;
    t->ids[at] = hit->id;
    t->contents[at] = hit->contents;
    t->rows[at] = hit->row;
    return (uint32_t)at;
}

static void add_hit(struct sr1__hit_table *t, const struct sr1__query_result *a,
                    int32_t k)
{
    const struct sr1__doc *doc = sr1__answer_doc(a, k);
    uint32_t *slot = doc != NULL ? find_slot(t, doc) : NULL;
    sr1_search_hit hit = {sizeof(hit)};
    uint32_t at;

    sr1__query_result_hit(a, k, &hit);
    at = slot != NULL && *slot != 0 ? *slot - 1 : add_document(t, doc, &hit);
    if (slot != NULL)
        *slot = at + 1;
    t->scores[t->t.hits] = hit.score;
    t->documents[t->t.hits++] = at;
}

static void fill_table(struct sr1__hit_table *t, const sr1_search_results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct sr1__query_result *a = r->answers[i];

        for (int32_t k = 0; k < sr1__query_result_hit_count(a); k++)
            add_hit(t, a, k);
        t->status[i] = sr1__query_result_status(a);
        t->ends[i] = t->t.hits;
    }
    t->t.queries = r->n;
    t->t.status = t->status;
    t->t.ends = t->ends;
    t->t.scores = t->scores;
    t->t.hit_documents = t->documents;
    t->t.ids = t->ids;
    t->t.contents = t->contents;
    t->t.rows = t->rows;
}

static sr1_status make_table(struct sr1__hit_table **out, const sr1_search_results *r)
{
    struct sr1__hit_table *t = sr1__calloc(1, sizeof(*t));
    size_t hits = count_hits(r);
    sr1_status status;

    SR1__CHECK_ALLOC(t, "table of hits");
    status = hits < UINT32_MAX ? allocate_table(t, r->n, hits)
                               : sr1__fail(SR1_E_LIMIT, "table of hits: %zu hits", hits);
    if (status != SR1_OK) {
        sr1__hit_table_free(t);
        return status;
    }
    fill_table(t, r);
    *out = t;
    return SR1_OK;
}

sr1_status sr1_search_results_table(sr1_search_results *results, sr1_search_table *out)
{
    struct sr1__hit_table *t;
    struct sr1__hit_table *made = NULL;

    if (results == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID, "search results: results or table is NULL");
    t = atomic_load(&results->table);
    if (t == NULL) {
        SR1__TRY(make_table(&made, results));
        if (atomic_compare_exchange_strong(&results->table, &t, made))
            t = made;
        else
            sr1__hit_table_free(made); /* another thread was first */
    }
    return sr1__struct_give(out, &t->t, sizeof(t->t), "search table");
}
