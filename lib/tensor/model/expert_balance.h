/* tensor/model/expert_balance.h - how evenly a forward pass spreads its tokens over
 * experts, as transformers' load_balancing_loss_func:
 *
 *     loss = E sum_e f_e P_e
 *
 * over the tokens of all layers that have E experts: f_e is the share of them that chose
 * expert e, which add up to the experts of a token, and P_e the mean of its probability
 * (Fedus et al. 2021, Switch Transformers, equations 4 to 6). */
#ifndef SR1__MODEL_EXPERT_BALANCE_H
#define SR1__MODEL_EXPERT_BALANCE_H

#include "tensor/ops/ops.h"

struct sr1__expert_balance;

/* copies [n]: the sequences that a token stands for; NULL: 1 each. weight: of the loss in
 * the gradient. Freed by the last release. NULL is returned on a failed scope. */
struct sr1__expert_balance *sr1__expert_balance_new(sr1_scope *s, int64_t n_experts,
                                                    const float *copies, int64_t n,
                                                    double weight);
void sr1__expert_balance_release(struct sr1__expert_balance *b); /* NULL is fine */

/* The probabilities p [N,E] of a layer, fp32. Backward adds to their gradient that of the
 * loss. */
sr1_tensor *sr1__expert_balance_mark(sr1_scope *s, struct sr1__expert_balance *b,
                                     sr1_tensor *p);
/* Count them, and the k experts that each token chose [N * k], until the pass ends: a
 * layer that is computed again in backward is not counted again. */
void sr1__expert_balance_count(sr1_scope *s, struct sr1__expert_balance *b, sr1_tensor *p,
                               const int64_t *chosen, int64_t k);
/* Every layer has been counted: the loss; 0 if no layer has experts. */
double sr1__expert_balance_end(sr1_scope *s, struct sr1__expert_balance *b);

#endif
