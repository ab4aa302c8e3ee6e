/* What the CPU's decoder allocates for its passes is what model_memory.c says: with
 * threads that take prompts of their own, adapters, experts and int8 weights. */
#include "tensor/model/adapter.h"
#include "tensor/model/model_decoder.h"
#include "tensor/model/model_memory.h"
#include "unit/tensor/check.h"

#include <searchr1/ext/model_details.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROWS 8
#define PROMPT 512
#define CONTEXT 1024

#define WITHIN 0.1

static const char dense[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
    "\"hidden_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 32, \"intermediate_size\": 512, "
    "\"vocab_size\": 512, \"max_position_embeddings\": 1024, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true}";
static const char experts[] =
    "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", "
    "\"hidden_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 32, \"intermediate_size\": 512, "
    "\"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 256, "
    "\"decoder_sparse_step\": 1, \"mlp_only_layers\": [], \"norm_topk_prob\": true, "
    "\"vocab_size\": 512, \"max_position_embeddings\": 1024, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true}";

static const struct kind {
    const char *name, *shape, *dtype;
    int32_t threads;
    int64_t rank;
    int int8;
} kinds[] = {
    {"one thread", dense, "fp32", 1, 0, 0},     {"threads", dense, "fp32", 4, 0, 0},
    {"bf16", dense, "bf16", 4, 0, 0},           {"an adapter", dense, "bf16", 4, 32, 0},
    {"int8", dense, "bf16", 4, 0, 1},           {"experts", experts, "fp32", 4, 0, 0},
    {"int8 experts", experts, "bf16", 2, 0, 1},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static double count_allocated(void)
{
    struct mallinfo2 m = mallinfo2();

    return (double)m.uordblks + (double)m.hblkhd;
}

static sr1_model *make_model(const struct kind *k)
{
    const struct sr1__lora_config lora = {
        .rank = k->rank, .alpha = 1, .targets = (1u << SR1__LORA_MODULES) - 1};
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = k->dtype};
    sr1_model *m = NULL;

    OK(sr1_model_new_random(&m, k->shape, 7, &o));
    if (k->rank > 0)
        OK(sr1__model_adapt(m, &lora, 3));
    OK(sr1__model_reserve_positions(m, CONTEXT));
    return m;
}

/* A prompt that all threads work on, then so many that each thread has its own. */
static void read_prompts(struct sr1__decoder *d)
{
    static const int32_t prompt[PROMPT];
    struct sr1__decode_input feeds[ROWS];

    for (int32_t i = 0; i < ROWS; i++)
        feeds[i] = (struct sr1__decode_input){i, prompt, PROMPT};
    OK(sr1__decoder_decode(d, feeds, 1));
    sr1__decoder_clear(d, 0);
    OK(sr1__decoder_decode(d, feeds, ROWS));
}

/* With the weights in panels and the logits, without the cache. */
static double measure_decoder(const struct kind *k, sr1_model *m)
{
    struct sr1__decoder_stats stats;
    struct sr1__decoder *d = NULL;
    double before = count_allocated(), taken;

    OK(sr1__decoder_new(&d, m, ROWS, CONTEXT));
    if (k->int8)
        OK(sr1__decoder_quantize(d));
    read_prompts(d);
    sr1__decoder_stats(d, &stats);
    taken = count_allocated() - before - (double)stats.cache_bytes;
    sr1__decoder_free(d);
    return taken;
}

static double plan_decoder(const struct kind *k, const sr1_model *m)
{
    const struct sr1__memory_model planned = {
        .config = m->config,
        .dtype = m->dtype,
        .device = SR1__CPU,
        .lora = {.rank = k->rank, .targets = (1u << SR1__LORA_MODULES) - 1},
        .decodes_int8 = k->int8,
        .threads = k->threads};

    return sr1__memory_decode(&planned, ROWS, ROWS * PROMPT, PROMPT, 1);
}

static void passes_take_what_is_planned(void **state)
{
    int32_t threads = sr1__torch_threads_get();

    (void)state;
    needs_true_memory();
    for (size_t i = 0; i < KINDS; i++) {
        sr1_model *m = make_model(&kinds[i]);
        double planned, taken;

        OK(sr1__torch_threads(kinds[i].threads));
        planned = plan_decoder(&kinds[i], m);
        taken = measure_decoder(&kinds[i], m);
        if (fabs(planned / taken - 1) > WITHIN)
            fail_msg("%s: planned %.0f, taken %.0f", kinds[i].name, planned, taken);
        sr1_model_free(m);
    }
    OK(sr1__torch_threads(threads));
}

/* ---- what an update freed ---- */

#define FREED 2048
#define FREED_BYTES ((size_t)100 << 10) /* below what malloc maps */

static const char wide[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
    "\"hidden_size\": 1024, \"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
    "\"num_key_value_heads\": 4, \"head_dim\": 64, \"intermediate_size\": 1024, "
    "\"vocab_size\": 16384, \"max_position_embeddings\": 1024, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true}";

static double count_resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long all = 0, resident = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &all, &resident), 2);
    (void)fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Every second block stays, so that no end of the heap is free. */
static void free_half(void **blocks)
{
    for (size_t i = 0; i < FREED; i++) {
        blocks[i] = malloc(FREED_BYTES);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, FREED_BYTES);
    }
    for (size_t i = 0; i < FREED; i += 2)
        free(blocks[i]);
}

/* 80 MB of panels are made while malloc keeps 100 MB that were freed. */
static void what_was_freed_makes_room_for_weights(void **state)
{
    const struct kind k = {"wide", wide, "fp32", 1, 0, 0};
    sr1_model *m = make_model(&k);
    struct sr1__decoder *d = NULL;
    void *blocks[FREED];
    double before, after;

    (void)state;
    free_half(blocks);
    before = count_resident();
    OK(sr1__decoder_new(&d, m, ROWS, CONTEXT));
    read_prompts(d);
    after = count_resident();
    if (after > before + 0.5e8)
        fail_msg("%.0f MB resident before, %.0f after", before / 1e6, after / 1e6);
    for (size_t i = 1; i < FREED; i += 2)
        free(blocks[i]);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_take_what_is_planned),
        cmocka_unit_test(what_was_freed_makes_room_for_weights),
    };

    return cmocka_run_group_tests_name("host_memory", tests, NULL, NULL);
}
