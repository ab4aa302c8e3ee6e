/* Tokens that rollout_rs rejects: an update is that of trajectories without them. */
#include "runs.h"
#include "step_metric.h"
#include "updates.h"

#include "train/internal.h"
#include "train/masked_copy.h"

#include <searchr1/ext/loss.h>
#include <searchr1/ext/trajectory_details.h>

#define GROUP 4
#define QUERIES 3
#define N (GROUP * QUERIES)

/* Nothing is rejected by it. */
#define WIDE "rollout_rs_threshold=1e-6_1e6"

/* What int8 weights sample is not quite the policy. */
#define QUANTIZED                                                                        \
    "quantization=int8", "importance_correction=token_truncate", "rollout_rs=token_k1",  \
        "rollout_rs_threshold=0.999_1.001"

static sr1_trajectory *rolled[N];

/* Trajectories of one model, with advantages that differ, for updates of another. */
static int make(void **state)
{
    static const char *const questions[QUERIES] = {"one?", "the second, longer one?",
                                                   "3?"};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 9};
    sr1_query q[QUERIES];
    sr1_trainer *tr;

    if (runs_make(state) != 0)
        return -1;
    tiny_model("sampler", TINY_SEARCHER, 9);
    tiny_model("other", TINY_SEARCHER, 10);
    tr = tiny_trainer(tiny_config("sampler", NULL));
    for (size_t i = 0; i < QUERIES; i++)
        q[i] = tiny_query(questions[i]);
    OK(sr1_rollout_generate(sr1_trainer_rollout(tr), q, QUERIES, &o, rolled));
    for (size_t i = 0; i < N; i++) {
        OK(sr1_trajectory_set_reward(rolled[i], (double)(i % 3)));
        OK(sr1_trajectory_set_advantage(rolled[i], (double)(i % 5) - 2.0));
    }
    sr1_trainer_free(tr);
    return 0;
}

static int clean(void **state)
{
    tiny_free_all(rolled, N);
    return scratch_remove(state);
}

/* Reads what keep_metrics does not keep: names that no table has. */
static void (*look)(const sr1_step_report *r);

static float *updated(sr1_config *c, sr1_trajectory *const *t, sr1_step_report *r,
                      size_t *count)
{
    sr1_trainer *tr = tiny_trainer(c);
    float *w;

    OK(sr1_trainer_update(tr, t, N, r));
    if (look)
        look(r);
    keep_metrics(r);
    w = tiny_weights(tr->model, count);
    sr1_trainer_free(tr);
    return w;
}

/* ---- what is kept ---- */

/* By the columns that an update left in the trajectories; caller frees keep. */
struct kept {
    int64_t begin[N + 1];
    uint8_t *keep;
    sr1_rejection_report r;
};

static void judge(struct kept *k, const char *criteria, const char *thresholds)
{
    float *old, *rollout;
    sr1_loss_batch b = {.struct_size = sizeof b, .n_seqs = N, .seq_begin = k->begin};

    *k = (struct kept){.r = {.struct_size = sizeof k->r}};
    for (size_t i = 0; i < N; i++)
        k->begin[i + 1] = k->begin[i] + (int64_t)sr1_trajectory_policy_count(rolled[i]);
    b.n = (size_t)k->begin[N];
    b.old_log_probs = old = calloc(b.n, sizeof *old);
    b.rollout_log_probs = rollout = calloc(b.n, sizeof *rollout);
    k->keep = calloc(b.n, 1);
    for (size_t i = 0; i < N; i++) {
        size_t n = sr1_trajectory_policy_count(rolled[i]);

        memcpy(old + k->begin[i], sr1_trajectory_column(rolled[i], SR1_COLUMN_OLD),
               n * sizeof *old);
        memcpy(rollout + k->begin[i], sr1_trajectory_policy_log_probs(rolled[i]),
               n * sizeof *rollout);
    }
    OK(sr1_loss_reject(&b, criteria, thresholds, k->keep, &k->r));
    free(old);
    free(rollout);
}

/* Copies without what is not kept. */
static void leave_out(const struct kept *k, sr1_trajectory *out[N])
{
    for (size_t i = 0; i < N; i++) {
        const int32_t *at = sr1_trajectory_policy_positions(rolled[i]);
        struct sr1__masking m;

        OK(sr1__masking_open(&m, rolled[i]));
        for (size_t j = 0; j < sr1_trajectory_policy_count(rolled[i]); j++)
            m.keep[at[j]] = k->keep[(size_t)k->begin[i] + j];
        OK(sr1__masked_copy(&m, &out[i]));
        sr1__masking_close(&m);
    }
}

static double worst_difference(const float *a, const float *b, size_t n)
{
    double worst = 0;

    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)a[i] - b[i]));
    return worst;
}

static const char *pair(const char *key, const char *value)
{
    static char pairs[4][96];
    static size_t i;

    i = (i + 1) % 4;
    snprintf(pairs[i], sizeof pairs[i], "%s=%s", key, value);
    return pairs[i];
}

static const struct {
    const char *criteria, *thresholds;
} rules[] = {{"token_k1", "0.97_1.01"},
             {"token_k3", "5e-4"},
             {"seq_mean_k1", "0.9_1.04"},
             {"seq_max_k2,token_k1", "0.01,0.96_2"}};
#define RULES (sizeof rules / sizeof *rules)

/* ---- updates ---- */

/* With weights, KL, clipping and denominators of what is left; of any loss and mean. */
static void same_update(size_t rule, const char *a, const char *b)
{
    const char *criteria = pair("rollout_rs", rules[rule].criteria);
    sr1_step_report keyed = {.struct_size = sizeof keyed}, made = keyed, whole = keyed;
    sr1_trajectory *left[N];
    struct kept k;
    size_t n;
    float *w = updated(tiny_config("other", GRADIENT, criteria,
                                   pair("rollout_rs_threshold", rules[rule].thresholds),
                                   a, b, NULL),
                       rolled, &keyed, &n);
    float *all = updated(
        tiny_config("other", GRADIENT, "rollout_rs=seq_mean_k1", WIDE, a, b, NULL),
        rolled, &whole, &n);
    float *want;

    judge(&k, rules[rule].criteria, rules[rule].thresholds);
    assert_true(k.r.masked_fraction > 0 && k.r.masked_fraction < 1);
    leave_out(&k, left);
    want = updated(
        tiny_config("other", GRADIENT, "rollout_rs=seq_mean_k1", WIDE, a, b, NULL), left,
        &made, &n);
    if (worst_difference(w, want, n) > 1e-6)
        fail_msg("%s %s %s: weights differ by %g", criteria, a, b,
                 worst_difference(w, want, n));
    assert_true(worst_difference(w, all, n) > 1e-5);
    tiny_near(keyed.loss, made.loss, 1e-6 * fmax(1, fabs(made.loss)));
    tiny_near(keyed.kl_div, made.kl_div, 1e-6);
    tiny_near(step_metric(&keyed, "rollout_corr/rollout_rs_masked_fraction"),
              k.r.masked_fraction, 1e-12);
    tiny_near(step_metric(&keyed, "rollout_corr/rollout_rs_seq_masked_fraction"),
              k.r.seq_masked_fraction, 1e-12);
    /* of all tokens, also those that are left out */
    tiny_near(step_metric(&keyed, "sampling/sampling_logp_difference/max"),
              step_metric(&whole, "sampling/sampling_logp_difference/max"), 0);
    assert_true(step_metric(&made, "rollout_corr/rollout_rs_masked_fraction") == 0);
    tiny_free_all(left, N);
    free(k.keep);
    free(w);
    free(all);
    free(want);
}

static void an_update_is_that_of_what_is_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < RULES; i++) {
        same_update(i, "beta=0.1", "importance_correction=token_truncate");
        same_update(i, "loss=gspo", "kl_reference=frozen");
        same_update(i, "loss_aggregation=group-mean-token-mean", "entropy_coef=0.01");
    }
    same_update(2, "beta=0.1", "importance_correction=sequence_mask");
    same_update(0, "loss_aggregation=seq-mean-token-sum", "top_entropy_quantile=0.5");
}

/* At ratios of 1: minus the mean advantage of the tokens that are left, or over the
 * trajectories that have any. */
static void means_are_of_what_is_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < RULES; i++) {
        sr1_step_report by_token = {.struct_size = sizeof by_token},
                        by_sequence = by_token;
        double sum = 0, tokens = 0, sequences = 0, means = 0;
        struct kept k;
        size_t n;

        free(updated(tiny_config("other", GRADIENT, "beta=0",
                                 pair("rollout_rs", rules[i].criteria),
                                 pair("rollout_rs_threshold", rules[i].thresholds), NULL),
                     rolled, &by_token, &n));
        free(updated(tiny_config("other", GRADIENT, "beta=0",
                                 "loss_aggregation=seq-mean-token-mean",
                                 pair("rollout_rs", rules[i].criteria),
                                 pair("rollout_rs_threshold", rules[i].thresholds), NULL),
                     rolled, &by_sequence, &n));
        judge(&k, rules[i].criteria, rules[i].thresholds);
        for (size_t s = 0; s < N; s++) {
            double left = 0, a = sr1_trajectory_advantage(rolled[s]);

            for (int64_t j = k.begin[s]; j < k.begin[s + 1]; j++)
                left += k.keep[j];
            sum += left * a;
            tokens += left;
            sequences += left > 0;
            means += left > 0 ? a : 0;
        }
        tiny_near(by_token.loss, -sum / tokens, 1e-5);
        tiny_near(by_sequence.loss, -means / sequences, 1e-5);
        free(k.keep);
    }
}

static void neither_cut_nor_workers_matter(void **state)
{
    static const char *const cuts[] = {"micro_batch_tokens=1", "workers=2", "workers=3",
                                       "trajectory_memory=1"};

    (void)state;
    for (size_t i = 0; i < RULES; i++) {
        const char *criteria = pair("rollout_rs", rules[i].criteria);
        const char *thresholds = pair("rollout_rs_threshold", rules[i].thresholds);
        sr1_step_report r = {.struct_size = sizeof r};
        size_t n;
        float *whole = updated(tiny_config("other", GRADIENT, criteria, thresholds, NULL),
                               rolled, &r, &n);

        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            sr1_step_report rc = {.struct_size = sizeof rc};
            float *part = updated(
                tiny_config("other", GRADIENT, criteria, thresholds, cuts[k], NULL),
                rolled, &rc, &n);

            if (worst_difference(whole, part, n) > 1e-5)
                fail_msg("%s %s: weights differ by %g", criteria, cuts[k],
                         worst_difference(whole, part, n));
            tiny_near(rc.loss, r.loss, 1e-5 * fmax(1, fabs(r.loss)));
            tiny_near(step_metric(&rc, "rollout_corr/rollout_rs_masked_fraction"),
                      step_metric(&r, "rollout_corr/rollout_rs_masked_fraction"), 1e-9);
            free(part);
        }
        free(whole);
    }
}

static void look_at_criteria(const sr1_step_report *r)
{
    static const char *const names[] = {"masked_fraction",
                                        "seq_masked_fraction",
                                        "mean",
                                        "std",
                                        "max",
                                        "min",
                                        "fraction_high",
                                        "fraction_low",
                                        "seq_mean",
                                        "seq_std",
                                        "seq_max",
                                        "seq_min",
                                        "seq_max_deviation",
                                        "seq_fraction_high",
                                        "seq_fraction_low"};
    struct kept k;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[100];

        snprintf(name, sizeof name, "rollout_corr/rollout_rs_seq_mean_k1_%s", names[i]);
        (void)step_metric(r, name);
        snprintf(name, sizeof name, "rollout_corr/rollout_rs_token_k3_%s", names[i]);
        (void)step_metric(r, name);
    }
    judge(&k, "token_k3", "5e-4");
    tiny_near(step_metric(r, "rollout_corr/rollout_rs_token_k3_mean"), k.r.mean, 1e-12);
    tiny_near(step_metric(r, "rollout_corr/rollout_rs_token_k3_seq_masked_fraction"),
              k.r.seq_masked_fraction, 1e-12);
    free(k.keep);
}

/* Of each criterion, under verl's names. */
static void each_criterion_has_its_figures(void **state)
{
    sr1_step_report r = {.struct_size = sizeof r};
    size_t n;

    (void)state;
    look = look_at_criteria;
    free(updated(tiny_config("other", GRADIENT, "rollout_rs=seq_mean_k1,token_k3",
                             "rollout_rs_threshold=0.9_1.04,5e-4", NULL),
                 rolled, &r, &n));
    look = NULL;
}

/* The step is taken, and changes nothing. */
static void all_may_be_rejected(void **state)
{
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trainer *tr = tiny_trainer(tiny_config("other", NULL));
    size_t n;
    float *start = tiny_weights(tr->model, &n);
    float *end = updated(tiny_config("other", GRADIENT, "rollout_rs=seq_max_k2",
                                     "rollout_rs_threshold=1e-12", NULL),
                         rolled, &r, &n);

    (void)state;
    assert_memory_equal(start, end, n * sizeof *end);
    assert_true(step_metric(&r, "rollout_corr/rollout_rs_masked_fraction") == 1 &&
                step_metric(&r, "rollout_corr/rollout_rs_seq_masked_fraction") == 1);
    sr1_trainer_free(tr);
    free(start);
    free(end);
}

/* ---- with other keys ---- */

/* Of what an ablation leaves the rejection takes more. */
static void thoughts_may_be_left_out_too(void **state)
{
    sr1_step_report r = {.struct_size = sizeof r};
    size_t n;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        free(updated(tiny_config("other", GRADIENT, "rollout_rs=token_k1",
                                 "rollout_rs_threshold=0.97_1.01",
                                 i ? "mask_environment=false" : "no_think_rl=true", NULL),
                     rolled, &r, &n));
    assert_true(isfinite(r.loss));
}

/* A critic sees what the policy sees. */
static void runs_with_a_critic_are_resumed(void **state)
{
    static const char *const keys[] = {"advantage=gae", "advantage=grpo"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char whole[32], stopped[32];
        sr1_trainer *tr;
        json_t *rows;

        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(stopped, sizeof stopped, "stopped-%zu", i);
        run_whole(RUN(whole, keys[i], QUANTIZED));
        tr = open_trainer(RUN(stopped, keys[i], QUANTIZED));
        run_until(tr, 4);
        sr1_trainer_free(tr);
        tr = NULL;
        OK(sr1_trainer_resume(&tr, scratch_path(stopped), NULL));
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        same_run(whole, stopped);
        rows = metrics(whole);
        assert_true(metric(rows, 1, "rollout_corr/rollout_rs_masked_fraction") > 0 &&
                    metric(rows, 1, "rollout_corr/rollout_rs_masked_fraction") < 1);
        json_decref(rows);
    }
}

/* ---- what is refused ---- */

static void refused(const char *why, const char *a, const char *b, const char *more)
{
    sr1_config *c = tiny_config("other", a, b, more, NULL);
    sr1_trainer *tr = NULL;

    assert_int_equal(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG);
    if (!strstr(sr1_last_error(), why))
        fail_msg("'%s' does not say '%s'", sr1_last_error(), why);
    sr1_config_free(c);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    refused("known: token_k1", "rollout_rs=token", "rollout_rs_threshold=2", "beta=0");
    refused("needs rollout_rs_threshold", "rollout_rs=token_k1", "beta=0", "seed=1");
    refused("give one for each", "rollout_rs=token_k1", "rollout_rs_threshold=2,3",
            "beta=0");
    refused("lower_upper", "rollout_rs=token_k1", "rollout_rs_threshold=0.5", "beta=0");
    refused("leave rollout_rs out", "rollout_rs=token_k1", "rollout_rs_threshold=2",
            "loss=vespo");
    refused("take seq_mean_k1", "rollout_rs=seq_mean_k1,token_k2",
            "rollout_rs_threshold=2", "importance_correction=sequence_truncate");
    refused("off_policy_delta judges a trajectory by all", "rollout_rs=token_k1",
            "rollout_rs_threshold=2", "off_policy_delta=0.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_is_that_of_what_is_kept),
        cmocka_unit_test(means_are_of_what_is_kept),
        cmocka_unit_test(neither_cut_nor_workers_matter),
        cmocka_unit_test(each_criterion_has_its_figures),
        cmocka_unit_test(all_may_be_rejected),
        cmocka_unit_test(thoughts_may_be_left_out_too),
        cmocka_unit_test(runs_with_a_critic_are_resumed),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, make, clean);
}
