/* signal/reward/external_reward.c - a program as reward: trajectories -> numbers. */
#include "environment/external/external.h"
#include "signal/reward/reward_set.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"

#include <searchr1/trajectory.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

struct reward_program {
    const sr1_reward_set *set; /* whose it is */
    struct sr1__external *program;
    char *name;
    atomic_ullong last_failure; /* that was logged */
};

/* ---- what the program is told ---- */

static json_t *pack_truths(const sr1_trajectory *t)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < sr1_trajectory_ground_truth_count(t); i++) {
        size_t n = 0;
        const char *text = sr1_trajectory_ground_truth(t, i, &n);

        if (json_array_append_new(list, sr1__json_text(text, n)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *pack_row(const sr1_trajectory *t)
{
    size_t n = 0;
    const char *text = sr1_trajectory_row_json(t, &n);
    json_t *row = NULL;

    if (text && n > 0)
        (void)sr1__json_parse_loose(&row, text, n, "row");
    return row;
}

static json_t *pack_trajectory(const sr1_trajectory *t)
{
    size_t query_len, text_len, answer_len;
    const char *query = sr1_trajectory_query(t, &query_len);
    const char *text = sr1_trajectory_generated_text(t, &text_len);
    const char *answer = sr1_trajectory_final_answer(t, &answer_len);

    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:o?}", "query",
                     sr1__json_text(query, query_len), "query_id",
                     sr1_trajectory_query_id(t), "text", sr1__json_text(text, text_len),
                     "answer", sr1__json_text(answer, answer_len), "ground_truths",
                     pack_truths(t), "turns", (json_int_t)sr1_trajectory_turn_count(t),
                     "actions", (json_int_t)sr1_trajectory_search_count(t), "tokens",
                     (json_int_t)sr1_trajectory_policy_count(t), "stop",
                     sr1_stop_reason_name(sr1_trajectory_stop_reason(t)), "row",
                     pack_row(t));
}

static json_t *pack_trajectories(const char *name, const sr1_trajectory *const *t,
                                 size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, pack_trajectory(t[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list ? json_pack("{s:s, s:o}", "name", name, "items", list) : NULL;
}

/* ---- scores ---- */

/* A number, or whether it is right; NaN of what is neither, such as null. */
static double take_score(const json_t *v)
{
    if (json_is_boolean(v))
        return json_is_true(v) ? 1 : 0;
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static void log_unscored(struct reward_program *p, size_t n, const char *why)
{
    if (sr1__log_is_news(&p->last_failure, why))
        sr1__log(SR1_LOG_WARN, "%zu trajector%s not scored: %.400s", n,
                 n == 1 ? "y was" : "ies were", why);
}

/* Those that the program itself does not score: null, a text in place of a number, or NaN
 * as Python writes it. */
static void log_null_scores(struct reward_program *p, const double *scores, size_t n)
{
    char why[400];
    size_t unscored = 0;

    for (size_t i = 0; i < n; i++)
        unscored += isnan(scores[i]) != 0;
    if (unscored == 0)
        return;
    snprintf(why, sizeof why, "%.300s gave null, or what is no number, as a score",
             sr1__rpc_name(p->program->program));
    log_unscored(p, unscored, why);
}

/* An outage is no score: these trajectories are dropped. */
static sr1_status score_by_program(void *self, const sr1_trajectory *const *trajectories,
                                   size_t n, double *out)
{
    struct reward_program *p = self;
    json_t *scores = NULL;
    sr1_status st;

    sr1__rpc_watch(p->program->program, p->set->context.stop);
    st = sr1__external_ask(p->program, "score",
                           pack_trajectories(p->name, trajectories, n), n, &scores, NULL);

    if (st == SR1_OK)
        for (size_t i = 0; i < n; i++)
            out[i] = take_score(json_array_get(scores, i));
    json_decref(scores);
    if (st == SR1_OK)
        log_null_scores(p, out, n);
    if (st == SR1_OK || sr1__is_fatal(st))
        return st;
    log_unscored(p, n, sr1_last_error());
    for (size_t i = 0; i < n; i++)
        out[i] = (double)NAN;
    return SR1_OK;
}

static void destroy_reward_program(void *self)
{
    struct reward_program *p = self;

    sr1__external_free(p->program);
    sr1__free(p->name);
    sr1__free(p);
}

/* A table of functions, called as the set calls it. */
static sr1_status add_shared_reward(sr1_reward_set *set, const char *path,
                                    const char *name, double weight)
{
    sr1_reward_ops ops = {0};
    const void *table;

    SR1__TRY(sr1__shared_table(&table, "reward program", "sr1_reward_ops", path, name));
    SR1__TRY(sr1__struct_take(&ops, sizeof ops, table,
                              SR1__STRUCT_END(sr1_reward_ops, score), "a reward"));
    ops.name = name;
    return sr1_reward_set_add(set, &ops, NULL, weight);
}

sr1_status sr1_reward_set_add_external(sr1_reward_set *set, const char *path,
                                       const char *name, double weight,
                                       const sr1_external_options *options)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = name,
                          .score = score_by_program,
                          .destroy = destroy_reward_program,
                          .may_be_unknown = 1};
    struct reward_program *p;
    sr1_status st;

    SR1__REQUIRE(set && path && name, "reward program: set, path and name");
    if (sr1__is_shared_object(path))
        return add_shared_reward(set, path, name, weight);
    SR1__CALLOC(p, 1, "reward program");
    p->set = set;
    p->name = sr1__strdup(name);
    st = p->name ? sr1__external_open(&p->program, "reward program", path, options)
                 : sr1__fail_nomem("reward program");
    if (st == SR1_OK)
        st = sr1_reward_set_add(set, &ops, p, weight);
    if (st != SR1_OK)
        destroy_reward_program(p);
    return st;
}
