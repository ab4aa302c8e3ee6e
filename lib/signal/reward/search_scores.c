/* signal/reward/search_scores.c - what the searches of a trajectory found, and what they
 * cost; see search_scores.h. */
#include "signal/reward/search_scores.h"

#include "base/json.h"
#include "base/mem.h"
#include "environment/env/conversation_turns.h"
#include "signal/reward/match.h"
#include "text/data/gold_ids.h"

#include <math.h>

/* ---- gold documents ---- */

/* The gold ids of the row that t is of: none where it has no row. */
static sr1_status read_gold_ids(struct sr1__gold_ids *gold, const sr1_trajectory *t,
                                const char *field)
{
    size_t n = 0;
    const char *text = sr1_trajectory_row_json(t, &n);
    json_t *row = NULL;
    sr1_status status;

    if (n == 0)
        return SR1_OK;
    SR1__TRY(sr1__json_parse(&row, text, n, "row"));
    status = sr1__gold_ids_read(gold, row, field);
    json_decref(row);
    return status;
}

/* Those of the gold ids that an action of t hit. seen [gold->n] is 0 at first. */
static size_t count_found(const struct sr1__gold_ids *gold, const sr1_trajectory *t,
                          char *seen)
{
    sr1_action_event e = {.struct_size = sizeof e};
    size_t found = 0;

    for (size_t i = 0; sr1_trajectory_search(t, i, &e) == SR1_OK; i++)
        for (int32_t k = 0; k < e.n_hit_ids; k++) {
            size_t at = sr1__gold_ids_find(gold, e.hit_ids[k]);

            if (at < gold->n && !seen[at]) {
                seen[at] = 1;
                found++;
            }
        }
    return found;
}

sr1_status sr1__trajectory_recall(const sr1_trajectory *t, const char *field, double *out)
{
    struct sr1__gold_ids gold = {0};
    char *seen = NULL;
    sr1_status status = read_gold_ids(&gold, t, field);
    double recall = NAN;

    if (status == SR1_OK && gold.n > 0) {
        seen = sr1__calloc(gold.n, 1);
        if (seen)
            recall = (double)count_found(&gold, t, seen) / (double)gold.n;
        else
            status = sr1__fail_nomem("gold ids");
    }
    if (status == SR1_OK)
        *out = recall;
    sr1__free(seen);
    sr1__gold_ids_free(&gold);
    return status;
}

sr1_status sr1__score_retrieval_recall(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out, int32_t *states)
{
    const struct sr1__reward_context *c = self;

    for (size_t i = 0; i < n; i++) {
        SR1__TRY(sr1__trajectory_recall(t[i], c->gold_ids_field, &out[i]));
        if (isnan(out[i]))
            states[i] = SR1_REWARD_NOT_APPLICABLE;
    }
    return SR1_OK;
}

/* ---- passages ---- */

sr1_status sr1__answer_was_retrieved(const struct sr1__protocol *p,
                                     const sr1_trajectory *t,
                                     const struct sr1__ground_truths *truths, int *out)
{
    struct sr1__turn m = {0};

    *out = 0;
    while (!*out && sr1__turn_next(p, t, &m)) {
        struct sr1__str result = {m.result, m.result_len};

        if (result.s)
            SR1__TRY(sr1__holds_answer(result, truths, out));
    }
    return SR1_OK;
}

sr1_status sr1__score_answer_retrieved(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out)
{
    const struct sr1__reward_context *c = self;

    for (size_t i = 0; i < n; i++) {
        struct sr1__ground_truths truths;
        int found = 0;

        SR1__TRY(sr1__ground_truths_of(t[i], i, &truths));
        SR1__TRY(sr1__answer_was_retrieved(c->protocol, t[i], &truths, &found));
        out[i] = found;
    }
    return SR1_OK;
}

/* ---- cost ---- */

sr1_status sr1__score_search_cost(void *self, const sr1_trajectory *const *t, size_t n,
                                  double *out)
{
    const struct sr1__reward_context *c = self;

    for (size_t i = 0; i < n; i++) {
        size_t searches = sr1_trajectory_search_count(t[i]);

        out[i] = searches > 0 ? -c->scales.search_price * (double)searches : 0;
    }
    return SR1_OK;
}
