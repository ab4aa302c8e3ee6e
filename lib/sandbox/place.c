/* sandbox/place.c - a program under bubblewrap, or with limits alone.
 *
 *     bwrap                new namespaces, mounts, no capabilities, system calls filtered
 *       sh (pid 1)         limits on processes and file size, then "started"
 *         python3 main.py
 *
 * The shell is the namespace's first process: when the program ends it ends, and with it
 * the kernel ends whatever the program has left behind. bubblewrap waits for it, so its
 * own end means that nothing is left, and its resource usage is that of all of them.
 *
 * Code, input and files go over in memory: nothing is written to a disk. */
#include "sandbox/place.h"

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534U /* what root becomes: limits on processes do not bind root */
#define OPEN_FILES 512
#define FIXED_FDS 8 /* of place_isolated, before those of further files */
#define MIB ((int64_t)1 << 20)

/* $1 processes, $2 blocks of a file, then the program. Descriptor 2 is ours, 3 is the
 * program's. dash calls the first limit -p, others -u. */
static const char script[] =
    "ulimit -f \"$2\" && { ulimit -u \"$1\" 2>/dev/null || "
    "ulimit -p \"$1\"; } || exit 125\n"
    "shift 2\n"
    "trap : INT\n" /* the one signal that would reach the first process of a run */
    "( echo started >&2; exec \"$@\" 2>&3 3>&- )\n"
    "c=$?\n"
    "echo \"ended $c\" >&2\n"
    "exit $c\n";

static const char *const environment[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "LANG=C.UTF-8",
    "PYTHONHASHSEED=0",   /* the same outcome each time */
    "MALLOC_ARENA_MAX=2", /* each takes 64 MiB of address space, which is limited */
    "OMP_NUM_THREADS=1",
    "OPENBLAS_NUM_THREADS=1",
};

#define N_ENVIRONMENT (sizeof environment / sizeof *environment)

/* ---- finding the parts ---- */

static const char *first_executable(const char *const *paths)
{
    for (; *paths != NULL; paths++)
        if (access(*paths, X_OK) == 0)
            return *paths;
    return NULL;
}

sr1_status sr1__place_init(struct sr1__place *p, const sr1_sandbox_options *o)
{
    static const char *const bwraps[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", NULL};
    static const char *const pythons[] = {"/usr/bin/python3", "/usr/local/bin/python3",
                                          "/bin/python3", NULL};
    const char *given[] = {o->interpreter, NULL};
    const char *isolation = o->isolation != NULL ? o->isolation : "";

    memset(p, 0, sizeof *p);
    sr1__buf_init(&p->filter, 0);
    p->o = o;
    p->with_proc = 1;
    p->isolated = strcmp(isolation, "none") != 0;
    if (p->isolated && strcmp(isolation, "bubblewrap") != 0)
        return sr1__fail(SR1_E_INVALID,
                         "sandbox: isolation is '%.40s'; it must be bubblewrap or none",
                         isolation);
    p->python = first_executable(o->interpreter != NULL ? given : pythons);
    if (p->python == NULL || *p->python != '/')
        return sr1__fail(
            SR1_E_UNSUPPORTED,
            "sandbox: no interpreter %s: install python3, or name one by its "
            "absolute path",
            o->interpreter != NULL ? o->interpreter : "/usr/bin/python3");
    if (!p->isolated)
        return SR1_OK;
    if ((p->bwrap = first_executable(bwraps)) == NULL)
        return sr1__fail(
            SR1_E_UNSUPPORTED,
            "sandbox: programs cannot be isolated: there is no /usr/bin/bwrap; "
            "install the package bubblewrap, or set isolation to none for "
            "programs that you trust");
    return sr1__filter_make(&p->filter);
}

void sr1__place_free(struct sr1__place *p)
{
    sr1__buf_free(&p->filter);
}

/* ---- bubblewrap's arguments ---- */

/* Each with its NUL, as --args reads them. */
static void add_args(struct sr1__buf *b, const char *const *args)
{
    for (; *args != NULL; args++)
        sr1__buf_add(b, *args, strlen(*args) + 1);
}

#define ARGS(b, ...) add_args((b), (const char *const[]){__VA_ARGS__, NULL})

static void add_tmpfs(struct sr1__buf *b, int64_t bytes, const char *at)
{
    char size[24];

    (void)snprintf(size, sizeof size, "%" PRId64, bytes);
    ARGS(b, "--size", size, "--tmpfs", at);
}

/* What the host has at the top, as it has it: folders, or links into /usr. */
static void add_top(struct sr1__buf *b)
{
    static const char *const tops[] = {"/bin", "/lib", "/lib64", "/lib32", "/sbin"};
    char to[64];

    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        ssize_t n = readlink(tops[i], to, sizeof to - 1);

        if (n > 0) {
            to[n] = '\0';
            ARGS(b, "--symlink", to, tops[i]);
        } else {
            ARGS(b, "--ro-bind-try", tops[i], tops[i]);
        }
    }
}

static void add_environment(struct sr1__buf *b)
{
    ARGS(b, "--clearenv", "--setenv", "HOME", "/tmp");
    for (size_t i = 0; i < N_ENVIRONMENT; i++) {
        const char *is = strchr(environment[i], '=');

        ARGS(b, "--setenv");
        sr1__buf_add(b, environment[i], (size_t)(is - environment[i]));
        sr1__buf_char(b, '\0');
        sr1__buf_add(b, is + 1, strlen(is + 1) + 1);
    }
}

static void add_files(struct sr1__buf *b, const struct sr1__job *job)
{
    char fd[16];

    ARGS(b, "--file", "7", "/tmp/main.py");
    for (size_t i = 0; i < job->n_files; i++) {
        (void)snprintf(fd, sizeof fd, "%zu", FIXED_FDS + i);
        ARGS(b, "--file", fd);
        sr1__buf_str(b, "/tmp/");
        sr1__buf_add(b, job->files[i].path, strlen(job->files[i].path) + 1);
    }
}

/* Files of the caller's come on top of what the program may write. */
static int64_t tmp_bytes(const struct sr1__place *p, const struct sr1__job *job)
{
    int64_t bytes = p->o->tmp_mib * MIB + (int64_t)job->code.n + 65536;

    for (size_t i = 0; i < job->n_files; i++)
        bytes += (int64_t)job->files[i].bytes.n + 65536;
    return bytes;
}

static void bubblewrap_args(const struct sr1__place *p, const struct sr1__job *job,
                            struct sr1__buf *b)
{
    ARGS(b, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc",
         "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session",
         "--die-with-parent", "--as-pid-1", "--hostname", "sandbox", "--info-fd", "5");
    if (p->filter.len > 0)
        ARGS(b, "--seccomp", "6");
    add_environment(b);
    ARGS(b, "--ro-bind", "/usr", "/usr");
    add_top(b);
    ARGS(b, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--ro-bind-try",
         "/etc/alternatives", "/etc/alternatives", "--dev", "/dev");
    if (p->with_proc)
        ARGS(b, "--proc", "/proc");
    add_tmpfs(b, p->o->tmp_mib * MIB, "/dev/shm");
    add_tmpfs(b, tmp_bytes(p, job), "/tmp");
    for (size_t i = 0; i < p->o->n_read_only; i++)
        ARGS(b, "--ro-bind", p->o->read_only[i], p->o->read_only[i]);
    add_files(b, job);
    ARGS(b, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp");
}

/* ---- starting ---- */

static sr1_status make_pipe(int *read_end, int *write_end)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return sr1__fail_errno("make a pipe", "for a program");
    *read_end = fds[0];
    *write_end = fds[1];
    if (fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0)
        return sr1__fail_errno("make a pipe", "for a program");
    return SR1_OK;
}

static sr1_status add_bytes(struct sr1__spawn *s, const void *bytes, size_t n)
{
    int fd = n > 0 ? sr1__fd_of_bytes(bytes, n) : open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return sr1__fail_errno("keep in memory", "what a program is given");
    s->fds[s->n_fds++] = fd;
    return SR1_OK;
}

static sr1_status add_pipe(struct sr1__spawn *s, int *read_end)
{
    int write_end = -1;
    sr1_status st = make_pipe(read_end, &write_end);

    if (write_end >= 0)
        s->fds[s->n_fds++] = write_end;
    return st;
}

/* Descriptors 0 to 7 and those of further files, in this order. */
static sr1_status open_isolated(const struct sr1__place *p, const struct sr1__job *job,
                                struct sr1__spawn *s, struct sr1__launched *l)
{
    struct sr1__buf args;
    sr1_status st;

    SR1__TRY(add_bytes(s, job->input.data, job->input.n));
    SR1__TRY(add_pipe(s, &l->out));
    SR1__TRY(add_pipe(s, &l->note));
    SR1__TRY(add_pipe(s, &l->err));
    sr1__buf_init(&args, 0);
    bubblewrap_args(p, job, &args);
    st = sr1__buf_status(&args, "bubblewrap's arguments");
    if (st == SR1_OK)
        st = add_bytes(s, args.data, args.len);
    sr1__buf_free(&args);
    SR1__TRY(st);
    SR1__TRY(add_pipe(s, &l->info));
    SR1__TRY(add_bytes(s, p->filter.data, p->filter.len));
    SR1__TRY(add_bytes(s, job->code.data, job->code.n));
    for (size_t i = 0; i < job->n_files; i++)
        SR1__TRY(add_bytes(s, job->files[i].bytes.data, job->files[i].bytes.n));
    return SR1_OK;
}

/* argv of n_fixed + the job's arguments + NULL; NULL: no memory. */
static const char **make_argv(const char *const *fixed, size_t n_fixed,
                              const struct sr1__job *job)
{
    const char **argv = sr1__calloc(n_fixed + job->n_args + 1, sizeof(*argv));

    if (argv == NULL)
        return NULL;
    memcpy(argv, fixed, n_fixed * sizeof *fixed);
    for (size_t i = 0; i < job->n_args; i++)
        argv[n_fixed + i] = job->args[i];
    return argv;
}

static sr1_status start(struct sr1__spawn *s, const char **argv, struct sr1__launched *l)
{
    if (argv == NULL)
        return sr1__fail_nomem("a program's arguments");
    s->argv = (char *const *)argv;
    return sr1__spawn(s, &l->pid, &l->pidfd);
}

static sr1_status launch_isolated(const struct sr1__place *p, const struct sr1__job *job,
                                  struct sr1__spawn *s, struct sr1__launched *l)
{
    static const char *const no_environment[] = {NULL};
    char processes[16], blocks[24];
    const char *fixed[] = {p->bwrap, "--args",  "4",       "--",   "/bin/sh", "-c",
                           script,   "sandbox", processes, blocks, p->python, "main.py"};
    const char **argv;
    sr1_status st;

    (void)snprintf(processes, sizeof processes, "%d", job->limits.processes + 1);
    (void)snprintf(blocks, sizeof blocks, "%" PRId64, p->o->file_mib * (MIB / 512));
    SR1__TRY(open_isolated(p, job, s, l));
    s->path = p->bwrap;
    s->envp = (char *const *)no_environment;
    s->drop_to = geteuid() == 0 ? NOBODY : 0;
    s->file_bytes = SR1__SPAWN_NO_LIMIT;
    argv = make_argv(fixed, sizeof fixed / sizeof *fixed, job);
    st = start(s, argv, l);
    sr1__free(argv);
    return st;
}

/* ---- without isolation ---- */

static sr1_status write_file(const char *folder, const char *name,
                             const struct sr1__bytes *bytes)
{
    char *path = sr1__path_join(folder, name);
    char *end = path != NULL ? strrchr(path, '/') : NULL;
    sr1_status st;

    if (end == NULL)
        return sr1__fail_nomem("a program's file");
    *end = '\0';
    st = sr1__dir_make(path);
    *end = '/';
    if (st == SR1_OK) {
        FILE *f = fopen(path, "wxe");
        int bad = f == NULL || fwrite(bytes->data, 1, bytes->n, f) != bytes->n;

        if (f != NULL)
            bad |= fclose(f) != 0;
        if (bad)
            st = sr1__fail_errno("cannot write", path);
    }
    sr1__free(path);
    return st;
}

static sr1_status make_folder(const struct sr1__job *job, struct sr1__launched *l)
{
    const char *under = getenv("TMPDIR");

    l->folder = sr1__path_join(under != NULL && *under == '/' ? under : "/tmp",
                               "searchr1-run-XXXXXX");
    if (l->folder == NULL)
        return sr1__fail_nomem("a program's folder");
    if (mkdtemp(l->folder) == NULL) {
        sr1__free(l->folder);
        l->folder = NULL;
        return sr1__fail_errno("cannot make", "a folder for a program");
    }
    SR1__TRY(write_file(l->folder, "main.py", &job->code));
    for (size_t i = 0; i < job->n_files; i++)
        SR1__TRY(write_file(l->folder, job->files[i].path, &job->files[i].bytes));
    return SR1_OK;
}

static sr1_status start_bare(const struct sr1__place *p, const struct sr1__job *job,
                             struct sr1__spawn *s, struct sr1__launched *l)
{
    const char *fixed[] = {p->python, "main.py"};
    const char *envp[N_ENVIRONMENT + 2] = {NULL};
    struct sr1__buf home;
    const char **argv;
    sr1_status st;

    sr1__buf_init(&home, 0);
    sr1__buf_fmt(&home, "HOME=%s", l->folder);
    st = sr1__buf_status(&home, "environment of a program");
    memcpy(envp, environment, sizeof environment);
    envp[N_ENVIRONMENT] = home.data;
    s->path = p->python;
    s->folder = l->folder;
    s->envp = (char *const *)envp;
    s->file_bytes = p->o->file_mib * MIB;
    argv = make_argv(fixed, 2, job);
    if (st == SR1_OK)
        st = start(s, argv, l);
    sr1__free(argv);
    sr1__buf_free(&home);
    return st;
}

static sr1_status launch_bare(const struct sr1__place *p, const struct sr1__job *job,
                              struct sr1__spawn *s, struct sr1__launched *l)
{
    SR1__TRY(make_folder(job, l));
    SR1__TRY(add_bytes(s, job->input.data, job->input.n));
    SR1__TRY(add_pipe(s, &l->out));
    SR1__TRY(add_pipe(s, &l->err));
    return start_bare(p, job, s, l);
}

sr1_status sr1__place_launch(const struct sr1__place *p, const struct sr1__job *job,
                             struct sr1__launched *out)
{
    struct sr1__launched l = {
        .pidfd = -1, .out = -1, .err = -1, .note = -1, .info = -1, .init = -1};
    struct sr1__spawn s;
    sr1_status st;

    memset(&s, 0, sizeof s);
    s.memory_bytes = job->limits.memory_mib * MIB;
    s.cpu_s = (int64_t)ceil(job->limits.cpu_s);
    s.files = OPEN_FILES;
    st = p->isolated ? launch_isolated(p, job, &s, &l) : launch_bare(p, job, &s, &l);
    for (int i = 0; i < s.n_fds; i++)
        sr1__fd_close(&s.fds[i]);
    if (st != SR1_OK) {
        sr1__launched_free(&l);
        return st;
    }
    *out = l;
    return SR1_OK;
}

/* ---- ending ---- */

/* The parent of a process, from /proc; 0 when it is not known. */
static pid_t parent_of(pid_t pid)
{
    char path[40], text[256];
    const char *after;
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    sr1__fd_close(&fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    after = strrchr(text, ')'); /* the name before it may hold anything */
    return after != NULL && strlen(after) > 4 ? (pid_t)strtol(after + 4, NULL, 10) : 0;
}

/* bubblewrap writes {"child-pid": N before the child goes on, and more behind it later:
 * the pipe stays open, or that would end bubblewrap (SIGPIPE). */
void sr1__launched_find_init(struct sr1__launched *l)
{
    static const char name[] = "\"child-pid\":";
    char text[512];
    const char *at;
    ssize_t n;

    if (l->info < 0 || l->init_pid > 0)
        return;
    n = read(l->info, text, sizeof text - 1);
    if (n <= 0)
        return;
    text[n] = '\0';
    at = strstr(text, name);
    l->init_pid = at != NULL ? (pid_t)strtol(at + sizeof name - 1, NULL, 10) : 0;
    if (l->init_pid <= 0)
        return;
    l->init = sr1__pidfd_open(l->init_pid);
    /* Only bubblewrap's own child: the number may be another process's by now. */
    if (l->init >= 0 && parent_of(l->init_pid) != l->pid)
        sr1__fd_close(&l->init);
}

int sr1__launched_kill(struct sr1__launched *l, int force)
{
    if (l->note < 0) {
        (void)kill(-l->pid, SIGKILL);
        return 1;
    }
    sr1__launched_find_init(l);
    if (l->init < 0 && !force)
        return 0;
    sr1__pidfd_kill(l->init >= 0 ? l->init : l->pidfd);
    return 1;
}

void sr1__launched_free(struct sr1__launched *l)
{
    sr1__fd_close(&l->pidfd);
    sr1__fd_close(&l->out);
    sr1__fd_close(&l->err);
    sr1__fd_close(&l->note);
    sr1__fd_close(&l->info);
    sr1__fd_close(&l->init);
    if (l->folder != NULL)
        (void)sr1__dir_remove(l->folder);
    sr1__free(l->folder);
    l->folder = NULL;
}
