/* signal/reward/math_scores.c - mathematical answers, compared as texts, with the rules
 * of verl's scorers (verl 0.9, verl/utils/reward_score):
 *
 *     gsm8k        the number behind the last "#### ", without commas
 *     math_reward  the last \boxed{...}, both sides rewritten as for MATH (Hendrycks et
 *                  al. 2021)
 *     math_dapo    what follows the last "Answer:", both sides rewritten as for Minerva
 *                  (Lewkowycz et al. 2022); without one the last \boxed{...} as it stands
 *
 * There is no algebra: texts are equal after rewriting, or they are not. Characters and
 * white space are those of Python's str. */
#include "signal/reward/math_scores.h"

#include "base/text.h"
#include "base/utf8.h"
#include "signal/reward/chars.h"
#include "text/data/boxed.h"

#include <searchr1/ext/text_metrics.h>

#include <string.h>

/* ---- a text that is rewritten pass by pass ---- */

struct rewriting {
    struct sr1__buf text;
    struct sr1__buf next; /* what the pass under way has written */
    int unreadable;       /* a rule found no operand */
};

struct replacement {
    const char *from, *to;
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static sr1_status begin_rewriting(struct rewriting *w, struct sr1__str text)
{
    *w = (struct rewriting){0};
    sr1__buf_init(&w->text, 0);
    sr1__buf_init(&w->next, 0);
    sr1__buf_add(&w->text, text.s, text.n);
    return sr1__buf_status(&w->text, "an answer");
}

static void free_rewriting(struct rewriting *w)
{
    sr1__buf_free(&w->text);
    sr1__buf_free(&w->next);
}

static struct sr1__str view_buf(const struct sr1__buf *b)
{
    return (struct sr1__str){sr1__buf_cstr(b), b->len};
}

/* What the pass has written is the text from here on. */
static sr1_status end_pass(struct rewriting *w)
{
    struct sr1__buf before = w->text;

    SR1__TRY(sr1__buf_status(&w->next, "an answer"));
    w->text = w->next;
    w->next = before;
    sr1__buf_clear(&w->next);
    return SR1_OK;
}

/* Leave only a part of the text. */
static sr1_status keep_part(struct rewriting *w, struct sr1__str part)
{
    sr1__buf_add(&w->next, part.s, part.n);
    return end_pass(w);
}

static struct sr1__str rest_of(struct sr1__str text, const char *from)
{
    return (struct sr1__str){from, (size_t)(text.s + text.n - from)};
}

static const char *find_piece(struct sr1__str text, const char *wanted)
{
    return memmem(text.s, text.n, wanted, strlen(wanted));
}

static size_t count_pieces(struct sr1__str text, const char *wanted)
{
    const char *hit;
    size_t count = 0;

    for (; (hit = find_piece(text, wanted)); count++)
        text = rest_of(text, hit + strlen(wanted));
    return count;
}

static sr1_status replace_piece(struct rewriting *w, const char *from, const char *to)
{
    struct sr1__str rest = view_buf(&w->text);
    const char *hit = find_piece(rest, from);

    if (!hit)
        return SR1_OK;
    for (; hit; hit = find_piece(rest, from)) {
        sr1__buf_add(&w->next, rest.s, (size_t)(hit - rest.s));
        sr1__buf_str(&w->next, to);
        rest = rest_of(rest, hit + strlen(from));
    }
    return keep_part(w, rest);
}

static sr1_status replace_pieces(struct rewriting *w, const struct replacement *table,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(replace_piece(w, table[i].from, table[i].to));
    return SR1_OK;
}

/* Take the next character off *text, which is not empty. */
static struct sr1__str cut_character(struct sr1__str *text)
{
    uint32_t cp;
    struct sr1__str one = {text->s, sr1__char_next(text->s, text->n, &cp)};

    *text = rest_of(*text, one.s + one.n);
    return one;
}

static void add_braced(struct sr1__buf *b, struct sr1__str text)
{
    sr1__buf_char(b, '{');
    sr1__buf_add(b, text.s, text.n);
    sr1__buf_char(b, '}');
}

/* The last n characters. */
static struct sr1__str last_chars(struct sr1__str text, size_t n)
{
    const char *at = text.s + text.n;

    while (at > text.s && n > 0)
        n -= (*--at & 0xc0) != 0x80;
    return rest_of(text, at);
}

/* Rewrites one side of a comparison. */
typedef sr1_status (*rewrite_fn)(struct rewriting *w);

/* *equal: as rewritten, or, where a side is unreadable, as they are. */
static sr1_status compare_rewritten(rewrite_fn rewrite, struct sr1__str a,
                                    struct sr1__str b, int *equal)
{
    struct rewriting left = {0}, right = {0};
    sr1_status status = begin_rewriting(&left, a);

    if (status == SR1_OK)
        status = begin_rewriting(&right, b);
    if (status == SR1_OK)
        status = rewrite(&left);
    if (status == SR1_OK)
        status = rewrite(&right);
    *equal = left.unreadable || right.unreadable
                 ? sr1__str_equal(a, b)
                 : sr1__str_equal(view_buf(&left.text), view_buf(&right.text));
    free_rewriting(&left);
    free_rewriting(&right);
    return status;
}

/* Append text as it is compared. */
static sr1_status add_rewritten(rewrite_fn rewrite, struct sr1__str text,
                                struct sr1__buf *out)
{
    struct rewriting w = {0};
    sr1_status status = begin_rewriting(&w, text);

    if (status == SR1_OK)
        status = rewrite(&w);
    if (status == SR1_OK && !w.unreadable)
        text = view_buf(&w.text);
    if (status == SR1_OK)
        sr1__buf_add(out, text.s, text.n);
    free_rewriting(&w);
    return status;
}

/* ---- gsm8k ---- */

/* How far an answer may be from the end of a solution, in characters. */
#define TAIL 300

/* -?[0-9.,]+ at the beginning of text; its length, 0: there is none. */
static size_t measure_number(struct sr1__str text)
{
    size_t sign = text.n > 0 && text.s[0] == '-', n = sign;

    while (n < text.n && text.s[n] && strchr("0123456789.,", text.s[n]))
        n++;
    return n > sign ? n : 0;
}

static struct sr1__str find_marked_number(struct sr1__str text)
{
    static const char mark[] = "#### ";
    struct sr1__str found = {NULL, 0};
    const char *hit;

    while ((hit = find_piece(text, mark))) {
        size_t n;

        text = rest_of(text, hit + strlen(mark));
        n = measure_number(text);
        if (n > 0)
            found = (struct sr1__str){text.s, n};
    }
    return found;
}

/* Commas of the ground truth are those of a published row, which verl's script for GSM8K
 * removes. */
static sr1_status compare_gsm8k(struct sr1__str solution, struct sr1__str truth,
                                int *equal)
{
    struct sr1__str number = find_marked_number(last_chars(solution, TAIL));
    size_t i = 0, k = 0;

    *equal = 0;
    while (number.s) {
        while (i < number.n && number.s[i] == ',')
            i++;
        while (k < truth.n && truth.s[k] == ',')
            k++;
        if (i == number.n || k == truth.n || number.s[i] != truth.s[k])
            break;
        i++;
        k++;
    }
    *equal = number.s && i == number.n && k == truth.n;
    return SR1_OK;
}

static sr1_status extract_gsm8k(struct sr1__str solution, struct sr1__buf *out)
{
    struct sr1__str number = find_marked_number(last_chars(solution, TAIL));

    for (size_t i = 0; i < number.n; i++)
        if (number.s[i] != ',')
            sr1__buf_char(out, number.s[i]);
    return SR1_OK;
}

/* ---- math_reward ---- */

static const struct replacement math_notation[] = {
    {"\n", ""},        {"\\!", ""},    {"\\\\", "\\"},  {"tfrac", "frac"},
    {"dfrac", "frac"}, {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""},
    {"^\\circ", ""},   {"\\$", ""},
};

static const struct replacement math_numbers[] = {
    {"\\\\%", ""}, {"\\%", ""}, {" .", " 0."}, {"{.", "{0."}};

/* A unit begins with a space. */
static sr1_status cut_unit(struct rewriting *w)
{
    static const char unit[] = "\\text{ ";
    struct sr1__str text = view_buf(&w->text);
    size_t n = count_pieces(text, unit);

    w->unreadable |= n > 1;
    if (n == 1)
        text.n = (size_t)(find_piece(text, unit) - text.s);
    return n == 1 ? keep_part(w, text) : SR1_OK;
}

static sr1_status lead_with_zero(struct rewriting *w)
{
    struct sr1__str text = view_buf(&w->text);

    if (text.n == 0 || text.s[0] != '.')
        return SR1_OK;
    sr1__buf_char(&w->next, '0');
    return keep_part(w, text);
}

/* "x=5" is 5, if the left side has at most two characters. */
static sr1_status drop_left_side(struct rewriting *w)
{
    struct sr1__str text = view_buf(&w->text);
    const char *sign = find_piece(text, "=");

    if (count_pieces(text, "=") != 1 ||
        sr1__utf8_count(text.s, (size_t)(sign - text.s)) > 2)
        return SR1_OK;
    return keep_part(w, rest_of(text, sign + 1));
}

/* \sqrt3 is \sqrt{3}. Unreadable: nothing stands before the next root, or the end. */
static sr1_status brace_roots(struct rewriting *w)
{
    static const char root[] = "\\sqrt";
    struct sr1__str rest = view_buf(&w->text);
    const char *hit;

    while (!w->unreadable && (hit = find_piece(rest, root))) {
        hit += strlen(root);
        sr1__buf_add(&w->next, rest.s, (size_t)(hit - rest.s));
        rest = rest_of(rest, hit);
        w->unreadable = rest.n == 0 || sr1__str_starts_with(rest, root);
        if (!w->unreadable && rest.s[0] != '{')
            add_braced(&w->next, cut_character(&rest));
    }
    return keep_part(w, rest);
}

/* \frac12 is \frac{1}{2}, \frac1{72} is \frac{1}{72}. All stays as it is where one
 * fraction has one character only. */
static sr1_status brace_fractions(struct rewriting *w)
{
    static const char fraction[] = "\\frac";
    struct sr1__str rest = view_buf(&w->text);
    const char *hit = find_piece(rest, fraction), *next;

    for (; hit; hit = next) {
        struct sr1__str part, first;

        hit += strlen(fraction);
        sr1__buf_add(&w->next, rest.s, (size_t)(hit - rest.s));
        rest = rest_of(rest, hit);
        next = find_piece(rest, fraction);
        part = (struct sr1__str){rest.s, next ? (size_t)(next - rest.s) : rest.n};
        w->unreadable |= part.n == 0;
        if (w->unreadable || part.s[0] == '{')
            continue;
        first = cut_character(&part);
        if (part.n == 0) {
            sr1__buf_clear(&w->next);
            return SR1_OK;
        }
        add_braced(&w->next, first);
        if (part.s[0] != '{')
            add_braced(&w->next, cut_character(&part));
        rest = rest_of(rest, part.s);
    }
    return keep_part(w, rest);
}

/* As Python prints an int: no zeros before it, no plus, and no more digits than it
 * reads. */
static int is_printed_integer(struct sr1__str text)
{
    size_t digits;

    if (sr1__str_is(text, "0"))
        return 1;
    if (text.n > 0 && text.s[0] == '-')
        text = rest_of(text, text.s + 1);
    for (digits = 0; digits < text.n; digits++)
        if (text.s[digits] < '0' || text.s[digits] > '9')
            return 0;
    return digits > 0 && digits <= 4300 && text.s[0] != '0';
}

static sr1_status write_fraction(struct rewriting *w, struct sr1__str over,
                                 struct sr1__str under)
{
    sr1__buf_str(&w->next, "\\frac");
    add_braced(&w->next, over);
    add_braced(&w->next, under);
    return end_pass(w);
}

/* a/b is \frac{a}{b}, for integers; 0.5 is \frac{1}{2}. */
static sr1_status write_slash_as_fraction(struct rewriting *w)
{
    struct sr1__str text = view_buf(&w->text), over = text, under;
    const char *slash = find_piece(text, "/");

    if (sr1__str_is(text, "0.5"))
        return write_fraction(w, sr1__str_of("1"), sr1__str_of("2"));
    if (!slash)
        return SR1_OK;
    over.n = (size_t)(slash - text.s);
    under = rest_of(text, slash + 1);
    return is_printed_integer(over) && is_printed_integer(under)
               ? write_fraction(w, over, under)
               : SR1_OK;
}

static sr1_status rewrite_math(struct rewriting *w)
{
    SR1__TRY(replace_pieces(w, math_notation, COUNT(math_notation)));
    SR1__TRY(cut_unit(w));
    SR1__TRY(replace_pieces(w, math_numbers, COUNT(math_numbers)));
    SR1__TRY(lead_with_zero(w));
    SR1__TRY(drop_left_side(w));
    SR1__TRY(brace_roots(w));
    SR1__TRY(replace_piece(w, " ", ""));
    SR1__TRY(brace_fractions(w));
    return write_slash_as_fraction(w);
}

static sr1_status compare_math_reward(struct sr1__str solution, struct sr1__str truth,
                                      int *equal)
{
    struct sr1__str answer;

    *equal = 0;
    return sr1__boxed(solution, &answer)
               ? compare_rewritten(rewrite_math, answer, truth, equal)
               : SR1_OK;
}

static sr1_status extract_math_reward(struct sr1__str solution, struct sr1__buf *out)
{
    struct sr1__str answer;

    return sr1__boxed(solution, &answer) ? add_rewritten(rewrite_math, answer, out)
                                         : SR1_OK;
}

/* ---- math_dapo ---- */

static const struct replacement minerva_notation[] = {
    {"an ", ""},
    {"a ", ""},
    {".$", "$"},
    {"\\$", ""},
    {"\\ ", ""},
    {" ", ""},
    {"mbox", "text"},
    {",\\text{and}", ","},
    {"\\text{and}", ","},
    {"\\text{m}", "\\text{}"},
    {"square", ""},
    {"ways", ""},
    {"integers", ""},
    {"dollars", ""},
    {"mph", ""},
    {"inches", ""},
    {"hours", ""},
    {"km", ""},
    {"units", ""},
    {"\\ldots", ""},
    {"sue", ""},
    {"points", ""},
    {"feet", ""},
    {"minutes", ""},
    {"digits", ""},
    {"cents", ""},
    {"degrees", ""},
    {"cm", ""},
    {"gm", ""},
    {"pounds", ""},
    {"meters", ""},
    {"meals", ""},
    {"edges", ""},
    {"students", ""},
    {"childrentickets", ""},
    {"multiples", ""},
    {"\\text{s}", ""},
    {"\\text{.}", ""},
    {"\\text{\ns}", ""},
    {"\\text{}^2", ""},
    {"\\text{}^3", ""},
    {"\\text{\n}", ""},
    {"\\text{}", ""},
    {"\\mathrm{th}", ""},
    {"^\\circ", ""},
    {"^{\\circ}", ""},
    {"\\;", ""},
    {",\\!", ""},
    {"{,}", ""},
    {"\"", ""},
    {"\\dots", ""},
};

/* The line that text begins with, without its end. */
static struct sr1__str first_line(struct sr1__str text)
{
    const char *end = memchr(text.s, '\n', text.n);

    text.n = end ? (size_t)(end - text.s) : text.n;
    return text;
}

/* Of each line with a formula between dollars the first formula alone. */
static sr1_status keep_formulas(struct rewriting *w)
{
    struct sr1__str rest = view_buf(&w->text);

    while (rest.n > 0) {
        struct sr1__str line = first_line(rest), kept = line;
        const char *begin = memchr(line.s, '$', line.n), *end = NULL;

        if (begin)
            end = memchr(begin + 1, '$', (size_t)(line.s + line.n - begin) - 1);
        if (end)
            kept = (struct sr1__str){begin, (size_t)(end + 1 - begin)};
        sr1__buf_add(&w->next, kept.s, kept.n);
        rest = rest_of(rest, line.s + line.n);
        if (rest.n > 0)
            sr1__buf_add(&w->next, cut_character(&rest).s, 1);
    }
    return end_pass(w);
}

/* The first closing brace before the line ends, or the last one. */
static const char *find_brace_in_line(struct sr1__str text, int last)
{
    const char *found = NULL, *end = text.s + text.n;

    for (const char *at = text.s; at < end && *at != '\n' && (last || !found); at++)
        found = *at == '}' ? at : found;
    return found;
}

/* Remove the command that opens a brace, and the first closing brace in its line, or the
 * last one. Where a line has none behind the command, what follows there has none. */
static sr1_status unwrap_command(struct rewriting *w, const char *command, int to_last)
{
    struct sr1__str rest = view_buf(&w->text);
    const char *hit;

    while ((hit = find_piece(rest, command))) {
        const char *inside = hit + strlen(command);
        const char *close = find_brace_in_line(rest_of(rest, inside), to_last);
        struct sr1__str kept = close ? (struct sr1__str){inside, (size_t)(close - inside)}
                                     : first_line(rest_of(rest, hit));

        sr1__buf_add(&w->next, rest.s, (size_t)(hit - rest.s));
        sr1__buf_add(&w->next, kept.s, kept.n);
        rest = rest_of(rest, close ? close + 1 : kept.s + kept.n);
    }
    return keep_part(w, rest);
}

/* Put braces around the character behind each `name`, which is no brace, and, of two,
 * around the next one too, which does not end the line. */
static sr1_status brace_operands(struct rewriting *w, const char *name, int two)
{
    struct sr1__str rest = view_buf(&w->text);
    const char *hit;

    while ((hit = find_piece(rest, name))) {
        struct sr1__str first, second;

        hit += strlen(name);
        sr1__buf_add(&w->next, rest.s, (size_t)(hit - rest.s));
        rest = rest_of(rest, hit);
        second = rest;
        if (rest.n == 0 || rest.s[0] == '{')
            continue;
        first = cut_character(&second);
        if (two && (second.n == 0 || second.s[0] == '\n'))
            continue;
        rest = second;
        add_braced(&w->next, first);
        if (two)
            add_braced(&w->next, cut_character(&rest));
    }
    return keep_part(w, rest);
}

/* Commas between digits only. */
static sr1_status drop_commas(struct rewriting *w)
{
    struct sr1__str rest = view_buf(&w->text);
    size_t digits = 0;

    while (rest.n > 0) {
        uint32_t cp;

        (void)sr1__char_next(rest.s, rest.n, &cp);
        if (cp != ',' && !sr1__is_digit(cp))
            return SR1_OK;
        digits += cp != ',';
        (void)cut_character(&rest);
    }
    return digits > 0 ? replace_piece(w, ",", "") : SR1_OK;
}

static sr1_status strip_rewritten(struct rewriting *w)
{
    struct sr1__str text = view_buf(&w->text);
    size_t begin = 0;

    sr1__strip(text.s, &begin, &text.n);
    text.s += begin;
    return keep_part(w, text);
}

static sr1_status drop_left_sides(struct rewriting *w)
{
    struct sr1__str text = view_buf(&w->text);
    const char *sign = memrchr(text.s, '=', text.n);

    return sign ? keep_part(w, rest_of(text, sign + 1)) : SR1_OK;
}

static sr1_status rewrite_minerva(struct rewriting *w)
{
    SR1__TRY(drop_left_sides(w));
    SR1__TRY(replace_pieces(w, minerva_notation, COUNT(minerva_notation)));
    SR1__TRY(keep_formulas(w));
    SR1__TRY(unwrap_command(w, "\\text{", 0));
    SR1__TRY(unwrap_command(w, "\\textbf{", 0));
    SR1__TRY(unwrap_command(w, "\\overline{", 0));
    SR1__TRY(unwrap_command(w, "\\boxed{", 1));
    SR1__TRY(brace_operands(w, "frac", 1));
    SR1__TRY(brace_operands(w, "sqrt", 0));
    SR1__TRY(replace_piece(w, "$", ""));
    SR1__TRY(drop_commas(w));
    return strip_rewritten(w);
}

static struct sr1__str skip_white_space(struct sr1__str text)
{
    uint32_t cp;

    while (text.n > 0) {
        size_t n = sr1__char_next(text.s, text.n, &cp);

        if (!sr1__is_space(cp))
            break;
        text = rest_of(text, text.s + n);
    }
    return text;
}

/* "answer" in any case at the beginning of *text, which is taken off; as Python folds
 * case, U+017F is an s. 0: it is not there. */
static int take_word_answer(struct sr1__str *text)
{
    for (const char *letter = "answer"; *letter; letter++) {
        uint32_t cp = 0;
        size_t n = text->n > 0 ? sr1__char_next(text->s, text->n, &cp) : 0;

        cp = cp == 0x17f ? 's' : cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        if (cp != (uint32_t)*letter)
            return 0;
        *text = rest_of(*text, text->s + n);
    }
    return 1;
}

/* The last character of a text of white space that ends no line; with n 0, if there is
 * none. */
static struct sr1__str find_last_blank(struct sr1__str text)
{
    struct sr1__str found = {text.s, 0};

    while (text.n > 0) {
        struct sr1__str one = cut_character(&text);

        if (*one.s != '\n')
            found = one;
    }
    return found;
}

/* (?i)Answer\s*:\s*([^\n]+) at the beginning of text; *line is the group. */
static int match_answer_line(struct sr1__str text, struct sr1__str *line)
{
    struct sr1__str behind;

    if (!take_word_answer(&text))
        return 0;
    text = skip_white_space(text);
    if (text.n == 0 || text.s[0] != ':')
        return 0;
    text = rest_of(text, text.s + 1);
    behind = skip_white_space(text);
    *line = behind.n > 0 ? first_line(behind) : find_last_blank(text);
    return line->n > 0;
}

/* The last one of those that do not overlap; 0: there is none. */
static int find_answer_line(struct sr1__str text, struct sr1__str *line)
{
    struct sr1__str found;
    int any = 0;

    while (text.n > 0) {
        if (match_answer_line(text, &found)) {
            text = rest_of(text, found.s + found.n);
            *line = found;
            any = 1;
        } else {
            (void)cut_character(&text);
        }
    }
    return any;
}

/* What stands for an answer where there is none; one of these words is none, either. */
#define NO_ANSWER "[INVALID]"

/* Where a solution has its answer: *line; or, if that is none, the last \boxed{...} near
 * the end, as it stands, in *box, whose s is NULL where there is none, either. */
static sr1_status find_dapo_answer(struct sr1__str solution, struct sr1__str *line,
                                   struct sr1__str *box, int *is_none)
{
    *line = sr1__str_of(NO_ANSWER);
    *box = (struct sr1__str){NULL, 0};
    solution = last_chars(solution, TAIL);
    (void)find_answer_line(solution, line);
    SR1__TRY(compare_rewritten(rewrite_minerva, *line, sr1__str_of(NO_ANSWER), is_none));
    if (*is_none && !sr1__boxed_in_braces(last_chars(solution, 100), box))
        box->s = NULL;
    return SR1_OK;
}

static sr1_status compare_math_dapo(struct sr1__str solution, struct sr1__str truth,
                                    int *equal)
{
    struct sr1__str line, box;
    int is_none;

    SR1__TRY(find_dapo_answer(solution, &line, &box, &is_none));
    if (!box.s)
        return compare_rewritten(rewrite_minerva, line, truth, equal);
    *equal = sr1__str_equal(box, truth);
    return SR1_OK;
}

static sr1_status extract_math_dapo(struct sr1__str solution, struct sr1__buf *out)
{
    struct sr1__str line, box;
    int is_none;

    SR1__TRY(find_dapo_answer(solution, &line, &box, &is_none));
    if (!is_none)
        return add_rewritten(rewrite_minerva, line, out);
    if (box.s)
        sr1__buf_add(out, box.s, box.n);
    return SR1_OK;
}

/* ---- scores ---- */

typedef sr1_status (*compare_fn)(struct sr1__str solution, struct sr1__str truth,
                                 int *equal);

/* Both as UTF-8. */
static sr1_status compare_solution(compare_fn compare, struct sr1__str solution,
                                   struct sr1__str truth, int *equal)
{
    struct sr1__buf a, b;
    sr1_status status;

    sr1__buf_init(&a, 0);
    sr1__buf_init(&b, 0);
    sr1__buf_utf8(&a, solution.s, solution.n);
    sr1__buf_utf8(&b, truth.s, truth.n);
    status = sr1__buf_status(&a, "a solution");
    if (status == SR1_OK)
        status = sr1__buf_status(&b, "an answer");
    if (status == SR1_OK)
        status = compare(view_buf(&a), view_buf(&b), equal);
    sr1__buf_free(&a);
    sr1__buf_free(&b);
    return status;
}

sr1_status sr1__match_gsm8k(struct sr1__str solution, struct sr1__str truth,
                            const void *arg, double *out)
{
    int equal;

    (void)arg;
    SR1__TRY(compare_solution(compare_gsm8k, solution, truth, &equal));
    *out = equal;
    return SR1_OK;
}

sr1_status sr1__match_math_reward(struct sr1__str solution, struct sr1__str truth,
                                  const void *arg, double *out)
{
    int equal;

    (void)arg;
    SR1__TRY(compare_solution(compare_math_reward, solution, truth, &equal));
    *out = equal;
    return SR1_OK;
}

sr1_status sr1__match_math_dapo(struct sr1__str solution, struct sr1__str truth,
                                const void *arg, double *out)
{
    int equal;

    (void)arg;
    SR1__TRY(compare_solution(compare_math_dapo, solution, truth, &equal));
    *out = equal ? 1 : -1;
    return SR1_OK;
}

/* ---- answers ---- */

static sr1_status extract_solution(sr1__extract_fn extract, struct sr1__str solution,
                                   struct sr1__buf *out)
{
    struct sr1__buf text;
    sr1_status status;

    sr1__buf_init(&text, 0);
    sr1__buf_utf8(&text, solution.s, solution.n);
    status = sr1__buf_status(&text, "a solution");
    if (status == SR1_OK)
        status = extract(view_buf(&text), out);
    sr1__buf_free(&text);
    return status == SR1_OK ? sr1__buf_status(out, "an answer") : status;
}

sr1_status sr1__extract_gsm8k(struct sr1__str solution, struct sr1__buf *out)
{
    return extract_solution(extract_gsm8k, solution, out);
}

sr1_status sr1__extract_math_reward(struct sr1__str solution, struct sr1__buf *out)
{
    return extract_solution(extract_math_reward, solution, out);
}

sr1_status sr1__extract_math_dapo(struct sr1__str solution, struct sr1__buf *out)
{
    return extract_solution(extract_math_dapo, solution, out);
}

/* ---- public ---- */

static sr1_status score_solution(sr1__score_fn score, const char *solution, size_t len,
                                 const char *const *truths, size_t n_truths, double *out)
{
    struct sr1__ground_truths t = {NULL, truths, n_truths};
    struct sr1__str text = {solution ? solution : "", len};

    SR1__TRY(sr1__check_score_arguments(solution, len, &t, out));
    return sr1__best_score(score, text, &t, NULL, out);
}

sr1_status sr1_reward_gsm8k(const char *solution, size_t len, const char *const *truths,
                            size_t n_truths, double *out)
{
    return score_solution(sr1__match_gsm8k, solution, len, truths, n_truths, out);
}

sr1_status sr1_reward_math_reward(const char *solution, size_t len,
                                  const char *const *truths, size_t n_truths, double *out)
{
    return score_solution(sr1__match_math_reward, solution, len, truths, n_truths, out);
}

sr1_status sr1_reward_math_dapo(const char *solution, size_t len,
                                const char *const *truths, size_t n_truths, double *out)
{
    return score_solution(sr1__match_math_dapo, solution, len, truths, n_truths, out);
}
