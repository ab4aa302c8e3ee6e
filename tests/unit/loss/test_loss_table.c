/* The tables themselves; slopes by finite differences; identities between losses; weights
 * of parts; what is refused. */
#include "signal/loss/loss.h"

#include "base/rng.h"
#include "support/torture.h"

#include <searchr1/ext/kl.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define N 12
#define SEQS 4

static void near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fmax(1.0, fabs(b))))
        fail_msg("%.12g is not %.12g", a, b);
}

/* Four sequences, one of a single token and one of none. */
struct batch {
    float now[N], old[N], ref[N], adv[N], weights[N], rollout[N], entropy[N];
    int64_t begin[SEQS + 1];
    sr1_loss_batch b;
};

static void fill(struct batch *x, uint64_t seed)
{
    static const int64_t begin[SEQS + 1] = {0, 1, 1, 6, N};
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, 0);
    memcpy(x->begin, begin, sizeof begin);
    for (int i = 0; i < N; i++) {
        x->old[i] = (float)-fabs(sr1__rng_normal(&rng));
        x->now[i] = x->old[i] + (float)(0.1 * sr1__rng_normal(&rng));
        x->ref[i] = x->old[i] + (float)(0.1 * sr1__rng_normal(&rng));
        x->rollout[i] = x->old[i] + (float)(0.1 * sr1__rng_normal(&rng));
        x->adv[i] = (float)sr1__rng_normal(&rng);
        x->entropy[i] = (float)fabs(sr1__rng_normal(&rng));
        x->weights[i] = (float)fabs(sr1__rng_normal(&rng));
    }
    x->b = (sr1_loss_batch){.struct_size = sizeof x->b,
                            .n = N,
                            .new_log_probs = x->now,
                            .old_log_probs = x->old,
                            .ref_log_probs = x->ref,
                            .advantages = x->adv,
                            .weights = x->weights,
                            .rollout_log_probs = x->rollout,
                            .entropies = x->entropy,
                            .n_seqs = SEQS,
                            .seq_begin = x->begin};
}

static sr1_loss_options defaults(const char *name)
{
    sr1_loss_options o = {.struct_size = sizeof o};

    assert_int_equal(sr1_loss_options_init(&o, name), SR1_OK);
    return o;
}

static double value(const char *name, const struct batch *x, const sr1_loss_options *o)
{
    sr1_loss_report r = {.struct_size = sizeof r};

    assert_int_equal(sr1_loss_compute(name, &x->b, o, NULL, NULL, &r), SR1_OK);
    return r.loss;
}

/* ---- the tables ---- */

static void every_row_is_whole(void **state)
{
    size_t n = 0;
    sr1_loss_info info = {.struct_size = sizeof info};

    (void)state;
    for (; sr1_loss_name(n); n++) {
        const struct sr1__aggregation *a = NULL;
        struct batch x;

        assert_int_equal(sr1_loss_describe(n, &info), SR1_OK);
        assert_string_equal(info.name, sr1_loss_name(n));
        assert_true(*info.formula && *info.source && info.options);
        assert_int_equal(sr1__aggregation_find(info.aggregation, &a), SR1_OK);
        for (size_t i = 0; i < n; i++)
            assert_string_not_equal(info.name, sr1_loss_name(i));
        fill(&x, n); /* its published numbers are allowed */
        assert_int_equal(sr1_loss_compute(info.name, &x.b, NULL, NULL, NULL, NULL),
                         SR1_OK);
    }
    assert_int_equal(n, 18);
    assert_int_equal(sr1_loss_describe(n, &info), SR1_E_INVALID);
    assert_null(sr1_loss_kl_name(7));
    assert_null(sr1_loss_correction_name(5));
    assert_null(sr1_loss_aggregation_name(6));
    assert_null(sr1__loss_find("nothing"));
}

/* ---- slopes ---- */

/* The gradient is the slope of the value, by the new log-probs and by the entropies. */
static void check_slope(const char *name, struct batch *x, const sr1_loss_options *o)
{
    float g[N], h[N];

    assert_int_equal(sr1_loss_compute(name, &x->b, o, g, h, NULL), SR1_OK);
    for (int i = 0; i < N; i++) {
        float *arrays[2] = {x->now, x->entropy};
        float got[2] = {g[i], h[i]};

        for (int k = 0; k < 2; k++) {
            float at = arrays[k][i], up = at + 1e-3f, down = at - 1e-3f;
            double high, low;

            arrays[k][i] = up;
            high = value(name, x, o);
            arrays[k][i] = down;
            low = value(name, x, o);
            arrays[k][i] = at;
            near(got[k], (high - low) / ((double)up - down), 1e-4);
        }
    }
}

static void the_gradient_is_the_slope(void **state)
{
    /* those whose weights hold the ratio constant have another gradient on purpose */
    static const char *const names[] = {"grpo",      "gspo",     "luspo", "sapo",
                                        "reinforce", "geo_mean", "dro"};
    static const char *const kinds[] = {"k1", "k2", "k3", "low_var_kl"};

    (void)state;
    for (size_t k = 0; k < 28; k++) {
        const char *name = names[k % 7];
        sr1_loss_options o = defaults(name);
        struct batch x;

        fill(&x, k);
        o.clip_low = 0.9; /* no corner in reach */
        o.clip_high = 9.0;
        o.beta = 0.5;
        o.kl_kind = kinds[k / 7];
        o.kl_weighted = (k + k / 7) % 2; /* each with both, and all corrections */
        o.entropy_coef = 0.25;
        o.correction = sr1_loss_correction_name((k + k / 7) % 3 * 2);
        o.dro_beta = 0.5;
        o.correction_high = 9.0;
        check_slope(name, &x, &o);
    }
}

/* ---- identities ---- */

static void gspo_token_is_gspo_where_advantages_are_equal(void **state)
{
    sr1_loss_options o = defaults("gspo");
    struct batch x;
    float a[N], b[N];

    (void)state;
    o.clip_low = o.clip_high = 0.02;
    for (uint64_t seed = 0; seed < 20; seed++) {
        fill(&x, seed);
        for (int i = 0; i < N; i++) {
            x.adv[i] = i < 6 ? 0.5f : -1.5f; /* as the sequences are */
            x.weights[i] = i < 6 ? 0.125f : 0.0625f;
        }
        assert_int_equal(sr1_loss_compute("gspo", &x.b, &o, a, NULL, NULL), SR1_OK);
        assert_int_equal(sr1_loss_compute("gspo_token", &x.b, &o, b, NULL, NULL), SR1_OK);
        for (int i = 0; i < N; i++)
            near(a[i], b[i], 1e-7);
    }
}

static void luspo_is_gspo_times_the_length(void **state)
{
    sr1_loss_maps m = {.struct_size = sizeof m};
    sr1_loss_info info = {.struct_size = sizeof info};
    struct batch x;
    float mean[N], sum[N];

    (void)state;
    fill(&x, 3);
    m.n_seqs = SEQS;
    m.seq_begin = x.begin;
    for (size_t i = 0; sr1_loss_name(i); i++) {
        assert_int_equal(sr1_loss_describe(i, &info), SR1_OK);
        if (strcmp(info.name, "gspo") == 0)
            assert_int_equal(sr1_loss_weights(info.aggregation, &m, mean), SR1_OK);
        if (strcmp(info.name, "luspo") == 0)
            assert_int_equal(sr1_loss_weights(info.aggregation, &m, sum), SR1_OK);
    }
    for (int i = 0; i < N; i++)
        near(sum[i], mean[i] * (i < 1 ? 1 : i < 6 ? 5 : 6), 1e-6);
}

static void on_policy_the_first_step_is_reinforce(void **state)
{
    static const char *const names[] = {"grpo",    "ppo",        "dapo",
                                        "dr_grpo", "gspo_token", "cispo",
                                        "sapo",    "vespo",      "reinforce"};
    struct batch x;
    float g[N];

    (void)state;
    fill(&x, 11);
    memcpy(x.now, x.old, sizeof x.now);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        sr1_loss_options o = defaults(names[k]);

        o.beta = 0;
        assert_int_equal(sr1_loss_compute(names[k], &x.b, &o, g, NULL, NULL), SR1_OK);
        for (int i = 0; i < N; i++)
            near(g[i], -(double)x.weights[i] * x.adv[i], 1e-6);
    }
}

/* The KL of a loss is that which a reward would be given, near the reference and far. */
static void kinds_of_kl_are_those_of_rewards(void **state)
{
    static const float far[] = {-1000, -25, -20, 0, 20, 25, 1000};
    static const char *const ends[] = {"", "+"};
    char kind[32];
    struct batch x;

    (void)state;
    fill(&x, 17);
    for (size_t k = 0; sr1_loss_kl_name(k / 2); k++) {
        sr1_loss_options o = {.struct_size = sizeof o, .beta = 1, .kl_kind = kind};
        double now[N], ref[N], kl[N], slope[N], sum = 0;
        float g[N];

        snprintf(kind, sizeof kind, "%s%s", sr1_loss_kl_name(k / 2), ends[k % 2]);
        for (int i = 0; i < N; i++) {
            x.now[i] = i < 7 ? far[i] : x.now[i];
            x.ref[i] = i < 7 ? 0 : x.ref[i];
            now[i] = x.now[i];
            ref[i] = x.ref[i];
            x.adv[i] = 0;
        }
        assert_int_equal(sr1_kl_tokens(kind, now, ref, N, kl, slope), SR1_OK);
        assert_int_equal(sr1_loss_compute("reinforce", &x.b, &o, g, NULL, NULL), SR1_OK);
        for (int i = 0; i < N; i++) {
            near(g[i], x.weights[i] * slope[i], 1e-6);
            sum += x.weights[i] * kl[i];
        }
        near(value("reinforce", &x, &o), sum, 1e-12);
    }
}

/* ---- weights of parts ---- */

static void parts_weigh_as_in_the_whole(void **state)
{
    static const int64_t begin[] = {0, 3, 3, 4, 9, 11}, group_tokens[] = {4, 0, 4, 7, 7};
    static const uint64_t groups[] = {7, 3, 7, 1, 1};

    (void)state;
    for (size_t k = 0; sr1_loss_aggregation_name(k); k++) {
        const char *mode = sr1_loss_aggregation_name(k);
        sr1_loss_maps m = {.struct_size = sizeof m,
                           .n_seqs = 5,
                           .seq_begin = begin,
                           .length = 6,
                           .groups = groups};
        const struct sr1__aggregation *a = NULL;
        float whole[11], part[11];
        double sum = 0;

        assert_int_equal(sr1_loss_weights(mode, &m, whole), SR1_OK);
        for (int i = 0; i < 11; i++)
            sum += whole[i];
        assert_int_equal(sr1__aggregation_find(mode, &a), SR1_OK);
        if (sr1__aggregation_is_mean(a))
            near(sum, 1, 1e-6);
        m.total_tokens = 11;
        m.total_seqs = 4;
        m.total_groups = 2;
        for (size_t s = 0; s < 5; s++) {
            int64_t one[2] = {0, begin[s + 1] - begin[s]};

            m.n_seqs = 1;
            m.seq_begin = one;
            m.group_tokens = group_tokens + s;
            assert_int_equal(sr1_loss_weights(mode, &m, part + begin[s]), SR1_OK);
        }
        assert_memory_equal(part, whole, sizeof whole);
    }
}

static void bad_maps_are_refused(void **state)
{
    int64_t begin[] = {0, 2, 3};
    uint64_t groups[] = {1, 1};
    int64_t group_tokens[] = {1, 3};
    sr1_loss_maps m = {.struct_size = sizeof m, .n_seqs = 2, .seq_begin = begin};
    float w[3] = {5, 5, 5};

    (void)state;
    assert_int_equal(sr1_loss_weights("median", &m, w), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "seq-mean-token-sum-norm"));
    assert_int_equal(sr1_loss_weights(NULL, &m, w), SR1_E_INVALID);
    assert_int_equal(sr1_loss_weights("token-mean", NULL, w), SR1_E_INVALID);
    assert_int_equal(sr1_loss_weights("token-mean", &m, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_loss_weights("seq-mean-token-sum-norm", &m, w), SR1_E_INVALID);
    assert_int_equal(sr1_loss_weights("group-mean-token-mean", &m, w), SR1_E_INVALID);
    m.groups = groups;
    m.total_tokens = 9;
    assert_int_equal(sr1_loss_weights("group-mean-token-mean", &m, w), SR1_E_INVALID);
    m.group_tokens = group_tokens;
    assert_int_equal(sr1_loss_weights("group-mean-token-mean", &m, w), SR1_E_INVALID);
    m.total_groups = 4;
    assert_int_equal(sr1_loss_weights("group-mean-token-mean", &m, w), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "sequence 0"));
    m.total_tokens = 2; /* fewer than are here */
    assert_int_equal(sr1_loss_weights("token-mean", &m, w), SR1_E_INVALID);
    m.total_tokens = -1;
    assert_int_equal(sr1_loss_weights("token-mean", &m, w), SR1_E_INVALID);
    m.total_tokens = 0;
    begin[2] = 1;
    assert_int_equal(sr1_loss_weights("token-mean", &m, w), SR1_E_INVALID);
    m.seq_begin = NULL;
    assert_int_equal(sr1_loss_weights("token-mean", &m, w), SR1_E_INVALID);
    assert_true(w[0] == 5 && w[2] == 5);
    m.n_seqs = 0;
    assert_int_equal(sr1_loss_weights("token-mean", &m, NULL), SR1_OK);
}

/* ---- what is refused ---- */

static void refused(const char *name, const struct batch *x, const sr1_loss_options *o,
                    sr1_status st, const char *why)
{
    sr1_loss_report r = {.struct_size = sizeof r, .loss = 7};
    float g[N] = {3}, h[N] = {4};

    assert_int_equal(sr1_loss_compute(name, &x->b, o, g, h, &r), st);
    if (!strstr(sr1_last_error(), why))
        fail_msg("'%s' does not say '%s'", sr1_last_error(), why);
    assert_true(g[0] == 3 && h[0] == 4 && r.loss == 7);
}

static void unknown_names_list_the_known(void **state)
{
    sr1_loss_options o = defaults("grpo");
    struct batch x;

    (void)state;
    fill(&x, 1);
    refused("best", &x, &o, SR1_E_NOT_FOUND, "grpo, ppo, dapo");
    refused(NULL, &x, &o, SR1_E_INVALID, "name");
    o.kl_kind = "k4";
    refused("grpo", &x, &o, SR1_E_NOT_FOUND, "k1, kl, abs");
    o.kl_kind = "";
    refused("grpo", &x, &o, SR1_E_NOT_FOUND, "k1, kl, abs");
    o.kl_kind = "k3+";
    o.correction = "some";
    refused("grpo", &x, &o, SR1_E_NOT_FOUND, "token_truncate");
    assert_int_equal(sr1_loss_options_init(&o, "best"), SR1_E_NOT_FOUND);
}

static void what_a_loss_needs_is_named(void **state)
{
    sr1_loss_options o = defaults("gspo");
    struct batch x;
    int64_t whole[SEQS] = {1, 0, 5, 7};

    (void)state;
    fill(&x, 1);
    x.b.seq_begin = NULL;
    refused("gspo", &x, &o, SR1_E_INVALID, "loss gspo: seq_begin is required");
    o.off_policy_delta = 0.1;
    refused("grpo", &x, &o, SR1_E_INVALID, "seq_begin is required");
    o.off_policy_delta = 0;
    o.correction = "sequence_mask";
    o.correction_high = 3;
    refused("grpo", &x, &o, SR1_E_INVALID, "seq_begin is required");
    x.b.seq_begin = x.begin;
    o = defaults("vespo");
    o.correction = "token_truncate";
    o.correction_high = 2;
    refused("vespo", &x, &o, SR1_E_INVALID, "weighs sequences");
    o = defaults("gspo");
    x.b.seq_tokens = whole;
    refused("gspo", &x, &o, SR1_E_INVALID, "sequence 3 was cut: 6 of its 7");
    x.b.seq_tokens = NULL;
    x.begin[SEQS] = N - 1;
    refused("grpo", &x, &o, SR1_E_INVALID, "ends at 11");
    x.begin[2] = 9;
    refused("grpo", &x, &o, SR1_E_INVALID, "falls after sequence 2");
    fill(&x, 1);
    o.beta = 0.1;
    x.b.ref_log_probs = NULL;
    refused("ppo", &x, &o, SR1_E_INVALID, "ref_log_probs");
    o.beta = 0;
    o.entropy_coef = 0.1;
    x.b.entropies = NULL;
    refused("ppo", &x, &o, SR1_E_INVALID, "entropies");
    o.entropy_coef = 0;
    x.b.advantages = NULL;
    refused("reinforce", &x, &o, SR1_E_INVALID, "advantages is required");
}

/* A weight beyond all numbers, of an advantage of 0. */
static void a_gradient_that_is_no_number_is_refused(void **state)
{
    sr1_loss_options o = defaults("vespo");
    struct batch x;

    (void)state;
    fill(&x, 1);
    for (int i = 0; i < N; i++) {
        x.now[i] = x.old[i] + 1.0f;
        x.adv[i] = 0;
    }
    o.k_positive = 1000;
    refused("vespo", &x, &o, SR1_E_NUMERIC, "token 0 of 12: its gradient");
}

static void numbers_out_of_bounds_are_refused(void **state)
{
    static const struct {
        const char *loss;
        size_t at;
        double v;
    } bad[] = {
        {"ppo", offsetof(sr1_loss_options, clip_low), -0.1},
        {"ppo", offsetof(sr1_loss_options, clip_high), NAN},
        {"ppo", offsetof(sr1_loss_options, dual_clip), 1.0},
        {"ppo", offsetof(sr1_loss_options, ratio_cap), 0.5},
        {"ppo", offsetof(sr1_loss_options, beta), INFINITY},
        {"ppo", offsetof(sr1_loss_options, entropy_coef), NAN},
        {"ppo", offsetof(sr1_loss_options, off_policy_delta), -1},
        {"ppo", offsetof(sr1_loss_options, correction_low), -1},
        {"sapo", offsetof(sr1_loss_options, tau_positive), 0},
        {"sapo", offsetof(sr1_loss_options, tau_negative), -1},
        {"vespo", offsetof(sr1_loss_options, lambda_positive), 0},
        {"vespo", offsetof(sr1_loss_options, lambda_negative), 0},
        {"vespo", offsetof(sr1_loss_options, k_positive), -1},
        {"vespo", offsetof(sr1_loss_options, k_negative), -1},
    };
    sr1_loss_options o;
    struct batch x;

    (void)state;
    fill(&x, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = defaults(bad[i].loss);
        memcpy((char *)&o + bad[i].at, &bad[i].v, sizeof(double));
        refused(bad[i].loss, &x, &o, SR1_E_INVALID, "loss options: ");
    }
    o = defaults("ppo");
    o.clip_high = 0.3;
    o.ratio_cap = 1.2;
    refused("ppo", &x, &o, SR1_E_INVALID, "at least 1 + clip_high");
    o = defaults("ppo");
    o.correction = "token_mask";
    refused("ppo", &x, &o, SR1_E_INVALID, "correction_high is 0");
    o.correction_high = 2;
    o.correction_low = 3;
    refused("ppo", &x, &o, SR1_E_INVALID, "correction_low is 3");
}

static void what_is_not_finite_is_named(void **state)
{
    sr1_loss_options o = defaults("ppo");
    struct batch x;

    (void)state;
    fill(&x, 1);
    x.rollout[4] = INFINITY;
    refused("ppo", &x, &o, SR1_E_NUMERIC, "token 4 of 12: rollout_log_probs");
    fill(&x, 1);
    x.entropy[0] = NAN;
    refused("ppo", &x, &o, SR1_E_NUMERIC, "token 0 of 12: entropies");
    fill(&x, 1);
    x.weights[11] = NAN;
    refused("nll", &x, NULL, SR1_E_NUMERIC, "token 11 of 12: weights");
    fill(&x, 1);
    x.ref[2] = NAN; /* of no weight, but reported */
    refused("ppo", &x, &o, SR1_E_NUMERIC, "token 2 of 12: ref_log_probs");
    fill(&x, 1);
    x.adv[3] = -3e38f;
    x.now[3] = x.old[3] + 30;
    o.dual_clip = 0;
    x.weights[3] = 3e38f;
    refused("reinforce", &x, &o, SR1_E_NUMERIC, "token 3 of 12: its gradient");
}

/* Beyond the exponent's bound a ratio is constant: finite, and without gradient. */
static void huge_ratios_stay_finite(void **state)
{
    static const char *const bounded[] = {"grpo", "sapo", "gspo"};
    struct batch x;
    float g[N];

    (void)state;
    fill(&x, 1);
    for (int i = 0; i < N; i++) {
        x.now[i] = x.old[i] + (i % 2 ? 3e4f : -3e4f);
        x.adv[i] = -1; /* no clip holds the high ones */
    }
    for (size_t k = 0; sr1_loss_name(k); k++) {
        sr1_loss_report r = {.struct_size = sizeof r};
        sr1_loss_options o = defaults(sr1_loss_name(k));

        o.beta = 0;
        o.dual_clip = 0;
        assert_int_equal(sr1_loss_compute(sr1_loss_name(k), &x.b, &o, g, NULL, &r),
                         SR1_OK);
        assert_true(isfinite(r.loss) && isfinite(r.ratio_mean));
        for (int i = 0; i < N; i++)
            assert_true(isfinite(g[i]));
    }
    for (int i = 0; i < N; i++)
        x.now[i] = x.old[i] + 3e4f; /* of sequences too */
    for (size_t k = 0; k < 3; k++) {
        sr1_loss_options o = defaults(bounded[k]);

        o.beta = 0;
        assert_int_equal(sr1_loss_compute(bounded[k], &x.b, &o, g, NULL, NULL), SR1_OK);
        for (int i = 0; i < N; i++)
            assert_true(g[i] == 0);
    }
}

/* ---- memory ---- */

static sr1_status lose(void *arg)
{
    float g[N];

    return sr1_loss_compute("gspo", &((struct batch *)arg)->b, NULL, g, NULL, NULL);
}

static sr1_status weigh(void *arg)
{
    static const uint64_t groups[SEQS] = {1, 2, 1, 2};
    const struct batch *x = arg;
    sr1_loss_maps m = {
        .struct_size = sizeof m, .n_seqs = SEQS, .seq_begin = x->begin, .groups = groups};
    float w[N];

    return sr1_loss_weights("group-mean-token-mean", &m, w);
}

static void any_allocation_may_fail(void **state)
{
    struct batch x;

    (void)state;
    fill(&x, 1);
    assert_true(torture(lose, &x) > 0);
    assert_true(torture(weigh, &x) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(the_gradient_is_the_slope),
        cmocka_unit_test(gspo_token_is_gspo_where_advantages_are_equal),
        cmocka_unit_test(luspo_is_gspo_times_the_length),
        cmocka_unit_test(on_policy_the_first_step_is_reinforce),
        cmocka_unit_test(kinds_of_kl_are_those_of_rewards),
        cmocka_unit_test(parts_weigh_as_in_the_whole),
        cmocka_unit_test(bad_maps_are_refused),
        cmocka_unit_test(unknown_names_list_the_known),
        cmocka_unit_test(what_a_loss_needs_is_named),
        cmocka_unit_test(a_gradient_that_is_no_number_is_refused),
        cmocka_unit_test(numbers_out_of_bounds_are_refused),
        cmocka_unit_test(what_is_not_finite_is_named),
        cmocka_unit_test(huge_ratios_stay_finite),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
