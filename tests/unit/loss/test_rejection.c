/* What rollout_rs keeps, and its figures, against the code of verl; what is refused. */
#include "vectors.h"

#include <searchr1/ext/loss.h>

struct batch {
    float old[MAX], rollout[MAX];
    int64_t begin[MAX];
    sr1_loss_batch b;
};

static void read_batch(const json_t *row, struct batch *x)
{
    *x = (struct batch){0};
    x->b = (sr1_loss_batch){.struct_size = sizeof x->b,
                            .n = floats(row, "old", x->old),
                            .old_log_probs = x->old,
                            .rollout_log_probs = x->rollout,
                            .n_seqs = integers(row, "seq_begin", x->begin) - 1,
                            .seq_begin = x->begin};
    floats(row, "rollout", x->rollout);
}

#define FIGURE(field)                                                                    \
    {                                                                                    \
#field, offsetof(sr1_rejection_report, field)                                    \
    }

static const struct {
    const char *key;
    size_t at;
} figures[] = {
    FIGURE(masked_fraction),
    FIGURE(seq_masked_fraction),
    FIGURE(mean),
    FIGURE(std),
    FIGURE(max),
    FIGURE(min),
    FIGURE(fraction_high),
    FIGURE(fraction_low),
    FIGURE(seq_mean),
    FIGURE(seq_std),
    FIGURE(seq_max),
    FIGURE(seq_min),
    FIGURE(seq_max_deviation),
    FIGURE(seq_fraction_high),
    FIGURE(seq_fraction_low),
};

static double figure(const sr1_rejection_report *r, const char *key)
{
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (strcmp(figures[i].key, key) == 0)
            return *(const double *)(const void *)((const char *)r + figures[i].at);
    fail_msg("no figure '%s'", key);
    return 0;
}

static void check_row(const json_t *row)
{
    const char *criteria = json_string_value(json_object_get(row, "rejected"));
    const char *thresholds = json_string_value(json_object_get(row, "thresholds")), *key;
    json_t *want = json_object_get(row, "report"), *value;
    sr1_rejection_report r = {.struct_size = sizeof r};
    float keep[MAX];
    uint8_t got[MAX];
    struct batch x;

    read_batch(row, &x);
    floats(row, "keep", keep);
    assert_int_equal(sr1_loss_reject(&x.b, criteria, thresholds, got, &r), SR1_OK);
    for (size_t i = 0; i < x.b.n; i++)
        if (got[i] != (keep[i] > 0))
            fail_msg("%s %s: token %zu is %skept", criteria, thresholds, i,
                     got[i] ? "" : "not ");
    json_object_foreach(want, key, value)
    {
        /* verl adds 1e-8 to its counts, of which it takes the root in std */
        double within = strcmp(key, "std") == 0 ? 1e-3 : 1e-6;

        if (!(fabs(figure(&r, key) - json_number_value(value)) <=
              within * fmax(1.0, fabs(json_number_value(value)))))
            fail_msg("%s %s: %s is %.12g, not %.12g", criteria, thresholds, key,
                     figure(&r, key), json_number_value(value));
    }
}

static void what_verl_keeps_is_kept(void **state)
{
    (void)state;
    assert_int_equal(each_row("peer_losses.jsonl", "rejected", check_row), 97);
}

/* A token is judged with its own sequence alone. */
static void check_alone(const json_t *row)
{
    const char *criteria = json_string_value(json_object_get(row, "rejected"));
    const char *thresholds = json_string_value(json_object_get(row, "thresholds"));
    uint8_t whole[MAX], part[MAX];
    struct batch x;

    read_batch(row, &x);
    assert_int_equal(sr1_loss_reject(&x.b, criteria, thresholds, whole, NULL), SR1_OK);
    for (size_t s = 0; s < x.b.n_seqs; s++) {
        size_t at = (size_t)x.begin[s], n = (size_t)x.begin[s + 1] - at;
        const int64_t begin[2] = {0, (int64_t)n};
        const sr1_loss_batch b = {.struct_size = sizeof b,
                                  .n = n,
                                  .old_log_probs = x.old + at,
                                  .rollout_log_probs = x.rollout + at,
                                  .n_seqs = 1,
                                  .seq_begin = begin};

        assert_int_equal(sr1_loss_reject(&b, criteria, thresholds, part, NULL), SR1_OK);
        assert_memory_equal(part, whole + at, n);
    }
}

static void other_sequences_change_nothing(void **state)
{
    (void)state;
    assert_int_equal(each_row("peer_losses.jsonl", "rejected", check_alone), 97);
}

/* ---- borders ---- */

static void no_tokens_have_figures_of_zero(void **state)
{
    static const int64_t begin[3] = {0, 0, 0};
    const sr1_loss_batch none = {.struct_size = sizeof none};
    const sr1_loss_batch empty = {
        .struct_size = sizeof empty, .n_seqs = 2, .seq_begin = begin};
    sr1_rejection_report r = {.struct_size = sizeof r, .mean = 7};

    (void)state;
    for (size_t i = 0; sr1_loss_rejection_name(i); i++) {
        assert_int_equal(
            sr1_loss_reject(&none, sr1_loss_rejection_name(i), "2", NULL, &r), SR1_OK);
        assert_true(r.mean == 0 && r.masked_fraction == 0 && r.std == 0);
        assert_int_equal(
            sr1_loss_reject(&empty, sr1_loss_rejection_name(i), "2", NULL, &r), SR1_OK);
        assert_true(r.seq_masked_fraction == 0 && r.seq_max_deviation == 0);
    }
}

/* On the bound is within it: 0 of policies that are the same. */
static void equal_policies_lose_no_token(void **state)
{
    static const float same[4] = {-1, -2, 0, -30};
    static const int64_t begin[3] = {0, 1, 4};
    const sr1_loss_batch b = {.struct_size = sizeof b,
                              .n = 4,
                              .old_log_probs = same,
                              .rollout_log_probs = same,
                              .n_seqs = 2,
                              .seq_begin = begin};
    uint8_t keep[4];
    size_t n = 0;

    (void)state;
    for (; sr1_loss_rejection_name(n); n++) {
        assert_int_equal(sr1_loss_reject(&b, sr1_loss_rejection_name(n), "1", keep, NULL),
                         SR1_OK);
        assert_true(keep[0] && keep[1] && keep[2] && keep[3]);
    }
    assert_int_equal(n, 11);
}

/* ---- what is refused ---- */

static void refused(sr1_status want, const char *criteria, const char *thresholds,
                    const char *why)
{
    static const float v[2] = {-1, -2};
    static const int64_t begin[2] = {0, 2};
    const sr1_loss_batch b = {.struct_size = sizeof b,
                              .n = 2,
                              .old_log_probs = v,
                              .rollout_log_probs = v,
                              .n_seqs = 1,
                              .seq_begin = begin};
    uint8_t keep[2] = {7, 7};

    assert_int_equal(sr1_loss_reject(&b, criteria, thresholds, keep, NULL), want);
    if (!strstr(sr1_last_error(), why))
        fail_msg("'%s' does not say '%s'", sr1_last_error(), why);
    assert_int_equal(keep[0], 7);
}

static void texts_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    refused(SR1_E_NOT_FOUND, "token_k4", "2", "known: token_k1, token_k2");
    refused(SR1_E_NOT_FOUND, "token_k1,,token_k2", "2", "known: token_k1");
    refused(SR1_E_INVALID, "", "2", "names no criterion");
    refused(SR1_E_INVALID, NULL, "2", "names no criterion");
    refused(SR1_E_INVALID, "token_k1", "", "needs rollout_rs_threshold");
    refused(SR1_E_INVALID, "token_k1", NULL, "needs rollout_rs_threshold");
    refused(SR1_E_INVALID, "token_k1, token_k1", "2", "twice");
    refused(SR1_E_INVALID, "token_k1,token_k2", "2,2,2", "give one for each");
    refused(SR1_E_INVALID, "token_k1,token_k2,token_k3", "2,2", "give one for each");
    refused(SR1_E_INVALID, "token_k1", "0.5", "lower_upper");
    refused(SR1_E_INVALID, "token_k1", "2_0.5", "lower_upper");
    refused(SR1_E_INVALID, "token_k1", "0_2", "lower_upper");
    refused(SR1_E_INVALID, "token_k1", "-1", "lower_upper");
    refused(SR1_E_INVALID, "token_k1", "1_2_3", "lower_upper");
    refused(SR1_E_INVALID, "seq_max_k2", "0.5_2", "one number above 0");
    refused(SR1_E_INVALID, "seq_max_k2", "0", "one number above 0");
    refused(SR1_E_INVALID, "seq_max_k2", "inf", "one number above 0");
}

static void batches_that_do_not_fit_are_refused(void **state)
{
    float v[2] = {-1, -2}, bad[2] = {-1, NAN};
    int64_t begin[2] = {0, 2}, tokens[1] = {3};
    sr1_loss_batch b = {.struct_size = sizeof b,
                        .n = 2,
                        .old_log_probs = v,
                        .rollout_log_probs = bad,
                        .n_seqs = 1,
                        .seq_begin = begin};
    uint8_t keep[2] = {7, 7};

    (void)state;
    assert_int_equal(sr1_loss_reject(&b, "token_k1", "2", keep, NULL), SR1_E_NUMERIC);
    b.rollout_log_probs = v;
    b.seq_tokens = tokens; /* a part of a sequence cannot be judged */
    assert_int_equal(sr1_loss_reject(&b, "token_k1", "2", keep, NULL), SR1_E_INVALID);
    b.seq_tokens = NULL;
    begin[1] = 1;
    assert_int_equal(sr1_loss_reject(&b, "token_k1", "2", keep, NULL), SR1_E_INVALID);
    begin[1] = 2;
    b.seq_begin = NULL;
    assert_int_equal(sr1_loss_reject(&b, "token_k1", "2", keep, NULL), SR1_E_INVALID);
    b.seq_begin = begin;
    assert_int_equal(sr1_loss_reject(&b, "token_k1", "2", NULL, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_loss_reject(NULL, "token_k1", "2", keep, NULL), SR1_E_INVALID);
    assert_int_equal(keep[0], 7);
    assert_int_equal(sr1_loss_reject(&b, "token_k1", "2", keep, NULL), SR1_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_verl_keeps_is_kept),
        cmocka_unit_test(other_sequences_change_nothing),
        cmocka_unit_test(no_tokens_have_figures_of_zero),
        cmocka_unit_test(equal_policies_lose_no_token),
        cmocka_unit_test(texts_that_do_not_fit_are_refused),
        cmocka_unit_test(batches_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
