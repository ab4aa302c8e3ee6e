/* The gradient of a whole model: by finite differences, however the batch is packed,
 * chunked or checkpointed; and that checkpointing saves memory. */
#include "golden.h"

#include "base/clock.h"
#include "base/rng.h"
#include "tensor/model/model.h"

#include <searchr1/ext/model_details.h>

static const char config[] =
    "{\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":"
    "32,"
    "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"head_dim\":16,\"intermediate_size\":64,\"vocab_size\":101,"
    "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,"
    "\"tie_word_embeddings\":true,\"hidden_act\":\"silu\"}";

enum { SEQS = 6, MAX_LEN = 24, MAX_N = SEQS * MAX_LEN };

struct data {
    int32_t ids[SEQS][MAX_LEN];
    float weight[SEQS]
                [MAX_LEN]; /* of the log-prob of each token in the loss; [0] unused */
    int64_t len[SEQS];
};

static void make_data(struct data *d)
{
    static const int64_t len[SEQS] = {24, 9, 9, 1, 17, 24};
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 5, 0);
    for (int i = 0; i < SEQS; i++) {
        d->len[i] = len[i];
        for (int t = 0; t < MAX_LEN; t++) {
            d->ids[i][t] = (int32_t)sr1__rng_below(&rng, 101);
            d->weight[i][t] = (float)sr1__rng_normal(&rng) / 20.0f;
        }
    }
}

static sr1_model *make_model(void)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .init = "fan_in"};
    sr1_model *m = NULL;

    OK(sr1_model_new_random(&m, config, 3, &o));
    OK(sr1__model_train(m, 1));
    return m;
}

/* One pass: which sequences, in which order, and how. */
struct way {
    int n;
    int order[SEQS];
    int checkpoint;
    int64_t chunk;
    int wanted; /* the pass is told whose hidden states are */
};

/* sum of weight * log-prob over two in three tokens of some sequences */
static sr1_tensor *loss_of(sr1_scope *s, sr1_model *m, const struct data *d,
                           const struct way *way)
{
    int32_t ids[MAX_N];
    int64_t cu[SEQS + 1] = {0};
    int32_t rows[MAX_N];
    int64_t targets[MAX_N];
    float weight[MAX_N];
    int64_t n = 0;
    struct sr1__packed in = {ids, cu, (size_t)way->n};
    struct sr1__forward_options opt = {way->checkpoint};
    sr1_tensor *h;

    for (int i = 0; i < way->n; i++) {
        int q = way->order[i];

        memcpy(ids + cu[i], d->ids[q], (size_t)d->len[q] * sizeof ids[0]);
        cu[i + 1] = cu[i] + d->len[q];
        for (int64_t t = 1; t < d->len[q]; t++) {
            if (t % 3 == 0)
                continue;
            rows[n] = (int32_t)(cu[i] + t - 1);
            targets[n] = d->ids[q][t];
            weight[n++] = d->weight[q][t];
        }
    }
    opt.rows = way->wanted ? rows : NULL;
    opt.n_rows = (size_t)n;
    h = sr1__causal_lm_forward(s, m, &in, &opt);
    if (!way->wanted)
        h = t_index_select(s, h, 0, t_from_i32(s, rows, (size_t)n));
    h = sr1__nn_token_log_probs(s, h, m->head, t_from_i64(s, targets, T_SHAPE(n)), 0.9,
                                way->chunk, NULL);
    return t_sum(s, t_mul(s, h, t_from_f32(s, weight, T_SHAPE(n))));
}

static double pass(sr1_model *m, const struct data *d, const struct way *way,
                   int backward)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "pass");
    sr1_tensor *loss;
    double v;

    if (!backward)
        sr1__scope_no_grad(s);
    loss = loss_of(s, m, d, way);
    if (backward)
        t_backward(s, loss);
    v = t_item(s, loss);
    OK(sr1__scope_close(s));
    return v;
}

/* All gradients end to end on the host, cleared; *n is their count. */
static float *take_grads(sr1_model *m, size_t *n)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "gradients");
    float *out = calloc((size_t)sr1_model_info(m, SR1_MODEL_PARAMETERS), sizeof *out);

    *n = 0;
    for (size_t i = 0; i < m->n_params; i++) {
        size_t k = (size_t)t_numel(m->params[i].tensor);

        t_to_host_f32(s, t_grad(s, m->params[i].tensor), out + *n, k);
        t_clear_grad(s, m->params[i].tensor);
        *n += k;
    }
    OK(sr1__scope_close(s));
    return out;
}

/* All weights move by step along direction. */
static void move(sr1_model *m, const float *direction, double step)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "move");

    sr1__scope_no_grad(s);
    for (size_t i = 0; i < m->n_params; i++) {
        sr1_tensor *w = m->params[i].tensor;

        t_add_(s, w, t_from_f32(s, direction, t_ndim(w), sr1__shim_sizes(w)), step);
        direction += t_numel(w);
    }
    OK(sr1__scope_close(s));
}

static const struct way all = {SEQS, {0, 1, 2, 3, 4, 5}, 0, 0};

static void gradient_is_the_slope(void **state)
{
    struct data d;
    sr1_model *m = make_model();
    struct sr1__rng rng;
    float *direction;
    float *g;
    size_t n;

    (void)state;
    make_data(&d);
    pass(m, &d, &all, 1);
    g = take_grads(m, &n);
    direction = calloc(n, sizeof *direction);
    sr1__rng_seed(&rng, 11, 0);
    for (int trial = 0; trial < 5; trial++) {
        const double step = 1e-3;
        double slope = 0.0;
        double up;
        double down;

        for (size_t i = 0; i < n; i++) {
            direction[i] = (float)(sr1__rng_normal(&rng) * 0.3);
            slope += (double)direction[i] * (double)g[i];
        }
        move(m, direction, step);
        up = pass(m, &d, &all, 0);
        move(m, direction, -2.0 * step);
        down = pass(m, &d, &all, 0);
        move(m, direction, step);
        assert_true(fabs((up - down) / (2.0 * step) - slope) <=
                    0.01 * (1.0 + fabs(slope)));
    }
    free(direction);
    free(g);
    sr1_model_free(m);
}

/* Packed otherwise, in parts, in chunks, checkpointed, told what is wanted: the same
 * gradient up to rounding. */
static void gradient_does_not_depend_on_the_way(void **state)
{
    static const struct way ways[][3] = {
        {{SEQS, {5, 3, 1, 0, 4, 2}, 0, 0}, {0}, {0}},
        {{2, {0, 1}, 0, 0}, {3, {2, 3, 4}, 0, 0}, {1, {5}, 0, 0}},
        {{SEQS, {0, 1, 2, 3, 4, 5}, 0, 1}, {0}, {0}},
        {{SEQS, {0, 1, 2, 3, 4, 5}, 0, 7}, {0}, {0}},
        {{SEQS, {0, 1, 2, 3, 4, 5}, 1, 0}, {0}, {0}},
        {{3, {5, 0, 4}, 1, 5}, {3, {1, 2, 3}, 1, 3}, {0}},
        {{SEQS, {0, 1, 2, 3, 4, 5}, 0, 0, 1}, {0}, {0}},
        {{3, {5, 0, 4}, 1, 5, 1}, {3, {1, 2, 3}, 0, 0, 1}, {0}},
    };
    sr1_model *m = make_model();
    struct data d;
    float *want;
    double loss;
    size_t n;

    (void)state;
    make_data(&d);
    loss = pass(m, &d, &all, 1);
    want = take_grads(m, &n);
    for (size_t c = 0; c < sizeof ways / sizeof ways[0]; c++) {
        double sum = 0.0;
        float *got;

        for (int k = 0; k < 3 && ways[c][k].n; k++)
            sum += pass(m, &d, &ways[c][k], 1);
        got = take_grads(m, &n);
        assert_true(fabs(sum - loss) <= 1e-4);
        assert_true(largest_gap(got, want, n) <= 2e-5);
        free(got);
    }
    free(want);
    sr1_model_free(m);
}

static void equal_passes_give_equal_bits(void **state)
{
    sr1_model *m = make_model();
    struct data d;
    float *g[2];
    size_t n;

    (void)state;
    make_data(&d);
    for (int i = 0; i < 2; i++) {
        pass(m, &d, &all, 1);
        g[i] = take_grads(m, &n);
    }
    assert_memory_equal(g[0], g[1], n * sizeof(float));
    free(g[0]);
    free(g[1]);
    sr1_model_free(m);
}

/* Peak memory above the start of one pass over n sequences of 256 tokens. */
static int64_t peak_of(sr1_model *m, int n, int checkpoint)
{
    enum { LEN = 256, MOST = 32 };
    int32_t *ids = calloc(LEN * MOST, sizeof *ids);
    int64_t cu[MOST + 1];
    struct sr1__packed in = {ids, cu, (size_t)n};
    struct sr1__forward_options opt = {checkpoint};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "peak");
    int64_t before = sr1__rss_bytes();

    for (int i = 0; i < LEN * n; i++)
        ids[i] = i % 101;
    for (int i = 0; i <= n; i++)
        cu[i] = (int64_t)i * LEN;
    t_backward(s, t_mean(s, sr1__causal_lm_forward(s, m, &in, &opt)));
    OK(sr1__scope_close(s));
    free(ids);
    return sr1__peak_rss_bytes() - before;
}

static void checkpointing_lowers_the_peak(void **state)
{
    static const char deep[] =
        "{\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],"
        "\"hidden_size\":128,\"num_hidden_layers\":12,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"head_dim\":32,\"intermediate_size\":384,"
        "\"vocab_size\":101,\"max_position_embeddings\":512,\"rms_norm_eps\":1e-6,"
        "\"rope_theta\":10000.0,\"tie_word_embeddings\":true,\"hidden_act\":\"silu\"}";
    sr1_model *m = NULL;
    int64_t spared;
    int64_t whole;

    (void)state;
    OK(sr1_model_new_random(&m, deep, 3, NULL));
    OK(sr1__model_train(m, 1));
    peak_of(m, 1, 1);           /* code and threads are in memory from here on */
    spared = peak_of(m, 32, 1); /* first: the peak of a process never falls */
    whole = peak_of(m, 32, 0);
    print_message("peak: %lld MiB checkpointed, %lld MiB not\n",
                  (long long)(spared >> 20), (long long)(whole >> 20));
    assert_true((double)spared <= 0.7 * (double)whole);
    sr1_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpointing_lowers_the_peak),
        cmocka_unit_test(gradient_is_the_slope),
        cmocka_unit_test(gradient_does_not_depend_on_the_way),
        cmocka_unit_test(equal_passes_give_equal_bits),
    };

    return cmocka_run_group_tests_name("gradient", tests, NULL, NULL);
}
