/* text/jinja/jinja_eval.c - the value of an expression. */
#include "text/jinja/jinja_tree.h"

#include <math.h>
#include <string.h>

/* ---- arithmetic ---- */

static sr1_status fail_binary(const struct sr1__jrun *r, const char *op,
                              const struct sr1__jvalue *a, const struct sr1__jvalue *b)
{
    const struct sr1__jvalue *u = a->kind == SR1__J_UNDEFINED ? a : b;

    if (u->kind == SR1__J_UNDEFINED && u->hint)
        return sr1__jrun_fail(r, "'%s' is undefined where %s is computed", u->hint, op);
    return sr1__jrun_fail(r, "%s %s %s is not defined", sr1__jvalue_type(a), op,
                          sr1__jvalue_type(b));
}

static sr1_status fail_overflow(const struct sr1__jrun *r, const char *op)
{
    return sr1__jrun_fail(r, "%s: the result does not fit in 64 bits", op);
}

static sr1_status divide_reals(struct sr1__jrun *r, const char *op, double a, double b,
                               struct sr1__jvalue *out)
{
    double rest;

    if (b == 0)
        return sr1__jrun_fail(r, "division by zero");
    if (op[0] == '/' && op[1] == '\0') {
        *out = sr1__jvalue_real(a / b);
        return SR1_OK;
    }
    rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    else if (rest == 0)
        rest = copysign(0.0, b);
    if (op[0] == '%') {
        *out = sr1__jvalue_real(rest);
        return SR1_OK;
    }
    a = (a - rest) / b;
    *out = sr1__jvalue_real(a == 0                ? copysign(0.0, a)
                            : floor(a + 0.5) == a ? a
                                                  : floor(a));
    return SR1_OK;
}

static sr1_status divide_ints(struct sr1__jrun *r, const char *op, int64_t a, int64_t b,
                              struct sr1__jvalue *out)
{
    int64_t rest;

    if (b == 0)
        return sr1__jrun_fail(r, "division by zero");
    if (op[0] == '/' && op[1] == '\0') {
        *out = sr1__jvalue_real((double)a / (double)b);
        return SR1_OK;
    }
    if (b == -1) {
        if (op[0] != '%' && a == INT64_MIN)
            return fail_overflow(r, op);
        *out = sr1__jvalue_int(op[0] == '%' ? 0 : -a);
        return SR1_OK;
    }
    rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    *out = sr1__jvalue_int(op[0] == '%' ? rest : (a - rest) / b);
    return SR1_OK;
}

static sr1_status power_ints(struct sr1__jrun *r, int64_t a, int64_t b,
                             struct sr1__jvalue *out)
{
    int64_t v = 1;

    if (b < 0) {
        if (a == 0)
            return sr1__jrun_fail(r, "division by zero");
        *out = sr1__jvalue_real(pow((double)a, (double)b));
        return SR1_OK;
    }
    if (a == 1 || a == -1 || a == 0)
        b = a == 0 ? b > 0 : b % 2 == 0 ? 0 : 1;
    for (; b > 0; b--)
        if (__builtin_mul_overflow(v, a, &v))
            return fail_overflow(r, "**");
    *out = sr1__jvalue_int(v);
    return SR1_OK;
}

static sr1_status compute_ints(struct sr1__jrun *r, const char *op, int64_t a, int64_t b,
                               struct sr1__jvalue *out)
{
    int64_t v = 0;
    int over;

    if (strcmp(op, "**") == 0)
        return power_ints(r, a, b, out);
    if (op[0] == '/' || op[0] == '%')
        return divide_ints(r, op, a, b, out);
    over = op[0] == '+'   ? __builtin_add_overflow(a, b, &v)
           : op[0] == '-' ? __builtin_sub_overflow(a, b, &v)
                          : __builtin_mul_overflow(a, b, &v);
    if (over)
        return fail_overflow(r, op);
    *out = sr1__jvalue_int(v);
    return SR1_OK;
}

static sr1_status compute_numbers(struct sr1__jrun *r, const char *op,
                                  const struct sr1__jvalue *a,
                                  const struct sr1__jvalue *b, struct sr1__jvalue *out)
{
    double x = sr1__jvalue_as_real(a), y = sr1__jvalue_as_real(b);

    if (a->kind != SR1__J_REAL && b->kind != SR1__J_REAL)
        return compute_ints(r, op, a->i, b->i, out);
    if (strcmp(op, "**") == 0) {
        double v = pow(x, y);

        if ((x == 0 && y < 0) || (isinf(v) && isfinite(x) && isfinite(y)) ||
            (x < 0 && y != floor(y)))
            return sr1__jrun_fail(r, "**: the result is no real number");
        *out = sr1__jvalue_real(v);
        return SR1_OK;
    }
    if (op[0] == '/' || op[0] == '%')
        return divide_reals(r, op, x, y, out);
    *out = sr1__jvalue_real(op[0] == '+' ? x + y : op[0] == '-' ? x - y : x * y);
    return SR1_OK;
}

/* Of texts of which one is marked safe the other is escaped, as Markup does. */
static sr1_status add_texts(struct sr1__jrun *r, const struct sr1__jvalue *a,
                            const struct sr1__jvalue *b, struct sr1__jvalue *out)
{
    struct sr1__jtext left = a->text, right = b->text;
    struct sr1__jout o;

    if (a->form != b->form)
        SR1__TRY(sr1__jtext_escape(r, a->form ? right : left, a->form ? &right : &left));
    sr1__jout_init(&o, r);
    sr1__jout_text(&o, left);
    sr1__jout_text(&o, right);
    SR1__TRY(sr1__jout_value(&o, out));
    out->form = a->form | b->form;
    return SR1_OK;
}

static sr1_status add_lists(struct sr1__jrun *r, const struct sr1__jvalue *a,
                            const struct sr1__jvalue *b, struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jlist_new(r, a->form, out));
    SR1__TRY(sr1__jlist_extend(r, out->list, a->list));
    return sr1__jlist_extend(r, out->list, b->list);
}

static int is_list_or_tuple(const struct sr1__jvalue *v)
{
    return v->kind == SR1__J_LIST && v->form <= SR1__J_IS_TUPLE;
}

/* A text or a list, many times. */
static sr1_status repeat_value(struct sr1__jrun *r, const struct sr1__jvalue *v,
                               int64_t times, struct sr1__jvalue *out)
{
    struct sr1__jout o;

    if (v->kind == SR1__J_TEXT) {
        sr1__jout_init(&o, r);
        for (int64_t i = 0; i < times && v->text.n && o.status == SR1_OK; i++) {
            SR1__TRY(sr1__jrun_spend(r, 1));
            sr1__jout_text(&o, v->text);
        }
        SR1__TRY(sr1__jout_value(&o, out));
        out->form = v->form;
        return SR1_OK;
    }
    SR1__TRY(sr1__jlist_new(r, v->form, out));
    for (int64_t k = 0; k < times && v->list->n; k++)
        SR1__TRY(sr1__jlist_extend(r, out->list, v->list));
    return SR1_OK;
}

static sr1_status format_text(struct sr1__jrun *r, const struct sr1__jvalue *a,
                              const struct sr1__jvalue *b, struct sr1__jvalue *out)
{
    if (b->kind == SR1__J_LIST && b->form == SR1__J_IS_TUPLE)
        return sr1__jtext_format(r, a->text, b->list->v, b->list->n, 1, out);
    return sr1__jtext_format(r, a->text, b, 1,
                             b->kind != SR1__J_LIST && b->kind != SR1__J_DICT &&
                                 b->kind != SR1__J_UNDEFINED,
                             out);
}

static sr1_status compute_binary(struct sr1__jrun *r, const char *op,
                                 const struct sr1__jvalue *a, const struct sr1__jvalue *b,
                                 struct sr1__jvalue *out)
{
    if (sr1__jvalue_is_number(a) && sr1__jvalue_is_number(b))
        return compute_numbers(r, op, a, b, out);
    if (strcmp(op, "+") == 0) {
        if (a->kind == SR1__J_TEXT && b->kind == SR1__J_TEXT)
            return add_texts(r, a, b, out);
        if (is_list_or_tuple(a) && b->kind == SR1__J_LIST && b->form == a->form)
            return add_lists(r, a, b, out);
    }
    if (strcmp(op, "*") == 0) {
        if ((a->kind == SR1__J_TEXT || is_list_or_tuple(a)) && sr1__jvalue_is_integer(b))
            return repeat_value(r, a, b->i, out);
        if ((b->kind == SR1__J_TEXT || is_list_or_tuple(b)) && sr1__jvalue_is_integer(a))
            return repeat_value(r, b, a->i, out);
    }
    if (strcmp(op, "%") == 0 && a->kind == SR1__J_TEXT)
        return format_text(r, a, b, out);
    return fail_binary(r, op, a, b);
}

static sr1_status eval_binary(struct sr1__jrun *r, const struct sr1__jnode *n,
                              struct sr1__jvalue *out)
{
    struct sr1__jvalue a, b;

    SR1__TRY(sr1__jinja_eval(r, n->a, &a));
    SR1__TRY(sr1__jinja_eval(r, n->b, &b));
    r->line = n->line;
    return compute_binary(r, n->op, &a, &b, out);
}

static sr1_status eval_sign(struct sr1__jrun *r, const struct sr1__jnode *n,
                            struct sr1__jvalue *out)
{
    struct sr1__jvalue a;
    const struct sr1__jvalue zero = sr1__jvalue_int(0);

    SR1__TRY(sr1__jinja_eval(r, n->a, &a));
    if (!sr1__jvalue_is_number(&a))
        return sr1__jrun_fail(r, "a %s has no sign", sr1__jvalue_type(&a));
    if (a.kind == SR1__J_REAL) {
        *out = sr1__jvalue_real(n->kind == SR1__N_NEGATE ? -a.real : a.real);
        return SR1_OK;
    }
    return compute_binary(r, n->kind == SR1__N_NEGATE ? "-" : "+", &zero, &a, out);
}

/* ---- comparing and choosing ---- */

static sr1_status eval_compare(struct sr1__jrun *r, const struct sr1__jnode *n,
                               struct sr1__jvalue *out)
{
    struct sr1__jvalue a, b;
    int is = 1;

    SR1__TRY(sr1__jinja_eval(r, n->a, &a));
    for (const struct sr1__jnode *o = n->items; o && is; o = o->next) {
        SR1__TRY(sr1__jinja_eval(r, o->a, &b));
        r->line = n->line;
        SR1__TRY(sr1__jvalue_relate(r, o->op, &a, &b, &is));
        a = b;
    }
    *out = sr1__jvalue_bool(is);
    return SR1_OK;
}

/* `or` goes on with what is false, `and` with what is true. */
static sr1_status eval_logic(struct sr1__jrun *r, const struct sr1__jnode *n,
                             struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jinja_eval(r, n->a, out));
    if (sr1__jvalue_true(out) == (n->kind == SR1__N_AND))
        return sr1__jinja_eval(r, n->b, out);
    return SR1_OK;
}

static sr1_status eval_not(struct sr1__jrun *r, const struct sr1__jnode *n,
                           struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jinja_eval(r, n->a, out));
    *out = sr1__jvalue_bool(!sr1__jvalue_true(out));
    return SR1_OK;
}

static sr1_status eval_condition(struct sr1__jrun *r, const struct sr1__jnode *n,
                                 struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jinja_eval(r, n->b, out));
    if (sr1__jvalue_true(out))
        return sr1__jinja_eval(r, n->a, out);
    if (n->c)
        return sr1__jinja_eval(r, n->c, out);
    *out = sr1__jvalue_undefined("a condition without else");
    return SR1_OK;
}

static sr1_status eval_concat(struct sr1__jrun *r, const struct sr1__jnode *n,
                              struct sr1__jvalue *out)
{
    struct sr1__jout o;
    struct sr1__jvalue v;

    sr1__jout_init(&o, r);
    for (const struct sr1__jnode *i = n->items; i; i = i->next) {
        SR1__TRY(sr1__jinja_eval(r, i, &v));
        SR1__TRY(sr1__jvalue_print(&o, &v));
    }
    return sr1__jout_value(&o, out);
}

/* ---- names and containers ---- */

static sr1_status eval_name(struct sr1__jrun *r, const struct sr1__jnode *n,
                            struct sr1__jvalue *out)
{
    const struct sr1__jfunction *f;
    size_t passed = 0;

    for (const struct sr1__jscope *s = r->scope; s; s = s->up)
        for (const struct sr1__jvar *v = s->vars; v; v = v->next, passed++)
            if (v->name == n->name) {
                *out = v->value;
                return sr1__jrun_spend(r, passed / 64);
            }
    SR1__TRY(sr1__jrun_spend(r, passed / 64));
    f = sr1__jinja_global(n->name);
    if (f)
        return sr1__jvalue_function(r, f, sr1__jvalue_none(), out);
    *out = sr1__jvalue_undefined(n->name);
    return SR1_OK;
}

static sr1_status eval_list(struct sr1__jrun *r, const struct sr1__jnode *n,
                            struct sr1__jvalue *out)
{
    int form = n->kind == SR1__N_TUPLE ? SR1__J_IS_TUPLE : SR1__J_IS_LIST;
    struct sr1__jvalue v;

    SR1__TRY(sr1__jlist_new(r, form, out));
    for (const struct sr1__jnode *i = n->items; i; i = i->next) {
        SR1__TRY(sr1__jinja_eval(r, i, &v));
        SR1__TRY(sr1__jlist_add(r, out->list, v));
    }
    return SR1_OK;
}

static sr1_status eval_dict(struct sr1__jrun *r, const struct sr1__jnode *n,
                            struct sr1__jvalue *out)
{
    struct sr1__jvalue key, value;

    SR1__TRY(sr1__jdict_new(r, SR1__J_DICT, out));
    for (const struct sr1__jnode *i = n->items; i; i = i->next) {
        SR1__TRY(sr1__jinja_eval(r, i->a, &key));
        SR1__TRY(sr1__jinja_eval(r, i->b, &value));
        SR1__TRY(sr1__jdict_set(r, out->dict, key, value));
    }
    return SR1_OK;
}

static sr1_status eval_slice(struct sr1__jrun *r, const struct sr1__jvalue *v,
                             const struct sr1__jnode *n, struct sr1__jvalue *out)
{
    const struct sr1__jnode *const parts[3] = {n->a, n->b, n->c};
    struct sr1__jvalue bound[3];

    memset(bound, 0, sizeof bound);
    for (int i = 0; i < 3; i++)
        if (parts[i])
            SR1__TRY(sr1__jinja_eval(r, parts[i], &bound[i]));
    return sr1__jvalue_slice(r, v, bound, out);
}

static sr1_status eval_access(struct sr1__jrun *r, const struct sr1__jnode *n,
                              struct sr1__jvalue *out)
{
    struct sr1__jvalue v, key;

    SR1__TRY(sr1__jinja_eval(r, n->a, &v));
    r->line = n->line;
    if (n->kind == SR1__N_ATTRIBUTE)
        return sr1__jvalue_attribute(r, &v, n->name, out);
    if (n->b->kind == SR1__N_SLICE)
        return eval_slice(r, &v, n->b, out);
    SR1__TRY(sr1__jinja_eval(r, n->b, &key));
    return sr1__jvalue_item(r, &v, &key, out);
}

/* ---- calls ---- */

static sr1_status add_named(struct sr1__jrun *r, struct sr1__jdict *d,
                            struct sr1__jvalue key, struct sr1__jvalue v)
{
    size_t before = d->n;

    if (key.kind != SR1__J_TEXT)
        return sr1__jrun_fail(r, "the name of an argument is a %s",
                              sr1__jvalue_type(&key));
    SR1__TRY(sr1__jdict_set(r, d, key, v));
    return d->n > before
               ? SR1_OK
               : sr1__jrun_fail(r, "argument '%.*s' is given twice",
                                key.text.n > 40 ? 40 : (int)key.text.n, key.text.s);
}

static sr1_status eval_spread(struct sr1__jrun *r, const struct sr1__jnode *n,
                              struct sr1__jlist *list, struct sr1__jdict *named)
{
    struct sr1__jlist *more;
    struct sr1__jvalue v;

    if (n->b) {
        SR1__TRY(sr1__jinja_eval(r, n->b, &v));
        SR1__TRY(sr1__jvalue_iterate(r, &v, &more));
        SR1__TRY(sr1__jlist_extend(r, list, more));
    }
    if (!n->c)
        return SR1_OK;
    SR1__TRY(sr1__jinja_eval(r, n->c, &v));
    if (v.kind != SR1__J_DICT)
        return sr1__jrun_fail(r, "** needs a dict, not a %s", sr1__jvalue_type(&v));
    for (size_t i = 0; i < v.dict->n; i++)
        SR1__TRY(add_named(r, named, v.dict->v[i].key, v.dict->v[i].value));
    return SR1_OK;
}

static sr1_status eval_arguments(struct sr1__jrun *r, const struct sr1__jnode *n,
                                 const struct sr1__jvalue *caller, struct sr1__jcall *c)
{
    struct sr1__jvalue list, named, v;

    memset(c, 0, sizeof *c);
    if (!n->items && !n->named && !n->b && !n->c && !caller)
        return SR1_OK;
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &list));
    SR1__TRY(sr1__jdict_new(r, SR1__J_DICT, &named));
    for (const struct sr1__jnode *i = n->items; i; i = i->next) {
        SR1__TRY(sr1__jinja_eval(r, i, &v));
        SR1__TRY(sr1__jlist_add(r, list.list, v));
    }
    for (const struct sr1__jnode *i = n->named; i; i = i->next) {
        SR1__TRY(sr1__jinja_eval(r, i->a, &v));
        SR1__TRY(add_named(r, named.dict, sr1__jvalue_own(i->name), v));
    }
    SR1__TRY(eval_spread(r, n, list.list, named.dict));
    if (caller)
        SR1__TRY(add_named(r, named.dict, sr1__jvalue_own("caller"), *caller));
    c->v = list.list->v;
    c->n = list.list->n;
    c->named = named.dict->v;
    c->n_named = named.dict->n;
    return SR1_OK;
}

sr1_status sr1__jinja_eval_call(struct sr1__jrun *r, const struct sr1__jnode *n,
                                const struct sr1__jvalue *caller, struct sr1__jvalue *out)
{
    struct sr1__jvalue callee;
    struct sr1__jcall c;

    SR1__TRY(sr1__jinja_eval(r, n->a, &callee));
    SR1__TRY(eval_arguments(r, n, caller, &c));
    r->line = n->line;
    return sr1__jvalue_call(r, &callee, &c, out);
}

/* A filter's or a test's row; both are functions of a value. */
static sr1_status eval_filter(struct sr1__jrun *r, const struct sr1__jnode *n,
                              struct sr1__jvalue *out)
{
    int test = n->kind == SR1__N_TEST;
    const char *what = test ? "test" : "filter";
    const struct sr1__jfunction *f =
        test ? sr1__jinja_test(n->name) : sr1__jinja_filter(n->name);
    struct sr1__jvalue self = r->captured;
    struct sr1__jcall c;

    if (!f)
        return sr1__jrun_fail(r, "there is no %s '%s'", what, n->name);
    if (n->a)
        SR1__TRY(sr1__jinja_eval(r, n->a, &self));
    SR1__TRY(eval_arguments(r, n, NULL, &c));
    r->line = n->line;
    c.self = self;
    return sr1__jfunction_call(r, f, what, &c, out);
}

static sr1_status eval_node(struct sr1__jrun *r, const struct sr1__jnode *n,
                            struct sr1__jvalue *out)
{
    switch (n->kind) {
    case SR1__N_CONST:
        *out = n->value;
        return SR1_OK;
    case SR1__N_NAME:
        return eval_name(r, n, out);
    case SR1__N_TUPLE:
    case SR1__N_LIST:
        return eval_list(r, n, out);
    case SR1__N_DICT:
        return eval_dict(r, n, out);
    case SR1__N_ATTRIBUTE:
    case SR1__N_ITEM:
        return eval_access(r, n, out);
    case SR1__N_CALL:
        return sr1__jinja_eval_call(r, n, NULL, out);
    case SR1__N_FILTER:
    case SR1__N_TEST:
        return eval_filter(r, n, out);
    case SR1__N_CONDITION:
        return eval_condition(r, n, out);
    case SR1__N_OR:
    case SR1__N_AND:
        return eval_logic(r, n, out);
    case SR1__N_NOT:
        return eval_not(r, n, out);
    case SR1__N_COMPARE:
        return eval_compare(r, n, out);
    case SR1__N_BINARY:
        return eval_binary(r, n, out);
    case SR1__N_NEGATE:
    case SR1__N_POSITIVE:
        return eval_sign(r, n, out);
    case SR1__N_CONCAT:
        return eval_concat(r, n, out);
    default:
        return sr1__jrun_fail(r, "a slice stands where a value is due");
    }
}

sr1_status sr1__jinja_eval(struct sr1__jrun *r, const struct sr1__jnode *n,
                           struct sr1__jvalue *out)
{
    sr1_status status;

    SR1__TRY(sr1__jrun_enter(r));
    r->line = n->line;
    status = eval_node(r, n, out);
    sr1__jrun_leave(r);
    return status;
}
