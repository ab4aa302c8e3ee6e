/* environment/code/driven.c - run tests that are statements or calls in the process of
 * the answer itself (driver.py), which the answer can manipulate. Used if no second
 * process is possible, and for tests that only the answer's own objects can decide. */
#include "environment/code/report.h"
#include "environment/code/scripts.h"

#include <math.h>

/* ---- running it ---- */

/* Mode "each" stops each test by itself; the bound is for what does not let it. */
double sr1__check_whole_time(const struct sr1__check_limits *l, const sr1_problem *p)
{
    double limit = sr1__check_time(l, p);

    if (l->all_or_nothing)
        return limit;
    return fmin(limit * (double)(p->n_tests + 1) + 1, fmax(60, 10 * limit));
}

static sr1_status start_driver(struct sr1_check *c, sr1_sandbox *box,
                               const struct sr1__check_limits *l, const char *nonce)
{
    sr1_program program;
    struct sr1__buf input;
    sr1_status status;

    sr1__buf_init(&input, 0);
    status = sr1__write_tests(&input, c, l, nonce);
    sr1_program_init(&program);
    program.code = sr1__driver_py;
    program.input = input.data;
    program.input_bytes = input.len;
    program.time_s = sr1__check_whole_time(l, c->problem);
    program.memory_mib = l->memory_mib;
    program.output_bytes =
        SR1__REPORT_TEXTS + (SR1__NONCE + 1) * (int64_t)c->problem->n_tests;
    if (status == SR1_OK)
        status = sr1__check_start(c, box, &program, 0);
    sr1__buf_free(&input);
    return status;
}

sr1_status sr1__check_driven(struct sr1_check *c, sr1_sandbox *box,
                             const struct sr1__check_limits *l, int64_t *programs)
{
    sr1_execution_result result = {.struct_size = sizeof(result)};
    struct sr1__report report;
    char nonce[SR1__NONCE + 1];

    SR1__TRY(sr1__make_nonce(nonce));
    SR1__TRY(start_driver(c, box, l, nonce));
    ++*programs;
    SR1__TRY(sr1__check_result(c, 0, &result));
    if (result.verdict == SR1_RUN_INFRASTRUCTURE || result.verdict == SR1_RUN_CANCELLED) {
        sr1__check_outcome_rest(&c->outcome, 0, result.verdict);
        sr1__buf_str(&c->outcome.error, result.message);
    } else {
        report = sr1__read_report(result.out, result.out_bytes, nonce, c->outcome.n);
        sr1__take_report(&c->outcome, &report, l->all_or_nothing, &result);
    }
    sr1__check_drop(c, 0);
    return SR1_OK;
}
