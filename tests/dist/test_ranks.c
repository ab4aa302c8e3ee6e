/* test_ranks.c - training by several processes: the same bits as by as many workers of
 * one, as the same run again, and as a run that never stopped. */
#include "dist/ranks.h"
#include "unit/train/leveller.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/ops/ops.h"
#include "text/tokenizer/tokenizer.h"
#include "train/learner.h"
#include "train/step_batch.h"
#include "train/unit_pass.h"

#include <searchr1/ext/ranks.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/synthesis.h>

/* Steps with mini-batches, two epochs, a reference and a validation in the midst. */
#define CONFIG(name, ...)                                                                \
    RUN(name, "threads=1", "batch_size=3", "group_size=4", "beta=0.1",                   \
        "micro_batch_tokens=64", "update_times=2", "log_trajectories=-1", __VA_ARGS__)

static const char *run_name;
static int32_t run_workers;

static int run_in_parts; /* weights are sharded too */

static sr1_config *config_of(const char *name, int32_t workers)
{
    char pair[32];
    sr1_config *c;

    snprintf(pair, sizeof pair, "workers=%d", workers);
    c = CONFIG(name, pair);
    if (run_in_parts) {
        OK(sr1_config_set(c, "fsdp_size", "-1"));
        OK(sr1_config_set(c, "reshard_after_forward", "true"));
    }
    return c;
}

static void train_as_rank(const struct ranks *r)
{
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of(run_name, run_workers));
    RANK_CHECK(sr1_trainer_rank(tr) == ranks_self);
    RANK_CHECK(sr1_trainer_world_size(tr) == r->size);
    RANK_CHECK(sr1_trainer_run(tr, NULL) == SR1_OK);
    sr1_trainer_free(tr);
}

static void run_ranks(const char *name, int32_t size)
{
    struct ranks r = {.size = size};

    run_name = name;
    run_workers = 1;
    ranks_run(&r, train_as_rank, 0);
}

static void train_in_one(const struct ranks *r)
{
    (void)r;
    run_whole(config_of(run_name, run_workers));
}

/* In a process of its own: this one forks, and must not have run a model. */
static void run_workers_of_one(const char *name, int32_t workers)
{
    struct ranks r = {.size = 1};

    run_name = name;
    run_workers = workers;
    ranks_run(&r, train_in_one, 0);
}

static void ranks_are_workers(void **state)
{
    (void)state;
    run_workers_of_one("workers-2", 2);
    run_ranks("ranks-2", 2);
    same_run("workers-2", "ranks-2");
}

static void three_ranks_are_three_workers(void **state)
{
    (void)state;
    run_workers_of_one("workers-3", 3);
    run_ranks("ranks-3", 3);
    same_run("workers-3", "ranks-3");
}

static void four_ranks_are_four_workers(void **state)
{
    (void)state;
    run_workers_of_one("workers-4", 4);
    run_ranks("ranks-4", 4);
    same_run("workers-4", "ranks-4");
}

/* ---- an engine that waits ---- */

static sr1_status search_slowly(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct timespec ms = {0, 3 * 1000 * 1000};

    (void)self, (void)top_k;
    nanosleep(&ms, NULL);
    for (size_t i = 0; i < n; i++)
        if (strstr(queries[i], "tower"))
            OK(sr1_search_sink_hit(sink, i, "1", "The tower stands in Paris.", 1.0));
    return SR1_OK;
}

static void train_with_slow_engine(const struct ranks *r)
{
    sr1_search_ops ops = {.struct_size = sizeof ops,
                          .name = "slow",
                          .search = search_slowly,
                          .flags = SR1_SEARCH_CONCURRENT | SR1_SEARCH_WAITS};
    sr1_config *c = config_of(run_name, run_workers);
    sr1_search *e = NULL;
    sr1_trainer *tr = NULL;

    if (r->size > 1)
        ranks_set_variables(r);
    OK(sr1_search_new(&e, &ops, NULL));
    OK(sr1_trainer_new(&tr, c, e));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    sr1_search_free(e);
    sr1_config_free(c);
}

/* Which searches meet in one call is of the clock, and no line of metrics is beyond what
 * its names say. */
/* Where ranks and workers cut the rows of a pass otherwise, or waiting does: a row's bits
 * are its own on the CPU, and on a device by rounding only. */
static void skip_on_device(void)
{
    if (!test_on_cpu())
        skip();
}

static void so_they_are_with_an_engine_that_waits(void **state)
{
    static const char *const names[] = {"slow-1", "slow-2"};

    (void)state;
    skip_on_device();
    for (int32_t k = 0; k < 2; k++) {
        struct ranks r = {.size = k + 1};

        run_name = names[k];
        run_workers = k ? 1 : 2;
        ranks_run(&r, train_with_slow_engine, 0);
    }
    same_run(names[0], names[1]);
}

static void again_the_same(void **state)
{
    (void)state;
    run_ranks("again", 2);
    same_run("ranks-2", "again");
}

/* ---- resuming ---- */

static void cut_short(const struct ranks *r)
{
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of("resumed", 1));
    run_until(tr, 3);
    sr1_trainer_free(tr);
}

static void go_on(const struct ranks *r)
{
    sr1_trainer *tr = NULL;

    ranks_set_variables(r);
    sr1_config_free(config_of("resumed", 1)); /* which knows the tests' device */
    OK(sr1_trainer_resume(&tr, scratch_path("resumed"), NULL));
    RANK_CHECK(sr1_trainer_steps_done(tr) == 2);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static void resuming_is_never_having_stopped(void **state)
{
    struct ranks r = {.size = 2}, again = r;

    (void)state;
    ranks_run(&r, cut_short, 0);
    ranks_run(&again, go_on, 0);
    same_run("ranks-2", "resumed");
}

/* ---- other objectives ---- */

/* Pairs of a configuration that both sides have; NULL ends them. */
#define VARIANT_PAIRS 9

static const char *const variants[][VARIANT_PAIRS] = {
    {"advantage=gae", "loss=ppo", "kl_in=reward", "critic_learning_rate=1e-3"},
    {"lora_rank=2", "lora_dropout=0.1"},
    {"dtype=bf16"},
    {"batch_size=1", "group_size=2"}, /* fewer questions than ranks */
    {"balance_batches=true", "skip_zero_variance_groups=true"},
    {"dynamic_sampling=2"},
    {"advantage=remax", "overlong_buffer=4"},
    {"advantage=mt_grpo"},
    {"distributed_debug=true", "advantage_std_over=batch", "top_entropy_quantile=0.3"},
    {"quantization=int8", "importance_correction=token_truncate", "rollout_rs=token_k1",
     "rollout_rs_threshold=0.999_1.001", "loss=dppo_tv"},
    {"advantage=tir_optimal_token_baseline", "loss=dro", "dro_beta=0.5"},
};
#define VARIANTS (sizeof variants / sizeof variants[0])

static const char *const *variant;

static void train_variant(const struct ranks *r)
{
    sr1_config *c = config_of(run_name, run_workers);

    if (r->size > 1)
        ranks_set_variables(r);
    for (size_t i = 0; i < VARIANT_PAIRS && variant[i]; i++)
        OK(sr1_config_set_pair(c, variant[i]));
    run_whole(c);
}

/* By two workers into the run names[0], by two ranks into names[1]. */
static void train_both(const char *const *pairs, char names[2][32])
{
    static int number;

    variant = pairs;
    number++;
    for (int k = 0; k < 2; k++) {
        struct ranks r = {.size = k + 1};

        snprintf(names[k], sizeof names[k], "variant-%d-%d", number, k);
        run_name = names[k];
        run_workers = k ? 1 : 2;
        ranks_run(&r, train_variant, 0);
    }
}

static void demonstrations_are_shared(void **state)
{
    static const char demos[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Where?\"}, {\"role\": "
        "\"assistant\", \"content\": \"<answer> Rome</answer>\"}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Who was it?\"}, {\"role\": "
        "\"assistant\", \"content\": \"<search> tower</search>\"}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"When?\"}, {\"role\": "
        "\"assistant\", \"content\": \"<answer> Paris</answer>\"}]}\n";
    char file[600], names[2][32];
    const char *const pairs[] = {"stage=sft", file, NULL};

    (void)state;
    snprintf(file, sizeof file, "sft_file=%s", scratch_file("demos.jsonl", demos, 0));
    train_both(pairs, names);
    same_file(names[0], names[1], "model/model.safetensors");
    same_file(names[0], names[1], "checkpoints/step-6/optimizer/model.safetensors");
}

/* Eight uses of seven rows in each step, of which one rank has the first, another the
 * second. */
static void copies_are_shared(void **state)
{
    static const char *const pairs[] = {"train_weights=3", "batch_size=8", "max_steps=2",
                                        NULL};
    char names[2][32], *text;

    (void)state;
    skip_on_device();
    train_both(pairs, names);
    same_file(names[0], names[1], "trajectories.jsonl.zst");
    same_file(names[0], names[1], "model/model.safetensors");
    text = slurp_trajectories(names[1]);
    assert_non_null(strstr(text, "\"copy\":1"));
    sr1_free(text);
}

/* The first rank logs, and every rank moves the same reference. */
static void what_follows_an_update_is_shared(void **state)
{
    static const char *const pairs[] = {"kl_reference=frozen",
                                        "beta=0.5",
                                        "reference_sync_steps=2",
                                        "validation_split=0.3",
                                        "validate_interval=2",
                                        "validation_group_size=3",
                                        "validation_temperature=1.0",
                                        "log_validation_trajectories=-1",
                                        NULL};
    char names[2][32];

    (void)state;
    train_both(pairs, names);
    same_file(names[0], names[1], "model/model.safetensors");
    same_file(names[0], names[1], "checkpoints/step-6/reference/model.safetensors");
    same_records(names[0], names[1]);
}

static void every_objective_is_shared(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        char names[2][32];

        train_both(variants[i], names);
        same_journals(names[0], names[1]);
        same_file(names[0], names[1],
                  strstr(variant[0], "lora") ? "model/adapter_model.safetensors"
                                             : "model/model.safetensors");
    }
}

/* ---- what happens to one happens to all ---- */

/* A judge that never says the same twice, and what it was asked. */
static sr1_status score_by_chance(void *self, const sr1_trajectory *const *t, size_t n,
                                  double *out)
{
    const struct ranks *r = self;

    (void)t;
    r->shared->hash[2 + ranks_self] += n;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)(i % 3) + ranks_self +
                 (i % 7 ? 0 : (double)((int)(sr1__now() * 1e6) % 7));
    return SR1_OK;
}

static uint64_t hash_weights(const sr1_trainer *tr)
{
    size_t n;
    float *w = tiny_weights(tr->model, &n);
    uint64_t hash = sr1__hash64(w, n * sizeof *w, 0);

    free(w);
    return hash;
}

#define GROUP 4

/* The same on every rank, which each rolls them out for itself. */
static void make_batch(sr1_trainer *tr, sr1_trajectory *t[2 * GROUP])
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 9};
    sr1_query q[] = {tiny_query("Where is the tower?"), tiny_query("Who was it?")};

    OK(sr1_rollout_generate(sr1_trainer_rollout(tr), q, 2, &o, t));
    for (size_t i = 0; i < 2 * GROUP; i++) {
        OK(sr1_trajectory_set_reward(t[i], (double)(i % 3)));
        OK(sr1_trajectory_set_advantage(t[i], (double)(i % 5) - 2.0));
    }
}

static const char *estimator;

static void score_once(const struct ranks *r)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "by_chance", .score = score_by_chance};
    sr1_config *c = config_of(strchr(estimator, '=') + 1, 1);
    sr1_trainer *tr;

    ranks_set_variables(r);
    OK(sr1_config_set_pair(c, estimator));
    OK(sr1_config_set_pair(c, "validate_interval=0"));
    tr = open_trainer(c);
    OK(sr1_trainer_add_reward(tr, &ops, (void *)(uintptr_t)r, 1.0));
    RANK_CHECK(sr1_trainer_run(tr, NULL) == SR1_OK);
    r->shared->hash[ranks_self] = hash_weights(tr);
    sr1_trainer_free(tr);
}

/* 6 steps over 7 questions, 3, 3 and 1 at a time: rank 0 has 10, rank 1 has 4. With
 * greedy rollouts to compare with there is one more of each. */
static void a_reward_is_computed_by_one_rank(void **state)
{
    static const char *const pairs[] = {"advantage=grpo", "advantage=remax"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct ranks r = {.size = 2};
        uint64_t group = 4 + i;

        estimator = pairs[i];
        ranks_run(&r, score_once, 0);
        assert_int_equal(r.shared->hash[0], r.shared->hash[1]);
        assert_int_equal(r.shared->hash[2], 10 * group);
        assert_int_equal(r.shared->hash[3], 4 * group);
    }
}

static void update_differently(const struct ranks *r)
{
    sr1_trajectory *t[2 * GROUP];
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of("differently", 1));
    make_batch(tr, t);
    OK(sr1_trajectory_set_advantage(t[2], 1.0 + ranks_self));
    RANK_CHECK(sr1_trainer_update(tr, t, 2 * GROUP, NULL) == SR1_E_STATE);
    RANK_CHECK(strstr(sr1_last_error(), "the batch, with rewards and advantages"));
    RANK_CHECK(strstr(sr1_last_error(), "on rank 1 differs from rank 0's"));
    RANK_CHECK(sr1_trainer_steps_done(tr) == 0);
    for (size_t i = 0; i < 2 * GROUP; i++)
        sr1_trajectory_free(t[i]);
    sr1_trainer_free(tr);
}

static void batches_that_differ_are_an_error(void **state)
{
    struct ranks r = {.size = 2};

    (void)state;
    ranks_run(&r, update_differently, 0);
}

/* The third trajectory's gradient is not finite; it is in one rank's micro-batch. */
static void skip_alike(const struct ranks *r)
{
    sr1_trajectory *t[2 * GROUP];
    sr1_trainer *tr;
    uint64_t before;

    ranks_set_variables(r);
    tr = open_trainer(config_of("skips", 1));
    make_batch(tr, t);
    OK(sr1_trajectory_set_advantage(t[2], 3e38));
    before = hash_weights(tr);
    RANK_CHECK(sr1_trainer_update(tr, t, 2 * GROUP, NULL) == SR1_OK);
    RANK_CHECK(tr->skipped == 2 && hash_weights(tr) == before);
    OK(sr1_trajectory_set_advantage(t[2], 1.0));
    RANK_CHECK(sr1_trainer_update(tr, t, 2 * GROUP, NULL) == SR1_OK);
    RANK_CHECK(tr->skipped == 2 && hash_weights(tr) != before);
    r->shared->hash[ranks_self] = hash_weights(tr);
    for (size_t i = 0; i < 2 * GROUP; i++)
        sr1_trajectory_free(t[i]);
    sr1_trainer_free(tr);
}

static void not_finite_on_one_is_skipped_by_all(void **state)
{
    struct ranks r = {.size = 2}, parts = {.size = 2};

    (void)state;
    ranks_run(&r, skip_alike, 0);
    assert_true(r.shared->hash[0] == r.shared->hash[1]);
    run_in_parts = 1;
    ranks_run(&parts, skip_alike, 0);
    run_in_parts = 0;
    assert_true(r.shared->hash[0] == parts.shared->hash[0]);
    assert_true(r.shared->hash[0] == parts.shared->hash[1]);
}

static int64_t fail_at;

static void run_out_of_memory(const struct ranks *r)
{
    sr1_query q[] = {tiny_query("Where is the tower?"), tiny_query("Who was it?")};
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of("memory", 1));
    if (ranks_self == 1)
        sr1__mem_fail_at(fail_at);
    r->shared->status[ranks_self] = sr1_trainer_train_step(tr, q, 2, GROUP, NULL, NULL);
    sr1__mem_fail_at(0);
    r->shared->hash[ranks_self] = hash_weights(tr);
    sr1_trainer_free(tr);
}

/* Either all do without it, in smaller micro-batches, or all fail. */
static int run_out_together(void)
{
    struct ranks r = {.size = 2};

    ranks_run(&r, run_out_of_memory, 0);
    if ((r.shared->status[0] == SR1_OK) != (r.shared->status[1] == SR1_OK))
        fail_msg("allocation %d: %d and %d", (int)fail_at, r.shared->status[0],
                 r.shared->status[1]);
    if (r.shared->status[0] == SR1_OK)
        assert_true(r.shared->hash[0] == r.shared->hash[1]);
    return r.shared->status[0] != SR1_OK;
}

static void memory_of_one_is_memory_of_all(void **state)
{
    int failed = 0;

    (void)state;
    for (fail_at = 1; fail_at < 6000; fail_at = fail_at * 3 + 2)
        failed += run_out_together();
    assert_true(failed > 2);
    failed = 0;
    run_in_parts = 1;
    for (fail_at = 600; fail_at < 5000; fail_at *= 2)
        failed += run_out_together();
    run_in_parts = 0;
    assert_true(failed > 0);
}

/* One rank has no memory for the list of parts: both say so at the same place. */
static void shard_without_memory(const struct ranks *r)
{
    sr1_trajectory *t[2 * GROUP];
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of("shard-memory", 1));
    sr1__mem_fail_at(ranks_self);
    r->shared->status[ranks_self] = sr1__unit_pass_reshard(tr->policy.pass);
    sr1__mem_fail_at(0);
    RANK_CHECK(strstr(sr1_last_error(), "rank 1: out of memory for parts of weights"));
    RANK_CHECK(!sr1__unit_pass_in_parts(tr->policy.pass));
    make_batch(tr, t); /* they can go on */
    RANK_CHECK(sr1_trainer_update(tr, t, 2 * GROUP, NULL) == SR1_OK);
    for (size_t i = 0; i < 2 * GROUP; i++)
        sr1_trajectory_free(t[i]);
    sr1_trainer_free(tr);
}

static void parts_without_memory_fail_on_all(void **state)
{
    struct ranks r = {.size = 2};

    (void)state;
    run_in_parts = 1;
    ranks_run(&r, shard_without_memory, 0);
    run_in_parts = 0;
    assert_int_equal(r.shared->status[0], SR1_E_NOMEM);
    assert_int_equal(r.shared->status[1], SR1_E_NOMEM);
}

/* ---- thinking levels ---- */

static void count_branch(void *count, const sr1_trajectory *t, int32_t turn,
                         int32_t level, const int32_t *ids, size_t n, size_t asked)
{
    (void)t, (void)turn, (void)level, (void)ids, (void)n, (void)asked;
    *(double *)count += 1;
}

static sr1_status score_length(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)(sr1_trajectory_policy_count(t[i]) % 5) - 1.0;
    return SR1_OK;
}

static void make_leveller(const struct ranks *r)
{
    (void)r;
    tiny_model("leveller", leveller, sizeof leveller / sizeof *leveller, 9);
}

static void compare_as_rank(const struct ranks *r)
{
    static const char *const figures[] = {
        "levels_compared",  "levels_left_out",  "levels_unread",  "levels_too_long",
        "levels_no_action", "levels_malformed", "levels_no_room", "level_tokens"};
    static const sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "length", .score = score_length};
    sr1_query q[] = {tiny_query("Where is the tower?"), tiny_query("Who was it?"),
                     tiny_query("When?")};
    sr1_trajectory *t[3 * GROUP];
    uint64_t hash = 0;
    sr1_trainer *tr;

    if (r->size > 1)
        ranks_set_variables(r);
    tr = open_trainer(tiny_config("leveller", train_path, knowledge_path, out_pair("no"),
                                  "protocol=rlvcr", "advantage=rlvcr", "rewards=none",
                                  "update_times=1", "learning_rate=0", "max_tokens=60",
                                  "max_turns=4", "level_max_tokens=20", NULL));
    OK(sr1_trainer_add_reward(tr, &ops, NULL, 1.0));
    tr->set.levels.look = count_branch;
    tr->set.levels.user = &r->shared->at[ranks_self];
    RANK_CHECK(sr1_trainer_train_step(tr, q, 3, GROUP, NULL, t) == SR1_OK);
    for (size_t i = 0; i < 3 * GROUP; i++) {
        void *bytes = NULL;
        size_t n = 0;

        OK(sr1_trajectory_encode(t[i], &bytes, &n));
        hash = sr1__hash64(bytes, n, hash);
        sr1_free(bytes);
    }
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        double v = sr1__metrics_get(&tr->step_metrics, figures[i]);

        hash = sr1__hash64(&v, sizeof v, hash);
    }
    r->shared->hash[ranks_self] = hash;
    tiny_free_all(t, 3 * GROUP);
    sr1_trainer_free(tr);
}

/* Each rank compares the levels of some questions, and all have what one process has. */
static void thinking_levels_are_shared(void **state)
{
    struct ranks model = {.size = 1}, one = {.size = 1}, two = {.size = 2};

    (void)state;
    skip_on_device();
    ranks_run(&model, make_leveller, 0);
    ranks_run(&one, compare_as_rank, 0);
    ranks_run(&two, compare_as_rank, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_true(two.shared->hash[i] == one.shared->hash[0]);
        assert_true(two.shared->at[i] > 0);
    }
    assert_true(two.shared->at[0] + two.shared->at[1] == one.shared->at[0]);
}

/* ---- passes of unequal length ---- */

/* One rank has its numbers later than distributed_timeout allows. */
static void score_late(const struct ranks *r)
{
    sr1_config *c = config_of("late", 1);
    sr1_trajectory *t[2 * GROUP];
    sr1_trainer *tr;

    ranks_set_variables(r);
    OK(sr1_config_set(c, "distributed_timeout", "5"));
    tr = open_trainer(c);
    make_batch(tr, t);
    if (ranks_self == 1)
        sleep(6);
    RANK_CHECK(sr1__forward_column(tr, SR1_COLUMN_OLD, t, 2 * GROUP) == SR1_OK);
    tiny_free_all(t, 2 * GROUP);
    sr1_trainer_free(tr);
}

static void a_slow_pass_is_waited_for(void **state)
{
    struct ranks r = {.size = 2};

    (void)state;
    ranks_run(&r, score_late, 0);
}

/* ---- other files under the same names ---- */

/* A folder for rank 1 alone, of which one file differs: what a key names there is under
 * /proc/self/cwd, which each rank has its own of. */
static const struct {
    const char *key, *file, *text, *says;
    sr1_status opened; /* else its run is refused */
} others[] = {
    {"model_name_or_path", "model", NULL, "what the processes read differs: weights is",
     SR1_E_STATE},
    {"validation_file", "asked.jsonl",
     "{\"question\": \"Why?\", \"golden_answers\": [\"so\"]}\n", "differs: validation is",
     SR1_E_STATE},
    {"question_template", "words.txt", "Well: {{question}}", "differs: prompt is",
     SR1_E_STATE},
    {"train_file", "asked.jsonl",
     "{\"question\": \"Where?\", \"golden_answers\": [\"Paris\"]}\n"
     "{\"question\": \"Why?\", \"golden_answers\": [\"so\"]}\n",
     "the rows of the data on rank 1 differs from rank 0's", SR1_OK},
};
static size_t other;

static void make_others(const struct ranks *r)
{
    (void)r;
    OK(sr1__dir_make(scratch_path("mine")));
    OK(sr1__dir_make(scratch_path("theirs")));
    tiny_model("mine/model", TINY_SEARCHER, 9);
    tiny_model("theirs/model", TINY_SEARCHER, 8);
    scratch_file("mine/asked.jsonl",
                 "{\"question\": \"Where?\", \"golden_answers\": [\"Paris\"]}\n"
                 "{\"question\": \"Who?\", \"golden_answers\": [\"so\"]}\n",
                 0);
    scratch_file("mine/words.txt", "So: {{question}}", 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char name[64];

        snprintf(name, sizeof name, "theirs/%s", others[i].file);
        if (i == other && others[i].text)
            scratch_file(name, others[i].text, 0);
    }
}

static void find_other_file(const struct ranks *r)
{
    sr1_config *c = config_of("elsewhere", 1);
    sr1_trainer *tr = NULL;
    char pair[96];

    ranks_set_variables(r);
    RANK_CHECK(chdir(scratch_path(ranks_self ? "theirs" : "mine")) == 0);
    snprintf(pair, sizeof pair, "%s=/proc/self/cwd/%s", others[other].key,
             others[other].file);
    OK(sr1_config_set_pair(c, pair));
    RANK_CHECK(sr1_trainer_new(&tr, c, NULL) == others[other].opened);
    if (tr)
        RANK_CHECK(sr1_trainer_run(tr, NULL) == SR1_E_STATE);
    if (!strstr(sr1_last_error(), others[other].says)) {
        fprintf(stderr, "%s: %s\n", others[other].key, sr1_last_error());
        _exit(1);
    }
    RANK_CHECK(strstr(sr1_last_error(), "on rank 1"));
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

static void other_files_are_named(void **state)
{
    (void)state;
    for (other = 0; other < sizeof others / sizeof *others; other++) {
        struct ranks one = {.size = 1}, two = {.size = 2};

        ranks_run(&one, make_others, 0);
        ranks_run(&two, find_other_file, 0);
        assert_int_not_equal(access(scratch_path("elsewhere"), F_OK), 0);
    }
}

/* ---- weights that drift apart ---- */

static sr1_status drift(void *user, const sr1_step_report *report, int64_t planned)
{
    const sr1_trainer *tr = user;
    sr1_scope *s = sr1__scope_open(tr->model->device, "drift");
    sr1_tensor *t = tr->model->leaves[0].tensor;

    (void)planned;
    sr1__scope_no_grad(s);
    if (ranks_self == 1 && report->step == 3)
        t_add_(s, t, t, 1e-6);
    return sr1__scope_close(s);
}

static void train_apart(const struct ranks *r)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = drift};
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of("apart", 1));
    cb.user = tr;
    RANK_CHECK(sr1_trainer_run(tr, &cb) == SR1_E_STATE);
    RANK_CHECK(strstr(sr1_last_error(), "what has been trained differs: weights is"));
    RANK_CHECK(ranks_self > 0 ||
               strstr(sr1_last_error(), "goes on from the checkpoint of step 2"));
    sr1_trainer_free(tr);
}

/* The checkpoint of step 4 is of nobody. */
static void weights_that_drift_apart_are_not_saved(void **state)
{
    struct ranks r = {.size = 2};

    (void)state;
    ranks_run(&r, train_apart, 0);
    assert_int_equal(access(scratch_path("apart/checkpoints/step-2"), F_OK), 0);
    assert_int_not_equal(access(scratch_path("apart/checkpoints/step-4"), F_OK), 0);
}

/* ---- demonstrations of a policy ---- */

#define LONG_AGO 981173106

static int64_t synthesis_rows, synthesis_time; /* 0: now */

static sr1_status check_synthesis_date(void *rollout, int64_t finished, int64_t total,
                                       int64_t tokens)
{
    (void)finished, (void)total, (void)tokens;
    RANK_CHECK(sr1__chat_time(sr1_rollout_tokenizer(rollout)) == LONG_AGO);
    return SR1_OK;
}

static void synthesise_as_rank(const struct ranks *r)
{
    const char *const paths[] = {tiny_questions("synthesis.jsonl", 8)};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_config *c = tiny_config("dated", NULL);
    sr1_reward_set *set = NULL;
    sr1_rollout *rollout;
    sr1_dataset *d = NULL;
    sr1_synth_options o;

    sr1_synth_options_init(&o);
    ranks_set_variables(r);
    RANK_CHECK(sr1_ranks_open(&o.ranks, c) == SR1_OK);
    rollout = tiny_rollout(c, tiny_engine());
    if (synthesis_time)
        sr1__chat_set_time(sr1_rollout_tokenizer(rollout), synthesis_time);
    RANK_CHECK(sr1_reward_set_new(&set, &none) == SR1_OK);
    RANK_CHECK(sr1_dataset_open(&d, paths, 1, NULL) == SR1_OK);
    o.max_rows = synthesis_rows;
    o.progress = check_synthesis_date;
    o.user = rollout;
    RANK_CHECK(sr1_synthesise(scratch_path("dated.jsonl"), rollout, set, d, &o, NULL) ==
               SR1_OK);
    sr1_dataset_free(d);
    sr1_reward_set_free(set);
    sr1_rollout_free(rollout);
    sr1_ranks_free(o.ranks);
}

static void make_dated_model(const struct ranks *r)
{
    (void)r;
    tiny_model("dated", TINY_SEARCHER, 9);
    tiny_dated_template("dated");
}

/* Ranks that go on with it on another day show the date of its beginning, all of them. */
static void demonstrations_show_one_date(void **state)
{
    struct ranks alone = {.size = 1}, two = {.size = 2};

    (void)state;
    ranks_run(&alone, make_dated_model, 0);
    synthesis_rows = 4;
    synthesis_time = LONG_AGO;
    ranks_run(&two, synthesise_as_rank, 0);
    synthesis_rows = 8;
    synthesis_time = 0;
    two.port = 0;
    ranks_run(&two, synthesise_as_rank, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demonstrations_are_shared),
        cmocka_unit_test(demonstrations_show_one_date),
        cmocka_unit_test(copies_are_shared),
        cmocka_unit_test(what_follows_an_update_is_shared),
        cmocka_unit_test(every_objective_is_shared),
        cmocka_unit_test(a_reward_is_computed_by_one_rank),
        cmocka_unit_test(batches_that_differ_are_an_error),
        cmocka_unit_test(thinking_levels_are_shared),
        cmocka_unit_test(a_slow_pass_is_waited_for),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(weights_that_drift_apart_are_not_saved),
        cmocka_unit_test(not_finite_on_one_is_skipped_by_all),
        cmocka_unit_test(memory_of_one_is_memory_of_all),
        cmocka_unit_test(parts_without_memory_fail_on_all),
        cmocka_unit_test(ranks_are_workers),
        cmocka_unit_test(three_ranks_are_three_workers),
        cmocka_unit_test(four_ranks_are_four_workers),
        cmocka_unit_test(so_they_are_with_an_engine_that_waits),
        cmocka_unit_test(again_the_same),
        cmocka_unit_test(resuming_is_never_having_stopped),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
