/* train/trainer.c - build a trainer; one step from questions to new weights.
 *
 *     query -> rollout -> trajectory -> reward -> advantage -> loss -> update */
#include "train/internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "trajectory/trajectory.h"

#include <searchr1/advantage.h>
#include <searchr1/embed.h>

#include <inttypes.h>
#include <string.h>

/* ---- building ---- */

/* NULL where the configuration names none. */
static sr1_status open_embedder(sr1_embedder **out, const sr1_config *c)
{
    const char *folder = sr1__config_str(c, "reward_embedder");
    sr1_encoder_options o;

    *out = NULL;
    if (!*folder)
        return SR1_OK;
    sr1_encoder_options_init(&o);
    o.device = sr1__config_str(c, "device");
    return sr1__context(sr1_embedder_open(out, folder, &o), "reward_embedder");
}

static sr1_status open_rewards(sr1_trainer *tr)
{
    const sr1_config *c = tr->config;
    sr1_status st;
    sr1_reward_scales scales = {.struct_size = sizeof(scales)};
    sr1_reward_options o = {.struct_size = sizeof(o), .scales = &scales};

    SR1__TRY(sr1_reward_scales_default(&scales));
    scales.format_reward = sr1__config_real(c, "format_reward");
    scales.format_penalty = sr1__config_real(c, "format_penalty");
    scales.answer_reward = sr1__config_real(c, "answer_reward");
    scales.exact_match_bonus = sr1__config_real(c, "exact_match_bonus");
    scales.no_content_reward = sr1__config_real(c, "no_content_reward");
    scales.similarity_threshold = sr1__config_real(c, "similarity_threshold");
    scales.no_content_text = sr1__config_str(c, "no_content_text");
    o.rewards = sr1__config_str(c, "rewards");
    o.weights = sr1__config_str(c, "reward_weights");
    o.protocol = sr1__config_str(c, "protocol");
    SR1__TRY(open_embedder(&o.embedder, c));
    st = sr1_reward_set_new(&tr->rewards, &o);
    sr1_embedder_free(o.embedder);
    return st;
}

static sr1_status open_optimizer(sr1_trainer *tr)
{
    const sr1_config *c = tr->config;
    struct sr1__adamw a = {
        .beta1 = sr1__config_real(c, "adam_beta1"),
        .beta2 = sr1__config_real(c, "adam_beta2"),
        .eps = sr1__config_real(c, "adam_epsilon"),
        .weight_decay = sr1__config_real(c, "weight_decay"),
    };

    for (int32_t i = 0; i < tr->n_workers; i++)
        SR1__TRY(sr1__model_train(tr->replicas[i], 1));
    tr->scale.active = tr->model->dtype == SR1__F16;
    tr->scale.value = tr->scale.active ? sr1__config_real(c, "initial_loss_scale") : 1.0;
    return sr1__optimizer_new(&tr->optimizer, tr->model->params, tr->model->n_params, &a,
                              tr->model->device);
}

/* The policy that training began with: the weights as loaded. */
static sr1_status open_reference(sr1_trainer *tr)
{
    const char *name = sr1__config_str(tr->config, "reference_dtype");
    int32_t dtype = -1;

    if (!tr->set.frozen_reference)
        return SR1_OK;
    if (strcmp(name, "auto") != 0)
        SR1__TRY(sr1__torch_dtype_parse(name, &dtype));
    tr->references = sr1__calloc((size_t)tr->n_workers, sizeof(sr1_model *));
    if (!tr->references)
        return sr1__fail_nomem("reference");
    SR1__TRY(sr1__model_clone(&tr->references[0], tr->model, dtype));
    for (int32_t w = 1; w < tr->n_workers; w++)
        SR1__TRY(sr1__model_replica(&tr->references[w], tr->references[0]));
    return SR1_OK;
}

static void close_reference(sr1_trainer *tr)
{
    for (int32_t w = tr->references ? tr->n_workers : 0; w-- > 0;)
        sr1_model_free(tr->references[w]);
    sr1__free(tr->references);
}

static sr1_status open_data(sr1_trainer *tr)
{
    sr1_status st;
    int64_t rows = 0;

    SR1__TRY(tr->stage->open(tr, &rows));
    if (rows > 0)
        SR1__TRY(sr1__cursor_new(&tr->cursor, rows, tr->set.seed, tr->set.shuffle));
    st = sr1__dataset_configured(&tr->validation, tr->config, SR1_PART_VALIDATION);
    if (st != SR1_OK && st != SR1_E_NOT_FOUND)
        return st;
    if (rows > 0) {
        int64_t per_epoch = (rows + tr->set.batch_size - 1) / tr->set.batch_size;

        tr->planned =
            tr->set.max_steps ? tr->set.max_steps : per_epoch * tr->set.num_epochs;
    }
    tr->set.schedule.total = tr->planned;
    return SR1_OK;
}

static char *run_folder(const sr1_config *c)
{
    const char *out = sr1__config_str(c, "out");

    return *out ? sr1__strdup(out) : sr1__path_join("runs", sr1__config_str(c, "name"));
}

static sr1_status build(sr1_trainer *tr, sr1_search *search)
{
    SR1__TRY(sr1_config_validate(tr->config));
    SR1__TRY(sr1__settings_read(&tr->set, tr->config));
    tr->stage = sr1__stage_find(sr1__config_str(tr->config, "stage"));
    if (tr->stage->loss)
        tr->set.loss = sr1__loss_find(tr->stage->loss);
    tr->run_folder = run_folder(tr->config);
    if (!tr->run_folder)
        return sr1__fail_nomem("run folder");
    SR1__TRY(sr1_rollout_new(&tr->rollout, tr->config, NULL, NULL, search));
    tr->model = sr1_rollout_model(tr->rollout);
    tr->n_workers = sr1__rollout_lanes(tr->rollout, &tr->replicas, &tr->pool);
    SR1__TRY(open_rewards(tr));
    SR1__TRY(open_reference(tr));
    SR1__TRY(open_optimizer(tr));
    return open_data(tr);
}

sr1_status sr1_trainer_new(sr1_trainer **out, const sr1_config *config,
                           sr1_search *search)
{
    sr1_trainer *tr;
    sr1_status st;

    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "trainer: out and config are required");
    tr = sr1__calloc(1, sizeof(*tr));
    if (!tr)
        return sr1__fail_nomem("trainer");
    st = sr1_config_copy(&tr->config, config);
    if (st == SR1_OK)
        st = build(tr, search);
    if (st != SR1_OK) {
        sr1_trainer_free(tr);
        return st;
    }
    *out = tr;
    return SR1_OK;
}

void sr1_trainer_free(sr1_trainer *tr)
{
    if (!tr)
        return;
    sr1__jsonl_close(tr->metrics);
    sr1__jsonl_close(tr->trajectories);
    sr1__optimizer_free(tr->optimizer);
    close_reference(tr);
    sr1_reward_set_free(tr->rewards);
    sr1__cursor_free(tr->cursor);
    sr1__demos_free(tr->demos);
    sr1_dataset_free(tr->train);
    sr1_dataset_free(tr->validation);
    sr1_rollout_free(tr->rollout);
    sr1_config_free(tr->config);
    sr1__free(tr->run_folder);
    sr1__free(tr);
}

sr1_status sr1_trainer_add_reward(sr1_trainer *tr, const sr1_reward_ops *ops, void *self,
                                  double weight)
{
    if (tr->begun)
        return sr1__fail(SR1_E_STATE, "the run has begun; add rewards before it");
    return sr1_reward_set_add(tr->rewards, ops, self, weight);
}

sr1_rollout *sr1_trainer_rollout(sr1_trainer *tr)
{
    return tr->rollout;
}

int64_t sr1_trainer_steps_done(const sr1_trainer *tr)
{
    return tr->step;
}

int64_t sr1_trainer_steps_planned(const sr1_trainer *tr)
{
    return tr->planned;
}

const char *sr1_trainer_run_folder(const sr1_trainer *tr)
{
    return tr->run_folder;
}

void sr1_trainer_stop(sr1_trainer *tr)
{
    atomic_store(&tr->stop, 1);
}

/* ---- one step of reinforcement learning ---- */

/* What a step works on. */
struct step {
    sr1_trainer *tr;
    const sr1_query *queries;
    size_t n_queries;
    int32_t group_size;
    sr1_trajectory **made; /* [n] */
    size_t n;
    sr1_trajectory **kept; /* [n_kept] of made: those that can be scored; borrowed */
    size_t n_kept;
    uint8_t *dead; /* [n_kept] its group cannot teach */
    struct sr1__trajectory_store *store;
    struct sr1__trajectory_store *log; /* takes all of them, or NULL */
    int keep;                          /* the caller wants them */
    sr1_step_report *report;
};

static sr1_status roll_out(struct step *s)
{
    struct sr1__rollout_stats stats;
    sr1_rollout_options o = {.struct_size = sizeof(o), .group_size = s->group_size};
    uint64_t step = (uint64_t)s->tr->step;
    double began = sr1__now();

    o.seed = sr1__hash64(&step, sizeof(step), s->tr->set.seed);
    sr1__rollout_set_version(s->tr->rollout, s->tr->step);
    SR1__TRY(sr1_rollout_generate(s->tr->rollout, s->queries, s->n_queries, &o, s->made));
    sr1__rollout_stats(s->tr->rollout, &stats);
    s->report->seconds_rollout = sr1__now() - began;
    s->report->seconds_search = stats.search_seconds;
    s->report->searches = stats.searches;
    s->report->failed_searches = stats.failed_searches;
    s->report->policy_tokens = stats.policy_tokens;
    s->report->entropy =
        stats.policy_tokens ? stats.entropy / (double)stats.policy_tokens : 0.0;
    return SR1_OK;
}

/* An outage is not the policy's failure: trajectories whose search had no answer are
 * neither scored nor compared nor trained on, only logged and counted. */
static void leave_out(struct step *s)
{
    size_t group = (size_t)s->group_size;

    for (size_t i = 0; i < s->n; i += group) {
        size_t before = s->n_kept;

        for (size_t k = i; k < i + group; k++)
            if (!sr1__trajectory_excluded(s->made[k]))
                s->kept[s->n_kept++] = s->made[k];
        s->report->excluded_groups += s->n_kept == before;
    }
    if (s->n_kept < s->n)
        sr1__log(SR1_LOG_WARN,
                 "step %" PRId64 ": %zu of %zu trajectories are left out: a search of "
                 "theirs failed",
                 s->tr->step + 1, s->n - s->n_kept, s->n);
}

static sr1_status reward(struct step *s)
{
    return sr1_reward_set_apply(s->tr->rewards, s->kept, s->n_kept);
}

/* Compare each trajectory with its group; groups are those of one prompt. */
static sr1_status compare(struct step *s)
{
    sr1_advantage_options o = {.struct_size = sizeof(o),
                               .eps = SR1_ADVANTAGE_EPS,
                               .divide_by_std = s->tr->set.advantage_std};
    sr1_advantage_batch b = {.struct_size = sizeof(b), .n = s->n_kept};
    double *rewards = sr1__calloc(2 * s->n_kept + 1, sizeof(*rewards));
    uint64_t *groups = sr1__calloc(s->n_kept + 1, sizeof(*groups));
    size_t dead = 0;
    sr1_status st = rewards && groups ? SR1_OK : sr1__fail_nomem("advantages");

    for (size_t i = 0; i < s->n_kept && st == SR1_OK; i++) {
        rewards[i] = sr1_trajectory_reward(s->kept[i]);
        groups[i] = sr1_trajectory_group_key(s->kept[i]);
    }
    b.rewards = rewards;
    b.groups = groups;
    if (st == SR1_OK)
        st = sr1_advantage_compute(s->tr->set.advantage, &b, &o, rewards + s->n_kept,
                                   NULL);
    if (st == SR1_OK)
        st = sr1_advantage_dead_groups(rewards, groups, s->n_kept, s->dead, NULL, &dead);
    for (size_t i = 0; i < s->n_kept && st == SR1_OK; i++)
        st = sr1_trajectory_set_advantage(s->kept[i], rewards[s->n_kept + i]);
    s->report->dead_groups = (int64_t)dead;
    sr1__free(rewards);
    sr1__free(groups);
    return st;
}

/* Keep what the update needs, within the memory allowed. */
static sr1_status store(struct step *s)
{
    int64_t limit = s->tr->set.trajectory_memory;
    const char *folder = limit ? s->tr->run_folder : NULL;

    if (folder)
        SR1__TRY(sr1__dir_make(folder));
    SR1__TRY(sr1__trajectory_store_new(&s->store, limit, folder));
    for (size_t i = 0; i < s->n_kept; i++)
        if (!(s->tr->set.skip_dead_groups && s->dead[i]))
            SR1__TRY(sr1__trajectory_store_add(s->store, s->kept[i]));
    return SR1_OK;
}

static sr1_status update(struct step *s)
{
    struct sr1__source from = {.store = s->store};

    return sr1__update(s->tr, &from, s->tr->set.update_times, s->report);
}

/* Let go of what the stores keep, so that the bound on memory holds during the update. */
static sr1_status hand_over(struct step *s)
{
    for (size_t i = 0; s->log && i < s->n; i++)
        SR1__TRY(sr1__trajectory_store_add(s->log, s->made[i]));
    for (size_t i = 0; !s->keep && i < s->n; i++) {
        sr1_trajectory_free(s->made[i]);
        s->made[i] = NULL;
    }
    return SR1_OK;
}

static sr1_status run_step(struct step *s)
{
    SR1__TRY(roll_out(s));
    leave_out(s);
    SR1__TRY(reward(s));
    SR1__TRY(compare(s));
    SR1__TRY(sr1__describe_trajectories(s->tr, s->made, s->n, s->report));
    SR1__TRY(store(s));
    SR1__TRY(hand_over(s));
    return update(s);
}

static sr1_status check_report(const sr1_step_report *report)
{
    return report ? sr1__struct_check(report, "step report") : SR1_OK;
}

static sr1_status give_report(sr1_step_report *out, const sr1_step_report *r)
{
    return out ? sr1__struct_give(out, r, sizeof(*r), "step report") : SR1_OK;
}

sr1_status sr1__train_step(sr1_trainer *tr, const sr1_query *queries, size_t n,
                           int32_t group_size, sr1_step_report *report,
                           sr1_trajectory **out, struct sr1__trajectory_store *log)
{
    sr1_step_report r = {.struct_size = sizeof(r), .step = tr->step + 1};
    struct step s = {.tr = tr,
                     .queries = queries,
                     .n_queries = n,
                     .report = &r,
                     .log = log,
                     .keep = out != NULL};
    double began = sr1__now();
    sr1_status st;

    SR1__TRY(check_report(report));
    s.group_size = group_size ? group_size : (int32_t)tr->set.group_size;
    if (s.group_size < 1 || n > SIZE_MAX / sizeof(void *) / (size_t)s.group_size)
        return sr1__fail(SR1_E_INVALID, "train step: group_size %d", s.group_size);
    s.n = n * (size_t)s.group_size;
    s.made = sr1__calloc(s.n + 1, sizeof(sr1_trajectory *));
    s.kept = sr1__calloc(s.n + 1, sizeof(sr1_trajectory *));
    s.dead = sr1__calloc(s.n + 1, 1);
    st = s.made && s.kept && s.dead ? run_step(&s)
                                    : sr1__fail_nomem("trajectories of a step");
    sr1__trajectory_store_free(s.store);
    if (st == SR1_OK) {
        tr->step++;
        r.seconds = sr1__now() - began;
        st = give_report(report, &r);
    }
    for (size_t i = 0; s.made && i < s.n; i++) {
        if (st == SR1_OK && out)
            out[i] = s.made[i];
        else
            sr1_trajectory_free(s.made[i]);
    }
    sr1__free(s.made);
    sr1__free(s.kept);
    sr1__free(s.dead);
    return sr1__context(st, "step %" PRId64, tr->step + (st != SR1_OK));
}

sr1_status sr1_trainer_train_step(sr1_trainer *tr, const sr1_query *queries, size_t n,
                                  int32_t group_size, sr1_step_report *report,
                                  sr1_trajectory **out)
{
    if (!tr || (n && !queries))
        return sr1__fail(SR1_E_INVALID, "train step: trainer and queries are required");
    return sr1__train_step(tr, queries, n, group_size, report, out, NULL);
}

/* What the model can read, with log-probs of the distribution that is trained. */
static sr1_status check_trainable(const sr1_trainer *tr, const sr1_trajectory *t,
                                  size_t i)
{
    double temperature = sr1_trajectory_temperature(t);

    if ((int64_t)sr1_trajectory_token_count(t) > tr->model->config.max_positions)
        return sr1__fail(
            SR1_E_LIMIT,
            "trajectory %zu (query '%s', sample %d) has %zu tokens, the model "
            "reads at most %" PRId64,
            i, sr1_trajectory_query_id(t), (int)sr1_trajectory_sample(t),
            sr1_trajectory_token_count(t), tr->model->config.max_positions);
    if (sr1_trajectory_policy_count(t) == 0 || sr1__trajectory_excluded(t) ||
        (temperature == tr->set.temperature && sr1_trajectory_top_p(t) == 1.0 &&
         sr1_trajectory_top_k(t) == 0))
        return SR1_OK;
    return sr1__fail(
        SR1_E_INVALID,
        "trajectory %zu (query '%s', sample %d) was sampled at temperature %g, "
        "top_p %g, top_k %d; training needs temperature %g and nothing cut",
        i, sr1_trajectory_query_id(t), (int)sr1_trajectory_sample(t), temperature,
        sr1_trajectory_top_p(t), (int)sr1_trajectory_top_k(t), tr->set.temperature);
}

sr1_status sr1_trainer_update(sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                              sr1_step_report *report)
{
    sr1_step_report r = {.struct_size = sizeof(r)};
    struct sr1__source from = {.array = (const sr1_trajectory *const *)t, .n = n};
    double began = sr1__now();

    if (!tr || (n && !t))
        return sr1__fail(SR1_E_INVALID, "update: trainer and trajectories are required");
    SR1__TRY(check_report(report));
    r.step = tr->step + 1;
    for (size_t i = 0; i < n; i++)
        SR1__TRY(check_trainable(tr, t[i], i));
    SR1__TRY(sr1__describe_trajectories(tr, t, n, &r));
    SR1__TRY(sr1__context(sr1__update(tr, &from, tr->set.update_times, &r),
                          "step %" PRId64, tr->step + 1));
    tr->step++;
    r.seconds = sr1__now() - began;
    return give_report(report, &r);
}
