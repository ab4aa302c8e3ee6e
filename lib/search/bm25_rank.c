/* search/bm25_rank.c - the best documents for a set of terms: MaxScore with block bounds,
 * a window of documents at a time.
 *
 * For each window every term has an upper bound of what it can add. Terms are ordered by
 * it; the longest run of low ones whose bounds together cannot lift a document above the
 * worst of the top_k found so far (the threshold) is not read at all, except to complete
 * the score of a document that another term proposes and that may still make it. A window
 * in which no term needs reading is passed over, and so is a block of 128 postings whose
 * own bound is too low. Documents come in rising order and a later one must beat the
 * threshold: of equal scores the first stays, as if every posting were scored. */
#include "search/bm25.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

#define WINDOW 2048
#define DENSE_TERMS 8 /* terms that memory is kept for from the start */

struct term {
    struct sr1__postings p;
    double weight;
    uint32_t pos;  /* in the decoded block */
    int64_t bound; /* of the current window */
    int64_t list_bound;
    uint32_t bound_block; /* block that block_bound is of; UINT32_MAX: none */
    int64_t block_bound;
};

struct sr1__bm25_ranker {
    const struct sr1__index *ix;
    const struct sr1__bm25_norm *norm;
    const uint8_t *codes;
    uint32_t documents;

    struct term **terms; /* [n], rising bound in the current window */
    int64_t *sums;       /* [n] of the bounds of terms[0..i] */
    size_t n;
    size_t capacity; /* of terms, all allocated */

    struct sr1__bm25_doc *heap; /* the worst on top */
    int32_t found;
    int32_t top_k;
    int32_t heap_capacity;
    int64_t threshold; /* a document must score more; -1 until top_k are found */

    int64_t scores[WINDOW];
    uint64_t touched[WINDOW / 64];
    uint64_t scored;
};

/* ---- the formula ---- */

void sr1__bm25_norm_init(struct sr1__bm25_norm *norm, const struct sr1__index_meta *meta,
                         double k1, double b)
{
    double average =
        meta->total_terms > 0 ? (double)meta->total_terms / (double)meta->documents : 1.0;

    for (int code = 0; code < 256; code++) {
        norm->k[code] =
            k1 * (1.0 - b + b * (double)sr1__length_decode((uint8_t)code) / average);
        for (int tf = 1; tf <= SR1__BM25_TF_ROWS; tf++)
            norm->saturation[tf - 1][code] = (float)(1.0 / (1.0 + norm->k[code] / tf));
    }
}

double sr1__bm25_weight(uint64_t documents, uint32_t df, uint32_t qtf)
{
    double idf = log1p(((double)documents - df + 0.5) / (df + 0.5));

    return SR1__BM25_UNIT * qtf * idf;
}

static int64_t impact_bound(const struct sr1__bm25_norm *norm, double weight,
                            const struct sr1__impacts *impacts)
{
    int64_t best = 0;

    for (int i = 0; i < 4; i++) {
        uint32_t tf = impacts->tf[i];
        int64_t s = 0;

        if (tf == 255)
            s = (int64_t)weight;
        else if (tf > 0)
            s = sr1__bm25_score(norm, weight, tf, impacts->length_code[i]);
        best = s > best ? s : best;
    }
    return best;
}

/* ---- the best so far ---- */

static int worse(const struct sr1__bm25_doc *a, const struct sr1__bm25_doc *b)
{
    return a->score != b->score ? a->score < b->score : a->doc > b->doc;
}

static void sift_down(struct sr1__bm25_doc *heap, int32_t n)
{
    struct sr1__bm25_doc moving = heap[0];
    int32_t at = 0;

    for (int32_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && worse(&heap[child + 1], &heap[child]))
            child++;
        if (!worse(&heap[child], &moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void sift_up(struct sr1__bm25_doc *heap, int32_t at)
{
    struct sr1__bm25_doc moving = heap[at];

    while (at > 0 && worse(&moving, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moving;
}

static void offer(struct sr1__bm25_ranker *r, uint32_t doc, int64_t score)
{
    struct sr1__bm25_doc d = {score, doc};

    if (score <= r->threshold)
        return;
    if (r->found < r->top_k) {
        r->heap[r->found] = d;
        sift_up(r->heap, r->found++);
    } else {
        r->heap[0] = d;
        sift_down(r->heap, r->found);
    }
    if (r->found == r->top_k)
        r->threshold = r->heap[0].score;
}

/* Best first, in place. */
static void sort_heap(struct sr1__bm25_ranker *r)
{
    for (int32_t n = r->found - 1; n > 0; n--) {
        struct sr1__bm25_doc worst = r->heap[0];

        r->heap[0] = r->heap[n];
        sift_down(r->heap, n);
        r->heap[n] = worst;
    }
}

/* ---- one term ---- */

static int64_t posting_score(struct sr1__bm25_ranker *r, const struct term *t,
                             uint32_t pos)
{
    r->scored++;
    return sr1__bm25_score(r->norm, t->weight, t->p.tfs[pos], r->codes[t->p.docs[pos]]);
}

/* Over a single, decoded block; these are not counted as scored. */
static int64_t exact_bound(const struct sr1__bm25_ranker *r, const struct term *t)
{
    int64_t best = 0;

    for (uint32_t i = 0; i < t->p.count; i++) {
        int64_t s =
            sr1__bm25_score(r->norm, t->weight, t->p.tfs[i], r->codes[t->p.docs[i]]);

        best = s > best ? s : best;
    }
    return best;
}

static sr1_status term_open(struct sr1__bm25_ranker *r, struct term *t,
                            const struct sr1__bm25_query_term *q)
{
    struct sr1__impacts impacts;

    SR1__TRY(sr1__postings_open(&t->p, r->ix, &q->term));
    t->weight = q->weight;
    t->pos = 0;
    t->bound_block = UINT32_MAX;
    t->list_bound = sr1__postings_impacts(&t->p, &impacts)
                        ? impact_bound(r->norm, t->weight, &impacts)
                        : exact_bound(r, t);
    return SR1_OK;
}

static uint32_t block_last(const struct term *t, uint32_t block)
{
    return t->p.dir != NULL ? sr1__postings_block_last(&t->p, block)
                            : t->p.docs[t->p.count - 1];
}

static int64_t block_bound(struct sr1__bm25_ranker *r, struct term *t, uint32_t block)
{
    struct sr1__impacts impacts;

    if (t->p.dir == NULL)
        return t->list_bound;
    if (t->bound_block != block) {
        sr1__postings_block_impacts(&t->p, block, &impacts);
        t->block_bound = impact_bound(r->norm, t->weight, &impacts);
        t->bound_block = block;
    }
    return t->block_bound;
}

static void seek_block(struct term *t, uint32_t doc)
{
    uint32_t before = t->p.block;

    sr1__postings_seek_block(&t->p, doc);
    if (t->p.block != before)
        t->pos = 0;
}

/* The first document the term may have from `base` on; UINT32_MAX at its end. */
static uint32_t next_possible(struct term *t, uint32_t base)
{
    uint32_t first;

    seek_block(t, base);
    if (t->p.block == t->p.n_blocks)
        return UINT32_MAX;
    if (t->p.count > 0) {
        while (t->pos < t->p.count && t->p.docs[t->pos] < base)
            t->pos++;
        if (t->pos < t->p.count)
            return t->p.docs[t->pos];
    }
    first = t->p.block > 0 ? block_last(t, t->p.block - 1) + 1 : 0;
    return first > base ? first : base;
}

/* What the term can add in [base, end). */
static int64_t window_bound(struct sr1__bm25_ranker *r, struct term *t, uint32_t base,
                            uint32_t end)
{
    int64_t best = 0;

    if (next_possible(t, base) >= end)
        return 0;
    for (uint32_t block = t->p.block; block < t->p.n_blocks; block++) {
        int64_t s = block_bound(r, t, block);

        best = s > best ? s : best;
        if (best == t->list_bound || block_last(t, block) >= end - 1)
            break;
    }
    return best;
}

/* ---- one window ---- */

/* Order the terms by bound and add the bounds up. */
static void order_terms(struct sr1__bm25_ranker *r, uint32_t base, uint32_t end)
{
    int64_t sum = 0;

    for (size_t i = 0; i < r->n; i++) {
        struct term *t = r->terms[i];
        size_t at = i;

        t->bound = window_bound(r, t, base, end);
        for (; at > 0 && r->terms[at - 1]->bound > t->bound; at--)
            r->terms[at] = r->terms[at - 1];
        r->terms[at] = t;
    }
    for (size_t i = 0; i < r->n; i++) {
        sum += r->terms[i]->bound;
        r->sums[i] = sum;
    }
}

/* Add a term's postings in [base, end) to the window's scores. A block whose bound leaves
 * every document of it at or below the threshold is passed over: what its documents get
 * from other terms cannot lift them either. */
static sr1_status add_term(struct sr1__bm25_ranker *r, struct term *t, uint32_t base,
                           uint32_t end)
{
    int64_t others = r->sums[r->n - 1] - t->bound;

    while (t->p.block < t->p.n_blocks) {
        if (others + block_bound(r, t, t->p.block) > r->threshold) {
            if (t->p.count == 0)
                SR1__TRY(sr1__postings_decode(&t->p));
            while (t->pos < t->p.count && t->p.docs[t->pos] < base)
                t->pos++;
            for (; t->pos < t->p.count && t->p.docs[t->pos] < end; t->pos++) {
                uint32_t at = t->p.docs[t->pos] - base;

                r->scores[at] += posting_score(r, t, t->pos);
                r->touched[at / 64] |= (uint64_t)1 << at % 64;
            }
        }
        if (block_last(t, t->p.block) >= end)
            break;
        t->p.block++;
        if (t->p.dir != NULL)
            t->p.count = 0;
        t->pos = 0;
    }
    return SR1_OK;
}

/* Add what the terms that were not read give `doc`, as long as it may make it. */
static sr1_status complete(struct sr1__bm25_ranker *r, size_t first_read, uint32_t doc,
                           int64_t *score)
{
    for (size_t i = first_read; i-- > 0;) {
        struct term *t = r->terms[i];
        int64_t rest = i > 0 ? r->sums[i - 1] : 0;

        if (t->bound == 0 || *score + r->sums[i] <= r->threshold)
            return SR1_OK;
        seek_block(t, doc);
        if (t->p.block == t->p.n_blocks ||
            *score + rest + block_bound(r, t, t->p.block) <= r->threshold)
            continue;
        if (t->p.count == 0)
            SR1__TRY(sr1__postings_decode(&t->p));
        while (t->pos < t->p.count && t->p.docs[t->pos] < doc)
            t->pos++;
        if (t->pos < t->p.count && t->p.docs[t->pos] == doc)
            *score += posting_score(r, t, t->pos);
    }
    return SR1_OK;
}

static sr1_status collect(struct sr1__bm25_ranker *r, size_t first_read, uint32_t base)
{
    for (uint32_t word = 0; word < WINDOW / 64; word++) {
        while (r->touched[word] != 0) {
            uint32_t at = word * 64 + (uint32_t)__builtin_ctzll(r->touched[word]);
            int64_t score = r->scores[at];

            r->touched[word] &= r->touched[word] - 1;
            r->scores[at] = 0;
            SR1__TRY(complete(r, first_read, base + at, &score));
            offer(r, base + at, score);
        }
    }
    return SR1_OK;
}

static sr1_status rank_window(struct sr1__bm25_ranker *r, uint32_t base, uint32_t end)
{
    size_t first_read = 0;

    order_terms(r, base, end);
    while (first_read < r->n && r->sums[first_read] <= r->threshold)
        first_read++;
    if (first_read == r->n || r->sums[r->n - 1] == 0)
        return SR1_OK;
    for (size_t i = first_read; i < r->n; i++) {
        if (r->terms[i]->bound > 0)
            SR1__TRY(add_term(r, r->terms[i], base, end));
    }
    return collect(r, first_read, base);
}

/* ---- the whole ---- */

static sr1_status reserve(struct sr1__bm25_ranker *r, size_t n, int32_t top_k)
{
    if (n > r->capacity) {
        struct term **terms = sr1__realloc(r->terms, n, sizeof(*terms));
        int64_t *sums;

        if (terms == NULL)
            return sr1__fail_nomem("query terms");
        r->terms = terms;
        sums = sr1__realloc(r->sums, n, sizeof(*sums));
        if (sums == NULL)
            return sr1__fail_nomem("query terms");
        r->sums = sums;
        while (r->capacity < n) {
            struct term *t = sr1__malloc(sizeof(*t));

            if (t == NULL)
                return sr1__fail_nomem("query terms");
            r->terms[r->capacity++] = t;
        }
    }
    if (top_k > r->heap_capacity) {
        struct sr1__bm25_doc *heap = sr1__realloc(r->heap, (size_t)top_k, sizeof(*heap));

        if (heap == NULL)
            return sr1__fail_nomem("best documents");
        r->heap = heap;
        r->heap_capacity = top_k;
    }
    return SR1_OK;
}

sr1_status sr1__bm25_ranker_new(struct sr1__bm25_ranker **out,
                                const struct sr1__index *ix,
                                const struct sr1__bm25_norm *norm)
{
    struct sr1__bm25_ranker *r = sr1__calloc(1, sizeof(*r));
    sr1_status status;

    if (r == NULL)
        return sr1__fail_nomem("ranking");
    r->ix = ix;
    r->norm = norm;
    r->codes = sr1__index_length_codes(ix);
    r->documents = (uint32_t)sr1__index_meta(ix)->documents;
    status = reserve(r, DENSE_TERMS, 1);
    if (status != SR1_OK) {
        sr1__bm25_ranker_free(r);
        return status;
    }
    *out = r;
    return SR1_OK;
}

void sr1__bm25_ranker_free(struct sr1__bm25_ranker *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->capacity; i++)
        sr1__free(r->terms[i]);
    sr1__free(r->terms);
    sr1__free(r->sums);
    sr1__free(r->heap);
    sr1__free(r);
}

static void clear_window(struct sr1__bm25_ranker *r)
{
    memset(r->scores, 0, sizeof(r->scores));
    memset(r->touched, 0, sizeof(r->touched));
}

sr1_status sr1__bm25_rank(struct sr1__bm25_ranker *r,
                          const struct sr1__bm25_query_term *terms, size_t n,
                          int32_t top_k, const struct sr1__bm25_doc **docs,
                          int32_t *found, struct sr1__bm25_work *work)
{
    sr1_status status = SR1_OK;
    uint32_t base = 0;

    SR1__TRY(reserve(r, n, top_k));
    r->n = n;
    r->top_k = top_k;
    r->found = 0;
    r->threshold = -1;
    r->scored = 0;
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(term_open(r, r->terms[i], &terms[i]));
        work->listed += terms[i].term.df;
    }
    while (n > 0 && base < r->documents && status == SR1_OK) {
        uint32_t left = r->documents - base;
        uint32_t end = base + (left < WINDOW ? left : WINDOW);

        status = rank_window(r, base, end);
        base = end;
    }
    if (status != SR1_OK) {
        clear_window(r);
        return status;
    }
    sort_heap(r);
    work->scored += r->scored;
    *docs = r->heap;
    *found = r->found;
    return SR1_OK;
}
