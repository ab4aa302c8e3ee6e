/* text/jinja/jinja_run.c - a template's statements, and its runs. Each body of a loop, a
 * macro or a captured block has a scope of its own: what is set there is not seen
 * outside. */
#include "text/jinja/jinja_tree.h"

#include <string.h>

/* ---- variables ---- */

struct sr1__jscope *sr1__jscope_new(struct sr1__jrun *r, struct sr1__jscope *up)
{
    struct sr1__jscope *s = sr1__jarena_take(&r->memory, sizeof *s);

    if (s)
        s->up = up;
    return s;
}

sr1_status sr1__jinja_set(struct sr1__jrun *r, struct sr1__jscope *s, const char *name,
                          struct sr1__jvalue v)
{
    struct sr1__jvar *var = s->vars;
    size_t passed = 0;

    for (; var && var->name != name; passed++)
        var = var->next;
    SR1__TRY(sr1__jrun_spend(r, passed / 64));
    if (!var) {
        SR1__J_TAKE(r, var, 1);
        var->name = name;
        var->next = s->vars;
        s->vars = var;
    }
    var->value = v;
    return SR1_OK;
}

static sr1_status assign_tuple(struct sr1__jrun *r, const struct sr1__jnode *target,
                               struct sr1__jvalue v)
{
    const struct sr1__jnode *t = target->items;
    struct sr1__jlist *list;

    SR1__TRY(sr1__jvalue_iterate(r, &v, &list));
    if (list->n != target->n_items)
        return sr1__jrun_fail(r, "%zu names are set to %zu values", target->n_items,
                              list->n);
    for (size_t i = 0; t; t = t->next, i++)
        SR1__TRY(sr1__jinja_assign(r, t, list->v[i]));
    return SR1_OK;
}

static sr1_status assign_member(struct sr1__jrun *r, const struct sr1__jnode *target,
                                struct sr1__jvalue v)
{
    struct sr1__jnode name = {.kind = SR1__N_NAME, .line = target->line};
    struct sr1__jvalue space;

    name.name = target->name;
    SR1__TRY(sr1__jinja_eval(r, &name, &space));
    if (space.kind != SR1__J_NAMESPACE)
        return sr1__jrun_fail(r, "'%s' is no namespace, so '%s.%s' cannot be set",
                              target->name, target->name, target->attribute);
    if (target->attribute[0] == '_')
        return sr1__jrun_fail(r, "'%s': names of a namespace must not begin with _",
                              target->attribute);
    return sr1__jdict_set(r, space.dict, sr1__jvalue_own(target->attribute), v);
}

sr1_status sr1__jinja_assign(struct sr1__jrun *r, const struct sr1__jnode *target,
                             struct sr1__jvalue v)
{
    if (target->kind == SR1__N_TUPLE)
        return assign_tuple(r, target, v);
    if (target->kind == SR1__N_MEMBER_OF)
        return assign_member(r, target, v);
    return sr1__jinja_set(r, r->scope, target->name, v);
}

/* ---- bodies ---- */

/* A body in a new scope below `up`. */
static sr1_status run_scoped(struct sr1__jrun *r, struct sr1__jscope *up,
                             const struct sr1__jnode *body)
{
    struct sr1__jscope *around = r->scope;
    sr1_status status;

    r->scope = sr1__jscope_new(r, up);
    status = r->scope ? sr1__jinja_run_body(r, body) : sr1__jrun_nomem(r);
    r->scope = around;
    return status;
}

static sr1_status capture_scoped(struct sr1__jrun *r, struct sr1__jscope *scope,
                                 const struct sr1__jnode *body, struct sr1__jvalue *out)
{
    struct sr1__jscope *around = r->scope;
    struct sr1__jout *output = r->out, o;
    sr1_status status;

    sr1__jout_init(&o, r);
    r->out = &o;
    r->scope = scope;
    status = scope ? sr1__jinja_run_body(r, body) : sr1__jrun_nomem(r);
    r->scope = around;
    r->out = output;
    return status == SR1_OK ? sr1__jout_value(&o, out) : status;
}

sr1_status sr1__jinja_capture(struct sr1__jrun *r, const struct sr1__jnode *body,
                              struct sr1__jvalue *out)
{
    return capture_scoped(r, sr1__jscope_new(r, r->scope), body, out);
}

/* ---- macros ---- */

static sr1_status bind_varargs(struct sr1__jrun *r, const struct sr1__jnode *m,
                               const struct sr1__jcall *c)
{
    const char *name = sr1__jinja_known_name(r->t, "varargs");
    struct sr1__jvalue list;

    if (!(m->uses & SR1__J_VARARGS)) {
        if (c->n > m->n_items)
            return sr1__jrun_fail(r, "macro '%s' takes at most %zu arguments, not %zu",
                                  m->name, m->n_items, c->n);
        return SR1_OK;
    }
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_TUPLE, &list));
    for (size_t i = m->n_items; i < c->n; i++)
        SR1__TRY(sr1__jlist_add(r, list.list, c->v[i]));
    return sr1__jinja_set(r, r->scope, name, list);
}

static const struct sr1__jpair *find_named(const struct sr1__jcall *c, const char *name)
{
    for (size_t i = 0; i < c->n_named; i++)
        if (sr1__jtext_is(c->named[i].key.text, name))
            return &c->named[i];
    return NULL;
}

static int is_parameter(const struct sr1__jnode *m, struct sr1__jtext name)
{
    for (const struct sr1__jnode *p = m->items; p; p = p->next)
        if (sr1__jtext_is(name, p->name))
            return 1;
    return 0;
}

/* What no parameter takes: caller, and kwargs. */
static sr1_status bind_kwargs(struct sr1__jrun *r, const struct sr1__jnode *m,
                              const struct sr1__jcall *c)
{
    const struct sr1__jpair *caller = find_named(c, "caller");
    struct sr1__jvalue rest;

    SR1__TRY(sr1__jdict_new(r, SR1__J_DICT, &rest));
    for (size_t i = 0; i < c->n_named; i++) {
        if ((&c->named[i] == caller && (m->uses & SR1__J_CALLER)) ||
            is_parameter(m, c->named[i].key.text))
            continue;
        if (!(m->uses & SR1__J_KWARGS))
            return sr1__jrun_fail(r, "macro '%s' has no argument '%.*s'", m->name,
                                  (int)c->named[i].key.text.n, c->named[i].key.text.s);
        SR1__TRY(sr1__jdict_set(r, rest.dict, c->named[i].key, c->named[i].value));
    }
    if ((m->uses & SR1__J_CALLER) &&
        !is_parameter(m, (struct sr1__jtext){"caller", 6, 0}))
        SR1__TRY(
            sr1__jinja_set(r, r->scope, sr1__jinja_known_name(r->t, "caller"),
                           caller ? caller->value : sr1__jvalue_undefined("caller")));
    if (m->uses & SR1__J_KWARGS)
        SR1__TRY(
            sr1__jinja_set(r, r->scope, sr1__jinja_known_name(r->t, "kwargs"), rest));
    return SR1_OK;
}

static sr1_status bind_parameters(struct sr1__jrun *r, const struct sr1__jnode *m,
                                  const struct sr1__jcall *c)
{
    const struct sr1__jnode *p = m->items;

    for (size_t i = 0; p; p = p->next, i++) {
        const struct sr1__jpair *named = find_named(c, p->name);
        struct sr1__jvalue v = sr1__jvalue_undefined(p->name);

        if (i < c->n && named)
            return sr1__jrun_fail(r, "macro '%s': argument '%s' is given twice", m->name,
                                  p->name);
        if (i < c->n)
            v = c->v[i];
        else if (named)
            v = named->value;
        else if (p->a)
            SR1__TRY(sr1__jinja_eval(r, p->a, &v));
        SR1__TRY(sr1__jinja_set(r, r->scope, p->name, v));
    }
    SR1__TRY(bind_kwargs(r, m, c));
    return bind_varargs(r, m, c);
}

sr1_status sr1__jinja_call_macro(struct sr1__jrun *r, const struct sr1__jcallable *macro,
                                 struct sr1__jcall *c, struct sr1__jvalue *out)
{
    struct sr1__jscope *around = r->scope, *scope = sr1__jscope_new(r, macro->scope);
    sr1_status status;

    if (!scope)
        return sr1__jrun_nomem(r);
    r->scope = scope;
    status = bind_parameters(r, macro->macro, c);
    r->scope = around;
    SR1__TRY(status);
    return capture_scoped(r, scope, macro->macro->body, out);
}

static sr1_status make_macro(struct sr1__jrun *r, const struct sr1__jnode *n,
                             struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jvalue_function(r, NULL, sr1__jvalue_none(), out));
    out->callable->macro = n;
    out->callable->scope = r->scope;
    return SR1_OK;
}

/* ---- statements ---- */

static sr1_status run_output(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jvalue v;

    if (n->kind == SR1__N_DATA)
        v = n->value;
    else
        SR1__TRY(sr1__jinja_eval(r, n->a, &v));
    return sr1__jvalue_print(r->out, &v);
}

static sr1_status run_if(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jvalue v;

    SR1__TRY(sr1__jinja_eval(r, n->a, &v));
    return sr1__jinja_run_body(r, sr1__jvalue_true(&v) ? n->body : n->other);
}

static sr1_status run_set(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jvalue v;

    if (n->kind == SR1__N_SET) {
        SR1__TRY(sr1__jinja_eval(r, n->b, &v));
    } else {
        SR1__TRY(sr1__jinja_capture(r, n->body, &v));
        r->captured = v;
        if (n->b)
            SR1__TRY(sr1__jinja_eval(r, n->b, &v));
    }
    return sr1__jinja_assign(r, n->a, v);
}

static sr1_status run_macro(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jvalue macro;

    SR1__TRY(make_macro(r, n, &macro));
    return sr1__jinja_set(r, r->scope, n->name, macro);
}

static sr1_status run_caller(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jvalue caller, v;

    SR1__TRY(make_macro(r, n->b, &caller));
    SR1__TRY(sr1__jinja_eval_call(r, n->a, &caller, &v));
    return sr1__jvalue_print(r->out, &v);
}

/* The values of `with` are computed outside of it. */
static sr1_status run_with(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jscope *around = r->scope, *scope = sr1__jscope_new(r, around);
    sr1_status status = scope ? SR1_OK : sr1__jrun_nomem(r);
    struct sr1__jvalue v;

    for (const struct sr1__jnode *i = n->items; i && status == SR1_OK; i = i->next) {
        status = sr1__jinja_eval(r, i->b, &v);
        r->scope = scope;
        if (status == SR1_OK)
            status = sr1__jinja_assign(r, i->a, v);
        r->scope = around;
    }
    if (status == SR1_OK) {
        r->scope = scope;
        status = sr1__jinja_run_body(r, n->body);
    }
    r->scope = around;
    return status;
}

static sr1_status run_filter_block(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jvalue v;

    SR1__TRY(sr1__jinja_capture(r, n->body, &r->captured));
    SR1__TRY(sr1__jinja_eval(r, n->b, &v));
    return sr1__jvalue_print(r->out, &v);
}

static sr1_status run_statement(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    switch (n->kind) {
    case SR1__N_DATA:
    case SR1__N_OUTPUT:
        return run_output(r, n);
    case SR1__N_IF:
        return run_if(r, n);
    case SR1__N_FOR:
        return sr1__jloop_run(r, n);
    case SR1__N_SET:
    case SR1__N_CAPTURE:
        return run_set(r, n);
    case SR1__N_MACRO:
        return run_macro(r, n);
    case SR1__N_CALLER:
        return run_caller(r, n);
    case SR1__N_WITH:
        return run_with(r, n);
    case SR1__N_FILTER_BLOCK:
        return run_filter_block(r, n);
    case SR1__N_GENERATION:
        return run_scoped(r, r->scope, n->body);
    default:
        r->leaves = n->kind;
        return SR1_OK;
    }
}

sr1_status sr1__jinja_run_body(struct sr1__jrun *r, const struct sr1__jnode *body)
{
    sr1_status status = SR1_OK;

    SR1__TRY(sr1__jrun_enter(r));
    for (; body && status == SR1_OK && !r->leaves; body = body->next) {
        r->line = body->line;
        status = sr1__jrun_spend(r, 1);
        if (status == SR1_OK)
            status = run_statement(r, body);
    }
    sr1__jrun_leave(r);
    return status;
}

/* ---- runs ---- */

static sr1_status open_run(struct sr1__jrun *r, const struct sr1__jinja *t, int64_t now)
{
    r->t = t;
    r->now = now;
    r->memory.max = SR1__JINJA_MEMORY_MAX;
    r->steps = SR1__JINJA_STEPS_MAX;
    r->globals = sr1__jscope_new(r, NULL);
    return r->globals ? SR1_OK : sr1__fail_nomem("chat template");
}

sr1_status sr1__jrun_new(struct sr1__jrun **out, const struct sr1__jinja *t, int64_t now)
{
    struct sr1__jrun *r;

    SR1__CALLOC(r, 1, "chat template");
    SR1__RETURN_NEW(out, r, open_run(r, t, now), sr1__jrun_free);
}

void sr1__jrun_free(struct sr1__jrun *r)
{
    if (r)
        sr1__jarena_free(&r->memory);
    sr1__free(r);
}

/* A variable that the template does not name is left out. */
static sr1_status bind_value(struct sr1__jrun *r, const char *name, struct sr1__jvalue v)
{
    const char *known = sr1__jinja_known_name(r->t, name);

    return known ? sr1__jinja_set(r, r->globals, known, v) : SR1_OK;
}

sr1_status sr1__jrun_bind_json(struct sr1__jrun *r, const char *name, const json_t *j,
                               sr1__jinja_text_of text_of)
{
    struct sr1__jvalue v = sr1__jvalue_none();

    if (j)
        SR1__TRY(sr1__jvalue_from_json(r, j, text_of, &v));
    return bind_value(r, name, v);
}

sr1_status sr1__jrun_bind_bool(struct sr1__jrun *r, const char *name, int value)
{
    return bind_value(r, name, sr1__jvalue_bool(value));
}

sr1_status sr1__jrun_bind_own(struct sr1__jrun *r, const char *name, const char *text,
                              size_t n)
{
    return bind_value(r, name,
                      sr1__jvalue_text((struct sr1__jtext){text, n, SR1__J_ALL_OWN}));
}

sr1_status sr1__jrun_mark_own(struct sr1__jrun *r, const char *name, size_t i,
                              const char *member, const struct sr1__spans *own)
{
    const char *known = sr1__jinja_known_name(r->t, name);
    struct sr1__jvar *var = r->globals->vars;
    struct sr1__jvalue *v;
    unsigned char *mask;

    while (var && var->name != known)
        var = var->next;
    if (!known || !var || var->value.kind != SR1__J_LIST || i >= var->value.list->n ||
        var->value.list->v[i].kind != SR1__J_DICT)
        return SR1_OK;
    v = sr1__jdict_named(var->value.list->v[i].dict, member);
    if (!v || v->kind != SR1__J_TEXT)
        return SR1_OK;
    SR1__J_TAKE(r, mask, v->text.n + 1);
    for (size_t k = 0; k < own->n; k++)
        memset(mask + own->v[2 * k], 1, own->v[2 * k + 1] - own->v[2 * k]);
    v->text.own = mask;
    return SR1_OK;
}

static sr1_status list_own(const struct sr1__jout *o, size_t at, struct sr1__spans *own)
{
    size_t begin, i = 0;

    while (i < o->n) {
        for (begin = i; i < o->n && o->own[i]; i++)
            ;
        SR1__TRY(sr1__spans_add(own, at + begin, at + i));
        while (i < o->n && !o->own[i])
            i++;
    }
    return SR1_OK;
}

sr1_status sr1__jrun_render(struct sr1__jrun *r, struct sr1__buf *text,
                            struct sr1__spans *own)
{
    struct sr1__jout o;
    size_t at = text->len;

    sr1__jout_init(&o, r);
    r->out = &o;
    SR1__TRY(run_scoped(r, r->globals, r->t->body));
    SR1__TRY(o.status);
    sr1__buf_add(text, o.n ? o.s : "", o.n);
    SR1__TRY(sr1__buf_status(text, "chat template"));
    return own ? list_own(&o, at, own) : SR1_OK;
}
