/* environment/code/tester.c - one long-lived program gets the descriptors of each check
 * over a socket, and forks a child that works on them. */
#include "environment/code/tester.h"

#include "base/mem.h"
#include "environment/code/scripts.h"
#include "environment/sandbox/sandbox_engine.h"
#include "environment/sandbox/spawn.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define DESCRIPTORS 3
#define PATIENCE_S 30 /* a loaded machine; it reads at once */

struct sr1__tester {
    pthread_mutex_t lock;
    sr1_sandbox *box;    /* of answers */
    sr1_sandbox *beside; /* its own; NULL: not yet */
    sr1_execution *run;  /* NULL: none */
    int fd;
};

static void stop_tester(struct sr1__tester *t)
{
    sr1__fd_close(&t->fd);
    sr1_execution_free(t->run);
    t->run = NULL;
}

static sr1_status start_on(struct sr1__tester *t, int theirs)
{
    static const char *const names[] = {"answer.py"};
    const char *const bytes[] = {sr1__answer_py};
    const size_t sizes[] = {strlen(sr1__answer_py)};
    sr1_program program;

    sr1_program_init(&program);
    program.code = sr1__judge_py;
    program.file_paths = names;
    program.file_bytes = bytes;
    program.file_sizes = sizes;
    program.n_files = 1;
    return sr1__sandbox_start_linked(t->beside, &program, theirs, &t->run);
}

static sr1_status start_tester(struct sr1__tester *t)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    sr1_status status;
    int pair[2];

    if (t->beside == NULL)
        SR1__TRY(sr1__sandbox_open_beside(&t->beside, t->box));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return sr1__fail_errno("make a socket", "for tests");
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    status = start_on(t, pair[1]);
    sr1__fd_close(&pair[1]);
    if (status != SR1_OK)
        sr1__fd_close(&pair[0]);
    t->fd = pair[0];
    return status;
}

static int is_running(const struct sr1__tester *t)
{
    return t->run != NULL && sr1_execution_wait(t->run, 0) != SR1_OK;
}

static int send_descriptors(int fd, const int *descriptors)
{
    char byte = '+';
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t sent;

    memset(&control, 0, sizeof(control));
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(DESCRIPTORS * sizeof(int));
    memcpy(CMSG_DATA(&control.head), descriptors, DESCRIPTORS * sizeof(int));
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1;
}

/* One that has ended is started again, once. */
static sr1_status send_to_tester(struct sr1__tester *t, const int *descriptors)
{
    for (int i = 0; i < 2; i++) {
        if (!is_running(t)) {
            stop_tester(t);
            SR1__TRY(start_tester(t));
        }
        if (send_descriptors(t->fd, descriptors))
            return SR1_OK;
        stop_tester(t);
    }
    return sr1__fail(SR1_E_IO, "the process that runs tests does not stay");
}

sr1_status sr1__tester_give(struct sr1__tester *t, int socket, int tests, int report)
{
    const int descriptors[DESCRIPTORS] = {socket, tests, report};
    sr1_status status;

    pthread_mutex_lock(&t->lock);
    status = send_to_tester(t, descriptors);
    pthread_mutex_unlock(&t->lock);
    return status;
}

sr1_status sr1__tester_lives(struct sr1__tester *t)
{
    sr1_execution_result r = {.struct_size = sizeof(r)};
    sr1_status status = SR1_OK;

    pthread_mutex_lock(&t->lock);
    if (!is_running(t)) {
        status = t->run != NULL ? sr1_execution_result_get(t->run, &r) : SR1_E_IO;
        status = sr1__fail(SR1_E_IO, "the process that runs tests has ended: %s",
                           status == SR1_OK ? r.message : "it was not started");
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

sr1_status sr1__tester_new(struct sr1__tester **out, sr1_sandbox *box)
{
    struct sr1__tester *t = sr1__calloc(1, sizeof(*t));

    SR1__CHECK_ALLOC(t, "checker");
    pthread_mutex_init(&t->lock, NULL);
    t->box = sr1_sandbox_retain(box);
    t->fd = -1;
    *out = t;
    return SR1_OK;
}

void sr1__tester_free(struct sr1__tester *t)
{
    if (t == NULL)
        return;
    stop_tester(t);
    sr1_sandbox_free(t->beside);
    sr1_sandbox_free(t->box);
    pthread_mutex_destroy(&t->lock);
    sr1__free(t);
}
