/* text/jinja/jinja_parse.c - the statements of a template to a tree; jinja_expression.c
 * has the expressions. */
#include "text/jinja/jinja_parser.h"

#include "base/rng.h"

#include <string.h>

sr1_status sr1__jparser_fail(const struct sr1__jparser *p, const char *wanted)
{
    const struct sr1__jtoken *t = p->t;

    if (t->kind == SR1__T_END)
        return sr1__fail(SR1_E_PARSE,
                         "chat template, line %d: the template ends where %s is due",
                         t->line, wanted);
    return sr1__fail(SR1_E_PARSE, "chat template, line %d: '%.*s' stands where %s is due",
                     t->line, t->n > 40 ? 40 : (int)t->n,
                     t->kind == SR1__T_BLOCK_END || t->kind == SR1__T_VARIABLE_END ? ""
                                                                                   : t->s,
                     wanted);
}

sr1_status sr1__jparser_enter(struct sr1__jparser *p)
{
    if (++p->depth <= SR1__JINJA_DEPTH_MAX)
        return SR1_OK;
    return sr1__fail(SR1_E_LIMIT, "chat template, line %d: nested deeper than %d",
                     p->t->line, SR1__JINJA_DEPTH_MAX);
}

sr1_status sr1__jparser_node(struct sr1__jparser *p, int kind, struct sr1__jnode **out)
{
    *out = sr1__jarena_take(&p->jinja->memory, sizeof **out);
    SR1__CHECK_ALLOC(*out, "chat template");
    (*out)->kind = (unsigned char)kind;
    (*out)->line = p->t->line;
    return SR1_OK;
}

static int token_is(const struct sr1__jtoken *t, int kind, const char *text)
{
    return t->kind == kind && t->n == strlen(text) && memcmp(t->s, text, t->n) == 0;
}

int sr1__jparser_is(const struct sr1__jparser *p, const char *op)
{
    return token_is(p->t, SR1__T_OPERATOR, op);
}

int sr1__jparser_is_word(const struct sr1__jparser *p, const char *word)
{
    return token_is(p->t, SR1__T_NAME, word);
}

int sr1__jparser_skip(struct sr1__jparser *p, const char *op)
{
    int is = sr1__jparser_is(p, op);

    p->t += is;
    return is;
}

int sr1__jparser_skip_word(struct sr1__jparser *p, const char *word)
{
    int is = sr1__jparser_is_word(p, word);

    p->t += is;
    return is;
}

sr1_status sr1__jparser_expect(struct sr1__jparser *p, const char *op)
{
    char wanted[16];

    if (sr1__jparser_skip(p, op))
        return SR1_OK;
    snprintf(wanted, sizeof wanted, "'%s'", op);
    return sr1__jparser_fail(p, wanted);
}

sr1_status sr1__jparser_name(struct sr1__jparser *p, const char **out)
{
    if (p->t->kind != SR1__T_NAME)
        return sr1__jparser_fail(p, "a name");
    *out = sr1__jinja_name(p->jinja, p->t->s, p->t->n);
    SR1__CHECK_ALLOC(*out, "chat template");
    p->t++;
    return SR1_OK;
}

/* ---- statements ---- */

static sr1_status expect_block_end(struct sr1__jparser *p)
{
    if (p->t->kind != SR1__T_BLOCK_END)
        return sr1__jparser_fail(p, "%}");
    p->t++;
    return SR1_OK;
}

static sr1_status parse_statement(struct sr1__jparser *p, struct sr1__jnode **out);

/* p at "{%" of one of the words that end a body? */
static int ends_body(const struct sr1__jparser *p, const char *const *ends)
{
    for (; p->t->kind == SR1__T_BLOCK_BEGIN && *ends; ends++)
        if (token_is(p->t + 1, SR1__T_NAME, *ends))
            return 1;
    return 0;
}

static sr1_status parse_print(struct sr1__jparser *p, struct sr1__jnode **out)
{
    SR1__TRY(sr1__jparser_node(p, SR1__N_OUTPUT, out));
    p->t++;
    SR1__TRY(sr1__jparser_tuple(p, 0, &(*out)->a));
    if (p->t->kind != SR1__T_VARIABLE_END)
        return sr1__jparser_fail(p, "}}");
    p->t++;
    return SR1_OK;
}

static sr1_status parse_part(struct sr1__jparser *p, struct sr1__jnode **out)
{
    if (p->t->kind == SR1__T_VARIABLE_BEGIN)
        return parse_print(p, out);
    if (p->t->kind == SR1__T_BLOCK_BEGIN) {
        p->t++;
        SR1__TRY(parse_statement(p, out));
        return expect_block_end(p);
    }
    SR1__TRY(sr1__jparser_node(p, SR1__N_DATA, out));
    (*out)->value =
        sr1__jvalue_text((struct sr1__jtext){p->t->s, p->t->n, SR1__J_ALL_OWN});
    p->t++;
    return SR1_OK;
}

/* Parts up to "{%" and one of the words; p stands at that word. NULL: to the end. */
static sr1_status parse_body(struct sr1__jparser *p, const char *const *ends,
                             struct sr1__jnode **out)
{
    struct sr1__jnode **to = out;

    while (p->t->kind != SR1__T_END) {
        if (ends && ends_body(p, ends)) {
            p->t++;
            return SR1_OK;
        }
        SR1__TRY(parse_part(p, to));
        to = &(*to)->next;
    }
    return ends ? sr1__jparser_fail(p, ends[0]) : SR1_OK;
}

/* The rest of a block: its tag's end, its body, and the word that ends it. */
static sr1_status parse_block(struct sr1__jparser *p, const char *end,
                              struct sr1__jnode **body)
{
    const char *const ends[] = {end, NULL};

    (void)sr1__jparser_skip(p, ":");
    SR1__TRY(expect_block_end(p));
    SR1__TRY(parse_body(p, ends, body));
    p->t++;
    return SR1_OK;
}

/* p behind if or elif. */
static sr1_status parse_if(struct sr1__jparser *p, struct sr1__jnode *n)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};

    SR1__TRY(sr1__jparser_tuple(p, 1, &n->a));
    SR1__TRY(expect_block_end(p));
    SR1__TRY(parse_body(p, ends, &n->body));
    if (sr1__jparser_is_word(p, "elif")) {
        SR1__TRY(sr1__jparser_enter(p));
        SR1__TRY(sr1__jparser_node(p, SR1__N_IF, &n->other));
        p->t++;
        SR1__TRY(parse_if(p, n->other));
        p->depth--;
        return SR1_OK;
    }
    if (sr1__jparser_skip_word(p, "else"))
        return parse_block(p, "endif", &n->other);
    p->t++;
    return SR1_OK;
}

static sr1_status parse_for(struct sr1__jparser *p, struct sr1__jnode *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};

    SR1__TRY(sr1__jparser_target(p, 1, 0, &n->a));
    if (!sr1__jparser_skip_word(p, "in"))
        return sr1__jparser_fail(p, "'in'");
    SR1__TRY(sr1__jparser_tuple(p, 1, &n->b));
    if (sr1__jparser_skip_word(p, "if"))
        SR1__TRY(sr1__jparser_expression(p, &n->c));
    if (sr1__jparser_is_word(p, "recursive"))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "chat template, line %d: recursive loops are not supported; "
                         "write a macro that calls itself",
                         p->t->line);
    SR1__TRY(expect_block_end(p));
    p->loops++;
    SR1__TRY(parse_body(p, ends, &n->body));
    p->loops--;
    if (sr1__jparser_skip_word(p, "else"))
        return parse_block(p, "endfor", &n->other);
    p->t++;
    return SR1_OK;
}

static sr1_status parse_set(struct sr1__jparser *p, struct sr1__jnode *n)
{
    SR1__TRY(sr1__jparser_target(p, 1, 1, &n->a));
    if (sr1__jparser_skip(p, "="))
        return sr1__jparser_tuple(p, 0, &n->b);
    n->kind = SR1__N_CAPTURE;
    if (sr1__jparser_is(p, "|"))
        SR1__TRY(sr1__jparser_filters(p, NULL, &n->b));
    return parse_block(p, "endset", &n->body);
}

/* Names with defaults: (a, b=1). */
static sr1_status parse_parameters(struct sr1__jparser *p, struct sr1__jnode *n)
{
    struct sr1__jnode **to = &n->items;
    int defaults = 0;

    SR1__TRY(sr1__jparser_expect(p, "("));
    while (!sr1__jparser_skip(p, ")")) {
        if (n->n_items)
            SR1__TRY(sr1__jparser_expect(p, ","));
        SR1__TRY(sr1__jparser_node(p, SR1__N_KEYWORD, to));
        SR1__TRY(sr1__jparser_name(p, &(*to)->name));
        if (sr1__jparser_skip(p, "="))
            SR1__TRY(sr1__jparser_expression(p, &(*to)->a));
        else if (defaults)
            return sr1__jparser_fail(p, "a default for this parameter");
        defaults = (*to)->a != NULL;
        to = &(*to)->next;
        n->n_items++;
    }
    return SR1_OK;
}

/* A body that is a macro's: what it reads of varargs, kwargs and caller is noted. */
static sr1_status parse_macro_body(struct sr1__jparser *p, struct sr1__jnode *n,
                                   const char *end)
{
    struct sr1__jnode *around = p->macro;
    int loops = p->loops;

    p->macro = n;
    p->loops = 0;
    SR1__TRY(parse_block(p, end, &n->body));
    p->loops = loops;
    p->macro = around;
    return SR1_OK;
}

static sr1_status parse_macro(struct sr1__jparser *p, struct sr1__jnode *n)
{
    SR1__TRY(sr1__jparser_name(p, &n->name));
    SR1__TRY(parse_parameters(p, n));
    return parse_macro_body(p, n, "endmacro");
}

static sr1_status parse_caller(struct sr1__jparser *p, struct sr1__jnode *n)
{
    SR1__TRY(sr1__jparser_node(p, SR1__N_MACRO, &n->b));
    n->b->name = "caller";
    if (sr1__jparser_is(p, "("))
        SR1__TRY(parse_parameters(p, n->b));
    SR1__TRY(sr1__jparser_expression(p, &n->a));
    if (n->a->kind != SR1__N_CALL)
        return sr1__jparser_fail(p, "a call");
    return parse_macro_body(p, n->b, "endcall");
}

static sr1_status parse_with(struct sr1__jparser *p, struct sr1__jnode *n)
{
    struct sr1__jnode **to = &n->items;

    while (p->t->kind != SR1__T_BLOCK_END) {
        if (n->items)
            SR1__TRY(sr1__jparser_expect(p, ","));
        SR1__TRY(sr1__jparser_node(p, SR1__N_SET, to));
        SR1__TRY(sr1__jparser_target(p, 1, 0, &(*to)->a));
        SR1__TRY(sr1__jparser_expect(p, "="));
        SR1__TRY(sr1__jparser_expression(p, &(*to)->b));
        to = &(*to)->next;
    }
    return parse_block(p, "endwith", &n->body);
}

static sr1_status parse_filter_block(struct sr1__jparser *p, struct sr1__jnode *n)
{
    SR1__TRY(sr1__jparser_filters(p, NULL, &n->b));
    return parse_block(p, "endfilter", &n->body);
}

static sr1_status parse_generation(struct sr1__jparser *p, struct sr1__jnode *n)
{
    return parse_macro_body(p, n, "endgeneration");
}

static sr1_status parse_leave(struct sr1__jparser *p, struct sr1__jnode *n)
{
    (void)n;
    if (p->loops)
        return SR1_OK;
    return sr1__fail(SR1_E_PARSE,
                     "chat template, line %d: break or continue outside of a loop",
                     p->t->line);
}

static const struct {
    const char *word;
    int kind;
    sr1_status (*parse)(struct sr1__jparser *p, struct sr1__jnode *n);
} statements[] = {
    {"if", SR1__N_IF, parse_if},
    {"for", SR1__N_FOR, parse_for},
    {"set", SR1__N_SET, parse_set},
    {"macro", SR1__N_MACRO, parse_macro},
    {"call", SR1__N_CALLER, parse_caller},
    {"with", SR1__N_WITH, parse_with},
    {"filter", SR1__N_FILTER_BLOCK, parse_filter_block},
    {"generation", SR1__N_GENERATION, parse_generation},
    {"break", SR1__N_BREAK, parse_leave},
    {"continue", SR1__N_CONTINUE, parse_leave},
};

static sr1_status parse_statement(struct sr1__jparser *p, struct sr1__jnode **out)
{
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!sr1__jparser_is_word(p, statements[i].word))
            continue;
        SR1__TRY(sr1__jparser_enter(p));
        SR1__TRY(sr1__jparser_node(p, statements[i].kind, out));
        p->t++;
        SR1__TRY(statements[i].parse(p, *out));
        p->depth--;
        return SR1_OK;
    }
    if (p->t->kind != SR1__T_NAME)
        return sr1__jparser_fail(p, "a statement");
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "chat template, line %d: '%.*s' is no statement of chat templates "
                     "(if, for, set, macro, call, with, filter, generation, break, "
                     "continue)",
                     p->t->line, p->t->n > 40 ? 40 : (int)p->t->n, p->t->s);
}

/* ---- names ---- */

static size_t bucket_of(const char *s, size_t n)
{
    return sr1__hash64(s, n, 0) % SR1__JINJA_NAMES;
}

static const char *find_name(const struct sr1__jinja *t, const char *s, size_t n)
{
    const struct sr1__jname *at = t->names[bucket_of(s, n)];

    while (at && !(strlen(at->text) == n && memcmp(at->text, s, n) == 0))
        at = at->next;
    return at ? at->text : NULL;
}

const char *sr1__jinja_name(struct sr1__jinja *t, const char *s, size_t n)
{
    const char *known = find_name(t, s, n);
    struct sr1__jname *name;

    if (known)
        return known;
    name = sr1__jarena_take(&t->memory, sizeof *name + n + 1);
    if (!name)
        return NULL;
    memcpy(name->text, s, n);
    name->next = t->names[bucket_of(s, n)];
    t->names[bucket_of(s, n)] = name;
    return name->text;
}

const char *sr1__jinja_known_name(const struct sr1__jinja *t, const char *s)
{
    return find_name(t, s, strlen(s));
}

int sr1__jinja_names(const struct sr1__jinja *t, const char *name)
{
    return sr1__jinja_known_name(t, name) != NULL;
}

/* ---- the whole ---- */

static sr1_status parse_template(struct sr1__jinja *t, const char *text, size_t n)
{
    struct sr1__jtokens tokens = {0};
    struct sr1__jparser p = {.jinja = t};
    sr1_status status = sr1__jinja_lex(&t->memory, text, n, &tokens);

    p.t = tokens.v;
    if (status == SR1_OK)
        status = parse_body(&p, NULL, &t->body);
    sr1__free(tokens.v);
    return status;
}

sr1_status sr1__jinja_parse(struct sr1__jinja **out, const char *text, size_t n)
{
    struct sr1__jinja *t;

    if (n > SR1__JINJA_TEXT_MAX)
        return sr1__fail(SR1_E_LIMIT, "chat template: %zu bytes are more than %zu", n,
                         SR1__JINJA_TEXT_MAX);
    SR1__CALLOC(t, 1, "chat template");
    t->memory.max = SR1__JINJA_MEMORY_MAX;
    SR1__RETURN_NEW(out, t, parse_template(t, text, n), sr1__jinja_free);
}

void sr1__jinja_free(struct sr1__jinja *t)
{
    if (t)
        sr1__jarena_free(&t->memory);
    sr1__free(t);
}
