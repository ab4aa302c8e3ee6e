/* text/jinja/jinja_tests.c - what `is` asks. */
#include "text/jinja/jinja_value.h"

#include <math.h>

static sr1_status answer_test(struct sr1__jvalue *out, int is)
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
        return answer_test(out, condition);                                              \
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

static const char *const relations[] = {"==", "!=", "<", "<=", ">", ">=", "in"};
enum { EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST, CONTAINED };

static sr1_status test_relation(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    int is;

    SR1__TRY(sr1__jvalue_relate(r, relations[c->how], &c->self, &c->arg[0], &is));
    return answer_test(out, is);
}

/* Python's `is`: of numbers and texts the same value of the same type. */
static sr1_status test_same(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    const struct sr1__jvalue *a = &c->self, *b = &c->arg[0];
    int equal = 0;

    if (a->kind != b->kind)
        return answer_test(out, 0);
    if (a->kind == SR1__J_LIST || a->kind == SR1__J_DICT)
        return answer_test(out, a->list == b->list);
    SR1__TRY(sr1__jvalue_equal(r, a, b, &equal));
    return answer_test(out, equal);
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
    return answer_test(out, rest == 0);
}

static sr1_status test_odd(struct sr1__jrun *r, struct sr1__jcall *c,
                           struct sr1__jvalue *out)
{
    const struct sr1__jvalue two = sr1__jvalue_int(2);
    double rest;

    SR1__TRY(find_rest(r, &c->self, &two, &rest));
    return answer_test(out, rest == 1 || rest == -1);
}

static sr1_status test_divisible(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    double rest;

    SR1__TRY(find_rest(r, &c->self, &c->arg[0], &rest));
    return answer_test(out, rest == 0);
}

/* ---- texts ---- */

/* str(v).islower() and the like */
static sr1_status test_case(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    struct sr1__jcall call = {.n = 0};
    struct sr1__jtext t;

    SR1__TRY(sr1__jvalue_str(r, &c->self, &t));
    call.self = sr1__jvalue_text(t);
    return sr1__jfunction_call(
        r, sr1__jinja_method(&call.self, c->how == SR1__J_UPPER ? "isupper" : "islower"),
        "function", &call, out);
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
    {"eq", test_relation, "other", 1, EQUAL},
    {"equalto", test_relation, "other", 1, EQUAL},
    {"==", test_relation, "other", 1, EQUAL},
    {"ne", test_relation, "other", 1, UNEQUAL},
    {"!=", test_relation, "other", 1, UNEQUAL},
    {"lt", test_relation, "other", 1, LESS},
    {"lessthan", test_relation, "other", 1, LESS},
    {"<", test_relation, "other", 1, LESS},
    {"le", test_relation, "other", 1, AT_MOST},
    {"<=", test_relation, "other", 1, AT_MOST},
    {"gt", test_relation, "other", 1, MORE},
    {"greaterthan", test_relation, "other", 1, MORE},
    {">", test_relation, "other", 1, MORE},
    {"ge", test_relation, "other", 1, AT_LEAST},
    {">=", test_relation, "other", 1, AT_LEAST},
    {"in", test_relation, "seq", 1, CONTAINED},
    {"sameas", test_same, "other", 1},
    {"even", test_even, "", 0},
    {"odd", test_odd, "", 0},
    {"divisibleby", test_divisible, "num", 1},
    {"lower", test_case, "", 0, SR1__J_LOWER},
    {"upper", test_case, "", 0, SR1__J_UPPER},
    {"filter", NULL, NULL, 0},
    {"test", NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

const struct sr1__jfunction *sr1__jinja_test(const char *name)
{
    return sr1__jfunction_find(jinja_tests, name);
}
