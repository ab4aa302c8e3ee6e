/* environment/code/stdio.c - run tests of standard input and output: one program each,
 * several side by side. Results are taken in order, so the first failure does not depend
 * on which program ended first. */
#include "environment/code/code_check.h"

#define GOT_MAX ((size_t)4096)
#define ERROR_MAX ((size_t)4096)

static void add_cut(struct sr1__buf *b, const char *s, size_t n, size_t max)
{
    sr1__buf_utf8(b, s, n < max ? n : max);
    if (n > max)
        sr1__buf_str(b, " ...");
}

static void record_stdio_test(struct sr1__check_outcome *o, size_t i,
                              const sr1_execution_result *r)
{
    int first = r->verdict != SR1_RUN_PASSED && o->got.len + o->error.len == 0;

    o->verdicts[i] = (unsigned char)r->verdict;
    if (!first)
        return;
    add_cut(&o->got, r->out, r->out_bytes, GOT_MAX);
    if (r->err_bytes > ERROR_MAX)
        add_cut(&o->error, r->err + r->err_bytes - ERROR_MAX, ERROR_MAX, ERROR_MAX);
    else
        add_cut(&o->error, r->err, r->err_bytes, ERROR_MAX);
    if (o->error.len == 0)
        sr1__buf_str(&o->error, r->message);
}

static sr1_status start_stdio_test(struct sr1_check *c, sr1_sandbox *box,
                                   const struct sr1__check_limits *l, size_t i)
{
    const struct sr1__test *t = &c->problem->tests[i];
    sr1_program program;

    sr1_program_init(&program);
    program.code = c->code;
    program.input = t->input;
    program.input_bytes = t->input_len;
    program.expected = t->expected;
    program.expected_bytes = t->expected_len;
    program.time_s = sr1__check_time(l, c->problem);
    program.memory_mib = l->memory_mib;
    return sr1__check_start(c, box, &program, i % c->n_runs);
}

sr1_status sr1__check_stdio(struct sr1_check *c, sr1_sandbox *box,
                            const struct sr1__check_limits *l, int64_t *programs)
{
    struct sr1__check_outcome *o = &c->outcome;
    size_t started = 0;

    for (size_t i = 0; i < o->n; i++) {
        sr1_execution_result r = {.struct_size = sizeof(r)};

        for (; started < o->n && started < i + c->n_runs; started++, ++*programs)
            SR1__TRY(start_stdio_test(c, box, l, started));
        SR1__TRY(sr1__check_result(c, i % c->n_runs, &r));
        record_stdio_test(o, i, &r);
        sr1__check_drop(c, i % c->n_runs);
        if (r.verdict == SR1_RUN_INFRASTRUCTURE || r.verdict == SR1_RUN_CANCELLED ||
            (l->all_or_nothing && r.verdict != SR1_RUN_PASSED))
            break;
    }
    return SR1_OK;
}
