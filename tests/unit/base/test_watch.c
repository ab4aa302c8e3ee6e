/* Watched maps: files cut or written over while they are read, and the signals of others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/map_watch.h"
#include "../../support/files.h"

#define SIZE ((size_t)1 << 20)
#define SEAL 16

/* A file of SIZE bytes of this letter, changed long ago. */
static const char *make(const char *name, char letter)
{
    const struct timespec old[2] = {{1000000, 0}, {1000000, 0}};
    char *bytes = malloc(SIZE);
    const char *path;

    memset(bytes, letter, SIZE);
    path = scratch_file(name, bytes, SIZE);
    free(bytes);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    return path;
}

static struct sr1__map open_map(const char *path, size_t seal)
{
    struct sr1__map m = {0};

    if (sr1__map_open_watched(&m, path, seal) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    assert_int_equal(m.size, SIZE);
    return m;
}

static uint64_t sum(const struct sr1__map *m)
{
    uint64_t all = 0;

    for (size_t i = 0; i < m->size; i++)
        all += m->data[i];
    return all;
}

static void a_file_that_is_cut_reads_as_zeros(void **state)
{
    const char *path = make("cut", 'a');
    struct sr1__map m = open_map(path, 0);
    struct sr1__map whole = open_map(make("whole", 'b'), 0);

    (void)state;
    assert_int_equal(sum(&m), SIZE * 'a');
    assert_int_equal(sr1__map_check(&m), SR1_OK);
    assert_int_equal(truncate(path, SIZE / 2), 0);
    assert_int_equal(sum(&m), SIZE / 2 * 'a');
    assert_int_equal(sr1__map_check(&m), SR1_E_CORRUPT);
    assert_non_null(strstr(sr1_last_error(), path));
    assert_non_null(strstr(sr1_last_error(), "rename"));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(sum(&m), 0);
    assert_int_equal(sr1__map_check(&m), SR1_E_CORRUPT);
    assert_int_equal(sum(&whole), SIZE * 'b'); /* nobody else's */
    assert_int_equal(sr1__map_check(&whole), SR1_OK);
    sr1__map_close(&m);
    sr1__map_close(&whole);
}

/* Also when it has its old size again. */
static void what_is_written_over_is_found(void **state)
{
    const char *path = make("over", 'a');
    struct sr1__map m = open_map(path, 0);
    struct sr1__map sealed = open_map(path, SEAL);
    char other[100];
    int fd;

    (void)state;
    memset(other, 'c', sizeof other);
    fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, other, sizeof other, SIZE - 50), 100);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    close(fd);
    assert_int_equal(sr1__map_check(&m), SR1_E_CORRUPT);
    assert_int_equal(sr1__map_check(&sealed), SR1_E_CORRUPT);
    assert_int_equal(sr1__map_blame(&m, SR1_OK), SR1_E_CORRUPT);
    assert_int_equal(sr1__map_blame(&m, sr1__fail(SR1_E_PARSE, "nonsense")),
                     SR1_E_CORRUPT);
    assert_null(strstr(sr1_last_error(), "nonsense"));
    sr1__map_close(&m);
    sr1__map_close(&sealed);
}

static void a_new_time_alone_is_no_change_of_a_sealed_file(void **state)
{
    const char *path = make("touched", 'a');
    struct sr1__map m = open_map(path, SEAL);

    (void)state;
    assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
    assert_int_equal(sr1__map_check(&m), SR1_OK);
    assert_int_equal(sr1__map_blame(&m, sr1__fail(SR1_E_PARSE, "nonsense")), SR1_E_PARSE);
    assert_string_equal(sr1_last_error(), "nonsense");
    sr1__map_close(&m);
}

static void a_file_may_be_replaced_by_renaming(void **state)
{
    const char *path = make("served", 'a');
    struct sr1__map m = open_map(path, 0);

    (void)state;
    assert_int_equal(rename(make("new", 'b'), path), 0);
    assert_int_equal(sum(&m), SIZE * 'a');
    assert_int_equal(sr1__map_check(&m), SR1_OK);
    sr1__map_close(&m);
}

static void places_are_used_again(void **state)
{
    const char *path = make("again", 'a');

    (void)state;
    for (int i = 0; i < 100; i++) {
        struct sr1__map m = open_map(path, 0);
        struct sr1__map_watch *place = m.watch;

        sr1__map_close(&m);
        m = open_map(path, 0);
        assert_ptr_equal(m.watch, place);
        sr1__map_close(&m);
    }
}

/* ---- signals of others ---- */

static char *own; /* a map that is not watched, of a file that was cut */

static void make_own(void)
{
    const char *path = make("own", 'a');
    int fd = open(path, O_RDWR);

    own = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(own != MAP_FAILED && ftruncate(fd, 0) == 0);
    close(fd);
}

static void leave(int number)
{
    _exit(number == SIGBUS ? 42 : 1);
}

/* How a child ends that reads the map, with its own handler installed first. */
static int read_own(const struct sigaction *act)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        struct sr1__map m = {0};

        (void)sigaction(SIGBUS, act, NULL);
        if (sr1__map_open_watched(&m, scratch_path("whole"), 0) != SR1_OK)
            _exit(1);
        _exit(own[SIZE / 2] == 0 ? 2 : 3);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* First in the program: nothing is installed yet. */
static void signals_of_others_go_where_they_went(void **state)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction theirs = {.sa_handler = leave};
    int status;

    (void)state;
    make("whole", 'b');
    make_own();
    status = read_own(&standard);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = read_own(&theirs);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    munmap(own, SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_of_others_go_where_they_went),
        cmocka_unit_test(a_file_that_is_cut_reads_as_zeros),
        cmocka_unit_test(what_is_written_over_is_found),
        cmocka_unit_test(a_new_time_alone_is_no_change_of_a_sealed_file),
        cmocka_unit_test(a_file_may_be_replaced_by_renaming),
        cmocka_unit_test(places_are_used_again),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
