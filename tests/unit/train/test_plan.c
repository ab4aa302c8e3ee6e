/* Plans of memory: counts of parameters that are known elsewhere, what lowers a peak, the
 * forms of a plan, and what cannot be planned. tests/accelerator/test_memory.c compares
 * plans with what a device counts. */
#include "support/tiny.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "train/plan.h"

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("model", TINY_SEARCHER, 9);
    return 0;
}

/* A Qwen3 of this shape as config.json alone. */
static const char *write_shape(const char *name, int hidden, int layers, int heads,
                               int inter, int tied)
{
    char text[1024];

    snprintf(text, sizeof text,
             "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
             "\"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": "
             "%d, \"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": "
             "%d, \"vocab_size\": 151936, \"max_position_embeddings\": 40960, "
             "\"rms_norm_eps\": 1e-6, \"rope_theta\": 1000000, "
             "\"tie_word_embeddings\": %s, \"torch_dtype\": \"bfloat16\"}",
             hidden, layers, heads, inter, tied ? "true" : "false");
    return scratch_file(name, text, 0);
}

static sr1_config *config_of(const char *model, const char *const *pairs)
{
    sr1_config *c = NULL;

    OK(sr1_config_new(&c));
    OK(sr1_config_set(c, "model_name_or_path", model));
    OK(sr1_config_set_pair(c, "environment=none"));
    for (size_t i = 0; pairs && pairs[i]; i++)
        OK(sr1_config_set_pair(c, pairs[i]));
    return c;
}

static sr1_plan *plan_of(const char *model, double memory, const char *const *pairs)
{
    sr1_config *c = config_of(model, pairs);
    sr1_plan *p = NULL;

    OK(sr1_plan_new(&p, c, memory));
    sr1_config_free(c);
    return p;
}

#define PLAN(model, memory, ...)                                                         \
    plan_of(model, memory, (const char *const[]){__VA_ARGS__, NULL})

/* As the model cards and the weights at Hugging Face have them. */
static void parameters_are_those_published(void **state)
{
    static const struct {
        int hidden, layers, heads, inter, tied;
        double parameters;
    } known[] = {{1024, 28, 16, 3072, 1, 596049920.0},
                 {2048, 28, 16, 6144, 1, 1720574976.0},
                 {2560, 36, 32, 9728, 1, 4022468096.0},
                 {4096, 36, 32, 12288, 0, 8190735360.0},
                 {5120, 40, 40, 17408, 0, 14768307200.0}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *path = write_shape("shape.json", known[i].hidden, known[i].layers,
                                       known[i].heads, known[i].inter, known[i].tied);
        sr1_plan *p = PLAN(path, 1000, "lora_rank=0");

        assert_true(sr1__memory_parameters(&p->shapes.policy) == known[i].parameters);
        assert_true(sr1__memory_trained(&p->figures.policy) == known[i].parameters);
        assert_false(p->shapes.has_weights);
        sr1_plan_free(p);
    }
}

/* SmolLM2-135M, Llama 3.2 1B and 3.1 8B, Mistral NeMo 12B, SmolLM3 3B, Qwen3 30B A3B,
 * Gemma 3 1B. */
static void other_families_too(void **state)
{
    static const struct {
        const char *name;
        int hidden, layers, heads, kv_heads, head_dim, inter, vocab;
        const char *tied;
        double parameters;
        const char *more;
    } known[] = {
        {"Llama", 576, 30, 9, 3, 64, 1536, 49152, "true", 134515008.0, ""},
        {"Llama", 2048, 16, 32, 8, 64, 8192, 128256, "true", 1235814400.0, ""},
        {"Llama", 4096, 32, 32, 8, 128, 14336, 128256, "false", 8030261248.0, ""},
        {"Mistral", 5120, 40, 32, 8, 128, 14336, 131072, "false", 12247782400.0, ""},
        {"SmolLM3", 2048, 36, 16, 4, 128, 11008, 128256, "true", 3075098624.0, ""},
        {"Qwen3Moe", 2048, 48, 32, 4, 128, 6144, 151936, "false", 30532122624.0,
         ", \"num_experts\": 128, \"moe_intermediate_size\": 768"},
        {"Gemma3", 1152, 26, 4, 1, 256, 6912, 262144, "true", 999885952.0,
         ", \"sliding_window\": 512"}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[1024];
        sr1_plan *p;

        snprintf(text, sizeof text,
                 "{\"architectures\": [\"%sForCausalLM\"], \"hidden_size\": %d, "
                 "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
                 "\"num_key_value_heads\": %d, \"head_dim\": %d, "
                 "\"intermediate_size\": %d, \"vocab_size\": %d, "
                 "\"tie_word_embeddings\": %s, \"torch_dtype\": \"bfloat16\"%s}",
                 known[i].name, known[i].hidden, known[i].layers, known[i].heads,
                 known[i].kv_heads, known[i].head_dim, known[i].inter, known[i].vocab,
                 known[i].tied, known[i].more);
        p = PLAN(scratch_file("other.json", text, 0), 1000, "lora_rank=0");
        assert_true(sr1__memory_parameters(&p->shapes.policy) == known[i].parameters);
        sr1_plan_free(p);
    }
}

static void a_loaded_model_has_as_many(void **state)
{
    static const char *const pairs[][2] = {
        {"lora_rank=0", NULL},
        {"lora_rank=3", NULL},
        {"lora_targets=q_proj,down_proj", "lora_rank=5"},
        {"kl_reference=frozen", "reference_sync_steps=3"}};
    sr1_trainer *tr = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        sr1_config *c = tiny_config("model", pairs[i][0], pairs[i][1], NULL);
        sr1_plan *p = NULL;

        OK(sr1_plan_new(&p, c, 0));
        OK(sr1_trainer_new(&tr, c, NULL));
        assert_true(p->shapes.has_weights);
        assert_true(sr1__memory_parameters(&p->shapes.policy) ==
                    (double)sr1_model_info(tr->model, SR1_MODEL_PARAMETERS));
        assert_true(sr1__memory_trained(&p->figures.policy) ==
                    (double)sr1_model_info(tr->model, SR1_MODEL_TRAINED));
        assert_true(p->figures.checkpoint == (double)sr1__state_bytes(tr));
        sr1_trainer_free(tr);
        sr1_plan_free(p);
        sr1_config_free(c);
    }
}

/* The keys of the host are taken, and there is nothing to move. */
static void on_the_cpu_nothing_moves(void **state)
{
    sr1_config *c = tiny_config("model", "kl_reference=frozen", NULL);
    sr1_plan *plain = NULL, *moved = NULL;
    sr1_trainer *tr = NULL;

    (void)state;
    OK(sr1_plan_new(&plain, c, 0));
    OK(sr1_config_set_pair(c, "optimizer_offload=true"));
    OK(sr1_config_set_pair(c, "reference_offload=true"));
    OK(sr1_plan_new(&moved, c, 0));
    OK(sr1_trainer_new(&tr, c, NULL));
    assert_true(tr->references && !tr->host_reference);
    assert_int_equal(sr1_plan_peak(plain, NULL), sr1_plan_peak(moved, NULL));
    sr1_trainer_free(tr);
    sr1_plan_free(plain);
    sr1_plan_free(moved);
    sr1_config_free(c);
}

/* A script sees the disk in the JSON, a reader that it does not suffice. */
static void a_small_disk_is_told(void **state)
{
    sr1_config *c = tiny_config("model", NULL);
    sr1_plan *p = NULL;

    (void)state;
    OK(sr1_plan_new(&p, c, 0));
    assert_null(strstr(sr1_plan_text(p), "not enough for"));
    assert_non_null(strstr(sr1_plan_json(p), "\"disk_free_bytes\""));
    p->disk_free = p->figures.checkpoint - 1;
    sr1__free(p->text);
    OK(sr1__plan_write_text(p));
    assert_non_null(strstr(sr1_plan_text(p), "not enough for one checkpoint"));
    p->disk_free = p->figures.disk - 1;
    sr1__free(p->text);
    OK(sr1__plan_write_text(p));
    assert_non_null(strstr(sr1_plan_text(p), "not enough for all that the run may"));
    sr1_plan_free(p);
    sr1_config_free(c);
}

/* ---- advice ---- */

static void keys_lower_the_peak(void **state)
{
    const char *path = write_shape("shape.json", 2560, 36, 32, 9728, 1);
    sr1_plan *p = PLAN(path, 24, "batch_size=8", "group_size=8", "max_tokens=1024");
    double best = p->figures.peak;
    sr1_plan *with;

    (void)state;
    assert_int_equal(sr1_plan_fits(p), 0);
    assert_true(p->n_advice >= 3);
    for (size_t i = 0; i < p->n_advice; i++) {
        char set[sizeof p->advice[0].set], *pair = set;
        sr1_config *c =
            config_of(path, (const char *const[]){"batch_size=8", "group_size=8",
                                                  "max_tokens=1024", NULL});

        assert_true(p->advice[i].peak < p->figures.peak);
        best = fmin(best, p->advice[i].peak);
        snprintf(set, sizeof set, "%s", p->advice[i].set);
        while (pair && *pair) { /* the keys give what was said of them */
            char *end = strchr(pair, ' ');

            if (end)
                *end = '\0';
            OK(sr1_config_set_pair(c, pair));
            pair = end ? end + 1 : NULL;
        }
        OK(sr1_plan_new(&with, c, 24));
        assert_true(with->figures.peak == p->advice[i].peak);
        assert_int_equal(sr1_plan_fits(with), p->advice[i].fits);
        assert_true(!p->advice[i].fits || with->n_advice == 0);
        sr1_plan_free(with);
        sr1_config_free(c);
    }
    assert_true(best <= 24e9);
    sr1_plan_free(p);
}

/* A reference in int8 goes with no adapter, which saves more than all else together. */
static void an_adapter_is_found_behind_what_excludes_it(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_plan *p = PLAN(path, 8, "device=cpu", "batch_size=8", "group_size=8",
                       "max_tokens=1024", "kl_reference=frozen");
    const struct sr1__plan_advice *last = &p->advice[p->n_advice - 1];

    (void)state;
    assert_int_equal(sr1_plan_fits(p), 0);
    assert_true(p->n_advice > 0);
    assert_non_null(strstr(last->set, "lora_rank=16"));
    assert_int_equal(last->fits, 1);
    sr1_plan_free(p);
}

/* Where each worker holds a gradient and a trajectory is a micro-batch whatever
 * micro_batch_tokens says. */
static void fewer_workers_lower_the_peak(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_plan *p = PLAN(path, 24, "device=cpu", "full_determinism=true", "threads=16");
    int fits = 0;

    (void)state;
    assert_int_equal(sr1_plan_fits(p), 0);
    for (size_t i = 0; i < p->n_advice; i++) {
        assert_null(strstr(p->advice[i].set, "micro_batch_tokens"));
        fits |= strcmp(p->advice[i].set, "workers=1") == 0 && p->advice[i].fits;
    }
    assert_true(fits);
    sr1_plan_free(p);
}

/* The advice of a plan once more, on a host of so many bytes. */
static void plan_on_host(sr1_plan *p, double bytes)
{
    p->host_memory = bytes;
    p->n_advice = 0;
    OK(sr1__plan_advise(p));
    sr1__free(p->text);
    OK(sr1__plan_write_text(p));
}

/* What was moved to the host goes back where the device has room for it; what else is
 * there is spilled. */
static void keys_relieve_the_host(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_plan *p = PLAN(path, 80, "optimizer_offload=true", "reference_offload=true",
                       "kl_reference=frozen", "beta=0.1");

    (void)state;
    plan_on_host(p, 2.5e9);
    assert_int_equal(sr1_plan_fits(p), 0);
    assert_string_equal(p->advice[0].set, "optimizer_offload=false");
    assert_true(p->advice[0].fits && p->advice[0].host < p->figures.host);
    assert_string_equal(p->advice[1].set, "reference_offload=false");
    assert_false(p->advice[1].fits);
    assert_non_null(strstr(sr1_plan_text(p), " host  optimizer_offload=false  (fits)"));
    plan_on_host(p, 0.95e9); /* both are needed */
    assert_string_equal(p->advice[p->n_advice - 1].set,
                        "optimizer_offload=false reference_offload=false");
    assert_int_equal(p->advice[p->n_advice - 1].fits, 1);
    sr1_plan_free(p);
    p = PLAN(path, 1000, "batch_size=4096", "group_size=16", "max_tokens=4096");
    plan_on_host(p, 2e9);
    assert_string_equal(p->advice[0].set, "trajectory_memory=268435456");
    assert_int_equal(p->advice[0].fits, 1);
    sr1_plan_free(p);
}

static void refuse(const char *model, const char *pair, sr1_status want, const char *text)
{
    sr1_config *c = config_of(model, (const char *const[]){pair, NULL});
    sr1_plan *p = NULL;

    REFUSED(sr1_plan_new(&p, c, 24), want, text);
    assert_null(p);
    sr1_config_free(c);
}

/* ---- keys that are left to it ---- */

static int64_t chosen(const sr1_plan *p, size_t i)
{
    assert_int_equal(p->chosen[i], sr1__config_int(p->config, sr1__plan_chosen_key(i)));
    return p->chosen[i];
}

/* More memory, more of both; the next power of two would not fit into nine tenths. */
static void keys_are_chosen_by_memory(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    static const double cards[] = {12, 24, 80};
    int64_t tokens = 0, rows = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        sr1_plan *p = PLAN(path, cards[i], "batch_size=32", "group_size=8",
                           "max_tokens=1024", "micro_batch_tokens=0", "max_rows=0",
                           "lora_rank=8"),
                 *more;
        char twice[64];

        assert_int_equal(sr1_plan_fits(p), 1);
        assert_true(p->figures.peak <= 0.9 * cards[i] * 1e9);
        assert_true(chosen(p, 0) >= tokens && chosen(p, 1) >= rows);
        tokens = chosen(p, 0);
        rows = chosen(p, 1);
        snprintf(twice, sizeof twice, "micro_batch_tokens=%lld", (long long)(2 * tokens));
        more = PLAN(path, cards[i], "batch_size=32", "group_size=8", "max_tokens=1024",
                    twice, "lora_rank=8");
        assert_true(tokens == 65536 ||
                    sr1_plan_peak(more, "update") > 0.9 * cards[i] * 1e9);
        assert_non_null(strstr(sr1_plan_text(p), "\nchosen    micro_batch_tokens="));
        assert_non_null(strstr(sr1_plan_json(p), "\"max_rows\": "));
        sr1_plan_free(more);
        sr1_plan_free(p);
    }
    assert_true(tokens > 4096 && rows > 16);
}

/* Word for 0. */
static void keys_are_left_by_a_word(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_plan *word = PLAN(path, 24, "micro_batch_tokens=auto", "max_rows=auto"),
             *zero = PLAN(path, 24, "micro_batch_tokens=0", "max_rows=0");

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(chosen(word, i) > 0);
        assert_int_equal(chosen(word, i), chosen(zero, i));
    }
    sr1_plan_free(word);
    sr1_plan_free(zero);
}

/* 8 x 8 completions of 1,024 tokens: Qwen3-4B and Qwen2.5-7B with an adapter, and 4B with
 * the optimizer's states on the host. */
static void cards_of_24_48_and_32_gb(void **state)
{
    static const char qwen2[] =
        "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", "
        "\"hidden_size\": 3584, \"num_hidden_layers\": 28, \"num_attention_heads\": 28, "
        "\"num_key_value_heads\": 4, \"intermediate_size\": 18944, \"vocab_size\": "
        "152064, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}";
    const char *small = write_shape("shape.json", 2560, 36, 32, 9728, 1);
    const struct {
        const char *path, *key, *rows;
        double card, most;
    } runs[] = {
        {small, "lora_rank=16", "max_rows=32", 24, 20e9},
        {small, "lora_rank=16", "max_rows=auto", 20, 20e9},
        {small, "optimizer_offload=true", "max_rows=64", 48, 48e9},
        {scratch_file("qwen2.json", qwen2, 0), "lora_rank=16", "max_rows=64", 32, 32e9}};

    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        sr1_plan *p =
            PLAN(runs[i].path, runs[i].card, runs[i].key, runs[i].rows, "batch_size=8",
                 "group_size=8", "max_tokens=1024", "max_prompt_tokens=512",
                 "gradient_checkpointing=true", "micro_batch_tokens=4096");

        assert_int_equal(sr1_plan_fits(p), 1);
        assert_true(p->figures.peak <= runs[i].most);
        assert_true(p->figures.peak > 0.5 * runs[i].most);
        sr1_plan_free(p);
    }
}

static void ranks_beyond_the_model_are_told(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_plan *wide = PLAN(path, 24, "lora_rank=4096"),
             *narrow = PLAN(path, 24, "lora_rank=1024");

    (void)state;
    assert_non_null(strstr(sr1_plan_text(wide),
                           "\nwarning   lora_rank is 4096 and the model is 1024 wide"));
    assert_non_null(strstr(sr1_plan_json(wide), "\"lora_rank is 4096 and"));
    assert_null(strstr(sr1_plan_text(narrow), "warning"));
    sr1_plan_free(wide);
    sr1_plan_free(narrow);
}

/* No more than a step has; and the least, with advice, where that does not fit. */
static void what_is_chosen_has_bounds(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_plan *p = PLAN(path, 1000, "batch_size=3", "group_size=2", "max_tokens=100",
                       "max_prompt_tokens=100", "micro_batch_tokens=0", "max_rows=0");

    (void)state;
    assert_int_equal(chosen(p, 0), 2048);
    assert_int_equal(chosen(p, 1), 8);
    sr1_plan_free(p);
    p = PLAN(path, 2, "micro_batch_tokens=0", "max_rows=0");
    assert_int_equal(chosen(p, 0), 256);
    assert_int_equal(chosen(p, 1), 1);
    assert_int_equal(sr1_plan_fits(p), 0);
    assert_true(p->n_advice > 0);
    sr1_plan_free(p);
}

static void int8_references_take_half(void **state)
{
    const char *path = write_shape("shape.json", 4096, 36, 32, 12288, 0);
    sr1_plan *plain = PLAN(path, 200, "kl_reference=frozen", "beta=0.1"),
             *int8 = PLAN(path, 200, "kl_reference=frozen", "beta=0.1",
                          "reference_quantization=int8");
    double less = (double)(sr1_plan_peak(plain, "save") - sr1_plan_peak(int8, "save"));

    (void)state;
    /* 8.19e9 parameters without the embeddings and the head, less 1 byte each */
    assert_true(less > 6.9e9 && less < 6.95e9);
    sr1_plan_free(plain);
    sr1_plan_free(int8);
}

/* Where a pass has many prompts each thread takes some of them, 512 tokens at a time. */
static void threads_have_rows_of_their_own(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    const double token = /* x, queries; keys and values with the queries; inputs */
        4 * (1024 + 2048 + 4096) + 2 * (1024 + 2048 + 3072);
    int64_t peaks[3];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        static const char *const threads[] = {"threads=1", "threads=4", "threads=8"};
        sr1_plan *p = PLAN(path, 200, "device=cpu", "dtype=bf16", "workers=1",
                           "batch_size=64", "max_prompt_tokens=512", threads[i]);

        peaks[i] = sr1_plan_peak(p, "generate");
        sr1_plan_free(p);
    }
    assert_true((double)(peaks[1] - peaks[0]) >= 4 * 512 * token);
    assert_true((double)(peaks[1] - peaks[0]) < 4 * 512 * token * 1.1);
    assert_true((double)(peaks[2] - peaks[1]) >= 4 * 512 * token);
    assert_true((double)(peaks[2] - peaks[1]) < 4 * 512 * token * 1.1);
}

static double item_bytes(const char *name, const char *level)
{
    sr1_plan *p = PLAN(write_shape("shape.json", 1024, 28, 16, 3072, 1), 200,
                       "use_openai=true", "openai_base_url=http://127.0.0.1:9/v1",
                       "importance_correction=token_truncate", "batch_size=64",
                       "trajectory_memory=1000", level);
    double bytes = 0;

    for (size_t i = 0; i < p->figures.n_items; i++)
        if (strcmp(p->figures.items[i].name, name) == 0)
            bytes += p->figures.items[i].bytes;
    sr1_plan_free(p);
    return bytes;
}

/* trajectory_memory bounds a step's, not those that wait for theirs. */
static void rollouts_ahead_are_counted(void **state)
{
    double one = item_bytes("rollouts ahead", "async_level=1");

    (void)state;
    assert_true(item_bytes("rollouts ahead", "async_level=0") == 0);
    assert_true(one > 64 * 1000);
    assert_true(item_bytes("rollouts ahead", "async_level=3") == 3 * one);
    assert_true(item_bytes("trajectories", "async_level=3") == 1000);
}

static const char mixture[] =
    "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 1024, "
    "\"num_hidden_layers\": 24, \"num_attention_heads\": 8, "
    "\"num_key_value_heads\": 4, \"head_dim\": 128, \"intermediate_size\": 3072, "
    "\"vocab_size\": 151936, \"num_experts\": 64, \"num_experts_per_tok\": 8, "
    "\"moe_intermediate_size\": 768}";

/* Two bytes for each expert of a token in a layer, in memory that doubles. */
static void kept_experts_are_counted(void **state)
{
    static const char *const replay[] = {"router_replay=none", "router_replay=r2"};
    static const char *const steps[] = {"update_times=1", "update_times=2",
                                        "mini_batch_size=4"};
    const char *path = scratch_file("mixture.json", mixture, 0);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int64_t peaks[2];

        for (size_t k = 0; k < 2; k++) {
            sr1_plan *p = PLAN(path, 200, "device=cpu", "share_prompts=false",
                               "batch_size=8", "group_size=8", "max_prompt_tokens=512",
                               "max_tokens=512", "update_times=1", steps[i], replay[k]);

            peaks[k] = sr1_plan_peak(p, "update");
            sr1_plan_free(p);
        }
        tiny_near((double)(peaks[1] - peaks[0]),
                  i == 0 ? 0 : 2.0 * 64 * 1024 * 24 * 8 * 2, 2);
    }
}

/* The pass that keeps experts has whole weights, which the update has in parts. */
static void experts_are_kept_by_whole_weights(void **state)
{
    static const char *const replay[] = {"router_replay=none", "router_replay=r2"};
    const char *path = scratch_file("mixture.json", mixture, 0);
    int64_t updates[2], kept[2];

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_plan *p = PLAN(path, 200, "fsdp_size=8", "reshard_after_forward=true",
                           "batch_size=8", "group_size=8", "max_prompt_tokens=128",
                           "max_tokens=128", "micro_batch_tokens=256",
                           "gradient_checkpointing=true", "update_times=2", replay[k]);

        updates[k] = sr1_plan_peak(p, "update");
        kept[k] = sr1_plan_peak(p, "router_replay");
        assert_true(k == 0 || sr1__memory_weights(&p->figures.policy) < (double)kept[k]);
        sr1_plan_free(p);
    }
    assert_int_equal(updates[0], updates[1]); /* what is kept is on the host */
    assert_int_equal(kept[0], 0);
    assert_true(kept[1] > updates[1]);
}

/* Where that pass is the largest, it decides how many tokens a micro-batch has. */
static void a_pass_that_keeps_experts_counts_in_what_is_chosen(void **state)
{
    const char *path = scratch_file("mixture.json", mixture, 0);
    char tokens[64] = "micro_batch_tokens=auto";
    const double card = 17.8, most = 0.9 * card * 1e9;
    double kept[2], updates[2];

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_plan *p = PLAN(path, card, "fsdp_size=8", "reshard_after_forward=true",
                           "batch_size=32", "group_size=8", "max_prompt_tokens=512",
                           "max_tokens=512", "gradient_checkpointing=true",
                           "update_times=2", "router_replay=r2", tokens);

        kept[k] = (double)sr1_plan_peak(p, "router_replay");
        updates[k] = (double)sr1_plan_peak(p, "update");
        snprintf(tokens, sizeof tokens, "micro_batch_tokens=%lld",
                 (long long)(2 * sr1__config_int(p->config, "micro_batch_tokens")));
        sr1_plan_free(p);
    }
    assert_true(kept[0] <= most && most < kept[1]);
    assert_true(updates[1] <= most);
}

static void int8_generation_takes_half(void **state)
{
    const char *path = write_shape("shape.json", 4096, 36, 32, 12288, 0);
    sr1_plan *plain = PLAN(path, 200, "device=cpu", "dtype=bf16", "threads=1"),
             *int8 = PLAN(path, 200, "device=cpu", "dtype=bf16", "threads=1",
                          "quantization=int8", "importance_correction=token_truncate");
    double less =
        (double)(sr1_plan_peak(plain, "generate") - sr1_plan_peak(int8, "generate"));

    (void)state;
    /* 8.19e9 parameters without the embeddings, less 1 byte each, but for the scales and
     * the inputs of products */
    assert_true(less > 7.5e9 && less < 7.57e9);
    assert_int_equal(sr1_plan_peak(plain, "update"), sr1_plan_peak(int8, "update"));
    sr1_plan_free(plain);
    sr1_plan_free(int8);
    refuse(path, "quantization=int8", SR1_E_CONFIG, "set importance_correction");
}

/* Of 3,072 tokens, with 8 heads of 128 in 4 layers, keys and values: 2 bytes a number. */
static void narrow_caches_take_half(void **state)
{
    const char *path = write_shape("shape.json", 1024, 4, 16, 3072, 1);
    sr1_plan *plain = PLAN(path, 200, "device=cpu", "dtype=fp32", "threads=1"),
             *narrow =
                 PLAN(path, 200, "device=cpu", "dtype=fp32", "threads=1",
                      "kv_cache_dtype=bfloat16", "importance_correction=token_truncate");
    int64_t less = sr1_plan_peak(plain, "generate") - sr1_plan_peak(narrow, "generate");

    (void)state;
    assert_int_equal(less, 3072 * 8 * 128 * 4 * 2 * 2);
    assert_int_equal(sr1_plan_peak(plain, "update"), sr1_plan_peak(narrow, "update"));
    sr1_plan_free(plain);
    sr1_plan_free(narrow);
    refuse(path, "kv_cache_dtype=bfloat16", SR1_E_CONFIG, "set importance_correction");
    plain = PLAN(path, 200, "device=cpu", "dtype=bf16", "threads=1");
    narrow = PLAN(path, 200, "device=cpu", "dtype=bf16", "threads=1",
                  "kv_cache_dtype=bfloat16"); /* exact, and no narrower */
    assert_int_equal(sr1_plan_peak(plain, "generate"), sr1_plan_peak(narrow, "generate"));
    sr1_plan_free(plain);
    sr1_plan_free(narrow);
}

/* Where it has nothing to do. */
static void int8_references_are_refused(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_config *c =
        config_of(path, (const char *const[]){"kl_reference=frozen", "lora_rank=8",
                                              "reference_quantization=int8", NULL});
    sr1_plan *p = NULL;

    (void)state;
    refuse(path, "reference_quantization=int8", SR1_E_CONFIG, "kl_reference to frozen");
    REFUSED(sr1_plan_new(&p, c, 24), SR1_E_CONFIG, "takes no memory of its own");
    OK(sr1_config_set(c, "lora_rank", "0"));
    OK(sr1_config_set(c, "protocol", "ctrl"));
    OK(sr1_config_set(c, "environment", "critique")); /* whose reviser is as frozen */
    REFUSED(sr1_plan_new(&p, c, 24), SR1_E_CONFIG, "as it is the proxy_model");
    OK(sr1_config_set(c, "reference_quantization", "none"));
    OK(sr1_plan_new(&p, c, 24));
    sr1_plan_free(p);
    sr1_config_free(c);
}

/* An adapter as the critic's beginning has its base's shape, for the plan as for the run.
 */
static void a_critic_may_be_an_adapter(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("model", "lora_rank=2", NULL));
    sr1_plan *own = NULL, *given = NULL;
    char pair[600];
    sr1_config *c;

    (void)state;
    snprintf(pair, sizeof pair, "critic_model=%s", scratch_path("critic-adapter"));
    OK(sr1_trainer_save_model(tr, scratch_path("critic-adapter")));
    sr1_trainer_free(tr);
    c = tiny_config("model", "advantage=gae", NULL);
    OK(sr1_plan_new(&own, c, 0));
    OK(sr1_config_set_pair(c, pair));
    OK(sr1_plan_new(&given, c, 0));
    assert_true(given->shapes.has_critic);
    assert_int_equal(sr1_plan_peak(given, "update_critic"),
                     sr1_plan_peak(own, "update_critic"));
    sr1_trainer_free(tiny_trainer(c));
    sr1_plan_free(own);
    sr1_plan_free(given);
}

/* ---- forms ---- */

static void both_forms_agree(void **state)
{
    const char *path = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    sr1_plan *p = PLAN(path, 80, "advantage=gae");
    json_t *j = NULL, *item, *phase;
    double sum = 0, peak = 0;
    size_t i;

    (void)state;
    OK(sr1__json_parse(&j, sr1_plan_json(p), strlen(sr1_plan_json(p)), "plan"));
    assert_string_equal(json_string_value(json_object_get(j, "largest")), "update");
    json_array_foreach(json_object_get(j, "items"), i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        json_t *in = json_object_get(item, "phases");
        size_t k;

        assert_non_null(strstr(sr1_plan_text(p), name));
        json_array_foreach(
            in, k, phase) if (strcmp(json_string_value(phase), "update") == 0 &&
                              strcmp(json_string_value(json_object_get(item, "place")),
                                     "device") == 0) sum +=
            (double)json_integer_value(json_object_get(item, "bytes"));
    }
    peak = (double)json_integer_value(json_object_get(j, "peak_bytes"));
    tiny_near(sum, peak, 100); /* each row is cut to whole bytes */
    assert_int_equal((int64_t)peak, sr1_plan_peak(p, NULL));
    assert_int_equal((int64_t)peak, sr1_plan_peak(p, "update"));
    assert_true(sr1_plan_peak(p, "update_critic") > 0);
    assert_int_equal(sr1_plan_peak(p, "lunch"), -1);
    assert_int_equal(sr1_plan_fits(p), peak <= 80e9);
    json_decref(j);
    sr1_plan_free(p);
    sr1_plan_free(NULL);
    assert_string_equal(sr1_plan_text(NULL), "");
    assert_int_equal(sr1_plan_fits(NULL), -1);
}

/* ---- recipes ---- */

static void plan_recipe(const char *folder, const char *name, const char *model)
{
    char path[1024];
    sr1_config *c = NULL;
    sr1_plan *p = NULL;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    OK(sr1_config_new(&c));
    OK(sr1_config_load(c, path));
    OK(sr1_config_set(c, "model_name_or_path", model));
    OK(sr1_plan_new(&p, c, 80));
    assert_true(sr1_plan_peak(p, NULL) > 0);
    sr1_plan_free(p);
    sr1_config_free(c);
}

/* Neither their questions, for validation or training, nor an index are there. */
static void a_recipe_and_a_shape_make_a_plan(void **state)
{
    const char *model = write_shape("shape.json", 1024, 28, 16, 3072, 1);
    char folder[600], **names = NULL;
    size_t n = 0, recipes = 0;

    (void)state;
    snprintf(folder, sizeof folder, "%s/examples/recipes", getenv("SR1_SRC"));
    OK(sr1__dir_list(folder, &names, &n));
    for (size_t i = 0; i < n; i++) {
        const char *end = strrchr(names[i], '.');

        if (!end || strcmp(end, ".yaml") != 0)
            continue;
        plan_recipe(folder, names[i], model);
        recipes++;
    }
    assert_true(recipes >= 10);
    sr1__dir_list_free(names, n);
}

/* ---- refusals ---- */

static void what_has_no_shape_is_refused(void **state)
{
    char folder[600];
    sr1_config *c;
    sr1_plan *p = NULL;

    (void)state;
    refuse("", "seed=1", SR1_E_CONFIG, "model_name_or_path is not set");
    refuse("/nowhere/at/all", "seed=1", SR1_E_NOT_FOUND, "is not a folder");
    snprintf(folder, sizeof folder, "%s", scratch_path("empty"));
    mkdir(folder, 0700);
    refuse(folder, "seed=1", SR1_E_NOT_FOUND, "has no config.json");
    scratch_file("empty/model.gguf", "GGUF", 0);
    refuse(folder, "seed=1", SR1_E_UNSUPPORTED, "a model in GGUF");
    refuse(scratch_file("gpt2.json", "{\"architectures\": [\"GPT2LMHeadModel\"]}", 0),
           "seed=1", SR1_E_UNSUPPORTED, "GPT2LMHeadModel is not supported");
    refuse(scratch_path("model"), "critic_model=/nowhere/at/all", SR1_E_NOT_FOUND,
           "critic_model");
    scratch_file("model/config.json", tiny_shape, 0); /* "%d" layers: no JSON */
    refuse(scratch_path("model"), "seed=1", SR1_E_PARSE, "config.json");
    c = config_of(scratch_path("model"), NULL);
    REFUSED(sr1_plan_new(&p, c, -1), SR1_E_INVALID, "memory_gb is -1");
    REFUSED(sr1_plan_new(NULL, c, 0), SR1_E_INVALID, "plan: out and config");
    sr1_config_free(c);
}

/* Weights of another shape than config.json says are found by their headers. */
static void headers_are_compared(void **state)
{
    const char *shape = write_shape("other.json", 64, 2, 8, 64, 1);
    char command[2048];

    (void)state;
    tiny_model("odd", TINY_SEARCHER, 9);
    snprintf(command, sizeof command, "cp '%s' '%s/config.json'", shape,
             scratch_path("odd"));
    assert_int_equal(system(command), 0);
    refuse(scratch_path("odd"), "seed=1", SR1_E_CORRUPT, "model.embed_tokens.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_published),
        cmocka_unit_test(other_families_too),
        cmocka_unit_test(a_loaded_model_has_as_many),
        cmocka_unit_test(on_the_cpu_nothing_moves),
        cmocka_unit_test(a_small_disk_is_told),
        cmocka_unit_test(keys_lower_the_peak),
        cmocka_unit_test(an_adapter_is_found_behind_what_excludes_it),
        cmocka_unit_test(fewer_workers_lower_the_peak),
        cmocka_unit_test(keys_relieve_the_host),
        cmocka_unit_test(keys_are_chosen_by_memory),
        cmocka_unit_test(keys_are_left_by_a_word),
        cmocka_unit_test(cards_of_24_48_and_32_gb),
        cmocka_unit_test(ranks_beyond_the_model_are_told),
        cmocka_unit_test(what_is_chosen_has_bounds),
        cmocka_unit_test(int8_references_take_half),
        cmocka_unit_test(threads_have_rows_of_their_own),
        cmocka_unit_test(rollouts_ahead_are_counted),
        cmocka_unit_test(kept_experts_are_counted),
        cmocka_unit_test(experts_are_kept_by_whole_weights),
        cmocka_unit_test(a_pass_that_keeps_experts_counts_in_what_is_chosen),
        cmocka_unit_test(int8_generation_takes_half),
        cmocka_unit_test(narrow_caches_take_half),
        cmocka_unit_test(int8_references_are_refused),
        cmocka_unit_test(a_critic_may_be_an_adapter),
        cmocka_unit_test(both_forms_agree),
        cmocka_unit_test(a_recipe_and_a_shape_make_a_plan),
        cmocka_unit_test(headers_are_compared),
        cmocka_unit_test(what_has_no_shape_is_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("plan", tests, make, scratch_remove);
}
