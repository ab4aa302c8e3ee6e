/* environment/world/programs_text.c - tiny programs in words and in Python: the table of
 * families, and the texts about a program. */
#include "environment/world/programs.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define OPERATOR {SR1__PROGRAMS_OPERATOR, 0, 2}
#define COMPARISON {SR1__PROGRAMS_COMPARISON, 0, 3}
#define MOST {SR1__PROGRAMS_MOST, 0, 1}
#define NUMBER {SR1__PROGRAMS_NUMBER, 2, 9}
#define BOUND {SR1__PROGRAMS_BOUND, 0, 1}
#define VARIABLE {SR1__PROGRAMS_VARIABLE, 0, 1}
#define FIXED(kind, value) {SR1__PROGRAMS_##kind, value, value}

/* programs_meaning.c computes them, in this order. */
const struct sr1__programs_family sr1__programs_families[SR1__PROGRAMS_FAMILIES] = {
    {.task = "Write f(@0, @1) that gives @0 $0 $1 if @0 is $2 @1, else $3.",
     .lines = {"def f(@0, @1):",
               "    if @0 $2 @1:",
               "        return @0 $0 $1",
               "    return $3"},
     .n_slots = 4, .slots = {OPERATOR, NUMBER, COMPARISON, VARIABLE},
     .n_arguments = 2,
     .n_names = 2, .roles = {SR1__PROGRAMS_FIRST, SR1__PROGRAMS_SECOND}},
    {.task = "Write f(@0) that adds up @1 $0 $1 for @1 from 1 $2 @0.",
     .lines = {"def f(@0):",
               "    @2 = $3",
               "    for @1 in range($4, $2):",
               "        @2 += $5 $0 $1",
               "    return @2"},
     .n_slots = 6,
     .slots = {OPERATOR, NUMBER, BOUND, FIXED(START, 0), FIXED(START, 1),
               FIXED(VARIABLE, 1)},
     .n_arguments = 1,
     .n_names = 3,
     .roles = {SR1__PROGRAMS_FIRST, SR1__PROGRAMS_EACH, SR1__PROGRAMS_TOTAL}},
    {.task = "Write f(@0, @1) that counts each @2 of @0 with @2 $0 $1 $2 @1.",
     .lines = {"def f(@0, @1):",
               "    @3 = $3",
               "    for @2 in @0:",
               "        if @2 $0 $1 $2 @1:",
               "            @3 += 1",
               "    return @3"},
     .n_slots = 4, .slots = {OPERATOR, NUMBER, COMPARISON, FIXED(START, 0)},
     .n_arguments = 2,
     .n_names = 4,
     .roles = {SR1__PROGRAMS_LISTED, SR1__PROGRAMS_SECOND, SR1__PROGRAMS_EACH,
               SR1__PROGRAMS_TOTAL}},
    {.task = "Write f(@0) that gives the $0 @1 of @0, $1 $2.",
     .lines = {"def f(@0):",
               "    @2 = @0[0]",
               "    for @1 in @0:",
               "        if @1 $0 @2:",
               "            @2 = @1",
               "    return @2 $1 $2"},
     .n_slots = 3, .slots = {MOST, OPERATOR, NUMBER},
     .n_arguments = 1,
     .n_names = 3,
     .roles = {SR1__PROGRAMS_LISTED, SR1__PROGRAMS_EACH, SR1__PROGRAMS_TOTAL}},
    {.task = "Write f(@0, @1) that gives @0 after @1 steps of $0 $1.",
     .lines = {"def f(@0, @1):",
               "    for @2 in range($2, @1):",
               "        @0 = @0 $0 $1",
               "    return @0"},
     .n_slots = 3, .slots = {OPERATOR, NUMBER, FIXED(START, 0)},
     .n_arguments = 2,
     .n_names = 3,
     .roles = {SR1__PROGRAMS_FIRST, SR1__PROGRAMS_SECOND, SR1__PROGRAMS_EACH}},
};
/* clang-format on */

static const char *const role_words[][4] = {
    [SR1__PROGRAMS_FIRST] = {"x", "n"}, [SR1__PROGRAMS_SECOND] = {"y", "k"},
    [SR1__PROGRAMS_LISTED] = {"v"},     [SR1__PROGRAMS_EACH] = {"i"},
    [SR1__PROGRAMS_TOTAL] = {"s"},
};

/* The values of a kind in a task and in code; those of the others are written otherwise.
 */
static const struct slot_kind {
    const char *task[4];
    const char *code[4];
} kinds[SR1__PROGRAMS_KINDS] = {
    [SR1__PROGRAMS_OPERATOR] = {{"plus", "minus", "times"}, {"+", "-", "*"}},
    [SR1__PROGRAMS_COMPARISON] = {{"less than", "more than", "at most", "at least"},
                                  {"<", ">", "<=", ">="}},
    [SR1__PROGRAMS_MOST] = {{"largest", "smallest"}, {">", "<"}},
    [SR1__PROGRAMS_BOUND] = {{"to", "below"}, {NULL}},
};

/* ---- slots and names ---- */

static const struct sr1__programs_family *family_of(const struct sr1__program *p)
{
    return &sr1__programs_families[p->family];
}

static const char *name_of(const struct sr1__program *p, int32_t i)
{
    return role_words[family_of(p)->roles[i]][p->name[i]];
}

/* Texts of fixed size: places are looked up without memory to ask for. */
#define WORDS 16
#define SENTENCE 128

static void code_slot(char out[WORDS], const struct sr1__program *p, int32_t slot)
{
    int8_t kind = family_of(p)->slots[slot].kind, value = p->value[slot];

    if (kind == SR1__PROGRAMS_VARIABLE)
        snprintf(out, WORDS, "%s", name_of(p, value));
    else if (kind == SR1__PROGRAMS_BOUND)
        snprintf(out, WORDS, "%s%s", name_of(p, 0), value == 0 ? " + 1" : "");
    else if (kinds[kind].code[0])
        snprintf(out, WORDS, "%s", kinds[kind].code[value]);
    else
        snprintf(out, WORDS, "%d", value);
}

static void task_slot(char out[WORDS], const struct sr1__program *p, int32_t slot)
{
    int8_t kind = family_of(p)->slots[slot].kind;

    if (kinds[kind].task[0])
        snprintf(out, WORDS, "%s", kinds[kind].task[p->value[slot]]);
    else
        code_slot(out, p, slot);
}

typedef void (*slot_fn)(char out[WORDS], const struct sr1__program *p, int32_t slot);

/* text with its slots and names filled in. */
static void fill_template_slots(char out[SENTENCE], const struct sr1__program *p,
                                const char *text, slot_fn slot)
{
    size_t n = 0;

    for (; *text; text++) {
        char words[WORDS] = {*text, '\0'};

        if (*text == '$')
            slot(words, p, *++text - '0');
        else if (*text == '@')
            snprintf(words, sizeof words, "%s", name_of(p, *++text - '0'));
        n += (size_t)snprintf(out + n, SENTENCE - n, "%s", words);
    }
}

/* ---- places ---- */

int32_t sr1__programs_line(const struct sr1__program *p, int32_t slot)
{
    char mark[3] = {'$', (char)('0' + slot), '\0'};
    int32_t i = 0;

    while (!strstr(family_of(p)->lines[i], mark))
        i++;
    return i + 1;
}

/* 0 space and brackets, 1 letters and digits, 2 signs: words are runs of 1 or of 2. */
static int classify_char(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
        return 1;
    return c != '\0' && strchr("+-*<>=", c) ? 2 : 0;
}

static int count_word_occurrences(const char *line, const char *words)
{
    size_t n = strlen(words);
    int found = 0;

    for (const char *at = line; (at = strstr(at, words)) != NULL; at++)
        found += (at == line || classify_char(at[-1]) != classify_char(words[0])) &&
                 classify_char(at[n]) != classify_char(words[n - 1]);
    return found;
}

int sr1__programs_is_plain(const struct sr1__program *p, int32_t slot)
{
    char line[SENTENCE], words[WORDS];

    fill_template_slots(line, p, family_of(p)->lines[sr1__programs_line(p, slot) - 1],
                        code_slot);
    code_slot(words, p, slot);
    return count_word_occurrences(line, words) == 1;
}

/* ---- texts ---- */

void sr1__programs_append_task(struct sr1__buf *b, const struct sr1__program *p)
{
    char text[SENTENCE];

    fill_template_slots(text, p, family_of(p)->task, task_slot);
    sr1__buf_str(b, text);
}

void sr1__programs_append_code(struct sr1__buf *b, const struct sr1__program *p)
{
    char line[SENTENCE];

    sr1__buf_str(b, "```python\n");
    for (int32_t i = 0; family_of(p)->lines[i]; i++) {
        fill_template_slots(line, p, family_of(p)->lines[i], code_slot);
        sr1__buf_fmt(b, "%s\n", line);
    }
    sr1__buf_str(b, "```");
}

static void append_argument(struct sr1__buf *b, const struct sr1__programs_argument *a)
{
    if (a->n < 0) {
        sr1__buf_fmt(b, "%d", (int)a->v[0]);
        return;
    }
    sr1__buf_char(b, '[');
    for (int32_t i = 0; i < a->n; i++)
        sr1__buf_fmt(b, "%s%d", i ? ", " : "", (int)a->v[i]);
    sr1__buf_char(b, ']');
}

void sr1__programs_append_test(struct sr1__buf *b, const struct sr1__program *p,
                               const struct sr1__programs_test *t)
{
    sr1__buf_str(b, "assert f(");
    for (int32_t i = 0; i < family_of(p)->n_arguments; i++) {
        sr1__buf_str(b, i ? ", " : "");
        append_argument(b, &t->arguments[i]);
    }
    sr1__buf_fmt(b, ") == %lld", (long long)t->expected);
}

/* " plus is +" */
static void append_slot_comparison(struct sr1__buf *b, const struct sr1__program *task,
                                   const struct sr1__program *code, int32_t slot)
{
    char wanted[WORDS], found[WORDS];

    task_slot(wanted, task, slot);
    code_slot(found, code, slot);
    sr1__buf_fmt(b, " %s is %s", wanted, found);
}

static void append_advice(struct sr1__buf *b, const struct sr1__program *p,
                          struct sr1__programs_change c)
{
    struct sr1__program after = sr1__programs_with(p, c);
    char right[WORDS], wrong[WORDS];

    code_slot(right, &after, c.slot);
    code_slot(wrong, p, c.slot);
    append_slot_comparison(b, &after, p, c.slot);
    sr1__buf_fmt(b,
                 " wrong.\n"
                 "Improvement suggestions: in line %d write %s not %s.\n"
                 "Overall judgment: Incorrect",
                 (int)sr1__programs_line(p, c.slot), right, wrong);
}

void sr1__programs_append_critique(struct sr1__buf *b,
                                   const struct sr1__programs_critique *c)
{
    sr1__buf_str(b, "Analysis:");
    for (int32_t i = 0; i < c->compared; i++) {
        sr1__buf_str(b, i ? "," : "");
        append_slot_comparison(b, c->task, c->solution, i);
    }
    if (c->advice) {
        sr1__buf_str(b, c->compared ? "," : "");
        append_advice(b, c->solution, *c->advice);
    } else {
        sr1__buf_str(b, ".\nImprovement suggestions: none.\nOverall judgment: Correct");
    }
}

const char sr1__programs_prompt[] =
    "Problem: {{problem}}\nAnswer:\n{{answer}}\n{{hint}}End with the line \"Overall "
    "judgment: Correct\" or \"Overall judgment: Incorrect\".";

/* Without a hint. */
void sr1__programs_append_prompt(struct sr1__buf *b, const struct sr1__program *right,
                                 const struct sr1__program *solution)
{
    const char *at = sr1__programs_prompt, *mark;

    for (; (mark = strstr(at, "{{")) != NULL; at = strstr(mark, "}}") + 2) {
        sr1__buf_add(b, at, (size_t)(mark - at));
        if (mark[2] == 'p')
            sr1__programs_append_task(b, right);
        else if (mark[2] == 'a')
            sr1__programs_append_code(b, solution);
    }
    sr1__buf_str(b, at);
}

/* ---- words ---- */

static const char *const words[] = {
    "Write",    " f",        " that",     " gives",      " if",         " is",
    " else",    " adds",     " up",       " for",        " from",       " to",
    " below",   " counts",   " each",     " of",         " with",       " the",
    " largest", " smallest", " after",    " steps",      " plus",       " minus",
    " times",   " less",     " than",     " more",       " at",         " most",
    " least",   "```",       "python",    "def",         " return",     " range",
    " in",      "   ",       "       ",   "           ", ":\n",         "):\n",
    ")\n",      "]\n",       " =",        " +",          " +=",         " -",
    " *",       " <",        " >",        " <=",         " >=",         " (",
    "Analysis", " line",     " wrong",    ".\n",         "Improvement", " suggestions",
    " write",   " not",      "Overall",   " judgment",   " Correct",    " Incorrect",
    " none",    "Problem",   "Answer",    "End",         " \"",         "\".",
    "\n\n",     "Please",    " finalize", " your",       " answer",     " accordingly",
    " using",   " same",     " format",   "user",        "assistant"};

size_t sr1__programs_vocabulary(struct sr1__buf *b)
{
    size_t n = sizeof words / sizeof *words;

    for (size_t i = 0; i < n; i++) {
        sr1__buf_str(b, words[i]);
        sr1__buf_char(b, '\0');
    }
    for (size_t role = 0; role < sizeof role_words / sizeof *role_words; role++)
        for (size_t i = 0; i < 4 && role_words[role][i]; i++, n++) {
            sr1__buf_fmt(b, " %s", role_words[role][i]);
            sr1__buf_char(b, '\0');
        }
    return n;
}

void sr1__programs_append_words(struct sr1__buf *b, int32_t n, struct sr1__rng *rng)
{
    while (n > 0) {
        const char *word = words[sr1__rng_below(rng, sizeof words / sizeof *words)];

        if (word[0] != ' ' || word[1] == ' ')
            continue; /* it would become another token beside others */
        sr1__buf_str(b, word);
        n--;
    }
}
