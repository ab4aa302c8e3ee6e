/* base/spans.c - see spans.h. */
#include "base/spans.h"

#include "base/mem.h"

void sr1__spans_free(struct sr1__spans *s)
{
    sr1__free(s->v);
    *s = (struct sr1__spans){0};
}

sr1_status sr1__spans_add(struct sr1__spans *s, size_t begin, size_t end)
{
    if (begin == end)
        return SR1_OK;
    if (s->n && s->v[2 * s->n - 1] == begin) {
        s->v[2 * s->n - 1] = end;
        return SR1_OK;
    }
    SR1__RESERVE(s->v, s->cap, 2 * s->n + 2, "stretches of text");
    s->v[2 * s->n] = begin;
    s->v[2 * s->n + 1] = end;
    s->n++;
    return SR1_OK;
}
