/* retrieval/server/deadlines.c - see deadlines.h. A thread checks the whole list a few
 * times a second, which is cheap for a thousand connections. */
#include "retrieval/server/deadlines.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#define LOOK_NS 250000000

struct sr1__deadline {
    struct sr1__deadlines *all;
    struct sr1__deadline *next;
    struct sr1__deadline **link; /* what points here */
    double at;                   /* 0: never */
    int fd;
};

struct sr1__deadlines {
    pthread_mutex_t lock; /* guards the list and what is in it */
    pthread_cond_t wake;
    pthread_t thread;
    struct sr1__deadline *first;
    int started;
    int closing;
};

/* The daemon sees the end of the connection, and closes it. */
static void cut_off_late(struct sr1__deadlines *d)
{
    double now = sr1__now();

    for (struct sr1__deadline *l = d->first; l != NULL; l = l->next) {
        if (l->at == 0 || l->at > now)
            continue;
        (void)shutdown(l->fd, SHUT_RDWR);
        l->at = 0;
    }
}

static void *watch_deadlines(void *arg)
{
    struct sr1__deadlines *d = arg;

    pthread_mutex_lock(&d->lock);
    while (!d->closing) {
        struct timespec until = sr1__clock_time(sr1__now() + 1e-9 * LOOK_NS);

        (void)pthread_cond_timedwait(&d->wake, &d->lock, &until);
        cut_off_late(d);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

sr1_status sr1__deadlines_open(struct sr1__deadlines **out)
{
    struct sr1__deadlines *d = sr1__calloc(1, sizeof(*d));

    if (d == NULL)
        return sr1__fail_nomem("server");
    pthread_mutex_init(&d->lock, NULL);
    sr1__cond_init(&d->wake);
    d->started = sr1__thread_start(&d->thread, watch_deadlines, d) == 0;
    if (!d->started) {
        sr1__deadlines_close(d);
        return sr1__fail(SR1_E_LIMIT, "server: the system refused a thread");
    }
    *out = d;
    return SR1_OK;
}

void sr1__deadlines_close(struct sr1__deadlines *d)
{
    if (d == NULL)
        return;
    if (d->started) {
        pthread_mutex_lock(&d->lock);
        d->closing = 1;
        pthread_cond_signal(&d->wake);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    pthread_cond_destroy(&d->wake);
    pthread_mutex_destroy(&d->lock);
    sr1__free(d);
}

struct sr1__deadline *sr1__deadline_add(struct sr1__deadlines *d, int fd)
{
    struct sr1__deadline *l = sr1__calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->all = d;
    l->fd = fd;
    pthread_mutex_lock(&d->lock);
    l->next = d->first;
    l->link = &d->first;
    if (l->next != NULL)
        l->next->link = &l->next;
    d->first = l;
    pthread_mutex_unlock(&d->lock);
    return l;
}

void sr1__deadline_set(struct sr1__deadline *l, double seconds)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->all->lock);
    l->at = seconds > 0 ? sr1__now() + seconds : 0;
    pthread_mutex_unlock(&l->all->lock);
}

void sr1__deadline_remove(struct sr1__deadline *l)
{
    struct sr1__deadlines *d;

    if (l == NULL)
        return;
    d = l->all;
    pthread_mutex_lock(&d->lock);
    *l->link = l->next;
    if (l->next != NULL)
        l->next->link = l->link;
    pthread_mutex_unlock(&d->lock);
    sr1__free(l);
}
