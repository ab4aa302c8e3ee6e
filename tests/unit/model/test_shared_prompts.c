/* A prompt that stands once before all that continue it: hidden states and gradients are
 * those of each sequence with a prompt of its own, by rounding; log-probs by the pass
 * that decodes are, to the bit. */
#include "golden.h"

#include "base/rng.h"
#include "kernels/matmul.h"
#include "support/torture.h"
#include "tensor/model/adapter.h"
#include "tensor/model/host_score.h"
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

static const char with_experts[] =
    "{\"model_type\":\"qwen3_moe\",\"architectures\":[\"Qwen3MoeForCausalLM\"],"
    "\"hidden_size\":32,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":64,"
    "\"moe_intermediate_size\":24,\"num_experts\":6,\"num_experts_per_tok\":2,"
    "\"norm_topk_prob\":true,\"vocab_size\":101,\"max_position_embeddings\":512}";

enum { GROUPS = 5, MEMBERS = 5, PROMPT = 40, REST = 30, VOCAB = 101 };
enum { SETS = 2, SEQS = SETS * GROUPS * MEMBERS, MAX_N = SEQS * (PROMPT + REST) };

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

static struct packed *pack_sets(const struct groups *g, size_t sets, int share)
{
    struct packed *p = calloc(1, sizeof *p);

    for (size_t k = 0; k < sets; k++)
        for (int i = 0; i < GROUPS; i++)
            pack_group(p, &g[k], i, share && (g[k].members[i] > 1 || i % 2));
    return p;
}

static struct packed *pack(const struct groups *g, int share)
{
    return pack_sets(g, 1, share);
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
    sr1_tensor *h = t_index_select(s, sr1__causal_lm_forward(s, m, &in, &opt), 0,
                                   t_from_i64(s, p->rows, T_SHAPE(p->n)));

    if (m->value_head)
        h = t_to(s, sr1__causal_lm_values(s, m, h), SR1__F32);
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

/* As near to the gradient in fp32 as the plain form is, over all seeds: of one seed
 * either form may be off by half as much again as the other, as few roundings are left
 * that both have. */
static void bf16_rounds_no_worse(void **state)
{
    sr1_model *m = make_model("bf16"), *exact = NULL;
    double gaps = 0.0, plain_gaps = 0.0;

    (void)state;
    OK(sr1__model_clone(&exact, m, SR1__F32));
    OK(sr1__model_train(m, 1));
    OK(sr1__model_train(exact, 1));
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct groups *g = calloc(1, sizeof *g);
        size_t n = count_numbers(m);
        double loss;
        float *want, *plain, *shared;

        make_groups(g, seed);
        want = gradients(exact, g, 0, 0, &loss);
        plain = gradients(m, g, 0, 0, &loss);
        shared = gradients(m, g, 1, 0, &loss);
        gaps += pow(rms_gap(want, shared, n), 2.0);
        plain_gaps += pow(rms_gap(want, plain, n), 2.0);
        free(want);
        free(plain);
        free(shared);
        free(g);
    }
    if (sqrt(gaps) > 1.15 * sqrt(plain_gaps))
        fail_msg("off by %g, in the plain form by %g", sqrt(gaps), sqrt(plain_gaps));
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

        assert_null(sr1__causal_lm_forward(s, m, &in, NULL));
        assert_int_equal(sr1__scope_close(s), SR1_E_INVALID);
    }
    sr1_model_free(m);
}

/* ---- whose bits a training pass gives ---- */

static float *hidden_states(sr1_model *m, const struct sr1__packed *in)
{
    size_t n = (size_t)(in->cu_seqlens[in->n_seqs] * m->config.hidden_size);
    float *out = calloc(n, sizeof *out);
    sr1_scope *s = sr1__scope_open(SR1__CPU, "pass");

    t_to_host_f32(s, t_detach(s, sr1__causal_lm_forward(s, m, in, NULL)), out, n);
    OK(sr1__scope_close(s));
    return out;
}

/* In fp32 on a CPU, and without shared prompts. Takes m. */
static void check_own_bits(sr1_model *m)
{
    struct groups *g = calloc(1, sizeof *g);
    size_t e = 32;

    OK(sr1__model_train(m, 1));
    for (uint64_t seed = 0; seed < 4 && sr1__matmul_is_fast(0); seed++) {
        struct packed *p;
        float *all;

        make_groups(g, seed);
        p = pack(g, 0);
        all = hidden_states(m, &(struct sr1__packed){p->ids, p->cu, p->n_spans, NULL});
        for (size_t i = 0; i < p->n_spans; i++) {
            int64_t cu[2] = {0, p->cu[i + 1] - p->cu[i]};
            struct sr1__packed one = {p->ids + p->cu[i], cu, 1, NULL};
            float *alone = hidden_states(m, &one);

            assert_memory_equal(alone, all + (size_t)p->cu[i] * e,
                                (size_t)cu[1] * e * sizeof *alone);
            free(alone);
        }
        free(all);
        free(p);
    }
    free(g);
    sr1_model_free(m);
}

static void a_sequence_has_its_own_bits(void **state)
{
    (void)state;
    check_own_bits(make_model("fp32"));
    check_own_bits(make_model_of(with_experts, "fp32"));
}

/* ---- log-probs by the pass that decodes ---- */

/* As training computes them: the oracle. */
static float *training_log_probs(sr1_model *m, const struct packed *p, double temperature)
{
    struct sr1__packed in = {p->ids, p->cu, p->n_spans, NULL};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "pass");
    float *out = calloc((size_t)p->n + 1, sizeof *out);
    sr1_tensor *h;

    sr1__scope_no_grad(s);
    h = t_index_select(s, sr1__causal_lm_forward(s, m, &in, NULL), 0,
                       t_from_i64(s, p->rows, T_SHAPE(p->n)));
    h = sr1__nn_token_log_probs(s, h, m->head, t_from_i64(s, p->targets, T_SHAPE(p->n)),
                                temperature, 0, NULL);
    t_to_host_f32(s, h, out, (size_t)p->n);
    OK(sr1__scope_close(s));
    return out;
}

struct scoring {
    sr1_model *m;
    struct packed *p;
    int share;
    int64_t chunk;
    struct sr1__sampling how;
    int32_t rows[MAX_N], ids[MAX_N];
    float out[MAX_N];
};

static sr1_status score(void *arg)
{
    struct scoring *c = arg;
    const struct packed *p = c->p;
    struct sr1__packed in = {p->ids, p->cu, p->n_spans, c->share ? p->continues : NULL};
    struct sr1__score_targets targets = {c->rows, c->ids, (size_t)p->n};

    for (int64_t i = 0; i < p->n; i++) {
        c->rows[i] = (int32_t)p->rows[i];
        c->ids[i] = (int32_t)p->targets[i];
    }
    return sr1__host_score(c->m, &in, &targets, &c->how, c->chunk, c->out);
}

static void check_scores(sr1_model *m, const struct groups *g, size_t sets,
                         double temperature)
{
    struct packed *plain = pack_sets(g, sets, 0), *shared = pack_sets(g, sets, 1);
    struct scoring *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    float *want = training_log_probs(m, plain, temperature);

    *a = (struct scoring){.m = m, .p = plain, .how = {temperature, 0, 1.0}};
    *b = (struct scoring){.m = m, .p = shared, .share = 1, .chunk = 7, .how = a->how};
    OK(score(a));
    for (int64_t i = 0; i < plain->n; i++)
        if (!(fabs((double)a->out[i] - want[i]) <= 2e-5))
            fail_msg("target %d: %.9g is not %.9g", (int)i, a->out[i], want[i]);
    assert_int_equal(plain->n, shared->n);
    for (int32_t threads = 1; threads <= 3; threads++) {
        OK(sr1__torch_threads(threads));
        memset(b->out, 0, sizeof b->out);
        OK(score(b));
        assert_memory_equal(a->out, b->out, (size_t)plain->n * sizeof *a->out);
    }
    free(want);
    free(a);
    free(b);
    free(plain);
    free(shared);
}

/* However they are packed, in one cut or several, and with any number of threads. */
static void decoding_scores_the_same_log_probs(void **state)
{
    sr1_model *m = make_model("fp32");
    struct groups *g = calloc(SETS, sizeof *g);
    int32_t before = sr1__torch_threads_get();

    (void)state;
    assert_true(sr1__host_scores(m));
    for (uint64_t seed = 0; seed < 8; seed++) {
        make_groups(&g[0], seed);
        make_groups(&g[1], seed + 100);
        check_scores(m, g, 1 + seed % SETS, seed % 3 ? 1.0 : 0.7);
    }
    OK(sr1__torch_threads(before));
    free(g);
    sr1_model_free(m);
}

static void check_refused(sr1_status st, const char *text)
{
    assert_int_equal(st, SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), text));
}

static void what_cannot_be_scored_is_refused(void **state)
{
    static const int64_t cu[3] = {0, 2, 4};
    static const int32_t ids[4] = {1, 2, 3, 4}, foreign[4] = {1, 2, VOCAB, 4};
    static const struct sr1__sampling how = {1.0, 0, 1.0};
    int32_t row = 3, target = 5, beyond = 4, negative = -1;
    struct sr1__packed in = {ids, cu, 2, NULL};
    struct sr1__score_targets targets = {&row, &target, 1};
    sr1_model *m = make_model("fp32"), *bf16 = make_model("bf16");
    float out[1];

    (void)state;
    assert_false(sr1__host_scores(bf16));
    OK(sr1__host_score(m, &in, &targets, &how, 0, out));
    in.ids = foreign;
    check_refused(sr1__host_score(m, &in, &targets, &how, 0, out), "id 101");
    in.ids = ids;
    targets.rows = &beyond;
    check_refused(sr1__host_score(m, &in, &targets, &how, 0, out), "token 4");
    targets.rows = &negative;
    check_refused(sr1__host_score(m, &in, &targets, &how, 0, out), "token -1");
    targets.rows = &row;
    targets.ids = &negative;
    check_refused(sr1__host_score(m, &in, &targets, &how, 0, out), "token -1");
    sr1_model_free(bf16);
    sr1_model_free(m);
}

static void scores_fail_whole(void **state)
{
    struct groups *g = calloc(1, sizeof *g);
    struct scoring *c = calloc(1, sizeof *c);

    (void)state;
    make_groups(g, 3);
    *c = (struct scoring){.m = make_model("fp32"), .share = 1, .how = {1.0, 0, 1.0}};
    c->p = pack(g, 1);
    OK(score(c)); /* the rotary tables stay */
    torture(score, c);
    free(c->p);
    sr1_model_free(c->m);
    free(c);
    free(g);
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
        cmocka_unit_test(a_sequence_has_its_own_bits),
        cmocka_unit_test(decoding_scores_the_same_log_probs),
        cmocka_unit_test(what_cannot_be_scored_is_refused),
        cmocka_unit_test(scores_fail_whole),
    };

    return cmocka_run_group_tests_name("shared prompts", tests, NULL, NULL);
}
