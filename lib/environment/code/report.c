/* environment/code/report.c - write the input of the scripts that run tests and read
 * their report, which begins with a number that the answer does not know. */
#include "environment/code/report.h"

#include "base/num.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#define LETTERS "PWRMTI"

sr1_status sr1__make_nonce(char out[SR1__NONCE + 1])
{
    unsigned char bytes[SR1__NONCE / 2];

    if (getentropy(bytes, sizeof(bytes)) != 0)
        return sr1__fail_errno("read", "random numbers of the system");
    for (size_t i = 0; i < sizeof(bytes); i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[SR1__NONCE] = '\0';
    return SR1_OK;
}

/* ---- what a script is given ---- */

static void write_sized_text(struct sr1__buf *b, const char *s, size_t n)
{
    sr1__buf_fmt(b, "%zu\n", n);
    sr1__buf_add(b, s, n);
}

static void add_string(struct sr1__buf *b, const char *s)
{
    write_sized_text(b, s != NULL ? s : "", s != NULL ? strlen(s) : 0);
}

sr1_status sr1__write_tests(struct sr1__buf *b, const struct sr1_check *c,
                            const struct sr1__check_limits *l, const char *nonce)
{
    const sr1_problem *p = c->problem;
    char limit[32];

    sr1__format_real(sr1__check_time(l, p), limit);
    sr1__buf_fmt(b, "%s %s %s %d %s %zu %s %" PRId64 "\n", nonce,
                 l->all_or_nothing ? "all" : "each",
                 p->style == SR1_CODE_CALL ? "call" : "assert", (int)p->unwrap, limit,
                 p->n_tests, l->inside_allowed ? "any" : "outside", l->value_bytes);
    add_string(b, p->prelude);
    write_sized_text(b, c->code, c->code_len);
    add_string(b, p->setup);
    add_string(b, p->entry);
    for (size_t i = 0; i < p->n_tests; i++) {
        write_sized_text(b, p->tests[i].input, p->tests[i].input_len);
        write_sized_text(b, p->tests[i].expected, p->tests[i].expected_len);
    }
    return sr1__buf_status(b, "input of a program");
}

/* ---- what it reports ---- */

/* A number before one of these characters; moves behind that. */
static int read_size(const char **s, const char *end, char stop, size_t *out)
{
    *out = 0;
    for (; *s < end && **s >= '0' && **s <= '9' && *out < 100000; ++*s)
        *out = 10 * *out + (size_t)(**s - '0');
    if (*s == end || **s != stop)
        return 0;
    ++*s;
    return 1;
}

static void read_trailer(struct sr1__report *r, const char *s, const char *end,
                         const char *nonce)
{
    char last;

    if ((size_t)(end - s) < SR1__NONCE + 2 || memcmp(s, nonce, SR1__NONCE) != 0)
        return;
    s += SR1__NONCE;
    last = *s++;
    if (*s++ != ' ' || !read_size(&s, end, ' ', &r->n_got) ||
        !read_size(&s, end, '\n', &r->n_error) ||
        (size_t)(end - s) != r->n_got + r->n_error)
        return;
    r->last = last;
    r->got = s;
    r->error = s + r->n_got;
}

/* Parse the report up to the first byte that the scripts cannot have written. */
struct sr1__report sr1__read_report(const char *s, size_t n, const char *nonce,
                                    size_t tests)
{
    const char *end = s + n;
    struct sr1__report r = {.letters = s};

    while (r.n < tests && (size_t)(end - s) > SR1__NONCE &&
           memcmp(s, nonce, SR1__NONCE) == 0 &&
           memchr(LETTERS, s[SR1__NONCE], sizeof(LETTERS) - 1) != NULL) {
        s += SR1__NONCE + 1;
        r.n++;
    }
    if (s < end && *s == '\n')
        read_trailer(&r, s + 1, end, nonce);
    return r;
}

char sr1__read_loss(const char *s, size_t n, const char *nonce, int *cause)
{
    const size_t len = SR1__NONCE + 4; /* nonce, letter, three digits */

    *cause = 0;
    if (n < len || memcmp(s + n - len, nonce, SR1__NONCE) != 0)
        return 0;
    s += n - 4;
    if (*s != SR1__REPORT_DIED && *s != SR1__REPORT_NO_FORK)
        return 0;
    for (int i = 1; i <= 3; i++)
        *cause = 10 * *cause + (s[i] - '0');
    return *s;
}

static int32_t verdict_of_letter(char letter)
{
    switch (letter) {
    case 'P':
        return SR1_RUN_PASSED;
    case 'W':
        return SR1_RUN_WRONG;
    case 'M':
        return SR1_RUN_MEMORY;
    case 'T':
        return SR1_RUN_TIMEOUT;
    default:
        return SR1_RUN_RUNTIME_ERROR;
    }
}

/* Of a test during which the program ended. The driver's own alarm is a matter of time.
 */
static int32_t verdict_of_end(const sr1_execution_result *result)
{
    if (result->verdict == SR1_RUN_PASSED || result->verdict == SR1_RUN_WRONG)
        return SR1_RUN_RUNTIME_ERROR;
    if (result->verdict == SR1_RUN_RUNTIME_ERROR &&
        (result->signal == SIGALRM || result->exit_code == 128 + SIGALRM))
        return SR1_RUN_TIMEOUT;
    return result->verdict;
}

static void explain_end(struct sr1__check_outcome *o, const sr1_execution_result *result)
{
    size_t n = result->err_bytes < 4096 ? result->err_bytes : 4096;

    if (result->verdict == SR1_RUN_PASSED)
        sr1__buf_str(&o->error, "it ended before its tests did");
    else if (result->verdict == SR1_RUN_RUNTIME_ERROR && n > 0)
        sr1__buf_utf8(&o->error, result->err + result->err_bytes - n, n);
    else
        sr1__buf_str(&o->error, result->message);
}

void sr1__take_report(struct sr1__check_outcome *o, const struct sr1__report *r,
                      int32_t all_or_nothing, const sr1_execution_result *result)
{
    size_t n = r->n;

    for (size_t i = 0; i < n; i++)
        o->verdicts[i] = (unsigned char)verdict_of_letter(
            r->letters[i * (SR1__NONCE + 1) + SR1__NONCE]);
    if (r->last != 0 && r->last != 'P' && r->last != SR1__REPORT_ENDED) {
        if (n < o->n)
            o->verdicts[n] = (unsigned char)verdict_of_letter(r->last);
        if (!all_or_nothing)
            sr1__check_outcome_rest(o, n, verdict_of_letter(r->last));
        sr1__buf_utf8(&o->got, r->got, r->n_got);
        sr1__buf_utf8(&o->error, r->error, r->n_error);
        return;
    }
    if (r->last == 'P' && n == o->n && result->verdict == SR1_RUN_PASSED)
        return;
    /* it ended in the middle; or after its tests, but not well */
    n = n < o->n ? n : o->n - 1;
    o->verdicts[n] = (unsigned char)verdict_of_end(result);
    if (!all_or_nothing)
        sr1__check_outcome_rest(o, n + 1, verdict_of_end(result));
    explain_end(o, result);
}
