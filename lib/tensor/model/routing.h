/* tensor/model/routing.h - tokens in the order of their experts.
 *
 * A token and one of its experts are a place. Places are put in the order of experts, so
 * that the rows of an expert lie side by side: one product for each expert that has any,
 * and back. The number of a place, token * k + choice, is where its probability lies. */
#ifndef SR1__MODEL_ROUTING_H
#define SR1__MODEL_ROUTING_H

#include "base/error.h"

struct sr1__routing {
    int64_t n;         /* places: tokens * k */
    int64_t k;         /* of a token */
    int64_t n_experts; /* that there are */
    int64_t *chosen;   /* [n] expert of each place */
    int64_t *order;    /* [n] places by expert */
    int64_t *back;     /* [n] where each place is in that order */
    int64_t *token;    /* [n] in that order */
    int64_t *counts;   /* [n_experts] places */
    int64_t used;      /* experts that have any */
};

/* Room for tokens with k experts each, which the caller fills into chosen. */
sr1_status sr1__routing_new(struct sr1__routing *r, int64_t tokens, int64_t k,
                            int64_t n_experts);
/* Order the places of the first `tokens`; those of one expert stay in their order. */
void sr1__routing_sort(struct sr1__routing *r, int64_t tokens);
void sr1__routing_free(struct sr1__routing *r); /* one of zeros is fine */

#endif
