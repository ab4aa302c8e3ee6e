/* environment/sandbox/spawn.h - start a program that inherits only the listed descriptors
 * from this process.
 *
 * It inherits no handler, mask or other descriptor of the host, the host's children are
 * not waited for, and the host's memory is not copied, however large (the child borrows
 * it until exec). */
#ifndef SR1__SANDBOX_SPAWN_H
#define SR1__SANDBOX_SPAWN_H

#include "base/error.h"

#include <sys/types.h>

#define SR1__SPAWN_FDS 272
#define SR1__SPAWN_SPACES 4
#define SR1__SPAWN_NO_LIMIT (-1)

struct sr1__spawn {
    const char *path;        /* of the executable, absolute */
    char *const *argv;       /* NULL-terminated */
    char *const *envp;       /* NULL-terminated */
    const char *folder;      /* to start in; NULL: / */
    int fds[SR1__SPAWN_FDS]; /* become descriptors 0, 1, ...; all others are closed */
    int n_fds;
    uint32_t drop_to;              /* user and group to become, for root; 0: stay */
    int spaces[SR1__SPAWN_SPACES]; /* namespaces to enter then, in this order */
    int n_spaces;
    /* Limits; SR1__SPAWN_NO_LIMIT leaves the host's. */
    int64_t memory_bytes; /* address space */
    int64_t cpu_s;        /* SIGXCPU, a second later SIGKILL */
    int64_t file_bytes;
    int64_t files; /* open at a time */
};

/* ---- filling fds, each its next one ---- */

/* With these bytes to be read. */
sr1_status sr1__spawn_give_bytes(struct sr1__spawn *s, const void *bytes, size_t n);
/* A copy of a descriptor. */
sr1_status sr1__spawn_give_copy(struct sr1__spawn *s, int fd);
/* A pipe that it writes and the caller reads (never waiting). The caller closes its end,
 * which is set as soon as there is one. */
sr1_status sr1__spawn_listen(struct sr1__spawn *s, int *read_end);
/* A pipe the other way. */
sr1_status sr1__spawn_tell(struct sr1__spawn *s, int *write_end);
/* Close them all. */
void sr1__spawn_close(struct sr1__spawn *s);

/* ---- starting and ending ---- */

/* Start it as the leader of a session of its own, to be killed when the calling thread
 * ends. *pid, and *pidfd (close-on-exec; the caller closes it), are set on success.
 * SR1_E_IO with the reason else. */
sr1_status sr1__spawn(const struct sr1__spawn *what, pid_t *pid, int *pidfd);

struct sr1__ended {
    int known;     /* 0: somebody else in this process waited for it */
    int exit_code; /* -1: a signal */
    int signal;
    double cpu_s; /* of it and all it waited for */
    int64_t peak_bytes;
};

/* 1 when the process behind pidfd has ended. */
int sr1__spawn_ready(int pidfd);
/* The same, and it has been waited for: its number may be another process's. */
int sr1__spawn_ended(int pidfd, struct sr1__ended *out);

/* Wait until then, and close it. */
void sr1__spawn_wait(int *pidfd);

int sr1__pidfd_open(pid_t pid);  /* -1: no such process */
void sr1__pidfd_kill(int pidfd); /* SIGKILL */
void sr1__fd_close(int *fd);     /* and set it to -1 */
/* A close-on-exec descriptor with these bytes, at their beginning; nobody can change
 * them. -1 on failure. */
int sr1__fd_of_bytes(const void *bytes, size_t n);

#endif
