/* search/best.c - a binary heap. */
#include "search/best.h"

#include "base/mem.h"

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

void sr1__best_offer(struct sr1__best *b, uint32_t doc, int64_t score)
{
    struct sr1__bm25_doc d = {score, doc};

    if (score <= b->threshold)
        return;
    if (b->n < b->top_k) {
        b->docs[b->n] = d;
        sift_up(b->docs, b->n++);
    } else {
        b->docs[0] = d;
        sift_down(b->docs, b->n);
    }
    if (b->n == b->top_k && b->docs[0].score > b->threshold)
        b->threshold = b->docs[0].score;
}

void sr1__best_restart(struct sr1__best *b)
{
    if (b->n == b->top_k)
        b->threshold = b->docs[0].score - 1;
    b->n = 0;
}

void sr1__best_sort(struct sr1__best *b)
{
    for (int32_t n = b->n - 1; n > 0; n--) {
        struct sr1__bm25_doc worst = b->docs[0];

        b->docs[0] = b->docs[n];
        sift_down(b->docs, n);
        b->docs[n] = worst;
    }
}

sr1_status sr1__best_begin(struct sr1__best *b, int32_t top_k)
{
    if (top_k > b->capacity) {
        struct sr1__bm25_doc *docs = sr1__realloc(b->docs, (size_t)top_k, sizeof(*docs));

        if (docs == NULL)
            return sr1__fail_nomem("best documents");
        b->docs = docs;
        b->capacity = top_k;
    }
    b->top_k = top_k;
    b->n = 0;
    b->threshold = -1;
    return SR1_OK;
}

void sr1__best_free(struct sr1__best *b)
{
    sr1__free(b->docs);
}
