/* sandbox/watch.c - walk /proc/PID/task/TID/children from the namespace's first process.
 *
 * A resident set counts shared pages in each process; only where the sum of those is too
 * large are the proportional sizes asked for, which the kernel adds up page by page. */
#include "sandbox/watch.h"

#include "base/num.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PROCESSES_MAX 4096
#define TEXT_MAX 4096

struct tree {
    pid_t pids[PROCESSES_MAX];
    int n;
};

/* A file's first bytes as text; 0 when there are none. */
static int read_text(const char *path, char text[TEXT_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, TEXT_MAX - 1) : -1;

    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* A space follows each number: one without has been cut off with the text. */
static void add_children(struct tree *t, const char *text)
{
    char *end;

    while (t->n < PROCESSES_MAX) {
        long pid = strtol(text, &end, 10);

        if (end == text || pid <= 0 || *end != ' ')
            return;
        t->pids[t->n++] = (pid_t)pid;
        text = end;
    }
}

static void add_threads_children(struct tree *t, pid_t pid)
{
    char path[300], text[TEXT_MAX];
    struct dirent *entry;
    DIR *threads;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if ((threads = opendir(path)) == NULL)
        return;
    while ((entry = readdir(threads)) != NULL) {
        (void)snprintf(path, sizeof path, "/proc/%d/task/%.100s/children", (int)pid,
                       entry->d_name);
        if (entry->d_name[0] != '.' && read_text(path, text))
            add_children(t, text);
    }
    (void)closedir(threads);
}

/* The number of kB after a name in one of /proc's tables; 0: not there. */
static int64_t kilobytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static int64_t field(pid_t pid, const char *file, const char *name)
{
    char path[64], text[TEXT_MAX];

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return read_text(path, text) ? 1024 * kilobytes(text, name) : 0;
}

static void add_sizes(pid_t pid, struct sr1__usage *u)
{
    char path[64], text[TEXT_MAX];
    int64_t peak;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (!read_text(path, text))
        return;
    u->bytes += 1024 * kilobytes(text, "VmRSS:");
    peak = 1024 * kilobytes(text, "VmHWM:");
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
    if (!read_text(path, text) || (at = strrchr(text, ')')) == NULL)
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

void sr1__watch(pid_t root, int isolated, int64_t limit, struct sr1__usage *out)
{
    struct tree t = {.n = 1, .pids = {root}};

    memset(out, 0, sizeof *out);
    for (int i = 0; i < t.n; i++) {
        add_sizes(t.pids[i], out);
        out->cpu_s += cpu_of(t.pids[i]);
        add_threads_children(&t, t.pids[i]);
    }
    if (out->bytes > limit) {
        out->bytes = 0;
        for (int i = 0; i < t.n; i++)
            out->bytes += field(t.pids[i], "smaps_rollup", "\nPss:");
    }
    if (isolated)
        out->names = names_in(root, "/tmp") + names_in(root, "/dev/shm");
}
