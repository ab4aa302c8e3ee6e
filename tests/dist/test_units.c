/* test_units.c - weights in parts, one on each rank of a group, during updates (ZeRO-3):
 * the same bits as whole ones. Gradients in parts: test_shards.c. */
#define TINY_WIDTH "768" /* so that a layer has several chunks, and is cut */

#include "dist/ranks.h"
#include "dist/saved.h"
#include "unit/train/runs.h"

#include <searchr1/ext/plan.h>

#include <errno.h>
#include <pthread.h>

#define MAX_PAIRS 9

/* What the next ranks do. */
static const char *run_name, *run_model = "model";
static const char *const *run_pairs; /* MAX_PAIRS of a configuration */
static const char *run_size;         /* fsdp_size; NULL: weights and states are whole */

static sr1_config *config_of(const char *name)
{
    sr1_config *c =
        tiny_config(run_model, train_path, knowledge_path, out_pair(name), "max_steps=2",
                    "save_interval=2", "threads=1", "kl_reference=frozen", "batch_size=3",
                    "group_size=4", "beta=0.1", "micro_batch_tokens=64",
                    "max_grad_norm=0.01", "log_trajectories=-1", "workers=1", NULL);

    if (run_size) {
        OK(sr1_config_set(c, "fsdp_size", run_size));
        OK(sr1_config_set(c, "reshard_after_forward", "true"));
    }
    for (size_t i = 0; run_pairs && i < MAX_PAIRS && run_pairs[i]; i++)
        OK(sr1_config_set_pair(c, run_pairs[i]));
    return c;
}

static void train_ranks(const struct ranks *r)
{
    if (r->size > 1)
        ranks_set_variables(r);
    run_whole(config_of(run_name));
}

static void run_in(const char *name, int32_t ranks, const char *size)
{
    struct ranks r = {.size = ranks};

    run_name = name;
    run_size = size;
    ranks_run(&r, train_ranks, 0);
}

static void same_result(const char *whole, const char *parts)
{
    const char *adapter = "model/adapter_model.safetensors";
    char path[700];

    snprintf(path, sizeof path, "%s/%s", scratch_path(whole), adapter);
    same_records(whole, parts);
    same_file(whole, parts,
              access(path, R_OK) == 0 ? adapter : "model/model.safetensors");
    same_states(whole, parts, "checkpoints/step-2/optimizer");
}

/* ---- parts are the whole ---- */

static const struct variant {
    const char *model;
    int32_t ranks;
    const char *size;
    const char *const pairs[MAX_PAIRS];
    int on_device; /* on the CPU it is nothing else */
    int by_name;   /* `tests/run dist` only */
    int again;     /* the whole run is that of so many variants before */
} variants[] = {
    {"tied", 2, "-1", {"entropy_coef=0.01"}},
    {"tied", 2, "-1", {"entropy_coef=0.01", "forward_prefetch=true"}, .again = 1},
    {"model", 3, "-1", {"gradient_checkpointing=true", "dtype=bf16"}, .by_name = 1},
    {"model",
     2,
     "-1",
     {"lora_rank=2", "lora_dropout=0.1", "gradient_checkpointing=false"}},
    {"model",
     2,
     "-1",
     {"advantage=gae", "loss=ppo", "critic_lora_rank=2", "kl_in=reward"},
     .by_name = 1},
    {"model",
     4,
     "-1",
     {"batch_size=1", "group_size=2", "distributed_debug=true"},
     .by_name = 1},
    {"model", 2, "-1", {"dtype=bf16", "optimizer_offload=true"}, .on_device = 1},
    /* two groups of two */
    {"model", 4, "2", {"dtype=bf16", "forward_prefetch=true"}},
    {"model",
     4,
     "2",
     {"dtype=bf16", "reshard_after_forward=false"},
     .again = 1,
     .by_name = 1},
    {"model",
     3,
     "-1",
     {"forward_prefetch=true", "distributed_debug=true", "gradient_checkpointing=true"},
     .by_name = 1},
};
#define VARIANTS (sizeof variants / sizeof variants[0])

static void weights_in_parts_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        const struct variant *v = &variants[i];
        char whole[32], parts[32];

        if ((v->on_device && test_on_cpu()) || (v->by_name && !getenv("SR1_DIST_ALL")))
            continue;
        snprintf(whole, sizeof whole, "whole-%zu", i - (size_t)v->again);
        snprintf(parts, sizeof parts, "parts-%zu", i);
        run_model = v->model;
        run_pairs = v->pairs;
        if (!v->again)
            run_in(whole, v->ranks, NULL);
        run_in(parts, v->ranks, v->size);
        same_result(whole, parts);
    }
    run_model = "model";
    run_pairs = NULL;
}

/* ---- memory ---- */

#define COUNTED 65536 /* bytes from which a block is counted */
#define BLOCKS 4096

void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static struct {
    pthread_mutex_t lock;
    void *at[BLOCKS];
    size_t bytes[BLOCKS];
    int64_t now, most;
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_block(void *p, size_t n)
{
    pthread_mutex_lock(&blocks.lock);
    for (size_t i = 0; i < BLOCKS; i++)
        if (!blocks.at[i]) {
            blocks.at[i] = p;
            blocks.bytes[i] = n;
            blocks.now += (int64_t)n;
            break;
        }
    if (blocks.now > blocks.most)
        blocks.most = blocks.now;
    pthread_mutex_unlock(&blocks.lock);
}

static void forget_block(const void *p)
{
    pthread_mutex_lock(&blocks.lock);
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks.at[i] == p) {
            blocks.at[i] = NULL;
            blocks.now -= (int64_t)blocks.bytes[i];
            break;
        }
    pthread_mutex_unlock(&blocks.lock);
}

#define SEEN_BY_TORCH __attribute__((visibility("default")))

/* In place of libc's: torch takes the memory of tensors by the first. */
SEEN_BY_TORCH int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = __libc_memalign(align, n);

    if (!p)
        return ENOMEM;
    if (n >= COUNTED)
        note_block(p, n);
    *out = p;
    return 0;
}

SEEN_BY_TORCH void free(void *p)
{
    if (p && (uintptr_t)p % 64 == 0)
        forget_block(p);
    __libc_free(p);
}

static struct measured {
    int64_t bytes[RANKS_MAX], planned[RANKS_MAX];
} * measured;

/* What no tensor is: the program, and what malloc keeps. */
static int is_outside_tensors(const json_t *item)
{
    const char *name = json_string_value(json_object_get(item, "name"));

    return strcmp(name, "program") == 0 || strcmp(name, "kept by malloc") == 0;
}

/* The peak that sr1-train --plan says, of what is counted here. */
static int64_t plan_peak(void)
{
    sr1_config *c = config_of(run_name);
    sr1_plan *p = NULL;
    json_t *plan = NULL, *item;
    int64_t bytes;
    size_t i;

    OK(sr1_plan_new(&p, c, 0));
    OK(sr1__json_parse(&plan, sr1_plan_json(p), strlen(sr1_plan_json(p)), "plan"));
    if (getenv("SHOW_PLAN"))
        fprintf(stderr, "%s\n", sr1_plan_text(p));
    bytes = json_integer_value(json_object_get(plan, "peak_bytes"));
    json_array_foreach(json_object_get(plan, "items"), i, item)
    {
        if (is_outside_tensors(item))
            bytes -= json_integer_value(json_object_get(item, "bytes"));
    }
    json_decref(plan);
    sr1_plan_free(p);
    sr1_config_free(c);
    return bytes;
}

static void measure_run(const struct ranks *r)
{
    sr1_trainer *tr;

    ranks_set_variables(r);
    measured->planned[ranks_self] = plan_peak();
    tr = open_trainer(config_of(run_name));
    blocks.most = blocks.now;
    OK(sr1_trainer_run(tr, NULL));
    measured->bytes[ranks_self] = blocks.most;
    sr1_trainer_free(tr);
}

static void ranks_take_what_the_plan_says(void **state)
{
    static const struct {
        const char *reshard, *prefetch;
    } ways[] = {{"false", "false"}, {"true", "true"}, {"true", "false"}};
    int64_t before = INT64_MAX;

    (void)state;
    if (!test_on_cpu()) /* its memory is not the host's */
        skip();
    measured = mmap(NULL, sizeof *measured, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_model = "wide";
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *pairs[MAX_PAIRS] = {"beta=0",           "max_steps=1",
                                        "environment=none", "max_prompt_tokens=64",
                                        "max_tokens=32",    "kl_reference=old",
                                        "entropy_coef=0.01"};
        struct ranks r = {.size = 2};
        char reshard[64], prefetch[64], name[32];

        snprintf(reshard, sizeof reshard, "reshard_after_forward=%s", ways[i].reshard);
        snprintf(prefetch, sizeof prefetch, "forward_prefetch=%s", ways[i].prefetch);
        snprintf(name, sizeof name, "measured-%zu", i);
        pairs[MAX_PAIRS - 2] = reshard;
        pairs[MAX_PAIRS - 1] = prefetch;
        run_pairs = pairs;
        run_size = "-1";
        run_name = name;
        ranks_run(&r, measure_run, 0);
        for (int k = 0; k < 2; k++) {
            double part = (double)measured->bytes[k] / (double)measured->planned[k];

            if (getenv("SHOW_PLAN"))
                fprintf(stderr, "%lld of %lld\n", (long long)measured->bytes[k],
                        (long long)measured->planned[k]);
            if (part < 0.85 || part > 1.15)
                fail_msg("%s, %s, rank %d: %lld bytes, planned %lld", reshard, prefetch,
                         k, (long long)measured->bytes[k],
                         (long long)measured->planned[k]);
        }
        assert_true(measured->bytes[0] < before);
        before = measured->bytes[0];
    }
    run_model = "model";
    run_pairs = NULL;
    munmap(measured, sizeof *measured);
}

/* ---- a model of several files ---- */

static void same_weights(const char *one, const char *other, const char *folder)
{
    char a[800], b[700];
    struct sr1__weights *whole = NULL, *parts = NULL;

    snprintf(a, sizeof a, "%s/%s", scratch_path(one), folder);
    snprintf(b, sizeof b, "%s/%s", scratch_path(other), folder);
    OK(sr1__weights_open(&whole, a));
    OK(sr1__weights_open(&parts, b));
    assert_true(sr1__weights_count(whole) > 10);
    assert_int_equal(sr1__weights_count(whole), sr1__weights_count(parts));
    for (size_t i = 0; i < sr1__weights_count(whole); i++) {
        const struct sr1__weight *w = sr1__weights_at(whole, i);
        const struct sr1__weight *p = sr1__weights_find(parts, w->name);

        assert_non_null(p);
        assert_int_equal(w->n_bytes, p->n_bytes);
        assert_memory_equal(w->data, p->data, w->n_bytes);
    }
    sr1__weights_close(whole);
    sr1__weights_close(parts);
    for (int k = 1; k <= 2; k++) {
        snprintf(a, sizeof a, "%s/model-0000%d-of-00002.safetensors", b, k);
        assert_int_equal(access(a, R_OK), 0);
    }
}

static void go_on(const struct ranks *r)
{
    sr1_trainer *tr = NULL;

    (void)r;
    sr1_config_free(config_of("unused")); /* which knows the tests' device */
    OK(sr1_trainer_resume(&tr, scratch_path(run_name), NULL));
    RANK_CHECK(sr1_trainer_steps_done(tr) == 1);
    sr1_trainer_free(tr);
}

/* Of two ranks each writes one of two files, which one process reads. */
static void ranks_write_a_model_together(void **state)
{
    static const char *const pairs[MAX_PAIRS] = {"max_steps=1", "save_interval=1"};
    struct ranks one = {.size = 1};

    (void)state;
    run_model = "wide";
    run_pairs = pairs;
    run_in("one-file", 2, NULL);
    run_in("two-files", 2, "-1");
    same_records("one-file", "two-files");
    same_weights("one-file", "two-files", "model");
    same_weights("one-file", "two-files", "checkpoints/step-1/model");
    ranks_run(&one, go_on, 0);
    run_model = "model";
    run_pairs = NULL;
}

/* Eight layers with 1.3 million numbers each. */
static const char wide_shape[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
    "\"hidden_size\": 512, \"num_hidden_layers\": 8, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 1, \"head_dim\": 32, \"intermediate_size\": 768, "
    "\"vocab_size\": 384, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

static void make_models(const struct ranks *r)
{
    char tied[1024];

    (void)r;
    tiny_deep_model("model", 3, TINY_SEARCHER, 9);
    snprintf(tied, sizeof tied, tiny_shape, 2);
    memcpy(strstr(tied, "false}"), "true} ", 6);
    tiny_random_model("tied", tied);
    tiny_random_model("wide", wide_shape);
}

static int make_files(void **state)
{
    if (ranks_make_files(state, make_models) != 0)
        return -1;
    runs_files();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_in_parts_change_no_bit),
        cmocka_unit_test(ranks_take_what_the_plan_says),
        cmocka_unit_test(ranks_write_a_model_together),
    };

    return cmocka_run_group_tests(tests, make_files, scratch_remove);
}
