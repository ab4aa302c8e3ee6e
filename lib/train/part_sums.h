/* train/part_sums.h - sums of gradients of which each rank has a piece (ZeRO-2).
 *
 * Each rank gives one gradient at a time, and the owner of a number adds up what all give
 * in an order that belongs to the plan, not to who computed what: the micro-batches of a
 * worker one after the other, and then the workers,
 *
 *     (g[0] + g[W] + g[2W] ...) + (g[1] + g[W+1] + ...) + ...      W workers
 *
 * so that the bits are those of W workers with whole sums of their own. */
#ifndef SR1__TRAIN_PART_SUMS_H
#define SR1__TRAIN_PART_SUMS_H

#include "train/learner.h"

/* What the ranks give at once: of the first n a gradient each, in this order. */
struct sr1__sum_order {
    int32_t n;
    const uint8_t *fresh; /* [n]: with this one a worker begins */
    int32_t summed;       /* they are sums in fp32 already */
};

sr1_status sr1__part_sums_new(struct sr1__part_sums **out, const struct sr1__learner *l);
void sr1__part_sums_free(struct sr1__part_sums *p); /* NULL is fine */
void sr1__part_sums_clear(struct sr1__part_sums *p);

/* Add the gradients of unit u of the first replica, and forget them there. All ranks call
 * it; st as for sr1__shards_scatter. */
sr1_status sr1__part_sums_add(struct sr1__part_sums *p, size_t u, sr1_status st,
                              const struct sr1__sum_order *order);

/* The same of a unit that has numbers, whose gradients are on their way when the call
 * returns SR1_OK; `order` is needed up to the end, which adds them, and before which no
 * other unit is begun. Nothing is on its way: the end returns st. */
sr1_status sr1__part_sums_begin(struct sr1__part_sums *p, size_t u, sr1_status st,
                                const struct sr1__sum_order *order);
sr1_status sr1__part_sums_end(struct sr1__part_sums *p, sr1_status st);

/* [n_params]: of which there was a gradient here. Borrowed. */
uint8_t *sr1__part_sums_trained(struct sr1__part_sums *p);
/* Once all are added: parts[n_params], flat, of what this rank owns, NULL where wanted[i]
 * is 0 or nothing is owned. The caller frees each with sr1__tensor_free. */
sr1_status sr1__part_sums_finish(struct sr1__part_sums *p, const uint8_t *wanted,
                                 sr1_tensor **parts);

#endif
