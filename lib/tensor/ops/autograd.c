/* tensor/ops/autograd.c - backward functions written in C, and activation
 * checkpointing.
 *
 * Both run inside t_backward: there they open a scope of their own, and an error travels
 * through libtorch as an exception that keeps its status. */
#include "tensor/ops/ops.h"

#include "base/mem.h"

/* ---- operations whose backward is a C function ---- */

struct custom {
    sr1__grad_fn fn;
    void *self;
    void (*free_self)(void *);
    sr1__device device;
};

static void custom_free(void *p)
{
    struct custom *c = p;

    if (c->free_self)
        c->free_self(c->self);
    sr1__free(c);
}

static sr1_status custom_backward(void *p, sr1_tensor *const *grads_out, size_t n_out,
                                  sr1_tensor **grads_in, size_t n_in)
{
    struct custom *c = p;
    sr1_scope *g = sr1__scope_open(c->device, "backward");

    (void)n_out;
    sr1__scope_no_grad(g);
    if (g)
        c->fn(g, c->self, grads_out, grads_in);
    for (size_t i = 0; i < n_in; i++)
        grads_in[i] = t_hold(g, grads_in[i]);
    return sr1__scope_close(g);
}

/* An absent output on a scope that has not failed is an error of the caller. */
static int check_outputs(sr1_scope *s, sr1_tensor *const *y, size_t n)
{
    if (sr1__scope_status(s) == SR1_OK && n > SR1__MAX_OUTPUTS)
        sr1__scope_fail(s, SR1_E_INTERNAL, "backward function: %zu outputs, at most %d",
                        n, SR1__MAX_OUTPUTS);
    for (size_t i = 0; i < n && sr1__scope_status(s) == SR1_OK; i++)
        if (!y[i])
            sr1__scope_fail(s, SR1_E_INTERNAL, "backward function: output %zu is missing",
                            i + 1);
    return sr1__scope_status(s) == SR1_OK;
}

void t_with_backward(sr1_scope *s, sr1_tensor **y, size_t n_y, sr1_tensor *const *inputs,
                     size_t n, sr1__grad_fn fn, void *self, void (*free_self)(void *))
{
    int live = check_outputs(s, y, n_y);
    struct custom *c = live ? sr1__malloc(sizeof *c) : NULL;
    sr1_tensor *r[SR1__MAX_OUTPUTS] = {NULL};

    if (!c) {
        if (free_self)
            free_self(self);
        if (live)
            sr1__scope_check(s, sr1__fail_nomem("backward function"));
    } else {
        *c = (struct custom){fn, self, free_self, sr1__scope_device(s)};
        sr1__scope_check(s, sr1__shim_with_backward(r, y, n_y, inputs, n, custom_backward,
                                                    c, custom_free));
    }
    for (size_t i = 0; i < n_y; i++)
        y[i] = i < SR1__MAX_OUTPUTS ? sr1__scope_own(s, r[i]) : NULL;
}

/* ---- activation checkpointing: y = f(x), computed again in backward ---- */

struct checkpoint_segment {
    sr1__segment_fn fn;
    void *self;
    void (*free_self)(void *);
    sr1_tensor *x;
};

static void checkpoint_free(void *p)
{
    struct checkpoint_segment *c = p;

    if (c->free_self)
        c->free_self(c->self);
    sr1__tensor_free(c->x);
    sr1__free(c);
}

/* Run fn again on a leaf made of x and push grad_y through: parameters accumulate their
 * own gradients, the leaf receives that of x. */
static void checkpoint_backward(sr1_scope *g, void *p, sr1_tensor *const *grads_y,
                                sr1_tensor **grads)
{
    struct checkpoint_segment *c = p;
    sr1_tensor *x = t_detach(g, c->x);
    int mode = sr1__shim_grad_mode(1);

    t_require_grad(g, x, 1);
    t_backward_with(g, c->fn(g, c->self, x), grads_y[0]);
    sr1__shim_grad_mode(mode);
    grads[0] = t_grad(g, x);
}

sr1_tensor *t_checkpoint(sr1_scope *s, sr1__segment_fn fn, void *self,
                         void (*free_self)(void *), sr1_tensor *x)
{
    struct checkpoint_segment *c = sr1__calloc(1, sizeof *c);
    sr1_scope *quiet;
    sr1_tensor *y;
    sr1_tensor *made;

    if (!c) {
        if (free_self)
            free_self(self);
        sr1__scope_check(s, sr1__fail_nomem("checkpointed segment"));
        return NULL;
    }
    *c = (struct checkpoint_segment){fn, self, free_self, t_hold(s, x)};
    quiet = sr1__scope_nest(s, "segment");
    sr1__scope_no_grad(quiet);
    made = quiet ? t_keep(quiet, fn(quiet, self, x)) : NULL;
    (void)sr1__scope_close(quiet);
    y = made;
    t_with_backward(s, &y, 1, &x, 1, checkpoint_backward, c, checkpoint_free);
    t_drop(s, made); /* else it would outlive the backward pass of what follows */
    return y;
}
