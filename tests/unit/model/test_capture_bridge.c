/* libsearchr1_cuda.so is looked for on demand, and one that is missing, of another
 * version or none of ours is refused with the reason; steps then go on kernel by kernel
 * (steps_go_on_without_graphs in tests/accelerator/test_decode.c).
 * usage: test_capture_bridge OTHER_VERSION.so NO_TABLE.so THIS_VERSION.so */
#include "support/tiny.h"

#include "tensor/model/capture_bridge.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER_VERSION = 1, NO_TABLE, THIS_VERSION };
static char **args;

/* What a process says that finds this library under the name of ours; NULL: none. */
static const char *said_with(const char *library)
{
    static char said[2048];
    char whole[PATH_MAX];
    int ends[2];
    ssize_t n;

    remove(scratch_path(SR1__CUDA_LIBRARY));
    if (library) {
        assert_non_null(realpath(library, whole));
        assert_int_equal(symlink(whole, scratch_path(SR1__CUDA_LIBRARY)), 0);
    }
    assert_int_equal(pipe(ends), 0);
    if (fork() == 0) {
        setenv("LD_LIBRARY_PATH", scratch_path("."), 1);
        dup2(ends[1], 1);
        execl(args[0], args[0], "find", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    n = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    said[n > 0 ? n : 0] = '\0';
    (void)wait(NULL);
    return said;
}

static int find_table(void)
{
    const struct sr1__capture_table *table = NULL;
    sr1_status st = sr1__capture_find(SR1__CUDA, &table);

    printf("%s: %s\n", sr1_status_name(st), st == SR1_OK ? "found" : sr1_last_error());
    return 0;
}

static void expect(const char *said, const char *text)
{
    if (!strstr(said, text))
        fail_msg("'%s' is not in: %s", text, said);
}

static void a_missing_library_is_named(void **state)
{
    (void)state;
    expect(said_with(NULL), "SR1_E_UNSUPPORTED: ");
    expect(said_with(NULL), SR1__CUDA_LIBRARY);
}

static void another_version_is_refused(void **state)
{
    (void)state;
    expect(
        said_with(args[OTHER_VERSION]),
        "SR1_E_UNSUPPORTED: libsearchr1_cuda.so is of another version of this library; "
        "build it again");
}

static void a_library_without_a_table_is_refused(void **state)
{
    (void)state;
    expect(said_with(args[NO_TABLE]),
           "SR1_E_UNSUPPORTED: libsearchr1_cuda.so exports no sr1__capture_table");
}

static void one_of_this_version_is_taken(void **state)
{
    (void)state;
    expect(said_with(args[THIS_VERSION]), "found");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(a_library_without_a_table_is_refused),
        cmocka_unit_test(one_of_this_version_is_taken),
    };

    args = argv;
    if (argc == 2)
        return find_table();
    return argc < 4 ? 77 : cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
