/* Decoding with a cache equals the full forward pass, however the tokens are cut into
 * feeds and whatever other rows do; greedy continuations equal transformers'. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tensor/model/model_decoder.h"
#include "tensor/model/host_weights.h"
#include "tensor/model/kv.h"
#include "tensor/ops/int8_linear.h"
#include "support/device.h"
#include "support/golden_models.h"

#include <searchr1/ext/model_details.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VOCAB 128
#define ROWS 6
#define TOKENS 150 /* several pages of the cache */

static char *case_path(const char *name, const char *file)
{
    static char path[600];

    snprintf(path, sizeof path, "%s/tests/golden/model/%s/%s", getenv("SR1_SRC"), name,
             file);
    return path;
}

static sr1_model *open_model(const char *name, const char *dtype)
{
    sr1_model_options options = {
        .struct_size = sizeof options, .device = test_device(), .dtype = dtype};
    sr1_model *m = NULL;

    if (sr1_model_open(&m, case_path(name, ""), &options) != SR1_OK)
        fail_msg("%s: %s", name, sr1_last_error());
    return m;
}

static int int8;         /* decoders have int8 weights, */
static int narrow_cache; /* and a cache in bf16 */

static struct sr1__decoder *new_decoder(sr1_model *m, int32_t rows, int64_t tokens)
{
    struct sr1__decoder *d = NULL;

    assert_int_equal(sr1__decoder_new(&d, m, rows, tokens), SR1_OK);
    if (int8)
        assert_int_equal(sr1__decoder_quantize(d), SR1_OK);
    if (narrow_cache)
        assert_int_equal(sr1__decoder_narrow_cache(d), SR1_OK);
    return d;
}

static void feed(struct sr1__decoder *d, int32_t row, const int32_t *ids, size_t n)
{
    struct sr1__decode_input f = {row, ids, n};

    if (sr1__decoder_decode(d, &f, 1) != SR1_OK)
        fail_msg("%s", sr1_last_error());
}

/* The precision of a model, and what its cache is. */
static const struct kind {
    const char *name;
    const char *dtype;
    double tolerance; /* of a difference, as a part of the row's largest logit */
} kinds[] = {
    {"qwen3-tied", "fp32", 1e-5},     {"qwen3-group8-sharded", "fp32", 1e-5},
    {"qwen3-bias", "fp32", 1e-5},     {"qwen2-tied", "fp32", 1e-5},
    {"llama-scaled", "fp32", 1e-5},   {"qwen3-yarn", "fp32", 1e-5},
    {"smollm3-window", "fp32", 1e-5}, {"mistral-window", "bf16", 0.05},
    {"gemma3", "fp32", 1e-5},         {"qwen3-moe", "fp32", 1e-5},
    {"mistral-window", "fp16", 0.01}, /* slots, as the last */
    {"qwen3-bf16", "bf16", 0.05},     {"qwen3-fp16", "fp16", 0.01},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static int32_t ids[ROWS][TOKENS];
static float full[ROWS][TOKENS][VOCAB];

static void make_rows(sr1_model *m, uint64_t seed)
{
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, 0);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t t = 0; t < TOKENS; t++)
            ids[r][t] = (int32_t)sr1__rng_below(&rng, VOCAB);
        assert_int_equal(sr1_model_logits(m, ids[r], TOKENS, full[r][0]), SR1_OK);
    }
}

static void check_logits(struct sr1__decoder *d, int32_t row, size_t source,
                         double tolerance)
{
    int64_t n = sr1__decoder_length(d, row);
    const float *got = sr1__decoder_logits(d, row);
    double worst = 0;
    double scale = 1;

    assert_non_null(got);
    for (size_t i = 0; i < VOCAB; i++) {
        worst = fmax(worst, fabs((double)got[i] - (double)full[source][n - 1][i]));
        scale = fmax(scale, fabs((double)full[source][n - 1][i]));
    }
    if (!(worst <= tolerance * scale))
        fail_msg("row %d after %d tokens: logits up to %g differ by %g", (int)row, (int)n,
                 scale, worst);
}

/* Rows advance by random amounts, some at a time, and start anew at random. */
static void random_feeds(const struct kind *kind)
{
    sr1_model *m = open_model(kind->name, kind->dtype);
    struct sr1__decoder *d = new_decoder(m, ROWS, TOKENS);
    struct sr1__decoder_stats stats;
    struct sr1__rng rng;
    int64_t fed = 0;
    int steps = 0;

    make_rows(m, 5);
    sr1__rng_seed(&rng, 9, 0);
    while (steps < 60) {
        struct sr1__decode_input feeds[ROWS];
        size_t n = 0;

        for (int32_t r = ROWS - 1; r >= 0; r--) { /* not in the order of rows */
            size_t at = (size_t)sr1__decoder_length(d, r);
            size_t step = sr1__rng_below(&rng, 3) ? 1 : 1 + sr1__rng_below(&rng, 40);

            if (sr1__rng_below(&rng, 4) == 0)
                continue;
            if (at == TOKENS || sr1__rng_below(&rng, 25) == 0) {
                sr1__decoder_clear(d, r);
                assert_null(sr1__decoder_logits(d, r));
                at = 0;
            }
            step = step < TOKENS - at ? step : TOKENS - at;
            feeds[n++] = (struct sr1__decode_input){r, ids[r] + at, step};
            fed += (int64_t)step;
        }
        if (n == 0)
            continue;
        if (sr1__decoder_decode(d, feeds, n) != SR1_OK)
            fail_msg("%s: %s", kind->name, sr1_last_error());
        steps++;
        for (size_t i = 0; i < n; i++)
            check_logits(d, feeds[i].row, (size_t)feeds[i].row, kind->tolerance);
    }
    sr1__decoder_stats(d, &stats);
    assert_int_equal(stats.forwards, steps);
    assert_int_equal(stats.tokens_fed, fed);
    assert_true(stats.cache_bytes > 0);
    sr1__decoder_reset(d);
    sr1__decoder_stats(d, &stats);
    assert_int_equal(stats.cache_bytes, 0);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

static void test_any_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++)
        random_feeds(&kinds[i]);
}

/* Forks share the prompt; what one appends is not seen by another. */
static void test_fork(void **state)
{
    static const size_t cuts[] = {1, 31, 32, 33, 70};
    const int32_t to[] = {3, 0, 5};

    (void)state;
    for (size_t k = 0; k < N_KINDS; k++) {
        sr1_model *m = open_model(kinds[k].name, kinds[k].dtype);
        struct sr1__decoder *d = new_decoder(m, ROWS, TOKENS);

        make_rows(m, 6);
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            size_t cut = cuts[c];

            /* rows 0, 3, 5 are to continue row 2's beginning in ways of their own */
            for (size_t i = 0; i < 3; i++)
                memcpy(ids[to[i]], ids[2], cut * sizeof(int32_t));
            for (size_t i = 0; i < 3; i++)
                assert_int_equal(sr1_model_logits(m, ids[to[i]], TOKENS, full[to[i]][0]),
                                 SR1_OK);
            sr1__decoder_clear(d, 2);
            feed(d, 5, ids[1], 40); /* to be overwritten */
            feed(d, 2, ids[2], cut);
            assert_int_equal(sr1__decoder_fork(d, 2, to, 3), SR1_OK);
            for (size_t i = 0; i < 3; i++)
                check_logits(d, to[i], (size_t)to[i], kinds[k].tolerance);
            feed(d, 3, ids[3] + cut, 1);
            feed(d, 2, ids[2] + cut, 1);
            feed(d, 0, ids[0] + cut, 50);
            feed(d, 5, ids[5] + cut, 2);
            feed(d, 3, ids[3] + cut + 1, 9);
            sr1__decoder_clear(d, 2);
            for (size_t t = cut + 2; t < cut + 40; t++)
                feed(d, 5, ids[5] + t, 1);
            for (size_t i = 0; i < 3; i++)
                check_logits(d, to[i], (size_t)to[i], kinds[k].tolerance);
        }
        sr1__decoder_free(d);
        sr1_model_free(m);
    }
}

/* Forked rows share memory: eight copies of a long prompt take little more than one. */
static void test_fork_memory(void **state)
{
    const int32_t to[] = {1, 2, 3, 4, 5, 6, 7};
    struct sr1__decoder_stats one;
    struct sr1__decoder_stats all;
    struct sr1__decoder *d;
    sr1_model *m;

    (void)state;
    m = open_model("qwen3-tied", "fp32");
    d = new_decoder(m, 8, TOKENS);
    make_rows(m, 6);
    feed(d, 0, ids[0], 130);
    sr1__decoder_stats(d, &one);
    assert_int_equal(sr1__decoder_fork(d, 0, to, 7), SR1_OK);
    for (int32_t r = 1; r < 8; r++)
        feed(d, r, ids[0] + 130, 1);
    sr1__decoder_stats(d, &all);
    assert_true(all.cache_bytes < 3 * one.cache_bytes);
    assert_int_equal(all.forwards, 8);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

/* All prompts of a case together; greedy ids are those of transformers. */
static void check_greedy(const char *name)
{
    enum { N = 3, NEW = 20 };
    sr1_model *m = open_model(name, "fp32");
    struct sr1__decoder *d = new_decoder(m, N, 64);
    const struct sr1__sampling greedy = {0, 0, 1};
    const int32_t rows[N] = {0, 1, 2};
    struct sr1__decode_input feeds[N];
    int32_t prompt[N][64];
    int32_t next[N];
    json_t *facts = NULL;

    assert_int_equal(sr1__json_load(&facts, case_path(name, "expected.json"), 0), SR1_OK);
    for (int32_t r = 0; r < N; r++) {
        json_t *list = json_array_get(json_object_get(facts, "prompts"), (size_t)r);

        for (size_t i = 0; i < json_array_size(list); i++)
            prompt[r][i] = (int32_t)json_integer_value(json_array_get(list, i));
        feeds[r] = (struct sr1__decode_input){r, prompt[r], json_array_size(list)};
        assert_true(feeds[r].n_ids > 0);
    }
    for (size_t t = 0; t < NEW; t++) {
        float log_probs[N];

        assert_int_equal(sr1__decoder_decode(d, feeds, N), SR1_OK);
        assert_int_equal(
            sr1__decoder_sample(d, rows, N, &greedy, NULL, next, log_probs, NULL),
            SR1_OK);
        for (int32_t r = 0; r < N; r++) {
            json_t *list = json_array_get(json_object_get(facts, "greedy"), (size_t)r);

            assert_int_equal(next[r], json_integer_value(json_array_get(list, t)));
            assert_true(log_probs[r] < 0);
            feeds[r] = (struct sr1__decode_input){r, &next[r], 1};
        }
    }
    json_decref(facts);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

static void test_greedy(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++)
        check_greedy(golden_names[i]);
}

/* Log-probs of drawn tokens equal those of the training forward at the same temperature.
 */
static void test_log_probs(void **state)
{
    enum { N = 4, NEW = 60 };
    sr1_model *m = open_model("qwen3-tied", "fp32");
    struct sr1__decoder *d = new_decoder(m, N, TOKENS);
    const struct sr1__sampling sampling = {0.7, 0, 1};
    const int32_t rows[N] = {0, 1, 2, 3};
    struct sr1__rng streams[N];
    struct sr1__rng *rngs[N];
    struct sr1__decode_input feeds[N];
    float log_probs[NEW][N];
    int32_t next[N];
    int32_t seq[N][NEW + 1];

    (void)state;
    for (int32_t r = 0; r < N; r++) {
        sr1__rng_seed(&streams[r], 1, (uint64_t)r);
        rngs[r] = &streams[r];
        seq[r][0] = 7 + r;
        feeds[r] = (struct sr1__decode_input){r, &seq[r][0], 1};
    }
    for (size_t t = 0; t < NEW; t++) {
        assert_int_equal(sr1__decoder_decode(d, feeds, N), SR1_OK);
        assert_int_equal(
            sr1__decoder_sample(d, rows, N, &sampling, rngs, next, log_probs[t], NULL),
            SR1_OK);
        for (int32_t r = 0; r < N; r++) {
            seq[r][t + 1] = next[r];
            feeds[r].ids = &seq[r][t + 1];
        }
    }
    for (int32_t r = 0; r < N; r++) {
        const int64_t cu[2] = {0, NEW};
        const struct sr1__packed in = {seq[r], cu, 1};
        float got[NEW];
        int64_t targets[NEW];
        sr1_scope *s = sr1__scope_open(m->device, "test");
        sr1_tensor *lp;

        for (size_t t = 0; t < NEW; t++)
            targets[t] = seq[r][t + 1];
        lp = sr1__nn_token_log_probs(s, sr1__causal_lm_forward(s, m, &in, NULL), m->head,
                                     t_from_i64(s, targets, T_SHAPE(NEW)), 0.7, 0, NULL);
        t_to_host_f32(s, lp, got, NEW);
        assert_int_equal(sr1__scope_close(s), SR1_OK);
        for (size_t t = 0; t < NEW; t++)
            assert_true(fabs((double)got[t] - (double)log_probs[t][r]) < 2e-5);
    }
    sr1__decoder_free(d);
    sr1_model_free(m);
}

static void refused(struct sr1__decoder *d, const struct sr1__decode_input *f, size_t n,
                    sr1_status status, const char *text)
{
    sr1_status got = sr1__decoder_decode(d, f, n);

    if (got != status || !strstr(sr1_last_error(), text))
        fail_msg("%d: %s; wanted %d: %s", (int)got, sr1_last_error(), (int)status, text);
}

/* Refused feeds and draws leave every row as it was. */
static void test_refusals(void **state)
{
    sr1_model *m = open_model("qwen3-tied", "fp32");
    struct sr1__decoder *d = new_decoder(m, 3, 50);
    const int32_t bad[3] = {5, VOCAB, 5};
    const int32_t self = 1;
    const struct sr1__sampling warm = {1, 0, 1};
    const int32_t rows[2] = {1, 2};
    struct sr1__decoder *none = NULL;
    int32_t out[2];

    (void)state;
    make_rows(m, 1);
    feed(d, 1, ids[1], 20);
    refused(d, &(struct sr1__decode_input){3, ids[0], 1}, 1, SR1_E_INVALID, "row 3");
    refused(d, &(struct sr1__decode_input){-1, ids[0], 1}, 1, SR1_E_INVALID, "row -1");
    refused(d, &(struct sr1__decode_input){1, ids[0], 0}, 1, SR1_E_INVALID, "no tokens");
    refused(d, &(struct sr1__decode_input){1, ids[0], 31}, 1, SR1_E_LIMIT,
            "maximum is 50");
    refused(d, &(struct sr1__decode_input){1, bad, 3}, 1, SR1_E_INVALID, "128");
    refused(d, (const struct sr1__decode_input[]){{1, ids[0], 1}, {1, ids[0], 1}}, 2,
            SR1_E_INVALID, "twice");
    refused(d, (const struct sr1__decode_input[]){{1, ids[1] + 20, 5}, {2, bad, 3}}, 2,
            SR1_E_INVALID, "128");
    assert_int_equal(sr1__decoder_sample(d, rows, 2, &warm, NULL, out, NULL, NULL),
                     SR1_E_INVALID);
    assert_int_equal(sr1__decoder_sample(d, rows, 2, &(struct sr1__sampling){0, 0, 1},
                                         NULL, out, NULL, NULL),
                     SR1_E_STATE);
    assert_int_equal(sr1__decoder_fork(d, 1, &self, 1), SR1_E_INVALID);
    assert_int_equal(sr1__decoder_new(&none, m, 0, 5), SR1_E_INVALID);
    assert_int_equal(sr1__decoder_length(d, 1), 20);
    assert_int_equal(sr1__decoder_length(d, 2), 0);
    check_logits(d, 1, 1, 1e-5);
    feed(d, 1, ids[1] + 20, 5);
    check_logits(d, 1, 1, 1e-5);
    sr1__model_touch(m);
    refused(d, &(struct sr1__decode_input){1, ids[1], 1}, 1, SR1_E_STATE,
            "weights have changed");
    feed(d, 2, ids[2], 4);
    sr1__decoder_clear(d, 1);
    feed(d, 1, ids[1], 10);
    check_logits(d, 1, 1, 1e-5);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

/* Rows that share the first part of another say of given tokens what the whole logits do,
 * and go on from there. */
static void test_score(void **state)
{
    static const size_t cuts[] = {1, 31, 32, 33, 70};

    (void)state;
    for (size_t k = 0; k < N_KINDS; k++) {
        sr1_model *m = open_model(kinds[k].name, kinds[k].dtype);
        struct sr1__decoder *d = new_decoder(m, ROWS, TOKENS);
        double most = 0;

        make_rows(m, 4);
        feed(d, 0, ids[0], 100);
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            size_t cut = cuts[c], asked[2] = {3, 12};
            struct sr1__decode_input feeds[2] = {{1, ids[0] + cut, 4},
                                                 {2, ids[0] + cut, 20}};
            float log_probs[15], entropies[15];

            assert_int_equal(sr1__decoder_fork_part(d, 0, 1, (int64_t)cut), SR1_OK);
            assert_int_equal(sr1__decoder_fork_part(d, 0, 2, (int64_t)cut), SR1_OK);
            assert_null(sr1__decoder_logits(d, 1));
            if (sr1__decoder_score(d, feeds, asked, 2, 0.7, log_probs, entropies) !=
                SR1_OK)
                fail_msg("%s: %s", kinds[k].name, sr1_last_error());
            assert_null(sr1__decoder_logits(d, 1));
            assert_int_equal(sr1__decoder_length(d, 1), cut + 3);
            assert_int_equal(sr1__decoder_length(d, 2), cut + 19);
            for (size_t i = 0; i < 15; i++) {
                size_t at = cut + (i < 3 ? 1 + i : 8 + i - 3);
                const float *z = full[0][at - 1];
                double sum = 0, mean = 0;

                for (size_t v = 0; v < VOCAB; v++)
                    sum += exp(z[v] / 0.7);
                for (size_t v = 0; v < VOCAB; v++)
                    mean += exp(z[v] / 0.7) / sum * z[v] / 0.7;
                most = fmax(most, fabs(z[ids[0][at]] / 0.7 - log(sum) - log_probs[i]));
                most = fmax(most, fabs(log(sum) - mean - entropies[i]));
            }
            feed(d, 2, ids[0] + cut + 19, 5);
            check_logits(d, 2, 0, kinds[k].tolerance);
        }
        if (!(most <= 20 * kinds[k].tolerance))
            fail_msg("%s: scores differ by %g", kinds[k].name, most);
        assert_int_equal(sr1__decoder_fork_part(d, 0, 1, 101), SR1_E_INVALID);
        assert_int_equal(sr1__decoder_score(d, &(struct sr1__decode_input){1, ids[0], 2},
                                            &(size_t){2}, 1, 1.0, full[0][0], full[0][0]),
                         SR1_E_INVALID);
        for (int32_t bad = -1; bad <= VOCAB; bad += VOCAB + 1) {
            const int32_t last[2] = {5, bad}; /* the second is asked for, not fed */

            assert_int_equal(
                sr1__decoder_score(d, &(struct sr1__decode_input){2, last, 2},
                                   &(size_t){1}, 1, 1.0, full[0][0], full[0][0]),
                SR1_E_INVALID);
            assert_non_null(strstr(sr1_last_error(), "[0, 128)"));
        }
        sr1__decoder_free(d);
        sr1_model_free(m);
    }
}

/* Keys and values of `v` for the spans' tokens; what layer 0 gives for the first one. */
static float attend_all(struct sr1__kv *kv, const sr1_model *m,
                        struct sr1__kv_span *spans, size_t n, double v)
{
    const struct sr1__hf_config *c = &m->config;
    int64_t total, places[16], positions[16] = {0};
    sr1_scope *s = sr1__scope_open(m->device, "test");
    sr1_tensor *q, *k, *y;
    float first = NAN;

    assert_int_equal(kv->ops->reserve(kv, spans, n), SR1_OK);
    sr1__scope_inference(s);
    total = kv->ops->layout(kv, spans, n);
    kv->ops->list_places(kv, spans, n, places, total);
    for (size_t i = 0; i < n; i++)
        for (int64_t t = 0; t < spans[i].n; t++)
            positions[spans[i].first + t] = spans[i].past + t;
    kv->ops->begin(s, kv, t_from_i64(s, places, T_SHAPE(total)),
                   t_from_i64(s, positions, T_SHAPE(total)));
    q = t_full(s, 1.0, m->dtype, T_SHAPE(total, c->n_heads, c->head_dim));
    k = t_full(s, v, m->dtype, T_SHAPE(total, c->n_kv_heads, c->head_dim));
    y = t_to(s, kv->ops->attend(s, kv, 0, spans, n, q, k, k), SR1__F32);
    y = t_reshape(s, y, T_SHAPE(-1));
    t_to_host_f32(s, t_narrow(s, y, 0, 0, 1), &first, 1);
    assert_int_equal(sr1__scope_close(s), SR1_OK);
    return first;
}

/* What is not finite in a sequence that is over does not reach the next one in its place.
 */
static void test_slot_again(void **state)
{
    struct sr1__kv_span overflowed = {0, 0, 0, 8}, other = {1, 0, 0, 8};
    struct sr1__kv_span next[2] = {{0, 0, 0, 1}, {1, 1, 8, 1}};
    sr1_model *m = open_model("qwen3-fp16", "fp16");
    struct sr1__kv *kv = NULL;

    (void)state;
    assert_int_equal(sr1__kv_slots_new(&kv, m, 2, 64), SR1_OK);
    (void)attend_all(kv, m, &overflowed, 1, INFINITY);
    (void)attend_all(kv, m, &other, 1, 0.5);
    kv->ops->clear(kv, 0);
    assert_true(attend_all(kv, m, next, 2, 0.5) == 0.5F);
    kv->ops->clear(kv, 0);
    kv->ops->clear(kv, 1);
    kv->ops->free(kv);
    sr1_model_free(m);
}

/* Logits of each row alone: one row, one thread, a token a feed. */
static void make_rows_alone(sr1_model *m)
{
    struct sr1__decoder *d;

    assert_int_equal(sr1__torch_threads(1), SR1_OK);
    d = new_decoder(m, 1, TOKENS);
    for (size_t r = 0; r < ROWS; r++) {
        sr1__decoder_clear(d, 0);
        for (size_t t = 0; t < TOKENS; t++) {
            feed(d, 0, ids[r] + t, 1);
            memcpy(full[r][t], sr1__decoder_logits(d, 0), sizeof full[r][t]);
        }
    }
    sr1__decoder_free(d);
}

/* What a feed's rows draw is what each draws alone from the logits that it has alone. */
static void check_draws_alone(struct sr1__decoder *d, const int32_t *rows, size_t n,
                              uint64_t seed)
{
    static const struct sr1__sampling sampling = {0.8, 0, 0.95};
    struct sr1__rng streams[ROWS];
    struct sr1__rng *rngs[ROWS];
    int32_t drawn[ROWS];
    float log_probs[ROWS], entropies[ROWS];

    for (size_t i = 0; i < n; i++) {
        sr1__rng_seed(&streams[i], seed, (uint64_t)rows[i]);
        rngs[i] = &streams[i];
    }
    assert_int_equal(
        sr1__decoder_sample(d, rows, n, &sampling, rngs, drawn, log_probs, entropies),
        SR1_OK);
    for (size_t i = 0; i < n; i++) {
        int64_t at = sr1__decoder_length(d, rows[i]) - 1;
        struct sr1__sample one;
        struct sr1__rng rng;

        sr1__rng_seed(&rng, seed, (uint64_t)rows[i]);
        assert_int_equal(sr1__sample_row(full[rows[i]][at], VOCAB, &sampling, &rng, &one),
                         SR1_OK);
        assert_int_equal(drawn[i], one.id);
        assert_memory_equal(&log_probs[i], &one.log_prob, sizeof one.log_prob);
        assert_memory_equal(&entropies[i], &one.entropy, sizeof one.entropy);
    }
}

/* Some rows, in any order, by any cut of their tokens. */
static size_t choose_feeds(struct sr1__decoder *d, struct sr1__rng *rng,
                           struct sr1__decode_input *feeds)
{
    size_t first = sr1__rng_below(rng, ROWS);
    size_t n = 0;

    for (size_t i = 0; i < ROWS; i++) {
        int32_t r = (int32_t)((first + i * 5) % ROWS);
        size_t at = (size_t)sr1__decoder_length(d, r);
        size_t step = sr1__rng_below(rng, 3) ? 1 : 1 + sr1__rng_below(rng, 90);

        if (sr1__rng_below(rng, 3) == 0)
            continue;
        if (at == TOKENS)
            sr1__decoder_clear(d, r);
        at = at == TOKENS ? 0 : at;
        feeds[n++] = (struct sr1__decode_input){r, ids[r] + at,
                                                step < TOKENS - at ? step : TOKENS - at};
    }
    return n;
}

static void feed_beside_others(sr1_model *m, const char *name, int32_t threads)
{
    struct sr1__decoder *d;
    struct sr1__rng rng;

    assert_int_equal(sr1__torch_threads(threads), SR1_OK);
    d = new_decoder(m, ROWS + 7 * threads, TOKENS);
    sr1__rng_seed(&rng, 2, (uint64_t)threads);
    for (uint64_t step = 0; step < 25; step++) {
        struct sr1__decode_input feeds[ROWS];
        int32_t rows[ROWS];
        size_t n = choose_feeds(d, &rng, feeds);

        assert_int_equal(sr1__decoder_decode(d, feeds, n), SR1_OK);
        for (size_t i = 0; i < n; i++) {
            int32_t r = rows[i] = feeds[i].row;
            int64_t at = sr1__decoder_length(d, r) - 1;

            if (memcmp(sr1__decoder_logits(d, r), full[r][at], sizeof full[r][at]) != 0)
                fail_msg("%s, %d threads: row %d after %d tokens has other bits", name,
                         (int)threads, (int)r, (int)at + 1);
        }
        check_draws_alone(d, rows, n, step);
    }
    sr1__decoder_free(d);
}

/* So many rows that each thread takes some of them by itself. */
static void feed_many(sr1_model *m, const char *name, int32_t threads)
{
    enum { MANY = 75, STEPS = 36 };
    struct sr1__decode_input feeds[MANY];
    struct sr1__decoder *d;

    assert_int_equal(sr1__torch_threads(threads), SR1_OK);
    d = new_decoder(m, MANY, TOKENS);
    for (int32_t r = 0; r < MANY; r++)
        feeds[r] = (struct sr1__decode_input){r, ids[r % ROWS], 1 + (size_t)r % 7};
    for (size_t step = 0; step < STEPS; step++) {
        assert_int_equal(sr1__decoder_decode(d, feeds, MANY), SR1_OK);
        for (int32_t r = 0; r < MANY; r++) {
            int64_t n = sr1__decoder_length(d, r);

            if (memcmp(sr1__decoder_logits(d, r), full[r % ROWS][n - 1],
                       sizeof full[0][0]) != 0)
                fail_msg("%s, %d threads: row %d of many after %d tokens has other bits",
                         name, (int)threads, (int)r, (int)n);
            feeds[r] = (struct sr1__decode_input){r, ids[r % ROWS] + n, 1};
        }
    }
    sr1__decoder_free(d);
}

/* On the CPU a row's logits, ids and log-probs are those of the row alone, to the bit:
 * beside any others, in any order, by any cut of its tokens, by any number of threads. */
static void test_bits_of_a_row(void **state)
{
    int32_t before = sr1__torch_threads_get();
    size_t supported = 0;

    (void)state;
    for (size_t k = 0; test_on_cpu() && k < 4 * N_KINDS; k++) {
        size_t i = k / 4;
        sr1_model *m;

        m = open_model(kinds[i].name, kinds[i].dtype);
        if (!sr1__host_supports(m)) { /* libtorch's */
            sr1_model_free(m);
            continue;
        }
        int8 = (int)(k % 2);
        narrow_cache = (int)(k / 2 % 2);
        supported++;
        make_rows(m, 12);
        make_rows_alone(m);
        for (int32_t threads = 1; threads <= 3; threads++)
            feed_beside_others(m, kinds[i].name, threads);
        for (int32_t threads = 2; threads <= 3; threads++)
            feed_many(m, kinds[i].name, threads);
        sr1_model_free(m);
    }
    int8 = narrow_cache = 0;
    assert_true(supported > 0 || !test_on_cpu());
    assert_int_equal(sr1__torch_threads(before), SR1_OK);
}

/* w = its int8 numbers times their scales, as libtorch computes them. */
static void round_to_int8(sr1_model *m, sr1_tensor *w)
{
    sr1_scope *s = sr1__scope_open(m->device, "test");
    int64_t n = w ? t_size(w, 0) : 0;
    sr1_tensor *q, *scale;

    sr1__scope_no_grad(s);
    if (w) {
        q = t_empty(s, SR1__I8, T_SHAPE(n, t_size(w, 1)));
        scale = t_empty(s, SR1__F32, T_SHAPE(n, 1));
        sr1__int8_quantize(s, q, scale, w);
        t_copy_(s, w, t_mul(s, q, scale));
    }
    assert_int_equal(sr1__scope_close(s), SR1_OK);
}

static void round_matrices(sr1_model *m)
{
    for (int64_t i = 0; i < m->config.n_layers; i++) {
        round_to_int8(m, m->layers[i].qkv);
        round_to_int8(m, m->layers[i].o);
        round_to_int8(m, m->layers[i].gate_up);
        round_to_int8(m, m->layers[i].down);
    }
    round_to_int8(m, m->head);
    sr1__model_touch(m);
}

/* What the model says whose matrices are those int8 numbers: inputs of products have 15
 * bits. Where head and embedding are one matrix only the head is int8. */
static void test_int8_weights(void **state)
{
    size_t checked = 0;

    (void)state;
    for (size_t i = 0; test_on_cpu() && i < N_KINDS; i++) {
        sr1_model *m = open_model(kinds[i].name, kinds[i].dtype);
        struct sr1__decoder *d;

        if (m->head != m->embed && m->dtype == SR1__F32) {
            int8 = 1;
            d = new_decoder(m, 1, TOKENS);
            int8 = 0;
            make_rows(m, 8);
            feed(d, 0, ids[0], TOKENS);
            check_logits(d, 0, 0, 0.1);
            memcpy(full[1][0], sr1__decoder_logits(d, 0), sizeof full[1][0]);
            assert_memory_not_equal(full[1][0], full[0][TOKENS - 1], sizeof full[1][0]);
            sr1__decoder_reset(d);
            round_matrices(m);
            make_rows(m, 8);
            feed(d, 0, ids[0], TOKENS);
            check_logits(d, 0, 0, 1e-3);
            sr1__decoder_free(d);
            checked++;
        }
        sr1_model_free(m);
    }
    assert_true(checked > 1 || !test_on_cpu());
}

static int64_t count_cache_bytes(const struct sr1__decoder *d)
{
    struct sr1__decoder_stats stats;

    sr1__decoder_stats(d, &stats);
    return stats.cache_bytes;
}

/* The bytes of a page but for what it begins with, and nearly the same logits: no others
 * where the model is in bf16 as it is. */
static void test_narrow_cache(void **state)
{
    size_t narrower = 0;

    (void)state;
    for (size_t i = 0; test_on_cpu() && i < N_KINDS; i++) {
        sr1_model *m = open_model(kinds[i].name, kinds[i].dtype);
        struct sr1__decoder *d, *e;

        if (!sr1__host_supports(m)) {
            sr1_model_free(m);
            continue;
        }
        d = new_decoder(m, 1, TOKENS);
        narrow_cache = 1;
        e = new_decoder(m, 1, TOKENS);
        narrow_cache = 0;
        make_rows(m, 8);
        feed(d, 0, ids[0], TOKENS);
        feed(e, 0, ids[0], TOKENS);
        if (m->dtype == SR1__F32) {
            double share = (double)count_cache_bytes(e) / (double)count_cache_bytes(d);

            assert_true(share >= 0.5 && share < 0.51);
            assert_memory_not_equal(sr1__decoder_logits(e, 0), sr1__decoder_logits(d, 0),
                                    sizeof full[0][0]);
            narrower++;
        } else {
            assert_int_equal(count_cache_bytes(e), count_cache_bytes(d));
            assert_memory_equal(sr1__decoder_logits(e, 0), sr1__decoder_logits(d, 0),
                                sizeof full[0][0]);
        }
        check_logits(e, 0, 0, 0.02);
        sr1__decoder_free(d);
        sr1__decoder_free(e);
        sr1_model_free(m);
    }
    assert_true(narrower > 1 || !test_on_cpu());
}

/* Of given tokens what sampling them would report, by int8 weights too. */
static void scores_are_those_of_sampling(void **state)
{
    size_t checked = 0;

    (void)state;
    for (size_t k = 0; test_on_cpu() && k < 4 * N_KINDS; k++) {
        sr1_model *m = open_model(kinds[k / 4].name, kinds[k / 4].dtype);
        const struct sr1__sampling how = {.temperature = 0.7, .top_p = 1.0};
        float log_probs[12], entropies[12], one;
        struct sr1__decoder *d;

        if (!sr1__host_supports(m)) {
            sr1_model_free(m);
            continue;
        }
        int8 = (int)(k % 2);
        narrow_cache = (int)(k / 2 % 2);
        d = new_decoder(m, 2, TOKENS);
        int8 = narrow_cache = 0;
        make_rows(m, 3);
        assert_int_equal(sr1__decoder_score(d, &(struct sr1__decode_input){0, ids[0], 30},
                                            &(size_t){12}, 1, how.temperature, log_probs,
                                            entropies),
                         SR1_OK);
        for (size_t i = 0; i < 12; i++) {
            feed(d, 1, ids[0] + (i ? 17 + i : 0), i ? 1 : 18);
            assert_int_equal(sr1__sample_log_prob(sr1__decoder_logits(d, 1), VOCAB, &how,
                                                  ids[0][18 + i], &one),
                             SR1_OK);
            assert_true(one == log_probs[i]);
        }
        sr1__decoder_free(d);
        sr1_model_free(m);
        checked++;
    }
    assert_true(checked > 2 || !test_on_cpu());
}

static void keys_of_the_host_are_refused(void **state)
{
    sr1_model *m = open_model("qwen3-fp16", "fp16");
    struct sr1__decoder *d = new_decoder(m, 1, TOKENS);

    (void)state;
    assert_int_equal(sr1__decoder_quantize(d), SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "CPU"));
    assert_int_equal(sr1__decoder_narrow_cache(d), SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "bf16 cache is for a CPU"));
    make_rows(m, 3);
    feed(d, 0, ids[0], 5);
    check_logits(d, 0, 0, 0.01);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

/* Weights of now are decoded with, by replicas too, and a reset gives their memory back.
 */
static void test_weights_are_packed_again(void **state)
{
    static float old[VOCAB];
    sr1_model *m = open_model("qwen3-tied", "fp32");
    sr1_model *other = open_model("qwen3-tied", "fp32");
    sr1_model *replica = NULL;
    struct sr1__decoder *d = new_decoder(m, 1, TOKENS);
    struct sr1__decoder *e;
    int64_t live;
    sr1_scope *s;

    (void)state;
    assert_int_equal(sr1__model_replica(&replica, m), SR1_OK);
    e = new_decoder(replica, 1, TOKENS);
    make_rows(m, 3);
    feed(d, 0, ids[0], 5);
    sr1__decoder_reset(d);
    live = sr1__mem_live();
    feed(d, 0, ids[0], 5);
    if (test_on_cpu()) /* with others the weights, their vectors, panels and layers */
        assert_true(sr1__mem_live() >= live + 4);
    sr1__decoder_reset(d);
    assert_int_equal(sr1__mem_live(), live);
    feed(d, 0, ids[0], 5);
    feed(e, 0, ids[0], 5);
    check_logits(d, 0, 0, 1e-5);
    memcpy(old, sr1__decoder_logits(e, 0), sizeof old);
    assert_memory_equal(sr1__decoder_logits(d, 0), old, sizeof old);
    s = sr1__scope_open(m->device, "test");
    sr1__scope_no_grad(s);
    t_add_(s, m->final_norm, other->final_norm, 0.5);
    assert_int_equal(sr1__scope_close(s), SR1_OK);
    sr1__model_touch(m);
    sr1__model_touch(replica);
    make_rows(m, 3);
    sr1__decoder_clear(d, 0);
    sr1__decoder_clear(e, 0);
    feed(e, 0, ids[0], 5);
    feed(d, 0, ids[0], 5);
    check_logits(e, 0, 0, 1e-5);
    assert_memory_equal(sr1__decoder_logits(d, 0), sr1__decoder_logits(e, 0), sizeof old);
    assert_memory_not_equal(sr1__decoder_logits(d, 0), old, sizeof old);
    sr1__decoder_free(e);
    sr1__decoder_free(d);
    sr1_model_free(replica);
    sr1_model_free(other);
    sr1_model_free(m);
}

/* A failed allocation anywhere leaves rows that go on as if nothing had happened. */
static void test_allocation_failures(void **state)
{
    sr1_model *m = open_model("qwen3-tied", "fp32");
    struct sr1__decoder *d = new_decoder(m, 2, TOKENS);
    size_t at = 30;

    (void)state;
    make_rows(m, 1);
    feed(d, 0, ids[0], at);
    for (int64_t n = 1; at < 70; n++) {
        struct sr1__decode_input f = {0, ids[0] + at, 3};
        sr1_status status;

        sr1__mem_fail_at(n);
        status = sr1__decoder_decode(d, &f, 1);
        sr1__mem_fail_at(0);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
        at += status == SR1_OK ? 3 : 0;
        n = status == SR1_OK ? 0 : n;
        assert_int_equal(sr1__decoder_length(d, 0), at);
        if (status == SR1_OK)
            check_logits(d, 0, 0, 1e-5);
        if (status == SR1_OK && at > 36) /* once is enough; the rest without failures */
            break;
    }
    sr1__decoder_free(d);
    sr1_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_split),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_fork_memory),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_slot_again),
        cmocka_unit_test(test_log_probs),
        cmocka_unit_test(test_bits_of_a_row),
        cmocka_unit_test(test_int8_weights),
        cmocka_unit_test(test_narrow_cache),
        cmocka_unit_test(scores_are_those_of_sampling),
        cmocka_unit_test(keys_of_the_host_are_refused),
        cmocka_unit_test(test_weights_are_packed_again),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
