/* signal/reward/reward.c - the built-in rewards, and sets of rewards (reward_set_score.c
 * computes them).
 *
 * Built-in rewards are rows of a table and go through the same calls as the caller's. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/struct.h"
#include "environment/env/protocol.h"
#include "base/text.h"
#include "base/utf8.h"
#include "signal/reward/multi_turn_scores.h"
#include "signal/reward/embedding_score.h"
#include "signal/reward/format.h"
#include "signal/reward/match.h"
#include "signal/reward/math_scores.h"
#include "signal/reward/repetition.h"
#include "signal/reward/seed_rewards.h"
#include "signal/reward/reward_set.h"
#include "signal/reward/search_r1_scores.h"
#include "signal/reward/search_scores.h"
#include "text/data/gold_ids.h"

#include <searchr1/reward.h>
#include <searchr1/ext/reward_set.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- built-in rewards ---- */

static sr1_status score_format(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out)
{
    const struct sr1__reward_context *c = self;
    size_t i;

    for (i = 0; i < n; i++)
        out[i] = sr1__format_of_trajectory(c->protocol, t[i], c->scales.closed_thoughts)
                     ? c->scales.format_reward
                     : c->scales.format_penalty;
    return SR1_OK;
}

/* The seed compares what the rollout extracted, an answer cut short included. */
static sr1_status score_answer(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out)
{
    const struct sr1__reward_context *c = self;
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__ground_truths truths;
        struct sr1__str answer;

        SR1__TRY(sr1__ground_truths_of(t[i], i, &truths));
        answer.s = sr1_trajectory_final_answer(t[i], &answer.n);
        SR1__TRY(
            sr1__best_score(sr1__score_answer, answer, &truths, &c->scales, &out[i]));
    }
    return SR1_OK;
}

/* Search-R1 compares answers that were closed; without one the score is 0. */
static sr1_status score_closed(const struct sr1__reward_context *c, sr1__score_fn score,
                               const sr1_trajectory *const *t, size_t n, double *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__str answer = sr1__closed_answer(c->protocol, t[i]);
        struct sr1__ground_truths truths;

        SR1__TRY(sr1__ground_truths_of(t[i], i, &truths));
        out[i] = 0;
        if (answer.s != NULL)
            SR1__TRY(sr1__best_score(score, answer, &truths, NULL, &out[i]));
    }
    return SR1_OK;
}

static sr1_status score_exact(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    return score_closed(self, sr1__score_exact, t, n, out);
}

static sr1_status score_sub(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    return score_closed(self, sr1__score_sub, t, n, out);
}

static sr1_status score_f1(void *self, const sr1_trajectory *const *t, size_t n,
                           double *out)
{
    return score_closed(self, sr1__score_f1, t, n, out);
}

/* A worked solution: the final answer, else what the policy said last. */
static sr1_status score_solutions(sr1__score_fn score, const sr1_trajectory *const *t,
                                  size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        struct sr1__ground_truths truths;

        SR1__TRY(sr1__ground_truths_of(t[i], i, &truths));
        SR1__TRY(
            sr1__best_score(score, sr1__answer_or_message(t[i]), &truths, NULL, &out[i]));
    }
    return SR1_OK;
}

static sr1_status score_gsm8k(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    (void)self;
    return score_solutions(sr1__match_gsm8k, t, n, out);
}

static sr1_status score_math_reward(void *self, const sr1_trajectory *const *t, size_t n,
                                    double *out)
{
    (void)self;
    return score_solutions(sr1__match_math_reward, t, n, out);
}

static sr1_status score_math_dapo(void *self, const sr1_trajectory *const *t, size_t n,
                                  double *out)
{
    (void)self;
    return score_solutions(sr1__match_math_dapo, t, n, out);
}

/* The sum of the environment's rewards for the actions; 0 if the environment gives none.
 */
static sr1_status score_environment(void *self, const sr1_trajectory *const *t, size_t n,
                                    double *out)
{
    sr1_action_event e = {.struct_size = sizeof e};
    size_t i, k;

    (void)self;
    for (i = 0; i < n; i++) {
        out[i] = 0;
        for (k = 0; k < sr1_trajectory_search_count(t[i]); k++) {
            SR1__TRY(sr1_trajectory_search(t[i], k, &e));
            out[i] += e.reward;
        }
    }
    return SR1_OK;
}

/* As score_closed, all trajectories at once. */
static sr1_status score_embedding(void *self, const sr1_trajectory *const *t, size_t n,
                                  double *out)
{
    const struct sr1__reward_context *c = self;
    struct sr1__answer_pair *items = sr1__calloc(n, sizeof *items);
    sr1_status status = items != NULL ? SR1_OK : sr1__fail_nomem("answers");
    size_t i;

    for (i = 0; status == SR1_OK && i < n; i++) {
        items[i].answer = sr1__closed_answer(c->protocol, t[i]);
        status = sr1__ground_truths_of(t[i], i, &items[i].truths);
    }
    if (status == SR1_OK)
        status = sr1__embedding_scores(c->embedder, items, n, out);
    sr1__free(items);
    return status;
}

/* A text of a trajectory with a NUL behind it, as a judge reads it. */
static sr1_status copy_judged_text(char **out, const char *s, size_t n)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    sr1__buf_utf8(&b, s, n);
    return sr1__buf_finish(&b, "a text to judge", out);
}

/* What the judge is told of trajectory t. Free answer and question. */
static sr1_status fill_judge_item(const struct sr1__reward_context *c,
                                  const sr1_trajectory *t, sr1_judge_item *item,
                                  char **texts)
{
    struct sr1__str answer = sr1__closed_answer(c->protocol, t);
    size_t n = 0;
    const char *question = sr1_trajectory_query(t, &n);
    const char **truths;

    item->struct_size = sizeof(*item);
    item->n_truths = sr1_trajectory_ground_truth_count(t);
    truths = sr1__calloc(item->n_truths + 1, sizeof(*truths));
    item->truths = truths;
    SR1__CHECK_ALLOC(truths, "ground truths");
    for (size_t k = 0; k < item->n_truths; k++)
        truths[k] = sr1_trajectory_ground_truth(t, k, NULL);
    SR1__TRY(copy_judged_text(&texts[0], question, n));
    SR1__TRY(copy_judged_text(&texts[1], answer.s, answer.n));
    item->question = texts[0];
    item->answer = texts[1];
    return SR1_OK;
}

/* As score_closed; all trajectories at once, unknown where the judge failed. */
static sr1_status score_judge(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    const struct sr1__reward_context *c = self;
    sr1_judge_item *items = sr1__calloc(n + 1, sizeof(*items));
    double *scores = sr1__calloc(n + 1, sizeof(*scores));
    char **texts = sr1__calloc(2 * n + 1, sizeof(*texts));
    sr1_status st = items && scores && texts ? SR1_OK : sr1__fail_nomem("answers");
    size_t judged = 0;

    for (size_t i = 0; st == SR1_OK && i < n; i++)
        if (sr1__closed_answer(c->protocol, t[i]).s) {
            st = fill_judge_item(c, t[i], &items[judged], texts + 2 * judged);
            judged++;
        }
    if (st == SR1_OK)
        st = sr1_judge_score(c->judge, items, judged, scores);
    judged = 0;
    for (size_t i = 0; st == SR1_OK && i < n; i++)
        out[i] = sr1__closed_answer(c->protocol, t[i]).s ? scores[judged++] : 0;
    for (size_t i = 0; items && i < n; i++)
        sr1__free((void *)(uintptr_t)items[i].truths);
    for (size_t i = 0; texts && i < 2 * n; i++)
        sr1__free(texts[i]);
    sr1__free(items);
    sr1__free(scores);
    sr1__free(texts);
    return st;
}

/* compares: with the gold answers of the question, of which there must be one. extract:
 * what it compares of a worked solution. */
static const struct builtin_reward {
    int32_t compares;
    sr1_reward_ops ops;
    sr1__extract_fn extract;
} builtins[] = {
    {0, {sizeof(sr1_reward_ops), "format", .score = score_format}},
    {1, {sizeof(sr1_reward_ops), "answer", .score = score_answer}},
    {1, {sizeof(sr1_reward_ops), "exact_match", .score = score_exact}},
    {1, {sizeof(sr1_reward_ops), "sub_match", .score = score_sub}},
    {1, {sizeof(sr1_reward_ops), "f1", .score = score_f1}},
    {1, {sizeof(sr1_reward_ops), "gsm8k", .score = score_gsm8k}, sr1__extract_gsm8k},
    {1,
     {sizeof(sr1_reward_ops), "math_reward", .score = score_math_reward},
     sr1__extract_math_reward},
    {1,
     {sizeof(sr1_reward_ops), "math_dapo", .score = score_math_dapo},
     sr1__extract_math_dapo},
    {0, {sizeof(sr1_reward_ops), "repetition_penalty", .score = sr1__score_repetition}},
    {0, {sizeof(sr1_reward_ops), "environment", .score = score_environment}},
    {1, {sizeof(sr1_reward_ops), "embedding", .score = score_embedding}},
    {0, {sizeof(sr1_reward_ops), "judge", .score = score_judge, .may_be_unknown = 1}},
    {0,
     {sizeof(sr1_reward_ops), "execution", .score = sr1__score_execution,
      .begin = sr1__execution_begin, .forget = sr1__execution_forget,
      .may_be_unknown = 1}},
    {0,
     {sizeof(sr1_reward_ops), "judgement", .score = sr1__score_judgement,
      .begin = sr1__judgement_begin, .forget = sr1__judgement_forget,
      .may_be_unknown = 1}},
    {0,
     {sizeof(sr1_reward_ops), "tool_execution", .score = sr1__score_tool_execution,
      .level = SR1_REWARD_TURN, .score_turns = sr1__turns_tool_execution}},
    {1,
     {sizeof(sr1_reward_ops), "answer_in_results", .score = sr1__score_answer_in_results,
      .level = SR1_REWARD_TURN, .score_turns = sr1__turns_answer_in_results}},
    {1, {sizeof(sr1_reward_ops), "answer_present", .score = sr1__score_answer_present}},
    {1, {sizeof(sr1_reward_ops), "mt_exact_match", .score = sr1__score_mt_exact_match}},
    {0, {sizeof(sr1_reward_ops), "mt_format", .score = sr1__score_mt_format}},
    {0, {sizeof(sr1_reward_ops), "xml", .score = sr1__score_xml}},
    {1, {sizeof(sr1_reward_ops), "search_r1_em", .score = sr1__score_search_r1_em}},
    {1,
     {sizeof(sr1_reward_ops), "search_r1_sub_em", .score = sr1__score_search_r1_sub_em}},
    {1,
     {sizeof(sr1_reward_ops), "search_r1_format", .score = sr1__score_search_r1_format}},
    {0,
     {sizeof(sr1_reward_ops), "retrieval_recall",
      .score_states = sr1__score_retrieval_recall}},
    {1,
     {sizeof(sr1_reward_ops), "answer_retrieved", .score = sr1__score_answer_retrieved}},
    {0, {sizeof(sr1_reward_ops), "search_cost", .score = sr1__score_search_cost}},
};

#define N_BUILTINS (sizeof builtins / sizeof builtins[0])

/* ---- making a set ---- */

static const char *builtin_reward_name(size_t i)
{
    return i < N_BUILTINS ? builtins[i].ops.name : NULL;
}

/* NULL: one of the program's own. */
static const struct builtin_reward *builtin_of(const struct sr1__reward_entry *e)
{
    for (size_t k = 0; k < N_BUILTINS; k++)
        if (builtins[k].ops.score == e->ops.score)
            return &builtins[k];
    return NULL;
}

static int compares_with_truths(const struct sr1__reward_entry *e)
{
    const struct builtin_reward *b = builtin_of(e);

    return b && b->compares;
}

static sr1__extract_fn extract_of(const struct sr1__reward_entry *e)
{
    const struct builtin_reward *b = builtin_of(e);

    return b ? b->extract : NULL;
}

sr1_status sr1__reward_set_extract(const sr1_reward_set *set, const sr1_trajectory *t,
                                   struct sr1__buf *out, int *found)
{
    int applies;

    *found = 0;
    for (size_t i = 0; i < set->n && !*found; i++) {
        const struct sr1__reward_entry *e = &set->entries[i];

        SR1__TRY(sr1__source_rewards_apply(&set->sources, sr1_trajectory_data_source(t),
                                           e->name, &applies));
        if (!applies || !extract_of(e))
            continue;
        SR1__TRY(extract_of(e)(sr1__answer_or_message(t), out));
        *found = 1;
    }
    return SR1_OK;
}

sr1_status sr1__reward_set_comparing(const sr1_reward_set *set, const char *source,
                                     const char **name)
{
    const char *found = NULL;
    int applies;

    SR1__TRY(sr1__source_rewards_apply(&set->sources, source, "", &applies));
    for (size_t i = 0; i < set->n; i++) {
        const struct sr1__reward_entry *e = &set->entries[i];

        SR1__TRY(sr1__source_rewards_apply(&set->sources, source, e->name, &applies));
        if (applies && !found && compares_with_truths(e))
            found = e->name;
    }
    *name = found;
    return SR1_OK;
}

int sr1__reward_set_has(const sr1_reward_set *set, struct sr1__str name)
{
    for (size_t i = 0; i < set->n; i++)
        if (sr1__str_is(name, set->entries[i].name))
            return 1;
    return 0;
}

sr1_status sr1__reward_set_check_sources(const sr1_reward_set *set)
{
    for (size_t i = 0; i < set->sources.n; i++) {
        struct sr1__str name = set->sources.rows[i].reward;

        if (!sr1__reward_set_has(set, name))
            return sr1__fail(SR1_E_CONFIG,
                             "data_source_rewards: '%.*s' is none of the rewards; add it "
                             "to rewards, which has the weights",
                             name.n < 200 ? (int)name.n : 200, name.s);
    }
    return SR1_OK;
}

static sr1_status fail_unknown_reward(struct sr1__str name)
{
    char known[512];

    sr1__list_names(known, sizeof known, builtin_reward_name);
    return sr1__fail(
        SR1_E_NOT_FOUND,
        "reward '%.*s' is not known; known: %s; one of your own is a program "
        "(reward_programs=FILE:NAME), or a function given from C or Python",
        name.n < 64 ? (int)name.n : 64, name.s, known);
}

/* NULL: there is none. */
static const sr1_reward_ops *find_builtin_reward(struct sr1__str name)
{
    for (size_t i = 0; i < N_BUILTINS; i++)
        if (sr1__str_is(name, builtins[i].ops.name))
            return &builtins[i].ops;
    return NULL;
}

int sr1__reward_is_builtin(const char *name)
{
    return find_builtin_reward(sr1__str_of(name)) != NULL;
}

/* Cut the next item off a list joined by commas, stripped; 0 at its end, else 1. */
static int next_item(const char **list, struct sr1__str *out)
{
    size_t begin = 0, n;

    if (*list == NULL || **list == '\0')
        return 0;
    n = strcspn(*list, ",");
    out->s = *list;
    out->n = n;
    *list += n + ((*list)[n] == ',');
    sr1__strip(out->s, &begin, &out->n);
    out->s += begin;
    return 1;
}

static sr1_status next_weight(const char **weights, struct sr1__str name, double *out)
{
    struct sr1__str item;

    if (!next_item(weights, &item))
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights: no number for reward '%.*s'; give one for each "
                         "name in rewards",
                         (int)name.n, name.s);
    if (!sr1__parse_real(item.s, item.n, out))
        return sr1__fail(SR1_E_CONFIG, "reward_weights: '%.*s' is not a number",
                         item.n < 64 ? (int)item.n : 64, item.s);
    return SR1_OK;
}

static sr1_status check_reward_needs(const struct sr1__reward_context *c,
                                     const sr1_reward_ops *ops)
{
    int runs = ops->begin != NULL;

    if (ops->score == score_embedding && c->embedder == NULL)
        return sr1__fail(SR1_E_CONFIG, "reward 'embedding' needs an embedder; set "
                                       "reward_embedder to the folder of one");
    if (ops->score == score_judge && c->judge == NULL)
        return sr1__fail(SR1_E_CONFIG,
                         "reward 'judge' needs a judge; set judge_base_url to "
                         "the server of one");
    if (runs && (c->execution.checker == NULL || c->execution.problems == NULL))
        return sr1__fail(SR1_E_CONFIG,
                         "reward '%s' needs a checker and problems; set code_problems to "
                         "the file of them",
                         ops->name);
    return SR1_OK;
}

static sr1_status add_named(sr1_reward_set *set, const char *names, const char *weights)
{
    int weighted = weights != NULL && *weights != '\0';
    struct sr1__str name;

    while (next_item(&names, &name)) {
        const sr1_reward_ops *ops = find_builtin_reward(name);
        double weight = 1;

        if (ops == NULL)
            return fail_unknown_reward(name);
        SR1__TRY(check_reward_needs(&set->context, ops));
        if (weighted)
            SR1__TRY(next_weight(&weights, name, &weight));
        SR1__TRY(sr1_reward_set_add(set, ops, &set->context, weight));
    }
    if (weighted && *weights != '\0')
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights: more numbers than names in rewards");
    return SR1_OK;
}

static sr1_status make_context(struct sr1__reward_context *c, const sr1_reward_options *o)
{
    SR1__TRY(sr1__scales_read(&c->scales, o->scales));
    c->protocol = sr1__protocol_find(o->protocol);
    if (c->protocol == NULL)
        return SR1_E_NOT_FOUND;
    c->no_content_text = sr1__strdup(c->scales.no_content_text);
    SR1__CHECK_ALLOC(c->no_content_text, "rewards");
    c->scales.no_content_text = c->no_content_text;
    c->gold_ids_field =
        sr1__strdup(o->gold_ids_field && *o->gold_ids_field ? o->gold_ids_field
                                                            : SR1__GOLD_IDS_FIELD);
    SR1__CHECK_ALLOC(c->gold_ids_field, "rewards");
    c->embedder = sr1_embedder_retain(o->embedder);
    c->judge = sr1_judge_retain(o->judge);
    c->execution.checker = sr1_checker_retain(o->checker);
    c->execution.problems = sr1_problems_retain(o->problems);
    c->execution.judgement_required = o->judgement_required;
    c->execution.revised = c->protocol->message && !c->protocol->answers;
    return SR1_OK;
}

void sr1_reward_options_init(sr1_reward_options *options)
{
    static const sr1_reward_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1_reward_set_new(sr1_reward_set **out, const sr1_reward_options *options)
{
    sr1_reward_options o = {0};
    sr1_reward_set *set;
    sr1_status status;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "reward set: out is NULL");
    SR1__TRY(sr1__struct_take(&o, sizeof o, options,
                              SR1__STRUCT_END(sr1_reward_options, rewards),
                              "reward set: options"));
    SR1__CALLOC(set, 1, "rewards");
    status = make_context(&set->context, &o);
    if (status == SR1_OK)
        status =
            add_named(set, o.rewards != NULL ? o.rewards : "format,answer", o.weights);
    if (status == SR1_OK)
        status = sr1__source_rewards_read(&set->sources, o.data_source_rewards);
    SR1__RETURN_NEW(out, set, status, sr1_reward_set_free);
}

void sr1_reward_set_free(sr1_reward_set *set)
{
    size_t i;

    if (set == NULL || !sr1__life_drop(&set->life))
        return;
    for (i = 0; i < set->n; i++) {
        struct sr1__reward_entry *e = &set->entries[i];

        if (e->ops.destroy != NULL)
            e->ops.destroy(e->self);
        sr1__free(e->name);
    }
    sr1__free(set->entries);
    sr1__source_rewards_free(&set->sources);
    sr1__free(set->context.no_content_text);
    sr1__free(set->context.gold_ids_field);
    sr1_embedder_free(set->context.embedder);
    sr1_judge_free(set->context.judge);
    sr1__execution_close(&set->context.execution);
    sr1__free(set);
}

static sr1_status check_new(const sr1_reward_set *set, const sr1_reward_ops *ops,
                            double weight)
{
    size_t i;

    if (set == NULL || ops->name == NULL ||
        (ops->score == NULL && ops->score_states == NULL))
        return sr1__fail(SR1_E_INVALID,
                         "reward: set, ops with name and score are needed");
    if (*ops->name == '\0' || strlen(ops->name) > SR1__REWARD_NAME_MAX ||
        strchr(ops->name, ',') || !sr1__utf8_valid(ops->name, strlen(ops->name)))
        return sr1__fail(SR1_E_INVALID,
                         "reward '%.40s': a name is UTF-8 of 1 to %d bytes without a "
                         "comma, which separates the names of the key rewards",
                         ops->name, SR1__REWARD_NAME_MAX);
    if (!isfinite(weight))
        return sr1__fail(SR1_E_INVALID, "reward '%s': its weight is not finite",
                         ops->name);
    if (ops->level != SR1_REWARD_OUTCOME && ops->level != SR1_REWARD_TURN)
        return sr1__fail(SR1_E_INVALID, "reward '%s': level %d is no SR1_REWARD_*",
                         ops->name, (int)ops->level);
    for (i = 0; i < set->n; i++)
        if (strcmp(set->entries[i].name, ops->name) == 0)
            return sr1__fail(SR1_E_INVALID, "reward '%s' is in the set already",
                             ops->name);
    return SR1_OK;
}

sr1_status sr1_reward_set_add(sr1_reward_set *set, const sr1_reward_ops *given,
                              void *self, double weight)
{
    sr1_reward_ops ops = {0};
    struct sr1__reward_entry *entries, *e;
    char *name;

    SR1__TRY(sr1__struct_take(&ops, sizeof ops, given,
                              SR1__STRUCT_END(sr1_reward_ops, score), "reward: ops"));
    SR1__TRY(check_new(set, &ops, weight));
    if (atomic_load(&set->life.calls) > 0)
        return sr1__fail(SR1_E_STATE,
                         "reward '%s': the set is scoring; add rewards before or after",
                         ops.name);
    entries = sr1__realloc(set->entries, set->n + 1, sizeof *entries);
    SR1__CHECK_ALLOC(entries, "rewards");
    set->entries = entries;
    name = sr1__strdup(ops.name);
    SR1__CHECK_ALLOC(name, "rewards");
    e = &set->entries[set->n++];
    e->name = name;
    e->weight = weight;
    e->ops = ops;
    e->ops.name = name;
    e->self = self;
    return SR1_OK;
}

size_t sr1_reward_set_count(const sr1_reward_set *set)
{
    return set != NULL ? set->n : 0;
}

const char *sr1_reward_set_name(const sr1_reward_set *set, size_t i)
{
    return set != NULL && i < set->n ? set->entries[i].name : NULL;
}

int32_t sr1_reward_set_level(const sr1_reward_set *set, size_t i)
{
    return set != NULL && i < set->n ? set->entries[i].ops.level : -1;
}
