/* train/startup_warnings.c - warnings about the settings, logged before the first step.
 */
#include "train/internal.h"

#include "base/mem.h"
#include "config/choices.h"
#include "policy/rollout_internal.h"
#include "text/data/dataset.h"

#include <searchr1/ext/model_details.h>
#include <searchr1/ext/reward_set.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Not set by the user, and different from other trainers' default. */
static int warn_reference(const sr1_trainer *tr, char *text, size_t size)
{
    if (sr1__config_is_set(tr->config, "kl_reference") || tr->train == NULL ||
        tr->set.beta <= 0 || !sr1__config_is(tr->config, "kl_reference", "old"))
        return 0;
    snprintf(
        text, size,
        "beta is %g with kl_reference old, the default: the KL keeps each update near "
        "the policy that made its batch, not the run near its beginning; kl_reference: "
        "frozen does that, as in TRL and verl, and beta: 0 is no KL",
        tr->set.beta);
    return 1;
}

/* The policy's rate follows the critic's own steps. */
static int warn_critic_warmup(const sr1_trainer *tr, char *text, size_t size)
{
    if (!(tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES) || tr->planned == 0 ||
        tr->set.critic_warmup < tr->planned)
        return 0;
    snprintf(text, size,
             "critic_warmup is %" PRId64 " and the run has %" PRId64
             " step%s: only the critic learns, the policy stays as it is",
             tr->set.critic_warmup, tr->planned, tr->planned == 1 ? "" : "s");
    return 1;
}

static int warn_rate(const sr1_trainer *tr, char *text, size_t size)
{
    if (tr->policy.schedule.rate > 0)
        return 0;
    snprintf(text, size, "learning_rate is 0: the policy stays as it is");
    return 1;
}

static int warn_warmup(const sr1_trainer *tr, char *text, size_t size)
{
    const struct sr1__schedule *s = &tr->policy.schedule;

    if (s->total == 0 || s->warmup <= s->total)
        return 0;
    snprintf(text, size,
             "warmup_steps is %" PRId64 " and the run trains the policy in %" PRId64
             " step%s: the learning rate reaches %.3g of %.3g; warmup_ratio is a part of "
             "the steps, however many they are",
             s->warmup, s->total, s->total == 1 ? "" : "s",
             sr1__schedule_rate(s, tr->planned - 1), s->rate);
    return 1;
}

/* A file of questions that no validation reads. */
static int warn_validation(const sr1_trainer *tr, char *text, size_t size)
{
    if (!tr->validation || tr->set.validate_interval > 0 || tr->set.validate_at_start)
        return 0;
    snprintf(text, size,
             "there are questions for validation, and validate_interval is 0: none is "
             "made; set validate_interval to the steps between them");
    return 1;
}

/* A file of both is remembered, and no measure of what was learned. */
static int warn_same_rows(const sr1_trainer *tr, char *text, size_t size)
{
    char **files = NULL;
    size_t n = 0;
    int found = 0;

    if (!tr->train || !tr->validation ||
        sr1__config_list(tr->config, "validation_file", &files, &n) != SR1_OK)
        return 0;
    for (size_t i = 0; i < n && !found; i++) {
        found = sr1__dataset_distinct(tr->train, files[i]) != SR1_OK;
        if (found)
            snprintf(text, size,
                     "validation_file has a file of train_file, %.300s: the policy is "
                     "validated on rows that it trains on; name another, or leave "
                     "validation_file out and set validation_split",
                     files[i]);
    }
    sr1__free(files);
    return found;
}

/* The policy is told to call tools. Those of a program are of an environment of its. */
static int warn_no_tools(const sr1_trainer *tr, char *text, size_t size)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(tr->config);

    if (!e || !e->takes_tools || sr1__config_imitates(tr->config) ||
        tr->rollout->env != tr->configured_env || *sr1_env_tools(tr->rollout->env))
        return 0;
    snprintf(text, size,
             "environment is %s and there is no tool: each call is refused; set tools or "
             "search_engine, or give tools by a program",
             e->name);
    return 1;
}

/* peft and TRL take any rank as well. */
int sr1__rank_warning(int64_t rank, int64_t width, char *text, size_t size)
{
    if (rank <= width || width == 0)
        return 0;
    snprintf(text, size,
             "lora_rank is %" PRId64 " and the model is %" PRId64
             " wide: an adapter of rank %" PRId64 " holds every change of its matrices",
             rank, width, width);
    return 1;
}

static int warn_rank(const sr1_trainer *tr, char *text, size_t size)
{
    return sr1__rank_warning(tr->set.lora.rank,
                             tr->model ? sr1_model_info(tr->model, SR1_MODEL_HIDDEN) : 0,
                             text, size);
}

/* Samples of one question and one step differ by their random numbers alone. */
static int warn_repeats(const sr1_trainer *tr, char *text, size_t size)
{
    const struct sr1__repeats *r = tr->train ? sr1__dataset_repeats(tr->train) : NULL;

    if (!r || r->n == 0)
        return 0;
    snprintf(text, size,
             "%" PRId64 " of %" PRId64 " rows of train_file have the id of a row before "
             "them, '%s' on line %" PRIu64 " of %.200s is the first: random numbers go "
             "by the id, and trajectories are known by it; give each row an id of its "
             "own, or name the field of ids by id_field",
             r->n, r->of, r->id, r->line, r->path);
    return 1;
}

/* Of the environment as configured, where the policy is to act in it. */
static int give_rollout_warning(const sr1_trainer *tr, const char *warning, char *text,
                                size_t size)
{
    if (!warning || !(tr->train || tr->validation))
        return 0;
    snprintf(text, size, "%s", warning);
    return 1;
}

static int warn_engine(const sr1_trainer *tr, char *text, size_t size)
{
    return give_rollout_warning(tr, tr->rollout->no_engine, text, size);
}

static int warn_pair(const sr1_trainer *tr, char *text, size_t size)
{
    return give_rollout_warning(tr, tr->rollout->odd_pair, text, size);
}

static int has_turn_rewards(const sr1_trainer *tr)
{
    for (size_t i = 0; i < sr1_reward_set_count(tr->rewards); i++)
        if (sr1_reward_set_level(tr->rewards, i) == SR1_REWARD_TURN ||
            (tr->set.dense_rewards &&
             strcmp(sr1_reward_set_name(tr->rewards, i), "environment") == 0))
            return 1;
    return 0;
}

/* Turns that all earn nothing are equal. */
static int warn_turn_rewards(const sr1_trainer *tr, char *text, size_t size)
{
    if (!(tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_TURN_REWARDS) ||
        has_turn_rewards(tr))
        return 0;
    snprintf(text, size,
             "advantage %s compares what turns earned, and no reward is of turns: the "
             "outcome alone counts, as with mt_grpo_merged; add one to rewards "
             "(tool_execution, answer_in_results, or environment with dense_rewards)",
             tr->set.estimator.name);
    return 1;
}

/* A rule that goes by successes, where rows may have no answer to succeed by. */
static int warn_successes(const sr1_trainer *tr, char *text, size_t size)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(tr->config);

    if (!sr1__config_is(tr->config, "query_selection", "success_half") || !e ||
        e->has_goal || e->of_user || tr->rollout->env != tr->configured_env ||
        sr1__config_imitates(tr->config) || !sr1__dataset_answers_optional(tr->config))
        return 0;
    snprintf(text, size,
             "query_selection is success_half, and environment %s has no goal: a success "
             "is a closed answer that is a ground truth, so rows without one never have "
             "any, and are chosen at random; reward_variance goes by the rewards",
             e->name);
    return 1;
}

int sr1__startup_warning(const sr1_trainer *tr, size_t i, char *text, size_t size)
{
    static int (*const warnings[])(const sr1_trainer *, char *, size_t) = {
        warn_reference,  warn_rate,      warn_warmup,   warn_critic_warmup,
        warn_validation, warn_same_rows, warn_repeats,  warn_rank,
        warn_engine,     warn_pair,      warn_no_tools, warn_turn_rewards,
        warn_successes};
    const size_t n = sizeof(warnings) / sizeof(warnings[0]);

    return i < n ? warnings[i](tr, text, size) : sr1__warn_unread(tr, i - n, text, size);
}
