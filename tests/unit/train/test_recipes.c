/* Every recipe of examples/recipes is read whole and makes steps, cut down to a tiny
 * policy and a mock engine. */
#include "runs.h"

#include <dirent.h>

/* What a recipe is cut down to. */
static const char *const cuts[] = {"max_steps=2",      "batch_size=2",
                                   "group_size=2",     "search_engine=mock",
                                   "max_tokens=40",    "validate_interval=0",
                                   "max_turns=1",      "validate_at_start=false",
                                   "max_env_steps=1",  "learning_rate=1e-4",
                                   "warmup_steps=0",   "device=cpu",
                                   "max_tokens_per_turn=0", "prompt_template=none"};

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

static void run_recipe(const char *path, const char *name)
{
    char model[600];
    sr1_config *c = NULL;
    json_t *rows;

    OK(sr1_config_new(&c));
    if (sr1_config_load(c, path) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        set(c, cuts[i]);
    snprintf(model, sizeof model, "model_name_or_path=%s", scratch_path("model"));
    set(c, model);
    set(c, is_of_rooms(c) ? rooms_path() : train_path);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recipe_makes_steps),
    };

    return cmocka_run_group_tests_name("recipes", tests, runs_make, scratch_remove);
}
