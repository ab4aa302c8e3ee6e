/* Files: whole reads, atomic replacement under failure, maps, folders. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void assert_holds(const char *path, const char *text)
{
    struct sr1__buf b;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), text);
    sr1__buf_free(&b);
}

static size_t entries(void)
{
    char **names = NULL;
    size_t n = 0;

    assert_int_equal(sr1__dir_list(scratch_dir, &names, &n), SR1_OK);
    sr1__dir_list_free(names, n);
    return n;
}

static void reads_are_bounded(void **state)
{
    const char *path = scratch_file("ten", "0123456789", 0);
    const char *empty = scratch_path("empty");
    struct sr1__buf b;

    (void)state;
    assert_holds(path, "0123456789");
    assert_int_equal(sr1__file_read(path, 10, &b), SR1_OK);
    sr1__buf_free(&b);
    assert_int_equal(sr1__file_read(path, 9, &b), SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "10 bytes are more than the 9 allowed"));
    assert_int_equal(sr1__file_replace(empty, "", 0), SR1_OK);
    assert_holds(empty, "");
    assert_int_equal(sr1__file_read(scratch_dir, 0, &b), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "a folder"));
    assert_int_equal(sr1__file_read(scratch_path("missing"), 0, &b), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "No such file"));
    assert_int_equal(sr1__file_read("/dev/null", 0, &b), SR1_E_IO);
}

static void a_pipe_does_not_hang(void **state)
{
    const char *path = scratch_path("pipe");
    struct sr1__buf b;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_E_IO);
    unlink(path);
}

static void replacing_keeps_the_old_on_failure(void **state)
{
    const char *path = scratch_file("old", "old", 0);
    struct sr1__file_writer *w = NULL;
    size_t before = entries();

    (void)state;
    assert_int_equal(sr1__file_writer_open(&w, path), SR1_OK);
    assert_int_equal(sr1__file_writer_add(w, "new", 3), SR1_OK);
    assert_int_equal(sr1__file_writer_offset(w), 3);
    assert_holds(path, "old");
    sr1__file_writer_abort(w);
    sr1__file_writer_abort(NULL);
    assert_holds(path, "old");
    assert_int_equal(entries(), before);
    assert_int_equal(sr1__file_replace(path, "newer", 5), SR1_OK);
    assert_holds(path, "newer");
    assert_int_equal(entries(), before);
}

/* What editors and git keep of a file that they replace. */
static void a_replaced_file_keeps_its_mode_and_links(void **state)
{
    static const mode_t modes[] = {0600, 0640, 0444, 0664, 0755};
    const char *path = scratch_file("mode", "old", 0), *soft = scratch_path("to-mode");
    mode_t mask = umask(027);
    struct stat st;
    size_t before;

    (void)state;
    assert_int_equal(symlink("mode", soft), 0);
    before = entries();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const char *name = i % 2 ? soft : path;

        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(sr1__file_replace(name, name, strlen(name)), SR1_OK);
        assert_holds(path, name);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, modes[i]);
        assert_int_equal(lstat(soft, &st), 0);
        assert_true(S_ISLNK(st.st_mode));
        assert_int_equal(entries(), before);
    }
    assert_int_equal(sr1__file_replace(scratch_path("fresh"), "x", 1), SR1_OK);
    assert_int_equal(stat(scratch_path("fresh"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    umask(mask);
}

static int owner_error, mode_error; /* error numbers; 0: these can be set */

int fchown(int fd, uid_t owner, gid_t group)
{
    if (owner_error == 0)
        return (int)syscall(SYS_fchown, fd, owner, group);
    errno = owner_error;
    return -1;
}

int fchmod(int fd, mode_t mode)
{
    if (mode_error == 0)
        return (int)syscall(SYS_fchmod, fd, mode);
    errno = mode_error;
    return -1;
}

/* FAT, and shares of other systems, have one owner and one mode for all files. */
static void a_disk_without_owners_is_written(void **state)
{
    const char *path = scratch_file("owned", "old", 0);

    (void)state;
    owner_error = mode_error = EPERM;
    assert_int_equal(sr1__file_replace(path, "new", 3), SR1_OK);
    assert_holds(path, "new");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(sr1__file_replace(path, "open to others", 14), SR1_E_IO);
    assert_holds(path, "new");
    owner_error = mode_error = 0;
}

/* Members of another group were others. */
static void a_group_that_is_lost_leaves_no_rights(void **state)
{
    static const mode_t modes[][2] = {{0640, 0600}, {0664, 0644}, {0644, 0644}};
    const char *path = scratch_file("grouped", "old", 0);
    struct stat st;

    (void)state;
    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chown(path, 0, 12345), 0);
        assert_int_equal(chmod(path, modes[i][0]), 0);
        owner_error = EPERM;
        assert_int_equal(sr1__file_replace(path, "new", 3), SR1_OK);
        owner_error = 0;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, modes[i][1]);
    }
}

static void what_is_no_file_is_not_replaced(void **state)
{
    const char *pipe = scratch_path("written-pipe");
    struct stat st;

    (void)state;
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(sr1__file_replace(pipe, "x", 1), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "it is a special file, not a file"));
    assert_int_equal(stat(pipe, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(unlink(pipe), 0);
}

static void unwritable_places_are_named(void **state)
{
    struct sr1__file_writer *w = NULL;
    const char *file = scratch_file("plain", "x", 0);
    char below[600];
    size_t before = entries();

    (void)state;
    snprintf(below, sizeof below, "%s/child", file);
    assert_int_equal(sr1__file_replace(below, "x", 1), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), below));
    assert_int_equal(sr1__dir_make(below), SR1_E_IO);
    assert_int_equal(sr1__file_writer_open(&w, scratch_path("no/such")), SR1_E_IO);
    assert_null(w);
    assert_int_equal(sr1__dir_make(scratch_path("taken")), SR1_OK);
    assert_int_equal(sr1__file_replace(scratch_path("taken"), "x", 1), SR1_E_IO);
    assert_int_equal(entries(), before + 1);
}

static int mkdir_error; /* the error number; 0: folders can be made */

int mkdir(const char *path, mode_t mode)
{
    if (mkdir_error == 0)
        return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    errno = mkdir_error;
    return -1;
}

/* What is looked at after the failure has errors of its own. */
static void a_read_only_disk_is_named(void **state)
{
    const char *path = scratch_path("new");

    (void)state;
    mkdir_error = EROFS;
    assert_int_equal(sr1__dir_make(path), SR1_E_IO);
    mkdir_error = 0;
    assert_non_null(strstr(sr1_last_error(), "/new: Read-only file system"));
    assert_int_equal(sr1__dir_make(path), SR1_OK);
}

/* A limit on the size of files fails a write as a full disk does. */
static void a_full_disk_keeps_the_old(void **state)
{
    const char *path = scratch_file("disk", "old", 0);
    struct rlimit old, small;
    static char big[300000];
    size_t before = entries();
    sr1_status status;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t limit = 0; limit <= 200000; limit += 40000) {
        small = old;
        small.rlim_cur = limit;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        status = sr1__file_replace(path, big, sizeof big);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(status, SR1_E_IO);
        assert_non_null(strstr(sr1_last_error(), path));
        assert_holds(path, "old");
        assert_int_equal(entries(), before);
    }
}

static void big_files_arrive_whole(void **state)
{
    const char *path = scratch_path("big");
    struct sr1__file_writer *w = NULL;
    struct sr1__map m;
    size_t total = 0;

    (void)state;
    assert_int_equal(sr1__file_writer_open(&w, path), SR1_OK);
    for (size_t i = 0; i < 500; i++) {
        char piece[1000];
        size_t n = i * 37 % 1000;

        memset(piece, (int)(i % 251), sizeof piece);
        assert_int_equal(sr1__file_writer_add(w, piece, n), SR1_OK);
        total += n;
    }
    assert_int_equal(sr1__file_writer_offset(w), total);
    assert_int_equal(sr1__file_writer_commit(w), SR1_OK);
    assert_int_equal(sr1__map_open(&m, path), SR1_OK);
    assert_int_equal(m.size, total);
    for (size_t i = 0, at = 0; i < 500; at += i * 37 % 1000, i++) {
        if (i * 37 % 1000 > 0)
            assert_int_equal(m.data[at], i % 251);
    }
    sr1__map_close(&m);
    sr1__map_close(&m);
    assert_null(m.data);
}

/* Pages of files that the process has, in kB. */
static long resident_file_pages(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[200];
    long kb = -1;

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "RssFile:", 8) == 0)
            kb = strtol(line + 8, NULL, 10);
    if (f)
        fclose(f);
    return kb;
}

static void what_is_forgotten_can_be_read_again(void **state)
{
    const char *path = scratch_path("large");
    size_t n = (size_t)16 << 20, sum[2] = {0};
    char *bytes = malloc(n);
    struct sr1__map m;
    long before, read;

    (void)state;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i % 127);
    assert_int_equal(sr1__file_replace(path, bytes, n), SR1_OK);
    free(bytes);
    assert_int_equal(sr1__map_open(&m, path), SR1_OK);
    before = resident_file_pages();
    for (size_t i = 0; i < n; i++)
        sum[0] += m.data[i];
    read = resident_file_pages();
    sr1__map_forget(m.data + 5, n - 5);
    if (before >= 0) { /* Linux */
        assert_true(read >= before + 8192);
        assert_true(resident_file_pages() <= before + 4096);
    }
    for (size_t i = 0; i < n; i++)
        sum[1] += m.data[i];
    assert_true(sum[0] == sum[1] && sum[0] > n);
    sr1__map_close(&m);
}

static void maps_of_nothing(void **state)
{
    const char *path = scratch_path("none");
    struct sr1__map m = {NULL, 7};

    (void)state;
    assert_int_equal(sr1__map_open(&m, path), SR1_E_IO);
    assert_int_equal(m.size, 7);
    assert_int_equal(sr1__file_replace(path, NULL, 0), SR1_OK);
    assert_int_equal(sr1__map_open(&m, path), SR1_OK);
    assert_int_equal(m.size, 0);
    assert_string_equal((const char *)m.data, "");
    sr1__map_close(&m);
}

static void folders(void **state)
{
    const char *tree = scratch_path("tree");
    const char *deep = scratch_path("tree//a/b/");
    const char *outside = scratch_file("outside", "kept", 0);
    const char *moved = scratch_path("moved");
    char **names = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(sr1__dir_make(deep), SR1_OK);
    assert_int_equal(sr1__dir_make(deep), SR1_OK);
    assert_true(sr1__path_is_dir(deep));
    assert_false(sr1__path_is_dir(outside));
    assert_true(sr1__path_exists(outside));
    scratch_file("tree/z", "", 1);
    scratch_file("tree/b", "", 1);
    assert_int_equal(symlink(outside, scratch_path("tree/link")), 0);
    assert_int_equal(sr1__dir_list(tree, &names, &n), SR1_OK);
    assert_int_equal(n, 4);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "b");
    assert_string_equal(names[2], "link");
    assert_string_equal(names[3], "z");
    sr1__dir_list_free(names, n);
    assert_int_equal(sr1__rename_dir(tree, moved), SR1_OK);
    assert_false(sr1__path_exists(tree));
    assert_int_equal(sr1__dir_remove(moved), SR1_OK);
    assert_int_equal(sr1__dir_remove(moved), SR1_OK);
    assert_false(sr1__path_exists(moved));
    assert_holds(outside, "kept");
    assert_int_equal(sr1__dir_list(tree, &names, &n), SR1_E_IO);
    assert_int_equal(sr1__rename_dir(tree, moved), SR1_E_IO);
}

/* What the system said of the folder itself, not of a look at it afterwards. */
static void folders_that_cannot_be_made_say_why(void **state)
{
    const char *path = scratch_path("dangling");

    (void)state;
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(sr1__dir_make(path), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "File exists"));
    unlink(path);
}

static void an_output_is_not_an_input(void **state)
{
    const char *input = scratch_file("input", "text", 0);
    const char *hard = scratch_path("hard"), *soft = scratch_path("soft");

    (void)state;
    assert_int_equal(link(input, hard), 0);
    assert_int_equal(symlink("input", soft), 0);
    assert_int_equal(sr1__path_distinct(input, input), SR1_E_INVALID);
    assert_int_equal(sr1__path_distinct(input, hard), SR1_E_INVALID);
    assert_int_equal(sr1__path_distinct(input, soft), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "name another file"));
    assert_int_equal(sr1__path_distinct(input, scratch_file("other", "text", 0)), SR1_OK);
    assert_int_equal(sr1__path_distinct(input, scratch_path("missing")), SR1_OK);
    assert_int_equal(sr1__path_distinct(scratch_path("gone"), scratch_path("gone")),
                     SR1_OK);
}

/* Written to, but not to be read: there is nothing to sync by. */
static void a_folder_that_cannot_be_read_takes_files(void **state)
{
    uid_t root = geteuid();
    char folder[512];
    struct stat st;

    (void)state;
    snprintf(folder, sizeof folder, "%s", scratch_path("blind"));
    assert_int_equal(chmod(scratch_dir, 0755), 0);
    assert_int_equal(mkdir(folder, 0300), 0);
    if (root == 0) {
        assert_int_equal(chown(folder, 65534, 65534), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    if (access(scratch_dir, X_OK) == 0) {
        assert_int_equal(sr1__file_replace(scratch_path("blind/file"), "text", 4),
                         SR1_OK);
        assert_int_equal(stat(scratch_path("blind/file"), &st), 0);
        assert_int_equal(sr1__dir_remove(folder), SR1_E_IO);
        assert_non_null(strstr(sr1_last_error(), "Permission denied"));
    }
    assert_int_equal(seteuid(root), 0);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(sr1__dir_remove(folder), SR1_OK);
}

static void *remove_tree(void *arg)
{
    return (void *)(intptr_t)(sr1__dir_remove(arg) != SR1_OK);
}

static void a_tree_may_be_removed_by_two(void **state)
{
    char tree[512];

    (void)state;
    snprintf(tree, sizeof tree, "%s", scratch_path("tree"));
    for (int round = 0; round < 5; round++) {
        pthread_t other;
        void *failed;

        for (int i = 0; i < 40; i++) {
            char name[64];

            snprintf(name, sizeof name, "tree/%d/sub", i);
            assert_int_equal(sr1__dir_make(scratch_path(name)), SR1_OK);
            for (int k = 0; k < 10; k++) {
                snprintf(name, sizeof name, "tree/%d/sub/%d", i, k);
                scratch_file(name, "x", 1);
            }
        }
        assert_int_equal(pthread_create(&other, NULL, remove_tree, tree), 0);
        if (sr1__dir_remove(tree) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        assert_int_equal(pthread_join(other, &failed), 0);
        assert_null(failed);
        assert_false(sr1__path_exists(tree));
    }
}

static atomic_int folders_are_replaced;

/* How often the file of the folder was not there. */
static void *look_for_file(void *path)
{
    intptr_t missing = 0;

    while (atomic_load(&folders_are_replaced))
        missing += access(path, F_OK) != 0;
    return (void *)missing;
}

static void a_replaced_folder_is_there_at_each_moment(void **state)
{
    char from[512], to[512], name[600];
    pthread_t other;
    void *missing;

    (void)state;
    snprintf(from, sizeof from, "%s", scratch_path("from"));
    snprintf(to, sizeof to, "%s", scratch_path("to"));
    snprintf(name, sizeof name, "%s/x", to);
    assert_int_equal(sr1__dir_make(to), SR1_OK);
    scratch_file("to/x", "0", 1);
    atomic_store(&folders_are_replaced, 1);
    assert_int_equal(pthread_create(&other, NULL, look_for_file, name), 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(sr1__dir_make(from), SR1_OK);
        scratch_file("from/x", "1", 1);
        assert_int_equal(sr1__replace_dir(from, to), SR1_OK);
        assert_false(sr1__path_exists(from));
    }
    atomic_store(&folders_are_replaced, 0);
    assert_int_equal(pthread_join(other, &missing), 0);
    assert_int_equal((intptr_t)missing, 0);
    assert_int_equal(sr1__dir_make(from), SR1_OK); /* and where there was none */
    scratch_file("from/x", "1", 1);
    assert_int_equal(sr1__dir_remove(to), SR1_OK);
    assert_int_equal(sr1__replace_dir(from, to), SR1_OK);
    assert_true(sr1__path_exists(name));
    assert_int_equal(sr1__replace_dir(from, to), SR1_E_IO);
    assert_true(sr1__path_exists(name)); /* nothing came for it */
}

static void joined_paths(void **state)
{
    static const char *const rows[][3] = {{"a", "b", "a/b"},
                                          {"a/", "b", "a/b"},
                                          {"a", "/b", "/b"},
                                          {"", "b", "b"},
                                          {"/", "b", "/b"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *joined = sr1__path_join(rows[i][0], rows[i][1]);

        assert_string_equal(joined, rows[i][2]);
        sr1__free(joined);
    }
}

static sr1_status use_all(void *arg)
{
    struct sr1__buf b;
    char **names = NULL;
    size_t n = 0;

    SR1__TRY(sr1__file_replace(arg, "text", 4));
    SR1__TRY(sr1__file_read(arg, 0, &b));
    sr1__buf_free(&b);
    SR1__TRY(sr1__dir_make(scratch_dir));
    SR1__TRY(sr1__dir_list(scratch_dir, &names, &n));
    sr1__dir_list_free(names, n);
    return SR1_OK;
}

static void memory_may_fail(void **state)
{
    char *path = sr1__path_join(scratch_dir, "torture");
    size_t before;

    (void)state;
    assert_int_equal(sr1__file_replace(path, "old", 3), SR1_OK);
    before = entries();
    assert_true(torture(use_all, path) > 5);
    assert_int_equal(entries(), before);
    sr1__free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_bounded),
        cmocka_unit_test(a_pipe_does_not_hang),
        cmocka_unit_test(replacing_keeps_the_old_on_failure),
        cmocka_unit_test(a_replaced_file_keeps_its_mode_and_links),
        cmocka_unit_test(a_disk_without_owners_is_written),
        cmocka_unit_test(a_group_that_is_lost_leaves_no_rights),
        cmocka_unit_test(what_is_no_file_is_not_replaced),
        cmocka_unit_test(unwritable_places_are_named),
        cmocka_unit_test(a_read_only_disk_is_named),
        cmocka_unit_test(a_full_disk_keeps_the_old),
        cmocka_unit_test(big_files_arrive_whole),
        cmocka_unit_test(what_is_forgotten_can_be_read_again),
        cmocka_unit_test(maps_of_nothing),
        cmocka_unit_test(folders),
        cmocka_unit_test(folders_that_cannot_be_made_say_why),
        cmocka_unit_test(an_output_is_not_an_input),
        cmocka_unit_test(a_folder_that_cannot_be_read_takes_files),
        cmocka_unit_test(a_tree_may_be_removed_by_two),
        cmocka_unit_test(a_replaced_folder_is_there_at_each_moment),
        cmocka_unit_test(joined_paths),
        cmocka_unit_test(memory_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
