/* environment/sandbox/output_judge.c - compare outputs as SandboxFusion's online judge
 * does:
 *
 *     strip both, split at "\n", as many lines, and each pair equal without case and
 *     without white space at its ends, or two numbers with
 *     |got - expected| / max(|expected|, 1e-10) < 1e-5
 *
 * Numbers are what Python's float() accepts, white space is what str.strip() removes. */
#include "environment/sandbox/verdict.h"

#include "base/num.h"
#include "base/str.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

#include <utf8proc.h>

#define TOLERANCE 1e-5
#define LEAST 1e-10
#define NUMBER_MAX 390 /* bytes; sr1__parse_real takes a few more */

static struct sr1__str strip_piece(struct sr1__str p)
{
    size_t begin = 0;
    size_t n = p.n;

    sr1__strip(p.s, &begin, &n);
    return (struct sr1__str){p.s + begin, n};
}

/* Take the next line off the front; 0 after the last. */
static int take_next_line(struct sr1__str *rest, struct sr1__str *line)
{
    const char *end;

    if (rest->s == NULL)
        return 0;
    end = rest->n > 0 ? memchr(rest->s, '\n', rest->n) : NULL;
    if (end == NULL) {
        *line = strip_piece(*rest);
        rest->s = NULL;
        return 1;
    }
    *line = strip_piece((struct sr1__str){rest->s, (size_t)(end - rest->s)});
    rest->n -= (size_t)(end + 1 - rest->s);
    rest->s = end + 1;
    return 1;
}

static int32_t next_lower(struct sr1__str *p)
{
    uint32_t cp;
    size_t took = sr1__char_next(p->s, p->n, &cp);

    p->s += took;
    p->n -= took;
    return (int32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

static int same_folded_text(struct sr1__str a, struct sr1__str b)
{
    if (a.n == b.n && memcmp(a.s, b.s, a.n) == 0)
        return 1;
    while (a.n > 0 && b.n > 0)
        if (next_lower(&a) != next_lower(&b))
            return 0;
    return a.n == 0 && b.n == 0;
}

static int is_ascii_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Copy the digits at the front, underscores between two of them left out. */
static int take_digits(struct sr1__str *p, char **to)
{
    int n = 0;

    while (p->n > 0) {
        if (is_ascii_digit(*p->s)) {
            *(*to)++ = *p->s;
            n++;
        } else if (*p->s != '_' || n == 0 || p->n < 2 || !is_ascii_digit(p->s[1])) {
            break;
        }
        p->s++;
        p->n--;
    }
    return n;
}

static int take_one(struct sr1__str *p, const char *of, char **to)
{
    if (p->n == 0 || strchr(of, *p->s) == NULL || *p->s == '\0')
        return 0;
    *(*to)++ = *p->s;
    p->s++;
    p->n--;
    return 1;
}

/* The line as a finite number: Python's grammar, rewritten into sr1__parse_real's. */
static int parse_python_float(struct sr1__str p, double *out)
{
    char text[NUMBER_MAX + 8];
    char *to = text;
    int digits;

    if (p.n > NUMBER_MAX)
        return 0;
    (void)take_one(&p, "+-", &to);
    digits = take_digits(&p, &to);
    if (digits == 0)
        *to++ = '0';
    if (take_one(&p, ".", &to)) {
        int more = take_digits(&p, &to);

        if (more == 0)
            *to++ = '0';
        digits += more;
    }
    if (digits == 0)
        return 0;
    if (take_one(&p, "eE", &to)) {
        (void)take_one(&p, "+-", &to);
        if (take_digits(&p, &to) == 0)
            return 0;
    }
    return p.n == 0 && sr1__parse_real(text, (size_t)(to - text), out);
}

static int same_number(struct sr1__str expected, struct sr1__str got)
{
    double e, g;

    return parse_python_float(expected, &e) && parse_python_float(got, &g) &&
           fabs(g - e) / fmax(fabs(e), LEAST) < TOLERANCE;
}

int sr1__compare_outputs(const char *expected, size_t n_expected, const char *got,
                         size_t n_got)
{
    struct sr1__str e = strip_piece((struct sr1__str){expected, n_expected});
    struct sr1__str g = strip_piece((struct sr1__str){got, n_got});
    struct sr1__str e_line, g_line;

    for (;;) {
        int e_more = take_next_line(&e, &e_line);
        int g_more = take_next_line(&g, &g_line);

        if (!e_more || !g_more)
            return e_more == g_more;
        if (!same_folded_text(e_line, g_line) && !same_number(e_line, g_line))
            return 0;
    }
}

int32_t sr1_judge_output(const char *expected, const char *got)
{
    expected = expected != NULL ? expected : "";
    got = got != NULL ? got : "";
    return sr1__compare_outputs(expected, strlen(expected), got, strlen(got));
}
