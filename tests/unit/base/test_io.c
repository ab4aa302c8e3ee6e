/* Reads and writes of all bytes: from a pipe that gives them in parts, while signals come
 * in between, and from files that end. */
#include "../../support/files.h"
#include "../../support/torture.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PARTS 50
#define PART 100

struct feeder {
    int fd;
    pthread_t reader;
    pid_t id; /* its */
};

static atomic_int interrupted; /* reads */

ssize_t read(int fd, void *out, size_t n)
{
    ssize_t got = syscall(SYS_read, fd, out, n);

    if (got < 0 && errno == EINTR)
        atomic_fetch_add(&interrupted, 1);
    return got;
}

static void ignore_signal(int n)
{
    (void)n;
}

/* Does the thread wait for something? */
static int is_asleep(pid_t thread)
{
    char path[64], state = '?';
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    f = fopen(path, "r");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    fclose(f);
    return state == 'S';
}

/* Each part is followed by a signal to the reader, which waits for the next one: that is
 * not written before the signal has ended the read. */
static void *feed_parts(void *arg)
{
    const struct feeder *f = arg;
    char part[PART];

    for (int i = 0; i < PARTS; i++) {
        memset(part, i, sizeof part);
        assert_int_equal(write(f->fd, part, sizeof part), sizeof part);
        while (atomic_load(&interrupted) <= i) {
            if (is_asleep(f->id))
                pthread_kill(f->reader, SIGUSR1);
            usleep(100);
        }
    }
    close(f->fd);
    return NULL;
}

static void parts_and_signals_do_not_end_a_read(void **state)
{
    struct sigaction act = {.sa_handler = ignore_signal}; /* no SA_RESTART */
    char got[PARTS * PART + 10];
    struct feeder f = {.reader = pthread_self(), .id = gettid()};
    pthread_t thread;
    int ends[2];

    (void)state;
    sigaction(SIGUSR1, &act, NULL);
    assert_int_equal(pipe(ends), 0);
    f.fd = ends[1];
    assert_int_equal(pthread_create(&thread, NULL, feed_parts, &f), 0);
    assert_int_equal(sr1__read_all(ends[0], got, sizeof got), PARTS * PART);
    pthread_join(thread, NULL);
    assert_true(interrupted >= PARTS);
    for (int i = 0; i < PARTS * PART; i++)
        assert_int_equal(got[i], i / PART);
    close(ends[0]);
}

static void a_file_is_read_to_its_end(void **state)
{
    char text[1000], got[2000];
    int fd = open(scratch_path("io"), O_RDWR | O_CREAT | O_TRUNC, 0666);

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    assert_int_equal(sr1__write_all(fd, text, 400), 0);
    assert_int_equal(sr1__pwrite_all(fd, text + 300, 700, 300), 0);
    assert_int_equal(sr1__pread_all(fd, got, sizeof got, 0), sizeof text);
    assert_memory_equal(got, text, sizeof text);
    assert_int_equal(sr1__pread_all(fd, got, 50, 100), 50);
    assert_memory_equal(got, text + 100, 50);
    assert_int_equal(sr1__pread_all(fd, got, 50, 990), 10);
    assert_int_equal(sr1__pread_all(fd, got, 50, 5000), 0);
    assert_int_equal(sr1__read_all(fd, got, sizeof got), 600); /* from where it stands */
    close(fd);
}

static void a_failure_is_told_by_errno(void **state)
{
    char c = 0;
    int fd = open("/dev/full", O_WRONLY);

    (void)state;
    assert_int_equal(sr1__write_all(fd, &c, 1), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(sr1__read_all(fd, &c, 1), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(sr1__pwrite_all(-1, &c, 1, 0), -1);
    assert_int_equal(sr1__pread_all(-1, &c, 1, 0), -1);
    assert_int_equal(sr1__write_all(-1, &c, 0), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_and_signals_do_not_end_a_read),
        cmocka_unit_test(a_file_is_read_to_its_end),
        cmocka_unit_test(a_failure_is_told_by_errno),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
