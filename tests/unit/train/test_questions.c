/* Which questions a step asks, and what the length of responses does to them: dynamic
 * sampling, selection by what is known, overlong shaping, masking, balanced batches. */
#include "runs.h"
#include "step_metric.h"

#include "base/file.h"
#include "environment/env/protocol.h"
#include "environment/trajectory/builder.h"
#include "train/sampler.h"

/* Rewards by the number k of question "qk": the even ones are worth the same to all
 * samples. */
static sr1_status by_number(void *self, const sr1_trajectory *const *t, size_t n,
                            double *scores)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        int k = atoi(sr1_trajectory_query_id(t[i]) + 1);

        scores[i] = k % 2 ? (double)(k * sr1_trajectory_sample(t[i])) : 1.0;
    }
    return SR1_OK;
}

static sr1_trainer *with_reward(sr1_trainer *tr)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "by_number", .score = by_number};

    OK(sr1_trainer_add_reward(tr, &ops, NULL, 1.0));
    return tr;
}

#define ASKED(name, ...)                                                                 \
    RUN(name, "rewards=format", "reward_weights=0", "shuffle=false", "update_times=1",   \
        "max_tokens=8", __VA_ARGS__)

static void run_by_number(sr1_config *c)
{
    sr1_trainer *tr = with_reward(open_trainer(c));

    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static void step_asks(const char *run, int64_t step, const char *expected)
{
    char found[256];

    list_asked(run, step, found);
    assert_string_equal(found, expected);
}

/* Seven questions, two a step, four samples each. */
static void zero_variance_groups_are_replaced(void **state)
{
    json_t *rows;

    (void)state;
    run_by_number(ASKED("dynamic", "dynamic_sampling=10"));
    rows = metrics("dynamic");
    step_asks("dynamic", 1, "0 1 2 3"); /* 0 and 2 are dead: two more rounds */
    step_asks("dynamic", 2, "4 5 6");   /* the epoch ends with 6 */
    step_asks("dynamic", 3, "0 1 2 3");
    tiny_near(metric(rows, 0, "training/sampling_rounds"), 2, 0);
    tiny_near(metric(rows, 0, "training/trajectories"), 16, 0);
    tiny_near(metric(rows, 0, "training/trained_trajectories"), 8, 0);
    tiny_near(metric(rows, 0, "training/zero_variance_groups"), 2, 0);
    tiny_near(metric(rows, 1, "training/sampling_rounds"), 1, 0);
    tiny_near(metric(rows, 1, "training/trained_trajectories"), 4, 0);
    /* of 1, 3 and the dead: their rewards are 0 to 3 and 0 to 9, ones */
    tiny_near(metric(rows, 0, "avg_reward"), (6.0 + 18 + 4 + 4) / 16, 1e-12);
    json_decref(rows);
}

/* Of the questions 0 and 4 some samples are right, and no other's differ in it; that of 5
 * has no right answer, and of one sample of 3 it could not be known. */
static sr1_status by_correctness(void *self, const sr1_trajectory *const *t, size_t n,
                                 double *scores, int32_t *states)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        int k = atoi(sr1_trajectory_query_id(t[i]) + 1);

        scores[i] = k % 4 || sr1_trajectory_sample(t[i]) % 2;
        states[i] = k == 5 ? SR1_REWARD_NOT_APPLICABLE
                    : k == 3 && sr1_trajectory_sample(t[i]) == 2 ? SR1_REWARD_UNKNOWN
                                                                 : SR1_REWARD_SCORED;
    }
    return SR1_OK;
}

/* Those of 0 have equal rewards, those of 1 and 3 do not; 5 is compared by its own. */
static void groups_are_compared_by_a_metric(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "right", .score_states = by_correctness};
    sr1_trainer *tr = with_reward(open_trainer(
        ASKED("metric", "dynamic_sampling=10", "filter_groups_metric=right")));
    json_t *rows;

    (void)state;
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG,
            "filter_groups_metric is 'right', which is none of the rewards");
    OK(sr1_trainer_add_reward(tr, &ops, NULL, 0.0));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    rows = metrics("metric");
    step_asks("metric", 1, "0 1 2 3 4");
    step_asks("metric", 2, "5 6");
    tiny_near(metric(rows, 0, "training/zero_variance_groups"), 3, 0);
    tiny_near(metric(rows, 0, "training/trained_trajectories"), 8, 0);
    tiny_near(metric(rows, 1, "training/zero_variance_groups"), 1, 0);
    tiny_near(metric(rows, 1, "training/trained_trajectories"), 4, 0);
    json_decref(rows);
}

static void rounds_are_bounded(void **state)
{
    json_t *rows;

    (void)state;
    run_by_number(ASKED("bounded", "dynamic_sampling=1"));
    rows = metrics("bounded");
    step_asks("bounded", 1, "0 1 2");
    tiny_near(metric(rows, 0, "training/sampling_rounds"), 1, 0);
    tiny_near(metric(rows, 0, "training/trained_trajectories"), 4, 0);
    json_decref(rows);
    run_by_number(ASKED("none", "dynamic_sampling=0"));
    rows = metrics("none");
    step_asks("none", 1, "0 1");
    tiny_near(metric(rows, 0, "training/trained_trajectories"), 8, 0);
    json_decref(rows);
}

static void find_rates(void *user, const char *text)
{
    *(int *)user |= strstr(text, "learning rates") != NULL;
}

/* The first pass over seven questions takes two steps, not the four of seven by two, by
 * which the rates go then and afterwards. */
static void passes_end_with_the_questions(void **state)
{
    sr1_trainer *tr =
        with_reward(open_trainer(ASKED("passes", "dynamic_sampling=10", "max_steps=0",
                                       "num_epochs=1", "lr_schedule=linear")));
    int told = 0;
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .note = find_rates, .user = &told};

    (void)state;
    assert_int_equal(sr1_trainer_steps_planned(tr), 4);
    OK(sr1_trainer_run(tr, NULL));
    assert_int_equal(sr1_trainer_steps_done(tr), 2);
    step_asks("passes", 2, "4 5 6");
    sr1_trainer_free(tr);
    OK(sr1_trainer_resume(&tr, scratch_path("passes"), NULL));
    tr = with_reward(tr);
    OK(sr1_trainer_run(tr, &cb));
    assert_int_equal(sr1_trainer_steps_done(tr), 2);
    assert_int_equal(told, 0);
    sr1_trainer_free(tr);
}

/* The greedy baselines of remax are of the further questions too. */
static void baselines_are_asked_again(void **state)
{
    json_t *rows;

    (void)state;
    run_by_number(ASKED("remax", "dynamic_sampling=10", "advantage=remax"));
    rows = metrics("remax");
    step_asks("remax", 1, "0 1 2 3");
    tiny_near(metric(rows, 0, "training/trained_trajectories"), 8, 0);
    json_decref(rows);
}

/* Four questions, of which the second is long. */
static const char *long_pair(void)
{
    static char pair[600];
    char text[2048];
    size_t n = 0;

    for (int k = 0; k < 4; k++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"id\": \"q%d\", \"question\": \"Where is%*s?\", "
                              "\"golden_answers\": [\"Paris\"]}\n",
                              k, k == 1 ? 400 : 3, "it");
    snprintf(pair, sizeof pair, "train_file=%s", scratch_file("long.jsonl", text, 0));
    return pair;
}

static void long_questions_are_left_out(void **state)
{
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    run_by_number(ASKED("fit", long_pair(), "max_prompt_tokens=100",
                        "filter_overlong_prompts=true"));
    step_asks("fit", 1, "0 2");
    step_asks("fit", 2, "3");
    step_asks("fit", 3, "0 2");
    OK(sr1_trainer_resume(&tr, scratch_path("fit"), NULL));
    assert_int_equal(sr1_trainer_steps_done(tr), 6);
    sr1_trainer_free(tr);
    c = ASKED("unfit", long_pair(), "max_prompt_tokens=100");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_LIMIT, "question 'q1'");
    OK(sr1_config_set_pair(c, "max_prompt_tokens=2"));
    OK(sr1_config_set_pair(c, "filter_overlong_prompts=true"));
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "all 4 questions to train on");
    sr1_config_free(c);
    assert_false(sr1__path_exists(scratch_path("unfit")));
}

/* Before the first rollout, not in the middle of a run. */
static void a_row_that_no_reward_can_score_is_refused(void **state)
{
    const char *rows =
        "{\"question\": \"Capital of France?\", \"golden_answers\": [\"Paris\"]}\n"
        "{\"question\": \"Who knows?\"}\n";
    char file[600];
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    snprintf(file, sizeof file, "train_file=%s", scratch_file("bare.jsonl", rows, 0));
    c = RUN("bare", file, "answers_optional=true", "rewards=format,f1");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "bare.jsonl:2: question 'Who knows?' has no gold answer, and reward f1 "
            "compares with one");
    OK(sr1_config_set_pair(c, "rewards=format"));
    OK(sr1_trainer_new(&tr, c, NULL));
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

static void a_row_that_names_no_world_is_refused(void **state)
{
    const char *rows =
        "{\"id\": \"rooms-train-1\", \"question\": \"Go.\", \"golden_answers\": \"x\"}\n"
        "{\"id\": \"m1\", \"question\": \"Put.\", \"golden_answers\": \"x\"}\n";
    char file[600];
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    snprintf(file, sizeof file, "train_file=%s", scratch_file("worlds.jsonl", rows, 0));
    c = RUN("worlds", file, "environment=rooms");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_INVALID,
            "worlds.jsonl:2: question 'm1' names no world of rooms");
    sr1_config_free(c);
    assert_false(sr1__path_exists(scratch_path("worlds")));
}

/* ---- data sources ---- */

#define BY_SOURCE(name, ...)                                                             \
    RUN(name, "max_steps=1", "max_tokens=8", "rewards=format,gsm8k", "shuffle=false",    \
        "batch_size=2", "save_final_model=false", __VA_ARGS__)

/* A row needs what the rewards of its data source need, before the first rollout. */
static void a_source_without_rewards_is_refused(void **state)
{
    const char *rows =
        "{\"question\": \"A?\", \"golden_answers\": [\"5\"], \"data_source\": \"math\"}\n"
        "{\"question\": \"B?\", \"data_source\": \"talk\"}\n";
    char file[600];
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    snprintf(file, sizeof file, "train_file=%s", scratch_file("mixed.jsonl", rows, 0));
    c = BY_SOURCE("mixed", file, "answers_optional=true",
                  "data_source_rewards=math=gsm8k+format");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "mixed.jsonl:2: data_source_rewards has no entry for the data source 'talk'");
    OK(sr1_config_set_pair(c, "data_source_rewards=math=format,*=gsm8k"));
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "mixed.jsonl:2: question 'B?' has no gold answer, and reward gsm8k");
    OK(sr1_config_set_pair(c, "data_source_rewards=math=gsm8k,*=formal"));
    OK(sr1_trainer_new(&tr, c, NULL));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG,
            "data_source_rewards: 'formal' is none of the rewards");
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

/* Means are of the rows that a reward applies to. */
static void sources_have_rewards_of_their_own(void **state)
{
    char file[600];
    json_t *rows;

    (void)state;
    snprintf(file, sizeof file, "train_file=%s", scratch_path("mixed.jsonl"));
    run_whole(BY_SOURCE("sources", file, "answers_optional=true", "reward_weights=1,7",
                        "data_source_rewards=math=gsm8k,*=format", "format_penalty=-4",
                        "format_reward=-4"));
    rows = metrics("sources");
    tiny_near(metric(rows, 0, "rewards/format/mean"), -4, 0);
    tiny_near(metric(rows, 0, "rewards/gsm8k/mean"), 0, 0);
    tiny_near(metric(rows, 0, "avg_reward"), -2, 0);
    json_decref(rows);
}

/* ---- selection ---- */

static int count_of(const char *list, int k)
{
    int n = 0;

    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        n += atoi(at) == k;
    return n;
}

static void the_least_seen_come_first(void **state)
{
    char all[1024] = "", step[256];

    (void)state;
    run_by_number(ASKED("least", "query_selection=least_seen"));
    for (int64_t i = 1; i <= 6; i++) {
        list_asked("least", i, step);
        strcat(all, " ");
        strcat(all, step);
    }
    for (int k = 0; k < 7; k++) /* twelve places for seven */
        assert_in_range(count_of(all + 1, k), 1, 2);
}

/* Once all were asked, those whose rewards differ most: 5 and 3. */
static void the_most_uncertain_come_first(void **state)
{
    char step[256];

    (void)state;
    run_by_number(ASKED("variance", "query_selection=reward_variance", "max_steps=7"));
    list_asked("variance", 7, step);
    assert_true(count_of(step, 5) == 1 && count_of(step, 3) == 1);
}

/* Of 0 and 1 nothing is known, as where a judge never answers. */
static sr1_status unknown_below_two(void *self, const sr1_trajectory *const *t, size_t n,
                                    double *scores)
{
    SR1__TRY(by_number(self, t, n, scores));
    for (size_t i = 0; i < n; i++)
        if (atoi(sr1_trajectory_query_id(t[i]) + 1) < 2)
            scores[i] = NAN;
    return SR1_OK;
}

/* They are asked once, as the others, and not in every step from then on. */
static void what_cannot_be_scored_is_not_asked_for_ever(void **state)
{
    static const char *const rules[] = {"reward_variance", "success_half", "least_seen"};
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "unknown",
                          .score = unknown_below_two,
                          .may_be_unknown = 1};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char rule[64], all[1024] = "", step[256];
        sr1_trainer *tr;

        snprintf(rule, sizeof rule, "query_selection=%s", rules[i]);
        tr = open_trainer(
            ASKED(rules[i], rule, "rewards=none", "reward_weights=", "max_steps=7"));
        OK(sr1_trainer_add_reward(tr, &ops, NULL, 1.0));
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        for (int64_t at = 1; at <= 7; at++) { /* fourteen places for seven */
            list_asked(rules[i], at, step);
            strcat(strcat(all, " "), step);
        }
        for (int k = 0; k < 2; k++)
            assert_in_range(count_of(all + 1, k), 1, 3);
    }
}

static void choices_are_resumed(void **state)
{
    static const char *const rules[] = {
        "query_selection=order", "query_selection=uniform",
        "query_selection=reward_variance", "query_selection=success_half",
        "query_selection=least_seen"};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        char whole[32], stopped[32];
        sr1_trainer *tr;

        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(stopped, sizeof stopped, "stopped-%zu", i);
        run_by_number(ASKED(whole, rules[i], "dynamic_sampling=3"));
        tr = with_reward(open_trainer(ASKED(stopped, rules[i], "dynamic_sampling=3")));
        run_until(tr, 4);
        sr1_trainer_free(tr);
        tr = NULL;
        OK(sr1_trainer_resume(&tr, scratch_path(stopped), NULL));
        OK(sr1_trainer_run(with_reward(tr), NULL));
        sr1_trainer_free(tr);
        same_run(whole, stopped);
    }
}

static sr1_trajectory *make_answered(void)
{
    static const char *const truths[] = {"Jo\xcc\x88rg"};
    const struct sr1__trajectory_context context = {
        .temperature = 1, .top_p = 1, .ground_truths = truths, .n_ground_truths = 1};
    struct sr1__trajectory_builder *b = NULL;
    const int32_t id = 1;
    sr1_trajectory *t = NULL;

    OK(sr1__trajectory_builder_new(&b, "Who?", 4, "q", 0));
    OK(sr1__trajectory_builder_context(b, &context));
    OK(sr1__trajectory_builder_prompt(b, &id, 1));
    OK(sr1__trajectory_builder_policy(b, 2, -1.0f, 0, "J\xc3\xb6rg", 5));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, "J\xc3\xb6rg", 5, &t));
    OK(sr1_trajectory_set_reward(t, 1.0));
    return t;
}

/* A gold answer of a file of a Mac's, as for rewards. */
static void a_success_is_what_rewards_take_for_one(void **state)
{
    sr1_trainer *tr = open_trainer(
        ASKED("letters", "query_selection=success_half", "dynamic_sampling=0"));
    sr1_trajectory *t = make_answered();
    const int64_t row = 0;

    (void)state;
    OK(sr1__sampler_learn(tr, &row, 1, &t, 1));
    assert_true(tr->sampler.stats[SR1__ROW_SUCCESS * tr->sampler.n] == 1.0f);
    sr1_trajectory_free(t);
    sr1_trainer_free(tr);
}

/* ---- lengths ---- */

#define N 8

static void long_responses_lose_reward(void **state)
{
    sr1_trainer *tr =
        tiny_trainer(tiny_config("model", "max_tokens=24", "beta=0", "overlong_buffer=20",
                                 "overlong_penalty=2", NULL));
    sr1_query q[2] = {tiny_query("one?"), tiny_query("Where is the tower?")};
    sr1_trajectory *t[N];
    int punished = 0;

    (void)state;
    OK(sr1_trainer_train_step(tr, q, 2, 4, NULL, t));
    for (size_t i = 0; i < N; i++) {
        double over = (double)sr1_trajectory_policy_count(t[i]) - 4, sum = 0;
        double expected = over <= 0 ? 0 : -2 * over / 20, value, weight;
        size_t n = sr1_trajectory_reward_component_count(t[i]);
        const char *name;

        OK(sr1_trajectory_reward_component(t[i], n - 1, &name, &value, &weight));
        assert_string_equal(name, "overlong");
        tiny_near(value, expected, 1e-12);
        punished += value < 0;
        for (size_t k = 0; k < n; k++) {
            OK(sr1_trajectory_reward_component(t[i], k, NULL, &value, &weight));
            sum += value * weight;
        }
        tiny_near(sr1_trajectory_reward(t[i]), sum, 1e-12);
    }
    assert_true(punished > 0);
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
}

/* An entropy bonus acts on every trajectory, whatever its advantage. */
static sr1_step_report one_step(const char *a, const char *b)
{
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trainer *tr = tiny_trainer(tiny_config("model", "entropy_coef=0.01", a, b, NULL));
    sr1_query q[2] = {tiny_query("one?"), tiny_query("Where is the tower?")};

    OK(sr1_trainer_train_step(tr, q, 2, 4, &r, NULL));
    keep_metrics(&r);
    sr1_trainer_free(tr);
    return r;
}

static void what_was_cut_is_not_trained_on(void **state)
{
    sr1_step_report r = one_step("max_tokens=2", "mask_truncated_completions=true");

    (void)state;
    assert_true(step_metric(&r, "response_length/clip_ratio") == 1 &&
                step_metric(&r, "training/masked_trajectories") == N && r.trained == 0 &&
                r.grad_norm == 0);
    r = one_step("max_tokens=2", "mask_truncated_completions=false");
    assert_true(step_metric(&r, "training/masked_trajectories") == 0 && r.trained == N);
    r = one_step("max_tokens=64", "mask_truncated_completions=true");
    assert_int_equal((int64_t)step_metric(&r, "training/masked_trajectories") + r.trained,
                     N);
    tiny_near(step_metric(&r, "training/masked_trajectories"),
              step_metric(&r, "response_length/clip_ratio") * N, 1e-9);
}

/* Before the first rollout. */
static void keys_that_contradict_are_refused(void **state)
{
    static const struct {
        const char *pairs[3];
        sr1_status how;
        const char *why;
    } rows[] = {
        {{"max_tokens=8", "overlong_buffer=9"}, SR1_E_CONFIG, "overlong_buffer is 9"},
        {{"advantage=pass_at_k", "pass_k=1"}, SR1_E_CONFIG, "pass_k is 1 and group_size"},
        {{"advantage=pass_at_k", "pass_k=5"}, SR1_E_CONFIG, "set pass_k from 2 to"},
        {{"level_temperature=1e-4"}, SR1_E_INVALID, "level_temperature: temperature"},
        {{"compat=trl", "kl_in=reward", "max_steps=2"},
         SR1_E_CONFIG,
         "the beta of compat trl is 0; set beta"},
        {{"lr_schedule=linear"}, SR1_E_CONFIG, "lr_schedule linear and warmup_ratio go"},
        {{"warmup_ratio=0.1"}, SR1_E_CONFIG, "set max_steps, or lr_schedule: constant"},
    };
    sr1_search *e = tiny_engine();
    sr1_trainer *tr = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_config *c = tiny_config("model", NULL);

        for (size_t k = 0; k < 3 && rows[i].pairs[k]; k++)
            OK(sr1_config_set_pair(c, rows[i].pairs[k]));
        REFUSED(sr1_trainer_new(&tr, c, e), rows[i].how, rows[i].why);
        sr1_config_free(c);
    }
    sr1_search_free(e);
    sr1_trainer_free(tiny_trainer(tiny_config("model", "pass_k=1", NULL)));
}

/* A protocol of a file's has no levels, whatever the key beside it names. */
static void levels_are_those_of_the_protocol_that_is_spoken(void **state)
{
    sr1_config *c = tiny_config("model", "protocol=rlvcr", "advantage=rlvcr", NULL);
    sr1_trainer *tr = NULL;
    const char *path =
        scratch_file("own.yaml", "action: ['[TOOL_CALLS]']\nseveral: true\n", 0);
    int64_t before = sr1__mem_live();

    (void)state;
    assert_non_null(sr1__protocol_find(path));
    tiny_lasting += (int)(sr1__mem_live() - before); /* the file is the process's */
    OK(sr1_config_set(c, "protocol_file", path));
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "which only the protocol rlvcr has; protocol_file takes its place");
    OK(sr1_config_set(c, "advantage", "grpo"));
    OK(sr1_config_set(c, "step_advantage_tokens", "level"));
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "protocol_file takes its place");
    sr1_config_free(c);
}

/* As over the steps of a run. */
static void rates_fall_over_steps_of_the_callers(void **state)
{
    sr1_query q = tiny_query("one?");
    sr1_trainer *tr = tiny_trainer(
        tiny_config("model", "lr_schedule=linear", "max_steps=4", "beta=0", NULL));

    (void)state;
    for (int i = 0; i < 5; i++) {
        sr1_step_report r = {.struct_size = sizeof r};

        OK(sr1_trainer_train_step(tr, &q, 1, 4, &r, NULL));
        tiny_near(r.learning_rate, 1e-3 * (4 - i) / 4, 1e-12);
    }
    sr1_trainer_free(tr);
}

/* ---- rewards of steps ---- */

/* Each action earns 1. */
static sr1_status pay(void *self, const sr1_env_action *const *actions, size_t n,
                      sr1_env_sink *sink)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        OK(sr1_env_sink_text(sink, i, "so", 2));
        OK(sr1_env_sink_reward(sink, i, 1.0 + actions[i]->turn));
    }
    return SR1_OK;
}

/* Sum of what is earned from policy token k on, each halved for every token between. */
static double earned_from(const sr1_trajectory *t, size_t k, int dense)
{
    const int32_t *turns = sr1_trajectory_turns(t);
    const int32_t *at = sr1_trajectory_policy_positions(t);
    size_t last = sr1_trajectory_policy_count(t) - 1;
    double sum = 0;

    for (size_t i = 0; i < sr1_trajectory_search_count(t); i++) {
        sr1_action_event e = {.struct_size = sizeof e};
        size_t p = last;

        OK(sr1_trajectory_search(t, i, &e));
        while (dense && p > 0 && turns[at[p]] > e.turn)
            p--;
        if (p >= k)
            sum += 2.0 * e.reward * pow(0.5, (double)(p - k));
    }
    return sum;
}

static sr1_trainer *open_paid(const char *key, const char *advantage)
{
    static const sr1_env_ops ops = {.struct_size = sizeof ops, .name = "pay", .act = pay};
    sr1_env_options o = {.struct_size = sizeof o};
    sr1_trainer *tr = tiny_trainer(
        tiny_config("model", key, advantage, "gamma=0.5", "rewards=environment",
                    "reward_weights=2", "max_turns=3", "max_tokens=24", "beta=0", NULL));
    sr1_env *env = NULL;

    OK(sr1_env_new(&env, &ops, NULL, &o));
    OK(sr1_rollout_set_env(sr1_trainer_rollout(tr), env));
    sr1_env_free(env);
    return tr;
}

static void check_returns(const char *key, int dense)
{
    sr1_trainer *tr = open_paid(key, "advantage=gae");
    sr1_query q[2] = {tiny_query("one?"), tiny_query("Where is the tower?")};
    sr1_trajectory *t[N];
    double total = 0;

    OK(sr1_trainer_train_step(tr, q, 2, 4, NULL, t));
    for (size_t i = 0; i < N; i++) {
        const float *returns = sr1_trajectory_column(t[i], SR1_COLUMN_RETURN);

        total += sr1_trajectory_reward(t[i]);
        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++)
            tiny_near(returns[k], earned_from(t[i], k, dense), 1e-5);
    }
    assert_true(total > 0);
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
}

/* Of what turn u and those behind it earned, each at half the weight of the one before.
 */
static double earned_by_turns(const sr1_trajectory *t, int32_t u)
{
    double sum = 0;

    for (size_t i = 0; i < sr1_trajectory_search_count(t); i++) {
        sr1_action_event e = {.struct_size = sizeof e};

        OK(sr1_trajectory_search(t, i, &e));
        if (e.turn >= u)
            sum += 2.0 * e.reward * pow(0.5, (double)(e.turn - u));
    }
    return sum;
}

/* (R - mean) / (std + 1e-4) among the group's trajectories that have turn u; torch.std.
 */
static double compare_turns(sr1_trajectory *const *group, size_t i, int32_t u)
{
    double sum = 0, squares = 0, n = 0, mean;

    for (size_t k = 0; k < 4; k++)
        if (sr1_trajectory_turn_count(group[k]) > u) {
            sum += earned_by_turns(group[k], u);
            n++;
        }
    mean = sum / n;
    for (size_t k = 0; k < 4; k++)
        if (sr1_trajectory_turn_count(group[k]) > u)
            squares += pow(earned_by_turns(group[k], u) - mean, 2);
    if (n < 2)
        return 0;
    return (earned_by_turns(group[i], u) - mean) / (sqrt(squares / (n - 1)) + 1e-4);
}

/* All reward is the turns': the outcome is the same for all. */
static void what_turns_earned_is_compared(void **state)
{
    sr1_trainer *tr = open_paid("dense_rewards=true", "advantage=mt_grpo_turns");
    sr1_query q[2] = {tiny_query("one?"), tiny_query("Where is the tower?")};
    sr1_trajectory *t[N];
    int differ = 0;

    (void)state;
    OK(sr1_trainer_train_step(tr, q, 2, 4, NULL, t));
    for (size_t i = 0; i < N; i++) {
        const float *advantages = sr1_trajectory_column(t[i], SR1_COLUMN_ADVANTAGE);
        const int32_t *turns = sr1_trajectory_turns(t[i]);
        const int32_t *at = sr1_trajectory_policy_positions(t[i]);

        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++) {
            double want = compare_turns(t + i / 4 * 4, i % 4, turns[at[k]]);

            tiny_near(advantages[k], want, 1e-5);
            differ += want != 0;
        }
    }
    assert_true(differ > 0);
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
}

static void rewards_count_where_they_were_earned(void **state)
{
    (void)state;
    check_returns("dense_rewards=true", 1);
    check_returns("dense_rewards=false", 0);
}

/* ---- balance ---- */

static void batches_are_of_one_length(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("model", NULL));
    sr1_query q[3] = {tiny_query("one?"), tiny_query("Where is the tower?"),
                      tiny_query("a longer question, so that lengths differ?")};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 4, .seed = 9};
    sr1_step_report even = {.struct_size = sizeof even}, odd = even;
    sr1_trajectory *t[12];

    (void)state;
    OK(sr1_rollout_generate(sr1_trainer_rollout(tr), q, 3, &o, t));
    sr1_trainer_free(tr);
    for (size_t i = 0; i < 12; i++)
        OK(sr1_trajectory_set_advantage(t[i], (double)(i % 5) - 2.0));
    tr = tiny_trainer(tiny_config("model", "micro_batch_tokens=128", "workers=2",
                                  "share_prompts=false", NULL));
    OK(sr1_trainer_update(tr, t, 12, &even));
    keep_metrics(&even);
    sr1_trainer_free(tr);
    tr = tiny_trainer(tiny_config("model", "micro_batch_tokens=128", "workers=2",
                                  "balance_batches=false", NULL));
    OK(sr1_trainer_update(tr, t, 12, &odd));
    sr1_trainer_free(tr);
    assert_true(step_metric(&even, "training/micro_batches") > 1 &&
                (int)step_metric(&even, "training/micro_batches") % 2 == 0);
    assert_true(step_metric(&even, "global_seqlen/balanced_max") <= 128);
    assert_true(step_metric(&even, "global_seqlen/max") -
                    step_metric(&even, "global_seqlen/min") >
                2 * (step_metric(&even, "global_seqlen/balanced_max") -
                     step_metric(&even, "global_seqlen/balanced_min")));
    tiny_near(even.loss, odd.loss, 1e-5);
    tiny_near(even.grad_norm, odd.grad_norm, 1e-4 * odd.grad_norm);
    tiny_free_all(t, 12);
}

/* ---- groups ---- */

/* The samples of q2 are all worth the same; those of q1, of the same words, are not. */
static void rows_of_one_prompt_are_groups_of_their_own(void **state)
{
    sr1_query q[] = {tiny_query("Where?"), tiny_query("Where?")};
    sr1_trainer *tr = with_reward(open_trainer(ASKED("one-prompt", "beta=0")));
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trajectory *t[8];

    (void)state;
    q[0].id = "q1";
    q[1].id = "q2";
    OK(sr1_trainer_train_step(tr, q, 2, 4, &r, t));
    assert_int_equal(step_metric(&r, "training/zero_variance_groups"), 1);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(sr1_trajectory_group_key(t[i]) == sr1_trajectory_group_key(t[0]),
                         i < 4);
        assert_true(i < 4 || sr1_trajectory_advantage(t[i]) == 0.0);
    }
    tiny_near(sr1_trajectory_advantage(t[1]), -sr1_trajectory_advantage(t[2]), 1e-12);
    tiny_free_all(t, 8);
    sr1_trainer_free(tr);
}

/* ---- copies ---- */

#define COPIES_SIZE 4

static void step_on(const sr1_query *q, size_t n, sr1_trajectory **t)
{
    sr1_trainer *tr = with_reward(open_trainer(
        ASKED("copies", "group_size=4", "save_final_model=false", "batch_size=2")));

    OK(sr1_trainer_train_step(tr, q, n, COPIES_SIZE, NULL, t));
    sr1_trainer_free(tr);
}

static int same_ids(const sr1_trajectory *a, const sr1_trajectory *b)
{
    size_t n = sr1_trajectory_token_count(a);

    return sr1_trajectory_token_count(b) == n &&
           memcmp(sr1_trajectory_ids(a), sr1_trajectory_ids(b), n * sizeof(int32_t)) == 0;
}

static int same_group(sr1_trajectory *const *a, sr1_trajectory *const *b)
{
    int same = 0;

    for (int i = 0; i < COPIES_SIZE; i++)
        same += same_ids(a[i], b[i]);
    return same == COPIES_SIZE &&
           sr1_trajectory_group_key(a[0]) == sr1_trajectory_group_key(b[0]);
}

static void copies_of_a_question_are_samples_of_their_own(void **state)
{
    sr1_query a = tiny_query("Where is the tower?"), b = tiny_query("What is in Rome?");
    sr1_query twice[] = {a, b, a}, once[] = {b, a};
    sr1_trajectory *t[3 * COPIES_SIZE], *u[2 * COPIES_SIZE];

    (void)state;
    step_on(twice, 3, t);
    step_on(once, 2, u);
    /* the first is as it is where it is asked once, wherever it stands */
    assert_true(same_group(t, u + COPIES_SIZE) && same_group(t + COPIES_SIZE, u));
    assert_false(same_group(t, t + 2 * COPIES_SIZE));
    assert_true(sr1_trajectory_group_key(t[0]) !=
                sr1_trajectory_group_key(t[2 * COPIES_SIZE]));
    for (int i = 0; i < 3 * COPIES_SIZE; i++) {
        assert_int_equal(sr1_trajectory_copy(t[i]), i / COPIES_SIZE == 2);
        assert_int_equal(sr1_trajectory_sample(t[i]), i % COPIES_SIZE);
    }
    tiny_free_all(t, 3 * COPIES_SIZE);
    tiny_free_all(u, 2 * COPIES_SIZE);
}

/* What a run's log has of its first step: "0 0 1", the copy of each group. */
static void copies_of_first_step(const char *run, char *out)
{
    char *text = slurp_trajectories(run), *at = text, *end;

    for (*out = '\0'; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, at, (size_t)(end - at), "trajectory"));
        if (json_integer_value(json_object_get(row, "step")) == 1 &&
            json_integer_value(json_object_get(row, "sample")) == 0)
            sprintf(out + strlen(out), "%s%d", *out ? " " : "",
                    (int)json_integer_value(json_object_get(row, "copy")));
        json_decref(row);
    }
    sr1_free(text);
}

/* Uses of a row that fall into one step, by its batch or by further rounds. */
static void uses_of_a_row_are_copies(void **state)
{
    char copies[64];

    (void)state;
    scratch_file("graded.jsonl",
                 "{\"id\": \"q2\", \"question\": \"A?\", \"grade\": 1, "
                 "\"golden_answers\": [\"x\"]}\n"
                 "{\"id\": \"q4\", \"question\": \"B?\", \"grade\": 2, "
                 "\"golden_answers\": [\"x\"]}\n",
                 0);
    for (int rounds = 0; rounds < 2; rounds++) {
        sr1_config *c =
            ASKED("uses", "train_weights=3", "curriculum_field=grade", "max_steps=1",
                  "group_size=2", "save_final_model=false", "log_trajectories=-1",
                  rounds ? "batch_size=1" : "batch_size=4",
                  rounds ? "dynamic_sampling=3" : "dynamic_sampling=0");

        OK(sr1_config_set(c, "train_file", scratch_path("graded.jsonl")));
        run_by_number(c);
        copies_of_first_step("uses", copies);
        assert_string_equal(copies, "0 1 2 0");
        OK(sr1__dir_remove(scratch_path("uses")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_variance_groups_are_replaced),
        cmocka_unit_test(groups_are_compared_by_a_metric),
        cmocka_unit_test(rounds_are_bounded),
        cmocka_unit_test(passes_end_with_the_questions),
        cmocka_unit_test(baselines_are_asked_again),
        cmocka_unit_test(long_questions_are_left_out),
        cmocka_unit_test(a_row_that_no_reward_can_score_is_refused),
        cmocka_unit_test(a_row_that_names_no_world_is_refused),
        cmocka_unit_test(a_source_without_rewards_is_refused),
        cmocka_unit_test(sources_have_rewards_of_their_own),
        cmocka_unit_test(the_least_seen_come_first),
        cmocka_unit_test(the_most_uncertain_come_first),
        cmocka_unit_test(what_cannot_be_scored_is_not_asked_for_ever),
        cmocka_unit_test(choices_are_resumed),
        cmocka_unit_test(a_success_is_what_rewards_take_for_one),
        cmocka_unit_test(long_responses_lose_reward),
        cmocka_unit_test(what_was_cut_is_not_trained_on),
        cmocka_unit_test(keys_that_contradict_are_refused),
        cmocka_unit_test(levels_are_those_of_the_protocol_that_is_spoken),
        cmocka_unit_test(rates_fall_over_steps_of_the_callers),
        cmocka_unit_test(rewards_count_where_they_were_earned),
        cmocka_unit_test(what_turns_earned_is_compared),
        cmocka_unit_test(batches_are_of_one_length),
        cmocka_unit_test(rows_of_one_prompt_are_groups_of_their_own),
        cmocka_unit_test(copies_of_a_question_are_samples_of_their_own),
        cmocka_unit_test(uses_of_a_row_are_copies),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
