/* retrieval/net/server_pool.c - see server_pool.h. */
#include "retrieval/net/server_pool.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/config.h"
#include "retrieval/net/openai_client.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PROBE_TIMEOUT_S 10.0
#define NO_SERVER SIZE_MAX

struct pool_server {
    const char *url;
    char origin[SR1__ORIGIN_MAX];
    sr1_openai *client; /* NULL: it has not answered yet; set once. This and all below
                         * guarded by the pool's lock */
    int32_t live;
    int32_t stale; /* its weights are others, or not known */
    int32_t probing;
    double probe_at; /* not live: sr1__now() of the next probe */
};

struct sr1__server_pool {
    sr1_config *config;
    char **urls;
    size_t n;
    struct pool_server *servers; /* [n] */
    double rest_s;
    int32_t held; /* servers that leave do not return by themselves */
    char *model;
    int32_t dialect;
    int64_t context;
    pthread_mutex_t lock;
};

/* ---- opening ---- */

static sr1_status keep_first_client(struct sr1__server_pool *p, const sr1_openai *client)
{
    p->model = sr1__strdup(sr1_openai_model(client));
    p->dialect = sr1_openai_dialect(client);
    p->context = sr1_openai_context(client);
    return p->model ? SR1_OK : sr1__fail_nomem("model name");
}

/* Servers of one pool answer for one another. */
static sr1_status compare_client(struct sr1__server_pool *p, const struct pool_server *s,
                                 const sr1_openai *client)
{
    const char *model = sr1_openai_model(client);
    int64_t context = sr1_openai_context(client);

    if (!p->model)
        return keep_first_client(p, client);
    if (strcmp(model, p->model) != 0)
        return sr1__fail(SR1_E_CONFIG,
                         "%.200s serves the model %.200s, another server of "
                         "openai_base_url %.200s; name one that all serve (openai_model)",
                         s->origin, model, p->model);
    if (sr1_openai_dialect(client) != p->dialect)
        return sr1__fail(SR1_E_CONFIG,
                         "%.200s speaks another dialect than the other servers of "
                         "openai_base_url; set openai_dialect, or leave it out",
                         s->origin);
    if (context > 0 && (p->context == 0 || context < p->context))
        p->context = context;
    return SR1_OK;
}

static sr1_status open_server_client(struct sr1__server_pool *p, struct pool_server *s)
{
    sr1_openai_options o;
    sr1_openai *client = NULL;
    sr1_status st = sr1__openai_configure(&o, p->config, s->url);

    if (st == SR1_OK)
        st = sr1_openai_new(&client, &o);
    SR1__TRY(st);
    pthread_mutex_lock(&p->lock);
    st = compare_client(p, s, client);
    if (st == SR1_OK && !s->client) { /* another thread may have been first */
        s->client = client;
        client = NULL;
    }
    pthread_mutex_unlock(&p->lock);
    sr1_openai_free(client);
    return st;
}

static int is_outage_status(sr1_status st)
{
    return st == SR1_E_NETWORK || st == SR1_E_TIMEOUT;
}

/* One that does not answer is left out, if another one does. */
static sr1_status open_servers(struct sr1__server_pool *p)
{
    struct sr1__error first = {0};
    size_t live = 0;

    for (size_t i = 0; i < p->n; i++) {
        struct pool_server *s = &p->servers[i];
        sr1_status st = open_server_client(p, s);

        if (st != SR1_OK && !is_outage_status(st))
            return st;
        s->live = st == SR1_OK;
        live += st == SR1_OK;
        if (st == SR1_OK)
            continue;
        sr1__error_keep_first(&first, st);
        if (p->n > 1)
            sr1__log(SR1_LOG_WARN, "generation server %s is left out: %s", s->origin,
                     sr1_last_error());
        s->probe_at = sr1__now() + p->rest_s;
    }
    return live > 0 ? SR1_OK : sr1__error_raise(&first);
}

static sr1_status name_servers(struct sr1__server_pool *p)
{
    SR1__TRY(sr1__openai_addresses(p->config, &p->urls, &p->n));
    SR1__CALLOC(p->servers, p->n, "generation servers");
    for (size_t i = 0; i < p->n; i++) {
        p->servers[i].url = p->urls[i];
        SR1__TRY(sr1__url_origin(p->urls[i], "openai server", p->servers[i].origin));
        for (size_t k = 0; k < i; k++)
            if (strcmp(p->urls[i], p->urls[k]) == 0)
                return sr1__fail(SR1_E_CONFIG, "openai_base_url names %.200s twice",
                                 p->servers[i].origin);
    }
    return SR1_OK;
}

static sr1_status fill_pool(struct sr1__server_pool *p, const sr1_config *c)
{
    SR1__TRY(sr1_config_copy(&p->config, c));
    p->rest_s = sr1__config_real(c, "openai_probe_interval");
    SR1__TRY(name_servers(p));
    return open_servers(p);
}

sr1_status sr1__server_pool_open(struct sr1__server_pool **out, const sr1_config *c)
{
    struct sr1__server_pool *p;

    SR1__CALLOC(p, 1, "generation servers");
    pthread_mutex_init(&p->lock, NULL);
    SR1__RETURN_NEW(out, p, fill_pool(p, c), sr1__server_pool_free);
}

void sr1__server_pool_free(struct sr1__server_pool *p)
{
    if (!p)
        return;
    for (size_t i = 0; p->servers && i < p->n; i++)
        sr1_openai_free(p->servers[i].client);
    sr1__free(p->servers);
    sr1__free(p->urls);
    sr1__free(p->model);
    sr1_config_free(p->config);
    pthread_mutex_destroy(&p->lock);
    sr1__free(p);
}

/* ---- leaving and returning ---- */

/* May another server have an answer? A request that is refused is refused by all. */
static int is_server_failure(const sr1_openai_result *r)
{
    int32_t code = r->http_code;

    if (r->status == SR1_OK || r->status == SR1_E_CANCELLED || r->status == SR1_E_NOMEM ||
        r->status == SR1_E_LIMIT)
        return 0;
    return code < 400 || code >= 500 || code == 408 || code == 425 || code == 429;
}

/* counts: of server i, the caller's. */
static void count_request(struct sr1__server_pool *p, size_t i, int failed,
                          const char *why, struct sr1__server_counts *counts)
{
    struct pool_server *s = &p->servers[i];
    int leaves;

    pthread_mutex_lock(&p->lock);
    counts->requests++;
    counts->failures += failed;
    leaves = failed && s->live && p->n > 1;
    if (leaves) {
        s->live = 0;
        s->stale = p->held;
        s->probe_at = sr1__now() + p->rest_s;
    }
    pthread_mutex_unlock(&p->lock);
    if (leaves)
        sr1__log(SR1_LOG_WARN,
                 "generation server %s is left out, others take its questions: %s",
                 s->origin, why);
}

static sr1_openai *find_client(struct sr1__server_pool *p, const struct pool_server *s)
{
    sr1_openai *client;

    pthread_mutex_lock(&p->lock);
    client = s->client;
    pthread_mutex_unlock(&p->lock);
    return client;
}

/* Does it list the model? A client of its own, which asks once and soon gives up. */
static sr1_status probe_server(struct sr1__server_pool *p, const struct pool_server *s)
{
    sr1_openai_options o;
    sr1_openai *client = NULL;
    sr1_status st = sr1__openai_configure(&o, p->config, s->url);

    o.retries = 0;
    o.breaker_failures = 0;
    o.connect_timeout_s = PROBE_TIMEOUT_S;
    if (o.timeout_s > PROBE_TIMEOUT_S)
        o.timeout_s = PROBE_TIMEOUT_S;
    if (st == SR1_OK)
        st = sr1_openai_new(&client, &o);
    sr1_openai_free(client);
    return st;
}

/* Not where weights were sent meanwhile: it has older ones. */
static void return_server(struct sr1__server_pool *p, struct pool_server *s)
{
    sr1_status st = probe_server(p, s);
    int returns;

    if (st == SR1_OK && !find_client(p, s))
        st = open_server_client(p, s);
    pthread_mutex_lock(&p->lock);
    returns = st == SR1_OK && !s->live && !s->stale && !p->held;
    s->probing = 0;
    s->live = s->live || returns;
    s->probe_at = sr1__now() + p->rest_s;
    pthread_mutex_unlock(&p->lock);
    if (returns)
        sr1__log(SR1_LOG_INFO, "generation server %s is back", s->origin);
}

/* Probe one that has rested; others are asked meanwhile. */
static void probe_rested(struct sr1__server_pool *p)
{
    struct pool_server *s = NULL;
    double now = sr1__now();

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n && !p->held && !s; i++)
        if (!p->servers[i].live && !p->servers[i].probing &&
            p->servers[i].probe_at <= now)
            s = &p->servers[i];
    if (s)
        s->probing = 1;
    pthread_mutex_unlock(&p->lock);
    if (s)
        return_server(p, s);
}

/* ---- choosing ---- */

/* By its place in the list: a run has the same servers for its questions wherever the
 * servers stand. */
static uint64_t score_server(uint64_t place, uint64_t question)
{
    return sr1__hash64(&place, sizeof(place), question);
}

/* The server with the highest score, of those that live or (any) of all with a client
 * that were not tried. */
static size_t choose_server(struct sr1__server_pool *p, uint64_t question,
                            const uint8_t *tried, int any)
{
    size_t best = NO_SERVER;
    uint64_t most = 0;

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n; i++) {
        const struct pool_server *s = &p->servers[i];
        uint64_t score = score_server(i, question);

        if (tried[i] || !s->client || s->stale || (!any && !s->live))
            continue;
        if (best == NO_SERVER || score > most) {
            best = i;
            most = score;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return best;
}

/* *failed: another server may have an answer. */
static sr1_status ask_chosen(struct sr1__server_pool *p, size_t i,
                             const sr1_openai_request *request, sr1_openai_results **out,
                             struct sr1__server_counts *counts, int *failed)
{
    sr1_openai_result r = {.struct_size = sizeof(r)};

    sr1_openai_results_free(*out);
    *out = NULL;
    SR1__TRY(sr1_openai_run(p->servers[i].client, request, 1, out));
    SR1__TRY(sr1_openai_results_get(*out, 0, &r));
    *failed = is_server_failure(&r);
    count_request(p, i, *failed, r.message, &counts[i]);
    return SR1_OK;
}

sr1_status sr1__server_pool_run(struct sr1__server_pool *p, uint64_t question,
                                const sr1_openai_request *request,
                                sr1_openai_results **out,
                                struct sr1__server_counts *counts)
{
    uint8_t tried[SR1__SERVERS_MAX] = {0};
    sr1_openai_results *answer = NULL;
    sr1_status st = SR1_OK;
    int failed = 1;
    size_t i;

    if (p->n > 1)
        probe_rested(p);
    i = choose_server(p, question, tried, 0);
    if (i == NO_SERVER) /* all are out: the question's own one says why */
        i = choose_server(p, question, tried, 1);
    while (st == SR1_OK && failed && i != NO_SERVER) {
        st = ask_chosen(p, i, request, &answer, counts, &failed);
        tried[i] = 1;
        i = choose_server(p, question, tried, 0);
    }
    if (st == SR1_OK && !answer)
        st = sr1__fail(SR1_E_NETWORK, "no generation server is left to ask");
    if (st == SR1_OK)
        *out = answer;
    else
        sr1_openai_results_free(answer);
    return st;
}

void sr1__server_pool_cancel(struct sr1__server_pool *p)
{
    for (size_t i = 0; i < p->n; i++)
        sr1_openai_cancel(find_client(p, &p->servers[i]));
}

/* ---- weights ---- */

void sr1__server_pool_hold(struct sr1__server_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->held = 1;
    pthread_mutex_unlock(&p->lock);
}

sr1_status sr1__server_pool_admit(struct sr1__server_pool *p, size_t i, const char *model)
{
    struct pool_server *s = &p->servers[i];
    int returns = !s->live;

    if (!find_client(p, s))
        SR1__TRY(open_server_client(p, s));
    if (model)
        SR1__TRY(sr1__openai_set_model(find_client(p, s), model));
    pthread_mutex_lock(&p->lock);
    s->live = 1;
    s->stale = 0;
    pthread_mutex_unlock(&p->lock);
    if (returns)
        sr1__log(SR1_LOG_INFO, "generation server %s is back, with the present weights",
                 s->origin);
    return SR1_OK;
}

void sr1__server_pool_exclude(struct sr1__server_pool *p, size_t i, const char *why)
{
    struct pool_server *s = &p->servers[i];

    pthread_mutex_lock(&p->lock);
    s->live = 0;
    s->stale = 1;
    pthread_mutex_unlock(&p->lock);
    sr1__log(SR1_LOG_WARN,
             "generation server %s is left out until it has taken the present weights: "
             "%s",
             s->origin, why);
}

sr1_openai *sr1__server_pool_client(const struct sr1__server_pool *p, size_t i)
{
    return p->servers[i].client;
}

/* ---- what is known of them ---- */

size_t sr1__server_pool_size(const struct sr1__server_pool *p)
{
    return p->n;
}

const char *sr1__server_pool_url(const struct sr1__server_pool *p, size_t i)
{
    return p->servers[i].url;
}

const char *sr1__server_pool_origin(const struct sr1__server_pool *p, size_t i)
{
    return p->servers[i].origin;
}

const char *sr1__server_pool_model(const struct sr1__server_pool *p)
{
    return p->model;
}

int32_t sr1__server_pool_dialect(const struct sr1__server_pool *p)
{
    return p->dialect;
}

int64_t sr1__server_pool_context(const struct sr1__server_pool *p)
{
    return p->context;
}

size_t sr1__server_pool_live(struct sr1__server_pool *p)
{
    size_t live = 0;

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n; i++)
        live += p->servers[i].live != 0;
    pthread_mutex_unlock(&p->lock);
    return live;
}
