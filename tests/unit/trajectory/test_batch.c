/* test_batch.c - every policy token is in exactly one micro-batch with its own values,
 * whatever the budget and wherever its trajectory lies. */
#include "random_trajectory.h"
#include "environment/trajectory/microbatch.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define OK(call) assert_int_equal((call), SR1_OK)
#define MOST 64

struct fixture {
    sr1_trajectory *t[MOST];
    size_t n;
    struct sr1__trajectory_store *store; /* the same ones, spilled */
};

static void setup(struct fixture *f, uint64_t seed)
{
    struct sr1__rng r;

    sr1__rng_seed(&r, seed, 21);
    f->n = below(&r, MOST + 1);
    OK(sr1__trajectory_store_new(&f->store, 0, "/tmp"));
    for (size_t i = 0; i < f->n; i++) {
        OK(random_trajectory(&r, 10, &f->t[i]));
        if (!sr1_trajectory_column(f->t[i], SR1_COLUMN_ADVANTAGE))
            OK(sr1_trajectory_set_advantage(f->t[i], 0.25 * (double)i));
        OK(sr1__trajectory_store_add(f->store, f->t[i]));
    }
}

static void teardown(struct fixture *f)
{
    for (size_t i = 0; i < f->n; i++)
        sr1_trajectory_free(f->t[i]);
    sr1__trajectory_store_free(f->store);
}

static const sr1_trajectory *const *all(const struct fixture *f)
{
    return (const sr1_trajectory *const *)f->t;
}

/* ---- the plan ---- */

static void check_counts(const struct sr1__batch_plan *p, const struct fixture *f)
{
    int64_t packed = 0, policy = 0;
    size_t skipped = 0;

    for (size_t i = 0; i < f->n; i++) {
        if (sr1_trajectory_policy_count(f->t[i]) == 0 ||
            sr1__trajectory_excluded(f->t[i])) {
            skipped++;
            continue;
        }
        packed += (int64_t)sr1__trajectory_packed_length(f->t[i]);
        policy += (int64_t)sr1_trajectory_policy_count(f->t[i]);
    }
    assert_int_equal(p->n_packed_tokens, packed);
    assert_int_equal(p->n_policy_tokens, policy);
    assert_int_equal(p->n_skipped, skipped);
    assert_int_equal(p->n_sequences, f->n - skipped);
    assert_int_equal(p->batch_begin[0], 0);
    assert_int_equal(p->batch_begin[p->n_batches], p->n_sequences);
}

static void check_plan(const struct sr1__batch_plan *p, const struct fixture *f,
                       int64_t budget)
{
    int seen[MOST] = {0};

    check_counts(p, f);
    for (size_t k = 0; k < p->n_batches; k++) {
        int64_t packed = 0, policy = 0;
        size_t n = p->batch_begin[k + 1] - p->batch_begin[k];

        assert_true(n > 0);
        for (size_t i = p->batch_begin[k]; i < p->batch_begin[k + 1]; i++) {
            const sr1_trajectory *t = f->t[p->sequences[i]];

            assert_int_equal(seen[p->sequences[i]]++, 0);
            packed += (int64_t)sr1__trajectory_packed_length(t);
            policy += (int64_t)sr1_trajectory_policy_count(t);
        }
        assert_int_equal(p->packed_tokens[k], packed);
        assert_int_equal(p->policy_tokens[k], policy);
        assert_true(packed <= budget || n == 1);
    }
    /* no two neighbours that would have fitted together */
    for (size_t k = 0; k + 1 < p->n_batches; k++)
        assert_true(p->packed_tokens[k] + p->packed_tokens[k + 1] > budget);
}

/* ---- micro-batches ---- */

/* Row by row against the trajectory. Marks its policy tokens as seen. */
static void check_sequence(const struct sr1__microbatch *m, size_t s,
                           const sr1_trajectory *t, size_t *target)
{
    int32_t first = m->cu_seqlens[s];
    size_t n = (size_t)(m->cu_seqlens[s + 1] - first);
    const float *each = sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE);

    assert_int_equal(n, sr1__trajectory_packed_length(t));
    assert_memory_equal(m->ids + first, sr1_trajectory_ids(t), n * sizeof *m->ids);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(m->positions[first + (int32_t)i], i);
    for (size_t i = 0; i < sr1_trajectory_policy_count(t); i++, ++*target) {
        sr1_token_step step = {.struct_size = sizeof step};
        float lp, adv;

        OK(sr1_trajectory_step(t, i, &step));
        lp = (float)step.log_prob;
        adv = each ? each[i] : (float)sr1_trajectory_advantage(t);
        assert_int_equal(m->target_rows[*target], first + step.position - 1);
        assert_true(m->target_rows[*target] < m->cu_seqlens[s + 1]);
        assert_int_equal(m->target_ids[*target], step.token_id);
        assert_int_equal(m->target_seqs[*target], s);
        assert_int_equal(m->target_turns[*target], step.turn);
        assert_memory_equal(&m->rollout_log_probs[*target], &lp, sizeof lp);
        assert_memory_equal(&m->columns[SR1_COLUMN_ADVANTAGE][*target], &adv, sizeof adv);
        assert_null(m->columns[SR1_COLUMN_VALUE]);
    }
}

static void check_microbatch(const struct sr1__microbatch *m, const struct fixture *f)
{
    size_t target = 0;
    int32_t longest = 0;

    assert_int_equal(m->cu_seqlens[0], 0);
    assert_int_equal(m->cu_seqlens[m->n_seqs], m->n_tokens);
    for (size_t s = 0; s < m->n_seqs; s++) {
        int32_t n = m->cu_seqlens[s + 1] - m->cu_seqlens[s];

        longest = n > longest ? n : longest;
        check_sequence(m, s, f->t[m->sequence[s]], &target);
    }
    assert_int_equal(target, m->n_targets);
    assert_int_equal(m->max_len, longest);
}

static void check_same(const struct sr1__microbatch *a, const struct sr1__microbatch *b)
{
    assert_int_equal(a->n_seqs, b->n_seqs);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->n_targets, b->n_targets);
    assert_memory_equal(a->ids, b->ids, a->n_tokens * sizeof *a->ids);
    assert_memory_equal(a->sequence, b->sequence, a->n_seqs * sizeof *a->sequence);
    assert_memory_equal(a->target_rows, b->target_rows,
                        a->n_targets * sizeof *a->target_rows);
    assert_memory_equal(a->rollout_log_probs, b->rollout_log_probs,
                        a->n_targets * sizeof(float));
    assert_memory_equal(a->columns[SR1_COLUMN_ADVANTAGE],
                        b->columns[SR1_COLUMN_ADVANTAGE], a->n_targets * sizeof(float));
}

static void check_cut(const struct fixture *f, int64_t budget)
{
    struct sr1__batch_plan p, q;
    struct sr1__microbatch m, n;

    OK(sr1__batch_plan_array(&p, all(f), (struct sr1__batch_part){.end = f->n}, budget));
    OK(sr1__batch_plan_store_part(&q, f->store, (struct sr1__batch_part){.end = f->n},
                                  budget));
    check_plan(&p, f, budget);
    check_plan(&q, f, budget);
    assert_int_equal(p.n_batches, q.n_batches);
    for (size_t k = 0; k < p.n_batches; k++) {
        OK(sr1__microbatch_array(&m, &p, k, all(f), 1u << SR1_COLUMN_ADVANTAGE));
        OK(sr1__microbatch_store(&n, &q, k, f->store, 1u << SR1_COLUMN_ADVANTAGE));
        check_microbatch(&m, f);
        check_same(&m, &n);
        sr1__microbatch_free(&m);
        sr1__microbatch_free(&n);
    }
    assert_int_equal(sr1__microbatch_array(&m, &p, p.n_batches, all(f), 0),
                     SR1_E_INVALID);
    sr1__batch_plan_free(&p);
    sr1__batch_plan_free(&q);
    sr1__batch_plan_free(&p);
}

static void every_policy_token_is_in_one_batch(void **state)
{
    static const int64_t budgets[] = {1, 7, 50, 60, 200, 1000, INT32_MAX};

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct fixture f;

        setup(&f, seed);
        for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
            check_cut(&f, budgets[i]);
        teardown(&f);
    }
}

/* ---- shared prompts ---- */

/* Trajectories of `groups` queries; one in four has an observation in it. */
static void setup_groups(struct fixture *f, uint64_t seed)
{
    size_t groups, prompts[MOST];
    struct sr1__rng r;

    sr1__rng_seed(&r, seed, 22);
    f->n = below(&r, MOST + 1);
    groups = 1 + below(&r, 12);
    for (size_t i = 0; i < MOST; i++)
        prompts[i] = 1 + below(&r, 60);
    OK(sr1__trajectory_store_new(&f->store, 0, "/tmp"));
    for (size_t i = 0; i < f->n; i++) {
        size_t q = below(&r, groups), n = prompts[q];
        struct sr1__trajectory_builder *b;
        int32_t ids[64];
        char id[32];

        snprintf(id, sizeof id, "id-%zu", q);
        for (size_t k = 0; k < n; k++)
            ids[k] = (int32_t)(q * 100 + k);
        OK(sr1__trajectory_builder_new(&b, "q", 1, id, strlen(id)));
        OK(sr1__trajectory_builder_prompt(b, ids, n));
        for (size_t k = below(&r, 30); k > 0; k--)
            OK(sr1__trajectory_builder_policy(b, (int32_t)below(&r, 99), -1, 0, "", 0));
        if (below(&r, 4) == 0)
            OK(sr1__trajectory_builder_environment(b, ids, 1, 0, "", 0, 0, 0));
        for (size_t k = below(&r, 9); k > 0; k--)
            OK(sr1__trajectory_builder_policy(b, (int32_t)below(&r, 99), -1, 1, "", 0));
        OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &f->t[i]));
        OK(sr1_trajectory_set_advantage(f->t[i], 0.25 * (double)i));
        OK(sr1__trajectory_store_add(f->store, f->t[i]));
    }
}

static int32_t span_of(const struct sr1__microbatch *m, int32_t row)
{
    int32_t i = 0;

    while (m->cu_seqlens[i + 1] <= row)
        i++;
    return i;
}

/* Walked backward from row, through the prompt that its span continues, stand the tokens
 * of t before position p, and nothing else. */
static void check_context(const struct sr1__microbatch *m, int32_t row,
                          const sr1_trajectory *t, int32_t p)
{
    int32_t span = span_of(m, row), first = m->cu_seqlens[span];

    for (int32_t at = p - 1; at >= 0; at--, row--) {
        if (row < first) {
            span = m->continues[span];
            assert_true(span >= 0 && m->continues[span] == -1);
            row = m->cu_seqlens[span + 1] - 1;
            first = m->cu_seqlens[span];
        }
        assert_int_equal(m->positions[row], at);
        assert_int_equal(m->ids[row], sr1_trajectory_ids(t)[at]);
    }
    assert_int_equal(row, first - 1);
    assert_int_equal(m->continues[span], -1);
}

static void check_shared(const struct sr1__microbatch *m, const struct fixture *f,
                         int *seen)
{
    size_t target = 0;

    assert_int_equal(m->cu_seqlens[0], 0);
    assert_int_equal(m->cu_seqlens[m->n_spans], m->n_tokens);
    for (size_t s = 0; s < m->n_seqs; s++) {
        const sr1_trajectory *t = f->t[m->sequence[s]];

        assert_int_equal(seen[m->sequence[s]]++, 0);
        for (size_t i = 0; i < sr1_trajectory_policy_count(t); i++, target++) {
            int32_t p = sr1_trajectory_policy_positions(t)[i];

            assert_int_equal(m->target_seqs[target], s);
            assert_int_equal(m->target_ids[target], sr1_trajectory_ids(t)[p]);
            check_context(m, m->target_rows[target], t, p);
        }
    }
    assert_int_equal(target, m->n_targets);
}

/* Tokens with every prompt once, as few as there can be. */
static int64_t count_once(const struct fixture *f)
{
    int64_t n = 0;

    for (size_t i = 0; i < f->n; i++) {
        size_t k = 0;

        if (sr1_trajectory_policy_count(f->t[i]) == 0)
            continue;
        while (k < i && (sr1_trajectory_policy_count(f->t[k]) == 0 ||
                         strcmp(sr1_trajectory_query_id(f->t[k]),
                                sr1_trajectory_query_id(f->t[i])) != 0))
            k++;
        n += (int64_t)sr1__trajectory_packed_length(f->t[i]) -
             (k < i ? (int64_t)sr1_trajectory_prompt_count(f->t[i]) : 0);
    }
    return n;
}

static void check_shared_cut(const struct fixture *f, int64_t budget, size_t multiple)
{
    struct sr1__batch_part part = {.end = f->n, .share_prompts = 1};
    struct sr1__batch_plan p, q;
    int seen[2][MOST] = {{0}};
    int64_t packed = 0;

    OK(sr1__batch_plan_array(&p, all(f), part, budget));
    OK(sr1__batch_plan_store_part(&q, f->store, part, budget));
    assert_int_equal(p.n_batches, q.n_batches);
    if (budget == INT32_MAX)
        assert_int_equal(p.n_packed_tokens, count_once(f));
    OK(sr1__batch_plan_balance_store(&q, f->store, multiple, budget, NULL));
    for (size_t k = 0; k < p.n_batches; k++) {
        struct sr1__microbatch m;

        packed += p.packed_tokens[k];
        assert_true(p.packed_tokens[k] <= budget ||
                    p.batch_begin[k + 1] - p.batch_begin[k] == 1);
        OK(sr1__microbatch_array(&m, &p, k, all(f), 1u << SR1_COLUMN_ADVANTAGE));
        check_shared(&m, f, seen[0]);
        sr1__microbatch_free(&m);
    }
    assert_int_equal(packed, p.n_packed_tokens);
    for (size_t k = 0; k < q.n_batches; k++) {
        struct sr1__microbatch m;

        OK(sr1__microbatch_store(&m, &q, k, f->store, 1u << SR1_COLUMN_ADVANTAGE));
        check_shared(&m, f, seen[1]);
        sr1__microbatch_free(&m);
    }
    for (size_t i = 0; i < f->n; i++)
        for (int k = 0; k < 2; k++)
            assert_int_equal(seen[k][i], sr1_trajectory_policy_count(f->t[i]) > 0);
    sr1__batch_plan_free(&p);
    sr1__batch_plan_free(&q);
}

static void a_shared_prompt_is_before_each_of_its_group(void **state)
{
    static const int64_t budgets[] = {1, 40, 100, 250, 1000, INT32_MAX};

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct fixture f;

        setup_groups(&f, seed);
        for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
            check_shared_cut(&f, budgets[i], 1 + seed % 3);
        teardown(&f);
    }
}

/* A prompt of `prompt` tokens and `policy` policy tokens, then two of the environment. */
static sr1_trajectory *of_lengths(size_t prompt, size_t policy)
{
    int32_t ids[64] = {0};
    struct sr1__trajectory_builder *b;
    sr1_trajectory *t;

    OK(sr1__trajectory_builder_new(&b, "q", 1, "id-5", 3));
    OK(sr1__trajectory_builder_prompt(b, ids, prompt));
    for (size_t i = 0; i < policy; i++)
        OK(sr1__trajectory_builder_policy(b, (int32_t)i, -1, 0, "", 0));
    OK(sr1__trajectory_builder_environment(b, ids, 2, 0, "", 0, 0, 0));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    return t;
}

/* A key that fits and a prompt that does not: hashes may be made to collide. */
static void another_prompt_is_refused(void **state)
{
    struct fixture f = {.n = 2};
    struct sr1__batch_part part = {.end = 2, .share_prompts = 1};
    struct sr1__batch_plan p;
    struct sr1__microbatch m;
    const sr1_trajectory *swapped[2];
    sr1_trajectory *other;

    (void)state;
    f.t[0] = of_lengths(3, 2);
    f.t[1] = of_lengths(3, 2);
    other = of_lengths(2, 3);
    swapped[0] = f.t[0];
    swapped[1] = other;
    OK(sr1__batch_plan_array(&p, all(&f), part, 100));
    assert_int_equal(p.n_packed_tokens, 3 + 1 + 1);
    assert_int_equal(sr1__microbatch_array(&m, &p, 0, swapped, 0), SR1_E_INVALID);
    OK(sr1__microbatch_array(&m, &p, 0, all(&f), 0));
    assert_int_equal(m.n_spans, 3);
    sr1__microbatch_free(&m);
    sr1__batch_plan_free(&p);
    sr1_trajectory_free(other);
    for (size_t i = 0; i < 2; i++)
        sr1_trajectory_free(f.t[i]);
}

/* Packed lengths 4, 10, 6, 30, 4, 0 under 12: {30}, {10}, {6, 4}, {4}, the last skipped.
 */
static void the_longest_go_first(void **state)
{
    static const size_t lengths[][2] = {{3, 2}, {10, 1}, {4, 3}, {30, 1}, {4, 1}, {9, 0}};
    static const size_t sequences[] = {3, 1, 2, 0, 4}, begins[] = {0, 1, 2, 4, 5};
    sr1_trajectory *t[6];
    struct sr1__batch_plan p;

    (void)state;
    for (size_t i = 0; i < 6; i++)
        t[i] = of_lengths(lengths[i][0], lengths[i][1]);
    OK(sr1__batch_plan_array(&p, (const sr1_trajectory *const *)t,
                             (struct sr1__batch_part){.end = 6}, 12));
    assert_int_equal(p.n_batches, 4);
    assert_int_equal(p.n_skipped, 1);
    assert_int_equal(p.n_policy_tokens, 8);
    assert_memory_equal(p.sequences, sequences, sizeof sequences);
    assert_memory_equal(p.batch_begin, begins, sizeof begins);
    sr1__batch_plan_free(&p);
    for (size_t i = 0; i < 6; i++)
        sr1_trajectory_free(t[i]);
}

static void a_missing_column_is_named(void **state)
{
    sr1_trajectory *t[2] = {of_lengths(3, 2), of_lengths(3, 2)};
    const sr1_trajectory *const *array = (const sr1_trajectory *const *)t;
    const float each[] = {0.5f, -0.5f};
    struct sr1__batch_plan p;
    struct sr1__microbatch m = {0};
    const float *got;

    (void)state;
    OK(sr1_trajectory_set_advantage(t[0], 1.5));
    OK(sr1__batch_plan_array(&p, array, (struct sr1__batch_part){.end = 2}, 100));
    assert_int_equal(sr1__microbatch_array(&m, &p, 0, array, 1u << SR1_COLUMN_ADVANTAGE),
                     SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "trajectory 1 (query 'id-5', sample 3)"));
    assert_null(m.ids);
    OK(sr1_trajectory_set_column(t[1], SR1_COLUMN_ADVANTAGE, each, 2));
    OK(sr1__microbatch_array(&m, &p, 0, array, 1u << SR1_COLUMN_ADVANTAGE));
    got = m.columns[SR1_COLUMN_ADVANTAGE];
    assert_true(got[0] == 1.5f && got[1] == 1.5f);
    assert_true(got[2] == 0.5f && got[3] == -0.5f);
    sr1__microbatch_free(&m);
    OK(sr1_trajectory_set_column(t[1], SR1_COLUMN_VALUE, each, 2));
    assert_int_equal(sr1__microbatch_array(&m, &p, 0, array, 1u << SR1_COLUMN_VALUE),
                     SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "trajectory 0"));
    assert_non_null(strstr(sr1_last_error(), "has no values yet"));
    OK(sr1_trajectory_set_column(t[0], SR1_COLUMN_VALUE, each, 2));
    OK(sr1__microbatch_array(&m, &p, 0, array, 1u << SR1_COLUMN_VALUE));
    got = m.columns[SR1_COLUMN_VALUE];
    assert_true(got[1] == -0.5f && got[2] == 0.5f && !m.columns[SR1_COLUMN_ADVANTAGE]);
    sr1__microbatch_free(&m);
    sr1__batch_plan_free(&p);
    sr1_trajectory_free(t[0]);
    sr1_trajectory_free(t[1]);
}

static void other_trajectories_than_planned_are_refused(void **state)
{
    sr1_trajectory *t[3] = {of_lengths(3, 2), of_lengths(3, 3), of_lengths(2, 2)};
    struct sr1__batch_plan p;
    struct sr1__microbatch m;

    (void)state;
    OK(sr1__batch_plan_array(&p, (const sr1_trajectory *const *)t,
                             (struct sr1__batch_part){.end = 1}, 100));
    for (size_t i = 1; i < 3; i++)
        assert_int_equal(
            sr1__microbatch_array(&m, &p, 0, (const sr1_trajectory *const *)t + i, 0),
            SR1_E_INVALID);
    sr1__batch_plan_free(&p);
    for (size_t i = 0; i < 3; i++)
        sr1_trajectory_free(t[i]);
}

static void a_budget_must_be_positive(void **state)
{
    struct sr1__batch_plan p;

    (void)state;
    assert_int_equal(
        sr1__batch_plan_array(&p, NULL, (struct sr1__batch_part){.end = 0}, 0),
        SR1_E_INVALID);
    assert_int_equal(
        sr1__batch_plan_array(&p, NULL, (struct sr1__batch_part){.end = 0}, -5),
        SR1_E_INVALID);
    OK(sr1__batch_plan_array(&p, NULL, (struct sr1__batch_part){.end = 0}, 5));
    assert_int_equal(p.n_batches, 0);
    sr1__batch_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_token_is_in_one_batch),
        cmocka_unit_test(a_shared_prompt_is_before_each_of_its_group),
        cmocka_unit_test(another_prompt_is_refused),
        cmocka_unit_test(the_longest_go_first),
        cmocka_unit_test(a_missing_column_is_named),
        cmocka_unit_test(other_trajectories_than_planned_are_refused),
        cmocka_unit_test(a_budget_must_be_positive),
    };

    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
