/* text/jinja/jinja_tests.c - what `is` asks. */
#include "text/jinja/jinja_value.h"

#include <math.h>

static sr1_status answer(struct sr1__jvalue *out, int is)
{
    *out = sr1__jvalue_bool(is);
    return SR1_OK;
}

#define KIND_TEST(function, condition)                                                   \
    static sr1_status function(struct sr1__jrun *r, struct sr1__jcall *c,                \
                               struct sr1__jvalue *out)                                  \
    {                                                                                    \
        const struct sr1__jvalue *v = &c->self;                                          \
                                                                                         \
        (void)r;                                                                         \
        return answer(out, condition);                                                   \
    }

KIND_TEST(test_defined, v->kind != SR1__J_UNDEFINED)
KIND_TEST(test_undefined, v->kind == SR1__J_UNDEFINED)
KIND_TEST(test_none, v->kind == SR1__J_NONE)
KIND_TEST(test_boolean, v->kind == SR1__J_BOOL)
KIND_TEST(test_true, v->kind == SR1__J_BOOL && v->i)
KIND_TEST(test_false, v->kind == SR1__J_BOOL && !v->i)
KIND_TEST(test_integer, v->kind == SR1__J_INT || v->kind == SR1__J_BIG)
KIND_TEST(test_float, v->kind == SR1__J_REAL)
KIND_TEST(test_number, sr1__jvalue_is_number(v) || v->kind == SR1__J_BIG)
KIND_TEST(test_string, v->kind == SR1__J_TEXT)
KIND_TEST(test_mapping, v->kind == SR1__J_DICT)
KIND_TEST(test_sequence, v->kind == SR1__J_UNDEFINED || v->kind == SR1__J_TEXT ||
                             v->kind == SR1__J_DICT ||
                             (v->kind == SR1__J_LIST && v->form <= SR1__J_IS_RANGE))
KIND_TEST(test_iterable, v->kind == SR1__J_UNDEFINED || v->kind == SR1__J_TEXT ||
                             v->kind == SR1__J_DICT || v->kind == SR1__J_LIST ||
                             v->kind == SR1__J_LOOP)
KIND_TEST(test_callable, v->kind == SR1__J_CALLABLE || v->kind == SR1__J_UNDEFINED)
KIND_TEST(test_escaped, v->kind == SR1__J_TEXT && v->form)

/* ---- comparisons ---- */

static sr1_status test_equal(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    int equal;

    SR1__TRY(sr1__jvalue_equal(r, &c->self, &c->arg[0], &equal));
    return answer(out, equal);
}

static sr1_status test_unequal(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    SR1__TRY(test_equal(r, c, out));
    return answer(out, !out->i);
}

static sr1_status test_less(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    int order;

    SR1__TRY(sr1__jvalue_compare(r, &c->self, &c->arg[0], &order));
    return answer(out, order < 0);
}

static sr1_status test_at_most(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    int order;

    SR1__TRY(sr1__jvalue_compare(r, &c->self, &c->arg[0], &order));
    return answer(out, order <= 0);
}

static sr1_status test_more(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    int order;

    SR1__TRY(sr1__jvalue_compare(r, &c->self, &c->arg[0], &order));
    return answer(out, order == 1);
}

static sr1_status test_at_least(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    int order;

    SR1__TRY(sr1__jvalue_compare(r, &c->self, &c->arg[0], &order));
    return answer(out, order >= 0 && order != 2);
}

static sr1_status test_in(struct sr1__jrun *r, struct sr1__jcall *c,
                          struct sr1__jvalue *out)
{
    int found;

    SR1__TRY(sr1__jvalue_contains(r, &c->arg[0], &c->self, &found));
    return answer(out, found);
}

/* Python's `is`: of numbers and texts the same value of the same type. */
static sr1_status test_same(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    const struct sr1__jvalue *a = &c->self, *b = &c->arg[0];
    int equal = 0;

    if (a->kind != b->kind)
        return answer(out, 0);
    if (a->kind == SR1__J_LIST || a->kind == SR1__J_DICT)
        return answer(out, a->list == b->list);
    SR1__TRY(sr1__jvalue_equal(r, a, b, &equal));
    return answer(out, equal);
}

/* ---- numbers ---- */

/* a % b, as Python's sign has it */
static sr1_status find_rest(struct sr1__jrun *r, const struct sr1__jvalue *a,
                            const struct sr1__jvalue *b, double *rest)
{
    double divisor;

    if (!sr1__jvalue_is_number(a) || !sr1__jvalue_is_number(b))
        return sr1__jrun_fail(r, "a number is due, not a %s",
                              sr1__jvalue_type(sr1__jvalue_is_number(a) ? b : a));
    divisor = sr1__jvalue_as_real(b);
    if (divisor == 0)
        return sr1__jrun_fail(r, "division by zero");
    if (a->kind != SR1__J_REAL && b->kind != SR1__J_REAL) {
        *rest = b->i == -1 ? 0 : (double)(a->i % b->i);
        return SR1_OK;
    }
    *rest = fmod(sr1__jvalue_as_real(a), divisor);
    return SR1_OK;
}

static sr1_status test_even(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    const struct sr1__jvalue two = sr1__jvalue_int(2);
    double rest;

    SR1__TRY(find_rest(r, &c->self, &two, &rest));
    return answer(out, rest == 0);
}

static sr1_status test_odd(struct sr1__jrun *r, struct sr1__jcall *c,
                           struct sr1__jvalue *out)
{
    const struct sr1__jvalue two = sr1__jvalue_int(2);
    double rest;

    SR1__TRY(find_rest(r, &c->self, &two, &rest));
    return answer(out, rest == 1 || rest == -1);
}

static sr1_status test_divisible(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    double rest;

    SR1__TRY(find_rest(r, &c->self, &c->arg[0], &rest));
    return answer(out, rest == 0);
}

/* ---- texts ---- */

/* str(v).islower() and the like */
static sr1_status ask_text(struct sr1__jrun *r, struct sr1__jcall *c, const char *method,
                           struct sr1__jvalue *out)
{
    struct sr1__jcall call = {.n = 0};
    struct sr1__jtext t;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    call.self = sr1__jvalue_text(t);
    return sr1__jfunction_call(r, sr1__jinja_method(&call.self, method), "function",
                               &call, out);
}

static sr1_status test_lower(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    return ask_text(r, c, "islower", out);
}

static sr1_status test_upper(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    return ask_text(r, c, "isupper", out);
}

static const struct sr1__jfunction jinja_tests[] = {
    {"defined", test_defined, "", 0},
    {"undefined", test_undefined, "", 0},
    {"none", test_none, "", 0},
    {"boolean", test_boolean, "", 0},
    {"true", test_true, "", 0},
    {"false", test_false, "", 0},
    {"integer", test_integer, "", 0},
    {"float", test_float, "", 0},
    {"number", test_number, "", 0},
    {"string", test_string, "", 0},
    {"mapping", test_mapping, "", 0},
    {"sequence", test_sequence, "", 0},
    {"iterable", test_iterable, "", 0},
    {"callable", test_callable, "", 0},
    {"escaped", test_escaped, "", 0},
    {"eq", test_equal, "other", 1},
    {"equalto", test_equal, "other", 1},
    {"==", test_equal, "other", 1},
    {"ne", test_unequal, "other", 1},
    {"!=", test_unequal, "other", 1},
    {"lt", test_less, "other", 1},
    {"lessthan", test_less, "other", 1},
    {"<", test_less, "other", 1},
    {"le", test_at_most, "other", 1},
    {"<=", test_at_most, "other", 1},
    {"gt", test_more, "other", 1},
    {"greaterthan", test_more, "other", 1},
    {">", test_more, "other", 1},
    {"ge", test_at_least, "other", 1},
    {">=", test_at_least, "other", 1},
    {"in", test_in, "seq", 1},
    {"sameas", test_same, "other", 1},
    {"even", test_even, "", 0},
    {"odd", test_odd, "", 0},
    {"divisibleby", test_divisible, "num", 1},
    {"lower", test_lower, "", 0},
    {"upper", test_upper, "", 0},
    {"filter", NULL, NULL, 0},
    {"test", NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

const struct sr1__jfunction *sr1__jinja_test(const char *name)
{
    return sr1__jfunction_find(jinja_tests, name);
}
