/* train/expand_levels.c - the turns of trajectories at the thinking levels that they did
 * not choose, for estimators that compare them. Each rank compares those of some
 * questions, and all get all. */
#include "train/ranks.h"
#include "train/step_batch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <searchr1/ext/trajectory_details.h>

#include <string.h>

#define NEEDS (SR1_ADVANTAGE_NEEDS_TURN_TAGS | SR1_ADVANTAGE_NEEDS_CONFIDENCES)

/* Do the rewards of its group differ from its own? */
static int differs_in_group(const struct sr1__batch_view *v, size_t i)
{
    uint64_t key = sr1_trajectory_group_key(v->t[i]);
    double reward = sr1_trajectory_reward(v->t[i]);

    for (size_t k = 0; k < v->n; k++)
        if (sr1_trajectory_group_key(v->t[k]) == key &&
            sr1_trajectory_reward(v->t[k]) != reward)
            return 1;
    return 0;
}

/* Whose steps are compared: all, or those of successes in groups of unequal rewards, as
 * the published code has it; none where only the levels themselves are asked for. */
static int is_wanted(const struct sr1__settings *set, const struct sr1__batch_view *v,
                     size_t i)
{
    if (!(set->estimator.needs & SR1_ADVANTAGE_NEEDS_CONFIDENCES))
        return 0;
    return !set->levels_informative ||
           (sr1_trajectory_reward(v->t[i]) > 0 && differs_in_group(v, i));
}

/* What became of steps at the other levels, and the name of its figure. */
static const struct {
    const char *figure;
    size_t outcome;
} outcomes[] = {{"levels_compared", SR1__BRANCH_COMPARED},
                {"levels_left_out", SR1__BRANCH_EXCLUDED},
                {"levels_unread", SR1__BRANCH_UNPARSED},
                {"levels_too_long", SR1__BRANCH_TRUNCATED},
                {"levels_no_action", SR1__BRANCH_NO_ACTION},
                {"levels_malformed", SR1__BRANCH_MALFORMED},
                {"levels_no_room", SR1__BRANCH_CONTEXT_FULL}};

static void add_level_metrics(const struct sr1__level_branch_stats *stats,
                              struct sr1_step_metrics *m)
{
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        sr1__metrics_add(m, outcomes[i].figure,
                         (double)stats->outcomes[outcomes[i].outcome], SR1__LAST);
    sr1__metrics_add(m, "level_tokens", (double)stats->tokens_made, SR1__LAST);
}

/* ---- by all ranks ---- */

/* What becomes of the trajectories of a view. */
struct level_job {
    const struct sr1__batch_view *v;
    int32_t *rank;                        /* [n] that compares its steps; -1: nobody */
    uint8_t *own;                         /* [n] is that this one? */
    struct sr1__level_branch_step *steps; /* of all turns, trajectory by trajectory */
    struct sr1__level_branch_stats stats;
};

/* Ranks take in turn the questions of which any steps are compared. */
static void divide_trajectories(const struct sr1__step_batch *b, struct level_job *j)
{
    const struct sr1__dist *d = b->tr->dist;
    size_t questions = 0;

    for (size_t i = 0, end; i < j->v->n; i = end) {
        uint64_t key = sr1_trajectory_group_key(j->v->t[i]);
        int any = 0;

        for (end = i; end < j->v->n && sr1_trajectory_group_key(j->v->t[end]) == key;
             end++) {
            int wanted = is_wanted(&b->tr->set, j->v, end);

            j->rank[end] = wanted ? sr1__rank_of_question(d, questions) : -1;
            j->own[end] = j->rank[end] == sr1__dist_rank(d);
            any |= wanted;
        }
        questions += (size_t)any;
    }
}

static const int32_t level_columns[] = {SR1_COLUMN_LEVEL_ENTROPY,
                                        SR1_COLUMN_THINKING_COST};
#define LEVEL_COLUMNS (sizeof(level_columns) / sizeof(level_columns[0]))

static void encode_levels(const struct level_job *j, struct sr1__buf *out)
{
    const struct sr1__level_branch_step *steps = j->steps;

    sr1__buf_add(out, &j->stats, sizeof(j->stats));
    for (size_t i = 0; i < j->v->n; i++) {
        const sr1_trajectory *t = j->v->t[i];
        size_t turns = (size_t)sr1_trajectory_turn_count(t);
        size_t m = sr1_trajectory_policy_count(t);

        if (j->own[i])
            sr1__buf_add(out, steps, turns * sizeof(*steps));
        for (size_t k = 0; j->own[i] && m > 0 && k < LEVEL_COLUMNS; k++)
            sr1__buf_add(out, sr1_trajectory_column(t, level_columns[k]),
                         m * sizeof(float));
        steps += turns;
    }
}

/* A step that another rank has compared was left out by this one. */
static void add_stats_of_rank(struct sr1__level_branch_stats *sum,
                              const struct sr1__level_branch_stats *s)
{
    for (int k = 0; k < SR1__BRANCH_OUTCOMES; k++) {
        if (k == SR1__BRANCH_EXCLUDED)
            continue;
        sum->outcomes[k] += s->outcomes[k];
        sum->outcomes[SR1__BRANCH_EXCLUDED] -= s->outcomes[k];
    }
    sum->tokens_made += s->tokens_made;
}

static sr1_status take_levels(struct level_job *j, struct sr1__reader *r, int32_t rank)
{
    struct sr1__level_branch_step *steps = j->steps;
    struct sr1__level_branch_stats stats;
    const void *bytes = sr1__read_bytes(r, sizeof(stats));

    if (bytes)
        add_stats_of_rank(&j->stats, memcpy(&stats, bytes, sizeof(stats)));
    for (size_t i = 0; i < j->v->n && !r->failed; i++) {
        sr1_trajectory *t = j->v->t[i];
        size_t turns = (size_t)sr1_trajectory_turn_count(t);
        size_t m = sr1_trajectory_policy_count(t);

        if (j->rank[i] == rank && (bytes = sr1__read_bytes(r, turns * sizeof(*steps))))
            memcpy(steps, bytes, turns * sizeof(*steps));
        for (size_t k = 0; j->rank[i] == rank && m > 0 && k < LEVEL_COLUMNS; k++)
            SR1__TRY(sr1__trajectory_read_column(r, t, level_columns[k], m));
        steps += turns;
    }
    return r->failed ? sr1__fail(SR1_E_CORRUPT, "rank %d: its steps are torn", (int)rank)
                     : SR1_OK;
}

/* Every rank's steps to every rank; st: how this one's came out. */
static sr1_status exchange_levels(struct sr1__dist *d, struct level_job *j, sr1_status st)
{
    struct sr1__gathered g = {0};
    struct sr1__buf out;

    sr1__buf_init(&out, SIZE_MAX / 2);
    if (st == SR1_OK) {
        encode_levels(j, &out);
        st = sr1__buf_status(&out, "thinking levels");
    }
    st = sr1__dist_await(d, "thinking levels", st);
    if (st == SR1_OK)
        st = sr1__dist_gather(d, "thinking levels", st, out.data, out.len, &g);
    sr1__buf_free(&out);
    for (int32_t rank = 0; st == SR1_OK && rank < sr1__dist_size(d); rank++) {
        struct sr1__reader r;
        size_t n;
        const void *bytes = sr1__gathered_of(&g, rank, &n);

        sr1__reader_init(&r, bytes, n);
        if (rank != sr1__dist_rank(d))
            st = take_levels(j, &r, rank);
    }
    sr1__gathered_free(&g);
    return sr1__dist_agree(d, "thinking levels", st);
}

static sr1_status expand_shared(struct sr1__step_batch *b, struct level_job *j)
{
    struct sr1__level_branch_options o = b->tr->set.levels;
    uint64_t seed = sr1__step_seed(b->tr, 0);
    sr1_status st =
        j->rank && j->own && j->steps ? SR1_OK : sr1__fail_nomem("thinking levels");

    o.seed = sr1__hash64("levels", 6, seed);
    if (st == SR1_OK) {
        divide_trajectories(b, j);
        st = sr1__rollout_level_branches(b->tr->rollout, j->v->t, j->v->n, j->own, &o,
                                         j->steps, &j->stats);
    }
    if (b->tr->dist)
        st = exchange_levels(b->tr->dist, j, st);
    if (st == SR1_OK)
        add_level_metrics(&j->stats, b->metrics);
    return st;
}

sr1_status sr1__expand_levels(struct sr1__step_batch *b, const struct sr1__batch_view *v,
                              struct sr1__level_branch_step **out)
{
    struct level_job j = {.v = v};
    double began = sr1__now();
    size_t turns = 0;
    sr1_status st;

    if (!(b->tr->set.estimator.needs & NEEDS))
        return SR1_OK;
    for (size_t i = 0; i < v->n; i++)
        turns += (size_t)sr1_trajectory_turn_count(v->t[i]);
    j.rank = sr1__calloc(v->n + 1, sizeof(*j.rank));
    j.own = sr1__calloc(v->n + 1, 1);
    *out = j.steps = sr1__calloc(turns + 1, sizeof **out);
    st = expand_shared(b, &j);
    sr1__free(j.rank);
    sr1__free(j.own);
    sr1__metrics_add(b->metrics, "seconds_levels", sr1__now() - began, SR1__LAST);
    return st;
}
