/* environment/env/search_env.c - the environment that answers actions by searching.
 *
 * The actions of a call are one batch to the engine. A failed search does not fail the
 * call: its action gets the status and an empty text, and the rollout decides whether the
 * trajectory continues. */
#include "environment/env/search_env.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "environment/env/sink.h"
#include "retrieval/search/search_engine.h"

#include <string.h>

struct search_env {
    sr1_search *engine;
    const struct sr1__document_format *format;
    int32_t top_k;
    atomic_ullong last_failure; /* that was logged */
};

static void free_queries(char **queries, size_t n)
{
    size_t i;

    for (i = 0; queries != NULL && i < n; i++)
        sr1__free(queries[i]);
    sr1__free(queries);
}

/* The actions as strings; a NUL byte within becomes a space. */
static sr1_status make_queries(const sr1_env_action *const *actions, size_t n,
                               char ***out)
{
    char **queries = sr1__calloc(n, sizeof *queries);
    size_t i, k;

    SR1__CHECK_ALLOC(queries, "queries");
    for (i = 0; i < n; i++) {
        queries[i] = sr1__strndup(actions[i]->text, actions[i]->len);
        if (queries[i] == NULL) {
            free_queries(queries, n);
            return sr1__fail_nomem("queries");
        }
        for (k = 0; k < actions[i]->len; k++)
            if (queries[i][k] == '\0')
                queries[i][k] = ' ';
    }
    *out = queries;
    return SR1_OK;
}

sr1_status sr1__search_put_hits(const struct sr1__document_format *format,
                                const sr1_search_results *found, size_t i,
                                sr1_env_sink *sink, size_t at)
{
    int32_t n = sr1_search_results_hit_count(found, i), k;
    struct sr1__buf text;
    sr1_status status = SR1_OK;

    sr1__buf_init(&text, 0);
    for (k = 0; status == SR1_OK && k < n; k++) {
        sr1_search_hit hit = {sizeof hit};

        status = sr1_search_results_hit(found, i, k, &hit);
        if (status != SR1_OK)
            break;
        format->write(&text, k + 1, hit.id != NULL ? hit.id : "", hit.contents);
        status = sr1_env_sink_hit(sink, at, hit.id);
    }
    if (status == SR1_OK)
        status = sr1__buf_status(&text, "text of hits");
    if (status == SR1_OK)
        status = sr1_env_sink_text(sink, at, sr1__buf_cstr(&text), text.len);
    sr1__buf_free(&text);
    return status;
}

static sr1_status write_search_answer(const struct search_env *e,
                                      const sr1_search_results *found, size_t i,
                                      sr1_env_sink *sink)
{
    int32_t how = sr1_search_results_status(found, i);
    const char *message = sr1_search_results_message(found, i);

    if (sr1__search_is_failure(how))
        return sr1__env_sink_failure(sink, i, how, message);
    SR1__TRY(sr1_env_sink_status(sink, i, how));
    if (how == SR1_ACTION_OK)
        return sr1__search_put_hits(e->format, found, i, sink, i);
    return sr1_env_sink_text(sink, i, message, strlen(message));
}

/* Log one line for all failures of a batch, unless the same cause was logged last. */
static void log_failed_searches(struct search_env *e, const sr1_search_results *found,
                                size_t n)
{
    const char *why;
    size_t failed = 0, last = 0;

    for (size_t i = 0; i < n; i++) {
        if (!sr1__search_failed(found, i))
            continue;
        failed++;
        last = i;
    }
    why = sr1_search_results_message(found, last);
    if (failed > 0 && sr1__log_is_news(&e->last_failure, why))
        sr1__log(SR1_LOG_WARN, "%zu of %zu searches failed: %.300s", failed, n, why);
}

static sr1_status search_act(void *self, const sr1_env_action *const *actions, size_t n,
                             sr1_env_sink *sink)
{
    struct search_env *e = self;
    sr1_search_results *found = NULL;
    char **queries = NULL;
    sr1_status status;
    size_t i;

    SR1__TRY(make_queries(actions, n, &queries));
    status = sr1__search_run_rows(e->engine, (const char *const *)queries, n, e->top_k,
                                  &found);
    for (i = 0; status == SR1_OK && i < n; i++)
        status = write_search_answer(e, found, i, sink);
    if (status == SR1_OK)
        log_failed_searches(e, found, n);
    sr1_search_results_free(found);
    free_queries(queries, n);
    return status;
}

static void destroy_search_env(void *self)
{
    struct search_env *e = self;

    sr1_search_free(e->engine);
    sr1__free(e);
}

/* This environment has no state of its own, so the engine's word holds for it. */
static int32_t search_env_flags(const sr1_search *engine)
{
    int32_t flags = sr1__search_flags(engine);

    return (flags & SR1_SEARCH_WAITS ? SR1_ENV_WAITS : 0) |
           (flags & SR1_SEARCH_CONCURRENT ? SR1_ENV_CONCURRENT : 0) |
           (flags & SR1_SEARCH_THREADS ? SR1_ENV_SEPARATE : 0);
}

sr1_status sr1__search_env_new(void **self, sr1_env_ops *ops, sr1_search *engine,
                               const struct sr1__document_format *format, int32_t top_k)
{
    struct search_env *e;

    if (engine == NULL)
        return sr1__fail(SR1_E_INVALID, "environment 'search' needs a search engine");
    SR1__CALLOC(e, 1, "environment");
    e->engine = sr1_search_retain(engine);
    e->format = format;
    e->top_k = top_k;
    ops->struct_size = sizeof *ops;
    ops->name = "search";
    ops->act = search_act;
    ops->flags = search_env_flags(engine);
    ops->destroy = destroy_search_env;
    *self = e;
    return SR1_OK;
}
