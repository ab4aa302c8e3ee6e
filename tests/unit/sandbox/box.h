/* What the sandbox's tests share: a box of the isolation that the command line names, and
 * runs in it. Where programs cannot be isolated the tests of bubblewrap are skipped. */
#ifndef SR1_TESTS_SANDBOX_BOX_H
#define SR1_TESTS_SANDBOX_BOX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <searchr1/ext/sandbox.h>

#include "base/clock.h"
#include "base/mem.h"

static const char *isolation = "bubblewrap"; /* or "none" */
static int may_have_jail = 1;

static inline int is_isolated(void)
{
    return strcmp(isolation, "bubblewrap") == 0;
}

static inline sr1_sandbox_options box_options(int32_t concurrency)
{
    sr1_sandbox_options o;

    sr1_sandbox_options_init(&o);
    o.isolation = isolation;
    o.concurrency = concurrency;
    o.retries = 0; /* a failure of ours is not to be hidden */
    o.time_s = 60; /* the machine may be busy; tests of limits set theirs */
    return o;
}

/* A box, or skip the test. */
static inline sr1_sandbox *open_box(const sr1_sandbox_options *o)
{
    sr1_sandbox *box = NULL;
    sr1_status status = sr1_sandbox_open(&box, o);

    if (status == SR1_E_UNSUPPORTED && is_isolated()) {
        print_message("skipped, no isolation here: %s\n", sr1_last_error());
        skip();
    }
    if (status != SR1_OK)
        fail_msg("cannot open: %s", sr1_last_error());
    return box;
}

static inline sr1_program program_of(const char *code)
{
    sr1_program p;

    sr1_program_init(&p);
    p.code = code;
    return p;
}

/* A run that has ended, and its result. */
static inline sr1_execution *run_of(sr1_sandbox *box, const sr1_program *p,
                                    sr1_execution_result *r)
{
    sr1_execution *run = NULL;

    memset(r, 0, sizeof *r);
    r->struct_size = sizeof *r;
    if (sr1_sandbox_run(box, p, &run) != SR1_OK)
        fail_msg("cannot run: %s", sr1_last_error());
    assert_int_equal(sr1_execution_result_get(run, r), SR1_OK);
    return run;
}

static inline void assert_verdict(const sr1_execution_result *r, int32_t verdict)
{
    if (r->verdict != verdict)
        fail_msg("%s (%s) in place of %s; stderr: %s",
                 sr1_execution_verdict_name(r->verdict), r->message,
                 sr1_execution_verdict_name(verdict), r->err);
}

/* Run code and compare verdict and output (NULL: any). */
static inline void expect(sr1_sandbox *box, const char *code, int32_t verdict,
                          const char *out)
{
    sr1_program p = program_of(code);
    sr1_execution_result r;
    sr1_execution *run = run_of(box, &p, &r);

    assert_verdict(&r, verdict);
    if (out != NULL)
        assert_string_equal(r.out, out);
    sr1_execution_free(run);
}

/* Runs that end within so many seconds, all alike; they are freed. */
static inline void expect_all(sr1_execution **runs, int n, double seconds,
                              int32_t verdict)
{
    for (int i = 0; i < n; i++) {
        sr1_execution_result r = {.struct_size = sizeof r};

        assert_int_equal(sr1_execution_wait(runs[i], seconds), SR1_OK);
        assert_int_equal(sr1_execution_result_get(runs[i], &r), SR1_OK);
        assert_verdict(&r, verdict);
        sr1_execution_free(runs[i]);
    }
}

/* Entries of a folder. */
static inline int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* ---- the box that the tests of a program share ---- */

static sr1_sandbox *box;

/* Each test begins with it: a skip ends the test. */
static inline void need_box(void)
{
    sr1_sandbox_options o = box_options(4);

    if (box == NULL)
        box = open_box(&o);
}

/* Tear-down of a group. */
static inline int close_box(void **state)
{
    (void)state;
    sr1_sandbox_free(box);
    box = NULL;
    return 0;
}

/* As in a container that lets nobody enter a namespace: setns gives EPERM. */
static inline void forbid_jails(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    may_have_jail = 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        print_message("skipped: no filter of system calls can be set here\n");
        exit(77);
    }
}

/* ISOLATION [no-jail] */
static inline void take_isolation(int argc, char **argv)
{
    if (argc > 1)
        isolation = argv[1];
    if (argc > 2 && strcmp(argv[2], "no-jail") == 0)
        forbid_jails();
}

#endif
