/* environment/sandbox/jail.c - create a jail: bubblewrap makes its namespaces around a
 * shell that waits. Namespaces live as long as descriptors of them are open, so the shell
 * can then end. */
#include "environment/sandbox/jail.h"

#include "base/clock.h"
#include "environment/sandbox/bubblewrap.h"
#include "environment/sandbox/child.h"
#include "environment/sandbox/process_tree.h"
#include "environment/sandbox/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_S 20.0 /* a busy machine takes a second */

void sr1__jail_init(struct sr1__jail *j)
{
    memset(j, 0, sizeof *j);
    j->user = j->mount = -1;
}

void sr1__jail_close(struct sr1__jail *j)
{
    sr1__fd_close(&j->user);
    sr1__fd_close(&j->mount);
    while (j->n_nets > 0)
        sr1__fd_close(&j->nets[--j->n_nets]);
}

int sr1__jail_is_open(const struct sr1__jail *j)
{
    return j->user >= 0;
}

/* ---- made by bubblewrap ---- */

/* Descriptors 0 to 5: what it waits for, its output, its words, bubblewrap's arguments
 * and report, and init. */
static sr1_status give_holder(struct sr1__spawn *s, const sr1_sandbox_options *o,
                              struct sr1__process_tree *l, int *hold)
{
    struct sr1__buf args;
    sr1_status st;

    SR1__TRY(sr1__spawn_tell(s, hold));
    SR1__TRY(sr1__spawn_listen(s, &l->out));
    SR1__TRY(sr1__spawn_listen(s, &l->note));
    sr1__buf_init(&args, 0);
    sr1__bwrap_jail(&args, o);
    st = sr1__buf_status(&args, "bubblewrap's arguments");
    if (st == SR1_OK)
        st = sr1__spawn_give_bytes(s, args.data, args.len);
    sr1__buf_free(&args);
    SR1__TRY(st);
    SR1__TRY(sr1__spawn_listen(s, &l->info));
    return sr1__spawn_give_bytes(s, sr1__bwrap_init, sr1__bwrap_init_bytes);
}

static sr1_status start_holder(const char *bwrap, const sr1_sandbox_options *o,
                               uint32_t drop_to, struct sr1__process_tree *l, int *hold)
{
    static const char *const no_environment[] = {NULL};
    const char *const argv[] = {
        bwrap, "--args", "3", "--", "/bin/sh", "-c", "echo started >&2; read line", NULL};
    struct sr1__spawn s = {.path = bwrap,
                           .argv = (char *const *)argv,
                           .envp = (char *const *)no_environment,
                           .drop_to = drop_to,
                           .memory_bytes = SR1__SPAWN_NO_LIMIT,
                           .cpu_s = SR1__SPAWN_NO_LIMIT,
                           .file_bytes = SR1__SPAWN_NO_LIMIT,
                           .files = SR1__SPAWN_NO_LIMIT};
    sr1_status st = give_holder(&s, o, l, hold);

    if (st == SR1_OK)
        st = sr1__spawn(&s, &l->pid, &l->pidfd);
    sr1__spawn_close(&s);
    return st;
}

/* The first line of output of bubblewrap or the shell, without its line end. */
static void first_words(int fd, char *text, size_t size)
{
    double until = sr1__now() + OPEN_S;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    text[0] = '\0';
    while (sr1__now() < until && poll(&p, 1, 100) != 1)
        ;
    n = read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static int open_space(pid_t pid, const char *which)
{
    char path[48];

    (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, which);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static sr1_status open_spaces(struct sr1__jail *j, struct sr1__process_tree *l)
{
    char words[256];

    first_words(l->note, words, sizeof words);
    if (strcmp(words, "started") != 0)
        return sr1__fail(SR1_E_UNSUPPORTED, "%s",
                         words[0] != '\0' ? words : "bubblewrap says nothing");
    sr1__process_tree_find_init(l);
    if (l->init < 0)
        return sr1__fail(SR1_E_UNSUPPORTED, "its process is not seen");
    j->user = open_space(l->init_pid, "user");
    j->mount = open_space(l->init_pid, "mnt");
    if (j->user < 0 || j->mount < 0)
        return sr1__fail_errno("open", "its namespaces");
    return SR1_OK;
}

static void end_holder(struct sr1__process_tree *l)
{
    sr1__pidfd_kill(l->init >= 0 ? l->init : l->pidfd);
    sr1__spawn_wait(&l->pidfd);
}

sr1_status sr1__jail_open(struct sr1__jail *j, const char *bwrap,
                          const sr1_sandbox_options *o, int32_t programs,
                          uint32_t drop_to)
{
    struct sr1__process_tree l;
    int hold = -1, net = -1;
    sr1_status st;

    sr1__jail_init(j);
    j->drop_to = drop_to;
    j->keep = programs < SR1__JAIL_NETS ? (size_t)programs : SR1__JAIL_NETS;
    sr1__process_tree_init(&l);
    st = start_holder(bwrap, o, drop_to, &l, &hold);
    if (st == SR1_OK)
        st = open_spaces(j, &l);
    end_holder(&l);
    sr1__fd_close(&hold);
    sr1__process_tree_free(&l);
    if (st == SR1_OK)
        st = sr1__jail_take_net(j, &net); /* it may fail where the rest does not */
    if (st == SR1_OK)
        sr1__jail_give_net(j, &net);
    else
        sr1__jail_close(j);
    return st;
}

/* ---- networks ---- */

struct net {
    struct sr1__child child; /* first */
    const struct sr1__jail *jail;
    int fd;
    int lingers;
};

static int raise_loopback(void)
{
    struct ifreq lo;
    int fd = (int)syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc;

    memset(&lo, 0, sizeof lo);
    memcpy(lo.ifr_name, "lo", 3);
    lo.ifr_flags = IFF_UP | IFF_RUNNING;
    if (fd < 0)
        return -1;
    rc = (int)syscall(SYS_ioctl, fd, SIOCSIFFLAGS, &lo);
    (void)syscall(SYS_close, fd);
    return rc;
}

/* A port is free again as soon as its program has ended. */
static int let_nothing_linger(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/sys/net/ipv4/tcp_max_tw_buckets",
                          O_WRONLY | O_CLOEXEC);
    long n;

    if (fd < 0)
        return -1;
    n = syscall(SYS_write, fd, "0", 1);
    (void)syscall(SYS_close, fd);
    return n == 1 ? 0 : -1;
}

/* Descriptors are shared with this process: the one opened here stays. */
static const char *make_net(struct sr1__child *c)
{
    struct net *net = (struct net *)c;

    if (sr1__child_become(net->jail->drop_to) != 0)
        return "change the user";
    if (setns(net->jail->user, CLONE_NEWUSER) != 0)
        return "enter the user namespace";
    if (syscall(SYS_unshare, CLONE_NEWNET) != 0)
        return "make a network namespace";
    if (raise_loopback() != 0)
        return "raise the loopback";
    net->lingers = let_nothing_linger() != 0;
    net->fd =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return net->fd < 0 ? "keep the network namespace" : NULL;
}

sr1_status sr1__jail_take_net(struct sr1__jail *j, int *out)
{
    struct net net = {{.work = make_net}, j, -1, 0};
    int pidfd;

    if (j->n_nets > 0) {
        *out = j->nets[--j->n_nets];
        return SR1_OK;
    }
    if (sr1__child_run(&net.child, CLONE_FILES, &pidfd) >= 0) { /* it never becomes one */
        sr1__spawn_wait(&pidfd);
        net.child.failed = "it was killed";
        net.child.error = ECHILD;
    }
    if (net.fd < 0) {
        errno = net.child.error;
        return sr1__fail_errno("make a network:", net.child.failed);
    }
    j->once |= net.lingers;
    *out = net.fd;
    return SR1_OK;
}

void sr1__jail_give_net(struct sr1__jail *j, int *net)
{
    if (*net >= 0 && !j->once && j->n_nets < j->keep) {
        j->nets[j->n_nets++] = *net;
        *net = -1;
    }
    sr1__fd_close(net);
}
