/* Whole runs whose rollouts a server generates that takes its own time: seconds of a step
 * with async_level 0 and 1, by turns. A server's answer takes DELAY seconds, in which it
 * uses no processor. hidden: of the shorter phase, rollout or update (all of a step but
 * the rollout and the push of weights, during which a server generates nothing).
 * usage: bench_async [delay_s=0.5] [update_times=8] [steps=8] [rounds=2] */
#include "support/openai_server.h"

#define SKIPPED 2 /* first steps, which are not measured; nor is the last */

static struct openai_server server;

/* Of the measured steps, a mean. */
struct timing {
    double step, rollout, push;
};

static json_t *read_metrics(const char *run)
{
    char path[600];
    struct sr1__buf text;
    json_t *rows = json_array();

    snprintf(path, sizeof path, "%s/metrics.jsonl", scratch_path(run));
    OK(sr1__file_read(path, 0, &text));
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n"))
        json_array_append_new(rows, json_loads(line, 0, NULL));
    sr1__buf_free(&text);
    return rows;
}

static double get_number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static struct timing run_once(const char *level, const char *times, int steps, int round)
{
    char run[32], words[4][600];
    struct timing t = {0, 0, 0};
    sr1_trainer *tr = NULL;
    sr1_config *c;
    json_t *rows;

    snprintf(run, sizeof run, "run-%s-%d", level, round);
    snprintf(words[0], sizeof words[0], "out=%s", scratch_path(run));
    snprintf(words[1], sizeof words[1], "max_steps=%d", steps);
    snprintf(words[2], sizeof words[2], "async_level=%s", level);
    snprintf(words[3], sizeof words[3], "update_times=%s", times);
    c = tiny_config("searcher", "beta=0", "importance_correction=token_truncate",
                    "weight_sync_backend=disk", "openai_engine=vllm", "save_interval=0",
                    "save_final_model=false", "batch_size=8", "group_size=8", words[0],
                    words[1], words[2], words[3], NULL);
    openai_use(&server, c);
    OK(sr1_config_set(c, "openai_concurrency", "64"));
    OK(sr1_config_set(c, "train_file", tiny_questions("train.jsonl", 64)));
    OK(sr1_config_set(c, "mock_knowledge", tiny_knowledge("facts.json")));
    OK(sr1_trainer_new(&tr, c, NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    sr1_config_free(c);
    rows = read_metrics(run);
    for (int i = SKIPPED; i < steps - 1; i++) {
        t.step += get_number(json_array_get(rows, (size_t)i), "timing_s/step");
        t.rollout += get_number(json_array_get(rows, (size_t)i), "timing_s/gen");
        t.push +=
            get_number(json_array_get(rows, (size_t)i), "timing_s/sync_rollout_weights");
    }
    json_decref(rows);
    t.step /= steps - 1 - SKIPPED;
    t.rollout /= steps - 1 - SKIPPED;
    t.push /= steps - 1 - SKIPPED;
    return t;
}

int main(int argc, char **argv)
{
    double delay = argc > 1 ? atof(argv[1]) : 0.5;
    const char *times = argc > 2 ? argv[2] : "8";
    int steps = argc > 3 ? atoi(argv[3]) : 8, rounds = argc > 4 ? atoi(argv[4]) : 2;
    void *state = NULL;

    if (steps <= SKIPPED + 1 || rounds < 1 || scratch_make(&state) != 0)
        return 2;
    tiny_model("searcher", TINY_SEARCHER, 16);
    openai_start(&server, scratch_path("searcher"));
    server.engine = VLLM;
    server.delay_s = delay;
    for (int i = 0; i < rounds; i++) {
        struct timing now = run_once("0", times, steps, i);
        struct timing ahead = run_once("1", times, steps, i);
        double update = now.step - now.rollout - now.push;
        double shorter = update < now.rollout ? update : now.rollout;

        printf("{\"what\": \"async\", \"rollout_s\": %.3f, \"update_s\": %.3f, "
               "\"push_s\": %.3f, \"step_s\": %.3f, \"ahead_step_s\": %.3f, "
               "\"hidden\": %.3f}\n",
               now.rollout, update, now.push, now.step, ahead.step,
               (now.step - ahead.step) / shorter);
    }
    openai_stop(&server);
    return scratch_remove(&state);
}
