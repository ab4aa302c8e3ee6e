/* Every loss in training: its published numbers, two passes, no dependence on the cut. */
#include "step_metric.h"
#include "support/language.h"
#include "support/tiny.h"
#include "updates.h"

#include "train/step_batch.h"

#define GROUP 4
#define QUERIES 3
#define N (GROUP * QUERIES)

static sr1_trajectory *rolled[N];

/* Two models, and trajectories of the first with advantages that differ. */
static int make(void **state)
{
    static const char *const questions[QUERIES] = {"one?", "the second, longer one?",
                                                   "3?"};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 9};
    sr1_query q[QUERIES];
    sr1_trainer *tr;

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("model", TINY_SEARCHER, 9);
    tiny_model("other", TINY_SEARCHER, 10);
    tr = tiny_trainer(tiny_config("model", NULL));
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

/* Weights after an update; caller frees. */
static float *updated(sr1_config *c, sr1_step_report *r, size_t *count)
{
    sr1_trainer *tr = tiny_trainer(c);
    float *w;

    OK(sr1_trainer_update(tr, rolled, N, r));
    keep_metrics(r);
    w = tiny_weights(tr->model, count);
    sr1_trainer_free(tr);
    return w;
}

static const char *key_of(const char *name)
{
    static char pair[64];

    snprintf(pair, sizeof pair, "loss=%s", name);
    return pair;
}

/* Calls fn with every loss that training offers; how many. */
static size_t each_loss(void (*fn)(const char *name))
{
    size_t n = 0;

    for (size_t i = 0; sr1_loss_name(i); i++) {
        if (strcmp(sr1_loss_name(i), "nll") == 0)
            continue;
        fn(sr1_loss_name(i));
        n++;
    }
    return n;
}

/* ---- names ---- */

static sr1_config_key_info key_info(const char *name)
{
    sr1_config_key_info k = {.struct_size = sizeof k};

    for (size_t i = 0; i < sr1_config_key_count(); i++) {
        OK(sr1_config_key_describe(i, &k));
        if (strcmp(k.name, name) == 0)
            return k;
    }
    fail_msg("no key %s", name);
    return k;
}

/* Every choice of the key is a name of the table; how many there are. */
static size_t choices_are_names(const char *key, const char *(*name_of)(size_t i))
{
    const char *at = key_info(key).choices;
    size_t n = 0;

    for (; *at; at += strcspn(at, "|"), at += *at == '|', n++) {
        size_t len = strcspn(at, "|"), i = 0;

        len -= at[len - 1] == '+';
        while (name_of(i) && (strlen(name_of(i)) != len || memcmp(name_of(i), at, len)))
            i++;
        if (!name_of(i))
            fail_msg("%s: %s is no name of the table", key, at);
    }
    return n;
}

static void keys_offer_what_the_tables_hold(void **state)
{
    size_t n = 0;

    (void)state;
    while (sr1_loss_name(n))
        n++;
    assert_int_equal(choices_are_names("loss", sr1_loss_name), n - 1); /* but nll */
    assert_int_equal(choices_are_names("loss_aggregation", sr1_loss_aggregation_name), 6);
    assert_int_equal(choices_are_names("kl_kind", sr1_loss_kl_name), 9);
    assert_int_equal(choices_are_names("importance_correction", sr1_loss_correction_name),
                     5);
}

/* ---- published numbers ---- */

static void a_loss_brings_its_numbers(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("model", "loss=gspo", NULL));
    const sr1_loss_options *o = &tr->set.loss_options;

    (void)state;
    assert_true(o->clip_low == 3e-4 && o->clip_high == 4e-4 && o->beta == 0);
    assert_string_equal(sr1__config_str(tr->config, "loss_aggregation"),
                        "seq-mean-token-mean"); /* as config.json will say */
    assert_true(sr1__config_real(tr->config, "clip_epsilon_high") == 4e-4);
    sr1_trainer_free(tr);
    tr = tiny_trainer(tiny_config("model", "loss=ppo", "clip_epsilon=0.1", "beta=0.5",
                                  "loss_aggregation=token-sum", NULL));
    o = &tr->set.loss_options;
    assert_true(o->clip_low == 0.1 && o->clip_high == 0.1 && o->beta == 0.5);
    assert_true(o->dual_clip == 3);
    assert_string_equal(sr1__config_str(tr->config, "loss_aggregation"), "token-sum");
    sr1_trainer_free(tr);
    tr = tiny_trainer(tiny_config("model", "loss=dppo_tv", NULL));
    o = &tr->set.loss_options;
    assert_true(o->clip_low == 0.15 && o->clip_high == 0.15 && o->ratio_cap == 20);
    assert_true(o->beta == 0 && o->dual_clip == 0);
    sr1_trainer_free(tr);
    tr = tiny_trainer(tiny_config("model", "loss=dppo_kl", "ratio_cap=1.02", NULL));
    o = &tr->set
             .loss_options; /* its bounds are no ratios that the cap could lie within */
    assert_true(o->clip_high == 0.05 && o->ratio_cap == 1.02);
    sr1_trainer_free(tr);
}

/* One of the clip's keys leaves the other as the loss has it, high at least at low. */
static void one_end_of_the_clip_leaves_the_other(void **state)
{
    static const struct {
        const char *loss, *key;
        double low, high;
    } of[] = {
        {"loss=cispo", "clip_epsilon_high=3", 1, 3},
        {"loss=cispo", "clip_epsilon=0.5", 0.5, 4},
        {"loss=geo_mean", "clip_epsilon_high=0.5", 0.4, 0.5},
        {"loss=geo_mean", "clip_epsilon=0.2", 0.2, 0.2},
        {"loss=dapo", "clip_epsilon=0.2", 0.2, 0.28},
        {"loss=dapo", "clip_epsilon=0.3", 0.3, 0.3},
        {"loss=gspo", "clip_epsilon_high=0.1", 3e-4, 0.1},
        {"loss=gspo", "clip_epsilon=0.1", 0.1, 0.1},
        {"loss=grpo", "clip_epsilon_high=0.28", 0.2, 0.28},
    };

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sr1_trainer *tr = tiny_trainer(tiny_config("model", of[i].loss, of[i].key, NULL));
        const sr1_loss_options *o = &tr->set.loss_options;

        if (o->clip_low != of[i].low || o->clip_high != of[i].high)
            fail_msg("%s, %s: %g and %g", of[i].loss, of[i].key, o->clip_low,
                     o->clip_high);
        sr1_trainer_free(tr);
    }
}

/* Where numbers have commas, too. */
static void the_hosts_language_changes_no_number(void **state)
{
    if (!speak_german())
        skip();
    a_loss_brings_its_numbers(state);
    speak_plainly();
}

static void the_first_system_keeps_its_defaults(void **state)
{
    static const char *const keys[] = {"clip_epsilon", "clip_epsilon_high", "beta",
                                       "dual_clip", "loss_aggregation"};
    sr1_trainer *tr = tiny_trainer(tiny_config("model", NULL));
    const sr1_loss_options *o = &tr->set.loss_options;
    int32_t set = 7;

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        OK(sr1_config_is_set(tr->config, keys[i], &set));
        assert_int_equal(set, 0);
    }
    assert_true(o->clip_low == 0.2 && o->clip_high == 0.2 && o->beta == 0.1);
    assert_true(o->dual_clip == 0 && o->correction == NULL && o->off_policy_delta == 0);
    sr1_trainer_free(tr);
}

static void refused(const char *why, const char *a, const char *b)
{
    sr1_config *c = tiny_config("model", a, b, NULL);
    sr1_trainer *tr = NULL;

    assert_int_equal(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG);
    if (!strstr(sr1_last_error(), why))
        fail_msg("'%s' does not say '%s'", sr1_last_error(), why);
    sr1_config_free(c);
}

/* Of keys that promise something of every estimator or loss, where this one does not read
 * them (docs/algorithms.md lists what each reads); nothing said that they did nothing. */
static void what_would_change_nothing_is_refused(void **state)
{
    static const struct {
        const char *choice, *key;
    } vain[] = {
        {"advantage=grpo", "gamma=0.9"},
        {"advantage=grpo", "advantage_whiten=on"},
        {"advantage=grpo", "advantage_whiten=tokens"},
        {"advantage=mt_grpo_merged", "advantage_std=false"},
        {"advantage=reinforce_plus_plus", "gae_lambda=0.9"},
        {"advantage=gigpo", "advantage_std=false"},
        {"advantage=dr_grpo", "advantage_std_over=batch"},
        {"advantage_std=false", "advantage_std_over=batch"},
        {"loss=cispo", "dual_clip=3"},
        {"loss=sapo", "ratio_cap=3"},
        {"loss=grpo", "kl_controller=adaptive"},
    };
    static const char *const idle[][2] = {{"advantage=grpo", "gamma=1"},
                                          {"advantage=grpo", "advantage_std=false"},
                                          {"advantage=dr_grpo", "advantage_std=false"},
                                          {"loss=cispo", "dual_clip=0"},
                                          {"advantage=grpo", "step_advantage_w=2"},
                                          {"advantage=grpo", "advantage_whiten=off"},
                                          {"advantage=gae", "advantage_whiten=tokens"}};
    sr1_trainer *tr;

    (void)state;
    for (size_t i = 0; i < sizeof vain / sizeof *vain; i++) {
        char key[40];

        snprintf(key, sizeof key, "%.*s", (int)strcspn(vain[i].key, "="), vain[i].key);
        refused(key, vain[i].choice, vain[i].key);
    }
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
        tr = tiny_trainer(tiny_config("model", idle[i][0], idle[i][1], NULL));
        sr1_trainer_free(tr);
    }
}

static void pairs_that_contradict_are_refused(void **state)
{
    (void)state;
    refused("vespo weighs", "loss=vespo", "importance_correction=token_mask");
    refused("set dro_beta above 0", "loss=dro", "beta=0");
    refused("dual_clip", "loss=dppo_tv", "dual_clip=3");
    refused("dual_clip is 0.5", "loss=ppo", "dual_clip=0.5");
    refused("ratio_cap is 1", "loss=ppo", "ratio_cap=1");
    refused("ends at 1 + clip_epsilon_high = 1.28", "loss=dapo", "ratio_cap=1.25");
    refused("ratio_cap is 1.2", "clip_epsilon=0.3", "ratio_cap=1.2");
}

/* ---- updates ---- */

static void take_two_passes(const char *name)
{
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trainer *tr = tiny_trainer(tiny_config("model", NULL));
    size_t n, changed = 0;
    float *start = tiny_weights(tr->model, &n);
    float *end =
        updated(tiny_config("model", key_of(name), "dro_beta=0.5", NULL), &r, &n);

    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(end[i]));
        changed += start[i] != end[i];
    }
    assert_true(changed > 0 && isfinite(r.loss) && r.grad_norm > 0);
    assert_int_equal(step_metric(&r, "training/skipped_updates"), 0);
    sr1_trainer_free(tr);
    free(start);
    free(end);
}

static void every_loss_takes_two_passes(void **state)
{
    (void)state;
    assert_int_equal(each_loss(take_two_passes), 17);
}

static double worst_difference(const float *a, const float *b, const float *start,
                               size_t n)
{
    double worst = 0, scale = 0;

    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - b[i]));
        scale = fmax(scale, fabs((double)a[i] - start[i]));
    }
    assert_true(scale > 0);
    return worst / scale;
}

/* Of another model's trajectories: ratios are far from 1. */
static void cut(const char *name)
{
    static const char *const cuts[] = {"micro_batch_tokens=1", "workers=2", "workers=3"};
    static const char *const corrections[] = {"importance_correction=none",
                                              "importance_correction=sequence_truncate"};
    sr1_trainer *tr = tiny_trainer(tiny_config("other", NULL));
    size_t n;
    float *start = tiny_weights(tr->model, &n);

    sr1_trainer_free(tr);
    for (size_t c = 0; c < (strcmp(name, "vespo") == 0 ? 1 : 2); c++) {
        sr1_step_report r = {.struct_size = sizeof r};
        float *whole =
            updated(tiny_config("other", GRADIENT, key_of(name), "beta=0.1",
                                "clip_epsilon=1", "clip_epsilon_high=50", "dual_clip=0",
                                "dro_beta=0.5", corrections[c], NULL),
                    &r, &n);

        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            sr1_step_report rc = {.struct_size = sizeof rc};
            float *part = updated(tiny_config("other", GRADIENT, key_of(name), "beta=0.1",
                                              "clip_epsilon=1", "clip_epsilon_high=50",
                                              "dual_clip=0", "dro_beta=0.5",
                                              corrections[c], cuts[k], NULL),
                                  &rc, &n);

            if (worst_difference(whole, part, start, n) > 1e-4)
                fail_msg("%s %s %s: gradients differ by %.3g", name, corrections[c],
                         cuts[k], worst_difference(whole, part, start, n));
            tiny_near(rc.loss, r.loss, 1e-5 * fmax(1, fabs(r.loss)));
            free(part);
        }
        free(whole);
    }
    free(start);
}

static void no_loss_depends_on_the_cut(void **state)
{
    (void)state;
    assert_int_equal(each_loss(cut), 17);
}

/* Summed losses have the figures by token of a mean of the same weights. */
static void figures_are_means_whatever_the_weights(void **state)
{
    sr1_step_report mean = {.struct_size = sizeof mean};
    sr1_step_report sum = {.struct_size = sizeof sum};
    size_t n;

    (void)state;
    free(updated(tiny_config("other", GRADIENT, NULL), &mean, &n));
    free(updated(tiny_config("other", GRADIENT, "loss_aggregation=token-sum", NULL), &sum,
                 &n));
    assert_true(sum.loss != mean.loss && step_metric(&mean, "actor/ppo_kl") != 0);
    tiny_near(step_metric(&sum, "actor/ppo_kl"), step_metric(&mean, "actor/ppo_kl"),
              1e-6);
    tiny_near(step_metric(&sum, "actor/pg_clipfrac"),
              step_metric(&mean, "actor/pg_clipfrac"), 1e-6);
    tiny_near(sum.kl_div, mean.kl_div, 1e-6);
}

/* At ratios of 1 the loss is minus the mean advantage of a token, */
static double mean_over_tokens(void)
{
    double sum = 0, tokens = 0;

    for (size_t i = 0; i < N; i++) {
        double n = (double)sr1_trajectory_policy_count(rolled[i]);

        sum += n * sr1_trajectory_advantage(rolled[i]);
        tokens += n;
    }
    return -sum / tokens;
}

/* or minus the mean over groups of their tokens' mean advantage. */
static double mean_over_groups(void)
{
    double loss = 0;

    for (size_t g = 0; g < QUERIES; g++) {
        double sum = 0, tokens = 0;

        for (size_t i = g * GROUP; i < (g + 1) * GROUP; i++) {
            double n = (double)sr1_trajectory_policy_count(rolled[i]);

            sum += n * sr1_trajectory_advantage(rolled[i]);
            tokens += n;
        }
        loss -= sum / tokens / (double)QUERIES;
    }
    return loss;
}

static void groups_weigh_the_same(void **state)
{
    static const char *const cuts[] = {"workers=1", "micro_batch_tokens=1", "workers=3"};
    size_t n;

    (void)state;
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        sr1_step_report r = {.struct_size = sizeof r};

        free(updated(tiny_config("model", GRADIENT, "beta=0", cuts[k],
                                 "loss_aggregation=group-mean-token-mean", NULL),
                     &r, &n));
        tiny_near(r.loss, mean_over_groups(), 1e-5);
        /* in mini-batches of one group each, by their tokens: at rate 0 a token's mean */
        free(updated(tiny_config("model", GRADIENT, "learning_rate=0", "beta=0", cuts[k],
                                 "loss_aggregation=group-mean-token-mean",
                                 "mini_batch_size=4", NULL),
                     &r, &n));
        tiny_near(r.loss, mean_over_tokens(), 1e-5);
    }
}

/* Of another policy's tokens: what was bounded is seen in the report. */
static void bounds_are_reported(void **state)
{
    sr1_step_report r = {.struct_size = sizeof r};
    size_t n;

    (void)state;
    free(updated(tiny_config("other", GRADIENT, "loss=ppo", "clip_epsilon=0.01",
                             "dual_clip=1.02", NULL),
                 &r, &n));
    assert_true(step_metric(&r, "clip_ratio/low_mean") > 0 &&
                step_metric(&r, "clip_ratio/high_mean") > 0);
    tiny_near(step_metric(&r, "clip_ratio/low_mean") +
                  step_metric(&r, "clip_ratio/high_mean"),
              step_metric(&r, "actor/pg_clipfrac"), 1e-12);
    assert_true(step_metric(&r, "actor/pg_clipfrac_lower") > 0 &&
                step_metric(&r, "actor/ratio_max") > 1.02);
    assert_true(step_metric(&r, "rollout_corr/rollout_is_max") == 1 &&
                step_metric(&r, "rollout_corr/rollout_is_cut") == 0 &&
                step_metric(&r, "rollout_corr/off_policy_cut") == 0);
    tiny_near(step_metric(&r, "rollout_corr/rollout_is_eff_sample_size"), 1, 1e-6);
    r = (sr1_step_report){.struct_size = sizeof r};
    free(updated(tiny_config("other", GRADIENT, "importance_correction=token_truncate",
                             "importance_high=1.02", "off_policy_delta=0.01", NULL),
                 &r, &n));
    tiny_near(step_metric(&r, "actor/ratio_max"), 1,
              1e-5); /* of the weights before the update, by the decoder's pass */
    assert_true(step_metric(&r, "rollout_corr/rollout_is_max") > 1.02 &&
                step_metric(&r, "rollout_corr/rollout_is_cut") > 0 &&
                step_metric(&r, "rollout_corr/rollout_is_cut") < 1);
    assert_true(step_metric(&r, "rollout_corr/rollout_is_eff_sample_size") > 0 &&
                step_metric(&r, "rollout_corr/rollout_is_eff_sample_size") < 1);
    assert_true(step_metric(&r, "rollout_corr/off_policy_cut") > 0 &&
                step_metric(&r, "rollout_corr/off_policy_cut") < 1);
}

/* The sampler is the policy, but for rounding: its weights are 1. */
static void a_correction_of_nothing_changes_nothing(void **state)
{
    static const char *const pairs[] = {
        "importance_correction=token_mask", "importance_correction=token_truncate",
        "importance_correction=sequence_mask", "importance_correction=sequence_truncate"};
    sr1_trainer *tr = tiny_trainer(tiny_config("model", NULL));
    size_t n;
    float *start = tiny_weights(tr->model, &n);
    float *none = updated(tiny_config("model", GRADIENT, NULL), NULL, &n);

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        float *with = updated(tiny_config("model", GRADIENT, pairs[k], NULL), NULL, &n);

        assert_true(worst_difference(none, with, start, n) < 1e-3);
        free(with);
    }
    sr1_trainer_free(tr);
    free(start);
    free(none);
}

/* ---- tokens that are chosen by covariance ---- */

#define MOST 4096

/* The policy's tokens one after the other, and by verl's rule their covariances. */
struct tokens {
    size_t n;
    double a[MOST], old[MOST], now[MOST], cov[MOST];
};

static void read_tokens(struct tokens *s)
{
    double a = 0, p = 0;

    s->n = 0;
    for (size_t i = 0; i < N; i++) {
        const float *now = sr1_trajectory_column(rolled[i], SR1_COLUMN_OLD);

        for (size_t t = 0; t < sr1_trajectory_policy_count(rolled[i]); t++, s->n++) {
            assert_true(s->n < MOST);
            s->a[s->n] = sr1_trajectory_advantage(rolled[i]);
            s->old[s->n] = sr1_trajectory_policy_log_probs(rolled[i])[t];
            s->now[s->n] = now ? now[t] : NAN;
            a += s->a[s->n];
            p += s->old[s->n];
        }
    }
    for (size_t i = 0; i < s->n; i++)
        s->cov[i] = (s->a[i] - a / (double)s->n) * (s->old[i] - p / (double)s->n);
}

/* On policy and with room for all candidates the loss is that of the others. */
static void clip_cov_leaves_out_those_between_its_bounds(void **state)
{
    static struct tokens s;
    static const char *const cuts[] = {"workers=1", "micro_batch_tokens=1", "workers=3"};
    double want = 0, left_out = 0, seen = 0; /* of trajectories with an advantage */

    (void)state;
    read_tokens(&s);
    for (size_t i = 0; i < s.n; i++) {
        int out = s.cov[i] > -2 && s.cov[i] < 4;

        want -= out ? 0 : s.a[i] / (double)s.n;
        left_out += out && s.a[i] != 0;
        seen += s.a[i] != 0;
    }
    assert_true(left_out > 3 && left_out < 0.9 * seen);
    for (size_t k = 0; k < 3; k++) {
        sr1_step_report r = {.struct_size = sizeof r};
        size_t n;

        free(updated(tiny_config("model", GRADIENT, "loss=clip_cov", "clip_cov_ratio=1",
                                 "clip_cov_lb=-2", "clip_cov_ub=4", cuts[k], NULL),
                     &r, &n));
        tiny_near(r.loss, want, 1e-5);
        tiny_near(step_metric(&r, "actor/pg_clipfrac_lower"), left_out / seen, 1e-6);
    }
}

static int larger_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* Of another policy's tokens: what the coefficient adds is |new - old| of the largest. */
static void kl_cov_holds_those_of_the_largest(void **state)
{
    static struct tokens s;
    static double sorted[MOST];
    sr1_trainer *tr = tiny_trainer(tiny_config("other", NULL));
    sr1_step_report without = {.struct_size = sizeof without}, with = without;
    double want = 0;
    size_t n;

    (void)state;
    OK(sr1__forward_column(tr, SR1_COLUMN_OLD, rolled, N));
    sr1_trainer_free(tr);
    read_tokens(&s);
    memcpy(sorted, s.cov, sizeof sorted);
    qsort(sorted, s.n, sizeof *sorted, larger_first);
    n = (size_t)(0.2 * (double)s.n);
    assert_true(n > 3 && sorted[n - 1] > sorted[n]);
    for (size_t i = 0; i < s.n; i++)
        want += s.cov[i] >= sorted[n - 1] ? fabs(s.now[i] - s.old[i]) / (double)s.n : 0;
    assert_true(want > 1e-4);
    free(updated(tiny_config("other", GRADIENT, "loss=kl_cov", "kl_cov_ratio=0.2",
                             "ppo_kl_coef=0", NULL),
                 &without, &n));
    free(updated(tiny_config("other", GRADIENT, "loss=kl_cov", "kl_cov_ratio=0.2",
                             "ppo_kl_coef=1", NULL),
                 &with, &n));
    tiny_near(with.loss - without.loss, want, 1e-5);
}

/* ---- slopes that jump where the policy is the old one ---- */

static sr1_status alternate(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    (void)self;
    (void)t;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)(i % 2);
    return SR1_OK;
}

/* Weights after a step of the trainer's own; caller frees. */
static float *stepped(sr1_config *c, size_t *count)
{
    static const sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "alternate", .score = alternate};
    sr1_query q = tiny_query("one?");
    sr1_trainer *tr = tiny_trainer(c);
    float *w;

    OK(sr1_trainer_add_reward(tr, &ops, NULL, 1.0));
    OK(sr1_trainer_train_step(tr, &q, 1, GROUP, NULL, NULL));
    w = tiny_weights(tr->model, count);
    sr1_trainer_free(tr);
    return w;
}

/* In the first optimizer step new - old is 0 but for rounding: a slope by its sign would
 * be noise, as large as the key says. verl has old = new there. Later it is not 0. */
static void no_slope_follows_the_sign_of_rounding(void **state)
{
    static const struct {
        const char *choice, *none, *some;
    } of[] = {{"loss=kl_cov", "ppo_kl_coef=0", "ppo_kl_coef=50"},
              {"kl_kind=abs", "beta=0", "beta=50"}};
    static const char *const shares = "kl_cov_ratio=0.3";

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int times = 1; times <= 2; times++) {
            const char *epochs = times == 1 ? "update_times=1" : "update_times=2";
            size_t n;
            float *none = stepped(tiny_config("model", GRADIENT, shares, of[i].choice,
                                              of[i].none, epochs, NULL),
                                  &n);
            float *some = stepped(tiny_config("model", GRADIENT, shares, of[i].choice,
                                              of[i].some, epochs, NULL),
                                  &n);

            assert_int_equal(memcmp(none, some, n * sizeof *some) == 0, times == 1);
            free(none);
            free(some);
        }
}

/* Of another policy's tokens those of small weight are dropped: nothing is left. */
static void a_mask_may_drop_everything(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("other", NULL));
    size_t n;
    float *start = tiny_weights(tr->model, &n);
    float *end = updated(tiny_config("other", GRADIENT, "beta=0", "importance_high=1e-6",
                                     "importance_correction=token_mask", NULL),
                         NULL, &n);

    (void)state;
    assert_memory_equal(start, end, n * sizeof *end);
    sr1_trainer_free(tr);
    free(start);
    free(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_offer_what_the_tables_hold),
        cmocka_unit_test(a_loss_brings_its_numbers),
        cmocka_unit_test(one_end_of_the_clip_leaves_the_other),
        cmocka_unit_test(the_hosts_language_changes_no_number),
        cmocka_unit_test(the_first_system_keeps_its_defaults),
        cmocka_unit_test(pairs_that_contradict_are_refused),
        cmocka_unit_test(what_would_change_nothing_is_refused),
        cmocka_unit_test(every_loss_takes_two_passes),
        cmocka_unit_test(no_loss_depends_on_the_cut),
        cmocka_unit_test(figures_are_means_whatever_the_weights),
        cmocka_unit_test(groups_weigh_the_same),
        cmocka_unit_test(bounds_are_reported),
        cmocka_unit_test(a_correction_of_nothing_changes_nothing),
        cmocka_unit_test(clip_cov_leaves_out_those_between_its_bounds),
        cmocka_unit_test(kl_cov_holds_those_of_the_largest),
        cmocka_unit_test(no_slope_follows_the_sign_of_rounding),
        cmocka_unit_test(a_mask_may_drop_everything),
    };

    return cmocka_run_group_tests(tests, make, clean);
}
