/* What is said of keys that are none: names of other programs, typos, neither. */
#include "base/json.h"

#include <searchr1/config.h>
#include <searchr1/ext/config_names.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static sr1_config_elsewhere elsewhere(size_t i)
{
    sr1_config_elsewhere e = {.struct_size = sizeof(e)};

    assert_int_equal(sr1_config_elsewhere_describe(i, &e), SR1_OK);
    return e;
}

static const char *key_name(size_t i)
{
    sr1_config_key_info k = {.struct_size = sizeof(k)};

    assert_int_equal(sr1_config_key_describe(i, &k), SR1_OK);
    return k.name;
}

static int is_key(const char *name)
{
    for (size_t i = 0; i < sr1_config_key_count(); i++)
        if (strcmp(key_name(i), name) == 0)
            return 1;
    return 0;
}

/* What is said of a key. */
static const char *said_of(sr1_config *c, const char *key)
{
    assert_int_equal(sr1_config_set(c, key, "1"), SR1_E_CONFIG);
    return sr1_last_error();
}

/* Names that a user of TRL, verl or OpenRLHF tries first, and the key that is meant;
 * NULL: there is none, and the text says something else to do. */
static const char *const tried[][2] = {
    {"lr", "learning_rate"},
    {"output_dir", "out"},
    {"wandb", NULL},
    {"bf16", "dtype"},
    {"fp16", "dtype"},
    {"lora_r", "lora_rank"},
    {"use_peft", "lora_rank"},
    {"lora_target_modules", "lora_targets"},
    {"critic.model.lora_rank", "critic_lora_rank"},
    {"actor_rollout_ref.model.lora_rank", "lora_rank"},
    {"actor_rollout_ref.model.target_modules", "lora_targets"},
    {"model", "model_name_or_path"},
    {"model_path", "model_name_or_path"},
    {"trainer.save_freq", "save_interval"},
    {"trainer.test_freq", "validate_interval"},
    {"trainer.total_epochs", "num_epochs"},
    {"trainer.experiment_name", "name"},
    {"trainer.logger", "tensorboard"},
    {"trainer.n_gpus_per_node", NULL},
    {"algorithm.adv_estimator", "advantage"},
    {"algorithm.kl_ctrl.kl_coef", "beta"},
    {"retriever.url", "search_url"},
    {"retriever.topk", "search_top_k"},
    {"actor_rollout_ref.model.path", "model_name_or_path"},
    {"actor_rollout_ref.actor.optim.lr", "learning_rate"},
    {"actor_rollout_ref.actor.ppo_mini_batch_size", "mini_batch_size"},
    {"actor_rollout_ref.actor.kl_loss_coef", "beta"},
    {"actor_rollout_ref.rollout.n", "group_size"},
    {"rollout.n", "group_size"},
    {"n", "group_size"},
    {"actor_rollout_ref.rollout.tensor_model_parallel_size", NULL},
    {"data.train_files", "train_file"},
    {"data.max_response_length", "max_tokens"},
    {"data.train_batch_size", "batch_size"},
    {"per_device_train_batch_size", "batch_size"},
    {"gradient_accumulation_steps", "micro_batch_tokens"},
    {"max_completion_length", "max_tokens"},
    {"max_prompt_length", "max_prompt_tokens"},
    {"num_train_epochs", "num_epochs"},
    {"num_iterations", "update_times"},
    {"epsilon", "clip_epsilon"},
    {"loss_type", "loss"},
    {"reward_funcs", "rewards"},
    {"custom_reward_function.path", "reward_programs"},
    {"remote_rm_url", "rewards"},
    {"agent_func_path", "environment_program"},
    {"data.tool_config_path", "tools"},
    {"ddp_timeout", "distributed_timeout"},
    {"use_dynamic_bsz", "micro_batch_tokens"},
    {"packing", NULL},
    {"faiss_gpu", "search_engine"},
    {"use_vllm", "use_openai"},
    {"report_to", "tensorboard"},
    {"logging_steps", "log_interval"},
    {"save_steps", "save_interval"},
    {"dataset_name", "train_file"},
    {"actor_learning_rate", "learning_rate"},
    {"n_samples_per_prompt", "group_size"},
    {"eps_clip", "clip_epsilon"},
    {"init_kl_coef", "beta"},
    {"deepspeed", "fsdp_size"},
    {"tensor_model_parallel_size", NULL},
    {"+trainer.save_freq", "save_interval"},
    {"peft_config", "lora_rank"},
    {"disable_dropout", "lora_dropout"},
    {"actor_rollout_ref.actor.policy_loss.kl_cov_ratio", "kl_cov_ratio"},
    {"use_liger", "logit_chunk"},
    {"model_init_kwargs", NULL},
    /* the other overrides of Search-R1's train_grpo.sh */
    {"data.val_files", "validation_file"},
    {"data.train_data_num", NULL},
    {"data.val_data_num", "validation_samples"},
    {"data.val_batch_size", "max_rows"},
    {"data.max_prompt_length", "max_prompt_tokens"},
    {"data.max_start_length", "max_prompt_tokens"},
    {"data.max_obs_length", "max_observation_tokens"},
    {"data.shuffle_train_dataloader", "shuffle"},
    {"actor_rollout_ref.model.enable_gradient_checkpointing", "gradient_checkpointing"},
    {"actor_rollout_ref.model.use_remove_padding", NULL},
    {"actor_rollout_ref.actor.optim.lr_warmup_steps_ratio", "warmup_ratio"},
    {"actor_rollout_ref.actor.use_kl_loss", "kl_in"},
    {"actor_rollout_ref.actor.ppo_micro_batch_size", "micro_batch_tokens"},
    {"actor_rollout_ref.actor.fsdp_config.param_offload", NULL},
    {"actor_rollout_ref.actor.fsdp_config.grad_offload", NULL},
    {"actor_rollout_ref.actor.fsdp_config.optimizer_offload", "optimizer_offload"},
    {"actor_rollout_ref.rollout.log_prob_micro_batch_size", "micro_batch_tokens"},
    {"actor_rollout_ref.rollout.name", "use_openai"},
    {"actor_rollout_ref.rollout.gpu_memory_utilization", NULL},
    {"actor_rollout_ref.ref.log_prob_micro_batch_size", "micro_batch_tokens"},
    {"actor_rollout_ref.ref.fsdp_config.param_offload", "reference_offload"},
    {"actor_rollout_ref.actor.kl_loss_type", "kl_kind"},
    {"algorithm.no_think_rl", "no_think_rl"},
    {"actor_rollout_ref.rollout.n_agent", "group_size"},
    {"actor_rollout_ref.rollout.temperature", "temperature"},
    {"actor_rollout_ref.actor.state_masking", "mask_environment"},
    {"+trainer.val_only", NULL},
    {"+trainer.val_before_train", "validate_at_start"},
    {"trainer.default_hdfs_dir", NULL},
    {"trainer.nnodes", NULL},
    {"trainer.project_name", NULL},
    {"trainer.total_training_steps", "max_steps"},
    {"trainer.default_local_dir", "out"},
};

static void tried_names_are_answered(void **state)
{
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < COUNT(tried); i++) {
        const char *key = tried[i][1], *text = said_of(c, tried[i][0]);
        const char *use = strstr(text, ": use ");

        if (!key && (use || !strstr(text, ", and not one here: ")))
            fail_msg("%s: %s", tried[i][0], text);
        if (key && (!use || strncmp(use + 6, key, strlen(key)) != 0 ||
                    (use[6 + strlen(key)] != '\0' && use[6 + strlen(key)] != ' ')))
            fail_msg("%s: %s", tried[i][0], text);
    }
    assert_string_equal(said_of(c, "lr"),
                        "key 'lr' is a name of other programs: use learning_rate");
    assert_string_equal(said_of(c, "bf16"), "key 'bf16' is a name of TRL: use dtype "
                                            "(bf16: true is dtype: bf16)");
    sr1_config_free(c);
}

/* What has to be in the text beside the key, for the name not to lead astray. */
static void texts_name_the_other_keys_of_a_feature(void **state)
{
    static const char *const rows[][2] = {
        {"reward_funcs", "reward_programs"},
        {"custom_reward_function.path", "shared object"},
        {"remote_rm_url", "judge_base_url"},
        {"reward_model.enable", "reward_programs"},
        {"agent_func_path", "environment: program"},
        {"data.tool_config_path", "environment: tools"},
        {"faiss_gpu", "search_index_device"},
        {"use_remove_padding", "nothing is padded"},
        {"packing_samples", "nothing is padded"},
        {"data.return_raw_chat", "messages"},
        {"use_bias_correction_kl", "true by default there"},
        {"vllm_importance_sampling_correction", "importance_high: 3"},
        {"epsilon_high", "loss: cispo one less"},
        {"algorithm.kl_penalty", "k1 is its kl, k2 its mse"},
        {"algorithm.filter_groups.max_num_gen_batches", "0 is none here, no limit there"},
    };
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < COUNT(rows); i++)
        if (!strstr(said_of(c, rows[i][0]), rows[i][1]))
            fail_msg("%s: %s", rows[i][0], sr1_last_error());
    sr1_config_free(c);
}

/* Its row; their number where there is none. */
static size_t find_elsewhere(const char *name)
{
    size_t i = 0, n = sr1_config_elsewhere_count();

    while (i < n && strcmp(elsewhere(i).name, name) != 0)
        i++;
    return i;
}

static int is_elsewhere(const char *name)
{
    return find_elsewhere(name) < sr1_config_elsewhere_count();
}

/* The length of the first word of `at`: letters of keys, paths and addresses. */
static size_t word_length(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789_-./#");
}

/* A word with an underscore that is part of no path is a key, or another program's name.
 */
static void keys_that_texts_name_exist(void **state)
{
    size_t found = 0;

    (void)state;
    for (size_t i = 0; i < sr1_config_elsewhere_count(); i++) {
        const char *at = elsewhere(i).text;

        for (size_t n; at && *at; at += n ? n : 1) {
            char word[80];

            n = word_length(at);
            if (n == 0 || n >= sizeof word)
                continue;
            snprintf(word, sizeof word, "%.*s", (int)n, at);
            if (!strchr(word, '_') || strpbrk(word, "./") ||
                strncmp(at + n, " is ", 4) == 0) /* a value of the other program's */
                continue;
            found++;
            if (!is_key(word) && !is_elsewhere(word))
                fail_msg("'%s' of '%s' is no key", word, elsewhere(i).name);
        }
    }
    assert_true(found > 50);
}

/* ---- the fields of TRL's GRPOConfig (trl_defaults.json) ---- */

static json_t *trl_defaults(void)
{
    char path[600];
    json_t *all = NULL;

    snprintf(path, sizeof path, "%s/tests/golden/trl_defaults.json", getenv("SR1_SRC"));
    assert_int_equal(sr1__json_load(&all, path, 0), SR1_OK);
    return all;
}

static void every_field_of_grpo_config_is_answered(void **state)
{
    json_t *all = trl_defaults(), *fields = json_object_get(all, "GRPOConfig"), *begins;
    const char *field;

    (void)state;
    assert_int_equal(json_object_size(fields), 79);
    json_object_foreach(fields, field, begins)
    {
        sr1_config *c = NULL;

        assert_int_equal(sr1_config_new(&c), SR1_OK);
        if (!is_key(field) && sr1_config_set(c, field, "1") == SR1_E_CONFIG &&
            strstr(sr1_last_error(), "is not known"))
            fail_msg("%s: %s", field, sr1_last_error());
        sr1_config_free(c);
    }
    json_decref(all);
}

/* Fields that one of another meaning answers, as JSON: there and, with compat: trl, here.
 */
static const struct {
    const char *field, *there, *key, *here;
} in_other_words[] = {
    {"loss_type", "\"dapo\"", "loss_aggregation", "\"token-mean\""},
    {"importance_sampling_level", "\"token\"", "loss", "\"grpo\""},
    {"scale_rewards", "\"group\"", "advantage_std", "true"},
    {"multi_objective_aggregation", "\"sum_then_normalize\"", "advantage", "\"grpo\""},
    {"use_adaptive_entropy", "false", "entropy_controller", "\"fixed\""},
    {"ref_model_sync_steps", "512", "reference_sync_steps", "0"}, /* it does not move */
    {"per_device_train_batch_size", "8", "batch_size", "1"},      /* one question */
    {"generation_batch_size", "null", "batch_size", "1"},
    {"gradient_accumulation_steps", "1", "mini_batch_size", "0"},
    {"num_generations_eval", "null", "validation_group_size", "1"}, /* the likeliest */
    {"chat_template_kwargs", "null", "enable_thinking", "true"},
    /* with vLLM only, and in docs/config.md */
    {"vllm_importance_sampling_correction", "true", "importance_correction", "\"none\""},
    {"vllm_importance_sampling_mode", "\"sequence_mask\"", "importance_correction",
     "\"none\""},
    {"vllm_importance_sampling_clip_max", "3.0", "importance_high", "2"},
    {"vllm_importance_sampling_cap", "null", "importance_high", "2"},
};

/* What decides nothing of the learning. */
static const char *const beside_learning[] = {"cast_lm_head_to_fp32",
                                              "vllm_mode",
                                              "vllm_server_host",
                                              "vllm_server_timeout",
                                              "log_completions",
                                              "num_completions_to_print",
                                              "log_unique_prompts",
                                              "use_transformers_continuous_batching",
                                              "transformers_continuous_batching_config"};

static int is_beside_learning(const char *field)
{
    for (size_t i = 0; i < COUNT(beside_learning); i++)
        if (strcmp(beside_learning[i], field) == 0)
            return 1;
    return 0;
}

/* None and false are 0, and None is an empty text. */
static int begins_alike(const json_t *there, const json_t *here)
{
    if (json_is_string(there))
        return json_is_string(here) &&
               strcmp(json_string_value(there), json_string_value(here)) == 0;
    if (json_is_string(here))
        return json_is_null(there) && *json_string_value(here) == '\0';
    return (json_is_true(there) ? 1 : json_number_value(there)) ==
           (json_is_true(here) ? 1 : json_number_value(here));
}

static void fail_unlike(const char *field, const json_t *there, const char *key,
                        const json_t *here)
{
    fail_msg("%s is %s, and here %s is %s", field, json_dumps(there, JSON_ENCODE_ANY),
             key, json_dumps(here, JSON_ENCODE_ANY));
}

static int is_dumped_as(const json_t *value, const char *wanted)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    int is = text && strcmp(text, wanted) == 0;

    free(text);
    return is;
}

/* Returns whether the field is one of in_other_words. */
static int check_other_words(const char *field, const json_t *there, const json_t *ours)
{
    for (size_t i = 0; i < COUNT(in_other_words); i++) {
        const char *key = in_other_words[i].key;
        const json_t *here = json_object_get(ours, key);

        if (strcmp(in_other_words[i].field, field) != 0)
            continue;
        if (!is_dumped_as(there, in_other_words[i].there) ||
            !is_dumped_as(here, in_other_words[i].here))
            fail_unlike(field, there, key, here);
        return 1;
    }
    return 0;
}

static const char *key_of_field(const char *field)
{
    if (is_key(field))
        return field;
    return is_elsewhere(field) ? elsewhere(find_elsewhere(field)).key : NULL;
}

/* Returns how many fields have a key here that begins alike. */
static size_t compare_fields(const json_t *fields, const json_t *ours)
{
    const char *field, *key;
    json_t *there;
    size_t alike = 0;

    json_object_foreach((json_t *)fields, field, there)
    {
        key = key_of_field(field);
        if (!key || is_beside_learning(field) || check_other_words(field, there, ours))
            continue;
        assert_non_null(json_object_get(ours, key));
        if (!begins_alike(there, json_object_get(ours, key)))
            fail_unlike(field, there, key, json_object_get(ours, key));
        alike++;
    }
    return alike;
}

static void compat_trl_begins_as_grpo_config(void **state)
{
    json_t *all = trl_defaults(), *ours = NULL;
    sr1_config *c = NULL;
    char *text = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set(c, "compat", "trl"), SR1_OK);
    assert_int_equal(sr1_config_to_json(c, &text), SR1_OK);
    assert_int_equal(sr1__json_parse(&ours, text, strlen(text), "keys"), SR1_OK);
    assert_true(compare_fields(json_object_get(all, "GRPOConfig"), ours) >= 32);
    assert_int_equal(compare_fields(json_object_get(all, "TrainingArguments"), ours), 8);
    json_decref(ours);
    json_decref(all);
    sr1_free(text);
    sr1_config_free(c);
}

static void rows_are_sound(void **state)
{
    size_t n = sr1_config_elsewhere_count(), mapped = 0;
    sr1_config_elsewhere e = {.struct_size = sizeof(e)};

    (void)state;
    for (size_t i = 0; i < n; i++) {
        e = elsewhere(i);
        mapped += e.key != NULL;
        if (is_key(e.name))
            fail_msg("'%s' is a key", e.name);
        if (e.key ? !is_key(e.key) : !e.text)
            fail_msg("'%s' leads nowhere", e.name);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(elsewhere(k).name, e.name);
    }
    assert_true(mapped >= 150);
    assert_int_equal(sr1_config_elsewhere_describe(n, &e), SR1_E_INVALID);
    e.struct_size = 0;
    assert_int_equal(sr1_config_elsewhere_describe(0, &e), SR1_E_INVALID);
}

/* Every row of the table is what an error says of its name. */
static void every_name_is_answered_by_its_row(void **state)
{
    sr1_config *c = NULL;
    char expected[512];

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < sr1_config_elsewhere_count(); i++) {
        sr1_config_elsewhere e = elsewhere(i);

        if (strcmp(e.name, "num_generations") == 0)
            continue; /* the one that is taken */
        snprintf(expected, sizeof expected, "is a name of %s%s%s", e.of,
                 e.key ? ": use " : ", and not one here: ", e.key ? e.key : e.text);
        if (!strstr(said_of(c, e.name), expected) ||
            (e.text && !strstr(sr1_last_error(), e.text)))
            fail_msg("%s: %s", e.name, sr1_last_error());
    }
    sr1_config_free(c);
}

/* ---- typos ---- */

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* One letter is put in, left out, changed, or crossed with the next. */
static void mistype(char *text, size_t size, unsigned *seed)
{
    size_t n = strlen(text), at = next(seed) % n;
    char letter = (char)('a' + next(seed) % 26), t;

    switch (next(seed) % 4) {
    case 0:
        if (n + 1 < size) {
            memmove(text + at + 1, text + at, n - at + 1);
            text[at] = letter;
        }
        break;
    case 1:
        memmove(text + at, text + at + 1, n - at);
        break;
    case 2:
        text[at] = letter;
        break;
    default:
        t = text[at];
        text[at] = text[at + 1 < n ? at + 1 : at];
        text[at + 1 < n ? at + 1 : at] = t;
    }
}

/* The key that a text of sr1_last_error guesses; "" for none. */
static void guess_in(const char *text, char guess[64])
{
    const char *at = strstr(text, "the nearest known key is '");

    guess[0] = '\0';
    if (at)
        (void)sscanf(at + strlen("the nearest known key is '"), "%63[^']", guess);
}

/* A guess for a key with one typo is that key, unless another is one typo away as well,
 * in which case there is none. Long keys are guessed. */
static void one_typo_is_found(void **state)
{
    sr1_config *c = NULL;
    unsigned seed = 7;
    size_t tried_keys = 0, found = 0;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < 20 * sr1_config_key_count(); i++) {
        const char *key = key_name(i % sr1_config_key_count());
        char typed[80], guess[64];

        snprintf(typed, sizeof typed, "%s", key);
        mistype(typed, sizeof typed, &seed);
        if (is_key(typed) || sr1_config_set(c, typed, "1") == SR1_OK ||
            !strstr(sr1_last_error(), "not known"))
            continue;
        guess_in(sr1_last_error(), guess);
        if (guess[0] && strcmp(guess, key) != 0)
            fail_msg("%s with a typo, %s: %s", key, typed, sr1_last_error());
        tried_keys += strlen(key) > 5;
        found += strlen(key) > 5 && guess[0];
    }
    assert_true(tried_keys > 1000);
    assert_true(100 * found > 98 * tried_keys);
    sr1_config_free(c);
}

/* Words that nobody can have meant as a key: more letters differ than could be typos. */
static void other_words_are_not_guessed(void **state)
{
    static const char *const words[] = {
        "x",         "k",           "foo",         "verbosity",   "colour",
        "hidden",    "num_layers",  "attention",   "reward_head", "elephant",
        "rope",      "quantize",    "tokens_seen", "moe",         "experts",
        "clip_skip", "pad_token",   "top_n",       "adam_beta3",  "patience",
        "callbacks", "sample_size", "zebra_file",  "no_such.key", "warp",
    };
    char noise[24];
    sr1_config *c = NULL;
    unsigned seed = 11;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strstr(said_of(c, words[i]), "no key is spelled nearly so"))
            fail_msg("%s", sr1_last_error());
    for (size_t i = 0; i < 3000; i++) {
        size_t n = 3 + next(&seed) % 20;

        for (size_t k = 0; k < n; k++)
            noise[k] = "qxzjwkvy"[next(&seed) % 8];
        noise[n] = '\0';
        if (!strstr(said_of(c, noise), "no key is spelled nearly so"))
            fail_msg("%s", sr1_last_error());
    }
    assert_non_null(strstr(sr1_last_error(), "sr1-train --keys"));
    sr1_config_free(c);
}

/* ---- presets ---- */

static sr1_config_preset preset(size_t i)
{
    sr1_config_preset p = {.struct_size = sizeof(p)};

    assert_int_equal(sr1_config_preset_describe(i, &p), SR1_OK);
    return p;
}

/* Values are as TRL's GRPOConfig, transformers' TrainingArguments and verl's
 * ppo_trainer.yaml with its GRPO example have them. */
static void fields_defaults(void **state)
{
    static const struct {
        const char *compat, *key;
        double value;
    } rows[] = {
        {"none", "learning_rate", 1e-5}, {"trl", "learning_rate", 1e-6},
        {"verl", "learning_rate", 1e-6}, {"none", "group_size", 2},
        {"trl", "group_size", 8},        {"verl", "group_size", 5},
        {"none", "beta", 0.1},           {"trl", "beta", 0},
        {"verl", "beta", 0.001},         {"none", "update_times", 4},
        {"trl", "update_times", 1},      {"verl", "update_times", 1},
        {"none", "max_grad_norm", 0.5},  {"trl", "max_grad_norm", 1},
        {"verl", "max_grad_norm", 1},    {"trl", "weight_decay", 0},
        {"verl", "weight_decay", 0.01},  {"verl", "batch_size", 1024},
        {"none", "batch_size", 1},       {"trl", "num_epochs", 3},
        {"trl", "max_tokens", 512},      {"verl", "dual_clip", 3},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        sr1_config *c = NULL;
        double v = -1;

        assert_int_equal(sr1_config_new(&c), SR1_OK);
        assert_int_equal(sr1_config_set(c, "compat", rows[i].compat), SR1_OK);
        assert_int_equal(sr1_config_get_real(c, rows[i].key, &v), SR1_OK);
        if (v != rows[i].value)
            fail_msg("compat %s, %s: %g", rows[i].compat, rows[i].key, v);
        assert_int_equal(sr1_config_set(c, rows[i].key, "5"), SR1_OK);
        assert_int_equal(sr1_config_set(c, "compat", "none"), SR1_OK);
        assert_int_equal(sr1_config_set(c, "compat", rows[i].compat), SR1_OK);
        assert_int_equal(sr1_config_get_real(c, rows[i].key, &v), SR1_OK);
        assert_true(v == 5); /* what the user set stays */
        sr1_config_free(c);
    }
}

static void presets_describe_what_compat_does(void **state)
{
    sr1_config_preset p = {.struct_size = sizeof(p)};

    (void)state;
    for (size_t i = 0; i < sr1_config_preset_count(); i++) {
        sr1_config *by_compat = NULL, *by_key = NULL;
        char *a = NULL, *b = NULL;

        p = preset(i);
        assert_true(is_key(p.key));
        assert_int_equal(sr1_config_new(&by_compat), SR1_OK);
        assert_int_equal(sr1_config_set(by_compat, "compat", p.compat), SR1_OK);
        assert_int_equal(sr1_config_copy(&by_key, by_compat), SR1_OK);
        assert_int_equal(sr1_config_set(by_key, p.key, p.value), SR1_OK);
        assert_int_equal(sr1_config_to_json(by_compat, &a), SR1_OK);
        assert_int_equal(sr1_config_to_json(by_key, &b), SR1_OK);
        assert_string_equal(a, b);
        assert_int_equal(sr1_config_validate(by_compat), SR1_OK);
        sr1_free(a);
        sr1_free(b);
        sr1_config_free(by_compat);
        sr1_config_free(by_key);
    }
    assert_int_equal(sr1_config_preset_describe(sr1_config_preset_count(), &p),
                     SR1_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tried_names_are_answered),
        cmocka_unit_test(texts_name_the_other_keys_of_a_feature),
        cmocka_unit_test(keys_that_texts_name_exist),
        cmocka_unit_test(every_field_of_grpo_config_is_answered),
        cmocka_unit_test(compat_trl_begins_as_grpo_config),
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(every_name_is_answered_by_its_row),
        cmocka_unit_test(one_typo_is_found),
        cmocka_unit_test(other_words_are_not_guessed),
        cmocka_unit_test(fields_defaults),
        cmocka_unit_test(presets_describe_what_compat_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
