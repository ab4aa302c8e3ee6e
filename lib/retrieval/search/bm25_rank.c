/* retrieval/search/bm25_rank.c - the best documents for a set of terms: MaxScore with
 * block bounds, a window of documents at a time.
 *
 * For each window every term has an upper bound of what it can add. Terms are ordered by
 * it; the longest run of low ones whose bounds together cannot lift a document above the
 * worst of the top_k found so far (the threshold) is not read, except to complete the
 * scores of documents that the other terms propose: from the highest bound down, and
 * after each term the documents that can no longer make it are dropped. Where no term
 * needs reading, as many documents are passed over as the bounds hold for, and so is
 * a block of 128 postings whose own bound is too low. The threshold does not begin at
 * nothing: what the top_k best postings of one block score alone is a lower bound of it.
 * Documents come in rising order and a later one must beat the threshold: of equal scores
 * the first stays, as if every posting were scored. Where the lists are short, every
 * posting is scored: finding out what need not be takes longer.
 *
 * Sources: Turtle and Flood, "Query evaluation: strategies and optimizations", 1995;
 * Chakrabarti, Chaudhuri and Ganti, "Interval-based pruning for top-k processing over
 * compressed lists", 2011. */
#include "retrieval/search/bm25_internal.h"

#include "base/mem.h"

#include <string.h>

#define INITIAL_TERMS 8 /* query terms allocated when the ranker is created */
/* Seeking one document, in postings that could be read meanwhile. */
#define SEEK_COST 24
#define SHORT_LISTS 32768 /* postings of all terms that are all scored */
#define FEW 16            /* candidates that are sorted by insertion */
/* With more blocks to a window, bounds are of groups of blocks. */
#define DENSE_BLOCKS 4

/* ---- one term ---- */

/* What the postings of the current block score alone: the best, and the top_k-th best as
 * a lower bound of the threshold. These are not counted as scored. */
static sr1_status score_term_block(struct sr1__bm25_ranker *r, struct sr1__term *t,
                                   int64_t *best)
{
    SR1__TRY(sr1__need_docs(t));
    SR1__TRY(sr1__postings_decode_tfs(&t->p));
    *best = 0;
    for (uint32_t i = 0; i < t->p.count; i++) {
        int64_t s = sr1__posting_score(r, t, i);

        *best = s > *best ? s : *best;
        if ((int32_t)t->p.count >= r->best.top_k)
            sr1__top_k_offer(&r->best, t->p.docs[i], s);
    }
    sr1__top_k_restart(&r->best);
    return SR1_OK;
}

static sr1_status term_open(struct sr1__bm25_ranker *r, struct sr1__term *t,
                            const struct sr1__bm25_query_term *q)
{
    SR1__TRY(sr1__postings_open(&t->p, r->ix, &q->term));
    t->weight = q->weight;
    t->pos = 0;
    return SR1_OK;
}

/* What it can add, for choosing what to read. */
static sr1_status term_bound(struct sr1__bm25_ranker *r, struct sr1__term *t,
                             const struct sr1__bm25_query_term *q)
{
    struct sr1__impacts impacts;

    t->bound = 0;
    t->until = 0;
    t->bound_block = UINT32_MAX;
    t->per_window = (uint32_t)((uint64_t)q->term.df * SR1__WINDOW / r->documents);
    t->by_group = t->p.groups != NULL && (uint64_t)t->p.n_blocks * SR1__WINDOW >
                                             (uint64_t)DENSE_BLOCKS * r->documents;
    if (!sr1__postings_impacts(&t->p, &impacts))
        return score_term_block(r, t, &t->list_bound);
    t->list_bound = sr1__bm25_bound(r->norm, t->weight, &impacts);
    return SR1_OK;
}

static uint32_t block_last(const struct sr1__term *t, uint32_t block)
{
    return t->p.dir != NULL ? sr1__postings_block_last(&t->p, block)
                            : t->p.docs[t->p.count - 1];
}

static int64_t block_bound(struct sr1__bm25_ranker *r, struct sr1__term *t,
                           uint32_t block)
{
    struct sr1__impacts impacts;

    if (t->p.dir == NULL)
        return t->list_bound;
    if (t->bound_block != block) {
        sr1__postings_block_impacts(&t->p, block, &impacts);
        t->block_bound = sr1__bm25_bound(r->norm, t->weight, &impacts);
        t->bound_block = block;
    }
    return t->block_bound;
}

static void seek_block(struct sr1__term *t, uint32_t doc)
{
    uint32_t before = t->p.block;

    sr1__postings_seek_block(&t->p, doc);
    if (t->p.block != before)
        t->pos = 0;
}

/* The first document the term may have from `base` on; UINT32_MAX at its end. */
static uint32_t next_possible(struct sr1__term *t, uint32_t base)
{
    uint32_t first;

    seek_block(t, base);
    if (t->p.block == t->p.n_blocks)
        return UINT32_MAX;
    if (t->p.count > 0) {
        t->pos = sr1__postings_find(&t->p, base);
        if (t->pos < t->p.count)
            return t->p.docs[t->pos];
    }
    first = t->p.block > 0 ? block_last(t, t->p.block - 1) + 1 : 0;
    return first > base ? first : base;
}

static void bound_by_blocks(struct sr1__bm25_ranker *r, struct sr1__term *t, uint32_t end)
{
    uint32_t block = t->p.block;

    t->bound = block_bound(r, t, block);
    while (block_last(t, block) < end - 1 && block + 1 < t->p.n_blocks) {
        int64_t s = block_bound(r, t, ++block);

        t->bound = s > t->bound ? s : t->bound;
    }
    t->until = block + 1 < t->p.n_blocks ? block_last(t, block) + 1 : UINT32_MAX;
}

static void bound_by_groups(struct sr1__bm25_ranker *r, struct sr1__term *t, uint32_t end)
{
    uint32_t n_groups = (t->p.n_blocks + SR1__INDEX_GROUP - 1) / SR1__INDEX_GROUP;
    uint32_t group = t->p.block / SR1__INDEX_GROUP;

    t->bound = 0;
    for (;; group++) {
        struct sr1__impacts impacts;
        int64_t s;

        sr1__postings_group_impacts(&t->p, group, &impacts);
        s = sr1__bm25_bound(r->norm, t->weight, &impacts);
        t->bound = s > t->bound ? s : t->bound;
        t->until = UINT32_MAX;
        if (group + 1 == n_groups)
            return;
        t->until = sr1__postings_group_last(&t->p, group) + 1;
        if (t->until >= end)
            return;
    }
}

/* Make bound hold for [base, end) at least; 1 when it changed. */
static int window_bound(struct sr1__bm25_ranker *r, struct sr1__term *t, uint32_t base,
                        uint32_t end)
{
    uint32_t first;

    if (t->until >= end)
        return 0;
    first = next_possible(t, base);
    if (first >= end) {
        t->bound = 0;
        t->until = first;
    } else if (t->by_group) {
        bound_by_groups(r, t, end);
    } else {
        bound_by_blocks(r, t, end);
    }
    return 1;
}

/* ---- one window ---- */

/* Order the terms by bound and add the bounds up. Returns the document before which all
 * bounds hold. */
static uint32_t order_terms(struct sr1__bm25_ranker *r, uint32_t base, uint32_t end)
{
    uint32_t until = UINT32_MAX;
    int64_t sum = 0;
    int changed = 0;

    for (size_t i = 0; i < r->n; i++) {
        changed |= window_bound(r, r->terms[i], base, end);
        until = r->terms[i]->until < until ? r->terms[i]->until : until;
    }
    if (!changed)
        return until;
    for (size_t i = 1; i < r->n; i++) {
        struct sr1__term *t = r->terms[i];
        size_t at = i;

        for (; at > 0 && r->terms[at - 1]->bound > t->bound; at--)
            r->terms[at] = r->terms[at - 1];
        r->terms[at] = t;
    }
    for (size_t i = 0; i < r->n; i++) {
        sum += r->terms[i]->bound;
        r->sums[i] = sum;
    }
    return until;
}

/* The decoded block's postings in [base, end): from t->pos to the result. */
static uint32_t window_part(struct sr1__term *t, uint32_t base, uint32_t end)
{
    t->pos = sr1__postings_find(&t->p, base);
    return t->p.docs[t->p.count - 1] < end ? t->p.count : sr1__postings_find(&t->p, end);
}

/* Add a term's postings in [base, end) to the window's scores. A block whose bound leaves
 * every document of it at or below the threshold is passed over: what its documents get
 * from other terms cannot lift them either. */
static sr1_status add_window_term(struct sr1__bm25_ranker *r, struct sr1__term *t,
                                  uint32_t base, uint32_t end)
{
    int64_t others = r->sums[r->n - 1] - t->bound;

    seek_block(t, base);
    while (t->p.block < t->p.n_blocks) {
        if (others + block_bound(r, t, t->p.block) > r->best.threshold) {
            uint32_t stop;

            SR1__TRY(sr1__need_docs(t));
            SR1__TRY(sr1__postings_decode_tfs(&t->p));
            stop = window_part(t, base, end);
            sr1__add_postings(r, t, stop, base);
            t->pos = stop;
        }
        if (block_last(t, t->p.block) >= end - 1)
            break;
        sr1__next_block(t);
    }
    return SR1_OK;
}

/* Drop the candidates that cannot make it with `rest` more. */
static void keep_candidates(struct sr1__bm25_ranker *r, int64_t rest)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n_candidates; i++) {
        uint16_t at = r->candidates[i];
        int64_t score = r->scores[at];
        int64_t keep = score + rest > r->best.threshold;

        r->candidates[n] = at;
        r->scores[at] = score & -keep;
        n += (uint32_t)keep;
    }
    r->n_candidates = n;
}

static void sort_candidates(struct sr1__bm25_ranker *r)
{
    uint16_t *c = r->candidates;
    uint32_t n = 0;

    if (r->n_candidates <= FEW) {
        for (uint32_t i = 1; i < r->n_candidates; i++) {
            uint16_t moving = c[i];
            uint32_t at = i;

            for (; at > 0 && c[at - 1] > moving; at--)
                c[at] = c[at - 1];
            c[at] = moving;
        }
        return;
    }
    for (uint32_t i = 0; i < r->n_candidates; i++)
        r->marks[c[i] / 64] |= (uint64_t)1 << c[i] % 64;
    for (uint32_t word = 0; word < SR1__WINDOW / 64; word++) {
        for (; r->marks[word] != 0; r->marks[word] &= r->marks[word] - 1)
            c[n++] = (uint16_t)(word * 64 + (uint32_t)__builtin_ctzll(r->marks[word]));
    }
}

/* Complete the candidates by reading the term's postings in [base, end). */
static sr1_status complete_by_reading(struct sr1__bm25_ranker *r, struct sr1__term *t,
                                      uint32_t base, uint32_t end)
{
    seek_block(t, base);
    while (t->p.block < t->p.n_blocks) {
        uint32_t stop;

        SR1__TRY(sr1__need_docs(t));
        stop = window_part(t, base, end);
        for (uint32_t i = t->pos; i < stop; i++) {
            uint32_t at = t->p.docs[i] - base;

            if (r->scores[at] == 0)
                continue;
            SR1__TRY(sr1__postings_decode_tfs(&t->p));
            r->scores[at] += sr1__posting_score(r, t, i);
            r->scored++;
        }
        t->pos = stop;
        if (block_last(t, t->p.block) >= end - 1)
            break;
        sr1__next_block(t);
    }
    return SR1_OK;
}

/* Complete the candidates, sorted, one by one. rest: what the terms below may add. */
static sr1_status complete_by_seeking(struct sr1__bm25_ranker *r, struct sr1__term *t,
                                      int64_t rest, uint32_t base)
{
    for (uint32_t i = 0; i < r->n_candidates; i++) {
        uint32_t at = r->candidates[i];

        seek_block(t, base + at);
        if (t->p.block == t->p.n_blocks)
            break;
        if (r->scores[at] + rest + block_bound(r, t, t->p.block) <= r->best.threshold)
            continue; /* it will be dropped without */
        SR1__TRY(sr1__need_docs(t));
        t->pos = sr1__postings_find(&t->p, base + at);
        if (t->pos < t->p.count && t->p.docs[t->pos] == base + at) {
            SR1__TRY(sr1__postings_decode_tfs(&t->p));
            r->scores[at] += sr1__posting_score(r, t, t->pos);
            r->scored++;
        }
    }
    return SR1_OK;
}

/* Complete the candidates with the terms that were not read, and offer what is left. */
static sr1_status collect_candidates(struct sr1__bm25_ranker *r, size_t first_read,
                                     uint32_t base, uint32_t end)
{
    int sorted = 0;

    for (size_t i = first_read; i-- > 0 && r->n_candidates > 0;) {
        struct sr1__term *t = r->terms[i];
        int64_t rest = i > 0 ? r->sums[i - 1] : 0;

        keep_candidates(r, r->sums[i]);
        if (t->bound == 0)
            break;
        if (t->per_window < r->n_candidates * SEEK_COST) {
            SR1__TRY(complete_by_reading(r, t, base, end));
            continue;
        }
        if (!sorted)
            sort_candidates(r);
        sorted = 1;
        SR1__TRY(complete_by_seeking(r, t, rest, base));
    }
    keep_candidates(r, 0);
    if (!sorted)
        sort_candidates(r);
    for (uint32_t i = 0; i < r->n_candidates; i++) {
        uint32_t at = r->candidates[i];

        sr1__top_k_offer(&r->best, base + at, r->scores[at]);
        r->scores[at] = 0;
    }
    r->n_candidates = 0;
    return SR1_OK;
}

/* Rank documents from base on; *next is the first one not looked at. */
static sr1_status rank_window(struct sr1__bm25_ranker *r, uint32_t base, uint32_t *next)
{
    uint32_t end = r->documents - base > SR1__WINDOW ? base + SR1__WINDOW : r->documents;
    uint32_t until = order_terms(r, base, end);
    size_t first_read = 0;

    while (first_read < r->n && r->sums[first_read] <= r->best.threshold)
        first_read++;
    if (first_read == r->n || r->sums[r->n - 1] == 0) {
        *next = until < end ? end : until < r->documents ? until : r->documents;
        return SR1_OK;
    }
    *next = end;
    for (size_t i = first_read; i < r->n; i++) {
        if (r->terms[i]->bound > 0)
            SR1__TRY(add_window_term(r, r->terms[i], base, end));
    }
    return collect_candidates(r, first_read, base, end);
}

/* ---- the whole ---- */

static sr1_status reserve_terms(struct sr1__bm25_ranker *r, size_t n)
{
    if (n > r->capacity) {
        struct sr1__term **terms = sr1__realloc(r->terms, n, sizeof(*terms));
        int64_t *sums;

        if (terms == NULL)
            return sr1__fail_nomem("query terms");
        r->terms = terms;
        sums = sr1__realloc(r->sums, n, sizeof(*sums));
        if (sums == NULL)
            return sr1__fail_nomem("query terms");
        r->sums = sums;
        while (r->capacity < n) {
            struct sr1__term *t = sr1__malloc(sizeof(*t));

            if (t == NULL)
                return sr1__fail_nomem("query terms");
            r->terms[r->capacity++] = t;
        }
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
    status = sr1__scored_lists_new(&r->lists, ix, norm);
    if (status == SR1_OK)
        status = reserve_terms(r, INITIAL_TERMS);
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
    sr1__top_k_free(&r->best);
    sr1__scored_lists_free(r->lists);
    sr1__free(r);
}

/* The first block of a long list of a heavy term may raise the threshold too. */
static sr1_status raise_threshold(struct sr1__bm25_ranker *r)
{
    struct sr1__term *heaviest = NULL;
    int64_t best;

    for (size_t i = 0; i < r->n; i++) {
        if (heaviest == NULL || r->terms[i]->weight > heaviest->weight)
            heaviest = r->terms[i];
    }
    if (heaviest == NULL || heaviest->p.dir == NULL ||
        heaviest->list_bound <= r->best.threshold)
        return SR1_OK;
    return score_term_block(r, heaviest, &best);
}

/* Window by window, with bounds. */
static sr1_status rank_windows(struct sr1__bm25_ranker *r,
                               const struct sr1__bm25_query_term *terms, size_t n)
{
    uint32_t base = 0;

    SR1__TRY(reserve_terms(r, n));
    r->n = n;
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(term_open(r, r->terms[i], &terms[i]));
        SR1__TRY(term_bound(r, r->terms[i], &terms[i]));
    }
    SR1__TRY(raise_threshold(r));
    while (n > 0 && base < r->documents)
        SR1__TRY(rank_window(r, base, &base));
    return SR1_OK;
}

sr1_status sr1__bm25_rank(struct sr1__bm25_ranker *r,
                          const struct sr1__bm25_query_term *terms, size_t n,
                          int32_t top_k, const struct sr1__bm25_doc **docs,
                          int32_t *found, struct sr1__bm25_work *work)
{
    sr1_status status;
    uint64_t listed = 0;

    for (size_t i = 0; i < n; i++)
        listed += terms[i].term.df;
    work->listed += listed;
    r->scored = 0;
    SR1__TRY(sr1__top_k_begin(&r->best, top_k));
    status = listed <= SHORT_LISTS && r->documents <= SR1__FEW_DOCUMENTS
                 ? sr1__bm25_rank_all(r, terms, n)
                 : rank_windows(r, terms, n);
    if (status != SR1_OK) {
        memset(r->scores, 0, sizeof(r->scores));
        r->n_candidates = 0;
        return status;
    }
    sr1__top_k_sort(&r->best);
    work->scored += r->scored;
    *docs = r->best.docs;
    *found = r->best.n;
    return SR1_OK;
}
