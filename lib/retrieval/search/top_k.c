/* retrieval/search/top_k.c - a binary heap. */
#include "retrieval/search/top_k.h"

#include "base/mem.h"

static int is_worse_doc(const struct sr1__bm25_doc *a, const struct sr1__bm25_doc *b)
{
    return a->score != b->score ? a->score < b->score : a->doc > b->doc;
}

static void sift_down_doc(struct sr1__bm25_doc *heap, int32_t n)
{
    struct sr1__bm25_doc moving = heap[0];
    int32_t at = 0;

    for (int32_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && is_worse_doc(&heap[child + 1], &heap[child]))
            child++;
        if (!is_worse_doc(&heap[child], &moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void sift_up_doc(struct sr1__bm25_doc *heap, int32_t at)
{
    struct sr1__bm25_doc moving = heap[at];

    while (at > 0 && is_worse_doc(&moving, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moving;
}

static void insert_doc(struct sr1__top_k *b, struct sr1__bm25_doc d)
{
    if (b->n < b->top_k) {
        b->docs[b->n] = d;
        sift_up_doc(b->docs, b->n++);
    } else {
        b->docs[0] = d;
        sift_down_doc(b->docs, b->n);
    }
    if (b->n == b->top_k && b->docs[0].score > b->threshold)
        b->threshold = b->docs[0].score;
}

void sr1__top_k_offer(struct sr1__top_k *b, uint32_t doc, int64_t score)
{
    struct sr1__bm25_doc d = {score, doc};

    if (score > b->threshold)
        insert_doc(b, d);
}

void sr1__best_offer_any(struct sr1__top_k *b, uint32_t doc, int64_t score)
{
    struct sr1__bm25_doc d = {score, doc};

    if (b->n < b->top_k ? score > b->threshold : is_worse_doc(&b->docs[0], &d))
        insert_doc(b, d);
}

void sr1__top_k_restart(struct sr1__top_k *b)
{
    if (b->n == b->top_k)
        b->threshold = b->docs[0].score - 1;
    b->n = 0;
}

void sr1__top_k_sort(struct sr1__top_k *b)
{
    for (int32_t n = b->n - 1; n > 0; n--) {
        struct sr1__bm25_doc worst = b->docs[0];

        b->docs[0] = b->docs[n];
        sift_down_doc(b->docs, n);
        b->docs[n] = worst;
    }
}

sr1_status sr1__top_k_begin(struct sr1__top_k *b, int32_t top_k)
{
    if (top_k > 0)
        SR1__RESERVE(b->docs, b->capacity, top_k, "best documents");
    b->top_k = top_k;
    b->n = 0;
    b->threshold = -1;
    return SR1_OK;
}

void sr1__top_k_free(struct sr1__top_k *b)
{
    sr1__free(b->docs);
}
