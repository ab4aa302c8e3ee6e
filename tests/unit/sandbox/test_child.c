/* Children that share the memory of this process. */
#include "environment/sandbox/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define STARTS 50

/* And stay so while others start. */
static const char *become_nobody(struct sr1__child *c)
{
    struct timespec t = {0, 1000000};

    (void)c;
    (void)sr1__child_become(65534);
    (void)nanosleep(&t, NULL);
    return "go on";
}

static void *start_many(void *made)
{
    for (int i = 0; i < STARTS; i++) {
        struct sr1__child c = {.work = become_nobody};
        int fd;

        *(int *)made += sr1__child_run(&c, 0, &fd) >= 0;
        usleep((unsigned)(i % 7) * 200); /* the next one begins amid others */
    }
    return NULL;
}

/* A change of user by root's child marks the memory that they share. */
static void starts_at_once_leave_the_host_dumpable(void **state)
{
    pthread_t threads[THREADS];
    int made[THREADS] = {0};

    (void)state;
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_many, &made[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(made[i], 0);
    }
    assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_at_once_leave_the_host_dumpable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
