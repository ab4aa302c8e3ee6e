/* train/startup_warnings.c - warnings about the settings, logged before the first step.
 */
#include "train/internal.h"

#include "base/mem.h"
#include "config/choices.h"
#include "policy/rollout_internal.h"
#include "text/data/dataset.h"

#include <searchr1/ext/model_details.h>

#include <inttypes.h>
#include <stdio.h>

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

static int has_no_critic(const sr1_trainer *tr)
{
    return !(tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES);
}

/* The policy's rate follows the critic's own steps. */
static int warn_critic_warmup(const sr1_trainer *tr, char *text, size_t size)
{
    if (has_no_critic(tr) || tr->planned == 0 || tr->set.critic_warmup < tr->planned)
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

static int revises_nothing(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    return !e || !e->revises;
}

static int acts_otherwise(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    return !e || !e->of_user;
}

static int names_engine(const sr1_config *c, const char *engine)
{
    return sr1__config_has_item(c, "search_engine", engine) ||
           sr1__config_has_item(c, "search_fallback", engine);
}

static int lacks_engine(const sr1_config *c, const char *engine)
{
    return !names_engine(c, engine) &&
           !(names_engine(c, "hybrid") &&
             sr1__config_has_item(c, "search_hybrid", engine));
}

/* Keys that one value of another key alone reads, or (but) every one but that. */
static const struct {
    const char *key, *by, *value;
    int but;
} read_by[] = {
    {"importance_high", "importance_correction", "none", 1},
    {"importance_low", "importance_correction", "none", 1},
    {"kl_target", "kl_controller", "adaptive", 0},
    {"kl_horizon", "kl_controller", "adaptive", 0},
    {"entropy_target", "entropy_controller", "adaptive", 0},
    {"entropy_coef_delta", "entropy_controller", "adaptive", 0},
    {"loss_length", "loss_aggregation", "seq-mean-token-sum-norm", 0},
    {"pass_k", "advantage", "pass_at_k", 0},
    {"thinking_cost_w", "protocol", "rlvcr", 0},
    {"thinking_cost_max", "protocol", "rlvcr", 0},
    {"level_max_tokens", "protocol", "rlvcr", 0},
    {"proxy_model", "environment", "critique", 0},
    {"reference_dtype", "kl_reference", "old", 1},
};

/* The first of them that is set for nothing. */
static int warn_unread_value(const sr1_trainer *tr, char *text, size_t size)
{
    const sr1_config *c = tr->config;

    for (size_t i = 0; i < sizeof(read_by) / sizeof(read_by[0]); i++) {
        int is = sr1__config_is(c, read_by[i].by, read_by[i].value);

        if (is != read_by[i].but || !sr1__config_is_set(c, read_by[i].key))
            continue;
        snprintf(text, size, "%s is set, and %s is %s: nothing reads it", read_by[i].key,
                 read_by[i].by, sr1__config_str(c, read_by[i].by));
        return 1;
    }
    return 0;
}

/* Keys that nothing reads, since another that they serve is off: the first that is set.
 */
static int warn_unread(const sr1_trainer *tr, char *text, size_t size)
{
    static const char no_adapter[] =
        "lora_rank is 0: all weights are trained; set lora_rank to train an adapter";
    static const char no_critic[] = "only an advantage with a critic (gae) reads it";
    static const char no_validation[] = "there are no questions for validation";
    static const char greedy[] =
        "validation_temperature is 0: a validation takes the likeliest token";
    const sr1_config *c = tr->config;
    const int no_lora = tr->set.lora.rank == 0, no_values = has_no_critic(tr);
    const int is_greedy = tr->set.validation_sampling.temperature == 0.0;
    const struct {
        const char *key;
        int is_unread;
        const char *why;
    } rows[] = {
        {"lora_alpha", no_lora, no_adapter},
        {"lora_targets", no_lora, no_adapter},
        {"lora_dropout", no_lora, no_adapter},
        {"critic_learning_rate", no_values, no_critic},
        {"critic_warmup", no_values, no_critic},
        {"critic_model", no_values, no_critic},
        {"value_clip", no_values, no_critic},
        {"openai_base_url", !sr1__config_bool(c, "use_openai"),
         "use_openai is off: the policy generates in this process"},
        {"environment_program", acts_otherwise(c),
         "environment is not program: it is not started"},
        {"search_program", lacks_engine(c, "program"),
         "search_engine is not program: it is not started"},
        {"search_index_device", lacks_engine(c, "dense"),
         "no search engine is dense: the others, FAISS too, search on the CPU"},
        {"judge_base_url", !sr1__config_has_item(c, "rewards", "judge"),
         "rewards do not name judge: none of them asks it"},
        {"sft_file", !sr1__config_imitates(c),
         "stage is not sft: no demonstration is read; set stage: sft to train on them"},
        {"stop_at_exact_match", !tr->validation,
         "there are no questions for validation: the run goes to its end"},
        {"validation_temperature", !tr->validation, no_validation},
        {"validation_group_size", !tr->validation, no_validation},
        {"log_validation_trajectories", !tr->validation, no_validation},
        {"validation_top_p", is_greedy, greedy},
        {"validation_top_k", is_greedy, greedy},
        {"reference_mixup_alpha", tr->set.reference_sync_steps == 0,
         "reference_sync_steps is 0: the reference does not move"},
        {"validation_samples", !tr->validation,
         "there are no questions for validation: none is made"},
        {"overlong_penalty", sr1__config_int(c, "overlong_buffer") == 0,
         "overlong_buffer is 0: no response loses reward by its length"},
        {"weight_sync_backend", !sr1__config_bool(c, "use_openai"),
         "use_openai is off: this process generates, and has the weights"},
        {"search_index", lacks_engine(c, "bm25"),
         "search_engine is not bm25: the index is not opened"},
        {"code_problems",
         revises_nothing(c) && !sr1__config_has_item(c, "rewards", "execution"),
         "environment is not critique, and rewards do not name execution: no program "
         "runs"},
        {"forward_prefetch",
         sr1__config_bool(c, "forward_prefetch") &&
             !sr1__config_bool(c, "reshard_after_forward"),
         "reshard_after_forward is off: no weights travel in an update; set it, and "
         "fsdp_size"},
        {"mlflow_experiment", *sr1__config_str(c, "mlflow_tracking_uri") == '\0',
         "mlflow_tracking_uri is not: nothing is sent; set it to the server's address, "
         "or to env"},
        {"curriculum_field", tr->sampler.rule != NULL,
         "query_selection chooses the questions, in no order of theirs; take order"},
        {"test_file", 1,
         "no step and no validation asks its questions: sr1-eval RUN FILE does"},
        {"test_split", sr1__config_real(c, "test_split") > 0,
         "its part of train_file is left out, and no tool asks it: put these rows into a "
         "file of their own, which sr1-eval RUN FILE asks"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].is_unread && sr1__config_is_set(c, rows[i].key)) {
            snprintf(text, size, "%s is set, and %s", rows[i].key, rows[i].why);
            return 1;
        }
    return 0;
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

int sr1__startup_warning(const sr1_trainer *tr, size_t i, char *text, size_t size)
{
    static int (*const warnings[])(const sr1_trainer *, char *, size_t) = {
        warn_reference,   warn_rate,      warn_warmup,  warn_critic_warmup,
        warn_validation,  warn_same_rows, warn_repeats, warn_unread,
        warn_rank,        warn_engine,    warn_pair,    warn_no_tools,
        warn_unread_value};

    if (i >= sizeof(warnings) / sizeof(warnings[0]))
        return -1;
    return warnings[i](tr, text, size);
}
