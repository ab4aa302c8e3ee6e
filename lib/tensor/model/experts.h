/* tensor/model/experts.h - an MLP of routed experts (Qwen3-MoE):
 *
 *     p = softmax(Wrouter h)
 *     y = sum_k p_k Wdown_k (silu(Wgate_k h) * (Wup_k h))
 *
 * over the k experts of the largest p, which are made to add up to 1 where the model says
 * so; with router replay over those of an earlier pass (route_log.h). */
#ifndef SR1__MODEL_EXPERTS_H
#define SR1__MODEL_EXPERTS_H

#include "tensor/model/expert_balance.h"
#include "tensor/model/model.h"
#include "tensor/model/route_log.h"

/* The output [N,E] of the experts of a layer for x [N,E]; the matrices are multiplied by
 * `by`, the tokens counted in *balance, and their experts those of *routes; both may be
 * NULL. */
sr1_tensor *sr1__experts_run(sr1_scope *s, const sr1_model *m,
                             const struct sr1__attention *by, int32_t layer,
                             sr1_tensor *x, struct sr1__expert_balance *balance,
                             const struct sr1__routes *routes);

#endif
