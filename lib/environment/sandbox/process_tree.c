/* environment/sandbox/process_tree.c - find the first process of a namespace, and kill
 * the whole tree. */
#include "environment/sandbox/process_tree.h"

#include "base/file.h"
#include "base/mem.h"
#include "environment/sandbox/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void sr1__process_tree_init(struct sr1__process_tree *l)
{
    memset(l, 0, sizeof *l);
    l->pidfd = l->out = l->err = l->note = l->info = l->init = l->net = -1;
}

/* The parent of a process, from /proc; 0 when it is not known. */
static pid_t read_parent_pid(pid_t pid)
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
void sr1__process_tree_find_init(struct sr1__process_tree *l)
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
    if (l->init >= 0 && read_parent_pid(l->init_pid) != l->pid)
        sr1__fd_close(&l->init);
}

int sr1__process_tree_kill(struct sr1__process_tree *l, int force)
{
    if (l->note < 0) {
        (void)kill(-l->pid, SIGKILL);
        return 1;
    }
    sr1__process_tree_find_init(l);
    if (l->init < 0 && !force)
        return 0;
    sr1__pidfd_kill(l->init >= 0 ? l->init : l->pidfd);
    l->forced = l->init < 0;
    return 1;
}

void sr1__process_tree_free(struct sr1__process_tree *l)
{
    sr1__fd_close(&l->pidfd);
    sr1__fd_close(&l->out);
    sr1__fd_close(&l->err);
    sr1__fd_close(&l->note);
    sr1__fd_close(&l->info);
    sr1__fd_close(&l->init);
    sr1__fd_close(&l->net);
    if (l->folder != NULL)
        (void)sr1__dir_remove(l->folder);
    sr1__free(l->folder);
    l->folder = NULL;
}
