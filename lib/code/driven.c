/* code/driven.c - tests that are statements or calls: one program, driver.py, runs the
 * answer and all of them, and reports behind a number that the answer is not told. */
#include "code/check.h"

#include "base/mem.h"
#include "base/num.h"
#include "code/scripts.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#define NONCE 32
#define TEXTS_MAX ((int64_t)1 << 14) /* of a report, besides its words on each test */

static sr1_status make_nonce(char out[NONCE + 1])
{
    unsigned char bytes[NONCE / 2];

    if (getentropy(bytes, sizeof(bytes)) != 0)
        return sr1__fail_errno("read", "random numbers of the system");
    for (size_t i = 0; i < sizeof(bytes); i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[NONCE] = '\0';
    return SR1_OK;
}

/* ---- what the driver is given ---- */

static void add_text(struct sr1__buf *b, const char *s, size_t n)
{
    sr1__buf_fmt(b, "%zu\n", n);
    sr1__buf_add(b, s, n);
}

static void add_string(struct sr1__buf *b, const char *s)
{
    add_text(b, s != NULL ? s : "", s != NULL ? strlen(s) : 0);
}

static sr1_status write_input(struct sr1__buf *b, const struct sr1_check *c,
                              const struct sr1__check_limits *l, const char *nonce)
{
    const sr1_problem *p = c->problem;
    char limit[32];

    sr1__format_real(sr1__check_time(l, p), limit);
    sr1__buf_fmt(b, "%s %s %s %d %s %zu\n", nonce, l->all_or_nothing ? "all" : "each",
                 p->style == SR1_CODE_CALL ? "call" : "assert", (int)p->unwrap, limit,
                 p->n_tests);
    add_string(b, p->prelude);
    add_text(b, c->code, c->code_len);
    add_string(b, p->setup);
    add_string(b, p->entry);
    for (size_t i = 0; i < p->n_tests; i++) {
        add_text(b, p->tests[i].input, p->tests[i].input_len);
        add_text(b, p->tests[i].expected, p->tests[i].expected_len);
    }
    return sr1__buf_status(b, "input of a program");
}

/* ---- what it reports ---- */

struct report {
    const char *letters; /* [n] places of NONCE + 1 bytes, a letter at the end of each */
    size_t n;
    char last; /* letter of the first failure, P: none; 0: it did not get so far */
    const char *got;
    size_t n_got;
    const char *error;
    size_t n_error;
};

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

static void read_trailer(struct report *r, const char *s, const char *end,
                         const char *nonce)
{
    char last;

    if ((size_t)(end - s) < NONCE + 2 || memcmp(s, nonce, NONCE) != 0)
        return;
    s += NONCE;
    last = *s++;
    if (*s++ != ' ' || !read_size(&s, end, ' ', &r->n_got) ||
        !read_size(&s, end, '\n', &r->n_error) ||
        (size_t)(end - s) != r->n_got + r->n_error)
        return;
    r->last = last;
    r->got = s;
    r->error = s + r->n_got;
}

/* Nothing but what the driver writes counts: other bytes end it. */
static struct report read_report(const char *s, size_t n, const char *nonce, size_t tests)
{
    const char *end = s + n;
    struct report r = {.letters = s};

    while (r.n < tests && (size_t)(end - s) > NONCE && memcmp(s, nonce, NONCE) == 0 &&
           memchr("PWRMT", s[NONCE], 5) != NULL) {
        s += NONCE + 1;
        r.n++;
    }
    if (s < end && *s == '\n')
        read_trailer(&r, s + 1, end, nonce);
    return r;
}

static int32_t verdict_of(char letter)
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
static int32_t verdict_of_end(const sr1_run_result *result)
{
    if (result->verdict == SR1_RUN_PASSED || result->verdict == SR1_RUN_WRONG)
        return SR1_RUN_RUNTIME_ERROR;
    if (result->verdict == SR1_RUN_RUNTIME_ERROR &&
        (result->signal == SIGALRM || result->exit_code == 128 + SIGALRM))
        return SR1_RUN_TIMEOUT;
    return result->verdict;
}

static void explain_end(struct sr1__check_outcome *o, const sr1_run_result *result)
{
    size_t n = result->err_bytes < 4096 ? result->err_bytes : 4096;

    if (result->verdict == SR1_RUN_PASSED)
        sr1__buf_str(&o->error, "it ended before its tests did");
    else if (result->verdict == SR1_RUN_RUNTIME_ERROR && n > 0)
        sr1__buf_utf8(&o->error, result->err + result->err_bytes - n, n);
    else
        sr1__buf_str(&o->error, result->message);
}

static void take(struct sr1__check_outcome *o, const struct report *r,
                 int32_t all_or_nothing, const sr1_run_result *result)
{
    size_t n = r->n;

    for (size_t i = 0; i < n; i++)
        o->verdicts[i] = (unsigned char)verdict_of(r->letters[i * (NONCE + 1) + NONCE]);
    if (r->last != 0 && r->last != 'P') {
        if (n < o->n)
            o->verdicts[n] = (unsigned char)verdict_of(r->last);
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

/* ---- running it ---- */

/* Mode "each" stops each test by itself; the bound is for what does not let it. */
static double whole_time(const struct sr1__check_limits *l, const sr1_problem *p)
{
    double limit = sr1__check_time(l, p);

    if (l->all_or_nothing)
        return limit;
    return fmin(limit * (double)(p->n_tests + 1) + 1, fmax(60, 10 * limit));
}

static sr1_status start(struct sr1_check *c, sr1_sandbox *box,
                        const struct sr1__check_limits *l, const char *nonce)
{
    sr1_program program;
    struct sr1__buf input;
    sr1_status status;

    sr1__buf_init(&input, 0);
    status = write_input(&input, c, l, nonce);
    sr1_program_init(&program);
    program.code = sr1__driver_py;
    program.input = input.data;
    program.input_bytes = input.len;
    program.time_s = whole_time(l, c->problem);
    program.memory_mib = l->memory_mib;
    program.output_bytes = TEXTS_MAX + (NONCE + 1) * (int64_t)c->problem->n_tests;
    if (status == SR1_OK)
        status = sr1__check_start(c, box, &program, 0);
    sr1__buf_free(&input);
    return status;
}

sr1_status sr1__check_driven(struct sr1_check *c, sr1_sandbox *box,
                             const struct sr1__check_limits *l, int64_t *programs)
{
    sr1_run_result result = {.struct_size = sizeof(result)};
    struct report report;
    char nonce[NONCE + 1];

    SR1__TRY(make_nonce(nonce));
    SR1__TRY(start(c, box, l, nonce));
    ++*programs;
    SR1__TRY(sr1__check_result(c, 0, &result));
    if (result.verdict == SR1_RUN_INFRASTRUCTURE || result.verdict == SR1_RUN_CANCELLED) {
        sr1__check_outcome_rest(&c->outcome, 0, result.verdict);
        sr1__buf_str(&c->outcome.error, result.message);
    } else {
        report = read_report(result.out, result.out_bytes, nonce, c->outcome.n);
        take(&c->outcome, &report, l->all_or_nothing, &result);
    }
    sr1__check_drop(c, 0);
    return SR1_OK;
}
