/* A prompt that stands once before all that continue it: hidden states and gradients are
 * those of each sequence with a prompt of its own, by rounding. */
#include "golden.h"

#include "base/rng.h"
#include "tensor/model/adapter.h"
#include "tensor/model/model.h"

#include <searchr1/ext/model_details.h>

static const char config[] =
    "{\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":"
    "32,"
    "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"head_dim\":16,\"intermediate_size\":64,\"vocab_size\":101,"
    "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,"
    "\"tie_word_embeddings\":true,\"hidden_act\":\"silu\"}";

/* Layers of two kinds, whose windows end within a prompt, at its end and behind it. */
static const char windowed[] =
    "{\"model_type\":\"smollm3\",\"architectures\":[\"SmolLM3ForCausalLM\"],"
    "\"hidden_size\":32,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"intermediate_size\":64,\"vocab_size\":101,"
    "\"max_position_embeddings\":512,\"no_rope_layers\":[0,1,0],"
    "\"use_sliding_window\":true,\"sliding_window\":11}";

enum { GROUPS = 5, MEMBERS = 5, PROMPT = 40, REST = 30, VOCAB = 101 };
enum { SEQS = GROUPS * MEMBERS, MAX_N = SEQS * (PROMPT + REST) };

/* Groups of samples; some have one member, some members nothing behind the prompt. */
struct groups {
    size_t members[GROUPS];
    int64_t prompt[GROUPS];
    int64_t rest[GROUPS][MEMBERS];
    int32_t ids[GROUPS][MEMBERS][PROMPT + REST + 1];
    float weight[GROUPS][MEMBERS][REST + 1]; /* of the token behind each, 0: masked */
};

/* Tokens as they are packed, and what is asked of which rows. */
struct packed {
    int32_t ids[MAX_N];
    int64_t cu[2 * SEQS + 1];
    int32_t continues[2 * SEQS];
    size_t n_spans;
    int64_t rows[MAX_N], targets[MAX_N], n;
    float weight[MAX_N];
};

/* One length for all members now and then: such neighbours share a call. */
static void make_groups(struct groups *g, uint64_t seed)
{
    struct sr1__rng r;

    sr1__rng_seed(&r, seed, 3);
    for (int i = 0; i < GROUPS; i++) {
        int64_t even = (int64_t)sr1__rng_below(&r, 2) * (int64_t)sr1__rng_below(&r, REST);

        g->members[i] = 1 + sr1__rng_below(&r, MEMBERS);
        g->prompt[i] = 1 + (int64_t)sr1__rng_below(&r, PROMPT);
        for (int k = 0; k < MEMBERS; k++) {
            g->rest[i][k] = even > 0 ? even : (int64_t)sr1__rng_below(&r, REST);
            for (int t = 0; t <= PROMPT + REST; t++)
                g->ids[i][k][t] = k > 0 && t < g->prompt[i]
                                      ? g->ids[i][0][t]
                                      : (int32_t)sr1__rng_below(&r, VOCAB);
            for (int t = 0; t <= REST; t++)
                g->weight[i][k][t] =
                    sr1__rng_below(&r, 3) ? (float)sr1__rng_normal(&r) / 20.0f : 0.0f;
        }
    }
}

static void add_span(struct packed *p, const int32_t *ids, int64_t n, int32_t continues)
{
    if (n == 0)
        return;
    memcpy(p->ids + p->cu[p->n_spans], ids, (size_t)n * sizeof *ids);
    p->continues[p->n_spans] = continues;
    p->cu[p->n_spans + 1] = p->cu[p->n_spans] + n;
    p->n_spans++;
}

/* Rows that predict what the policy sampled: the last one of the prompt, and others. */
static void add_targets(struct packed *p, const struct groups *g, int i, size_t k,
                        int64_t last_of_prompt, int64_t rest)
{
    for (int64_t t = 0; t <= g->rest[i][k]; t++) {
        if (g->weight[i][k][t] == 0.0f)
            continue;
        p->rows[p->n] = t == 0 ? last_of_prompt : rest + t - 1;
        p->targets[p->n] = g->ids[i][k][g->prompt[i] + t];
        p->weight[p->n++] = g->weight[i][k][t];
    }
}

static void pack_group(struct packed *p, const struct groups *g, int i, int share)
{
    int64_t prompt = g->prompt[i], first = p->cu[p->n_spans];
    int32_t at = (int32_t)p->n_spans;

    if (share)
        add_span(p, g->ids[i][0], prompt, -1);
    for (size_t k = 0; k < g->members[i]; k++) {
        int64_t row = p->cu[p->n_spans];

        if (share)
            add_span(p, g->ids[i][k] + prompt, g->rest[i][k], at);
        else
            add_span(p, g->ids[i][k], prompt + g->rest[i][k], -1);
        add_targets(p, g, i, k, (share ? first : row) + prompt - 1,
                    share ? row : row + prompt);
    }
}

static struct packed *pack(const struct groups *g, int share)
{
    struct packed *p = calloc(1, sizeof *p);

    for (int i = 0; i < GROUPS; i++)
        pack_group(p, g, i, share && (g->members[i] > 1 || i % 2));
    return p;
}

/* The sum of weighed log-probs, or values of a critic; its gradients end to end. */
static float *gradients(sr1_model *m, const struct groups *g, int share, int checkpoint,
                        double *loss)
{
    struct packed *p = pack(g, share);
    struct sr1__packed in = {p->ids, p->cu, p->n_spans, share ? p->continues : NULL};
    struct sr1__forward_options opt = {checkpoint, NULL};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "pass");
    float *out = calloc((size_t)sr1_model_info(m, SR1_MODEL_PARAMETERS) + 1, sizeof *out);
    sr1_tensor *h = t_index_select(s, sr1__qwen_forward(s, m, &in, &opt), 0,
                                   t_from_i64(s, p->rows, T_SHAPE(p->n)));

    if (m->value_head)
        h = t_to(s, sr1__qwen_values(s, m, h), SR1__F32);
    else
        h = sr1__nn_token_log_probs(
            s, h, m->head, t_from_i64(s, p->targets, T_SHAPE(p->n)), 0.9, 7, NULL);
    h = t_sum(s, t_mul(s, h, t_from_f32(s, p->weight, T_SHAPE(p->n))));
    t_backward(s, h);
    *loss = t_item(s, h);
    for (size_t i = 0, at = 0; i < m->n_params; i++) {
        size_t k = (size_t)t_numel(m->params[i].tensor);

        t_to_host_f32(s, t_grad(s, m->params[i].tensor), out + at, k);
        t_clear_grad(s, m->params[i].tensor);
        at += k;
    }
    OK(sr1__scope_close(s));
    free(p);
    return out;
}

static size_t count_numbers(const sr1_model *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_params; i++)
        n += (size_t)t_numel(m->params[i].tensor);
    return n;
}

static sr1_model *make_model_of(const char *shape, const char *dtype)
{
    sr1_model_options o = {
        .struct_size = sizeof o, .device = "cpu", .init = "fan_in", .dtype = dtype};
    sr1_model *m = NULL;

    OK(sr1_model_new_random(&m, shape, 3, &o));
    return m;
}

static sr1_model *make_model(const char *dtype)
{
    return make_model_of(config, dtype);
}

/* Numbers that differ into what training begins with as zeros. */
static void stir(sr1_model *m)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "stir");
    struct sr1__rng r;

    sr1__rng_seed(&r, 17, 0);
    sr1__scope_no_grad(s);
    for (size_t i = 0; i < m->n_params; i++) {
        sr1_tensor *w = m->params[i].tensor;
        size_t n = (size_t)t_numel(w);
        float *v = calloc(n, sizeof *v);

        for (size_t k = 0; k < n; k++)
            v[k] = (float)sr1__rng_normal(&r) * 0.03f;
        t_add_(s, w, t_from_f32(s, v, t_ndim(w), sr1__shim_sizes(w)), 1.0);
        free(v);
    }
    OK(sr1__scope_close(s));
}

static void check_same(sr1_model *m, int checkpoint)
{
    OK(sr1__model_train(m, 1));
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct groups *g = calloc(1, sizeof *g);
        double plain_loss, loss;
        float *plain, *shared, *zero = calloc(count_numbers(m), sizeof *zero);

        make_groups(g, seed);
        plain = gradients(m, g, 0, 0, &plain_loss);
        shared = gradients(m, g, 1, checkpoint, &loss);
        if (fabs(loss - plain_loss) > 1e-5 * (10.0 + fabs(plain_loss)))
            fail_msg("seed %d: %.9g is not %.9g", (int)seed, loss, plain_loss);
        assert_true(largest_gap(plain, zero, count_numbers(m)) > 1e-2);
        if (largest_gap(plain, shared, count_numbers(m)) > 2e-5)
            fail_msg("seed %d: gradients differ by %g", (int)seed,
                     largest_gap(plain, shared, count_numbers(m)));
        free(zero);
        free(plain);
        free(shared);
        free(g);
    }
    sr1_model_free(m);
}

static void gradients_are_those_of_the_plain_form(void **state)
{
    (void)state;
    check_same(make_model("fp32"), 0);
}

static void so_they_are_with_checkpointing(void **state)
{
    (void)state;
    check_same(make_model("fp32"), 1);
}

static void so_they_are_with_windows(void **state)
{
    (void)state;
    check_same(make_model_of(windowed, "fp32"), 0);
    check_same(make_model_of(windowed, "fp32"), 1);
}

static void so_are_a_critics(void **state)
{
    sr1_model *m = make_model("fp32"), *critic = NULL;

    (void)state;
    OK(sr1__model_critic(&critic, m, -1));
    stir(critic);
    check_same(critic, 0);
    sr1_model_free(m);
}

static void so_are_an_adapters(void **state)
{
    struct sr1__lora_config c = {.rank = 4, .alpha = 8};
    sr1_model *m = make_model("fp32");

    (void)state;
    OK(sr1__lora_targets_parse("all-linear", "targets", &c.targets));
    OK(sr1__model_adapt(m, &c, 5));
    stir(m);
    check_same(m, 1);
}

static double rms_gap(const float *a, const float *b, size_t n)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum / (double)n);
}

/* As near to the gradient in fp32 as the plain form is. */
static void bf16_rounds_no_worse(void **state)
{
    sr1_model *m = make_model("bf16"), *exact = NULL;

    (void)state;
    OK(sr1__model_clone(&exact, m, SR1__F32));
    OK(sr1__model_train(m, 1));
    OK(sr1__model_train(exact, 1));
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct groups *g = calloc(1, sizeof *g);
        size_t n = count_numbers(m);
        double loss, gap, plain_gap;
        float *want, *plain, *shared;

        make_groups(g, seed);
        want = gradients(exact, g, 0, 0, &loss);
        plain = gradients(m, g, 0, 0, &loss);
        shared = gradients(m, g, 1, 0, &loss);
        gap = rms_gap(want, shared, n);
        plain_gap = rms_gap(want, plain, n);
        if (gap > 1.25 * plain_gap)
            fail_msg("seed %d: off by %g, in the plain form by %g", (int)seed, gap,
                     plain_gap);
        free(want);
        free(plain);
        free(shared);
        free(g);
    }
    sr1_model_free(exact);
    sr1_model_free(m);
}

static void only_what_begins_anew_is_continued(void **state)
{
    static const int32_t ids[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t cu[4] = {0, 2, 4, 6};
    static const int32_t wrong[][3] = {{-1, 0, 1}, {0, -1, -1}, {-1, 2, -1}};
    sr1_model *m = make_model("fp32");

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct sr1__packed in = {ids, cu, 3, wrong[i]};
        sr1_scope *s = sr1__scope_open(SR1__CPU, "pass");

        assert_null(sr1__qwen_forward(s, m, &in, NULL));
        assert_int_equal(sr1__scope_close(s), SR1_E_INVALID);
    }
    sr1_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_plain_form),
        cmocka_unit_test(so_they_are_with_checkpointing),
        cmocka_unit_test(so_they_are_with_windows),
        cmocka_unit_test(so_are_a_critics),
        cmocka_unit_test(so_are_an_adapters),
        cmocka_unit_test(bf16_rounds_no_worse),
        cmocka_unit_test(only_what_begins_anew_is_continued),
    };

    return cmocka_run_group_tests_name("shared prompts", tests, NULL, NULL);
}
