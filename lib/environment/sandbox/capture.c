/* environment/sandbox/capture.c - the beginning in a buffer, the end in a ring:
 *
 *     total <= head_max + tail_max:  all bytes
 *     more:                          head  "[N bytes left out]"  tail */
#include "environment/sandbox/capture.h"

#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define MARK_BYTES 40 /* of "[N bytes left out]" and its line ends, at most */

sr1_status sr1__capture_init(struct sr1__capture *c, size_t head_max, size_t tail_max)
{
    memset(c, 0, sizeof *c);
    sr1__buf_init(&c->head, head_max > 0 ? head_max : 1);
    c->tail_max = tail_max;
    if (tail_max > 0 && (c->tail = sr1__malloc(tail_max)) == NULL)
        return sr1__fail_nomem("output of a program");
    return SR1_OK;
}

sr1_status sr1__capture_init_ends(struct sr1__capture *c, size_t budget)
{
    return sr1__capture_init(c, budget / 2, budget - budget / 2 - MARK_BYTES);
}

void sr1__capture_free(struct sr1__capture *c)
{
    sr1__buf_free(&c->head);
    sr1__free(c->tail);
    c->tail = NULL;
}

/* Put bytes into the ring; at is how many went into it before. */
static void write_tail_ring(struct sr1__capture *c, uint64_t at, const char *bytes,
                            size_t n)
{
    if (n > c->tail_max) {
        at += n - c->tail_max;
        bytes += n - c->tail_max;
        n = c->tail_max;
    }
    while (n > 0) {
        size_t i = (size_t)(at % c->tail_max);
        size_t room = c->tail_max - i;
        size_t k = n < room ? n : room;

        memcpy(c->tail + i, bytes, k);
        at += k;
        bytes += k;
        n -= k;
    }
}

void sr1__capture_add(struct sr1__capture *c, const char *bytes, size_t n)
{
    size_t room = c->head.max - c->head.len;
    size_t k = n < room ? n : room;
    uint64_t before =
        (uint64_t)c->total > c->head.max ? (uint64_t)c->total - c->head.max : 0;

    sr1__buf_add(&c->head, bytes, k);
    c->total += (int64_t)n;
    if (c->tail != NULL && n > k)
        write_tail_ring(c, before, bytes + k, n - k);
}

/* The ring's n last bytes, oldest first. */
static void take_tail(const struct sr1__capture *c, uint64_t written,
                      struct sr1__buf *out)
{
    size_t n = written < c->tail_max ? (size_t)written : c->tail_max;
    size_t begin = written < c->tail_max ? 0 : (size_t)(written % c->tail_max);
    size_t first = n < c->tail_max - begin ? n : c->tail_max - begin;

    sr1__buf_add(out, c->tail + begin, first);
    sr1__buf_add(out, c->tail, n - first);
}

sr1_status sr1__capture_take(struct sr1__capture *c, struct sr1__buf *out)
{
    uint64_t past =
        (uint64_t)c->total > c->head.len ? (uint64_t)c->total - c->head.len : 0;

    *out = c->head;
    sr1__buf_init(&c->head, 1);
    out->max = SR1__BUF_DEFAULT_MAX;
    if (out->status == SR1_OK && c->tail != NULL && past > 0) {
        if (past > c->tail_max)
            sr1__buf_fmt(out, "\n[%" PRIu64 " bytes left out]\n", past - c->tail_max);
        take_tail(c, past, out);
    }
    return sr1__buf_status(out, "output of a program");
}

void sr1__last_line(const char *text, size_t n, const char **line, size_t *len)
{
    size_t begin = 0;
    size_t i;

    sr1__strip(text, &begin, &n);
    for (i = begin + n; i > begin && text[i - 1] != '\n'; i--)
        ;
    n = begin + n - i;
    sr1__strip(text, &i, &n);
    *line = text + i;
    *len = n;
}
