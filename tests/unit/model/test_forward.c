/* Logits, log-probs and gradients of golden models against transformers'. */
#include "golden.h"

#include "tensor/model/experts.h"
#include "tensor/model/model_memory.h"
#include "tensor/model/route_log.h"

#include <searchr1/ext/model_details.h>

#define MAX_IDS 512

static sr1_model *open_golden(const struct golden *g)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    sr1_model *m = NULL;

    OK(sr1_model_open(&m, g->dir, &o));
    return m;
}

static void check_logits(const struct golden *g, sr1_model *m, size_t i)
{
    int32_t ids[MAX_IDS];
    size_t n = golden_ids(g, "sequences", i, ids, MAX_IDS);
    size_t cells = n * (size_t)sr1_model_info(m, SR1_MODEL_VOCAB);
    float *got = calloc(cells, sizeof *got);
    char name[32];

    snprintf(name, sizeof name, "logits.%zu", i);
    OK(sr1_model_logits(m, ids, n, got));
    assert_true(largest_gap(got, golden_tensor(g, name, cells), cells) <= 1e-4);
    free(got);
}

static void logits_equal_transformers(void **state)
{
    (void)state;
    for (size_t c = 0; c < GOLDEN_COUNT; c++) {
        struct golden g = golden_open(golden_names[c]);
        sr1_model *m = open_golden(&g);

        for (size_t i = 0; i < golden_count(&g, "sequences"); i++)
            check_logits(&g, m, i);
        sr1_model_free(m);
        golden_close(&g);
    }
}

/* What plans compute from config.json alone. */
static void parameters_are_counted(void **state)
{
    (void)state;
    for (size_t c = 0; c < GOLDEN_COUNT; c++) {
        struct golden g = golden_open(golden_names[c]);
        sr1_model *m = open_golden(&g);

        assert_true(sr1__memory_parameters(&m->config) ==
                    (double)sr1_model_info(m, SR1_MODEL_PARAMETERS));
        sr1_model_free(m);
        golden_close(&g);
    }
}

/* All sequences of a case packed, with the rows that predict a token of their sequence.
 */
struct batch {
    int32_t ids[MAX_IDS];
    int64_t cu_seqlens[16];
    int64_t rows[MAX_IDS];
    int64_t targets[MAX_IDS];
    size_t n_seqs;
    size_t n_rows;
};

static void pack(const struct golden *g, struct batch *b)
{
    memset(b, 0, sizeof *b);
    b->n_seqs = golden_count(g, "sequences");
    for (size_t i = 0; i < b->n_seqs; i++) {
        int64_t from = b->cu_seqlens[i];
        int64_t n = (int64_t)golden_ids(g, "sequences", i, b->ids + from,
                                        (size_t)(MAX_IDS - from));

        b->cu_seqlens[i + 1] = from + n;
        for (int64_t t = 0; t + 1 < n; t++) {
            b->rows[b->n_rows] = from + t;
            b->targets[b->n_rows++] = b->ids[from + t + 1];
        }
    }
}

/* Log-probs of all rows; a scope error shows at the caller's close. */
static sr1_tensor *batch_log_probs(sr1_scope *s, sr1_model *m, const struct batch *b,
                                   struct sr1__forward_options opt, int64_t chunk)
{
    struct sr1__packed in = {b->ids, b->cu_seqlens, b->n_seqs};
    sr1_tensor *h = sr1__causal_lm_forward(s, m, &in, &opt);
    sr1_tensor *rows = t_from_i64(s, b->rows, T_SHAPE((int64_t)b->n_rows));
    sr1_tensor *targets = t_from_i64(s, b->targets, T_SHAPE((int64_t)b->n_rows));

    return sr1__nn_token_log_probs(s, t_index_select(s, h, 0, rows), m->head, targets,
                                   1.0, chunk, NULL);
}

static void check_log_probs(const struct golden *g, const struct batch *b,
                            const float *got)
{
    for (size_t i = 0, at = 0; i < b->n_seqs; i++) {
        size_t n = (size_t)(b->cu_seqlens[i + 1] - b->cu_seqlens[i]) - 1;
        char name[32];

        snprintf(name, sizeof name, "log_probs.%zu", i);
        if (n)
            assert_true(largest_gap(got + at, golden_tensor(g, name, n), n) <= 1e-4);
        at += n;
    }
}

static void log_probs_equal_transformers(void **state)
{
    (void)state;
    for (size_t c = 0; c < GOLDEN_COUNT; c++) {
        struct golden g = golden_open(golden_names[c]);
        sr1_model *m = open_golden(&g);
        sr1_scope *s = sr1__scope_open(SR1__CPU, "log-probs");
        float got[MAX_IDS];
        struct batch b;

        pack(&g, &b);
        t_to_host_f32(s, batch_log_probs(s, m, &b, (struct sr1__forward_options){0}, 5),
                      got, b.n_rows);
        OK(sr1__scope_close(s));
        check_log_probs(&g, &b, got);
        sr1_model_free(m);
        golden_close(&g);
    }
}

static json_t *member(const struct golden *g, const char *prefix, const char *name)
{
    char whole[64];

    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return json_object_get(g->json, whole);
}

/* The gradient of the leaf rows behind a Hugging Face name, on the host. */
static float *view_grad(sr1_model *m, const struct sr1__named *view)
{
    size_t n = (size_t)t_numel(view->tensor);
    float *out = calloc(n, sizeof *out);
    sr1_scope *s = sr1__scope_open(SR1__CPU, "gradient of %s", view->name);
    const char *base = sr1__shim_data(view->tensor);

    for (size_t i = 0; i < m->n_params; i++) {
        sr1_tensor *leaf = m->params[i].tensor;
        const char *p = sr1__shim_data(leaf);
        int64_t row = t_numel(leaf) / t_size(leaf, 0) * (int64_t)sizeof(float);

        if (base < p || base >= p + t_size(leaf, 0) * row)
            continue;
        t_to_host_f32(
            s, t_narrow(s, t_grad(s, leaf), 0, (base - p) / row, t_size(view->tensor, 0)),
            out, n);
    }
    OK(sr1__scope_close(s));
    return out;
}

/* Of the loss (prefix ""), of that of routers ("aux_"), or with router replay. */
static void check_gradients(const struct golden *g, sr1_model *m, const char *prefix)
{
    json_t *norms = member(g, prefix, "grad_norms");
    size_t compared = 0;

    assert_int_equal(json_object_size(norms), m->n_views);
    for (size_t i = 0; i < m->n_views; i++) {
        const struct sr1__named *v = &m->views[i];
        size_t n = (size_t)t_numel(v->tensor);
        double want = json_number_value(json_object_get(norms, v->name));
        float *got = view_grad(m, v);
        double sum = 0.0;
        char name[200];

        for (size_t k = 0; k < n; k++)
            sum += (double)got[k] * (double)got[k];
        assert_true(fabs(sqrt(sum) - want) <= 1e-4 * (1.0 + want));
        snprintf(name, sizeof name, "%sgrad.%s", prefix, v->name);
        if (sr1__weights_find(g->expected, name)) {
            assert_true(largest_gap(got, golden_tensor(g, name, n), n) <= 1e-4);
            compared++;
        }
        free(got);
    }
    if (*prefix || strcmp(strrchr(g->dir, '/'), "/qwen3-tied") == 0)
        assert_true(compared > 0);
}

static void gradients_equal_transformers(void **state)
{
    (void)state;
    for (size_t c = 0; c < GOLDEN_COUNT * 2; c++) {
        struct golden g = golden_open(golden_names[c / 2]);
        sr1_model *m = open_golden(&g);
        sr1_scope *s = sr1__scope_open(SR1__CPU, "step");
        sr1_tensor *loss;
        struct sr1__forward_options opt = {.checkpoint = c % 2};
        struct batch b;
        double value;

        pack(&g, &b);
        OK(sr1__model_train(m, 1));
        loss = t_neg(s, t_mean(s, batch_log_probs(s, m, &b, opt, c % 2 ? 3 : 0)));
        t_backward(s, loss);
        value = t_item(s, loss);
        OK(sr1__scope_close(s));
        assert_true(fabs(value - json_number_value(json_object_get(g.json, "loss"))) <
                    1e-4);
        check_gradients(&g, m, "");
        sr1_model_free(m);
        golden_close(&g);
    }
}

/* ---- experts ---- */

enum { TOKENS = 32 };

static void fill_wavy(float *v, size_t n, double a)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (float)sin(a * (double)(i + 1));
}

/* All experts of a token have nearly the same logit, in bf16 most of them the same. */
static void set_even_router(sr1_scope *s, const sr1_model *m)
{
    size_t e = (size_t)m->config.hidden_size, n = (size_t)m->config.n_experts;
    float *rows = calloc(n * e, sizeof *rows);

    assert_true(n <= e);
    for (size_t i = 0; i < n; i++) {
        fill_wavy(rows + i * e, e, 1.7);
        rows[i * e + i] *= 1.0f + 1.0f / 64;
    }
    t_copy_(s, m->layers[0].router, t_from_f32(s, rows, T_SHAPE((int64_t)n, (int64_t)e)));
    free(rows);
}

/* Of the same tokens in bf16 and in fp32 the experts are the same. */
static void experts_are_chosen_by_sums_in_fp32(void **state)
{
    const struct sr1__attention by = {NULL};
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "bf16"};
    struct golden g = golden_open("qwen3-moe");
    sr1_model *m = NULL, *exact = NULL;
    sr1_scope *s = sr1__scope_open(SR1__CPU, "experts");
    float *x, *y[2];
    sr1_tensor *tokens;
    size_t e;

    (void)state;
    OK(sr1_model_open(&m, g.dir, &o));
    e = (size_t)m->config.hidden_size;
    sr1__scope_no_grad(s);
    set_even_router(s, m);
    OK(sr1__model_clone(&exact, m, SR1__F32));
    x = calloc(3 * TOKENS * e, sizeof *x);
    y[0] = x + TOKENS * e;
    y[1] = y[0] + TOKENS * e;
    fill_wavy(x, TOKENS * e, 2.3);
    tokens = t_to(s, t_from_f32(s, x, T_SHAPE(TOKENS, (int64_t)e)), SR1__BF16);
    t_to_host_f32(s, sr1__experts_run(s, m, &by, 0, tokens, NULL, NULL), y[0],
                  TOKENS * e);
    t_to_host_f32(
        s, sr1__experts_run(s, exact, &by, 0, t_to(s, tokens, SR1__F32), NULL, NULL),
        y[1], TOKENS * e);
    OK(sr1__scope_close(s));
    for (size_t i = 0; i < TOKENS; i++) {
        double most = 0;

        for (size_t k = 0; k < e; k++)
            most = fmax(most, fabs((double)y[1][i * e + k]));
        if (!(largest_gap(y[0] + i * e, y[1] + i * e, e) <= 0.03 * most))
            fail_msg("token %zu: off by %g of %g", i,
                     largest_gap(y[0] + i * e, y[1] + i * e, e), most);
    }
    free(x);
    sr1_model_free(m);
    sr1_model_free(exact);
    golden_close(&g);
}

/* Its gradient alone: that of the log-probs is 0. */
static void check_router_loss(const struct golden *g, int checkpoint)
{
    struct sr1__router_loss router = {.weight = 1.0};
    struct sr1__forward_options opt = {.checkpoint = checkpoint, .router = &router};
    sr1_model *m = open_golden(g);
    sr1_scope *s = sr1__scope_open(SR1__CPU, "step");
    sr1_tensor *outputs;
    struct batch b;

    pack(g, &b);
    OK(sr1__model_train(m, 1));
    outputs = batch_log_probs(s, m, &b, opt, 0);
    t_backward_with(s, outputs, t_full(s, 0.0, SR1__F32, T_SHAPE((int64_t)b.n_rows)));
    OK(sr1__scope_close(s));
    assert_true(fabs(router.value - json_number_value(member(g, "aux_", "loss"))) < 1e-5);
    check_gradients(g, m, "aux_");
    sr1_model_free(m);
}

/* load_balancing_loss_func of transformers. */
static void the_loss_of_routers_equals_transformers(void **state)
{
    size_t n = 0;

    (void)state;
    for (size_t c = 0; c < GOLDEN_COUNT; c++) {
        struct golden g = golden_open(golden_names[c]);

        for (int checkpoint = 0; member(&g, "aux_", "loss") && checkpoint < 2; n++)
            check_router_loss(&g, checkpoint++);
        golden_close(&g);
    }
    assert_int_equal(n, 4);
}

static void saved_model_loads_equal(void **state)
{
    static const char dir[] = "test-forward-saved";

    (void)state;
    for (size_t c = 0; c < GOLDEN_COUNT; c++) {
        struct golden g = golden_open(golden_names[c]);
        sr1_model *m = open_golden(&g);
        sr1_model *again = NULL;

        OK(sr1_model_save(m, dir));
        sr1_model_free(m);
        OK(sr1_model_open(&again, dir, NULL));
        for (size_t i = 0; i < golden_count(&g, "sequences"); i++)
            check_logits(&g, again, i);
        sr1_model_free(again);
        OK(sr1__dir_remove(dir));
        golden_close(&g);
    }
}

/* ---- router replay ---- */

/* A place of its own for each token of a batch. */
static void place_tokens(struct sr1__route_log *log, const struct batch *b,
                         int64_t places[MAX_IDS])
{
    for (int64_t i = 0; i < b->cu_seqlens[b->n_seqs]; i++)
        OK(sr1__route_log_place(log, (uint64_t)i, &places[i]));
}

static void negate_routers(sr1_model *m)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "routers");

    sr1__scope_no_grad(s);
    for (int64_t i = 0; i < m->config.n_layers; i++)
        if (m->layers[i].router)
            t_mul_scalar_(s, m->layers[i].router, -1.0);
    OK(sr1__scope_close(s));
    sr1__model_touch(m);
}

static void run_replay(const struct golden *g, sr1_model *m, const struct batch *b,
                       const struct sr1__routes *routes, int checkpoint)
{
    struct sr1__forward_options opt = {.checkpoint = checkpoint, .routes = routes};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "step");
    sr1_tensor *outputs = batch_log_probs(s, m, b, opt, 0);
    float got[MAX_IDS];

    t_to_host_f32(s, outputs, got, b->n_rows);
    t_backward_with(
        s, outputs,
        t_full(s, -1.0 / (double)b->n_rows, SR1__F32, T_SHAPE((int64_t)b->n_rows)));
    OK(sr1__scope_close(s));
    check_log_probs(g, b, got);
    check_gradients(g, m, "replay_");
    sr1__model_clear_grad(m);
}

/* Routers that have changed weigh the experts that were chosen before. */
static void replayed_experts_equal_transformers(void **state)
{
    static const char *const names[] = {"qwen3-moe", "qwen3-moe-sparse"};

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        struct golden of = golden_open(names[c]),
                      g = golden_open_kind("replay", names[c]);
        sr1_model *m = open_golden(&of);
        int64_t places[MAX_IDS];
        struct sr1__routes routes = {.places = places};
        struct sr1__forward_options opt = {.routes = &routes};
        sr1_scope *s = sr1__scope_open(SR1__CPU, "routers");
        struct batch b;

        pack(&g, &b);
        OK(sr1__route_log_new(&routes.log, &m->config));
        place_tokens(routes.log, &b, places);
        sr1__scope_no_grad(s);
        (void)batch_log_probs(s, m, &b, opt, 0);
        OK(sr1__scope_close(s));
        negate_routers(m);
        OK(sr1__model_train(m, 1));
        run_replay(&g, m, &b, &routes, 0);
        run_replay(&g, m, &b, &routes, 1);
        sr1__route_log_free(routes.log);
        sr1_model_free(m);
        golden_close(&of);
        golden_close(&g);
    }
}

/* Two micro-batches with one prompt, whose passes may meet in any order. */
static void the_first_micro_batch_decides_of_a_prompt(void **state)
{
    static const int64_t first[2][2] = {{1, 2}, {7, 0}}, second[2][2] = {{3, 4}, {5, 6}};
    static const uint32_t orders[][4] = {{1, 1, 2, 2}, {2, 2, 1, 1}, {2, 1, 2, 1}};
    const struct sr1__hf_config config = {
        .n_experts = 8, .experts_per_token = 2, .n_layers = 2};

    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        int64_t place, chosen[2];
        struct sr1__routes routes = {.places = &place};
        int32_t layers[3] = {0, 0, 0}; /* that a pass comes to next */

        OK(sr1__route_log_new(&routes.log, &config));
        OK(sr1__route_log_place(routes.log, 9, &place));
        for (int again = 0; again < 2; again++) { /* as after a pass that failed */
            sr1__route_log_restart(routes.log);
            memset(layers, 0, sizeof layers);
            for (size_t k = 0; k < 4; k++) {
                const int64_t(*own)[2] = orders[i][k] == 1 ? first : second;
                int32_t layer = layers[orders[i][k]]++;

                memcpy(chosen, own[layer], sizeof chosen);
                routes.recording = orders[i][k];
                sr1__route_log_apply(&routes, 1, layer, chosen);
                assert_memory_equal(chosen, own[layer], sizeof chosen);
            }
        }
        routes.recording = 0;
        for (int32_t layer = 0; layer < 2; layer++) {
            memset(chosen, 0, sizeof chosen);
            sr1__route_log_apply(&routes, 1, layer, chosen);
            assert_memory_equal(chosen, first[layer], sizeof chosen);
        }
        sr1__route_log_free(routes.log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_equal_transformers),
        cmocka_unit_test(parameters_are_counted),
        cmocka_unit_test(log_probs_equal_transformers),
        cmocka_unit_test(gradients_equal_transformers),
        cmocka_unit_test(experts_are_chosen_by_sums_in_fp32),
        cmocka_unit_test(the_loss_of_routers_equals_transformers),
        cmocka_unit_test(replayed_experts_equal_transformers),
        cmocka_unit_test(the_first_micro_batch_decides_of_a_prompt),
        cmocka_unit_test(saved_model_loads_equal),
    };

    return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
