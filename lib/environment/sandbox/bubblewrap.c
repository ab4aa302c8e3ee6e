/* environment/sandbox/bubblewrap.c - the arguments of bubblewrap. */
#include "environment/sandbox/bubblewrap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
#define TREE "/tree"
#define FIRST_FILE 8 /* descriptor of a program's first further file */

const unsigned char sr1__bwrap_init[] = {
#include "init_bytes.h"
};
const size_t sr1__bwrap_init_bytes = sizeof sr1__bwrap_init;

const char *const sr1__program_environment[SR1__BWRAP_ENVIRONMENT] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "LANG=C.UTF-8",
    "PYTHONHASHSEED=0",   /* the same outcome each time */
    "MALLOC_ARENA_MAX=2", /* each takes 64 MiB of address space, which is limited */
    "OMP_NUM_THREADS=1",
    "OPENBLAS_NUM_THREADS=1",
};

static void add_args(struct sr1__buf *b, const char *const *args)
{
    for (; *args != NULL; args++)
        sr1__buf_add(b, *args, strlen(*args) + 1);
}

#define ARGS(b, ...) add_args((b), (const char *const[]){__VA_ARGS__, NULL})

/* A path below `under` as one word. */
static void add_path(struct sr1__buf *b, const char *under, const char *path)
{
    sr1__buf_str(b, under);
    sr1__buf_add(b, path, strlen(path) + 1);
}

/* OPTION path under/path */
static void add_bind(struct sr1__buf *b, const char *option, const char *under,
                     const char *path)
{
    ARGS(b, option, path);
    add_path(b, under, path);
}

static void add_link(struct sr1__buf *b, const char *to, const char *under,
                     const char *path)
{
    ARGS(b, "--symlink", to);
    add_path(b, under, path);
}

/* ---- the system ---- */

/* The entries of the root folder besides /usr, and the links from the jail's own root to
 * its tree. */
static const struct {
    const char *path;
    const char *in_tree;
} tops[] = {
    {"/usr", "tree/usr"},     {"/bin", "tree/bin"},     {"/lib", "tree/lib"},
    {"/lib64", "tree/lib64"}, {"/lib32", "tree/lib32"}, {"/sbin", "tree/sbin"},
    {"/etc", "tree/etc"},
};

#define N_TOPS (sizeof tops / sizeof *tops)

/* As the host has it: a folder, or a link into /usr. */
static void add_top(struct sr1__buf *b, const char *under, const char *path)
{
    char to[64];
    ssize_t n = readlink(path, to, sizeof to - 1);

    if (n > 0) {
        to[n] = '\0';
        add_link(b, to, under, path);
    } else {
        add_bind(b, "--ro-bind-try", under, path);
    }
}

/* The files that every program needs; /etc contains nothing else. */
static void add_system_mounts(struct sr1__buf *b, const char *under)
{
    for (size_t i = 0; i + 1 < N_TOPS; i++)
        add_top(b, under, tops[i].path);
    add_bind(b, "--ro-bind-try", under, "/etc/ld.so.cache");
    add_bind(b, "--ro-bind-try", under, "/etc/alternatives");
}

/* bubblewrap's own --dev would mount eight times, and pseudo-terminals, which all
 * programs of a jail would share. */
static void add_devices(struct sr1__buf *b, const char *under)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full",
                                          "/dev/random", "/dev/urandom"};
    static const char *const links[][2] = {{"/proc/self/fd", "/dev/fd"},
                                           {"/proc/self/fd/0", "/dev/stdin"},
                                           {"/proc/self/fd/1", "/dev/stdout"},
                                           {"/proc/self/fd/2", "/dev/stderr"}};

    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        add_bind(b, "--dev-bind", under, devices[i]);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        add_link(b, links[i][0], under, links[i][1]);
}

/* All that programs see but /proc, /tmp and /dev/shm, for which it has folders. */
static void add_tree(struct sr1__buf *b, const sr1_sandbox_options *o, const char *under)
{
    static const char *const folders[] = {"/proc", "/tmp", "/dev", "/dev/shm"};

    add_system_mounts(b, under);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        ARGS(b, "--dir");
        add_path(b, under, folders[i]);
    }
    add_devices(b, under);
    for (size_t i = 0; i < o->n_read_only; i++)
        add_bind(b, "--ro-bind", under, o->read_only[i]);
}

static int lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Folders for reading only that the program's own /tmp or /dev/shm would hide. */
static void add_hidden(struct sr1__buf *b, const sr1_sandbox_options *o, const char *from)
{
    for (size_t i = 0; i < o->n_read_only; i++)
        if (lies_in(o->read_only[i], "/tmp") || lies_in(o->read_only[i], "/dev/shm")) {
            ARGS(b, "--ro-bind");
            add_path(b, from, o->read_only[i]);
            add_path(b, "", o->read_only[i]);
        }
}

static void add_init(struct sr1__buf *b, const char *under, size_t descriptor)
{
    char fd[24];

    (void)snprintf(fd, sizeof fd, "%zu", descriptor);
    ARGS(b, "--perms", "0555", "--file", fd);
    add_path(b, under, SR1__BWRAP_INIT);
}

/* bubblewrap runs in it once more, for each program: it needs the system, /proc of its
 * own processes, and /tmp to build in. */
void sr1__bwrap_jail(struct sr1__buf *b, const sr1_sandbox_options *o)
{
    ARGS(b, "--unshare-user", "--cap-drop", "ALL", "--new-session", "--die-with-parent",
         "--info-fd", "4", "--clearenv");
    add_tree(b, o, TREE);
    add_init(b, TREE, 5);
    for (size_t i = 0; i < N_TOPS; i++)
        ARGS(b, "--symlink", tops[i].in_tree, tops[i].path);
    ARGS(b, "--bind", "/proc", "/proc", "--dir", "/tmp");
    ARGS(b, "--remount-ro", "/", "--chdir", "/");
}

/* ---- a program ---- */

static void add_tmpfs(struct sr1__buf *b, int64_t bytes, const char *at)
{
    char size[24];

    (void)snprintf(size, sizeof size, "%" PRId64, bytes);
    ARGS(b, "--size", size, "--tmpfs", at);
}

static void add_setenv_args(struct sr1__buf *b)
{
    ARGS(b, "--clearenv", "--setenv", "HOME", "/tmp");
    for (size_t i = 0; i < SR1__BWRAP_ENVIRONMENT; i++) {
        const char *word = sr1__program_environment[i];
        const char *is = strchr(word, '=');

        ARGS(b, "--setenv");
        sr1__buf_add(b, word, (size_t)(is - word));
        sr1__buf_char(b, '\0');
        sr1__buf_add(b, is + 1, strlen(is + 1) + 1);
    }
}

static void add_file_args(struct sr1__buf *b, const struct sr1__sandbox_job *job)
{
    char fd[16];

    ARGS(b, "--file", "7", "/tmp/main.py");
    for (size_t i = 0; i < job->n_files; i++) {
        (void)snprintf(fd, sizeof fd, "%zu", FIRST_FILE + i);
        ARGS(b, "--file", fd);
        add_path(b, "/tmp/", job->files[i].path);
    }
}

/* Files of the caller's come on top of what the program may write. */
static int64_t tmp_bytes(const struct sr1__bwrap_program *p)
{
    const struct sr1__sandbox_job *job = p->job;
    int64_t bytes = p->options->tmp_mib * MIB + (int64_t)job->code.n + 65536;

    for (size_t i = 0; i < job->n_files; i++)
        bytes += (int64_t)job->files[i].bytes.n + 65536;
    return bytes;
}

void sr1__bwrap_run(struct sr1__buf *b, const struct sr1__bwrap_program *p)
{
    ARGS(b, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
         "--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session",
         "--die-with-parent", "--as-pid-1", "--hostname", "sandbox", "--info-fd", "5");
    if (p->filtered)
        ARGS(b, "--seccomp", "6");
    add_setenv_args(b);
    if (p->in_jail) {
        ARGS(b, "--dev-bind", TREE, "/");
    } else {
        ARGS(b, "--unshare-net");
        add_tree(b, p->options, "");
        add_init(b, "", FIRST_FILE + p->job->n_files);
    }
    if (p->with_proc)
        ARGS(b, "--proc", "/proc");
    add_tmpfs(b, p->options->tmp_mib * MIB, "/dev/shm");
    add_tmpfs(b, tmp_bytes(p), "/tmp");
    add_hidden(b, p->options, p->in_jail ? TREE : "");
    add_file_args(b, p->job);
    ARGS(b, "--remount-ro", "/", "--chdir", "/tmp");
}
