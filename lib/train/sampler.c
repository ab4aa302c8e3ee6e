/* train/sampler.c - which rows of the data a step asks: in their order, epoch after
 * epoch, or those that a rule wants most by what is known of each
 * (signal/advantage/query_selection.c).
 *
 * Known of a row: how often it was asked, and of the last time the variance of its
 * group's rewards and its share of successes. A success reached the environment's goal,
 * or closed an answer that is a gold one (normalised exact match). All are floats, as a
 * checkpoint holds them. */
#include "train/sampler.h"

#include "base/mem.h"
#include "base/rng.h"
#include "environment/trajectory/trajectory.h"
#include "signal/reward/ground_truths.h"
#include "signal/reward/match.h"
#include "tensor/weights/safetensors.h"

#include <string.h>

/* ---- statistics of rows ---- */

sr1_status sr1__sampler_open(sr1_trainer *tr, int64_t rows)
{
    struct sr1__sampler *q = &tr->sampler;

    q->n = rows;
    if (sr1__config_is(tr->config, "query_selection", "order"))
        return SR1_OK;
    q->rule = sr1__config_str(tr->config, "query_selection");
    q->stats = sr1__calloc((size_t)rows, SR1__ROW_STATS * sizeof(*q->stats));
    return q->stats ? SR1_OK : sr1__fail_nomem("statistics of questions");
}

void sr1__sampler_close(sr1_trainer *tr)
{
    sr1__free(tr->sampler.stats);
    tr->sampler.stats = NULL;
}

static float *row_stats(const struct sr1__sampler *q, enum sr1__row_stat which)
{
    return q->stats + (size_t)which * (size_t)q->n;
}

/* Has it reached the goal, or closed an answer that is a gold one? */
static sr1_status is_success(const sr1_trajectory *t, double *out)
{
    const struct sr1__ground_truths truths = {.trajectory = t,
                                              .n = sr1_trajectory_ground_truth_count(t)};
    struct sr1__str answer;

    answer.s = sr1_trajectory_final_answer(t, &answer.n);
    *out = sr1__trajectory_succeeded(t);
    if (*out == 1.0 || truths.n == 0 || sr1_trajectory_stop_reason(t) != SR1_STOP_ANSWER)
        return SR1_OK;
    return sr1__best_score(sr1__score_exact, answer, &truths, NULL, out);
}

/* What one group says of its row: that it was asked, and what its scored samples had. One
 * of which nothing could be scored is asked again after all others, not before them. */
static sr1_status learn_group(struct sr1__sampler *q, int64_t row,
                              sr1_trajectory *const *group, size_t n)
{
    double sum = 0.0, squares = 0.0, successes = 0.0, scored = 0.0;

    row_stats(q, SR1__ROW_SEEN)[row] += 1.0f;
    for (size_t k = 0; k < n; k++) {
        double success, reward;

        if (sr1__trajectory_excluded(group[k]))
            continue;
        SR1__TRY(is_success(group[k], &success));
        reward = sr1_trajectory_reward(group[k]);
        successes += success;
        sum += reward;
        squares += reward * reward;
        scored += 1.0;
    }
    if (scored == 0.0)
        return SR1_OK;
    squares = squares / scored - sum / scored * (sum / scored);
    row_stats(q, SR1__ROW_VARIANCE)[row] = (float)(squares > 0.0 ? squares : 0.0);
    row_stats(q, SR1__ROW_SUCCESS)[row] = (float)(successes / scored);
    return SR1_OK;
}

sr1_status sr1__sampler_learn(sr1_trainer *tr, const int64_t *rows, size_t n_rows,
                              sr1_trajectory *const *t, int32_t group_size)
{
    size_t group = (size_t)group_size;

    for (size_t i = 0; tr->sampler.rule && rows && i < n_rows; i++)
        SR1__TRY(learn_group(&tr->sampler, rows[i], t + i * group, group));
    return SR1_OK;
}

/* ---- choosing ---- */

static int is_among(int64_t row, const int64_t *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i] == row)
            return 1;
    return 0;
}

/* The arrays that the rules read, of n rows. */
static sr1_status select_rows(const struct sr1__sampler *q, size_t k, uint64_t seed,
                              uint64_t stream, int64_t *chosen)
{
    size_t n = (size_t)q->n;
    int64_t *seen = sr1__calloc(n, sizeof(*seen));
    double *v = sr1__calloc(2 * n, sizeof(*v));
    sr1_query_stats stats = {.struct_size = sizeof(stats),
                             .n = n,
                             .seen = seen,
                             .reward_variance = v,
                             .success = v + n};
    sr1_status st = seen && v ? SR1_OK : sr1__fail_nomem("choice of questions");

    for (size_t i = 0; st == SR1_OK && i < n; i++) {
        seen[i] = (int64_t)row_stats(q, SR1__ROW_SEEN)[i];
        v[i] = (double)row_stats(q, SR1__ROW_VARIANCE)[i];
        v[n + i] = (double)row_stats(q, SR1__ROW_SUCCESS)[i];
    }
    if (st == SR1_OK)
        st = sr1_query_select(q->rule, &stats, k, seed, stream, chosen);
    sr1__free(seen);
    sr1__free(v);
    return st;
}

/* A choice for a round of a step, from 0 on. */
struct row_choice {
    int64_t step;
    uint64_t round;
    const int64_t *asked; /* [n_asked] */
    size_t n_asked;
    size_t most;
};

/* Of ranked[k] in their order those that are asked already, or the others, to the
 * rows[*n] that there are. */
static void take_rows(const struct row_choice *w, const int64_t *ranked, size_t k,
                      int asked, int64_t *rows, size_t *n)
{
    for (size_t i = 0; i < k && *n < w->most; i++)
        if (is_among(ranked[i], w->asked, w->n_asked) == asked)
            rows[(*n)++] = ranked[i];
}

/* What the rule ranks first and is not asked already; in a first round then the rest. */
static sr1_status choose_rows(const sr1_trainer *tr, const struct row_choice *w,
                              int64_t *rows, size_t *n)
{
    const struct sr1__sampler *q = &tr->sampler;
    uint64_t at[2] = {(uint64_t)w->step, w->round};
    size_t all = (size_t)q->n,
           k = w->most + w->n_asked < all ? w->most + w->n_asked : all;
    int64_t *ranked = sr1__calloc(k, sizeof(*ranked));
    sr1_status st = ranked ? SR1_OK : sr1__fail_nomem("choice of questions");

    if (st == SR1_OK)
        st = select_rows(q, k, tr->set.seed, sr1__hash64(at, sizeof(at), 0), ranked);
    *n = 0;
    if (st == SR1_OK)
        take_rows(w, ranked, k, 0, rows, n);
    if (st == SR1_OK && w->round == 0)
        take_rows(w, ranked, k, 1, rows, n);
    sr1__free(ranked);
    return st;
}

sr1_status sr1__sampler_next(sr1_trainer *tr, int64_t step, const int64_t *asked,
                             size_t n_asked, int64_t *rows, size_t *n)
{
    size_t most = (size_t)tr->set.batch_size;

    if (tr->sampler.rule)
        return choose_rows(tr, &(struct row_choice){step, 0, asked, n_asked, most}, rows,
                           n);
    tr->sampler.epoch = sr1__cursor_epoch(tr->cursor);
    return sr1__cursor_next(tr->cursor, most, rows, n);
}

sr1_status sr1__sampler_more(sr1_trainer *tr, const int64_t *asked, size_t n_asked,
                             size_t most, uint64_t round, int64_t *rows, size_t *n)
{
    *n = 0;
    if (tr->sampler.rule)
        return choose_rows(
            tr, &(struct row_choice){tr->step, round, asked, n_asked, most}, rows, n);
    if (sr1__cursor_epoch(tr->cursor) != tr->sampler.epoch)
        return SR1_OK; /* the next epoch may begin with what was asked just now */
    return sr1__cursor_next(tr->cursor, most, rows, n);
}

int sr1__sampler_is_over(const sr1_trainer *tr)
{
    return tr->set.max_steps == 0 && tr->set.dynamic_sampling > 0 && !tr->sampler.rule &&
           tr->cursor && sr1__cursor_epoch(tr->cursor) >= tr->set.num_epochs;
}

/* ---- checkpoints ---- */

static const char *const names[SR1__ROW_STATS] = {"seen", "reward_variance", "success"};

static sr1_status stat_bytes(void *self, size_t i, const void **bytes)
{
    *bytes = row_stats(self, (enum sr1__row_stat)i);
    return SR1_OK;
}

sr1_status sr1__sampler_save(const sr1_trainer *tr, const char *folder)
{
    struct sr1__sampler q = tr->sampler;
    struct sr1__weight_out out[SR1__ROW_STATS] = {0};

    for (size_t i = 0; i < SR1__ROW_STATS; i++) {
        out[i].name = names[i];
        out[i].dtype = SR1__WEIGHT_F32;
        out[i].n_dims = 1;
        out[i].shape[0] = q.n;
    }
    return sr1__weights_save(folder, out, SR1__ROW_STATS, 0, stat_bytes, &q);
}

sr1_status sr1__sampler_restore(sr1_trainer *tr, const char *folder)
{
    struct sr1__sampler *q = &tr->sampler;
    struct sr1__weights *w = NULL;
    sr1_status st;

    SR1__TRY(sr1__weights_open(&w, folder));
    st = SR1_OK;
    for (size_t i = 0; i < SR1__ROW_STATS && st == SR1_OK; i++) {
        const struct sr1__weight *found;

        st = sr1__weights_get(w, names[i], 1, &q->n, &found);
        if (st == SR1_OK && found->dtype != SR1__WEIGHT_F32)
            st = sr1__fail(SR1_E_CORRUPT, "%s: %s is not fp32", found->file, names[i]);
        if (st == SR1_OK)
            memcpy(row_stats(q, (enum sr1__row_stat)i), found->data,
                   (size_t)q->n * sizeof(float));
    }
    st = sr1__weights_blame(w, st);
    sr1__weights_close(w);
    return st;
}
