/* What a run says of its settings before the first step, and what compat makes of them.
 */
#include "runs.h"

#include "policy/rollout.h"

#include <searchr1/trainer.h>

static void on_note(void *user, const char *text)
{
    strncat(user, text, 4000 - strlen(user));
    strncat(user, "\n", 4000 - strlen(user));
}

/* Everything said of this configuration. */
static const char *said(sr1_config *c)
{
    static char text[4096];
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = text, .note = on_note};
    sr1_trainer *tr = open_trainer(c);

    text[0] = '\0';
    OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
    return text;
}

#define SHORT(name, ...)                                                                 \
    tiny_config("model", train_path, knowledge_path, out_pair(name), "max_steps=2",      \
                "save_final_model=false", __VA_ARGS__, NULL)

static void a_reference_that_nobody_chose_is_told_of(void **state)
{
    static const char about[] = "kl_reference old, the default";

    (void)state;
    assert_non_null(strstr(said(SHORT("said", "max_steps=1")), about));
    assert_null(strstr(said(SHORT("chosen", "kl_reference=old")), about));
    assert_null(strstr(said(SHORT("frozen", "kl_reference=frozen")), about));
    assert_null(strstr(said(SHORT("no-kl", "beta=0")), about));
    assert_null(strstr(said(SHORT("trl", "compat=trl")), about));
}

static void a_warmup_beyond_the_run_is_told_of(void **state)
{
    const char *text = said(SHORT("warm", "warmup_steps=3", "beta=0"));

    (void)state;
    assert_non_null(
        strstr(text, "warmup_steps is 3 and the run trains the policy in 2 steps"));
    assert_null(
        strstr(said(SHORT("warmed", "warmup_steps=2", "beta=0")), "warmup_steps"));
    assert_null(strstr(said(SHORT("ratio", "warmup_ratio=1", "beta=0")), "warmup_steps"));
}

static void validation_questions_that_nobody_reads_are_told_of(void **state)
{
    static const char about[] = "warning: there are questions for validation, and";
    char file[600];

    (void)state;
    snprintf(file, sizeof file, "validation_file=%s", train_path + strlen("train_file="));
    assert_non_null(strstr(said(SHORT("unread", file)), about));
    assert_null(strstr(said(SHORT("read", file, "validate_interval=2")), about));
    assert_null(strstr(said(SHORT("first", file, "validate_at_start=true")), about));
}

static void validation_on_rows_of_training_is_told_of(void **state)
{
    static const char about[] = "validation_file has a file of train_file, ";
    char same[600], other[600];

    (void)state;
    snprintf(same, sizeof same, "validation_file=%s", train_path + strlen("train_file="));
    snprintf(other, sizeof other, "validation_file=%s",
             scratch_file("other.jsonl",
                          "{\"question\": \"A?\", \"golden_answers\": [\"x\"]}\n", 0));
    assert_non_null(strstr(said(SHORT("same", same, "validate_interval=2")), about));
    assert_null(strstr(said(SHORT("other", other, "validate_interval=2")), about));
    assert_null(strstr(said(SHORT("no-other", "beta=0")), about));
}

static void an_environment_without_its_tools_is_told_of(void **state)
{
    static const char about[] = "environment is tools and there is no tool: each call is";

    (void)state;
    assert_non_null(strstr(said(SHORT("no-tool", "environment=tools", "protocol=hermes",
                                      "mock_knowledge=", "search_engine=none")),
                           about));
    assert_null(strstr(said(SHORT("tool", "environment=tools", "protocol=hermes")),
                       about)); /* wiki_search */
    assert_null(strstr(said(SHORT("search", "environment=search")), about));
}

/* Each with a setting that reads it, where one word is enough for that. */
static void keys_without_their_key_are_told_of(void **state)
{
    static const struct {
        const char *word, *about, *reader;
    } keys[] = {
        {"validation_samples=3", "validation_samples is set, and there are no", NULL},
        {"reference_dtype=bf16", "reference_dtype is set, and kl_reference is old",
         "kl_reference=frozen"},
        {"kl_target=0.2", "kl_target is set, and kl_controller is fixed", NULL},
        {"entropy_target=0.3", "entropy_target is set, and entropy_controller is fixed",
         "entropy_controller=adaptive"},
        {"overlong_penalty=2", "overlong_penalty is set, and overlong_buffer is 0",
         "overlong_buffer=4"},
        {"filter_groups_metric=answer",
         "filter_groups_metric is set, and dynamic_sampling is 0", "dynamic_sampling=1"},
        {"importance_high=5", "importance_high is set, and importance_correction is none",
         "importance_correction=token_truncate"},
        {"loss_length=50", "loss_length is set, and loss_aggregation is token-mean",
         "loss_aggregation=seq-mean-token-sum-norm"},
        {"pass_k=2", "pass_k is set, and the advantage does not look",
         "advantage=pass_at_k"},
        {"level_max_tokens=5", "level_max_tokens is set, and protocol is search-r1",
         NULL},
        {"weight_sync_backend=disk", "weight_sync_backend is set, and use_openai is off",
         NULL},
        {"search_index=none.bm25", "search_index is set, and search_engine is not bm25",
         NULL},
        {"code_problems=none.jsonl", "code_problems is set, and environment is not",
         NULL},
        {"proxy_model=none", "proxy_model is set, and environment is search", NULL},
        {"importance_low=0.1", "importance_low is set, and importance_correction is none",
         "importance_correction=token_mask"},
    };
    char name[24];

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(name, sizeof name, "unread-%zu", i);
        if (!strstr(said(SHORT(name, keys[i].word)), keys[i].about))
            fail_msg("%s: %s", keys[i].word, said(SHORT(name, keys[i].word)));
        snprintf(name, sizeof name, "read-%zu", i);
        if (keys[i].reader)
            assert_null(
                strstr(said(SHORT(name, keys[i].word, keys[i].reader)), "is set, and"));
    }
}

static void keys_that_nobody_reads_are_told_of(void **state)
{
    char file[600];

    (void)state;
    assert_non_null(
        strstr(said(SHORT("alpha", "lora_alpha=4")), "lora_alpha is set, and lora_rank"));
    assert_non_null(strstr(said(SHORT("demos", "sft_file=demos.jsonl")),
                           "sft_file is set, and stage is not sft"));
    assert_non_null(strstr(said(SHORT("prefetch", "forward_prefetch=true")),
                           "forward_prefetch is set, and reshard_after_forward is off"));
    assert_non_null(strstr(said(SHORT("index", "search_index_device=cpu")),
                           "search_index_device is set, and no search engine is dense"));
    assert_non_null(strstr(said(SHORT("test", "test_file=none.jsonl")),
                           "test_file is set, and no step"));
    assert_non_null(strstr(said(SHORT("part", "test_split=0.3")),
                           "test_split is set, and its part of train_file is left out"));
    assert_null(strstr(said(SHORT("none", "forward_prefetch=false")), "is set, and"));
    assert_null(
        strstr(said(SHORT("both", "forward_prefetch=true", "reshard_after_forward=true")),
               "is set, and"));
    assert_non_null(strstr(said(SHORT("mlflow", "mlflow_experiment=towers")),
                           "mlflow_experiment is set, and mlflow_tracking_uri is not"));
    scratch_file("graded.jsonl",
                 "{\"question\": \"A?\", \"grade\": 1, "
                 "\"golden_answers\": [\"x\"]}\n",
                 0);
    snprintf(file, sizeof file, "train_file=%s", scratch_path("graded.jsonl"));
    assert_non_null(strstr(said(SHORT("grades", file, "curriculum_field=grade",
                                      "query_selection=least_seen")),
                           "curriculum_field is set, and query_selection chooses"));
}

static void parts_that_nobody_opens_are_told_of(void **state)
{
    static const struct {
        const char *pair, *about;
    } rows[] = {
        {"lora_dropout=0.1", "lora_dropout is set, and lora_rank is 0"},
        {"critic_warmup=3", "critic_warmup is set, and only an advantage with a critic"},
        {"value_clip=0.3", "value_clip is set, and only an advantage with a critic"},
        {"openai_base_url=http://127.0.0.1:9/v1", "and use_openai is off"},
        {"environment_program=env.py", "and environment is not program"},
        {"search_program=engine.py", "and search_engine is not program"},
        {"judge_base_url=http://127.0.0.1:9/v1", "and rewards do not name judge"},
        {"stop_at_exact_match=0.9", "and there are no questions for validation"},
        {"log_validation_trajectories=-1", "and there are no questions for validation"},
        {"greater_is_better=true", "and metric_for_best_model is not"},
        {"early_stopping_threshold=0.1", "and early_stopping_patience is 0"},
        {"validation_top_p=0.7", "and validation_temperature is 0"},
        {"reference_mixup_alpha=0.5", "and reference_sync_steps is 0"},
        {"learning_rate=0", "learning_rate is 0: the policy stays as it is"},
        {"critic_update_times=2",
         "critic_update_times is set, and only an advantage with"},
        {"critic_max_grad_norm=2", "critic_max_grad_norm is set, and only an advantage"},
        {"critic_lora_alpha=4", "critic_lora_alpha is set, and critic_lora_rank is 0"},
        {"critic_lora_targets=q_proj",
         "critic_lora_targets is set, and critic_lora_rank"},
        {"openai_sync_url=http://127.0.0.1:9/v1",
         "openai_sync_url is set, and use_openai"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char folder[16];

        snprintf(folder, sizeof folder, "part-%zu", i);
        assert_non_null(strstr(said(SHORT(folder, rows[i].pair)), rows[i].about));
    }
}

/* Each is set beside what does not read it; then beside what does. */
static void what_the_loss_does_not_read_is_told_of(void **state)
{
    static const struct {
        const char *pairs[4], *about, *reader;
    } rows[] = {
        {{"clip_epsilon=0.3", "loss=sapo"},
         "clip_epsilon is set, and the loss does not look at it",
         "loss=gspo"},
        {{"clip_epsilon_high=0.3", "loss=reinforce"},
         "clip_epsilon_high is set, and the loss does not look at it",
         "loss=dapo"},
        {{"clip_cov_ratio=0.1", "clip_cov_lb=0", "loss=kl_cov"},
         "clip_cov_lb is set, and the loss does not look at it",
         "loss=clip_cov"},
        {{"kl_cov_ratio=0.1", "loss=clip_cov"},
         "kl_cov_ratio is set, and the loss does not look at it",
         "loss=kl_cov"},
        {{"ppo_kl_coef=2", "loss=dapo"},
         "ppo_kl_coef is set, and the loss does not look at it",
         "loss=kl_cov"},
        {{"kl_weighted=true", "kl_reference=frozen", "kl_in=reward"},
         "kl_weighted is set, and kl_in is reward",
         "kl_in=loss"},
        {{"kl_kind=k3+", "kl_reference=frozen", "kl_in=reward"},
         "kl_kind is set, and kl_in is reward, which has no gradient",
         "kl_kind=k3"},
        {{"kl_in=reward", "kl_reference=frozen", "beta=0"},
         "kl_in is set, and beta is 0: there is no KL",
         "beta=0.1"},
    };
    char name[24];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int read = 0; read < 2; read++) {
            sr1_config *c;

            snprintf(name, sizeof name, "loss-%zu-%d", i, read);
            c = SHORT(name, "max_steps=1");
            for (size_t k = 0; k < 4 && rows[i].pairs[k]; k++)
                OK(sr1_config_set_pair(c, rows[i].pairs[k]));
            if (read)
                OK(sr1_config_set_pair(c, rows[i].reader));
            if (read)
                assert_null(strstr(said(c), "is set, and"));
            else
                assert_non_null(strstr(said(c), rows[i].about));
        }
}

/* One key that is told of hides no other. */
static void all_that_is_not_read_is_told_of(void **state)
{
    const char *text = said(
        SHORT("several", "lora_alpha=4", "value_clip=0.3", "pass_k=2", "kl_target=0.2"));

    (void)state;
    assert_non_null(strstr(text, "lora_alpha is set"));
    assert_non_null(strstr(text, "value_clip is set"));
    assert_non_null(strstr(text, "pass_k is set"));
    assert_non_null(strstr(text, "kl_target is set"));
}

static void turns_that_earn_nothing_are_told_of(void **state)
{
    static const char about[] = "advantage mt_grpo_turns compares what turns earned, and";

    (void)state;
    assert_non_null(
        strstr(said(SHORT("no-turns", "advantage=mt_grpo_turns", "max_steps=1")), about));
    assert_null(strstr(said(SHORT("turns", "advantage=mt_grpo_turns", "max_steps=1",
                                  "rewards=format,tool_execution")),
                       about));
    assert_null(strstr(said(SHORT("dense", "advantage=mt_grpo_turns", "max_steps=1",
                                  "rewards=format,environment", "dense_rewards=true")),
                       about));
}

static void a_rule_by_successes_without_any_is_told_of(void **state)
{
    static const char about[] = "query_selection is success_half, and environment search";

    (void)state;
    assert_non_null(strstr(said(SHORT("bare", "query_selection=success_half",
                                      "answers_optional=true", "max_steps=1")),
                           about));
    assert_null(strstr(said(SHORT("gold", "query_selection=success_half", "max_steps=1")),
                       about));
}

/* verl's 256 questions, in groups of any size; a number that was given is that number. */
static void a_mini_batch_of_compat_is_of_questions(void **state)
{
    static const struct {
        const char *pairs[3];
        int64_t size;
    } rows[] = {{{"compat=verl"}, 1280},
                {{"compat=verl", "group_size=16"}, 4096},
                {{"compat=verl", "group_size=16", "mini_batch_size=64"}, 64},
                {{"compat=trl", "group_size=16"}, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_config *c = NULL;
        int64_t v = -1;

        OK(sr1_config_new(&c));
        for (size_t k = 0; k < 3 && rows[i].pairs[k]; k++)
            OK(sr1_config_set_pair(c, rows[i].pairs[k]));
        OK(sr1__settings_resolve(c));
        OK(sr1__settings_resolve(c)); /* once is as good as twice */
        OK(sr1_config_get_int(c, "mini_batch_size", &v));
        assert_int_equal(v, rows[i].size);
        sr1_config_free(c);
    }
}

static void a_critic_that_warms_up_alone_is_told_of(void **state)
{
    (void)state;
    assert_non_null(
        strstr(said(SHORT("cold", "advantage=gae", "critic_warmup=2")),
               "critic_warmup is 2 and the run has 2 steps: only the critic learns"));
    assert_null(strstr(said(SHORT("thawed", "advantage=gae", "critic_warmup=1")),
                       "critic_warmup"));
}

static void rows_of_one_id_are_told_of(void **state)
{
    char file[600], text[800];
    const char *path = scratch_file(
        "ids.jsonl",
        "{\"id\": \"a\", \"question\": \"A?\", \"golden_answers\": [\"x\"]}\n"
        "{\"id\": \"b\", \"question\": \"B?\", \"golden_answers\": [\"x\"]}\n\n"
        "{\"id\": \"b\", \"question\": \"C?\", \"golden_answers\": [\"x\"]}\n"
        "{\"id\": \"a\", \"question\": \"D?\", \"golden_answers\": [\"x\"]}\n"
        "{\"id\": \"b\", \"question\": \"E?\", \"golden_answers\": [\"x\"]}\n",
        0);

    (void)state;
    snprintf(file, sizeof file, "train_file=%s", path);
    snprintf(
        text, sizeof text,
        "warning: 3 of 5 rows of train_file have the id of a row before them, 'b' on "
        "line 4 of %s is the first: ",
        path);
    if (!strstr(said(SHORT("ids", file)), text))
        fail_msg("no '%s'", text);
    assert_null(strstr(said(SHORT("no-ids", "beta=0")), "the id of a row"));
}

static void a_protocol_of_another_environment_is_told_of(void **state)
{
    static const struct {
        const char *protocol, *environment, *prompt, *goes_with;
    } rows[] = {{"search-r1", "search", "", NULL},
                {"search-r1-compat", "search", "", NULL},
                {"mt-grpo", "tools", "", NULL},
                {"hermes", "tools", "", NULL},
                {"hermes", "search", "", "environment tools, or"},
                {"rlvcr", "rooms", "", NULL},
                {"ctrl", "critique", "", NULL},
                {"mt-grpo", "none", "", NULL},
                {"mt-grpo", "search", "none", NULL}, /* a prompt of one's own */
                {"mt-grpo", "search", "", "environment tools, or"},
                {"rlvcr", "search", "", "environment rooms, or"},
                {"search-r1", "tools", "", "environment search, or"},
                {"search-r1-compat", "rooms", "", "environment search, or"}};
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_config *c = NULL;

        OK(sr1_config_new(&c));
        OK(sr1_config_set(c, "protocol", rows[i].protocol));
        OK(sr1_config_set(c, "environment", rows[i].environment));
        OK(sr1_config_set(c, "prompt_template", rows[i].prompt));
        assert_int_equal(sr1__env_pair_warning(c, text, sizeof text),
                         rows[i].goes_with != NULL);
        if (rows[i].goes_with)
            assert_non_null(strstr(text, rows[i].goes_with));
        sr1_config_free(c);
    }
}

/* The loss's own numbers give way to those of compat, unless the loss was chosen. */
static void compat_stands_against_the_losss_own(void **state)
{
    static const struct {
        const char *pair, *key;
        double value;
    } rows[] = {{"compat=trl", "beta", 0},
                {"compat=verl", "beta", 0.001},
                {"compat=verl", "dual_clip", 3},
                {"compat=none", "beta", 0.1},
                {"compat=trl", "update_times", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_config *c = NULL;
        double v = -1;

        OK(sr1_config_new(&c));
        OK(sr1_config_set_pair(c, rows[i].pair));
        OK(sr1__settings_resolve(c));
        OK(sr1_config_get_real(c, rows[i].key, &v));
        if (v != rows[i].value)
            fail_msg("%s: %s is %g", rows[i].pair, rows[i].key, v);
        OK(sr1_config_set(c, rows[i].key, "2"));
        OK(sr1__settings_resolve(c));
        OK(sr1_config_get_real(c, rows[i].key, &v));
        assert_true(v == 2);
        sr1_config_free(c);
    }
}

static void a_chosen_loss_brings_its_own(void **state)
{
    sr1_config *c = NULL;
    double high = 0, beta = 1;

    (void)state;
    OK(sr1_config_new(&c));
    OK(sr1_config_set_pair(c, "compat=verl"));
    OK(sr1_config_set_pair(c, "loss=dapo"));
    OK(sr1__settings_resolve(c));
    OK(sr1_config_get_real(c, "clip_epsilon_high", &high));
    OK(sr1_config_get_real(c, "beta", &beta));
    assert_true(high == 0.28 && beta == 0);
    sr1_config_free(c);
}

/* No key names a model by default, and the error says how to get one. */
static void a_model_has_to_be_named(void **state)
{
    sr1_config *c = RUN("nameless", "model_name_or_path=");
    sr1_trainer *tr = NULL;

    (void)state;
    assert_int_equal(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "model_name_or_path is not set"));
    sr1_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reference_that_nobody_chose_is_told_of),
        cmocka_unit_test(a_warmup_beyond_the_run_is_told_of),
        cmocka_unit_test(validation_on_rows_of_training_is_told_of),
        cmocka_unit_test(an_environment_without_its_tools_is_told_of),
        cmocka_unit_test(keys_without_their_key_are_told_of),
        cmocka_unit_test(keys_that_nobody_reads_are_told_of),
        cmocka_unit_test(parts_that_nobody_opens_are_told_of),
        cmocka_unit_test(what_the_loss_does_not_read_is_told_of),
        cmocka_unit_test(all_that_is_not_read_is_told_of),
        cmocka_unit_test(turns_that_earn_nothing_are_told_of),
        cmocka_unit_test(a_rule_by_successes_without_any_is_told_of),
        cmocka_unit_test(a_mini_batch_of_compat_is_of_questions),
        cmocka_unit_test(a_critic_that_warms_up_alone_is_told_of),
        cmocka_unit_test(rows_of_one_id_are_told_of),
        cmocka_unit_test(a_protocol_of_another_environment_is_told_of),
        cmocka_unit_test(validation_questions_that_nobody_reads_are_told_of),
        cmocka_unit_test(compat_stands_against_the_losss_own),
        cmocka_unit_test(a_chosen_loss_brings_its_own),
        cmocka_unit_test(a_model_has_to_be_named),
    };

    return cmocka_run_group_tests_name("remarks", tests, runs_make, scratch_remove);
}
