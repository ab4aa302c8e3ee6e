/* Every recipe of examples/recipes is read whole, and makes steps if it asks questions,
 * cut down to a tiny policy and a mock engine; those of published systems hold the
 * published numbers; the small ones raise the reward of a policy that does what is asked
 * as often as not. */
#include "runs.h"

#include <dirent.h>

/* What a recipe is cut down to. */
static const char *const cuts[] = {"max_steps=2",
                                   "batch_size=2",
                                   "group_size=2",
                                   "search_engine=mock",
                                   "max_tokens=40",
                                   "validate_interval=0",
                                   "max_turns=1",
                                   "validate_at_start=false",
                                   "max_env_steps=1",
                                   "learning_rate=1e-4",
                                   "warmup_steps=0",
                                   "device=cpu",
                                   "warmup_ratio=0",
                                   "dtype=fp32",
                                   "max_tokens_per_turn=0",
                                   "mini_batch_size=2",
                                   "save_interval=0",
                                   "validation_file=",
                                   "answer_field=golden_answers",
                                   "question_template=",
                                   "prompt_template=none"};

static void set(sr1_config *c, const char *pair)
{
    if (sr1_config_set_pair(c, pair) != SR1_OK)
        fail_msg("%s: %s", pair, sr1_last_error());
}

static int is_of_rooms(const sr1_config *c)
{
    return strcmp(sr1__config_str(c, "environment"), "rooms") == 0;
}

/* Questions that name worlds of rooms. */
static const char *rooms_path(void)
{
    static char pair[600];

    snprintf(pair, sizeof pair, "train_file=%s",
             scratch_file("rooms.jsonl",
                          "{\"id\": \"rooms-train-1\", \"question\": \"Go.\", "
                          "\"golden_answers\": [\"go\"]}\n"
                          "{\"id\": \"rooms-train-2\", \"question\": \"Put.\", "
                          "\"golden_answers\": [\"put\"]}\n",
                          0));
    return pair;
}

/* A critic needs problems with answers to criticise, and somebody who revises them. */
static void set_critics(sr1_config *c)
{
    static const char rows[] =
        "{\"id\":\"p0\",\"question\":\"Is x = 1 right?\",\"problem\":\"Let x be 2.\","
        "\"solution\":\"x = 1\",\"tests\":[\"assert x == 2\"],\"golden_answers\":[]}\n"
        "{\"id\":\"p1\",\"question\":\"Is y = 1 right?\",\"problem\":\"Let y be 1.\","
        "\"solution\":\"y = 1\",\"tests\":[\"assert y == 1\"],\"golden_answers\":[]}\n";
    const char *name = NULL, *path = scratch_file("problems.jsonl", rows, 0);
    char pair[600];

    OK(sr1_config_get_str(c, "environment", &name));
    if (strcmp(name, "critique") != 0)
        return;
    snprintf(pair, sizeof pair, "train_file=%s", path);
    set(c, pair);
    snprintf(pair, sizeof pair, "code_problems=%s", path);
    set(c, pair);
    snprintf(pair, sizeof pair, "proxy_model=%s", scratch_path("model"));
    set(c, pair);
    set(c, "proxy_max_tokens=20");
    set(c, "sandbox_isolation=none"); /* of no use here: the tiny model writes no code */
}

static sr1_config *load(const char *path)
{
    char validation[600];
    sr1_config *c = NULL;

    snprintf(validation, sizeof validation, "validation_%s", strstr(train_path, "file="));
    OK(sr1_config_new(&c));
    if (sr1_config_load(c, path) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    set(c, train_path);
    set(c, validation);
    set(c, "search_index=some.bm25");
    if (sr1_config_validate(c) != SR1_OK)
        fail_msg("%s: %s", path, sr1_last_error());
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        set(c, cuts[i]);
    if (is_of_rooms(c))
        set(c, rooms_path());
    set(c, knowledge_path);
    set_critics(c);
    return c;
}

/* Run it with the model in this folder. Returns its metrics. */
static json_t *run_with(sr1_config *c, const char *model, const char *name)
{
    char pair[600];

    snprintf(pair, sizeof pair, "model_name_or_path=%s", scratch_path(model));
    set(c, pair);
    set(c, out_pair(name));
    run_whole(c);
    return metrics(name);
}

/* Whether its environment knows what to do with questions such as the test has. */
static int asks_questions(const sr1_config *c)
{
    const char *environment = NULL;

    OK(sr1_config_get_str(c, "environment", &environment));
    return strcmp(environment, "search") == 0 || strcmp(environment, "tools") == 0 ||
           is_of_rooms(c);
}

static void run_recipe(const char *path, const char *name)
{
    sr1_config *c = load(path);
    json_t *rows;

    if (!asks_questions(c)) {
        print_message("%s: read, not run\n", name);
        sr1_config_free(c);
        return;
    }
    rows = run_with(c, "model", name);
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

/* Calls the tool, rightly or not, or answers, rightly or not. */
static const struct tiny_rule tiny_caller[] = {
    {"", "<tool>"},         {"<tool>", TINY_CALL}, {TINY_CALL, "</tool>"},
    {"<tool>", "{oops"},    {"{oops", "</tool>"},  {"", "<answer>"},
    {"<answer>", " Paris"}, {"<answer>", " Rome"}, {" Paris", "</answer>"},
    {" Rome", "</answer>"}};

/* Mean of the metric over rows from to end. */
static double mean(const json_t *rows, const char *key, size_t from, size_t to)
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += metric(rows, i, key);
    return sum / (double)(to - from);
}

/* In the model of the tests " Paris" and " Rome" have one and the same row of the head,
 * which no adapter can tell apart: here each row is another. */
static void make_apart(const char *name)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    struct sr1__rng rng;
    sr1_model *m = NULL;
    float *head;

    tiny_model(name, TINY_SEARCHER, 9);
    OK(sr1_model_open(&m, scratch_path(name), &o));
    head = sr1__shim_data(m->head);
    sr1__rng_seed(&rng, 4, 0);
    for (int64_t i = 0; i < t_numel(m->head); i++)
        head[i] += 0.05f * (float)sr1__rng_normal(&rng);
    OK(sr1_model_save(m, scratch_path(name)));
    sr1_model_free(m);
}

/* Of an adapter: five times that of all weights. With ten times some seeds do not learn.
 */
#define RATE "learning_rate=1e-2"

static void small_recipes_learn(void **state)
{
    static const struct {
        const char *file, *model;
        double gain;            /* of reward, at least */
        const char *changes[4]; /* key=value; NULL: no more */
    } small[] = {{"grpo-small", "model", 0.5, {NULL}},
                 {"grpo-small", "apart", 0.5, {"lora_rank=16", "lora_alpha=32", RATE}},
                 {"ppo-small", "model", 0.5, {NULL}},
                 {"ppo-small",
                  "apart",
                  0.5,
                  {"lora_rank=16", "lora_alpha=32", RATE, "critic_lora_rank=8"}},
                 {"mt-grpo-small", "caller", 0.5, {NULL}}};

    (void)state;
    tiny_model("caller", tiny_caller, sizeof tiny_caller / sizeof *tiny_caller, 12);
    make_apart("apart");
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        char path[800], run[64];
        double before, after;
        sr1_config *c;
        json_t *rows;

        snprintf(path, sizeof path, "%s/examples/recipes/%s.yaml", getenv("SR1_SRC"),
                 small[i].file);
        snprintf(run, sizeof run, "learns-%s-%zu", small[i].file, i);
        c = load(path);
        set(c, "max_steps=20");
        set(c, "batch_size=4");
        set(c, "group_size=8");
        set(c, "mini_batch_size=0");
        set(c, "learning_rate=2e-3");
        for (size_t k = 0; k < 4 && small[i].changes[k]; k++)
            set(c, small[i].changes[k]);
        rows = run_with(c, small[i].model, run);
        before = mean(rows, "avg_reward", 0, 2);
        after = mean(rows, "avg_reward", 16, 20);
        if (after < before + small[i].gain)
            fail_msg("%s: reward %.3f, then %.3f", small[i].file, before, after);
        print_message("%s: reward %.3f, then %.3f\n", small[i].file, before, after);
        json_decref(rows);
    }
}

/* What the publications and their scripts say. */
static const struct {
    const char *file, *key, *text; /* a word, a number, or true or false */
} published[] = {
    {"search-r1-grpo", "compat", "search-r1"},
    {"search-r1-grpo", "max_turns", "2"},
    {"search-r1-grpo", "search_top_k", "3"},
    {"search-r1-grpo", "max_tokens_per_turn", "500"},
    {"search-r1-grpo", "max_prompt_tokens", "2048"},
    {"search-r1-grpo", "max_observation_tokens", "500"},
    {"search-r1-grpo", "advantage", "grpo"},
    {"search-r1-grpo", "advantage_eps", "1e-6"},
    {"search-r1-grpo", "advantage_std_kind", "unbiased"},
    {"search-r1-grpo", "group_size", "5"},
    {"search-r1-grpo", "batch_size", "512"},
    {"search-r1-grpo", "mini_batch_size", "256"},
    {"search-r1-grpo", "clip_epsilon", "0.2"},
    {"search-r1-grpo", "dual_clip", "0"},
    {"search-r1-grpo", "kl_in", "loss"},
    {"search-r1-grpo", "beta", "0.001"},
    {"search-r1-grpo", "learning_rate", "1e-6"},
    {"search-r1-grpo", "warmup_ratio", "0.285"},
    {"search-r1-grpo", "max_steps", "1005"},
    {"search-r1-grpo", "validate_interval", "50"},
    {"search-r1-grpo", "validate_at_start", "true"},
    {"search-r1-grpo", "validation_samples", "0"},
    {"search-r1-ppo", "advantage", "gae"},
    {"search-r1-ppo", "gamma", "1"},
    {"search-r1-ppo", "gae_lambda", "1"},
    {"search-r1-ppo", "clip_epsilon", "0.2"},
    {"search-r1-ppo", "dual_clip", "0"},
    {"search-r1-ppo", "value_clip", "0.5"},
    {"search-r1-ppo", "kl_in", "reward"},
    {"search-r1-ppo", "kl_kind", "k1"},
    {"search-r1-ppo", "beta", "0.001"},
    {"search-r1-ppo", "learning_rate", "1e-6"},
    {"search-r1-ppo", "critic_learning_rate", "1e-5"},
    {"search-r1-ppo", "mini_batch_size", "256"},
    {"search-r1-ppo", "validate_interval", "50"},
    {"search-r1-ppo", "validate_at_start", "true"},
    {"search-r1-ppo", "validation_samples", "0"},
    {"mt-grpo", "max_env_steps", "5"},
    {"mt-grpo", "turn_advantage_coef", "1"},
    {"mt-grpo", "group_size", "7"},
    {"mt-grpo", "vllm_server_port", "8000"},
    {"mt-grpo", "temperature", "0.9"},
    {"mt-grpo", "max_tokens", "1024"},
    {"mt-grpo", "beta", "0"},
    {"mt-grpo", "update_times", "2"},
    {"mt-grpo", "learning_rate", "1e-6"},
    {"mt-grpo", "warmup_steps", "20"},
    {"mt-grpo", "adam_beta2", "0.99"},
    {"mt-grpo", "max_grad_norm", "0.1"},
    {"mt-grpo", "search_top_k", "1"},
    {"ctrl", "question_field", "critique_prompt"},
    {"ctrl", "advantage", "grpo"},
    {"ctrl", "advantage_eps", "1e-6"},
    {"ctrl", "advantage_std_kind", "unbiased"},
    {"ctrl", "batch_size", "1024"},
    {"ctrl", "group_size", "8"},
    {"ctrl", "mini_batch_size", "2048"},
    {"ctrl", "update_times", "1"},
    {"ctrl", "num_epochs", "2"},
    {"ctrl", "learning_rate", "1e-5"},
    {"ctrl", "clip_epsilon", "0.2"},
    {"ctrl", "entropy_coef", "0.001"},
    {"ctrl", "kl_in", "loss"},
    {"ctrl", "kl_kind", "low_var_kl"},
    {"ctrl", "beta", "0.001"},
    {"ctrl", "max_grad_norm", "1"},
    {"ctrl", "max_prompt_tokens", "1536"},
    {"ctrl", "max_tokens", "768"},
    {"ctrl", "proxy_max_tokens", "1024"},
    {"ctrl", "temperature", "1"},
    {"ctrl", "execution_score", "all"},
};

static void holds(const sr1_config *c, const char *key, const char *text)
{
    const char *word = NULL;
    double number = NAN;
    int32_t on = 0;

    if (sr1_config_get_bool(c, key, &on) == SR1_OK)
        word = on ? "true" : "false";
    if (word || sr1_config_get_str(c, key, &word) == SR1_OK) {
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
        OK(sr1__settings_resolve(c)); /* what the loss brings along counts too */
        holds(c, published[i].key, published[i].text);
        sr1_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recipe_makes_steps),
        cmocka_unit_test(small_recipes_learn),
        cmocka_unit_test(published_numbers_stand_in_the_recipes),
    };

    return cmocka_run_group_tests_name("recipes", tests, runs_make, scratch_remove);
}
