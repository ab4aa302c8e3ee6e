/* test_units.c - weights in parts, one on each rank of a group, during updates (ZeRO-3):
 * the same bits as whole ones. Gradients in parts: test_shards.c. */
#define TINY_WIDTH "768" /* so that a layer has several chunks, and is cut */

#include "dist/ranks.h"
#include "dist/saved.h"
#include "unit/train/runs.h"

#define MAX_PAIRS 6

/* What the next ranks do. */
static const char *run_name, *run_model = "model";
static const char *const *run_pairs; /* MAX_PAIRS of a configuration */
static const char *run_size;         /* fsdp_size; NULL: weights and states are whole */
static int32_t run_workers;

static sr1_config *config_of(const char *name)
{
    char workers[32];
    sr1_config *c;

    snprintf(workers, sizeof workers, "workers=%d", run_workers ? run_workers : 1);
    c = tiny_config(run_model, train_path, knowledge_path, out_pair(name), "max_steps=2",
                    "save_interval=2", "threads=1", "kl_reference=frozen", "batch_size=3",
                    "group_size=4", "beta=0.1", "micro_batch_tokens=64",
                    "max_grad_norm=0.01", "log_trajectories=-1", workers, NULL);
    for (size_t i = 0; run_pairs && i < MAX_PAIRS && run_pairs[i]; i++)
        OK(sr1_config_set_pair(c, run_pairs[i]));
    if (run_size) {
        OK(sr1_config_set(c, "fsdp_size", run_size));
        OK(sr1_config_set(c, "reshard_after_forward", "true"));
    }
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
    const char *const pairs[MAX_PAIRS];
} variants[] = {
    {"tied", 2, {"entropy_coef=0.01", "update_times=2"}},
    {"model", 3, {"gradient_checkpointing=true", "dtype=bf16"}},
    {"model", 2, {"lora_rank=2", "lora_dropout=0.1", "gradient_checkpointing=false"}},
    {"model", 2, {"advantage=gae", "loss=ppo", "critic_lora_rank=2", "kl_in=reward"}},
    {"model", 4, {"batch_size=1", "group_size=2", "distributed_debug=true"}},
};
#define VARIANTS (sizeof variants / sizeof variants[0])

static void weights_in_parts_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        const struct variant *v = &variants[i];
        char whole[32], parts[32];

        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(parts, sizeof parts, "parts-%zu", i);
        run_model = v->model;
        run_pairs = v->pairs;
        run_in(whole, v->ranks, NULL);
        run_in(parts, v->ranks, "-1");
        same_result(whole, parts);
    }
    run_model = "model";
    run_pairs = NULL;
}

static void make_models(const struct ranks *r)
{
    char folder[512], shape[1024], *tie;
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    sr1_model *m = NULL;

    (void)r;
    tiny_deep_model("model", 3, TINY_SEARCHER, 9);
    snprintf(folder, sizeof folder, "%s", scratch_path("tied"));
    tiny_tokenizer(folder);
    snprintf(shape, sizeof shape, tiny_shape, 2);
    tie = strstr(shape, "false}");
    snprintf(tie, sizeof shape - (size_t)(tie - shape), "true}");
    OK(sr1_model_new_random(&m, shape, 7, &o));
    OK(sr1_model_save(m, folder));
    sr1_model_free(m);
}

/* In a process of its own: this one forks, and libtorch's threads would be missing. */
static int make_files(void **state)
{
    struct ranks r = {.size = 1};

    if (scratch_make(state) != 0)
        return -1;
    ranks_run(&r, make_models, 0);
    runs_files();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_in_parts_change_no_bit),
    };

    return cmocka_run_group_tests(tests, make_files, scratch_remove);
}
