/* Lock files: one holder, and what the system says when it cannot lock. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/lock.h"

#include <errno.h>
#include <sys/file.h>

static int error; /* of the next calls of flock; 0: they succeed */
static int times;
static int kinds; /* of all calls */

/* In place of the system's. */
int flock(int fd, int operation)
{
    (void)fd;
    kinds |= operation;
    if (error == 0 || times == 0)
        return 0;
    times--;
    errno = error;
    return -1;
}

static sr1_status lock_with(int e, int n, char holder[SR1__LOCK_HOLDER])
{
    struct sr1__lock *lock = NULL;
    sr1_status status;

    error = e;
    times = n;
    status = sr1__lock_take(&lock, scratch_path("lock"), holder);
    error = 0;
    assert_int_equal(lock != NULL, status == SR1_OK);
    sr1__lock_release(lock);
    return status;
}

static void errors_are_told_apart(void **state)
{
    char holder[SR1__LOCK_HOLDER];

    (void)state;
    assert_int_equal(lock_with(0, 0, holder), SR1_OK);
    assert_int_equal(lock_with(EINTR, 2, holder), SR1_OK);
    assert_int_equal(lock_with(EWOULDBLOCK, 1, holder), SR1_E_STATE);
    assert_string_equal(holder, "another process");
    assert_int_equal(lock_with(ENOLCK, 1, holder), SR1_OK); /* without locks */
    assert_int_equal(lock_with(ENOTSUP, 1, holder), SR1_OK);
    assert_int_equal(lock_with(EIO, 1, holder), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "lock"));
    assert_non_null(strstr(sr1_last_error(), strerror(EIO)));
}

/* Looking never excludes another that looks, and leaves the file as it is. */
static void one_may_look(void **state)
{
    char holder[SR1__LOCK_HOLDER];
    const char *path = scratch_file("looked-at", "process 7 on h\n", 0);
    struct sr1__buf b;

    (void)state;
    kinds = 0;
    assert_int_equal(sr1__lock_look(path, holder), SR1_OK);
    assert_int_equal(kinds, LOCK_SH | LOCK_NB);
    error = EWOULDBLOCK;
    times = 1;
    assert_int_equal(sr1__lock_look(path, holder), SR1_E_STATE);
    error = 0;
    assert_string_equal(holder, "process 7 on h");
    assert_int_equal(sr1__lock_look(scratch_path("nothing"), holder), SR1_OK);
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), "process 7 on h\n");
    sr1__buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_are_told_apart),
                                       cmocka_unit_test(one_may_look)};

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
