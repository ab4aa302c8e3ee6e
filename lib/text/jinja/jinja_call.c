/* text/jinja/jinja_call.c - calls: arguments to the parameters of a function's row. */
#include "text/jinja/jinja_tree.h"

#include <string.h>

/* The place of a named argument among "a b c"; -1: no such parameter. */
static int find_parameter(const char *params, struct sr1__jtext name)
{
    int i = 0;

    for (const char *p = params; *p; i++) {
        size_t n = strcspn(p, " ");

        if (n == name.n && memcmp(p, name.s, n) == 0)
            return i;
        p += n + (p[n] == ' ');
    }
    return -1;
}

static size_t count_parameters(const char *params)
{
    size_t n = *params != '\0';

    for (; *params; params++)
        n += *params == ' ';
    return n;
}

static sr1_status bind_arguments(struct sr1__jrun *r, const struct sr1__jfunction *f,
                                 const char *what, struct sr1__jcall *c)
{
    size_t most = count_parameters(f->params);

    if (c->n > most)
        return sr1__jrun_fail(r, "%s %s takes at most %zu arguments, not %zu", what,
                              f->name, most, c->n);
    for (size_t i = 0; i < SR1__J_ARGS; i++)
        c->arg[i] = i < c->n ? c->v[i] : (struct sr1__jvalue){.kind = SR1__J_ABSENT};
    for (size_t i = 0; i < c->n_named; i++) {
        struct sr1__jtext name = c->named[i].key.text;
        int at = find_parameter(f->params, name);

        if (at < 0 || c->arg[at].kind != SR1__J_ABSENT)
            return sr1__jrun_fail(r, "%s %s has no argument '%.*s' here", what, f->name,
                                  name.n > 40 ? 40 : (int)name.n, name.s);
        c->arg[at] = c->named[i].value;
    }
    for (int i = 0; i < f->needed; i++)
        if (c->arg[i].kind == SR1__J_ABSENT)
            return sr1__jrun_fail(r, "%s %s needs %d arguments", what, f->name,
                                  f->needed);
    return SR1_OK;
}

sr1_status sr1__jfunction_call(struct sr1__jrun *r, const struct sr1__jfunction *f,
                               const char *what, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    if (!f->body)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "chat template, line %d: %s %s is not supported; choose a "
                         "family of templates with the key chat_template",
                         r->line, what, f->name);
    if (f->params)
        SR1__TRY(bind_arguments(r, f, what, c));
    c->how = f->how;
    return f->body(r, c, out);
}

sr1_status sr1__jvalue_function(struct sr1__jrun *r, const struct sr1__jfunction *f,
                                struct sr1__jvalue self, struct sr1__jvalue *out)
{
    struct sr1__jcallable *c;

    SR1__J_TAKE(r, c, 1);
    c->function = f;
    c->self = self;
    *out = (struct sr1__jvalue){.kind = SR1__J_CALLABLE, .callable = c};
    return SR1_OK;
}

sr1_status sr1__jvalue_call(struct sr1__jrun *r, const struct sr1__jvalue *callee,
                            struct sr1__jcall *c, struct sr1__jvalue *out)
{
    sr1_status status;

    if (callee->kind != SR1__J_CALLABLE)
        return sr1__jrun_fail(
            r, "a %s%s%s%s cannot be called", sr1__jvalue_type(callee),
            callee->kind == SR1__J_UNDEFINED && callee->hint ? " '" : "",
            callee->kind == SR1__J_UNDEFINED && callee->hint ? callee->hint : "",
            callee->kind == SR1__J_UNDEFINED && callee->hint ? "'" : "");
    SR1__TRY(sr1__jrun_enter(r));
    c->self = callee->callable->self;
    if (callee->callable->function)
        status = sr1__jfunction_call(r, callee->callable->function, "function", c, out);
    else
        status = sr1__jinja_call_macro(r, callee->callable, c, out);
    sr1__jrun_leave(r);
    return status;
}

sr1_status sr1__jarg_int(struct sr1__jrun *r, const struct sr1__jvalue *v, int64_t none,
                         int64_t *out)
{
    if (sr1__jarg_given(v) && !sr1__jvalue_is_integer(v))
        return sr1__jrun_fail(r, "a whole number is due, not a %s", sr1__jvalue_type(v));
    *out = sr1__jvalue_is_integer(v) ? v->i : none;
    return SR1_OK;
}

int sr1__jarg_true(const struct sr1__jvalue *v, int none)
{
    return v->kind == SR1__J_ABSENT ? none : sr1__jvalue_true(v);
}

sr1_status sr1__jarg_text(struct sr1__jrun *r, const struct sr1__jvalue *v,
                          const char *what, struct sr1__jtext *out)
{
    if (v->kind != SR1__J_TEXT)
        return sr1__jrun_fail(r, "%s: a str is due, not a %s", what, sr1__jvalue_type(v));
    *out = v->text;
    return SR1_OK;
}
