/* train/unit_pass.h - a micro-batch's way through a decoder whose gradients, and maybe
 * weights, are on several ranks.
 *
 * All ranks go through the same list of exchanges, unit by unit (0: the embedding, then
 * the layers, last the head):
 *
 *     forward    get the weights of 0, 1, ... U-1, each given up again after use
 *     backward   add the gradients of U-1; get the weights of U-2, add its gradients; ...
 *
 * The model calls by its hooks when a unit is needed, and when its gradients are there; a
 * rank without a micro-batch, or with one that failed, goes through the rest of the list
 * at the end. Weights are got only where they are resharded (ZeRO-3). */
#ifndef SR1__TRAIN_UNIT_PASS_H
#define SR1__TRAIN_UNIT_PASS_H

#include "train/part_sums.h"

sr1_status sr1__unit_pass_new(struct sr1__unit_pass **out, struct sr1__learner *l);
void sr1__unit_pass_free(struct sr1__unit_pass *p); /* NULL is fine */

/* A pass in which ranks give gradients in this order, which is copied but for the array.
 * Between begin and end the first replica may run forward and backward once. */
void sr1__unit_pass_begin(struct sr1__unit_pass *p, const struct sr1__sum_order *order);
/* The rest of the list. st is how this rank's micro-batch ended; returns that of all. */
sr1_status sr1__unit_pass_end(struct sr1__unit_pass *p, sr1_status st);

/* Between these two the weights lie in parts, one on each rank of a group. Nothing to do
 * where they are not resharded. After a failure of the first they are whole; the second
 * makes them so also after st; once the connection is over they are NaN. Rollouts,
 * log-probs and checkpoints read whole weights: as verl's hybrid engine, a learner
 * gathers them for these and releases them for its update. */
sr1_status sr1__unit_pass_reshard(struct sr1__unit_pass *p);
sr1_status sr1__unit_pass_restore(struct sr1__unit_pass *p, sr1_status st);
/* Are they in parts? */
int sr1__unit_pass_in_parts(const struct sr1__unit_pass *p);

#endif
