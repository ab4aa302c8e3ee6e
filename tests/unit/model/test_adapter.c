/* LoRA adapters: logits and gradients equal to peft's, decoding, merging, folders that
 * are refused, and what training leaves alone. */
#include "golden.h"

#include "support/files.h"
#include "support/torture.h"

#include "tensor/model/adapter.h"
#include "tensor/model/host_weights.h"
#include "tensor/model/model_decoder.h"
#include "tensor/model/model_load.h"
#include "tensor/ops/fused.h"

#include <searchr1/ext/model_details.h>

#include <unistd.h>

enum { MAX_IDS = 32, VOCAB = 128 };

#define REFUSED(call, want, text)                                                        \
    do {                                                                                 \
        assert_int_equal(call, want);                                                    \
        if (!strstr(sr1_last_error(), text))                                             \
            fail_msg("'%s' is not in: %s", text, sr1_last_error());                      \
    } while (0)

static const char *const cases[] = {"qwen3-all",  "qwen2-rslora", "llama-all",
                                    "qwen3-some", "qwen3-ranks",  "smollm3-all",
                                    "qwen3-moe",  "gemma3-all"};
#define N_CASES (sizeof cases / sizeof *cases)

static sr1_model *open_model(const char *folder, const char *dtype)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = dtype};
    sr1_model *m = NULL;

    OK(sr1_model_open(&m, folder, &o));
    return m;
}

static sr1_model *open_base(const char *name, const char *dtype)
{
    char path[256];

    snprintf(path, sizeof path, "tests/golden/model/%s", name);
    return open_model(path, dtype);
}

/* The largest difference to the golden tensors KIND.0, KIND.1, ... */
static double logits_gap(const struct golden *g, sr1_model *m, const char *kind)
{
    double gap = 0.0;

    for (size_t i = 0; i < golden_count(g, "sequences"); i++) {
        float got[MAX_IDS * VOCAB];
        int32_t ids[MAX_IDS];
        size_t n = golden_ids(g, "sequences", i, ids, MAX_IDS);
        char name[32];

        snprintf(name, sizeof name, "%s.%zu", kind, i);
        OK(sr1_model_logits(m, ids, n, got));
        gap = fmax(gap, largest_gap(got, golden_tensor(g, name, n * VOCAB), n * VOCAB));
    }
    return gap;
}

static void logits_equal_peft(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        struct golden g = golden_open_kind("adapter", cases[c]);
        sr1_model *m = open_model(g.dir, "fp32");

        assert_true(logits_gap(&g, m, "logits") <= 1e-4);
        assert_true(logits_gap(&g, m, "base") > 1e-2);
        sr1_model_free(m);
        golden_close(&g);
    }
}

/* peft saves a critic's value head beside its adapter; the base has none. */
static void values_equal_peft(void **state)
{
    struct golden g = golden_open_kind("adapter", "qwen3-critic");
    sr1_model *m = open_model(g.dir, "fp32"), *again;

    (void)state;
    assert_non_null(m->value_head);
    OK(sr1_model_save(m, scratch_path("critic")));
    again = open_model(scratch_path("critic"), "fp32");
    for (size_t i = 0; i < golden_count(&g, "sequences"); i++) {
        const sr1_model *models[] = {m, again};
        int32_t ids[MAX_IDS];
        int64_t cu[2] = {0};
        struct sr1__packed in = {ids, cu, 1};
        size_t n = golden_ids(&g, "sequences", i, ids, MAX_IDS);
        char name[32];

        cu[1] = (int64_t)n;
        snprintf(name, sizeof name, "values.%zu", i);
        for (int k = 0; k < 2; k++) {
            sr1_model *one = (sr1_model *)(uintptr_t)models[k];
            sr1_scope *s = sr1__scope_open(SR1__CPU, "values");
            float got[MAX_IDS];

            t_to_host_f32(
                s,
                sr1__causal_lm_values(s, one, sr1__causal_lm_forward(s, one, &in, NULL)),
                got, n);
            OK(sr1__scope_close(s));
            assert_true(largest_gap(got, golden_tensor(&g, name, n), n) <= 1e-4);
        }
    }
    sr1_model_free(again);
    sr1_model_free(m);
    golden_close(&g);
}

/* ---- gradients ---- */

/* - mean log p(next token), and backward */
static void backward(sr1_model *m, const struct golden *g, int checkpoint)
{
    int32_t ids[MAX_IDS];
    int64_t cu[8] = {0}, rows[MAX_IDS], targets[MAX_IDS];
    size_t n_seqs = golden_count(g, "sequences");
    struct sr1__packed in = {ids, cu, n_seqs};
    struct sr1__forward_options opt = {checkpoint};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "step");
    int64_t n = 0;
    sr1_tensor *h;

    for (size_t i = 0; i < n_seqs; i++) {
        cu[i + 1] = cu[i] + (int64_t)golden_ids(g, "sequences", i, ids + cu[i],
                                                (size_t)(MAX_IDS - cu[i]));
        for (int64_t t = cu[i]; t + 1 < cu[i + 1]; t++) {
            rows[n] = t;
            targets[n++] = ids[t + 1];
        }
    }
    h = t_index_select(s, sr1__causal_lm_forward(s, m, &in, &opt), 0,
                       t_from_i64(s, rows, T_SHAPE(n)));
    h = sr1__nn_token_log_probs(s, h, m->head, t_from_i64(s, targets, T_SHAPE(n)), 1.0, 0,
                                NULL);
    t_backward(s, t_neg(s, t_mean(s, h)));
    OK(sr1__scope_close(s));
    OK(sr1__model_gather_grad(m));
}

static void check_gradients(const struct golden *g, sr1_model *m)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "gradients");

    for (size_t i = 0; i < m->n_params; i++) {
        size_t n = (size_t)t_numel(m->params[i].tensor);
        float *got = calloc(n, sizeof *got);
        char name[200];

        snprintf(name, sizeof name, "grad.%s", m->params[i].name);
        t_to_host_f32(s, sr1__model_grad(s, m, i), got, n);
        assert_true(largest_gap(got, golden_tensor(g, name, n), n) <= 1e-4);
        free(got);
    }
    for (size_t i = 0; i < m->n_leaves; i++)
        assert_null(t_grad(s, m->leaves[i].tensor));
    OK(sr1__scope_close(s));
}

/* Also where layers are computed again in backward: the first one's input has no gradient
 * of its own. */
static void gradients_equal_peft(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2 * N_CASES; c++) {
        struct golden g = golden_open_kind("adapter", cases[c / 2]);
        sr1_model *m = open_model(g.dir, "fp32");

        OK(sr1__model_train(m, 1));
        backward(m, &g, c % 2);
        check_gradients(&g, m);
        sr1_model_free(m);
        golden_close(&g);
    }
}

/* ---- decoding ---- */

static void list_ids(int32_t ids[MAX_IDS])
{
    for (int32_t i = 0; i < MAX_IDS; i++)
        ids[i] = (i * 37 + 11) % VOCAB;
}

/* As near to these logits [MAX_IDS,VOCAB], but for so many tokens. */
static void check_decoding(sr1_model *m, const float *want, double tolerance,
                           size_t exceptions)
{
    struct sr1__decoder *d = NULL;
    int32_t ids[MAX_IDS];
    size_t far = 0;

    list_ids(ids);
    OK(sr1__decoder_new(&d, m, 2, MAX_IDS));
    for (size_t at = 0; at < MAX_IDS; at += at ? 1 : 9) {
        struct sr1__decode_input f = {1, ids + at, at ? 1 : 9};
        const float *row = want + (at + f.n_ids - 1) * VOCAB;

        OK(sr1__decoder_decode(d, &f, 1));
        far += !(largest_gap(sr1__decoder_logits(d, 1), row, VOCAB) <= tolerance);
        if (far > exceptions)
            fail_msg("%s after %d tokens: off by %g", sr1_model_dtype(m),
                     (int)(at + f.n_ids),
                     largest_gap(sr1__decoder_logits(d, 1), row, VOCAB));
    }
    sr1__decoder_free(d);
}

/* By tensor operations a pass in bf16 rounds after each of them: the logits to be near to
 * are those of the same weights in fp32, and decoding is about as near to them as such a
 * pass is, unless a token has experts between which bf16 cannot decide. */
static void check_narrow_decoding(sr1_model *m)
{
    static float want[MAX_IDS * VOCAB], pass[MAX_IDS * VOCAB];
    sr1_model *exact = NULL;
    int32_t ids[MAX_IDS];

    list_ids(ids);
    OK(sr1__model_clone(&exact, m, SR1__F32));
    OK(sr1_model_logits(exact, ids, MAX_IDS, want));
    sr1__fused_enable(0);
    OK(sr1_model_logits(m, ids, MAX_IDS, pass));
    sr1__fused_enable(1);
    check_decoding(m, want, 2 * largest_gap(pass, want, MAX_IDS * VOCAB),
                   m->arch->experts ? MAX_IDS / 16 : 0);
    sr1_model_free(exact);
}

/* Whatever is fed beside it, and however it is cut. */
static void check_own_bits(sr1_model *m)
{
    float alone[VOCAB];
    int32_t ids[MAX_IDS];
    struct sr1__decode_input whole = {0, ids, MAX_IDS};

    list_ids(ids);
    for (int32_t threads = 1; threads <= 3; threads++) {
        struct sr1__decoder *d = NULL;

        OK(sr1__torch_threads(threads));
        OK(sr1__decoder_new(&d, m, 3, MAX_IDS));
        if (threads == 1) {
            OK(sr1__decoder_decode(d, &whole, 1));
            memcpy(alone, sr1__decoder_logits(d, 0), sizeof alone);
        }
        for (size_t at = 0; at < MAX_IDS; at++) {
            struct sr1__decode_input f[2] = {{2, ids, MAX_IDS - 1 - at % 7},
                                             {1, ids + at, 1}};

            sr1__decoder_clear(d, 2);
            OK(sr1__decoder_decode(d, f, 2));
        }
        assert_memory_equal(sr1__decoder_logits(d, 1), alone, sizeof alone);
        sr1__decoder_free(d);
    }
}

static void a_row_has_its_own_bits(void **state)
{
    static const char *const dtypes[] = {"fp32", "bf16"};
    int32_t before = sr1__torch_threads_get();

    (void)state;
    for (size_t c = 0; c < 2 * N_CASES; c++) {
        struct golden g = golden_open_kind("adapter", cases[c / 2]);
        sr1_model *m = open_model(g.dir, dtypes[c % 2]);

        assert_true(sr1__host_supports(m));
        check_own_bits(m);
        sr1_model_free(m);
        golden_close(&g);
    }
    OK(sr1__torch_threads(before));
}

static void decoding_equals_the_forward_pass(void **state)
{
    static float pass[MAX_IDS * VOCAB];
    int32_t ids[MAX_IDS];

    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        struct golden g = golden_open_kind("adapter", cases[c]);
        sr1_model *m = open_model(g.dir, "fp32");

        list_ids(ids);
        OK(sr1_model_logits(m, ids, MAX_IDS, pass));
        check_decoding(m, pass, 1e-4, 0);
        sr1_model_free(m);
        m = open_model(g.dir, "bf16");
        check_narrow_decoding(m);
        sr1_model_free(m);
        golden_close(&g);
    }
}

/* ---- folders ---- */

static void same_params(const sr1_model *a, const sr1_model *b)
{
    assert_int_equal(a->n_params, b->n_params);
    for (size_t i = 0; i < a->n_params; i++) {
        assert_string_equal(a->params[i].name, b->params[i].name);
        assert_memory_equal(sr1__shim_data(a->params[i].tensor),
                            sr1__shim_data(b->params[i].tensor),
                            (size_t)t_numel(a->params[i].tensor) * sizeof(float));
    }
}

/* The folder of a model whose MLPs are all experts. */
static const char *experts_only(void)
{
    static const char shape[] =
        "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 32, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 20, "
        "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8}";
    const char *dir = scratch_path("experts");
    sr1_model *m = NULL;

    OK(sr1_model_new_random(&m, shape, 1, NULL));
    OK(sr1_model_save(m, dir));
    sr1_model_free(m);
    return dir;
}

/* Of layers whose MLPs are experts only attention is adapted, as peft does. */
static void experts_have_none(void **state)
{
    struct sr1__lora_config all = {.rank = 2, .alpha = 4}, mlp = {.rank = 2, .alpha = 4};
    sr1_model *m = open_base("qwen3-moe-sparse", "fp32");

    (void)state;
    OK(sr1__lora_targets_parse("gate_proj,up_proj", "targets", &mlp.targets));
    OK(sr1__lora_targets_parse("all-linear", "targets", &all.targets));
    OK(sr1__model_adapt(m, &all, 5));
    for (int i = 0; i < 4; i++) {
        assert_true((m->layers[i].lora[SR1__LORA_UP].a == NULL) == (i % 2 == 1));
        assert_non_null(m->layers[i].lora[SR1__LORA_V].a);
    }
    sr1_model_free(m);
    m = open_model(experts_only(), "fp32");
    REFUSED(sr1__model_adapt(m, &mlp, 5), SR1_E_CONFIG, "experts");
    assert_null(m->adapter);
    OK(sr1__model_adapt(m, &all, 5));
    assert_int_equal(m->adapter->config.targets, 1u << SR1__LORA_Q | 1u << SR1__LORA_K |
                                                     1u << SR1__LORA_V |
                                                     1u << SR1__LORA_O);
    sr1_model_free(m);
}

static void a_saved_adapter_loads_equal(void **state)
{
    const char *dir = scratch_path("saved");
    const char *weights = scratch_path("saved/model.safetensors");

    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        struct golden g = golden_open_kind("adapter", cases[c]);
        sr1_model *m = open_model(g.dir, "fp32"), *again;

        OK(sr1_model_save(m, dir));
        assert_false(sr1__path_exists(weights));
        assert_int_equal(chdir("/"), 0); /* it names its base by a whole path */
        again = open_model(dir, "fp32");
        assert_int_equal(chdir(getenv("SR1_SRC")), 0);
        same_params(m, again);
        assert_true(sr1__lora_config_same(&again->adapter->config, &m->adapter->config));
        assert_true(logits_gap(&g, again, "logits") <= 1e-4);
        sr1_model_free(again);
        sr1_model_free(m);
        golden_close(&g);
    }
}

static void check_merged_weights(const struct golden *g, const sr1_model *m)
{
    size_t compared = 0;

    for (size_t i = 0; i < m->n_views; i++) {
        const struct sr1__named *v = &m->views[i];
        size_t n = (size_t)t_numel(v->tensor);
        char name[200];

        snprintf(name, sizeof name, "merged.%s", v->name);
        if (!sr1__weights_find(g->expected, name))
            continue;
        assert_true(
            largest_gap(sr1__shim_data(v->tensor), golden_tensor(g, name, n), n) <= 1e-6);
        compared++;
    }
    assert_int_equal(compared, 7);
}

/* And takes no adapter's place. */
static void a_merged_model_needs_no_adapter(void **state)
{
    const char *dir = scratch_path("saved");
    const char *whole = scratch_path("whole");

    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        struct golden g = golden_open_kind("adapter", cases[c]);
        sr1_model *m = open_model(g.dir, "fp32"), *merged;

        OK(sr1_model_save(m, dir));
        assert_int_equal(sr1_model_save_merged(m, dir), SR1_E_INVALID);
        assert_non_null(strstr(sr1_last_error(), "holds an adapter"));
        OK(sr1_model_save_merged(m, whole));
        merged = open_model(whole, "stored");
        assert_null(merged->adapter);
        assert_int_equal(sr1_model_info(merged, SR1_MODEL_LORA_RANK), 0);
        check_merged_weights(&g, merged);
        assert_true(logits_gap(&g, merged, "logits") <= 1e-4);
        assert_true(logits_gap(&g, m, "logits") <= 1e-4); /* that one is as it was */
        sr1_model_free(merged);
        sr1_model_free(m);
        golden_close(&g);
    }
}

/* Merged in the type of the stored weights, from a base of another type than fp32. */
static void merging_keeps_the_stored_type(void **state)
{
    struct sr1__lora_config config = {2, 4.0, 0, 1u << SR1__LORA_O};
    sr1_model *m = open_base("qwen3-bf16", "stored"), *merged;

    (void)state;
    assert_string_equal(sr1_model_dtype(m), "bf16");
    OK(sr1__model_adapt(m, &config, 3));
    OK(sr1_model_save_merged(m, scratch_path("bf16")));
    merged = open_model(scratch_path("bf16"), "stored");
    assert_string_equal(sr1_model_dtype(merged), "bf16");
    for (size_t i = 0; i < m->n_leaves; i++) /* B is zero: nothing is added */
        assert_memory_equal(sr1__shim_data(m->leaves[i].tensor),
                            sr1__shim_data(merged->leaves[i].tensor),
                            (size_t)t_numel(m->leaves[i].tensor) * 2);
    sr1_model_free(merged);
    sr1_model_free(m);
}

/* ---- training ---- */

static void a_fresh_adapter_changes_nothing(void **state)
{
    struct sr1__lora_config config = {3, 6.0, 0, (1u << SR1__LORA_MODULES) - 1};
    sr1_model *base = open_base("qwen3-tied", "fp32"),
              *m = open_base("qwen3-tied", "fp32"),
              *other = open_base("qwen3-tied", "fp32"),
              *same = open_base("qwen3-tied", "fp32");
    float want[9 * VOCAB], got[9 * VOCAB], first[4];
    int32_t ids[9] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    int zero = 0;

    (void)state;
    OK(sr1__model_adapt(m, &config, 7));
    OK(sr1__model_adapt(same, &config, 7));
    OK(sr1__model_adapt(other, &config, 8));
    same_params(m, same);
    memcpy(first, sr1__shim_data(m->params[0].tensor), sizeof first);
    assert_memory_not_equal(first, sr1__shim_data(other->params[0].tensor), sizeof first);
    for (size_t i = 0; i < m->n_params; i += 2) { /* A of each layer */
        const float *a = sr1__shim_data(m->params[i].tensor);
        double bound = 1.0 / sqrt((double)t_size(m->params[i].tensor, 1)), most = 0.0;

        for (int64_t k = 0; k < t_numel(m->params[i].tensor); k++)
            most = fmax(most, fabs((double)a[k]));
        assert_true(most <= bound && most > 0.8 * bound);
    }
    OK(sr1__adapter_is_zero(m, &zero));
    assert_true(zero);
    OK(sr1_model_logits(base, ids, 9, want));
    OK(sr1_model_logits(m, ids, 9, got));
    assert_memory_equal(want, got, sizeof want);
    assert_int_equal(sr1_model_info(m, SR1_MODEL_LORA_RANK), 3);
    assert_int_equal(sr1_model_info(m, SR1_MODEL_PARAMETERS),
                     sr1_model_info(base, SR1_MODEL_PARAMETERS));
    /* 2 layers: q [32,32], k, v [16,32], o [32,32], gate, up [48,32], down [32,48] */
    assert_int_equal(sr1_model_info(m, SR1_MODEL_TRAINED),
                     2 * 3 * (2 * 64 + 2 * 48 + 3 * 80));
    sr1_model_free(same);
    sr1_model_free(other);
    sr1_model_free(m);
    sr1_model_free(base);
}

/* Steps of the optimizer on a replica's gradients. */
static void take_steps(sr1_model *m, const struct golden *g, int n)
{
    static const struct sr1__adamw how = {0.9, 0.999, 1e-8, 0.01};
    struct sr1__optim_report done;
    struct sr1__optimizer *o = NULL;
    sr1_model *replica = NULL;

    OK(sr1__model_replica(&replica, m));
    OK(sr1__model_train(m, 1));
    OK(sr1__model_train(replica, 1));
    OK(sr1__optimizer_new(&o, m->params, m->n_params, &how, m->device));
    assert_int_equal(sr1__optimizer_state_count(o), 2 * m->n_params); /* no masters */
    for (int i = 0; i < n; i++) {
        backward(m, g, 0);
        backward(replica, g, 1);
        OK(sr1__model_add_grad(m, replica));
        OK(sr1__optimizer_step(o, m->sums, 1e-2, 1.0, 1.0, &done));
        assert_true(!done.skipped && done.grad_norm > 0);
        sr1__model_touch(m);
    }
    sr1__optimizer_free(o);
    sr1_model_free(replica);
}

/* The base stays as it is to the bit, and so does a model that was frozen before. */
static void check_training(const char *dtype)
{
    struct sr1__lora_config config = {4, 8.0, 0, (1u << SR1__LORA_MODULES) - 1};
    struct golden g = golden_open_kind("adapter", "qwen3-all");
    sr1_model *base = open_base("qwen3-tied", dtype), *m = open_base("qwen3-tied", dtype),
              *frozen = NULL, *later = NULL, *copy = NULL;
    float want[9 * VOCAB], got[9 * VOCAB], moved[9 * VOCAB];
    int32_t ids[9] = {3, 1, 4, 1, 5, 9, 2, 6, 5};

    OK(sr1__model_adapt(m, &config, 7));
    OK(sr1__model_freeze(&frozen, m, -1));
    assert_null(frozen->adapter);
    assert_ptr_equal(sr1__shim_data(frozen->leaves[0].tensor),
                     sr1__shim_data(m->leaves[0].tensor)); /* no second copy */
    take_steps(m, &g, 3);
    for (size_t i = 0; i < m->n_leaves; i++)
        assert_memory_equal(
            sr1__shim_data(m->leaves[i].tensor), sr1__shim_data(base->leaves[i].tensor),
            (size_t)t_numel(m->leaves[i].tensor) * sr1__torch_dtype_size(m->dtype));
    OK(sr1_model_logits(base, ids, 9, want));
    OK(sr1_model_logits(frozen, ids, 9, got));
    assert_memory_equal(want, got, sizeof want);
    OK(sr1_model_logits(m, ids, 9, moved));
    assert_true(largest_gap(want, moved, 9 * VOCAB) > 1e-3);
    OK(sr1__model_freeze(&later, m, -1)); /* of an adapter that is not zero: a copy */
    OK(sr1__model_clone(&copy, m, -1));
    take_steps(m, &g, 1);
    OK(sr1_model_logits(later, ids, 9, got));
    assert_memory_equal(moved, got, sizeof moved);
    OK(sr1_model_logits(copy, ids, 9, got));
    assert_memory_equal(moved, got, sizeof moved);
    sr1_model_free(copy);
    sr1_model_free(later);
    sr1_model_free(frozen);
    sr1_model_free(m);
    sr1_model_free(base);
    golden_close(&g);
}

static void training_leaves_the_base_alone(void **state)
{
    (void)state;
    check_training("fp32");
    check_training("bf16");
}

/* ---- dropout ---- */

/* What an adapter with A = B = 1 and s = 1 adds to zeros for x = 1: the mask, [n, 32]. */
static void read_mask(sr1_model *m, int32_t layer, const struct sr1__lora_dropout *drop,
                      int64_t n, float *out)
{
    struct sr1__attention by = {NULL, NULL, NULL};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "mask");
    sr1_tensor *x = t_full(s, 1.0, SR1__F32, T_SHAPE(n, 32));
    sr1_tensor *y = t_full(s, 0.0, SR1__F32, T_SHAPE(n, 32));

    sr1__scope_no_grad(s);
    t_to_host_f32(s,
                  sr1__lora_add(s, m, &by, drop, x, y,
                                (struct sr1__lora_span){layer, SR1__LORA_O, 1}),
                  out, (size_t)n * 32);
    OK(sr1__scope_close(s));
}

static sr1_model *open_identity(void)
{
    struct sr1__lora_config config = {32, 32.0, 0, 1u << SR1__LORA_O};
    sr1_model *m = open_base("qwen3-tied", "fp32");

    OK(sr1__model_adapt(m, &config, 1));
    for (size_t i = 0; i < m->n_params; i++) {
        float *v = sr1__shim_data(m->params[i].tensor);

        assert_int_equal(t_numel(m->params[i].tensor), 32 * 32);
        for (int k = 0; k < 32 * 32; k++)
            v[k] = k % 33 == 0;
    }
    return m;
}

static void dropout_leaves_the_mean_as_it_is(void **state)
{
    enum { N = 4000 };
    static float first[N * 32], other[N * 32];
    uint64_t keys[N];
    struct sr1__lora_dropout drop = {0.2, keys};
    sr1_model *m = open_identity();
    size_t zeros = 0, same = 0;

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        keys[i] = 1000 + i;
    read_mask(m, 0, &drop, N, first);
    for (size_t i = 0; i < N * 32; i++) {
        zeros += first[i] == 0.0F;
        assert_true(first[i] == 0.0F || fabsf(first[i] - 1.25F) < 1e-6F);
    }
    /* 128,000 draws: the standard deviation of their share is 0.0011 */
    assert_true(fabs((double)zeros / (N * 32) - 0.2) < 0.0045);
    read_mask(m, 1, &drop, N, other);
    for (size_t i = 0; i < N * 32; i++)
        same += (first[i] == 0.0F) == (other[i] == 0.0F);
    assert_true(fabs((double)same / (N * 32) - 0.68) < 0.006); /* another layer's */
    keys[0] = 1007;
    read_mask(m, 0, &drop, 1, other); /* a token's mask is its key's */
    assert_memory_equal(other, first + 7 * 32, 32 * sizeof(float));
    drop.p = 0.0;
    read_mask(m, 0, &drop, N, other);
    for (size_t i = 0; i < N * 32; i++)
        assert_true(other[i] == 1.0F);
    sr1_model_free(m);
}

/* Layers that are computed again in backward drop the same elements: gradients are equal.
 */
static void dropout_is_the_same_in_backward(void **state)
{
    struct golden g = golden_open_kind("adapter", "qwen3-all");
    uint64_t keys[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct sr1__lora_dropout drop = {0.4, keys};
    int32_t ids[9] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    int64_t cu[2] = {0, 9};
    struct sr1__packed in = {ids, cu, 1};
    float grads[3][4 * 32];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct sr1__forward_options opt = {i == 1, i < 2 ? &drop : NULL};
        sr1_model *m = open_model(g.dir, "fp32");
        sr1_scope *s = sr1__scope_open(SR1__CPU, "dropout");

        OK(sr1__model_train(m, 1));
        t_backward(s, t_sum(s, t_square(s, sr1__causal_lm_forward(s, m, &in, &opt))));
        t_to_host_f32(s, sr1__model_grad(s, m, 0), grads[i], 4 * 32);
        OK(sr1__scope_close(s));
        sr1_model_free(m);
    }
    assert_true(largest_gap(grads[0], grads[1], 4 * 32) <= 1e-5);
    assert_true(largest_gap(grads[0], grads[2], 4 * 32) > 1e-3);
    golden_close(&g);
}

/* ---- hostile folders ---- */

/* scratch/hostile: the case qwen3-all, a member of its configuration set to JSON text
 * (NULL: the file as it is). */
static const char *make_hostile(const char *key, const char *value)
{
    struct sr1__buf weights;
    json_t *config = NULL, *v = NULL;

    OK(sr1__dir_make(scratch_path("hostile")));
    OK(sr1__file_read("tests/golden/adapter/qwen3-all/adapter_model.safetensors", 0,
                      &weights));
    (void)scratch_file("hostile/adapter_model.safetensors", weights.data, weights.len);
    sr1__buf_free(&weights);
    OK(sr1__json_load(&config, "tests/golden/adapter/qwen3-all/adapter_config.json", 0));
    if (key) {
        char text[200];

        snprintf(text, sizeof text, "[%s]", value);
        OK(sr1__json_parse(&v, text, strlen(text), "value"));
        json_object_set(config, key, json_array_get(v, 0));
        json_decref(v);
    }
    OK(sr1__json_save(config, 2, scratch_path("hostile/adapter_config.json")));
    json_decref(config);
    return scratch_path("hostile");
}

static void refused(const char *folder, sr1_status want, const char *text)
{
    sr1_model *m = NULL;

    sr1_status st = sr1_model_open(&m, folder, NULL);

    assert_null(m);
    if (st != want || !strstr(sr1_last_error(), text))
        fail_msg("'%s' is not in: %s: %s", text, sr1_status_name(st), sr1_last_error());
}

static void other_kinds_are_refused_by_name(void **state)
{
    static const struct {
        const char *key, *value;
        sr1_status status;
        const char *says;
    } bad[] = {
        {"r", "0", SR1_E_INVALID, "'r', the rank, must be from 1 to 4096, not 0"},
        {"r", "1000000000000", SR1_E_INVALID, "not 1000000000000"},
        {"r", "\"4\"", SR1_E_PARSE, "'r', the rank"},
        {"r", "5", SR1_E_CORRUPT,
         "adapter_model.safetensors: tensor 'base_model.model.model.layers.0.self_attn."
         "q_proj.lora_A.weight' has shape [4, 32]; adapter_config.json and the base "
         "model "
         "say [5, 32]"},
        {"lora_alpha", "0", SR1_E_INVALID, "'lora_alpha' must be above 0"},
        {"lora_alpha", "\"x\"", SR1_E_PARSE, "'lora_alpha' is not a number"},
        {"use_dora", "true", SR1_E_UNSUPPORTED, "'use_dora': DoRA"},
        {"bias", "\"all\"", SR1_E_UNSUPPORTED, "'bias': training of biases"},
        {"modules_to_save", "[\"lm_head\"]", SR1_E_UNSUPPORTED, "'modules_to_save'"},
        {"rank_pattern", "{\"q_proj\": 2}", SR1_E_CORRUPT, "say [2, 32]"},
        {"init_lora_weights", "\"pissa\"", SR1_E_UNSUPPORTED, "'init_lora_weights'"},
        {"peft_type", "\"IA3\"", SR1_E_UNSUPPORTED, "other than LORA"},
        {"peft_type", "null", SR1_E_PARSE, "'peft_type' is missing"},
        {"task_type", "\"SEQ_CLS\"", SR1_E_UNSUPPORTED, "'task_type'"},
        {"of_tomorrow", "1", SR1_E_UNSUPPORTED, "'of_tomorrow'"},
        {"target_modules", "[\"lm_head\"]", SR1_E_UNSUPPORTED, "'lm_head' is no layer"},
        {"target_modules", "\".*proj\"", SR1_E_UNSUPPORTED, "a pattern"},
        {"target_modules", "[]", SR1_E_PARSE, "'target_modules' is no list"},
        {"target_modules", "[\"q_proj\"]", SR1_E_UNSUPPORTED, "belongs to no layer"},
        {"base_model_name_or_path", "null", SR1_E_CONFIG, "names no base model"},
        {"base_model_name_or_path", "\"Qwen/Qwen3-0.6B\"", SR1_E_NOT_FOUND,
         "hf download Qwen/Qwen3-0.6B"},
        {"base_model_name_or_path", "\"tests/golden/adapter/qwen3-all\"",
         SR1_E_UNSUPPORTED, "an adapter itself"},
        {"base_model_name_or_path", "\"tests/golden/model/qwen2-untied-bf16\"",
         SR1_E_CORRUPT, "qwen2-untied-bf16: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(make_hostile(bad[i].key, bad[i].value), bad[i].status, bad[i].says);
}

/* Fewer layers in the file than in the configuration, a value that is no number, none. */
static void damaged_tensors_are_refused_by_name(void **state)
{
    struct sr1__lora_config config = {4, 8.0, 0, 1u << SR1__LORA_Q};
    sr1_model *m = open_base("qwen3-tied", "fp32");
    const char *folder = make_hostile(NULL, NULL);

    (void)state;
    OK(sr1__model_adapt(m, &config, 1));
    OK(sr1_model_save(m, scratch_path("part")));
    OK(sr1__dir_remove(scratch_path("hostile/adapter_model.safetensors")));
    refused(folder, SR1_E_IO, "adapter_model.safetensors");
    OK(sr1__rename_dir(scratch_path("part/adapter_model.safetensors"),
                       scratch_path("hostile/adapter_model.safetensors")));
    refused(folder, SR1_E_NOT_FOUND, "layers.0.self_attn.k_proj.lora_A.weight");
    ((float *)sr1__shim_data(m->params[1].tensor))[5] = NAN;
    OK(sr1_model_save(m, scratch_path("nan")));
    refused(scratch_path("nan"), SR1_E_NUMERIC,
            "layers.0.self_attn.q_proj.lora_B.weight: some weights are not finite");
    sr1_model_free(m);
}

/* Room for rank 4096 would be 32 MiB here, gigabytes in a model of a real size. */
static void ranks_are_not_believed_before_shapes(void **state)
{
    const char *folder = make_hostile("r", "4096");
    sr1_model *m = open_base("qwen3-tied", "fp32");
    struct sr1__lora_config config = {4096, 8.0, 0, (1u << SR1__LORA_MODULES) - 1};
    size_t n = m->n_params;

    (void)state;
    refused(folder, SR1_E_CORRUPT, "say [4096, 32]");
    REFUSED(sr1__adapter_open(m, &config, folder), SR1_E_CORRUPT, "say [4096, 32]");
    assert_null(m->adapter); /* nothing was made */
    assert_int_equal(m->n_params, n);
    sr1_model_free(m);
}

static void other_places_are_refused_by_name(void **state)
{
    struct sr1__lora_config config = {2, 4.0, 0, 1u << SR1__LORA_Q};
    const char *folder = make_hostile(NULL, NULL);
    sr1_model *m = open_base("qwen3-tied", "fp32"), *again;

    (void)state;
    OK(sr1__rename_dir(scratch_path("hostile/adapter_model.safetensors"),
                       scratch_path("hostile/adapter_model.bin")));
    refused(folder, SR1_E_UNSUPPORTED,
            "holds adapter_model.bin, which is not read; save it as safetensors");
    OK(sr1__file_remove(folder, "adapter_config.json"));
    assert_int_equal(
        symlink("/no/such/file", scratch_path("hostile/adapter_config.json")), 0);
    refused(folder, SR1_E_IO, "hostile/adapter_config.json");
    OK(sr1__dir_remove(scratch_path("hostile/adapter_model.bin")));
    OK(sr1__file_remove(folder, "adapter_config.json"));
    OK(sr1_model_save(m, scratch_path("own")));
    sr1_model_free(m);
    m = open_model(scratch_path("own"), "fp32");
    OK(sr1__model_adapt(m, &config, 1));
    REFUSED(sr1_model_save(m, scratch_path("own")), SR1_E_INVALID,
            "holds the adapter's base");
    again = open_model(scratch_path("own"), "fp32");
    assert_null(again->adapter);
    sr1_model_free(again);
    for (size_t i = 0; i < m->n_params; i++) { /* each is finite, their product is not */
        sr1_scope *s = sr1__scope_open(SR1__CPU, "fill");

        t_fill_(s, m->params[i].tensor, 1e30);
        OK(sr1__scope_close(s));
    }
    REFUSED(sr1_model_save_merged(m, scratch_path("inf")), SR1_E_NUMERIC,
            "self_attn.q_proj.weight is not finite in fp32 once the adapter is merged");
    sr1_model_free(m);
}

/* The base has moved: its caller knows where to. */
static void the_base_may_be_named(void **state)
{
    sr1_model_options o = {.struct_size = sizeof o,
                           .device = "cpu",
                           .dtype = "fp32",
                           .base_model = "tests/golden/model/qwen3-tied"};
    struct golden g = golden_open_kind("adapter", "qwen3-all");
    static const char *const named[] = {"null", "\"/gone/base\"",
                                        "\"tests/golden/model/qwen2-tied\""};
    sr1_model *m = NULL;

    (void)state;
    refused(make_hostile("base_model_name_or_path", named[1]), SR1_E_NOT_FOUND,
            "the base model '/gone/base' is not a folder; check the path");
    assert_non_null(strstr(sr1_last_error(), "; or name the base's folder as "
                                             "base_model_name_or_path"));
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        OK(sr1_model_open(&m, make_hostile("base_model_name_or_path", named[i]), &o));
        assert_true(logits_gap(&g, m, "logits") <= 1e-4);
        sr1_model_free(m);
    }
    o.base_model = "/also/gone";
    m = NULL;
    REFUSED(sr1_model_open(&m, g.dir, &o), SR1_E_NOT_FOUND,
            "'/also/gone' is not a folder");
    golden_close(&g);
}

static sr1_status open_and_freeze(void *arg)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    sr1_model *m = NULL, *frozen = NULL;
    sr1_status st = sr1_model_open(&m, arg, &o);

    if (st == SR1_OK)
        st = sr1__model_freeze(&frozen, m, -1);
    sr1_model_free(frozen);
    sr1_model_free(m);
    return st;
}

static sr1_status adapt_replica(void *arg)
{
    struct sr1__lora_config config = {2, 4.0, 0, 1u << SR1__LORA_Q};
    sr1_model *m = NULL;
    sr1_status st = sr1__model_replica(&m, arg);

    if (st == SR1_OK)
        st = sr1__model_adapt(m, &config, 1);
    sr1_model_free(m);
    return st;
}

static sr1_status save(void *arg)
{
    return sr1_model_save(arg, scratch_path("again"));
}

static void any_allocation_may_fail(void **state)
{
    static char folder[] = "tests/golden/adapter/qwen2-rslora";
    sr1_model *m = open_model(folder, "fp32"), *base = open_base("qwen2-tied", "fp32");

    (void)state;
    assert_true(torture(open_and_freeze, folder) > 100);
    assert_true(torture(adapt_replica, base) > 50);
    assert_true(torture(save, m) > 20);
    sr1_model_free(base);
    sr1_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_equal_peft),
        cmocka_unit_test(values_equal_peft),
        cmocka_unit_test(gradients_equal_peft),
        cmocka_unit_test(decoding_equals_the_forward_pass),
        cmocka_unit_test(experts_have_none),
        cmocka_unit_test(a_row_has_its_own_bits),
        cmocka_unit_test(a_saved_adapter_loads_equal),
        cmocka_unit_test(a_merged_model_needs_no_adapter),
        cmocka_unit_test(merging_keeps_the_stored_type),
        cmocka_unit_test(a_fresh_adapter_changes_nothing),
        cmocka_unit_test(training_leaves_the_base_alone),
        cmocka_unit_test(dropout_leaves_the_mean_as_it_is),
        cmocka_unit_test(dropout_is_the_same_in_backward),
        cmocka_unit_test(other_kinds_are_refused_by_name),
        cmocka_unit_test(ranks_are_not_believed_before_shapes),
        cmocka_unit_test(other_places_are_refused_by_name),
        cmocka_unit_test(the_base_may_be_named),
        cmocka_unit_test(damaged_tensors_are_refused_by_name),
        cmocka_unit_test(any_allocation_may_fail),
    };

    if (chdir(getenv("SR1_SRC")) !=
        0) /* from where the golden adapters name their bases */
        return 1;
    return cmocka_run_group_tests_name("adapter", tests, scratch_make, scratch_remove);
}
