/* policy/prompt_fit.c - questions whose prompts are too long: found before work begins,
 * not hours later. */
#include "policy/dataset_queries.h"
#include "policy/rollout_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "text/data/dataset.h"

/* *fits 0: the prompt of row i is too long, and such questions are left out. */
static sr1_status check_prompt_length(const sr1_rollout *r, const sr1_dataset *d,
                                      int64_t i, int *fits)
{
    struct sr1__dataset_queries a;
    int32_t *ids = NULL;
    size_t n = 0;
    sr1_status st = sr1__dataset_queries_read_plain(&a, d, NULL, i, 1);

    if (st == SR1_OK) {
        st = sr1__rollout_prompt(r, a.queries, &ids, &n);
        *fits = st != SR1_E_LIMIT;
        if (!*fits && r->limits.filter)
            st = SR1_OK;
        st = sr1__context(st, "question '%.64s'", a.queries[0].id);
        st = sr1__dataset_context(d, i, st);
    }
    sr1_free(ids);
    sr1__dataset_queries_free(&a);
    return st;
}

static sr1_status filter_prompts(const sr1_rollout *r, const sr1_dataset *d,
                                 const char *what, int64_t n, int64_t *rows,
                                 int64_t *kept)
{
    *kept = 0;
    for (int64_t i = 0; i < n; i++) {
        int fits = 0;

        SR1__TRY(check_prompt_length(r, d, i, &fits));
        if (fits)
            rows[(*kept)++] = i;
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
