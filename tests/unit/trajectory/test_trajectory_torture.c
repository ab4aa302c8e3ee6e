/* test_trajectory_torture.c - with the n-th allocation failing, for every n, each
 * operation ends in SR1_E_NOMEM or succeeds, and nothing leaks. */
#include "random_trajectory.h"
#include "environment/trajectory/microbatch.h"
#include "environment/trajectory/trajectory.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static uint64_t seed; /* of a trajectory that has something of everything */

static sr1_status make(sr1_trajectory **out)
{
    struct sr1__rng r;

    sr1__rng_seed(&r, seed, 0);
    return random_trajectory(&r, 12, out);
}

static int has_everything(const sr1_trajectory *t)
{
    return sr1__trajectory_trainable(t) > 0 && sr1_trajectory_segment_count(t) > 3 &&
           sr1_trajectory_search_count(t) > 1 &&
           sr1_trajectory_ground_truth_count(t) > 1 &&
           sr1_trajectory_reward_component_count(t) > 1 &&
           sr1_trajectory_has_advantage(t) &&
           sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE) &&
           sr1_trajectory_environment_count(t) > 4;
}

static int find_seed(void **state)
{
    int found = 0;

    (void)state;
    for (seed = 0; !found; seed += !found) {
        sr1_trajectory *t = NULL;

        if (make(&t) != SR1_OK)
            return -1;
        found = has_everything(t);
        sr1_trajectory_free(t);
    }
    return 0;
}

static sr1_status make_one(void)
{
    sr1_trajectory *t = NULL;

    SR1__TRY(make(&t));
    sr1_trajectory_free(t);
    return SR1_OK;
}

static sr1_status binary_and_back(void)
{
    sr1_trajectory *t = NULL, *back = NULL;
    void *bytes = NULL;
    size_t n = 0;
    sr1_status status;

    SR1__TRY(make(&t));
    status = sr1_trajectory_encode(t, &bytes, &n);
    if (status == SR1_OK)
        status = sr1_trajectory_decode(&back, bytes, n);
    if (status == SR1_OK && !sr1_trajectory_equal(t, back))
        status = SR1_E_INTERNAL;
    sr1_trajectory_free(back);
    sr1_free(bytes);
    sr1_trajectory_free(t);
    return status;
}

static sr1_status json_and_back(void)
{
    sr1_trajectory *t = NULL, *back = NULL;
    char *text = NULL;
    size_t n = 0;
    sr1_status status;

    SR1__TRY(make(&t));
    status = sr1_trajectory_to_json(t, &text, &n);
    if (status == SR1_OK)
        status = sr1_trajectory_from_json(&back, text, n);
    if (status == SR1_OK && !sr1_trajectory_equal(t, back))
        status = SR1_E_INTERNAL;
    sr1_trajectory_free(back);
    sr1_free(text);
    sr1_trajectory_free(t);
    return status;
}

static sr1_status plan_and_fill(struct sr1__trajectory_store *s)
{
    struct sr1__batch_plan p;
    struct sr1__microbatch m;
    sr1_status status;

    SR1__TRY(sr1__batch_plan_store_part(
        &p, s,
        (struct sr1__batch_part){.end = sr1__trajectory_store_count(s),
                                 .share_prompts = 1},
        100));
    status = sr1__microbatch_store(&m, &p, 0, s, 0);
    if (status == SR1_OK)
        sr1__microbatch_free(&m);
    sr1__batch_plan_free(&p);
    return status;
}

static sr1_status store_and_batch(void)
{
    struct sr1__trajectory_store *s = NULL;
    sr1_trajectory *t = NULL;
    sr1_status status;

    SR1__TRY(make(&t));
    status = sr1__trajectory_store_new(&s, (int64_t)sr1__trajectory_memory(t), "/tmp");
    for (int i = 0; status == SR1_OK && i < 3; i++) /* one in memory, two spilled */
        status = sr1__trajectory_store_add(s, t);
    if (status == SR1_OK)
        status = plan_and_fill(s);
    sr1__trajectory_store_free(s);
    sr1_trajectory_free(t);
    return status;
}

/* As many rounds as the operation allocates; shrinking may fail without harm. */
static void torture(sr1_status (*operation)(void))
{
    int64_t live = sr1__mem_live(), total, failed = 0;

    sr1__mem_fail_at(0);
    assert_int_equal(operation(), SR1_OK);
    total = sr1__mem_count();
    for (int64_t n = 1; n <= total; n++) {
        sr1_status status;

        sr1__mem_fail_at(n);
        status = operation();
        sr1__mem_fail_at(0);
        if (status != SR1_OK && status != SR1_E_NOMEM)
            fail_msg("allocation %d: %s (%s)", (int)n, sr1_status_name(status),
                     sr1_last_error());
        failed += status == SR1_E_NOMEM;
        assert_int_equal(sr1__mem_live(), live);
    }
    assert_true(failed > total / 2);
}

static void making(void **state)
{
    (void)state;
    torture(make_one);
}

static void binary_form(void **state)
{
    (void)state;
    torture(binary_and_back);
}

static void json_form(void **state)
{
    (void)state;
    torture(json_and_back);
}

static void store_and_batching(void **state)
{
    (void)state;
    torture(store_and_batch);
}

/* A builder whose growth failed once goes on as if nothing had been. */
static void a_builder_survives(void **state)
{
    const int32_t prompt[] = {1, 2};
    struct sr1__trajectory_builder *b;
    sr1_trajectory *t;
    size_t refused = 0;

    (void)state;
    assert_int_equal(sr1__trajectory_builder_new(&b, "q", 1, "id", 0), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_prompt(b, prompt, 2), SR1_OK);
    for (int32_t i = 0; i < 300; i++)
        for (int64_t n = 1; n < 12; n++) {
            sr1_status status;

            sr1__mem_fail_at(n);
            status = sr1__trajectory_builder_policy(b, i, -1, i, "token ", 6);
            sr1__mem_fail_at(0);
            if (status == SR1_OK)
                break;
            assert_int_equal(status, SR1_E_NOMEM);
            refused++;
        }
    assert_true(refused > 20);
    assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t),
                     SR1_OK);
    assert_int_equal(sr1_trajectory_policy_count(t), 300);
    assert_int_equal(sr1_trajectory_segment_count(t), 300);
    assert_int_equal(strlen(sr1_trajectory_generated_text(t, NULL)), 1800);
    sr1_trajectory_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making),
        cmocka_unit_test(binary_form),
        cmocka_unit_test(json_form),
        cmocka_unit_test(store_and_batching),
        cmocka_unit_test(a_builder_survives),
    };

    return cmocka_run_group_tests_name("trajectory_torture", tests, find_seed, NULL);
}
