/* Optimal token baselines in training: score norms by the model's own logits, what the
 * estimator makes of them, no dependence on the cut, runs that are resumed. */
#include "runs.h"
#include "updates.h"

#include <searchr1/ext/loss.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/trajectory_details.h>

#define GROUP 4
#define QUERIES 2
#define N (GROUP * QUERIES)

/* One step, with its trajectories. */
static sr1_trainer *stepped(sr1_config *c, sr1_trajectory *out[N])
{
    sr1_trainer *tr = tiny_trainer(c);
    sr1_query q[QUERIES] = {tiny_query("one?"), tiny_query("the second, longer one?")};
    sr1_step_report r = {.struct_size = sizeof r};

    OK(sr1_trainer_train_step(tr, q, QUERIES, GROUP, &r, out));
    return tr;
}

/* 1 - 2 p + the sum of squared probabilities of the token at `at`. */
static double norm_of(const float *logits, size_t vocab, double temperature, int32_t id)
{
    double most = -INFINITY, sum = 0, squares = 0;

    for (size_t v = 0; v < vocab; v++)
        most = fmax(most, (double)logits[v]);
    for (size_t v = 0; v < vocab; v++)
        sum += exp((logits[v] - most) / temperature);
    for (size_t v = 0; v < vocab; v++)
        squares += pow(exp((logits[v] - most) / temperature) / sum, 2);
    return 1 - 2 * exp((logits[id] - most) / temperature) / sum + squares;
}

static void check_norms(sr1_model *m, const sr1_trajectory *t, double temperature)
{
    size_t n = sr1_trajectory_token_count(t);
    size_t vocab = (size_t)sr1_model_info(m, SR1_MODEL_VOCAB);
    const float *norms = sr1_trajectory_column(t, SR1_COLUMN_SCORE_NORM);
    const int32_t *ids = sr1_trajectory_ids(t), *at = sr1_trajectory_policy_positions(t);
    float *logits = calloc(n * vocab, sizeof *logits);

    assert_non_null(norms);
    OK(sr1_model_logits(m, ids, n, logits));
    for (size_t k = 0; k < sr1_trajectory_policy_count(t); k++)
        tiny_near(
            norms[k],
            norm_of(logits + (size_t)(at[k] - 1) * vocab, vocab, temperature, ids[at[k]]),
            2e-5);
    free(logits);
}

static void norms_are_those_of_the_logits(void **state)
{
    static const double temperatures[] = {1, 0.6};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char pair[32];
        sr1_trajectory *t[N];
        sr1_trainer *tr;

        snprintf(pair, sizeof pair, "temperature=%g", temperatures[i]);
        tr = stepped(tiny_config("model", "advantage=optimal_token_baseline", pair,
                                 "learning_rate=0", NULL),
                     t);
        for (size_t k = 0; k < N; k++)
            check_norms(tr->model, t[k], temperatures[i]);
        tiny_free_all(t, N);
        sr1_trainer_free(tr);
    }
}

/* ---- what the estimator makes of them ---- */

#define MOST 4096

/* The arrays of trajectories, by their columns; weighted: by importance, at most 2. */
struct arrays {
    double rewards[N];
    uint64_t groups[N];
    int64_t begin[N + 1];
    float norms[MOST], advantages[MOST];
    int32_t places[MOST];
    sr1_advantage_batch b;
};

static void lay_out(struct arrays *a, sr1_trajectory *const t[N], int weighted)
{
    *a = (struct arrays){.b = {.struct_size = sizeof a->b,
                               .n = N,
                               .rewards = a->rewards,
                               .groups = a->groups,
                               .token_begin = a->begin,
                               .score_norms = a->norms,
                               .token_places = a->places}};
    for (size_t i = 0; i < N; i++) {
        size_t n = sr1_trajectory_policy_count(t[i]), at = (size_t)a->begin[i];
        const float *old = sr1_trajectory_column(t[i], SR1_COLUMN_OLD);
        const float *own = sr1_trajectory_policy_log_probs(t[i]);

        assert_true(at + n <= MOST);
        a->rewards[i] = sr1_trajectory_reward(t[i]);
        a->groups[i] = sr1_trajectory_group_key(t[i]);
        a->begin[i + 1] = (int64_t)(at + n);
        for (size_t k = 0; k < n; k++) {
            double rho = weighted ? fmin(exp((double)old[k] - own[k]), 2) : 1;

            a->norms[at + k] =
                (float)(sr1_trajectory_column(t[i], SR1_COLUMN_SCORE_NORM)[k] * rho *
                        rho);
            a->places[at + k] = sr1_trajectory_policy_positions(t[i])[k] -
                                (int32_t)sr1_trajectory_prompt_count(t[i]);
        }
    }
}

static void check_advantages(const char *name, int weighted)
{
    static struct arrays a;
    sr1_advantage_outputs out = {.struct_size = sizeof out,
                                 .token_advantages = a.advantages};
    sr1_trajectory *t[N];
    char pair[64];
    sr1_trainer *tr;
    int differ = 0;

    snprintf(pair, sizeof pair, "advantage=%s", name);
    tr = stepped(weighted ? tiny_config("model", pair, "quantization=int8",
                                        "importance_correction=token_truncate", NULL)
                          : tiny_config("model", pair, NULL),
                 t);
    lay_out(&a, t, weighted);
    OK(sr1_advantage_estimate(name, &a.b, NULL, &out, NULL));
    for (size_t i = 0; i < N; i++) {
        const float *got = sr1_trajectory_column(t[i], SR1_COLUMN_ADVANTAGE);

        for (int64_t k = a.begin[i]; k < a.begin[i + 1]; k++) {
            tiny_near(got[k - a.begin[i]], a.advantages[k], 1e-6);
            differ |= got[k - a.begin[i]] != got[0];
        }
    }
    assert_true(differ);
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
}

static void advantages_are_the_estimators(void **state)
{
    (void)state;
    for (int weighted = 0; weighted < 2; weighted++) {
        check_advantages("optimal_token_baseline", weighted);
        check_advantages("tir_optimal_token_baseline", weighted);
    }
}

/* ---- the cut ---- */

static void neither_cut_nor_workers_matter(void **state)
{
    static const char *const cuts[] = {"micro_batch_tokens=1", "workers=3",
                                       "logit_chunk=1"};
    sr1_trajectory *whole[N], *part[N];
    float *w, *other;
    size_t n;
    sr1_trainer *tr = stepped(tiny_config("model", "advantage=tir_optimal_token_baseline",
                                          GRADIENT, "beta=0", NULL),
                              whole);

    (void)state;
    w = tiny_weights(tr->model, &n);
    sr1_trainer_free(tr);
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        tr = stepped(tiny_config("model", "advantage=tir_optimal_token_baseline",
                                 GRADIENT, "beta=0", cuts[k], NULL),
                     part);
        other = tiny_weights(tr->model, &n);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < sr1_trajectory_policy_count(whole[i]); j++)
                tiny_near(sr1_trajectory_column(part[i], SR1_COLUMN_ADVANTAGE)[j],
                          sr1_trajectory_column(whole[i], SR1_COLUMN_ADVANTAGE)[j], 1e-4);
        for (size_t i = 0; i < n; i++)
            tiny_near(other[i], w[i], 1e-4);
        free(other);
        tiny_free_all(part, N);
        sr1_trainer_free(tr);
    }
    free(w);
    tiny_free_all(whole, N);
}

static void runs_are_resumed(void **state)
{
    static const char *const keys[] = {"advantage=optimal_token_baseline",
                                       "advantage=tir_optimal_token_baseline"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char whole[32], stopped[32];
        sr1_trainer *tr;

        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(stopped, sizeof stopped, "stopped-%zu", i);
        run_whole(RUN(whole, keys[i]));
        tr = open_trainer(RUN(stopped, keys[i]));
        run_until(tr, 4);
        sr1_trainer_free(tr);
        tr = NULL;
        OK(sr1_trainer_resume(&tr, scratch_path(stopped), NULL));
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        same_run(whole, stopped);
    }
}

static void keys_that_say_nothing_to_it_are_refused(void **state)
{
    static const char *const vain[] = {"gamma=0.9", "advantage_whiten=on",
                                       "advantage_std_over=batch"};

    (void)state;
    for (size_t i = 0; i < sizeof vain / sizeof *vain; i++) {
        sr1_config *c =
            tiny_config("model", "advantage=optimal_token_baseline", vain[i], NULL);
        sr1_trainer *tr = NULL;

        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "does not look at it");
        sr1_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_those_of_the_logits),
        cmocka_unit_test(advantages_are_the_estimators),
        cmocka_unit_test(neither_cut_nor_workers_matter),
        cmocka_unit_test(runs_are_resumed),
        cmocka_unit_test(keys_that_say_nothing_to_it_are_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
