/* environment/trajectory/length_balance.c - divide lengths into k parts of nearly equal
 * sums by the largest differencing method (Karmarkar and Karp 1982).
 *
 * Every item begins as a partition of its own into k sets, all but one empty. Of the
 * partitions the two with the largest spread (largest sum minus smallest) are merged, the
 * largest set of one with the smallest of the other, and so on, until one is left. With
 * equal sizes a partition begins with k items of neighbouring lengths, one a set; items
 * of length 0 fill up to a multiple of k and are dropped at the end. */
#include <searchr1/ext/batching.h>

#include "base/mem.h"
#include "base/struct.h"

#include <stdlib.h>

#define NONE SIZE_MAX
#define MOST_SETS ((size_t)1 << 26) /* 1.5 GiB */

struct set {
    int64_t sum;
    size_t first; /* items as a list through next[], NONE: empty */
    size_t last;
};

struct balance_work {
    size_t k;
    size_t n_heap;
    struct set *sets; /* [partitions * k], each partition's sums falling */
    size_t *heap;     /* partitions, that of the largest spread first */
    size_t *next;     /* [n] next item of a set */
};

/* ---- partitions ---- */

static int larger_first(const void *a, const void *b)
{
    const struct set *x = a, *y = b;

    if (x->sum != y->sum)
        return x->sum > y->sum ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int64_t partition_spread(const struct balance_work *w, size_t p)
{
    return w->sets[p * w->k].sum - w->sets[p * w->k + w->k - 1].sum;
}

/* Does partition a come before b? */
static int has_larger_spread(const struct balance_work *w, size_t a, size_t b)
{
    int64_t x = partition_spread(w, a), y = partition_spread(w, b);

    return x != y ? x > y : a < b;
}

static void append_set(const struct balance_work *w, struct set *to,
                       const struct set *from)
{
    to->sum += from->sum;
    if (from->first == NONE)
        return;
    if (to->first == NONE)
        to->first = from->first;
    else
        w->next[to->last] = from->first;
    to->last = from->last;
}

/* Partition b into a, large with small. */
static void merge_partitions(struct balance_work *w, size_t a, size_t b)
{
    struct set *x = w->sets + a * w->k, *y = w->sets + b * w->k;

    for (size_t j = 0; j < w->k; j++)
        append_set(w, &x[j], &y[w->k - 1 - j]);
    qsort(x, w->k, sizeof *x, larger_first);
}

/* ---- the heap ---- */

static void sift_partition_down(struct balance_work *w, size_t at)
{
    for (;;) {
        size_t best = at, child = 2 * at + 1, moved;

        for (size_t c = child; c < child + 2 && c < w->n_heap; c++)
            if (has_larger_spread(w, w->heap[c], w->heap[best]))
                best = c;
        if (best == at)
            return;
        moved = w->heap[at];
        w->heap[at] = w->heap[best];
        w->heap[best] = moved;
        at = best;
    }
}

static size_t pop_largest_spread(struct balance_work *w)
{
    size_t first = w->heap[0];

    w->heap[0] = w->heap[--w->n_heap];
    sift_partition_down(w, 0);
    return first;
}

/* Until one partition is left. */
static void merge_all_partitions(struct balance_work *w)
{
    for (size_t i = w->n_heap / 2; i-- > 0;)
        sift_partition_down(w, i);
    while (w->n_heap > 1) {
        size_t a = pop_largest_spread(w);

        merge_partitions(w, a, w->heap[0]);
        w->heap[0] = a;
        sift_partition_down(w, 0);
    }
}

/* ---- beginning and end ---- */

struct balance_item {
    int64_t length;
    size_t index;
};

static int shorter_first(const void *a, const void *b)
{
    const struct balance_item *x = a, *y = b;

    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static sr1_status alloc_partitions(struct balance_work *w, size_t n, size_t partitions)
{
    if (partitions > MOST_SETS / w->k)
        return sr1__fail(SR1_E_LIMIT, "balance: %zu lengths over %zu parts are too many",
                         n, w->k);
    w->sets = sr1__calloc(partitions * w->k, sizeof *w->sets);
    w->heap = sr1__calloc(partitions, sizeof *w->heap);
    w->next = sr1__calloc(n, sizeof *w->next);
    SR1__CHECK_ALLOC(w->sets && w->heap && w->next, "partitions");
    for (size_t s = 0; s < partitions * w->k; s++)
        w->sets[s].first = w->sets[s].last = NONE;
    for (size_t i = 0; i < n; i++)
        w->next[i] = NONE;
    for (size_t p = 0; p < partitions; p++)
        w->heap[p] = p;
    w->n_heap = partitions;
    return SR1_OK;
}

static void put_single_item(struct balance_work *w, size_t set, int64_t length,
                            size_t index)
{
    w->sets[set] = (struct set){length, index, index};
}

static sr1_status begin_single(struct balance_work *w, const int64_t *lengths, size_t n)
{
    SR1__TRY(alloc_partitions(w, n, n));
    for (size_t i = 0; i < n; i++)
        put_single_item(w, i * w->k, lengths[i], i);
    return SR1_OK;
}

static sr1_status begin_equal(struct balance_work *w, const int64_t *lengths, size_t n)
{
    size_t partitions = (n - 1) / w->k + 1, missing = partitions * w->k - n;
    struct balance_item *items = sr1__calloc(n, sizeof *items);
    sr1_status status = items != NULL ? SR1_OK : sr1__fail_nomem("items to balance");

    if (status == SR1_OK)
        status = alloc_partitions(w, n, partitions);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        items[i] = (struct balance_item){lengths[i], i};
    if (status == SR1_OK) {
        qsort(items, n, sizeof *items, shorter_first);
        for (size_t i = 0; i < n; i++)
            put_single_item(w, missing + i, items[i].length, items[i].index);
        for (size_t p = 0; p < partitions; p++)
            qsort(w->sets + p * w->k, w->k, sizeof *w->sets, larger_first);
    }
    sr1__free(items);
    return status;
}

/* Number the sets of the one partition left in the order of their first items. */
static void number_parts(const struct balance_work *w, size_t n, int32_t *part)
{
    const struct set *sets = w->sets + w->heap[0] * w->k;
    int32_t known = 0;

    for (size_t i = 0; i < n; i++)
        part[i] = -1;
    for (size_t s = 0; s < w->k; s++)
        for (size_t i = sets[s].first; i != NONE; i = w->next[i])
            part[i] = -2 - (int32_t)s;
    for (size_t i = 0; i < n; i++) {
        int32_t mark = part[i];

        if (mark >= 0)
            continue;
        for (size_t j = sets[-2 - mark].first; j != NONE; j = w->next[j])
            part[j] = known;
        known++;
    }
}

/* ---- the report ---- */

static void widen_range(int64_t sum, int first, int64_t *min, int64_t *max)
{
    *min = first || sum < *min ? sum : *min;
    *max = first || sum > *max ? sum : *max;
}

static sr1_balance_report report_balance(const struct balance_work *w,
                                         const int64_t *lengths, size_t n, size_t parts)
{
    sr1_balance_report r = {.struct_size = sizeof r};
    const struct set *sets = n > 0 ? w->sets + w->heap[0] * w->k : NULL;
    size_t i = 0;

    for (size_t p = 0; p < w->k; p++) {
        size_t end = i + n / w->k + (p < n % w->k);
        int64_t sum = 0;

        for (; i < end; i++)
            sum += lengths[i];
        widen_range(sum, p == 0, &r.min, &r.max);
        widen_range(sets[p].sum, p == 0, &r.balanced_min, &r.balanced_max);
        r.mean += (double)sum / (double)parts;
    }
    if (parts > w->k) /* the others are empty */
        r.min = r.balanced_min = 0;
    return r;
}

/* ---- the call ---- */

static sr1_status check_balance_input(const int64_t *lengths, size_t n, size_t parts,
                                      const int32_t *part,
                                      const sr1_balance_report *report)
{
    int64_t total = 0;

    if (parts == 0 || parts > INT32_MAX - 2)
        return sr1__fail(SR1_E_INVALID, "balance: %zu parts is not in 1..%d", parts,
                         INT32_MAX - 2);
    if (n > 0 && (lengths == NULL || part == NULL))
        return sr1__fail(SR1_E_INVALID, "balance: lengths or part is NULL");
    for (size_t i = 0; i < n; i++) {
        if (lengths[i] < 0)
            return sr1__fail(SR1_E_INVALID, "balance: length %zu is negative", i);
        if (lengths[i] > INT64_MAX - total)
            return sr1__fail(SR1_E_INVALID, "balance: the lengths' sum is too large");
        total += lengths[i];
    }
    return report != NULL ? sr1__struct_check(report, "balance report") : SR1_OK;
}

sr1_status sr1_balance(const int64_t *lengths, size_t n, size_t parts,
                       int32_t equal_sizes, int32_t *part, sr1_balance_report *report)
{
    struct balance_work w = {.k = parts < n ? parts : n};
    sr1_balance_report made;
    sr1_status status = SR1_OK;

    SR1__TRY(check_balance_input(lengths, n, parts, part, report));
    if (n > 0)
        status = equal_sizes ? begin_equal(&w, lengths, n) : begin_single(&w, lengths, n);
    if (status == SR1_OK) {
        if (n > 0) {
            merge_all_partitions(&w);
            number_parts(&w, n, part);
        }
        made = report_balance(&w, lengths, n, parts);
        if (report != NULL)
            status = sr1__struct_give(report, &made, sizeof made, "balance report");
    }
    sr1__free(w.sets);
    sr1__free(w.heap);
    sr1__free(w.next);
    return status;
}
