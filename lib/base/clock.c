/* base/clock.c - monotonic time, resident memory (Linux: /proc/self/statm, getrusage). */
#include "base/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double sr1__now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void sr1__cond_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(c, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

struct timespec sr1__clock_time(double at)
{
    struct timespec t = {.tv_sec = (time_t)at};

    t.tv_nsec = (long)((at - (double)t.tv_sec) * 1e9);
    return t;
}

int64_t sr1__rss_bytes(void)
{
    char text[128];
    char *end;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    strtoll(text, &end, 10); /* total size; resident pages follow */
    return strtoll(end, NULL, 10) * (int64_t)sysconf(_SC_PAGESIZE);
}

int64_t sr1__peak_rss_bytes(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (int64_t)usage.ru_maxrss * 1024;
}

int64_t sr1__available_bytes(void)
{
    static const char name[] = "MemAvailable:";
    char text[4096];
    const char *at;
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, name);
    return at ? strtoll(at + sizeof name - 1, NULL, 10) * 1024 : 0;
}
