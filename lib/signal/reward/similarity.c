/* signal/reward/similarity.c - the ratio of Python's difflib.SequenceMatcher(None, a, b):
 *
 *     ratio = 2 M / (|a| + |b|)
 *
 * M counts the characters in matching blocks: the longest block (the first in a, then in
 * b, of equal ones), and the same again to its left and to its right. When b has 200
 * characters or more, those that make up over 1% of it are popular: a block cannot begin
 * with them but extends over them. Hence the ratio is not symmetric.
 *
 * Time: a block costs |a| times the largest number of unpopular occurrences in b of one
 * character (199 at most for short b, |b| / 100 + 1 for long), and there are at most
 * min(|a|, |b|) blocks; the bound on lengths keeps that below a second. */
#include "signal/reward/similarity.h"

#include "base/mem.h"

#include <searchr1/ext/text_metrics.h>

#include <stdlib.h>

#define POPULAR_FROM 200 /* characters in b */

/* A character of b and where it stands. */
struct char_place {
    uint32_t cp;
    uint32_t j;
};

struct range {
    uint32_t begin, end;
};

/* A piece of a and a piece of b that are still to be matched. */
struct unmatched_piece {
    size_t alo, ahi, blo, bhi;
};

struct matching_block {
    size_t i, j, size;
};

/* Length of the run that ends at a character of b, in the row it was written in. */
struct match_run {
    uint32_t row;
    uint32_t len;
};

struct matcher {
    const uint32_t *a, *b;
    size_t na, nb;
    struct char_place *places; /* [nb] of b, by character, then position */
    struct range *where;       /* [na] which places hold a[i]; empty when it is popular */
    struct match_run
        *runs[2]; /* [nb + 1] each, of the row before and of this row; at j + 1 */
    uint32_t row;
    struct unmatched_piece *todo; /* [2 * min(na, nb) + 2] */
    size_t n_todo;
};

static int by_character(const void *x, const void *y)
{
    const struct char_place *p = x, *q = y;

    if (p->cp != q->cp)
        return p->cp < q->cp ? -1 : 1;
    return p->j < q->j ? -1 : p->j > q->j;
}

/* First place in [begin, end) that is not before (cp, j). */
static uint32_t find_first_place(const struct matcher *m, uint32_t begin, uint32_t end,
                                 uint32_t cp, size_t j)
{
    while (begin < end) {
        uint32_t mid = begin + (end - begin) / 2;
        const struct char_place *p = &m->places[mid];

        if (p->cp < cp || (p->cp == cp && p->j < j))
            begin = mid + 1;
        else
            end = mid;
    }
    return begin;
}

static void index_b(struct matcher *m)
{
    size_t most = m->nb >= POPULAR_FROM ? m->nb / 100 + 1 : m->nb, i;
    uint32_t nb = (uint32_t)m->nb;

    for (i = 0; i < m->nb; i++) {
        m->places[i].cp = m->b[i];
        m->places[i].j = (uint32_t)i;
    }
    qsort(m->places, m->nb, sizeof *m->places, by_character);
    for (i = 0; i < m->na; i++) {
        struct range *w = &m->where[i];

        w->begin = find_first_place(m, 0, nb, m->a[i], 0);
        w->end = find_first_place(m, w->begin, nb, m->a[i], m->nb);
        if (w->end - w->begin > most)
            w->end = w->begin;
    }
}

/* The longest run of unpopular characters, the first of equal ones. */
static struct matching_block longest_run(struct matcher *m,
                                         const struct unmatched_piece *p)
{
    struct matching_block best = {p->alo, p->blo, 0};
    size_t i;

    m->row++; /* nothing of an earlier piece counts */
    for (i = p->alo; i < p->ahi; i++) {
        const struct range *w = &m->where[i];
        struct match_run *before = m->runs[i % 2], *now = m->runs[(i + 1) % 2];
        uint32_t at = find_first_place(m, w->begin, w->end, m->a[i], p->blo);

        m->row++;
        for (; at < w->end && m->places[at].j < p->bhi; at++) {
            size_t j = m->places[at].j;
            uint32_t k = before[j].row == m->row - 1 ? before[j].len + 1 : 1;

            now[j + 1].row = m->row;
            now[j + 1].len = k;
            if (k > best.size) {
                best.i = i + 1 - k;
                best.j = j + 1 - k;
                best.size = k;
            }
        }
    }
    return best;
}

/* The longest run, extended over popular characters. */
static struct matching_block longest_block(struct matcher *m,
                                           const struct unmatched_piece *p)
{
    struct matching_block best = longest_run(m, p);

    while (best.i > p->alo && best.j > p->blo && m->a[best.i - 1] == m->b[best.j - 1]) {
        best.i--;
        best.j--;
        best.size++;
    }
    while (best.i + best.size < p->ahi && best.j + best.size < p->bhi &&
           m->a[best.i + best.size] == m->b[best.j + best.size])
        best.size++;
    return best;
}

static void push_piece(struct matcher *m, size_t alo, size_t ahi, size_t blo, size_t bhi)
{
    if (alo < ahi && blo < bhi)
        m->todo[m->n_todo++] = (struct unmatched_piece){alo, ahi, blo, bhi};
}

/* M: characters in all blocks. */
static size_t count_matches(struct matcher *m)
{
    size_t matches = 0;

    push_piece(m, 0, m->na, 0, m->nb);
    while (m->n_todo > 0) {
        struct unmatched_piece p = m->todo[--m->n_todo];
        struct matching_block k = longest_block(m, &p);

        if (k.size == 0)
            continue;
        matches += k.size;
        push_piece(m, p.alo, k.i, p.blo, k.j);
        push_piece(m, k.i + k.size, p.ahi, k.j + k.size, p.bhi);
    }
    return matches;
}

static sr1_status matcher_init(struct matcher *m, const struct sr1__chars *a,
                               const struct sr1__chars *b)
{
    size_t least = a->n < b->n ? a->n : b->n;

    m->a = a->cp;
    m->b = b->cp;
    m->na = a->n;
    m->nb = b->n;
    m->places = sr1__calloc(b->n + 1, sizeof *m->places);
    m->where = sr1__calloc(a->n + 1, sizeof *m->where);
    m->runs[0] = sr1__calloc(b->n + 1, sizeof *m->runs[0]);
    m->runs[1] = sr1__calloc(b->n + 1, sizeof *m->runs[1]);
    m->todo = sr1__calloc(2 * least + 2, sizeof *m->todo);
    SR1__CHECK_ALLOC(m->places && m->where && m->runs[0] && m->runs[1] && m->todo,
                     "similarity");
    return SR1_OK;
}

static void matcher_free(struct matcher *m)
{
    sr1__free(m->places);
    sr1__free(m->where);
    sr1__free(m->runs[0]);
    sr1__free(m->runs[1]);
    sr1__free(m->todo);
}

sr1_status sr1__similarity_ratio(const struct sr1__chars *a, const struct sr1__chars *b,
                                 double *out)
{
    struct matcher m = {0};
    sr1_status status = matcher_init(&m, a, b);

    if (status == SR1_OK) {
        index_b(&m);
        *out = a->n + b->n == 0 ? 1
                                : 2.0 * (double)count_matches(&m) / (double)(a->n + b->n);
    }
    matcher_free(&m);
    return status;
}

sr1_status sr1_similarity_ratio(const char *a, size_t a_len, const char *b, size_t b_len,
                                double *out)
{
    struct sr1__chars x = {NULL, 0}, y = {NULL, 0};
    sr1_status status;

    if ((a == NULL && a_len > 0) || (b == NULL && b_len > 0) || out == NULL)
        return sr1__fail(SR1_E_INVALID, "similarity: an argument is NULL");
    status = sr1__chars_decode(&x, a, a_len);
    if (status == SR1_OK)
        status = sr1__chars_decode(&y, b, b_len);
    if (status == SR1_OK && (x.n > SR1_SIMILARITY_MAX || y.n > SR1_SIMILARITY_MAX))
        status = sr1__fail(SR1_E_LIMIT, "similarity: %zu characters; at most %d",
                           x.n > y.n ? x.n : y.n, SR1_SIMILARITY_MAX);
    if (status == SR1_OK)
        status = sr1__similarity_ratio(&x, &y, out);
    sr1__chars_free(&x);
    sr1__chars_free(&y);
    return status;
}
