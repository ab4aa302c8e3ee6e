/* tensor/ops/scope.h - a scope owns every tensor made through it and holds the first
 * error.
 *
 * Model code reads like its formula because operations (tensor/ops/ops.h) take the scope
 * first, do nothing once it has failed, and always return a handle that can be passed on
 * (NULL after a failure). The error is looked at once, when the scope is closed:
 *
 *     sr1_scope *s = sr1__scope_open(device, "step %" PRId64, step);
 *     sr1_tensor *y = t_linear(s, x, w, NULL);
 *     double v = t_item(s, t_sum(s, y));          0 on a failed scope
 *     return sr1__scope_close(s);                 "step 41: linear [4,8]x[2,3]: ..."
 *
 * Scopes nest strictly (last opened, first closed) on one thread; a nested scope that
 * fails fails its parent when it closes, so its own close status may be dropped with
 * (void). Tensors from outside (weights, batches) are borrowed and must outlive the call
 * only: autograd holds its own references. */
#ifndef SR1__OPS_SCOPE_H
#define SR1__OPS_SCOPE_H

#include "tensor/torch/shim.h"

typedef struct sr1_scope sr1_scope;

/* Open a root scope on a device, or one nested in parent (same device, label
 * "parent/own"). NULL when there is no memory: every function here and every t_ operation
 * takes NULL as a scope that failed for lack of memory. */
sr1_scope *sr1__scope_open(sr1__device device, const char *fmt, ...) SR1__PRINTF(2, 3);
sr1_scope *sr1__scope_nest(sr1_scope *parent, const char *fmt, ...) SR1__PRINTF(2, 3);

/* Free every tensor of the scope, restore its grad mode, return its status with the text
 * set on this thread, and fail the parent if this one failed. */
sr1_status sr1__scope_close(sr1_scope *s);

/* No gradients are recorded on this thread until s closes. */
void sr1__scope_no_grad(sr1_scope *s);
/* The same, cheaper per operation; tensors made under it can never enter a formula that
 * needs gradients (decoding only). */
void sr1__scope_inference(sr1_scope *s);

sr1_status sr1__scope_status(const sr1_scope *s); /* SR1_OK or the first failure */
sr1__device sr1__scope_device(const sr1_scope *s);

/* Fail the scope (kept only if it is the first failure); the text is "labels: fmt". */
void sr1__scope_fail(sr1_scope *s, sr1_status status, const char *fmt, ...)
    SR1__PRINTF(3, 4);
/* The same with a status and text that a function of this thread has just set. SR1_OK is
 * ignored, so plain calls can be chained into a scope: sr1__scope_check(s, do_thing()).
 */
void sr1__scope_check(sr1_scope *s, sr1_status status);

/* Make the parent scope own t too, so t outlives s (SR1_E_INTERNAL if s has no parent).
 */
sr1_tensor *t_keep(sr1_scope *s, sr1_tensor *t);
/* A reference of the caller's own, freed with sr1__tensor_free; NULL on a failed scope.
 */
sr1_tensor *t_hold(sr1_scope *s, sr1_tensor *t);
/* Let go of one temporary before the scope closes (a big one in a loop). t must have been
 * made by this very scope and not be used again. */
void t_drop(sr1_scope *s, sr1_tensor *t);

void sr1__tensor_free(sr1_tensor *t); /* NULL is fine */

/* Used by operations: own a new tensor (NULL passes), or record why there is none. */
sr1_tensor *sr1__scope_own(sr1_scope *s, sr1_tensor *t);

#endif
