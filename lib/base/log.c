/* base/log.c - one sink for the process, called by one thread at a time. No thread waits
 * for another one's call: the sink may itself wait for that thread, as what frees a
 * server does. Its message is kept, and told by the thread that is in the sink. What the
 * sink itself makes the library log is dropped: it would call the sink without end. */
#include "base/log.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define KEPT_MAX ((size_t)1 << 20) /* bytes of messages that wait */

struct kept_message {
    struct kept_message *next;
    size_t size;
    int32_t level;
    char text[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_free = PTHREAD_COND_INITIALIZER;
static _Thread_local int in_sink;
static int busy; /* a thread is in the sink, or about to tell it what was kept */
static sr1_log_fn sink;
static void *sink_user;
static struct kept_message *first_kept, *last_kept;
static size_t bytes_kept;
static unsigned long lost; /* messages that could not be kept */

/* All of these with the lock held. */

static void keep_message(int32_t level, const char *text)
{
    size_t n = strlen(text) + 1, size = sizeof(struct kept_message) + n;
    struct kept_message *m = bytes_kept + size <= KEPT_MAX ? sr1__malloc(size) : NULL;

    if (!m) {
        lost++;
        return;
    }
    *m = (struct kept_message){.size = size, .level = level};
    memcpy(m->text, text, n);
    if (last_kept)
        last_kept->next = m;
    else
        first_kept = m;
    last_kept = m;
    bytes_kept += size;
}

static struct kept_message *take_message(void)
{
    struct kept_message *m = first_kept;

    if (!m)
        return NULL;
    first_kept = m->next;
    last_kept = first_kept ? last_kept : NULL;
    bytes_kept -= m->size;
    return m;
}

static void call_sink(int32_t level, const char *text)
{
    sr1_log_fn fn = sink;
    void *user = sink_user;

    if (!fn)
        return;
    pthread_mutex_unlock(&lock);
    in_sink = 1;
    fn(user, level, text);
    in_sink = 0;
    pthread_mutex_lock(&lock);
}

static void tell_kept(void)
{
    struct kept_message *m;
    char text[100];

    while ((m = take_message()) != NULL) {
        call_sink(m->level, m->text);
        sr1__free(m);
    }
    if (lost == 0)
        return;
    snprintf(text, sizeof text, "log: %lu messages were lost: the sink was too slow",
             lost);
    lost = 0;
    call_sink(SR1_LOG_WARN, text);
}

void sr1_log_set(sr1_log_fn fn, void *user)
{
    pthread_mutex_lock(&lock);
    while (busy && !in_sink)
        pthread_cond_wait(&is_free, &lock);
    sink = fn;
    sink_user = user;
    pthread_mutex_unlock(&lock);
}

/* With the lock held, which is let go for the time of each call. */
static void tell_sink(int32_t level, const char *text)
{
    if (busy) {
        keep_message(level, text);
        return;
    }
    busy = 1;
    call_sink(level, text);
    while (first_kept || lost)
        tell_kept();
    busy = 0;
    pthread_cond_broadcast(&is_free);
}

void sr1__log(int32_t level, const char *fmt, ...)
{
    char text[SR1__ERROR_MAX], whole[SR1__ERROR_MAX];
    va_list ap;
    int n;

    if (in_sink)
        return;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    (void)sr1__utf8_clean(text, sr1__utf8_complete(text, strlen(text)), whole,
                          sizeof whole);
    pthread_mutex_lock(&lock);
    if (sink)
        tell_sink(level, whole);
    pthread_mutex_unlock(&lock);
}

int sr1__log_is_news(atomic_ullong *last, const char *text)
{
    unsigned long long now = sr1__hash64(text, strlen(text), 1);

    return atomic_exchange(last, now) != now;
}
