/* base/log.c - one sink for the process, called by one thread at a time. What the sink
 * itself makes the library log is dropped: it would call the sink without end. */
#include "base/log.h"

#include "base/rng.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local int in_sink;
static sr1_log_fn sink;
static void *sink_user;

void sr1_log_set(sr1_log_fn fn, void *user)
{
    pthread_mutex_lock(&lock);
    sink = fn;
    sink_user = user;
    pthread_mutex_unlock(&lock);
}

void sr1__log(int32_t level, const char *fmt, ...)
{
    char text[SR1__ERROR_MAX];
    va_list ap;
    int n;

    if (in_sink)
        return;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    pthread_mutex_lock(&lock);
    if (sink) {
        in_sink = 1;
        sink(sink_user, level, text);
        in_sink = 0;
    }
    pthread_mutex_unlock(&lock);
}

int sr1__log_is_news(atomic_ullong *last, const char *text)
{
    unsigned long long now = sr1__hash64(text, strlen(text), 1);

    return atomic_exchange(last, now) != now;
}
