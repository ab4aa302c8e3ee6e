/* Lock files: one holder, and what the system says when it cannot lock. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/lock.h"

#include <errno.h>
#include <sys/file.h>

static int error; /* of the next calls of flock; 0: they succeed */
static int times;

/* In place of the system's. */
int flock(int fd, int operation)
{
    (void)fd;
    (void)operation;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_are_told_apart)};

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
