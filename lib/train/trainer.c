/* train/trainer.c - build a trainer; one step from questions to new weights.
 *
 *     query -> rollout -> trajectory -> reward -> advantage -> loss -> update */
#include "train/step.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "rollout/asked.h"
#include "trajectory/trajectory.h"

#include <searchr1/advantage.h>

#include <inttypes.h>
#include <string.h>

/* ---- building ---- */

struct sr1__adamw sr1__adamw_configured(const sr1_config *c)
{
    return (struct sr1__adamw){
        .beta1 = sr1__config_real(c, "adam_beta1"),
        .beta2 = sr1__config_real(c, "adam_beta2"),
        .eps = sr1__config_real(c, "adam_epsilon"),
        .weight_decay = sr1__config_real(c, "weight_decay"),
    };
}

static sr1_status open_policy(sr1_trainer *tr)
{
    struct sr1__adamw how = sr1__adamw_configured(tr->config);

    tr->policy.name = "policy";
    tr->policy.n = tr->n_workers;
    tr->policy.schedule = tr->set.schedule;
    tr->policy.max_grad_norm = tr->set.max_grad_norm;
    return sr1__learner_open(&tr->policy, &how,
                             sr1__config_real(tr->config, "initial_loss_scale"));
}

/* The weights as loaded, where the reviser of critiques holds them already in this type;
 * else NULL. They are its own: no update reaches them. */
static sr1_model *loaded_again(const sr1_trainer *tr, int32_t dtype)
{
    const char *proxy = sr1__config_str(tr->config, "proxy_model");
    sr1_model *m = sr1__rollout_reviser(tr->rollout);
    int same = !*proxy ||
               strcmp(proxy, sr1__config_str(tr->config, "model_name_or_path")) == 0;

    if (!m || !same || m->dtype != (dtype < 0 ? tr->model->dtype : dtype))
        return NULL;
    return m;
}

/* The policy that training began with: the weights as loaded. */
static sr1_status open_reference(sr1_trainer *tr)
{
    const char *name = sr1__config_str(tr->config, "reference_dtype");
    sr1_model *frozen = NULL, *loaded;
    int32_t dtype = -1;

    if (!tr->set.frozen_reference)
        return SR1_OK;
    if (strcmp(name, "auto") != 0)
        SR1__TRY(sr1__torch_dtype_parse(name, &dtype));
    loaded = loaded_again(tr, dtype);
    SR1__TRY(loaded ? sr1__model_replica(&frozen, loaded)
                    : sr1__model_clone(&frozen, tr->model, dtype));
    return sr1__replicas_new(&tr->references, frozen, tr->n_workers);
}

static sr1_status open_data(sr1_trainer *tr)
{
    sr1_status st;
    int64_t rows = 0;

    SR1__TRY(tr->stage->open(tr, &rows));
    if (rows > 0)
        SR1__TRY(sr1__cursor_new(&tr->cursor, rows, tr->set.seed, tr->set.shuffle));
    if (rows > 0 && tr->train)
        SR1__TRY(sr1__questions_open(tr, rows));
    st = sr1__dataset_configured(&tr->validation, tr->config, SR1_PART_VALIDATION);
    if (st != SR1_OK && st != SR1_E_NOT_FOUND)
        return st;
    if (tr->validation)
        SR1__TRY(sr1__questions_fit(tr, tr->validation, "questions for validation"));
    if (rows > 0) {
        int64_t per_epoch = (rows + tr->set.batch_size - 1) / tr->set.batch_size;

        tr->planned =
            tr->set.max_steps ? tr->set.max_steps : per_epoch * tr->set.num_epochs;
    }
    tr->policy.schedule.total = tr->critic.schedule.total = tr->planned;
    return SR1_OK;
}

static char *run_folder(const sr1_config *c)
{
    const char *out = sr1__config_str(c, "out");

    return *out ? sr1__strdup(out) : sr1__path_join("runs", sr1__config_str(c, "name"));
}

static sr1_status build(sr1_trainer *tr, sr1_search *search)
{
    SR1__TRY(sr1__settings_resolve(tr->config));
    SR1__TRY(sr1_config_validate(tr->config));
    SR1__TRY(sr1__settings_read(&tr->set, tr->config));
    tr->kl = tr->set.kl;
    sr1__entropy_read(&tr->entropy, tr->config);
    tr->stage = sr1__stage_find(sr1__config_str(tr->config, "stage"));
    if (tr->stage->loss)
        tr->set.loss = sr1__loss_find(tr->stage->loss);
    tr->run_folder = run_folder(tr->config);
    if (!tr->run_folder)
        return sr1__fail_nomem("run folder");
    SR1__TRY(sr1__rollout_new_trained(&tr->rollout, tr->config, search));
    tr->model = sr1_rollout_model(tr->rollout);
    tr->n_workers = sr1__rollout_lanes(tr->rollout, &tr->policy.replicas, &tr->pool);
    SR1__TRY(sr1_reward_set_open(&tr->rewards, tr->config));
    SR1__TRY(open_reference(tr));
    SR1__TRY(open_policy(tr));
    SR1__TRY(sr1__critic_open(tr));
    SR1__TRY(open_data(tr));
    return sr1__serving_open(tr);
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
    sr1__events_close(tr->events);
    sr1__learner_close(&tr->policy);
    sr1__critic_close(tr);
    sr1__replicas_free(tr->references, tr->n_workers);
    sr1_reward_set_free(tr->rewards);
    sr1__cursor_free(tr->cursor);
    sr1__questions_close(tr);
    sr1__demos_free(tr->demos);
    sr1_dataset_free(tr->train);
    sr1_dataset_free(tr->validation);
    sr1_rollout_free(tr->rollout);
    json_decref(tr->reward_means);
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

/* What teaches nothing, or is not to, is kept from the update and what leads up to it. */
static void drop_dead(struct sr1__step *s)
{
    const struct sr1__settings *set = &s->tr->set;

    s->n_taught = 0;
    for (size_t i = 0; i < s->n_kept; i++) {
        int cut = set->mask_truncated && sr1__was_cut(s->kept[i]);

        s->report->masked += cut;
        if (!cut && !(set->skip_dead_groups && s->dead[i]))
            s->kept[s->n_taught++] = s->kept[i];
    }
}

/* Columns that frozen weights give. */
static sr1_status judge(sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                        uint32_t columns, sr1_step_report *report)
{
    double began = sr1__now();

    SR1__TRY(sr1__judge(tr, t, n, columns));
    report->seconds_reference += sr1__now() - began;
    return SR1_OK;
}

/* While rewards that were begun are still at work, what does not depend on them. */
static sr1_status judge_early(struct sr1__step *s)
{
    const struct sr1__settings *set = &s->tr->set;

    if (!sr1_reward_set_begins(s->tr->rewards))
        return SR1_OK;
    s->judged = set->compare_columns | (set->update_columns & 1u << SR1_COLUMN_REFERENCE);
    return judge(s->tr, s->kept, s->n_kept, s->judged, s->report);
}

static sr1_status reward(struct sr1__step *s)
{
    double began = sr1__now();

    SR1__TRY(sr1_reward_set_apply(s->tr->rewards, s->kept, s->n_kept));
    s->report->seconds_reward = sr1__now() - began;
    sr1__step_leave_out(s);
    return SR1_OK;
}

sr1_status sr1__step_attempt(struct sr1__step *s)
{
    SR1__TRY(sr1__step_explore(s));
    SR1__TRY(judge_early(s));
    SR1__TRY(reward(s));
    SR1__TRY(sr1__step_shape(s));
    return sr1__questions_learn(s);
}

/* Keep what the update needs, within the memory allowed. */
static sr1_status store(struct sr1__step *s)
{
    int64_t limit = s->tr->set.trajectory_memory;
    const char *folder = limit ? s->tr->run_folder : NULL;

    if (folder)
        SR1__TRY(sr1__dir_make(folder));
    SR1__TRY(sr1__trajectory_store_new(&s->store, limit, folder));
    for (size_t i = 0; i < s->n_taught; i++)
        SR1__TRY(sr1__trajectory_store_add(s->store, s->kept[i]));
    return SR1_OK;
}

/* From here on the step works on the trajectories that the update is to see. */
static sr1_status retell(struct sr1__step *s)
{
    SR1__TRY(sr1__retell(s->tr, s->kept, s->n_taught, &s->told));
    for (size_t i = 0; s->told && i < s->n_taught; i++)
        s->kept[i] = s->told[i];
    return SR1_OK;
}

static sr1_status update(struct sr1__step *s)
{
    struct sr1__source from = {.store = s->store};
    struct sr1__entropy *e = &s->tr->entropy;

    sr1__entropy_begin(e, s->report->entropy);
    s->report->entropy_coef = e->now;
    SR1__TRY(sr1__trainer_learn(s->tr, &from, s->tr->set.update_times, s->report));
    sr1__entropy_end(e, s->report->entropy);
    return SR1_OK;
}

/* Let go of what the stores keep, so that the bound on memory holds during the update. */
static sr1_status hand_over(struct sr1__step *s)
{
    for (size_t i = 0; s->log && i < s->n; i++)
        SR1__TRY(sr1__trajectory_store_add(s->log, s->made[i]));
    sr1__retold_free(s->told, s->n_taught);
    s->told = NULL;
    for (size_t i = 0; !s->keep && i < s->n; i++) {
        sr1_trajectory_free(s->made[i]);
        s->made[i] = NULL;
    }
    return SR1_OK;
}

/* The adaptive controller learns how far the policy went. */
static sr1_status steer_kl(struct sr1__step *s)
{
    if (!s->tr->set.kl_in_reward || s->n_kept == 0)
        return SR1_OK;
    return sr1_kl_controller_update(&s->tr->kl, s->report->reward_kl,
                                    (int64_t)s->n_kept);
}

static sr1_status run_step(struct sr1__step *s)
{
    const struct sr1__settings *set = &s->tr->set;

    SR1__TRY(sr1__step_attempt(s));
    SR1__TRY(sr1__step_refill(s));
    SR1__TRY(sr1__step_levels(s));
    SR1__TRY(judge(s->tr, s->kept, s->n_kept, set->compare_columns & ~s->judged,
                   s->report));
    SR1__TRY(sr1__step_compare(s));
    sr1__describe_trajectories(s->tr, s->made, s->n, s->report);
    SR1__TRY(sr1__metrics_rewards(s->tr, s->made, s->n));
    drop_dead(s);
    SR1__TRY(retell(s));
    SR1__TRY(judge(s->tr, s->kept, s->n_taught,
                   set->update_columns & ~(s->told ? 0 : s->judged), s->report));
    SR1__TRY(store(s));
    SR1__TRY(hand_over(s));
    SR1__TRY(update(s));
    return steer_kl(s);
}

static sr1_status check_report(const sr1_step_report *report)
{
    return report ? sr1__struct_check(report, "step report") : SR1_OK;
}

static sr1_status give_report(sr1_step_report *out, const sr1_step_report *r)
{
    return out ? sr1__struct_give(out, r, sizeof(*r), "step report") : SR1_OK;
}

sr1_status sr1__step_room(struct sr1__step *s)
{
    if (s->group_size < 1 || s->n_queries > SIZE_MAX / 16 / (size_t)s->group_size)
        return sr1__fail(SR1_E_INVALID, "train step: group_size %d", s->group_size);
    s->n = s->n_queries * (size_t)s->group_size;
    s->made = sr1__calloc(s->n + 1, sizeof(sr1_trajectory *));
    s->kept = sr1__calloc(s->n + 1, sizeof(sr1_trajectory *));
    s->dead = sr1__calloc(s->n + 1, 1);
    return s->made && s->kept && s->dead ? SR1_OK
                                         : sr1__fail_nomem("trajectories of a step");
}

void sr1__step_free(struct sr1__step *s)
{
    for (size_t i = 0; s->made && i < s->n; i++)
        sr1_trajectory_free(s->made[i]);
    sr1__trajectory_store_free(s->store);
    sr1__retold_free(s->told, s->n_taught);
    sr1__free(s->made);
    sr1__free(s->kept);
    sr1__free(s->dead);
    sr1__free(s->baselines);
    sr1__free(s->levels);
}

/* A step whose questions are set; made trajectories go to out (may be NULL). */
static sr1_status take_step(struct sr1__step *s, sr1_step_report *report,
                            sr1_trajectory **out)
{
    sr1_trainer *tr = s->tr;
    sr1_step_report r = {.struct_size = sizeof(r), .step = tr->step + 1};
    double began = sr1__now();
    sr1_status st;

    SR1__TRY(check_report(report));
    s->report = &r;
    s->keep = out != NULL;
    st = sr1__step_room(s);
    if (st == SR1_OK)
        st = run_step(s);
    sr1_reward_set_forget(tr->rewards);
    if (st == SR1_OK) {
        tr->step++;
        r.seconds = sr1__now() - began;
        st = give_report(report, &r);
    }
    for (size_t i = 0; st == SR1_OK && out && i < s->n; i++) {
        out[i] = s->made[i];
        s->made[i] = NULL;
    }
    sr1__step_free(s);
    return sr1__context(st, "step %" PRId64, tr->step + (st != SR1_OK));
}

sr1_status sr1__train_step(sr1_trainer *tr, const sr1_query *queries, size_t n,
                           int32_t group_size, sr1_step_report *report,
                           sr1_trajectory **out, struct sr1__trajectory_store *log)
{
    struct sr1__step s = {.tr = tr, .queries = queries, .n_queries = n, .log = log};

    s.group_size = group_size ? group_size : (int32_t)tr->set.group_size;
    return take_step(&s, report, out);
}

sr1_status sr1__train_rows(sr1_trainer *tr, const int64_t *rows, size_t n,
                           sr1_step_report *report, struct sr1__trajectory_store *log)
{
    struct sr1__asked asked;
    struct sr1__step s = {.tr = tr,
                          .rows = rows,
                          .n_queries = n,
                          .group_size = (int32_t)tr->set.group_size,
                          .log = log};
    sr1_status st = sr1__asked_read(&asked, tr->train, rows, 0, n);

    s.queries = asked.queries;
    if (st == SR1_OK)
        st = take_step(&s, report, NULL);
    sr1__asked_free(&asked);
    return st;
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
        return sr1__serving_check(tr, t, i);
    return sr1__fail(
        SR1_E_INVALID,
        "trajectory %zu (query '%s', sample %d) was sampled at temperature %g, "
        "top_p %g, top_k %d; training needs temperature %g and nothing cut",
        i, sr1_trajectory_query_id(t), (int)sr1_trajectory_sample(t), temperature,
        sr1_trajectory_top_p(t), (int)sr1_trajectory_top_k(t), tr->set.temperature);
}

static sr1_status learn_from(sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                             sr1_step_report *r)
{
    sr1_trajectory **told = NULL;
    struct sr1__source from = {.n = n};
    sr1_status st;

    SR1__TRY(sr1__retell(tr, t, n, &told));
    from.array = (const sr1_trajectory *const *)(told ? told : t);
    st = told ? judge(tr, told, n, tr->set.update_columns, r) : SR1_OK;
    if (st == SR1_OK)
        st = sr1__trainer_learn(tr, &from, tr->set.update_times, r);
    sr1__retold_free(told, n);
    return st;
}

sr1_status sr1_trainer_update(sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                              sr1_step_report *report)
{
    sr1_step_report r = {.struct_size = sizeof(r)};
    double began = sr1__now();

    if (!tr || (n && !t))
        return sr1__fail(SR1_E_INVALID, "update: trainer and trajectories are required");
    SR1__TRY(check_report(report));
    r.step = tr->step + 1;
    for (size_t i = 0; i < n; i++)
        SR1__TRY(check_trainable(tr, t[i], i));
    SR1__TRY(judge(tr, t, n, tr->set.compare_columns | tr->set.update_columns, &r));
    sr1__describe_trajectories(tr, t, n, &r);
    r.entropy_coef = tr->entropy.now = tr->entropy.coef;
    SR1__TRY(sr1__context(learn_from(tr, t, n, &r), "step %" PRId64, tr->step + 1));
    tr->step++;
    r.seconds = sr1__now() - began;
    return give_report(report, &r);
}
