/* Every estimator equals numpy on random ragged batches, those of verl equal its code,
 * and each has the properties that define it. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <searchr1/ext/estimators.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 600

/* The arrays of a batch; struct members point into it. */
struct arrays {
    sr1_advantage_batch b;
    double rewards[MOST], turn_rewards[MOST], token_rewards[MOST], bootstrap[MOST],
        components[MOST], component_weights[8], confidences[MOST], costs[MOST],
        baselines[MOST];
    uint64_t groups[MOST], states[MOST];
    int64_t token_begin[MOST], turn_begin[MOST];
    int32_t token_turns[MOST], tags[MOST], result_turn[MOST], places[MOST];
    float values[MOST], norms[MOST];
    uint8_t completed[MOST];
};

static size_t n_tokens(const struct arrays *a)
{
    return (size_t)a->token_begin[a->b.n];
}

static size_t n_turns(const struct arrays *a)
{
    return (size_t)a->turn_begin[a->b.n];
}

/* ---- reading ---- */

static const json_t *list(const json_t *o, const char *key)
{
    const json_t *l = json_object_get(o, key);

    if (!json_is_array(l) || json_array_size(l) >= MOST)
        fail_msg("%s: no array, or too long", key);
    return l;
}

static double real(const json_t *l, size_t i)
{
    const json_t *v = json_array_get(l, i);

    return json_is_null(v) ? NAN : json_number_value(v);
}

#define READ(to, key)                                                                    \
    do {                                                                                 \
        const json_t *l_ = list(o, key);                                                 \
        for (size_t i_ = 0; i_ < json_array_size(l_); i_++)                              \
            to[i_] = (__typeof__(to[0]))real(l_, i_);                                    \
    } while (0)

static void read_keys(const json_t *o, const char *key, uint64_t *out)
{
    const json_t *l = list(o, key);

    for (size_t i = 0; i < json_array_size(l); i++)
        out[i] = (uint64_t)json_integer_value(json_array_get(l, i));
}

static void read_begins(const json_t *o, const char *key, int64_t *out)
{
    const json_t *l = list(o, key);

    out[0] = 0;
    for (size_t i = 0; i < json_array_size(l); i++)
        out[i + 1] = out[i] + json_integer_value(json_array_get(l, i));
}

static void point(struct arrays *a)
{
    size_t n = a->b.n;

    a->b = (sr1_advantage_batch){sizeof a->b,
                                 n,
                                 a->rewards,
                                 a->groups,
                                 a->token_begin,
                                 a->token_turns,
                                 a->turn_begin,
                                 a->turn_rewards,
                                 a->token_rewards,
                                 a->values,
                                 a->bootstrap,
                                 a->completed,
                                 3,
                                 NULL,
                                 a->components,
                                 a->component_weights,
                                 a->states,
                                 a->tags,
                                 a->confidences,
                                 a->costs,
                                 a->result_turn,
                                 a->baselines};
    a->b.score_norms = a->norms;
    a->b.token_places = a->places;
}

static void read_batch(const json_t *o, struct arrays *a)
{
    READ(a->rewards, "rewards");
    read_keys(o, "groups", a->groups);
    read_begins(o, "token_counts", a->token_begin);
    read_begins(o, "turn_counts", a->turn_begin);
    READ(a->token_turns, "token_turns");
    READ(a->turn_rewards, "turn_rewards");
    READ(a->token_rewards, "token_rewards");
    READ(a->values, "values");
    READ(a->bootstrap, "bootstrap");
    READ(a->completed, "completed");
    READ(a->components, "components");
    READ(a->component_weights, "component_weights");
    read_keys(o, "turn_states", a->states);
    READ(a->tags, "turn_tags");
    READ(a->confidences, "confidences");
    READ(a->costs, "thinking_costs");
    READ(a->result_turn, "result_turn");
    READ(a->baselines, "baselines");
    a->b.n = json_array_size(list(o, "rewards"));
    point(a);
    a->b.token_places = NULL; /* not in every file */
    if (json_object_get(o, "token_places") == NULL)
        return;
    READ(a->norms, "score_norms");
    READ(a->places, "token_places");
    a->b.token_places = a->places;
}

#define REAL_OPTION(field)                                                               \
    if (json_object_get(o, #field) != NULL)                                              \
    out->field = json_number_value(json_object_get(o, #field))
#define INT_OPTION(field)                                                                \
    if (json_object_get(o, #field) != NULL)                                              \
    out->field = (int32_t)json_integer_value(json_object_get(o, #field))

static void read_options(const char *name, const json_t *o, sr1_advantage_options *out)
{
    out->struct_size = sizeof *out;
    assert_int_equal(sr1_advantage_options_init(out, name), SR1_OK);
    REAL_OPTION(eps);
    INT_OPTION(divide_by_std);
    INT_OPTION(std_kind);
    INT_OPTION(std_over);
    INT_OPTION(single_raw);
    INT_OPTION(whiten);
    REAL_OPTION(gamma);
    REAL_OPTION(lam);
    REAL_OPTION(turn_advantage_coef);
    REAL_OPTION(step_advantage_w);
    INT_OPTION(step_mode);
    INT_OPTION(multiplicative);
    REAL_OPTION(thinking_diversity_w);
    REAL_OPTION(thinking_cost_w);
    REAL_OPTION(thinking_cost_max);
    INT_OPTION(pass_k);
    INT_OPTION(gpg_nonzero);
}

/* ---- comparing ---- */

struct results {
    double advantages[MOST], turns[MOST];
    float tokens[MOST], returns[MOST];
};

/* Relative 1e-6, near 0 absolute 1e-9. */
static void same(double got, double want, const char *what, size_t i)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-9))
        fail_msg("%s %zu: %.12g is not %.12g", what, i, got, want);
}

static size_t compare(const char *name, const json_t *want, const char *key,
                      const double *f64, const float *f32, size_t n)
{
    const json_t *l = json_object_get(want, key);
    char what[100];

    if (l == NULL)
        return 0;
    snprintf(what, sizeof what, "%s: %s", name, key);
    assert_int_equal(json_array_size(l), n);
    for (size_t i = 0; i < n; i++)
        same(f64 != NULL ? f64[i] : (double)f32[i], real(l, i), what, i);
    return 1;
}

static sr1_advantage_info info_of(const char *name)
{
    sr1_advantage_info info = {.struct_size = sizeof info};
    size_t i = 0;

    while (strcmp(sr1_advantage_name(i), name) != 0)
        i++;
    assert_int_equal(sr1_advantage_describe(i, &info), SR1_OK);
    return info;
}

static void estimate(const char *name, const struct arrays *a,
                     const sr1_advantage_options *o, struct results *r)
{
    int32_t gives = info_of(name).gives;
    sr1_advantage_outputs out = {sizeof out, r->advantages, r->tokens,
                                 gives & SR1_ADVANTAGE_GIVES_RETURNS ? r->returns : NULL,
                                 gives & SR1_ADVANTAGE_GIVES_TURNS ? r->turns : NULL};

    if (sr1_advantage_estimate(name, &a->b, o, &out, NULL) != SR1_OK)
        fail_msg("%s: %s", name, sr1_last_error());
}

static void check_row(const struct arrays *a, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "estimator"));
    const json_t *want = json_object_get(row, "want");
    int32_t gives = info_of(name).gives;
    sr1_advantage_options o;
    struct results r;
    size_t i, given = 0;

    read_options(name, json_object_get(row, "options"), &o);
    estimate(name, a, &o, &r);
    given += compare(name, want, "advantages", r.advantages, NULL, a->b.n);
    given += compare(name, want, "token_advantages", NULL, r.tokens, n_tokens(a));
    given += compare(name, want, "returns", NULL, r.returns, n_tokens(a));
    given += compare(name, want, "turn_advantages", r.turns, NULL, n_turns(a));
    assert_int_equal(given, 1 + !!(gives & SR1_ADVANTAGE_GIVES_TOKENS) +
                                !!(gives & SR1_ADVANTAGE_GIVES_RETURNS) +
                                !!(gives & SR1_ADVANTAGE_GIVES_TURNS));
    for (i = 0; !(gives & SR1_ADVANTAGE_GIVES_TOKENS) && i < a->b.n; i++)
        for (int64_t t = a->token_begin[i]; t < a->token_begin[i + 1]; t++)
            assert_true(r.tokens[t] == (float)r.advantages[i]);
}

/* Check each row of a file of tests/golden; seen [64]: rows of each estimator. Returns
 * the batches. */
static size_t check_vectors(const char *file, size_t *seen)
{
    static struct arrays a;
    char path[4096], *line, *rest;
    struct sr1__buf text;
    size_t batches = 0, i;

    snprintf(path, sizeof path, "%s/tests/golden/%s", getenv("SR1_SRC"), file);
    assert_int_equal(sr1__file_read(path, 0, &text), SR1_OK);
    for (line = strtok_r(text.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, line, strlen(line), "vectors"), SR1_OK);
        if (json_object_get(row, "batch") != NULL) {
            read_batch(json_object_get(row, "batch"), &a);
            batches++;
        } else {
            const char *name = json_string_value(json_object_get(row, "estimator"));

            check_row(&a, row);
            for (i = 0; strcmp(sr1_advantage_name(i), name) != 0;)
                i++;
            seen[i]++;
        }
        json_decref(row);
    }
    sr1__buf_free(&text);
    return batches;
}

static void every_estimator_equals_numpy(void **state)
{
    size_t seen[64] = {0}, batches = check_vectors("estimators.jsonl", seen), i;

    (void)state;
    for (i = 0; sr1_advantage_name(i) != NULL; i++)
        if (seen[i] != batches || batches < 10)
            fail_msg("%s: %zu vectors", sr1_advantage_name(i), seen[i]);
}

static void advantages_are_those_of_verl_and_trl(void **state)
{
    size_t seen[64] = {0}, rows = 0, i;

    (void)state;
    assert_int_equal(check_vectors("peer_estimators.jsonl", seen), 20);
    for (i = 0; sr1_advantage_name(i) != NULL; i++)
        rows += seen[i];
    assert_int_equal(rows, 103);
}

/* GiGPO's and RLVMR's own. */
static void estimators_by_step_equal_their_code(void **state)
{
    size_t seen[64] = {0}, i;

    (void)state;
    assert_int_equal(check_vectors("step_estimators.jsonl", seen), 8);
    for (i = 0; sr1_advantage_name(i) != NULL; i++)
        assert_int_equal(seen[i], strcmp(sr1_advantage_name(i), "gigpo") == 0 ||
                                          strcmp(sr1_advantage_name(i), "rlvmr") == 0
                                      ? 8
                                      : 0);
}

/* ---- properties ---- */

/* Some trajectories with everything in them; groups interleaved. */
static void random_arrays(struct sr1__rng *r, struct arrays *a)
{
    size_t n = 1 + (size_t)sr1__rng_below(r, 12), i, t = 0, u = 0;

    a->token_begin[0] = a->turn_begin[0] = 0;
    for (i = 0; i < n; i++) {
        size_t turns = 1 + (size_t)sr1__rng_below(r, 3), k, c;
        int32_t place = -1;

        a->rewards[i] = (double)sr1__rng_below(r, 4) - 1;
        a->groups[i] = UINT64_MAX - sr1__rng_below(r, 3);
        a->bootstrap[i] = sr1__rng_normal(r);
        a->baselines[i] = sr1__rng_normal(r);
        a->completed[i] = (uint8_t)sr1__rng_below(r, 2);
        a->result_turn[i] = (int32_t)sr1__rng_below(r, turns + 1) - 1;
        for (c = 0; c < 3; c++)
            a->components[3 * i + c] = sr1__rng_normal(r);
        for (k = 0; k < turns; k++, u++) {
            size_t tokens = (size_t)sr1__rng_below(r, 4);

            a->turn_rewards[u] = sr1__rng_normal(r);
            a->states[u] = sr1__rng_below(r, 2);
            a->tags[u] = (int32_t)sr1__rng_below(r, 4);
            for (c = 0; c < 4; c++) {
                a->confidences[4 * u + c] = -sr1__rng_uniform(r);
                a->costs[4 * u + c] = 100 * sr1__rng_uniform(r);
            }
            while (tokens-- > 0) {
                a->token_turns[t] = (int32_t)k;
                a->token_rewards[t] = 0.1 * sr1__rng_normal(r);
                a->norms[t] = (float)sr1__rng_uniform(r);
                a->places[t] = place += 1 + (int32_t)sr1__rng_below(r, 2);
                a->values[t++] = (float)sr1__rng_normal(r);
            }
        }
        a->token_begin[i + 1] = (int64_t)t;
        a->turn_begin[i + 1] = (int64_t)u;
    }
    a->component_weights[0] = a->component_weights[1] = a->component_weights[2] = 1;
    a->b.n = n;
    point(a);
}

/* What says that it is group relative is 0 where a group's rewards are all equal, and
 * something else is not: a batch of equal rewards teaches the others. */
static void equal_rewards_teach_a_group_relative_estimator_nothing(void **state)
{
    static struct arrays a;
    struct sr1__rng r;
    size_t relative = 0;

    (void)state;
    sr1__rng_seed(&r, 7, 0);
    for (size_t e = 0; sr1_advantage_name(e) != NULL; e++) {
        const char *name = sr1_advantage_name(e);
        int says = (info_of(name).gives & SR1_ADVANTAGE_GIVES_GROUP_RELATIVE) != 0;
        int taught = 0;

        relative += (size_t)says;
        for (int round = 0; round < 200; round++) {
            sr1_advantage_options o;
            struct results got;

            random_arrays(&r, &a);
            for (size_t i = 0; i < a.b.n; i++) /* one group of three differs */
                if (a.groups[i] != UINT64_MAX)
                    a.rewards[i] = (double)(a.groups[i] % 5) / 3;
            memset(a.token_rewards, 0, sizeof a.token_rewards);
            read_options(name, NULL, &o);
            estimate(name, &a, &o, &got);
            for (size_t i = 0; i < a.b.n; i++)
                taught |= a.groups[i] != UINT64_MAX && fabs(got.advantages[i]) > 1e-9;
        }
        if (says == taught)
            fail_msg("%s: says %d, taught %d", name, says, taught);
    }
    assert_true(relative >= 6);
}

#define MOVE(field, to, from, count)                                                     \
    memcpy(b->field + (to), a->field + (from), (size_t)(count) * sizeof a->field[0])

/* The trajectories of a in another order. */
static void permute(const struct arrays *a, const int64_t *order, struct arrays *b)
{
    size_t i, n = a->b.n;

    b->token_begin[0] = b->turn_begin[0] = 0;
    for (i = 0; i < n; i++) {
        size_t j = (size_t)order[i];
        int64_t t = b->token_begin[i], u = b->turn_begin[i];
        int64_t ts = a->token_begin[j + 1] - a->token_begin[j];
        int64_t us = a->turn_begin[j + 1] - a->turn_begin[j];

        b->token_begin[i + 1] = t + ts;
        b->turn_begin[i + 1] = u + us;
        MOVE(rewards, i, j, 1);
        MOVE(groups, i, j, 1);
        MOVE(bootstrap, i, j, 1);
        MOVE(baselines, i, j, 1);
        MOVE(completed, i, j, 1);
        MOVE(result_turn, i, j, 1);
        MOVE(components, 3 * i, 3 * j, 3);
        MOVE(turn_rewards, u, a->turn_begin[j], us);
        MOVE(states, u, a->turn_begin[j], us);
        MOVE(tags, u, a->turn_begin[j], us);
        MOVE(confidences, 4 * u, 4 * a->turn_begin[j], 4 * us);
        MOVE(costs, 4 * u, 4 * a->turn_begin[j], 4 * us);
        MOVE(token_turns, t, a->token_begin[j], ts);
        MOVE(token_rewards, t, a->token_begin[j], ts);
        MOVE(values, t, a->token_begin[j], ts);
        MOVE(norms, t, a->token_begin[j], ts);
        MOVE(places, t, a->token_begin[j], ts);
    }
    memcpy(b->component_weights, a->component_weights, sizeof b->component_weights);
    b->b.n = n;
    point(b);
}

static void check_permuted(const char *name, const struct arrays *a,
                           const struct arrays *b, const int64_t *order)
{
    static struct results x, y;

    estimate(name, a, NULL, &x);
    estimate(name, b, NULL, &y);
    for (size_t i = 0; i < a->b.n; i++) {
        size_t j = (size_t)order[i];
        int64_t t, shift = a->token_begin[j] - b->token_begin[i];

        same(y.advantages[i], x.advantages[j], name, i);
        for (t = b->token_begin[i]; t < b->token_begin[i + 1]; t++)
            same((double)y.tokens[t], (double)x.tokens[t + shift], name, (size_t)t);
    }
}

static void the_order_of_trajectories_does_not_matter(void **state)
{
    static struct arrays a, b;
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 11, 1);
    for (int round = 0; round < 60; round++) {
        int64_t order[16];

        random_arrays(&r, &a);
        for (size_t i = 0; i < a.b.n; i++)
            order[i] = (int64_t)i;
        sr1__rng_shuffle(&r, order, a.b.n);
        permute(&a, order, &b);
        for (size_t i = 0; sr1_advantage_name(i) != NULL; i++)
            check_permuted(sr1_advantage_name(i), &a, &b, order);
    }
}

/* "token_rewards on top of rewards": taken away they are missed, but for estimators that
 * read the components of the reward in place of it. */
static void token_rewards_count(void **state)
{
    static const char *const by_component[] = {"gdpo"};
    static struct arrays a;
    static struct results with, without;
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 13, 1);
    do
        random_arrays(&r, &a);
    while (a.b.n < 12 || n_tokens(&a) < 20);
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++) {
        const char *name = sr1_advantage_name(i);
        int counts = 1, differ = 0;

        for (size_t k = 0; k < sizeof by_component / sizeof by_component[0]; k++)
            counts &= strcmp(name, by_component[k]) != 0;
        a.b.token_rewards = a.token_rewards;
        estimate(name, &a, NULL, &with);
        a.b.token_rewards = NULL;
        estimate(name, &a, NULL, &without);
        for (size_t t = 0; t < n_tokens(&a); t++)
            differ |= fabs((double)(with.tokens[t] - without.tokens[t])) > 1e-4;
        if (differ != counts)
            fail_msg("%s: token_rewards %s", name, differ ? "count" : "do not count");
    }
}

static double sum_of_group(const struct arrays *a, const double *v, uint64_t key)
{
    double sum = 0;

    for (size_t i = 0; i < a->b.n; i++)
        sum += a->groups[i] == key ? v[i] : 0;
    return sum;
}

static void group_advantages_sum_to_zero(void **state)
{
    static const char *const names[] = {"grpo", "dr_grpo",         "rloo",
                                        "gpg",  "mt_grpo_outcome", "mt_grpo_merged"};
    static struct arrays a;
    static struct results got;
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 12, 1);
    for (int round = 0; round < 100; round++) {
        random_arrays(&r, &a);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            estimate(names[k], &a, NULL, &got);
            for (uint64_t key = UINT64_MAX - 2; key != 0; key++)
                assert_true(fabs(sum_of_group(&a, got.advantages, key)) < 1e-9);
        }
    }
}

/* gamma 1, no whitening: the first token's return is the whole reward. */
static void no_reward_is_lost_on_the_way_to_tokens(void **state)
{
    static struct arrays a;
    static struct results got;
    sr1_advantage_options o = {.struct_size = sizeof o};
    struct sr1__rng r;

    (void)state;
    assert_int_equal(sr1_advantage_options_init(&o, "reinforce_plus_plus"), SR1_OK);
    o.whiten = 0;
    sr1__rng_seed(&r, 13, 1);
    for (int round = 0; round < 100; round++) {
        random_arrays(&r, &a);
        estimate("reinforce_plus_plus", &a, &o, &got);
        for (size_t i = 0; i < a.b.n; i++) {
            double whole = a.rewards[i];

            for (int64_t t = a.token_begin[i]; t < a.token_begin[i + 1]; t++)
                whole += a.token_rewards[t];
            if (a.token_begin[i] < a.token_begin[i + 1])
                assert_true(fabs((double)got.tokens[a.token_begin[i]] - whole) < 1e-5);
        }
    }
}

static void whitened_tokens_have_mean_zero_and_variance_one(void **state)
{
    static struct arrays a;
    static struct results got;
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 14, 1);
    for (int round = 0; round < 50; round++) {
        double mean = 0, squares = 0, n;

        random_arrays(&r, &a);
        n = (double)n_tokens(&a);
        if (n < 2)
            continue;
        estimate("gae", &a, NULL, &got);
        for (size_t t = 0; t < n_tokens(&a); t++)
            mean += (double)got.tokens[t] / n;
        for (size_t t = 0; t < n_tokens(&a); t++)
            squares += pow((double)got.tokens[t] - mean, 2);
        assert_true(fabs(mean) < 1e-5 && fabs(squares / (n - 1) - 1) < 1e-4);
    }
}

/* A batch of which one turn had no reward is the document's two-turn case. */
static void per_turn_mode_is_mt_grpo_where_only_the_first_turn_has_a_reward(void **state)
{
    static struct arrays a;
    static struct results x, y;
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 15, 1);
    for (int round = 0; round < 50; round++) {
        random_arrays(&r, &a);
        for (size_t i = 0; i < a.b.n; i++) {
            a.result_turn[i] = 0;
            for (int64_t u = a.turn_begin[i] + 1; u < a.turn_begin[i + 1]; u++)
                a.turn_rewards[u] = 0;
        }
        estimate("mt_grpo", &a, NULL, &x);
        estimate("mt_grpo_turns", &a, NULL, &y);
        for (size_t t = 0; t < n_tokens(&a); t++)
            same((double)y.tokens[t], (double)x.tokens[t], "token", t);
    }
}

static void nothing_gives_nothing(void **state)
{
    sr1_advantage_batch b = {.struct_size = sizeof b};
    sr1_advantage_outputs out = {.struct_size = sizeof out};
    sr1_advantage_report report = {.struct_size = sizeof report, .groups = 9};

    (void)state;
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++) {
        const char *name = sr1_advantage_name(i);

        if (sr1_advantage_estimate(name, &b, NULL, &out, &report) != SR1_OK)
            fail_msg("%s: %s", name, sr1_last_error());
        assert_int_equal(report.groups, 0);
    }
}

static void any_allocation_may_fail(void **state)
{
    static struct arrays a;
    static struct results got;
    sr1_advantage_outputs out = {sizeof out, got.advantages, got.tokens, NULL, NULL};
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 16, 1);
    random_arrays(&r, &a);
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++) {
        sr1_status status = SR1_E_NOMEM;
        int64_t k, live = sr1__mem_live();

        for (k = 1; status != SR1_OK; k++) {
            got.advantages[0] = 1234;
            sr1__mem_fail_at(k);
            status =
                sr1_advantage_estimate(sr1_advantage_name(i), &a.b, NULL, &out, NULL);
            sr1__mem_fail_at(0);
            assert_true(status == SR1_OK || status == SR1_E_NOMEM);
            assert_true((got.advantages[0] == 1234) == (status != SR1_OK));
            assert_int_equal(sr1__mem_live(), live);
        }
        assert_true(k > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_estimator_equals_numpy),
        cmocka_unit_test(advantages_are_those_of_verl_and_trl),
        cmocka_unit_test(estimators_by_step_equal_their_code),
        cmocka_unit_test(the_order_of_trajectories_does_not_matter),
        cmocka_unit_test(equal_rewards_teach_a_group_relative_estimator_nothing),
        cmocka_unit_test(token_rewards_count),
        cmocka_unit_test(group_advantages_sum_to_zero),
        cmocka_unit_test(no_reward_is_lost_on_the_way_to_tokens),
        cmocka_unit_test(whitened_tokens_have_mean_zero_and_variance_one),
        cmocka_unit_test(per_turn_mode_is_mt_grpo_where_only_the_first_turn_has_a_reward),
        cmocka_unit_test(nothing_gives_nothing),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
