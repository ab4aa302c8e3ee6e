/* tensor/model/route_log.c - a row for each token, found by its key: for each layer the
 * numbers of its experts. */
#include "tensor/model/route_log.h"

#include "base/hash_index.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>

#define NOT_ROUTED UINT16_MAX

struct sr1__route_log {
    pthread_mutex_t lock;
    struct sr1__hash_index places;
    uint64_t *keys;    /* [n] */
    uint32_t *writers; /* [n] numbers of the passes that wrote the rows; 0: none */
    uint16_t *rows;    /* [n, width] */
    size_t n, keys_cap, writers_cap, rows_cap;
    size_t k;     /* experts of a token in a layer */
    size_t width; /* of a row: k for each layer */
};

sr1_status sr1__route_log_new(struct sr1__route_log **out,
                              const struct sr1__hf_config *config)
{
    struct sr1__route_log *log;

    if (config->n_experts >= NOT_ROUTED)
        return sr1__fail(SR1_E_LIMIT, "router replay: more than %d experts",
                         NOT_ROUTED - 1);
    SR1__CALLOC(log, 1, "router replay");
    pthread_mutex_init(&log->lock, NULL);
    log->k = (size_t)config->experts_per_token;
    log->width = log->k * (size_t)config->n_layers;
    *out = log;
    return SR1_OK;
}

void sr1__route_log_free(struct sr1__route_log *log)
{
    if (!log)
        return;
    pthread_mutex_destroy(&log->lock);
    sr1__hash_index_free(&log->places);
    sr1__free(log->keys);
    sr1__free(log->writers);
    sr1__free(log->rows);
    sr1__free(log);
}

static sr1_status add_row(struct sr1__route_log *log, uint64_t key)
{
    SR1__TRY(sr1__hash_index_reserve(&log->places));
    SR1__RESERVE(log->keys, log->keys_cap, log->n + 1, "router replay");
    SR1__RESERVE(log->writers, log->writers_cap, log->n + 1, "router replay");
    SR1__RESERVE(log->rows, log->rows_cap, (log->n + 1) * log->width, "router replay");
    SR1__TRY(sr1__hash_index_add(&log->places, key, log->n));
    log->keys[log->n] = key;
    log->writers[log->n] = 0;
    memset(log->rows + log->n * log->width, 0xFF, log->width * sizeof *log->rows);
    log->n++;
    return SR1_OK;
}

/* n: there is none. */
static size_t find_row(const struct sr1__route_log *log, uint64_t key)
{
    struct sr1__hash_probe p = {.hash = key};

    while (sr1__hash_index_next(&log->places, &p))
        if (log->keys[p.item] == key)
            return p.item;
    return log->n;
}

sr1_status sr1__route_log_place(struct sr1__route_log *log, uint64_t key, int64_t *place)
{
    sr1_status status = SR1_OK;
    size_t row;

    pthread_mutex_lock(&log->lock);
    row = find_row(log, key);
    if (row == log->n)
        status = add_row(log, key);
    pthread_mutex_unlock(&log->lock);
    if (status == SR1_OK)
        *place = (int64_t)row;
    return status;
}

void sr1__route_log_restart(struct sr1__route_log *log)
{
    for (size_t i = 0; i < log->n; i++)
        log->writers[i] = 0;
}

/* Whether what is chosen now goes into the row at this place, which a pass that keeps its
 * choices makes its own, unless one of a smaller number has. */
static int claim_row(struct sr1__route_log *log, size_t place, const uint16_t *row,
                     uint32_t recording)
{
    uint32_t *writer = &log->writers[place];

    if (recording == 0)
        return row[0] == NOT_ROUTED;
    if (*writer == 0 || recording < *writer)
        *writer = recording;
    return recording == *writer;
}

void sr1__route_log_apply(const struct sr1__routes *routes, size_t n, int32_t layer,
                          int64_t *chosen)
{
    struct sr1__route_log *log = routes->log;

    pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < n; i++) {
        size_t place = (size_t)routes->places[i];
        uint16_t *row = log->rows + place * log->width + (size_t)layer * log->k;
        int64_t *now = chosen + i * log->k;
        int writes = claim_row(log, place, row, routes->recording);

        for (size_t j = 0; j < log->k; j++) {
            if (writes)
                row[j] = (uint16_t)now[j];
            else if (routes->recording == 0)
                now[j] = row[j];
        }
    }
    pthread_mutex_unlock(&log->lock);
}
