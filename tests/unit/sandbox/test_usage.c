/* What a tree of processes uses, seen from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "environment/sandbox/memory_monitor.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 1100 /* their numbers are more than a page of text, however short */

static void wait_forever(void)
{
    for (;;)
        pause();
}

/* In a process of its own: says through the pipe how many children there are. */
static void have_children(int told)
{
    int n = 0;

    for (pid_t pid; n < CHILDREN; n++) {
        pid = fork();
        if (pid == 0)
            wait_forever();
        if (pid < 0)
            break;
    }
    if (write(told, &n, sizeof n) != (ssize_t)sizeof n)
        _exit(1);
    wait_forever();
}

static void every_child_of_a_thread_counts(void **state)
{
    struct sr1__usage used;
    int told[2], n = 0;
    pid_t parent;

    (void)state;
    assert_int_equal(pipe(told), 0);
    parent = fork();
    if (parent == 0) {
        (void)setpgid(0, 0);
        have_children(told[1]);
    }
    assert_true(parent > 0);
    assert_int_equal(read(told[0], &n, sizeof n), sizeof n);
    sr1__memory_monitor_read(parent, 0, INT64_MAX, &used);
    (void)kill(-parent, SIGKILL);
    (void)waitpid(parent, NULL, 0);
    (void)close(told[0]);
    (void)close(told[1]);
    if (n < CHILDREN)
        skip(); /* not so many are allowed here */
    assert_int_equal(used.processes, CHILDREN + 1);
    assert_int_equal(used.is_partial, 0);
    assert_true(used.bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_child_of_a_thread_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
