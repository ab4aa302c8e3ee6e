/* The vocabulary head, packed attention and checkpointing against the plain formulas. */
#include "base/clock.h"
#include "check.h"
#include "tensor/ops/fused.h"
#include "tensor/ops/nn.h"

enum { ROWS = 13, WIDTH = 8, VOCAB = 29 };

struct head {
    sr1_tensor *hidden;
    sr1_tensor *weight;
    sr1_tensor *targets;
    sr1_tensor *grad;
};

static struct head head_input(sr1_scope *s)
{
    int64_t targets[ROWS];
    struct head h;

    for (int i = 0; i < ROWS; i++)
        targets[i] = (i * 7) % VOCAB;
    h.hidden = normal_tensor(s, 1, T_SHAPE(ROWS, WIDTH));
    h.weight = normal_tensor(s, 2, T_SHAPE(VOCAB, WIDTH));
    h.targets = t_from_i64(s, targets, T_SHAPE(ROWS));
    h.grad = normal_tensor(s, 3, T_SHAPE(ROWS));
    t_require_grad(s, h.hidden, 1);
    t_require_grad(s, h.weight, 1);
    return h;
}

/* The same by full logits. */
static sr1_tensor *plain(sr1_scope *s, const struct head *h, double temperature,
                         sr1_tensor **entropy)
{
    sr1_tensor *z =
        t_mul_scalar(s, t_linear(s, h->hidden, h->weight, NULL), 1.0 / temperature);
    sr1_tensor *lp = t_log_softmax(s, z, -1);

    *entropy = t_neg(s, t_sum_dim(s, t_mul(s, t_exp(s, lp), lp), -1, 0));
    return t_squeeze(s, t_gather(s, lp, -1, t_unsqueeze(s, h->targets, 1)), 1);
}

static void head_equals_plain_formula(void **state)
{
    static const int64_t chunks[] = {0, 1, 4, 13, 100};
    static const double temperatures[] = {1.0, 0.7, 2.5};

    (void)state;
    for (size_t c = 0; c < 15; c++) {
        double temperature = temperatures[c / 5];
        sr1_scope *s = sr1__scope_open(SR1__CPU, "head");
        struct head a = head_input(s);
        struct head b = head_input(s);
        sr1_tensor *entropy[2];
        sr1_tensor *got = sr1__nn_token_log_probs(
            s, a.hidden, a.weight, a.targets, temperature, chunks[c % 5], &entropy[0]);
        sr1_tensor *want = plain(s, &b, temperature, &entropy[1]);

        near(gap(s, got, want), 0.0, 1e-5);
        near(gap(s, entropy[0], entropy[1]), 0.0, 1e-5);
        t_backward_with(s, got, a.grad);
        t_backward_with(s, want, b.grad);
        near(gap(s, t_grad(s, a.hidden), t_grad(s, b.hidden)), 0.0, 1e-5);
        near(gap(s, t_grad(s, a.weight), t_grad(s, b.weight)), 0.0, 1e-5);
        OK(sr1__scope_close(s));
    }
}

/* A loss of log-probs and entropies, or of the entropies alone. */
static void entropies_have_torchs_gradient(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        for (int64_t chunk = 0; chunk <= 4; chunk += 4) {
            sr1_scope *s = sr1__scope_open(SR1__CPU, "head");
            struct head h[2] = {head_input(s), head_input(s)};
            sr1_tensor *entropy[2], *lp[2], *of[2];

            lp[0] = sr1__nn_token_log_probs(s, h[0].hidden, h[0].weight, h[0].targets,
                                            0.7, chunk, &entropy[0]);
            lp[1] = plain(s, &h[1], 0.7, &entropy[1]);
            for (int i = 0; i < 2; i++) {
                sr1_tensor *g =
                    t_mul_scalar(s, t_square(s, entropy[i]), both ? -0.3 : 2.0);

                if (both)
                    g = t_add(s, g, t_mul(s, lp[i], h[i].grad));
                of[i] = t_sum(s, g);
                t_backward(s, of[i]);
            }
            near(t_item(s, of[0]) - t_item(s, of[1]), 0.0, 1e-4);
            near(gap(s, t_grad(s, h[0].hidden), t_grad(s, h[1].hidden)), 0.0, 1e-4);
            near(gap(s, t_grad(s, h[0].weight), t_grad(s, h[1].weight)), 0.0, 1e-4);
            assert_true(t_item(s, t_max_all(s, t_abs(s, t_grad(s, h[0].weight)))) > 0.1);
            OK(sr1__scope_close(s));
        }
    }
}

/* More rows, and a larger vocabulary, than go through the head at a time. */
static struct head wide_input(sr1_scope *s, int32_t dtype)
{
    enum { MANY = 2100, WORDS = 9000 };
    int64_t *targets = malloc(MANY * sizeof *targets);
    struct head h;

    for (int64_t i = 0; i < MANY; i++)
        targets[i] = i * 31 % WORDS;
    h.hidden = t_to(s, normal_tensor(s, 1, T_SHAPE(MANY, WIDTH)), dtype);
    h.weight = t_to(s, normal_tensor(s, 2, T_SHAPE(WORDS, WIDTH)), dtype);
    h.targets = t_from_i64(s, targets, T_SHAPE(MANY));
    h.grad = normal_tensor(s, 3, T_SHAPE(MANY));
    t_require_grad(s, h.hidden, 1);
    t_require_grad(s, h.weight, 1);
    free(targets);
    return h;
}

static void blocks_equal_plain_formula(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "head");
    struct head h[2] = {wide_input(s, SR1__F32), wide_input(s, SR1__F32)};
    sr1_tensor *entropy[2], *lp[2];

    (void)state;
    lp[0] = sr1__nn_token_log_probs(s, h[0].hidden, h[0].weight, h[0].targets, 0.7, 0,
                                    &entropy[0]);
    lp[1] = plain(s, &h[1], 0.7, &entropy[1]);
    near(gap(s, lp[0], lp[1]), 0.0, 2e-5);
    near(gap(s, entropy[0], entropy[1]), 0.0, 2e-5);
    for (int i = 0; i < 2; i++)
        t_backward(s, t_sum(s, t_mul(s, t_add(s, lp[i], entropy[i]), h[i].grad)));
    near(gap(s, t_grad(s, h[0].hidden), t_grad(s, h[1].hidden)), 0.0, 1e-3);
    near(gap(s, t_grad(s, h[0].weight), t_grad(s, h[1].weight)), 0.0, 1e-3);
    OK(sr1__scope_close(s));
}

/* Of bf16 weights: by kernels, by operations, and in fp32 as what both are to be near. */
static void bf16_is_no_worse_by_blocks(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "head");
    sr1_tensor *of[3][3]; /* log-probs, gradients of hidden states and weights */
    double error[2][3];

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct head h = wide_input(s, SR1__BF16);

        if (k == 2) {
            h.hidden = t_detach(s, t_to(s, t_detach(s, h.hidden), SR1__F32));
            h.weight = t_detach(s, t_to(s, t_detach(s, h.weight), SR1__F32));
            t_require_grad(s, h.hidden, 1);
            t_require_grad(s, h.weight, 1);
        }
        sr1__fused_enable(k > 0);
        of[k][0] =
            sr1__nn_token_log_probs(s, h.hidden, h.weight, h.targets, 1.0, 0, NULL);
        t_backward_with(s, of[k][0], h.grad);
        of[k][1] = t_grad(s, h.hidden);
        of[k][2] = t_grad(s, h.weight);
    }
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++)
            error[k][i] = t_item(
                s,
                t_mean(s, t_square(s, t_sub(s, t_to(s, of[k][i], SR1__F32), of[2][i]))));
        assert_true(error[0][i] > 0.0);
        near(error[1][i], 0.0, error[0][i] * 1.01);
    }
    near(gap(s, of[1][0], of[2][0]), 0.0, 1e-5); /* sums of logits are not rounded */
    OK(sr1__scope_close(s));
}

/* Rows whose first token has all but some 1e-7 of the probability, by both forms:
 * rounding of logits near 30 is as large as their entropy. */
static void a_sure_token_has_no_negative_entropy(void **state)
{
    enum { MANY = 300, WORDS = 2000 };
    sr1_scope *s = sr1__scope_open(SR1__CPU, "head");
    sr1_tensor *weight = t_mul_scalar(s, normal_tensor(s, 2, T_SHAPE(WORDS, WIDTH)), 0.5);
    sr1_tensor *hidden = t_mul_scalar(s, normal_tensor(s, 1, T_SHAPE(MANY, WIDTH)), 0.5);
    sr1_tensor *targets = t_full(s, 0.0, SR1__I64, T_SHAPE(MANY));

    (void)state;
    t_fill_(s, t_narrow(s, weight, 1, 0, 1), 7.0);
    t_fill_(s, t_narrow(s, t_narrow(s, weight, 0, 0, 1), 1, 0, 1), 30.0);
    t_fill_(s, t_narrow(s, hidden, 1, 0, 1), 1.0);
    for (int fused = 0; fused < 2; fused++) {
        sr1_tensor *entropy;

        sr1__fused_enable(fused);
        (void)sr1__nn_token_log_probs(s, hidden, weight, targets, 1.0, 0, &entropy);
        assert_true(t_item(s, t_neg(s, t_max_all(s, t_neg(s, entropy)))) >= 0.0);
        assert_true(t_item(s, t_max_all(s, entropy)) < 1e-4);
    }
    OK(sr1__scope_close(s));
}

static void rows_without_gradient_give_exact_zeros(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "head");
    struct head h = head_input(s);
    sr1_tensor *lp =
        sr1__nn_token_log_probs(s, h.hidden, h.weight, h.targets, 1.0, 4, NULL);

    (void)state;
    t_fill_(s, t_narrow(s, h.grad, 0, 3, 5), 0.0);
    t_backward_with(s, lp, h.grad);
    near(t_item(s, t_max_all(s, t_abs(s, t_narrow(s, t_grad(s, h.hidden), 0, 3, 5)))),
         0.0, 0.0);
    OK(sr1__scope_close(s));
}

/* 24,000 rows of a vocabulary of 4,096 would be 393 MB of logits. */
static void logits_are_never_whole(void **state)
{
    sr1_scope *s;
    sr1_tensor *h;
    sr1_tensor *w;
    sr1_tensor *lp;
    int64_t before;

    (void)state;
    needs_true_memory();
    s = sr1__scope_open(SR1__CPU, "head");
    h = normal_tensor(s, 1, T_SHAPE(24000, 4));
    w = normal_tensor(s, 2, T_SHAPE(4096, 4));
    t_require_grad(s, h, 1);
    t_require_grad(s, w, 1);
    before = sr1__peak_rss_bytes();
    lp = sr1__nn_token_log_probs(s, h, w, t_full(s, 7.0, SR1__I64, T_SHAPE(24000)), 1.0,
                                 0, NULL);
    t_backward(s, t_sum(s, lp));
    assert_true(sr1__peak_rss_bytes() - before < (int64_t)200 << 20);
    OK(sr1__scope_close(s));
}

static void head_refuses_what_does_not_fit(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "head");
    struct head h = head_input(s);

    (void)state;
    assert_null(sr1__nn_token_log_probs(s, h.hidden, h.weight, h.targets, 0.0, 0, NULL));
    assert_int_equal(sr1__scope_close(s), SR1_E_INVALID);
}

/* Each sequence alone with its keys repeated by hand, against one packed call. */
static void packed_attention_equals_each_alone(void **state)
{
    static const int64_t cu[] = {0, 5, 10, 11, 18, 25};
    enum { N = 25, H = 4, HKV = 2, D = 8, SEQS = 5 };
    sr1_scope *s = sr1__scope_open(SR1__CPU, "attention");
    sr1_tensor *q = normal_tensor(s, 1, T_SHAPE(N, H, D));
    sr1_tensor *k = normal_tensor(s, 2, T_SHAPE(N, HKV, D));
    sr1_tensor *v = normal_tensor(s, 3, T_SHAPE(N, HKV, D));
    sr1_tensor *got = sr1__nn_attention(s, q, k, v, cu, SEQS);

    (void)state;
    for (int i = 0; i < SEQS; i++) {
        for (int head = 0; head < H; head++) {
            int64_t t = cu[i + 1] - cu[i];
            sr1_tensor *qi = t_narrow(s, t_narrow(s, q, 0, cu[i], t), 1, head, 1);
            sr1_tensor *ki = t_narrow(s, t_narrow(s, k, 0, cu[i], t), 1, head / 2, 1);
            sr1_tensor *vi = t_narrow(s, t_narrow(s, v, 0, cu[i], t), 1, head / 2, 1);
            sr1_tensor *score =
                t_mul_scalar(s,
                             t_matmul(s, t_squeeze(s, qi, 1),
                                      t_transpose(s, t_squeeze(s, ki, 1), 0, 1)),
                             1.0 / sqrt(D));
            sr1_tensor *at = t_arange(s, t);
            sr1_tensor *seen = t_ge(s, t_unsqueeze(s, at, 1), t_unsqueeze(s, at, 0));
            sr1_tensor *want;

            score = t_where(s, seen, score, t_full(s, -1e30, SR1__F32, T_SHAPE(1)));
            want = t_matmul(s, t_softmax(s, score, -1), t_squeeze(s, vi, 1));
            near(gap(s, t_narrow(s, t_narrow(s, got, 0, cu[i], t), 1, head * D, D), want),
                 0.0, 1e-5);
        }
    }
    OK(sr1__scope_close(s));
}

static sr1_tensor *twice_exp(sr1_scope *s, void *self, sr1_tensor *x)
{
    return t_exp(s, t_mul(s, x, self));
}

static void checkpoint_gives_equal_gradients(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "checkpoint");
    sr1_tensor *x[2];
    sr1_tensor *w[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        x[i] = normal_tensor(s, 1, T_SHAPE(6, 5));
        w[i] = normal_tensor(s, 2, T_SHAPE(5));
        t_require_grad(s, x[i], 1);
        t_require_grad(s, w[i], 1);
    }
    t_backward(s, t_sum(s, twice_exp(s, w[0], x[0])));
    t_backward(s, t_sum(s, t_checkpoint(s, twice_exp, w[1], NULL, x[1])));
    near(gap(s, t_grad(s, x[0]), t_grad(s, x[1])), 0.0, 0.0);
    near(gap(s, t_grad(s, w[0]), t_grad(s, w[1])), 0.0, 0.0);
    OK(sr1__scope_close(s));
}

static sr1_tensor *fails_later(sr1_scope *s, void *self, sr1_tensor *x)
{
    int *calls = self;

    if ((*calls)++ > 0)
        sr1__scope_fail(s, SR1_E_CALLBACK, "the second call fails");
    return t_exp(s, x);
}

static void count_free(void *self)
{
    *(int *)self += 100;
}

static void an_error_in_backward_reaches_the_scope(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "step");
    sr1_tensor *x = normal_tensor(s, 1, T_SHAPE(3));
    int calls = 0;

    (void)state;
    t_require_grad(s, x, 1);
    t_backward(s, t_sum(s, t_checkpoint(s, fails_later, &calls, count_free, x)));
    assert_int_not_equal(sr1__scope_close(s), SR1_OK);
    assert_non_null(strstr(sr1_last_error(), "the second call fails"));
    assert_int_equal(calls, 102);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_equals_plain_formula),
        cmocka_unit_test(entropies_have_torchs_gradient),
        cmocka_unit_test(blocks_equal_plain_formula),
        cmocka_unit_test(bf16_is_no_worse_by_blocks),
        cmocka_unit_test(a_sure_token_has_no_negative_entropy),
        cmocka_unit_test(rows_without_gradient_give_exact_zeros),
        cmocka_unit_test(logits_are_never_whole),
        cmocka_unit_test(head_refuses_what_does_not_fit),
        cmocka_unit_test(packed_attention_equals_each_alone),
        cmocka_unit_test(checkpoint_gives_equal_gradients),
        cmocka_unit_test(an_error_in_backward_reaches_the_scope),
    };

    return cmocka_run_group_tests_name("nn", tests, NULL, NULL);
}
