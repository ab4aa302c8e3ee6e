/* Every recipe of examples/recipes is read whole and makes steps, cut down to a tiny
 * policy and a mock engine; those of published systems hold the published numbers. */
#include "runs.h"

#include <dirent.h>

/* What a recipe is cut down to. */
static const char *const cuts[] = {"max_steps=2",      "batch_size=2",
                                   "group_size=2",     "search_engine=mock",
                                   "max_tokens=40",    "validate_interval=0",
                                   "max_turns=1",      "validate_at_start=false",
                                   "max_env_steps=1",  "learning_rate=1e-4",
                                   "warmup_steps=0",   "device=cpu",
                                   "dtype=fp32",       "max_tokens_per_turn=0",
                                   "mini_batch_size=2", "save_interval=0",
                                   "validation_file=",  "answer_field=golden_answers",
                                   "question_template=",  "prompt_template=none"};

static void set(sr1_config *c, const char *pair)
{
    if (sr1_config_set_pair(c, pair) != SR1_OK)
        fail_msg("%s: %s", pair, sr1_last_error());
}

static void run_recipe(const char *path, const char *name)
{
    char model[600], validation[600];
    sr1_config *c = NULL;
    json_t *rows;

    snprintf(validation, sizeof validation, "validation_%s", strstr(train_path, "file="));
    OK(sr1_config_new(&c));
    if (sr1_config_load(c, path) != SR1_OK)
        fail_msg("%s: %s", name, sr1_last_error());
    set(c, train_path);
    set(c, validation);
    set(c, "search_index=some.bm25");
    if (sr1_config_validate(c) != SR1_OK)
        fail_msg("%s: %s", name, sr1_last_error());
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        set(c, cuts[i]);
    snprintf(model, sizeof model, "model_name_or_path=%s", scratch_path("model"));
    set(c, model);
    set(c, knowledge_path);
    set(c, out_pair(name));
    run_whole(c);
    rows = metrics(name);
    assert_int_equal(json_array_size(rows), 2);
    assert_true(metric(rows, 1, "training/trajectories") == 4);
    assert_true(metric(rows, 1, "training/skipped_updates") == 0);
    json_decref(rows);
}

static void every_recipe_makes_steps(void **state)
{
    char folder[512], path[800];
    const struct dirent *entry;
    size_t n = 0;
    DIR *d;

    (void)state;
    snprintf(folder, sizeof folder, "%s/examples/recipes", getenv("SR1_SRC"));
    d = opendir(folder);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (!strstr(entry->d_name, ".yaml"))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        run_recipe(path, entry->d_name);
        n++;
    }
    closedir(d);
    assert_true(n > 0);
}

/* What the publications and their scripts say. */
static const struct {
    const char *file, *key, *text; /* a word, or a number */
} published[] = {
    {"search-r1-grpo", "compat", "search-r1"},
    {"search-r1-grpo", "max_turns", "2"},
    {"search-r1-grpo", "search_top_k", "3"},
    {"search-r1-grpo", "max_tokens_per_turn", "500"},
    {"search-r1-grpo", "max_prompt_tokens", "2048"},
    {"search-r1-grpo", "max_observation_tokens", "500"},
    {"search-r1-grpo", "advantage", "grpo"},
    {"search-r1-grpo", "group_size", "5"},
    {"search-r1-grpo", "batch_size", "512"},
    {"search-r1-grpo", "mini_batch_size", "256"},
    {"search-r1-grpo", "clip_epsilon", "0.2"},
    {"search-r1-grpo", "kl_in", "loss"},
    {"search-r1-grpo", "beta", "0.001"},
    {"search-r1-grpo", "learning_rate", "1e-6"},
    {"search-r1-grpo", "warmup_steps", "286"},
    {"search-r1-grpo", "max_steps", "1005"},
    {"search-r1-ppo", "advantage", "gae"},
    {"search-r1-ppo", "gamma", "1"},
    {"search-r1-ppo", "gae_lambda", "1"},
    {"search-r1-ppo", "clip_epsilon", "0.2"},
    {"search-r1-ppo", "value_clip", "0.5"},
    {"search-r1-ppo", "kl_in", "reward"},
    {"search-r1-ppo", "kl_kind", "k1"},
    {"search-r1-ppo", "beta", "0.001"},
    {"search-r1-ppo", "learning_rate", "1e-6"},
    {"search-r1-ppo", "critic_learning_rate", "1e-5"},
    {"search-r1-ppo", "mini_batch_size", "256"},
    {"mt-grpo", "max_env_steps", "5"},
    {"mt-grpo", "turn_advantage_coef", "1"},
    {"mt-grpo", "group_size", "7"},
    {"mt-grpo", "temperature", "0.9"},
    {"mt-grpo", "max_tokens", "1024"},
    {"mt-grpo", "beta", "0"},
    {"mt-grpo", "update_times", "2"},
    {"mt-grpo", "learning_rate", "1e-6"},
    {"mt-grpo", "warmup_steps", "20"},
    {"mt-grpo", "adam_beta2", "0.99"},
    {"mt-grpo", "max_grad_norm", "0.1"},
    {"mt-grpo", "search_top_k", "1"},
};

static void holds(const sr1_config *c, const char *key, const char *text)
{
    const char *word = NULL;
    double number = NAN;

    if (sr1_config_get_str(c, key, &word) == SR1_OK) {
        assert_string_equal(word, text);
        return;
    }
    OK(sr1_config_get_real(c, key, &number));
    if (number != strtod(text, NULL))
        fail_msg("%s is %g, published: %s", key, number, text);
}

static void published_numbers_stand_in_the_recipes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char path[800];
        sr1_config *c = NULL;

        snprintf(path, sizeof path, "%s/examples/recipes/%s.yaml", getenv("SR1_SRC"),
                 published[i].file);
        OK(sr1_config_new(&c));
        OK(sr1_config_load(c, path));
        holds(c, published[i].key, published[i].text);
        sr1_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recipe_makes_steps),
        cmocka_unit_test(published_numbers_stand_in_the_recipes),
    };

    return cmocka_run_group_tests_name("recipes", tests, runs_make, scratch_remove);
}
