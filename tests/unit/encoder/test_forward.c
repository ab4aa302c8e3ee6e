/* Hidden states, vectors and scores of golden encoders against transformers'; batches
 * against texts alone. */
#include "encoder_test.h"

/* What a case gives, under the name it has in its expected.safetensors. */
static const struct row {
    const char *name;
    int32_t output;
    const char *tensor;
} rows[] = {
    {"bert-gelu", SR1__POOL_MEAN, "mean"},
    {"bert-gelu", SR1__POOL_CLS, "cls"},
    {"bert-prefix", SR1__POOL_MEAN, "mean"},
    {"bert-relu-bf16", SR1__POOL_MEAN, "mean"},
    {"bert-fp16", SR1__POOL_CLS, "cls"},
    {"dpr-question", SR1__POOL_CLS, "output"},
    {"dpr-context", SR1__POOL_CLS, "output"},
    {"t5-relu", SR1__POOL_MEAN, "mean"},
    {"t5-relu", SR1__POOL_DECODER, "decoder"},
    {"t5-gated", SR1__POOL_CLS, "cls"},
    {"t5-gated", SR1__POOL_DECODER, "decoder"},
    {"t5-encoder", SR1__POOL_MEAN, "mean"},
    {"cross-encoder", SR1__OUTPUT_SCORE, "score"},
};
#define ROWS (sizeof rows / sizeof *rows)

static void near(const char *what, const float *got, const float *want, size_t n,
                 double tolerance)
{
    double gap = largest_gap(got, want, n);

    if (!(gap <= tolerance))
        fail_msg("%s: off by %g, not %g", what, gap, tolerance);
}

/* T5 does not divide its scores, so that rounding weighs more in its softmax. */
static double tolerance_of(const char *name)
{
    return strncmp(name, "t5", 2) == 0 ? 3e-5 : 1e-5;
}

/* The states of text i by a pass of its own. */
static void states_of(const struct sr1__encoder *e, const struct sr1__encoder_text *text,
                      float *out)
{
    int64_t cu_seqlens[2] = {0, (int64_t)text->n};
    struct sr1__encoder_pass p = {0};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "states");
    sr1_tensor *h;

    sr1__scope_no_grad(s);
    sr1__packing_make(s, &p.packing, cu_seqlens, 1, 0);
    p.ids = t_from_i32(s, text->ids, text->n);
    p.types = t_from_i32(s, text->types, text->n);
    p.positions = t_arange(s, (int64_t)text->n);
    h = e->config.arch == SR1__ENCODER_T5 ? sr1__t5_hidden(s, e, &p)
                                          : sr1__bert_hidden(s, e, &p);
    t_to_host_f32(s, h, out, text->n * (size_t)e->config.hidden_size);
    sr1__packing_free(&p.packing);
    OK(sr1__scope_close(s));
}

static void hidden_states_equal_transformers(void **state)
{
    static struct texts t;
    static float got[IDS_MAX * 64];
    char name[32];

    (void)state;
    for (size_t c = 0; c < ROWS; c++) {
        struct golden g = golden_open_kind("encoder", rows[c].name);
        struct sr1__encoder *e = encoder_open(g.dir, rows[c].output, SR1__F32);
        size_t dim = (size_t)e->config.hidden_size;

        texts_read(&t, &g);
        for (size_t i = 0; i < t.n; i++) {
            snprintf(name, sizeof name, "hidden.%zu", i);
            states_of(e, &t.text[i], got);
            near(rows[c].name, got, golden_tensor(&g, name, t.text[i].n * dim),
                 t.text[i].n * dim, tolerance_of(rows[c].name));
        }
        sr1__encoder_free(e);
        golden_close(&g);
    }
}

/* All texts of a case in batches of so many tokens, padded or not. */
static void check_outputs(const struct row *row, int64_t batch_tokens, int pad,
                          int32_t dtype, double tolerance)
{
    static struct texts t;
    struct golden g = golden_open_kind("encoder", row->name);
    struct sr1__encoder *e = encoder_open(g.dir, row->output, dtype);
    size_t dim = (size_t)sr1__encoder_dim(e);
    float got[TEXTS_MAX * 64];

    texts_read(&t, &g);
    e->pad = pad;
    OK(sr1__encoder_run(e, t.text, t.n, batch_tokens, got));
    near(row->name, got, golden_tensor(&g, row->tensor, t.n * dim), t.n * dim, tolerance);
    sr1__encoder_free(e);
    golden_close(&g);
}

static void outputs_equal_transformers(void **state)
{
    (void)state;
    for (size_t c = 0; c < ROWS; c++)
        check_outputs(&rows[c], 1, 0, SR1__F32, tolerance_of(rows[c].name));
}

static void batches_change_nothing(void **state)
{
    (void)state;
    for (size_t c = 0; c < ROWS; c++) {
        check_outputs(&rows[c], 4096, 0, SR1__F32, tolerance_of(rows[c].name));
        check_outputs(&rows[c], 50, 0, SR1__F32, tolerance_of(rows[c].name));
    }
}

static void nor_does_padding(void **state)
{
    (void)state;
    for (size_t c = 0; c < ROWS; c++) {
        check_outputs(&rows[c], 4096, 1, SR1__F32, tolerance_of(rows[c].name));
        check_outputs(&rows[c], 150, 1, SR1__F32, tolerance_of(rows[c].name));
    }
}

static void narrow_types_come_near(void **state)
{
    (void)state;
    for (size_t c = 0; c < ROWS; c++) {
        check_outputs(&rows[c], 4096, 0, SR1__BF16, 0.3);
        check_outputs(&rows[c], 4096, 1, SR1__BF16, 0.3);
        check_outputs(&rows[c], 4096, 0, SR1__F16, 0.04);
    }
}

static void no_texts_are_no_work(void **state)
{
    struct golden g = golden_open_kind("encoder", "bert-gelu");
    struct sr1__encoder *e = encoder_open(g.dir, SR1__POOL_MEAN, SR1__F32);

    (void)state;
    OK(sr1__encoder_run(e, NULL, 0, 10, NULL));
    sr1__encoder_free(e);
    golden_close(&g);
}

static void refused(const struct sr1__encoder *e, const int32_t *ids,
                    const int32_t *types, size_t n, const char *says)
{
    struct sr1__encoder_text text = {ids, types, n};
    float out[64] = {7};

    assert_int_equal(sr1__encoder_run(e, &text, 1, 100, out), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), says));
    assert_true(out[0] == 7);
}

static void ids_out_of_range_are_refused(void **state)
{
    struct golden g = golden_open_kind("encoder", "bert-gelu");
    struct sr1__encoder *e = encoder_open(g.dir, SR1__POOL_MEAN, SR1__F32);
    int32_t many[200] = {0};

    (void)state;
    refused(e, (int32_t[]){2, 79}, NULL, 2, "id 79 is not in [0, 79)");
    refused(e, (int32_t[]){-1}, NULL, 1, "id -1");
    refused(e, (int32_t[]){2}, (int32_t[]){2}, 1, "type 2 is not in [0, 2)");
    refused(e, many, NULL, 161, "161 tokens; the model reads 1 to 160");
    refused(e, many, NULL, 0, "0 tokens");
    sr1__encoder_free(e);
    golden_close(&g);
}

/* By hand for 32 buckets, 16 for a direction, 8 of them exact: the others end at
 * 8 * 16^(i/8). */
static void distances_fall_into_buckets(void **state)
{
    static const struct {
        int64_t distance;
        int64_t bucket;
    } want[] = {{0, 0},   {1, 1},   {7, 7},   {8, 8},   {11, 8},   {12, 9},  {15, 9},
                {16, 10}, {22, 10}, {23, 11}, {31, 11}, {32, 12},  {45, 12}, {46, 13},
                {63, 13}, {64, 14}, {90, 14}, {91, 15}, {128, 15}, {199, 15}};
    int64_t got[200];

    (void)state;
    OK(sr1__t5_buckets(200, 16, 128, got));
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(got[want[i].distance], want[i].bucket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_states_equal_transformers),
        cmocka_unit_test(outputs_equal_transformers),
        cmocka_unit_test(batches_change_nothing),
        cmocka_unit_test(nor_does_padding),
        cmocka_unit_test(narrow_types_come_near),
        cmocka_unit_test(no_texts_are_no_work),
        cmocka_unit_test(ids_out_of_range_are_refused),
        cmocka_unit_test(distances_fall_into_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
