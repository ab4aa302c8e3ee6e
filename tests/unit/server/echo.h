/* echo.h - an engine that finds the query itself, and fails when the query says so. */
#ifndef SR1_TESTS_ECHO_H
#define SR1_TESTS_ECHO_H

#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct echo {
    atomic_int delay_ms; /* of each call */
    atomic_int calls;
};

static inline sr1_status echo_search(void *self, const char *const *queries, size_t n,
                                     int32_t top_k, sr1_search_sink *sink)
{
    struct echo *e = self;
    int ms = atomic_load(&e->delay_ms);
    const struct timespec delay = {ms / 1000, ms % 1000 * 1000000};

    (void)top_k;
    atomic_fetch_add(&e->calls, 1);
    if (ms > 0)
        nanosleep(&delay, NULL);
    for (size_t i = 0; i < n; i++) {
        char row[512];
        sr1_status status;

        if (strcmp(queries[i], "boom") == 0)
            return sr1_set_error(SR1_E_IO, "the disk is on fire");
        if (strcmp(queries[i], "gone") == 0)
            status = sr1_search_sink_status(sink, i, SR1_ACTION_ERROR, "it is away");
        else if (strcmp(queries[i], "bytes") == 0)
            return sr1_set_error(SR1_E_IO, "odd \xff \"bytes\"");
        else if (strcmp(queries[i], "late") == 0)
            status = sr1_search_sink_status(sink, i, SR1_ACTION_TIMEOUT, NULL);
        else if (strcmp(queries[i], "nothing") == 0)
            continue;
        else
            status = sr1_search_sink_hit(sink, i, queries[i], "plain", 1.5);
        if (status == SR1_OK && strncmp(queries[i], "raw ", 4) == 0)
            status = sr1_search_sink_row(sink, i, queries[i] + 4);
        if (status == SR1_OK && strncmp(queries[i], "row ", 4) == 0) {
            snprintf(row, sizeof row,
                     "{\"id\": \"%s\", \"contents\": \"T\\n%s\", \"more\": [1.50, {}]}",
                     queries[i], queries[i]);
            status = sr1_search_sink_row(sink, i, row);
        }
        if (status != SR1_OK)
            return status;
    }
    return SR1_OK;
}

static inline sr1_status echo_open(sr1_search **out, struct echo *e)
{
    sr1_search_ops ops = {sizeof ops, "echo", echo_search, NULL,
                          SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS};

    return sr1_search_new(out, &ops, e);
}

#endif
