/* tensor/model/routing.c - a counting sort of places by expert. */
#include "tensor/model/routing.h"

#include "base/mem.h"

#include <string.h>

sr1_status sr1__routing_new(struct sr1__routing *r, int64_t tokens, int64_t k,
                            int64_t n_experts)
{
    int64_t n = tokens * k;

    *r = (struct sr1__routing){.n = n, .k = k, .n_experts = n_experts};
    r->chosen = sr1__calloc((size_t)(4 * n + n_experts), sizeof *r->chosen);
    SR1__CHECK_ALLOC(r->chosen, "routing to experts");
    r->order = r->chosen + n;
    r->back = r->order + n;
    r->token = r->back + n;
    r->counts = r->token + n;
    return SR1_OK;
}

void sr1__routing_sort(struct sr1__routing *r, int64_t tokens)
{
    int64_t at = 0;

    r->n = tokens * r->k;
    r->used = 0;
    memset(r->counts, 0, (size_t)r->n_experts * sizeof *r->counts);
    for (int64_t i = 0; i < r->n; i++)
        r->counts[r->chosen[i]]++;
    for (int64_t e = 0; e < r->n_experts; e++) {
        int64_t n = r->counts[e];

        r->used += n > 0;
        r->counts[e] = at;
        at += n;
    }
    for (int64_t i = 0; i < r->n; i++) {
        int64_t to = r->counts[r->chosen[i]]++;

        r->order[to] = i;
        r->back[i] = to;
        r->token[to] = i / r->k;
    }
    for (int64_t e = r->n_experts - 1; e > 0; e--)
        r->counts[e] -= r->counts[e - 1];
}

void sr1__routing_free(struct sr1__routing *r)
{
    sr1__free(r->chosen);
    *r = (struct sr1__routing){0};
}
