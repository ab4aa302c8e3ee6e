/* text/jinja/jinja_expression.c - expressions of a template to a tree, by Jinja's order
 * of operators: if-else, or, and, not, comparisons, + and -, ~, * / // %, **, signs,
 * then what stands behind a value: members, items, calls, filters, tests. */
#include "text/jinja/jinja_parser.h"

#include "base/num.h"

#include <string.h>

typedef sr1_status (*parse_level)(struct sr1__jparser *p, struct sr1__jnode **out);

static sr1_status parse_unary(struct sr1__jparser *p, int filters,
                              struct sr1__jnode **out);
static sr1_status parse_condition(struct sr1__jparser *p, struct sr1__jnode **out);
static sr1_status parse_primary(struct sr1__jparser *p, int members,
                                struct sr1__jnode **out);

/* A node whose first part is what stands to its left. */
static sr1_status wrap_node(struct sr1__jparser *p, int kind, struct sr1__jnode *a,
                            struct sr1__jnode **out)
{
    SR1__TRY(sr1__jparser_node(p, kind, out));
    (*out)->a = a;
    return SR1_OK;
}

/* The operators of one level, signs or words, and the level above it. */
struct operator_level {
    const char *const *ops; /* NULL-terminated */
    int kind;
    parse_level operand;
};

static int find_op(const struct sr1__jparser *p, const char *const *ops)
{
    for (int i = 0; ops[i]; i++)
        if (sr1__jparser_is(p, ops[i]) || sr1__jparser_is_word(p, ops[i]))
            return i;
    return -1;
}

static sr1_status parse_left(struct sr1__jparser *p, const struct operator_level *l,
                             struct sr1__jnode **out)
{
    struct sr1__jnode *left = NULL, *n;
    int op, depth = p->depth;

    SR1__TRY(l->operand(p, &left));
    while ((op = find_op(p, l->ops)) >= 0) {
        SR1__TRY(sr1__jparser_enter(p));
        SR1__TRY(wrap_node(p, l->kind, left, &n));
        snprintf(n->op, sizeof n->op, "%s", l->ops[op]);
        p->t++;
        SR1__TRY(l->operand(p, &n->b));
        left = n;
    }
    p->depth = depth;
    *out = left;
    return SR1_OK;
}

static sr1_status parse_operand(struct sr1__jparser *p, struct sr1__jnode **out)
{
    return parse_unary(p, 1, out);
}

static sr1_status parse_power(struct sr1__jparser *p, struct sr1__jnode **out)
{
    static const char *const ops[] = {"**", NULL};
    static const struct operator_level l = {ops, SR1__N_BINARY, parse_operand};

    return parse_left(p, &l, out);
}

static sr1_status parse_product(struct sr1__jparser *p, struct sr1__jnode **out)
{
    static const char *const ops[] = {"*", "/", "//", "%", NULL};
    static const struct operator_level l = {ops, SR1__N_BINARY, parse_power};

    return parse_left(p, &l, out);
}

static sr1_status parse_concat(struct sr1__jparser *p, struct sr1__jnode **out)
{
    struct sr1__jnode *first = NULL, **to;

    SR1__TRY(parse_product(p, &first));
    *out = first;
    if (!sr1__jparser_is(p, "~"))
        return SR1_OK;
    SR1__TRY(sr1__jparser_node(p, SR1__N_CONCAT, out));
    (*out)->items = first;
    to = &first->next;
    while (sr1__jparser_skip(p, "~")) {
        SR1__TRY(parse_product(p, to));
        to = &(*to)->next;
    }
    return SR1_OK;
}

static sr1_status parse_sum(struct sr1__jparser *p, struct sr1__jnode **out)
{
    static const char *const ops[] = {"+", "-", NULL};
    static const struct operator_level l = {ops, SR1__N_BINARY, parse_concat};

    return parse_left(p, &l, out);
}

/* The comparison that begins at p, which is left behind it; NULL: none. */
static const char *skip_comparison(struct sr1__jparser *p)
{
    static const char *const ops[] = {"==", "!=", "<", ">", "<=", ">=", NULL};
    int op = find_op(p, ops);

    if (op >= 0) {
        p->t++;
        return ops[op];
    }
    if (sr1__jparser_skip_word(p, "in"))
        return "in";
    if (sr1__jparser_is_word(p, "not")) {
        p->t++;
        if (sr1__jparser_skip_word(p, "in"))
            return "!in";
        p->t--;
    }
    return NULL;
}

static sr1_status parse_comparison(struct sr1__jparser *p, struct sr1__jnode **out)
{
    struct sr1__jnode *first = NULL, **to;
    const char *op;

    SR1__TRY(parse_sum(p, &first));
    *out = first;
    if (!(op = skip_comparison(p)))
        return SR1_OK;
    SR1__TRY(wrap_node(p, SR1__N_COMPARE, first, out));
    for (to = &(*out)->items; op; op = skip_comparison(p)) {
        SR1__TRY(sr1__jparser_node(p, SR1__N_OPERAND, to));
        snprintf((*to)->op, sizeof(*to)->op, "%s", op);
        SR1__TRY(parse_sum(p, &(*to)->a));
        to = &(*to)->next;
    }
    return SR1_OK;
}

static sr1_status parse_not(struct sr1__jparser *p, struct sr1__jnode **out)
{
    if (!sr1__jparser_is_word(p, "not"))
        return parse_comparison(p, out);
    SR1__TRY(sr1__jparser_enter(p));
    SR1__TRY(sr1__jparser_node(p, SR1__N_NOT, out));
    p->t++;
    SR1__TRY(parse_not(p, &(*out)->a));
    p->depth--;
    return SR1_OK;
}

static sr1_status parse_and(struct sr1__jparser *p, struct sr1__jnode **out)
{
    static const char *const ops[] = {"and", NULL};
    static const struct operator_level l = {ops, SR1__N_AND, parse_not};

    return parse_left(p, &l, out);
}

static sr1_status parse_or(struct sr1__jparser *p, struct sr1__jnode **out)
{
    static const char *const ops[] = {"or", NULL};
    static const struct operator_level l = {ops, SR1__N_OR, parse_and};

    return parse_left(p, &l, out);
}

/* a if b else c, where a node's a, b, c are in this order. */
static sr1_status parse_condition(struct sr1__jparser *p, struct sr1__jnode **out)
{
    struct sr1__jnode *value = NULL, *n;
    int depth = p->depth;

    SR1__TRY(sr1__jparser_enter(p));
    SR1__TRY(parse_or(p, &value));
    while (sr1__jparser_is_word(p, "if")) {
        SR1__TRY(sr1__jparser_enter(p));
        SR1__TRY(wrap_node(p, SR1__N_CONDITION, value, &n));
        p->t++;
        SR1__TRY(parse_or(p, &n->b));
        if (sr1__jparser_skip_word(p, "else"))
            SR1__TRY(parse_condition(p, &n->c));
        value = n;
    }
    p->depth = depth;
    *out = value;
    return SR1_OK;
}

sr1_status sr1__jparser_expression(struct sr1__jparser *p, struct sr1__jnode **out)
{
    return parse_condition(p, out);
}

/* ---- values ---- */

static int ends_tuple(const struct sr1__jparser *p)
{
    return p->t->kind == SR1__T_VARIABLE_END || p->t->kind == SR1__T_BLOCK_END ||
           sr1__jparser_is(p, ")") || sr1__jparser_is_word(p, "in") ||
           sr1__jparser_is_word(p, "recursive");
}

/* What a tuple consists of. */
enum part { EXPRESSIONS, WITHOUT_CONDITION, TARGETS, MEMBER_TARGETS };

static sr1_status parse_tuple_part(struct sr1__jparser *p, enum part part,
                                   struct sr1__jnode **out)
{
    if (part == EXPRESSIONS)
        return parse_condition(p, out);
    if (part == WITHOUT_CONDITION)
        return parse_or(p, out);
    return parse_primary(p, part == MEMBER_TARGETS, out);
}

/* empty: "()" is one too. */
static sr1_status parse_parts(struct sr1__jparser *p, enum part part, int empty,
                              struct sr1__jnode **out)
{
    struct sr1__jnode *first = NULL, **to = &first;
    size_t n = 0;
    int commas = 0;

    while (!ends_tuple(p)) {
        SR1__TRY(parse_tuple_part(p, part, to));
        to = &(*to)->next;
        n++;
        if (!sr1__jparser_skip(p, ","))
            break;
        commas = 1;
    }
    if (!commas && (first || !empty)) {
        *out = first;
        return first ? SR1_OK : sr1__jparser_fail(p, "an expression");
    }
    SR1__TRY(sr1__jparser_node(p, SR1__N_TUPLE, out));
    (*out)->items = first;
    (*out)->n_items = n;
    return SR1_OK;
}

sr1_status sr1__jparser_tuple(struct sr1__jparser *p, int no_condition,
                              struct sr1__jnode **out)
{
    return parse_parts(p, no_condition ? WITHOUT_CONDITION : EXPRESSIONS, 0, out);
}

static int can_assign(const struct sr1__jnode *n)
{
    if (n->kind == SR1__N_TUPLE) {
        for (const struct sr1__jnode *i = n->items; i; i = i->next)
            if (!can_assign(i))
                return 0;
        return 1;
    }
    return n->kind == SR1__N_NAME || n->kind == SR1__N_MEMBER_OF;
}

sr1_status sr1__jparser_target(struct sr1__jparser *p, int several, int members,
                               struct sr1__jnode **out)
{
    enum part part = members ? MEMBER_TARGETS : TARGETS;

    if (several)
        SR1__TRY(parse_parts(p, part, 0, out));
    else
        SR1__TRY(parse_primary(p, members, out));
    return can_assign(*out) ? SR1_OK : sr1__jparser_fail(p, "a name to assign to");
}

static sr1_status parse_list(struct sr1__jparser *p, struct sr1__jnode **out)
{
    struct sr1__jnode **to;

    SR1__TRY(sr1__jparser_node(p, SR1__N_LIST, out));
    to = &(*out)->items;
    p->t++;
    while (!sr1__jparser_skip(p, "]")) {
        SR1__TRY(parse_condition(p, to));
        to = &(*to)->next;
        (*out)->n_items++;
        if (!sr1__jparser_is(p, "]"))
            SR1__TRY(sr1__jparser_expect(p, ","));
    }
    return SR1_OK;
}

static sr1_status parse_dict(struct sr1__jparser *p, struct sr1__jnode **out)
{
    struct sr1__jnode **to;

    SR1__TRY(sr1__jparser_node(p, SR1__N_DICT, out));
    to = &(*out)->items;
    p->t++;
    while (!sr1__jparser_skip(p, "}")) {
        SR1__TRY(sr1__jparser_node(p, SR1__N_PAIR, to));
        SR1__TRY(parse_condition(p, &(*to)->a));
        SR1__TRY(sr1__jparser_expect(p, ":"));
        SR1__TRY(parse_condition(p, &(*to)->b));
        to = &(*to)->next;
        if (!sr1__jparser_is(p, "}"))
            SR1__TRY(sr1__jparser_expect(p, ","));
    }
    return SR1_OK;
}

/* Strings that stand behind one another are one. */
static sr1_status parse_string(struct sr1__jparser *p, struct sr1__jnode **out)
{
    const struct sr1__jtoken *first = p->t;
    size_t n = 0;
    char *text;

    SR1__TRY(sr1__jparser_node(p, SR1__N_CONST, out));
    for (; p->t->kind == SR1__T_STRING; p->t++)
        n += p->t->n;
    text = sr1__jarena_take(&p->jinja->memory, n + 1);
    SR1__CHECK_ALLOC(text, "chat template");
    (*out)->value = sr1__jvalue_text((struct sr1__jtext){text, n, SR1__J_ALL_OWN});
    for (; first < p->t; text += first->n, first++)
        if (first->n)
            memcpy(text, first->s, first->n);
    return SR1_OK;
}

/* The digits of a number without underscores, in a text of its own. */
static char *plain_digits(struct sr1__jparser *p)
{
    char *text = sr1__jarena_take(&p->jinja->memory, p->t->n + 1), *to = text;

    for (size_t i = 0; text && i < p->t->n; i++)
        if (p->t->s[i] != '_')
            *to++ = p->t->s[i];
    return text;
}

static int based_value(const char *s, int base, int64_t *out)
{
    uint64_t v = 0;

    for (; *s; s++) {
        int digit = *s >= 'a' ? *s - 'a' + 10 : *s >= 'A' ? *s - 'A' + 10 : *s - '0';

        if (digit < 0 || digit >= base || v > (uint64_t)INT64_MAX / 16)
            return 0;
        v = v * (uint64_t)base + (uint64_t)digit;
    }
    *out = (int64_t)v;
    return 1;
}

static sr1_status parse_number(struct sr1__jparser *p, struct sr1__jnode **out)
{
    char *text = plain_digits(p);
    size_t n;
    int base, ok;
    int64_t i = 0;

    SR1__CHECK_ALLOC(text, "chat template");
    SR1__TRY(sr1__jparser_node(p, SR1__N_CONST, out));
    n = strlen(text);
    if (p->t->kind == SR1__T_REAL) {
        (*out)->value = sr1__jvalue_real(sr1__to_double(text));
        p->t++;
        return SR1_OK;
    }
    base = n > 2 && strchr("xX", text[1])   ? 16
           : n > 2 && strchr("oO", text[1]) ? 8
           : n > 2 && strchr("bB", text[1]) ? 2
                                            : 10;
    ok = base == 10 ? sr1__parse_int(text, n, &i) : based_value(text + 2, base, &i);
    (*out)->value = sr1__jvalue_int(i);
    if (!ok && base == 10) {
        (*out)->value = sr1__jvalue_text((struct sr1__jtext){text, n, SR1__J_ALL_OWN});
        (*out)->value.kind = SR1__J_BIG;
    } else if (!ok) {
        return sr1__jparser_fail(p, "a number of 64 bits");
    }
    p->t++;
    return SR1_OK;
}

/* A word that stands for a value; 0: it is a variable. */
static int constant_word(const struct sr1__jparser *p, struct sr1__jvalue *v)
{
    if (sr1__jparser_is_word(p, "true") || sr1__jparser_is_word(p, "True"))
        *v = sr1__jvalue_bool(1);
    else if (sr1__jparser_is_word(p, "false") || sr1__jparser_is_word(p, "False"))
        *v = sr1__jvalue_bool(0);
    else if (sr1__jparser_is_word(p, "none") || sr1__jparser_is_word(p, "None"))
        *v = sr1__jvalue_none();
    else
        return 0;
    return 1;
}

/* The macro around reads this variable. */
static void note_use(const struct sr1__jparser *p)
{
    if (!p->macro)
        return;
    if (sr1__jparser_is_word(p, "varargs"))
        p->macro->uses |= SR1__J_VARARGS;
    else if (sr1__jparser_is_word(p, "kwargs"))
        p->macro->uses |= SR1__J_KWARGS;
    else if (sr1__jparser_is_word(p, "caller"))
        p->macro->uses |= SR1__J_CALLER;
}

static sr1_status parse_name(struct sr1__jparser *p, int members, struct sr1__jnode **out)
{
    struct sr1__jvalue v;

    SR1__TRY(sr1__jparser_node(p, SR1__N_NAME, out));
    if (constant_word(p, &v)) {
        (*out)->kind = SR1__N_CONST;
        (*out)->value = v;
        p->t++;
        return SR1_OK;
    }
    note_use(p);
    SR1__TRY(sr1__jparser_name(p, &(*out)->name));
    if (!members || !sr1__jparser_skip(p, "."))
        return SR1_OK;
    (*out)->kind = SR1__N_MEMBER_OF;
    return sr1__jparser_name(p, &(*out)->attribute);
}

static sr1_status parse_parenthesis(struct sr1__jparser *p, struct sr1__jnode **out)
{
    p->t++;
    SR1__TRY(parse_parts(p, EXPRESSIONS, 1, out));
    return sr1__jparser_expect(p, ")");
}

static sr1_status parse_primary(struct sr1__jparser *p, int members,
                                struct sr1__jnode **out)
{
    switch (p->t->kind) {
    case SR1__T_NAME:
        return parse_name(p, members, out);
    case SR1__T_STRING:
        return parse_string(p, out);
    case SR1__T_INT:
    case SR1__T_REAL:
        return parse_number(p, out);
    default:
        if (sr1__jparser_is(p, "("))
            return parse_parenthesis(p, out);
        if (sr1__jparser_is(p, "["))
            return parse_list(p, out);
        if (sr1__jparser_is(p, "{"))
            return parse_dict(p, out);
        return sr1__jparser_fail(p, "an expression");
    }
}

/* ---- behind a value ---- */

/* One argument: *list, **dict, name=value or a value. */
static sr1_status parse_argument(struct sr1__jparser *p, struct sr1__jnode *n,
                                 struct sr1__jnode ***item, struct sr1__jnode ***named)
{
    if (!n->b && !n->c && sr1__jparser_skip(p, "*"))
        return parse_condition(p, &n->b);
    if (!n->c && sr1__jparser_skip(p, "**"))
        return parse_condition(p, &n->c);
    if (p->t->kind == SR1__T_NAME && p->t[1].kind == SR1__T_OPERATOR && p->t[1].n == 1 &&
        p->t[1].s[0] == '=' && !n->c) {
        SR1__TRY(sr1__jparser_node(p, SR1__N_KEYWORD, *named));
        SR1__TRY(sr1__jparser_name(p, &(**named)->name));
        p->t++;
        SR1__TRY(parse_condition(p, &(**named)->a));
        *named = &(**named)->next;
        n->n_named++;
        return SR1_OK;
    }
    if (n->b || n->c || n->named)
        return sr1__jparser_fail(p, "a named argument");
    SR1__TRY(parse_condition(p, *item));
    *item = &(**item)->next;
    n->n_items++;
    return SR1_OK;
}

/* (a, b=c, *d, **e) into a call, filter or test. */
static sr1_status parse_arguments(struct sr1__jparser *p, struct sr1__jnode *n)
{
    struct sr1__jnode **item = &n->items, **named = &n->named;

    SR1__TRY(sr1__jparser_expect(p, "("));
    while (!sr1__jparser_skip(p, ")")) {
        SR1__TRY(parse_argument(p, n, &item, &named));
        if (!sr1__jparser_is(p, ")"))
            SR1__TRY(sr1__jparser_expect(p, ","));
    }
    return SR1_OK;
}

static sr1_status parse_call(struct sr1__jparser *p, struct sr1__jnode *a,
                             struct sr1__jnode **out)
{
    SR1__TRY(wrap_node(p, SR1__N_CALL, a, out));
    return parse_arguments(p, *out);
}

/* a.name, or a.0 */
static sr1_status parse_member(struct sr1__jparser *p, struct sr1__jnode *a,
                               struct sr1__jnode **out)
{
    SR1__TRY(wrap_node(p, SR1__N_ATTRIBUTE, a, out));
    p->t++;
    if (p->t->kind == SR1__T_NAME)
        return sr1__jparser_name(p, &(*out)->name);
    if (p->t->kind != SR1__T_INT)
        return sr1__jparser_fail(p, "a name or a number");
    (*out)->kind = SR1__N_ITEM;
    return parse_number(p, &(*out)->b);
}

/* Is there no bound of a slice at p? */
static int lacks_bound(const struct sr1__jparser *p)
{
    return sr1__jparser_is(p, ":") || sr1__jparser_is(p, "]") || sr1__jparser_is(p, ",");
}

/* What is between brackets: a value, or a:b:c. */
static sr1_status parse_subscript(struct sr1__jparser *p, struct sr1__jnode **out)
{
    struct sr1__jnode *first = NULL;

    if (!sr1__jparser_is(p, ":")) {
        SR1__TRY(parse_condition(p, &first));
        if (!sr1__jparser_is(p, ":")) {
            *out = first;
            return SR1_OK;
        }
    }
    SR1__TRY(wrap_node(p, SR1__N_SLICE, first, out));
    p->t++;
    if (!lacks_bound(p))
        SR1__TRY(parse_condition(p, &(*out)->b));
    if (sr1__jparser_skip(p, ":") && !lacks_bound(p))
        SR1__TRY(parse_condition(p, &(*out)->c));
    return SR1_OK;
}

static sr1_status parse_item(struct sr1__jparser *p, struct sr1__jnode *a,
                             struct sr1__jnode **out)
{
    struct sr1__jnode *key = NULL, **to = &key;
    size_t n = 0;

    SR1__TRY(wrap_node(p, SR1__N_ITEM, a, out));
    p->t++;
    do {
        SR1__TRY(parse_subscript(p, to));
        to = &(*to)->next;
        n++;
    } while (sr1__jparser_skip(p, ","));
    (*out)->b = key;
    if (n > 1) {
        SR1__TRY(sr1__jparser_node(p, SR1__N_TUPLE, &(*out)->b));
        (*out)->b->items = key;
        (*out)->b->n_items = n;
    }
    return sr1__jparser_expect(p, "]");
}

static sr1_status parse_postfix(struct sr1__jparser *p, struct sr1__jnode **node)
{
    int depth = p->depth;

    for (;;) {
        SR1__TRY(sr1__jparser_enter(p));
        if (sr1__jparser_is(p, "."))
            SR1__TRY(parse_member(p, *node, node));
        else if (sr1__jparser_is(p, "["))
            SR1__TRY(parse_item(p, *node, node));
        else if (sr1__jparser_is(p, "("))
            SR1__TRY(parse_call(p, *node, node));
        else
            break;
    }
    p->depth = depth;
    return SR1_OK;
}

/* name.name of a filter or a test. */
static sr1_status parse_dotted(struct sr1__jparser *p, const char **out)
{
    SR1__TRY(sr1__jparser_name(p, out));
    if (sr1__jparser_is(p, "."))
        return sr1__jparser_fail(p, "a filter or test without a dot");
    return SR1_OK;
}

static sr1_status parse_filter(struct sr1__jparser *p, struct sr1__jnode *a,
                               struct sr1__jnode **out)
{
    SR1__TRY(wrap_node(p, SR1__N_FILTER, a, out));
    SR1__TRY(parse_dotted(p, &(*out)->name));
    return sr1__jparser_is(p, "(") ? parse_arguments(p, *out) : SR1_OK;
}

sr1_status sr1__jparser_filters(struct sr1__jparser *p, struct sr1__jnode *a,
                                struct sr1__jnode **out)
{
    *out = a;
    (void)sr1__jparser_skip(p, "|");
    do
        SR1__TRY(parse_filter(p, *out, out));
    while (sr1__jparser_skip(p, "|"));
    return SR1_OK;
}

/* Does a test's argument begin at p, without brackets? */
static int begins_argument(const struct sr1__jparser *p)
{
    if (p->t->kind == SR1__T_NAME)
        return !sr1__jparser_is_word(p, "else") && !sr1__jparser_is_word(p, "or") &&
               !sr1__jparser_is_word(p, "and");
    return p->t->kind == SR1__T_STRING || p->t->kind == SR1__T_INT ||
           p->t->kind == SR1__T_REAL || sr1__jparser_is(p, "[") ||
           sr1__jparser_is(p, "{");
}

/* p behind "is". */
static sr1_status parse_test(struct sr1__jparser *p, struct sr1__jnode *a,
                             struct sr1__jnode **out)
{
    struct sr1__jnode *n;
    int negated = sr1__jparser_skip_word(p, "not");

    SR1__TRY(wrap_node(p, SR1__N_TEST, a, &n));
    SR1__TRY(parse_dotted(p, &n->name));
    if (sr1__jparser_is(p, "(")) {
        SR1__TRY(parse_arguments(p, n));
    } else if (begins_argument(p)) {
        if (sr1__jparser_is_word(p, "is"))
            return sr1__jparser_fail(p, "another test with 'and'");
        SR1__TRY(parse_primary(p, 0, &n->items));
        SR1__TRY(parse_postfix(p, &n->items));
        n->n_items = 1;
    }
    *out = n;
    return negated ? wrap_node(p, SR1__N_NOT, n, out) : SR1_OK;
}

static sr1_status parse_filters_and_tests(struct sr1__jparser *p,
                                          struct sr1__jnode **node)
{
    int depth = p->depth;

    for (;;) {
        SR1__TRY(sr1__jparser_enter(p));
        if (sr1__jparser_skip(p, "|"))
            SR1__TRY(parse_filter(p, *node, node));
        else if (sr1__jparser_skip_word(p, "is"))
            SR1__TRY(parse_test(p, *node, node));
        else if (sr1__jparser_is(p, "("))
            SR1__TRY(parse_call(p, *node, node));
        else
            break;
    }
    p->depth = depth;
    return SR1_OK;
}

static sr1_status parse_unary(struct sr1__jparser *p, int filters,
                              struct sr1__jnode **out)
{
    int kind = sr1__jparser_is(p, "-")   ? SR1__N_NEGATE
               : sr1__jparser_is(p, "+") ? SR1__N_POSITIVE
                                         : 0;

    SR1__TRY(sr1__jparser_enter(p));
    if (kind) {
        SR1__TRY(sr1__jparser_node(p, kind, out));
        p->t++;
        SR1__TRY(parse_unary(p, 0, &(*out)->a));
    } else {
        SR1__TRY(parse_primary(p, 0, out));
    }
    SR1__TRY(parse_postfix(p, out));
    if (filters)
        SR1__TRY(parse_filters_and_tests(p, out));
    p->depth--;
    return SR1_OK;
}
