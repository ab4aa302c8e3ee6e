/* tensor/ops/scope.c - ownership of intermediate tensors and the sticky error.
 *
 * A scope is one block: label, first error, and an array of owned handles that starts
 * inside the block, so that a small scope costs one allocation. */
#include "tensor/ops/scope.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define LABEL_MAX 192
#define INLINE_HANDLES 56

enum grad_state { GRAD_UNTOUCHED, GRAD_WAS_OFF, GRAD_WAS_ON };

struct sr1_scope {
    sr1_scope *parent;
    sr1__device device;
    sr1_status status;
    enum grad_state grad; /* what the thread's mode was before no_grad */
    void *inference;      /* guard, or NULL */
    sr1_tensor **owned;   /* first, or an array of its own */
    size_t n_owned;
    size_t cap;
    struct sr1__error *error; /* NULL when memory for it could not be had */
    char label[LABEL_MAX];
    sr1_tensor *first[INLINE_HANDLES];
};

static sr1_scope *open_scope(sr1_scope *parent, sr1__device device, const char *fmt,
                             va_list ap)
{
    sr1_scope *s = sr1__malloc(sizeof *s);
    size_t n = 0;

    if (!s) {
        sr1__scope_check(parent, sr1__fail_nomem("scope"));
        return NULL;
    }
    memset(s, 0, offsetof(sr1_scope, label));
    s->parent = parent;
    s->device = device;
    s->owned = s->first;
    s->cap = INLINE_HANDLES;
    if (parent)
        n = (size_t)snprintf(s->label, LABEL_MAX, "%s/", parent->label);
    if (n < LABEL_MAX)
        vsnprintf(s->label + n, LABEL_MAX - n, fmt, ap);
    if (parent)
        s->status = parent->status;
    return s;
}

sr1_scope *sr1__scope_open(sr1__device device, const char *fmt, ...)
{
    sr1_scope *s;
    va_list ap;

    va_start(ap, fmt);
    s = open_scope(NULL, device, fmt, ap);
    va_end(ap);
    return s;
}

sr1_scope *sr1__scope_nest(sr1_scope *parent, const char *fmt, ...)
{
    sr1_scope *s;
    va_list ap;

    if (!parent)
        return NULL;
    va_start(ap, fmt);
    s = open_scope(parent, parent->device, fmt, ap);
    va_end(ap);
    return s;
}

static void restore_grad(sr1_scope *s)
{
    if (s->inference)
        sr1__shim_inference_leave(s->inference);
    if (s->grad != GRAD_UNTOUCHED)
        sr1__shim_grad_mode(s->grad == GRAD_WAS_ON);
}

/* Take over the first failure of a nested scope; its label already holds ours. */
static void inherit_error(sr1_scope *s, sr1_scope *child)
{
    if (s->status != SR1_OK || child->status == SR1_OK)
        return;
    s->status = child->status;
    s->error = child->error;
    child->error = NULL;
}

/* The scope's error as this thread's. */
static sr1_status raise_error(const sr1_scope *s)
{
    const sr1_scope *holder = s;

    while (holder && !holder->error)
        holder = holder->parent;
    if (s->status == SR1_OK)
        return SR1_OK;
    if (!holder)
        return sr1__fail(s->status, "%s: failed, and no memory was left to say why",
                         s->label);
    return sr1__error_raise(holder->error);
}

sr1_status sr1__scope_close(sr1_scope *s)
{
    sr1_status status;

    SR1__CHECK_ALLOC(s, "scope");
    for (size_t i = s->n_owned; i-- > 0;)
        sr1__shim_release(s->owned[i]);
    restore_grad(s);
    status = raise_error(s);
    if (s->parent)
        inherit_error(s->parent, s);
    if (s->owned != s->first)
        sr1__free(s->owned);
    sr1__free(s->error);
    sr1__free(s);
    return status;
}

void sr1__scope_no_grad(sr1_scope *s)
{
    if (s && s->grad == GRAD_UNTOUCHED)
        s->grad = sr1__shim_grad_mode(0) ? GRAD_WAS_ON : GRAD_WAS_OFF;
}

void sr1__scope_inference(sr1_scope *s)
{
    if (!s || s->inference)
        return;
    s->inference = sr1__shim_inference_enter();
    if (!s->inference)
        sr1__scope_check(s, sr1__fail_nomem("inference mode"));
}

sr1_status sr1__scope_status(const sr1_scope *s)
{
    return s ? s->status : SR1_E_NOMEM;
}

sr1__device sr1__scope_device(const sr1_scope *s)
{
    return s ? s->device : SR1__CPU;
}

void sr1__scope_check(sr1_scope *s, sr1_status status)
{
    if (!s || status == SR1_OK || s->status != SR1_OK)
        return;
    s->status = sr1__context(status, "%s", s->label);
    s->error = sr1__malloc(sizeof *s->error);
    if (s->error)
        sr1__error_save(s->error, s->status);
}

void sr1__scope_fail(sr1_scope *s, sr1_status status, const char *fmt, ...)
{
    char text[SR1__ERROR_MAX];
    va_list ap;

    if (!s || s->status != SR1_OK)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    sr1__scope_check(s, sr1__fail(status, "%s", text));
}

static int grow_scope_handles(sr1_scope *s)
{
    size_t cap = s->cap * 4;
    sr1_tensor **bigger =
        sr1__realloc(s->owned == s->first ? NULL : s->owned, cap, sizeof *bigger);

    if (!bigger)
        return 0;
    if (s->owned == s->first)
        memcpy(bigger, s->first, sizeof s->first);
    s->owned = bigger;
    s->cap = cap;
    return 1;
}

sr1_tensor *sr1__scope_own(sr1_scope *s, sr1_tensor *t)
{
    if (!t)
        return NULL;
    if (!s || (s->n_owned == s->cap && !grow_scope_handles(s))) {
        sr1__shim_release(t);
        sr1__scope_check(s, sr1__fail_nomem("tensor handles"));
        return NULL;
    }
    s->owned[s->n_owned++] = t;
    return t;
}

sr1_tensor *t_keep(sr1_scope *s, sr1_tensor *t)
{
    if (!s || s->status != SR1_OK || !t)
        return NULL;
    if (!s->parent) {
        sr1__scope_fail(s, SR1_E_INTERNAL, "keep: a root scope has no parent");
        return NULL;
    }
    return sr1__scope_own(s->parent, sr1__shim_retain(t));
}

sr1_tensor *t_hold(sr1_scope *s, sr1_tensor *t)
{
    return s && s->status == SR1_OK ? sr1__shim_retain(t) : NULL;
}

void t_drop(sr1_scope *s, sr1_tensor *t)
{
    if (!s || !t)
        return;
    for (size_t i = s->n_owned; i-- > 0;) {
        if (s->owned[i] != t)
            continue;
        s->owned[i] = s->owned[--s->n_owned];
        sr1__shim_release(t);
        return;
    }
}

void sr1__tensor_free(sr1_tensor *t)
{
    sr1__shim_release(t);
}
