/* policy/prompt_fit.c - questions whose prompts are too long: found before work begins,
 * not hours later. */
#include "policy/dataset_queries.h"
#include "policy/rollout_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "text/data/dataset.h"

sr1_status sr1__rollout_row_prompt(const sr1_rollout *r, const sr1_dataset *d, int64_t i,
                                   int32_t **ids, size_t *n)
{
    struct sr1__dataset_queries a;
    sr1_status st = sr1__dataset_queries_read_plain(&a, d, NULL, i, 1);

    *ids = NULL;
    if (st == SR1_OK) {
        st = sr1__rollout_prompt(r, a.queries, ids, n);
        if (st == SR1_E_LIMIT && r->limits.filter)
            st = SR1_OK;
        st = sr1__context(st, "question '%.64s'", a.queries[0].id);
        st = sr1__dataset_context(d, i, st);
    }
    sr1__dataset_queries_free(&a);
    return st;
}

static sr1_status filter_prompts(const sr1_rollout *r, const sr1_dataset *d,
                                 const char *what, int64_t n, int64_t *rows,
                                 int64_t *kept)
{
    *kept = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t *ids;
        size_t n_ids;

        SR1__TRY(sr1__rollout_row_prompt(r, d, i, &ids, &n_ids));
        if (ids)
            rows[(*kept)++] = i;
        sr1_free(ids);
    }
    if (*kept == 0 && n > 0)
        return sr1__fail(SR1_E_CONFIG,
                         "the prompts of all %lld %s are longer than "
                         "max_prompt_tokens; raise it",
                         (long long)n, what);
    if (*kept < n)
        sr1__log(SR1_LOG_WARN, "%lld of %lld %s are left out: their prompts are too long",
                 (long long)(n - *kept), (long long)n, what);
    return SR1_OK;
}

sr1_status sr1__rollout_filter_prompts(const sr1_rollout *r, const sr1_dataset *d,
                                       const char *what, int64_t n, int64_t **rows,
                                       int64_t *kept)
{
    int64_t *found = sr1__calloc((size_t)n + 1, sizeof(*found));
    int64_t n_found = 0;
    sr1_status st = found ? filter_prompts(r, d, what, n, found, &n_found)
                          : sr1__fail_nomem("questions");

    if (st != SR1_OK) {
        sr1__free(found);
        return st;
    }
    *rows = found;
    *kept = n_found;
    return SR1_OK;
}
