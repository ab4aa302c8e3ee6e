/* environment/sandbox/memory_monitor.c - walk /proc/PID/task/TID/children from the
 * namespace's first process.
 *
 * A resident set counts shared pages in each process. The proportional sizes, which the
 * kernel adds up page by page, are read only if the sum of the resident sets is too
 * large. */
#include "environment/sandbox/memory_monitor.h"

#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TEXT_MAX 4096
#define FEW 4096

struct tree {
    pid_t few[FEW]; /* most runs have no more, and their looks take no memory */
    pid_t *pids;    /* [room] few, or memory of its own */
    int32_t n;
    int32_t room;
    int is_partial; /* there are more */
};

/* A file's first bytes as text; 0 when there are none. */
static int read_proc_text(const char *path, char text[TEXT_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, TEXT_MAX - 1) : -1;

    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* 1: there is room for one more. */
static int make_room(struct tree *t)
{
    pid_t *before = t->pids == t->few ? NULL : t->pids;
    pid_t *pids;

    if (t->n < t->room)
        return 1;
    if (t->room >= SR1__WATCH_PROCESSES)
        return 0;
    pids = sr1__realloc(before, 2 * (size_t)t->room, sizeof(*pids));
    if (pids == NULL)
        return 0;
    if (before == NULL)
        memcpy(pids, t->few, sizeof t->few);
    t->pids = pids;
    t->room *= 2;
    return 1;
}

static void add_process(struct tree *t, pid_t pid)
{
    if (make_room(t))
        t->pids[t->n++] = pid;
    else
        t->is_partial = 1;
}

/* The whole file: a space follows each number, and a piece may end within one. */
static void add_children(struct tree *t, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char bytes[TEXT_MAX];
    ssize_t n;
    pid_t pid = 0;

    while (fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] >= '0' && bytes[i] <= '9') {
                pid = 10 * pid + (bytes[i] - '0');
                continue;
            }
            if (pid > 0)
                add_process(t, pid);
            pid = 0;
        }
    }
    if (fd >= 0)
        (void)close(fd);
}

static void add_threads_children(struct tree *t, pid_t pid)
{
    char path[300];
    struct dirent *entry;
    DIR *threads;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if ((threads = opendir(path)) == NULL)
        return;
    while ((entry = readdir(threads)) != NULL) {
        (void)snprintf(path, sizeof path, "/proc/%d/task/%.100s/children", (int)pid,
                       entry->d_name);
        if (entry->d_name[0] != '.')
            add_children(t, path);
    }
    (void)closedir(threads);
}

/* The number of kB after a name in one of /proc's tables; 0: not there. */
static int64_t parse_kilobytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static int64_t read_proc_field(pid_t pid, const char *file, const char *name)
{
    char path[64], text[TEXT_MAX];

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return read_proc_text(path, text) ? 1024 * parse_kilobytes(text, name) : 0;
}

static void add_sizes(pid_t pid, struct sr1__usage *u)
{
    char path[64], text[TEXT_MAX];
    int64_t peak;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (!read_proc_text(path, text))
        return;
    u->bytes += 1024 * parse_kilobytes(text, "VmRSS:");
    peak = 1024 * parse_kilobytes(text, "VmHWM:");
    if (peak > u->peak_bytes)
        u->peak_bytes = peak;
}

/* Fields 14 to 17 of /proc/PID/stat: its time and that of its children, in ticks. */
static double cpu_of(pid_t pid)
{
    char path[64], text[TEXT_MAX];
    const char *at;
    char *end;
    double ticks = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_proc_text(path, text) || (at = strrchr(text, ')')) == NULL)
        return 0;
    for (int field = 2; field < 14 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    for (int i = 0; i < 4 && at != NULL; i++, at = end)
        ticks += (double)strtoll(at, &end, 10);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

static int64_t names_in(pid_t pid, const char *folder)
{
    struct statvfs s;
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, folder);
    return statvfs(path, &s) == 0 ? (int64_t)(s.f_files - s.f_ffree) : 0;
}

void sr1__memory_monitor_read(pid_t root, int isolated, int64_t limit,
                              struct sr1__usage *out)
{
    struct tree t = {.room = FEW};

    memset(out, 0, sizeof *out);
    t.pids = t.few;
    add_process(&t, root);
    for (int32_t i = 0; i < t.n; i++) {
        add_sizes(t.pids[i], out);
        out->cpu_s += cpu_of(t.pids[i]);
        add_threads_children(&t, t.pids[i]);
    }
    if (out->bytes > limit) {
        out->bytes = 0;
        for (int32_t i = 0; i < t.n; i++)
            out->bytes += read_proc_field(t.pids[i], "smaps_rollup", "\nPss:");
    }
    if (isolated)
        out->names = names_in(root, "/tmp") + names_in(root, "/dev/shm");
    out->processes = t.n;
    out->is_partial = t.is_partial;
    if (t.pids != t.few)
        sr1__free(t.pids);
}
