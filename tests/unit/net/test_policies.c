/* Retries, the rate limit and the circuit breaker, on a clock of our own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "retrieval/net/breaker.h"
#include "retrieval/net/token_bucket.h"
#include "retrieval/net/retry.h"

/* ---- retries ---- */

static const struct sr1__retry retry = {4, 0.5, 3.0, 60.0};

static void waits_double_up_to_their_bound(void **state)
{
    static const double most[] = {0.5, 1.0, 2.0, 3.0};
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 1, 0);
    for (int i = 0; i < 1000; i++)
        for (int32_t k = 0; k < 4; k++) {
            double wait = sr1__retry_wait(&retry, k, 0, &rng);

            assert_true(wait >= most[k] / 2 && wait < most[k]);
        }
}

static void waits_differ_but_follow_the_seed(void **state)
{
    struct sr1__rng a, b, c;
    int same = 0;

    (void)state;
    sr1__rng_seed(&a, 7, 0);
    sr1__rng_seed(&b, 7, 0);
    sr1__rng_seed(&c, 8, 0);
    for (int i = 0; i < 100; i++) {
        double wait = sr1__retry_wait(&retry, 0, 0, &a);

        assert_true(wait == sr1__retry_wait(&retry, 0, 0, &b));
        same += wait == sr1__retry_wait(&retry, 0, 0, &c);
    }
    assert_true(same < 3);
}

static void there_is_an_end_to_retries(void **state)
{
    const struct sr1__retry none = {0, 0.5, 3.0, 60.0};
    const struct sr1__retry endless = {INT32_MAX, 0.5, 3.0, 60.0};
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 1, 0);
    assert_true(sr1__retry_wait(&retry, 3, 0, &rng) > 0);
    assert_true(sr1__retry_wait(&retry, 4, 0, &rng) < 0);
    assert_true(sr1__retry_wait(&none, 0, 0, &rng) < 0);
    assert_true(sr1__retry_wait(&endless, 1000000, 0, &rng) <= 3.0);
}

static void retry_after_is_kept_within_its_bound(void **state)
{
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 1, 0);
    assert_true(sr1__retry_wait(&retry, 0, 17, &rng) == 17);
    assert_true(sr1__retry_wait(&retry, 0, 60, &rng) == 60);
    assert_true(sr1__retry_wait(&retry, 0, 61, &rng) < 0); /* earlier would be in vain */
    assert_true(sr1__retry_wait(&retry, 0, 0.001, &rng) >= 0.25);
}

static void codes_that_may_pass(void **state)
{
    static const int32_t pass[] = {408, 425, 429, 500, 502, 503, 504};
    size_t k = 0;

    (void)state;
    for (int32_t code = 0; code < 600; code++) {
        int expected = k < 7 && pass[k] == code;

        k += (size_t)expected;
        assert_int_equal(sr1__retry_code(code), expected);
    }
}

/* ---- the rate limit ---- */

static void requests_leave_evenly(void **state)
{
    struct sr1__token_bucket b;
    double now = 100;
    int sent = 0;

    (void)state;
    sr1__token_bucket_init(&b, 4);
    for (double end = 110; now < end;) { /* a clock that jumps to the next token */
        double wait = sr1__token_bucket_take(&b, now);

        if (wait == 0)
            sent++;
        else
            now += wait;
        assert_true(wait <= 0.25 + 1e-9);
    }
    assert_in_range(sent, 39, 41);
}

static void an_idle_bucket_saves_nothing_up(void **state)
{
    struct sr1__token_bucket b;

    (void)state;
    sr1__token_bucket_init(&b, 2);
    assert_true(sr1__token_bucket_take(&b, 0) == 0);
    assert_true(sr1__token_bucket_take(&b, 1000) == 0);
    assert_true(fabs(sr1__token_bucket_take(&b, 1000) - 0.5) < 1e-9);
}

static void without_a_rate_nothing_waits(void **state)
{
    struct sr1__token_bucket b;

    (void)state;
    sr1__token_bucket_init(&b, 0);
    for (int i = 0; i < 100; i++)
        assert_true(sr1__token_bucket_take(&b, 5) == 0);
}

static void a_pause_holds_everyone(void **state)
{
    struct sr1__token_bucket b;

    (void)state;
    sr1__token_bucket_init(&b, 0);
    sr1__token_bucket_pause(&b, 12);
    sr1__token_bucket_pause(&b, 11); /* does not shorten it */
    assert_true(sr1__token_bucket_take(&b, 10) == 2);
    assert_true(sr1__token_bucket_take(&b, 12) == 0);
    assert_true(sr1__token_bucket_take(&b, 12) == 0);
}

/* ---- the circuit breaker ---- */

static void fail_times(struct sr1__breaker *b, int n, double now)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(sr1__breaker_admit(b, now), SR1__BREAKER_GO);
        sr1__breaker_report(b, 0, 1, now);
    }
}

static void it_opens_after_failures_in_a_row(void **state)
{
    struct sr1__breaker b;

    (void)state;
    sr1__breaker_init(&b, 3, 10);
    fail_times(&b, 2, 0);
    sr1__breaker_report(&b, 0, 0, 0); /* not in a row any more */
    fail_times(&b, 3, 1);
    assert_int_equal(sr1__breaker_admit(&b, 1), SR1__BREAKER_REFUSE);
    assert_int_equal(sr1__breaker_admit(&b, 10.9), SR1__BREAKER_REFUSE);
}

static void one_probe_decides(void **state)
{
    struct sr1__breaker b;

    (void)state;
    sr1__breaker_init(&b, 3, 10);
    fail_times(&b, 3, 1);
    assert_int_equal(sr1__breaker_admit(&b, 11), SR1__BREAKER_PROBE);
    assert_int_equal(sr1__breaker_admit(&b, 11), SR1__BREAKER_WAIT);
    sr1__breaker_report(&b, 1, 1, 12); /* still down */
    assert_int_equal(sr1__breaker_admit(&b, 21), SR1__BREAKER_REFUSE);
    assert_int_equal(sr1__breaker_admit(&b, 22), SR1__BREAKER_PROBE);
    sr1__breaker_report(&b, 1, 0, 23);
    for (int i = 0; i < 10; i++)
        assert_int_equal(sr1__breaker_admit(&b, 23), SR1__BREAKER_GO);
}

static void a_stopped_probe_frees_the_place(void **state)
{
    struct sr1__breaker b;

    (void)state;
    sr1__breaker_init(&b, 1, 10);
    fail_times(&b, 1, 0);
    assert_int_equal(sr1__breaker_admit(&b, 10), SR1__BREAKER_PROBE);
    sr1__breaker_abandon(&b, 1);
    assert_int_equal(sr1__breaker_admit(&b, 10), SR1__BREAKER_PROBE);
}

/* They left before the breaker opened. */
static void the_end_of_others_frees_no_place(void **state)
{
    struct sr1__breaker b;

    (void)state;
    sr1__breaker_init(&b, 1, 10);
    fail_times(&b, 1, 0);
    assert_int_equal(sr1__breaker_admit(&b, 10), SR1__BREAKER_PROBE);
    sr1__breaker_abandon(&b, 0);
    assert_int_equal(sr1__breaker_admit(&b, 10), SR1__BREAKER_WAIT);
    sr1__breaker_report(&b, 0, 1, 10);
    assert_int_equal(sr1__breaker_admit(&b, 30), SR1__BREAKER_WAIT);
    sr1__breaker_report(&b, 1, 1, 30);
    assert_int_equal(sr1__breaker_admit(&b, 40), SR1__BREAKER_PROBE);
}

static void a_limit_of_0_never_opens(void **state)
{
    struct sr1__breaker b;

    (void)state;
    sr1__breaker_init(&b, 0, 10);
    fail_times(&b, 1000, 0);
    assert_int_equal(sr1__breaker_admit(&b, 0), SR1__BREAKER_GO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_double_up_to_their_bound),
        cmocka_unit_test(waits_differ_but_follow_the_seed),
        cmocka_unit_test(there_is_an_end_to_retries),
        cmocka_unit_test(retry_after_is_kept_within_its_bound),
        cmocka_unit_test(codes_that_may_pass),
        cmocka_unit_test(requests_leave_evenly),
        cmocka_unit_test(an_idle_bucket_saves_nothing_up),
        cmocka_unit_test(without_a_rate_nothing_waits),
        cmocka_unit_test(a_pause_holds_everyone),
        cmocka_unit_test(it_opens_after_failures_in_a_row),
        cmocka_unit_test(one_probe_decides),
        cmocka_unit_test(a_stopped_probe_frees_the_place),
        cmocka_unit_test(the_end_of_others_frees_no_place),
        cmocka_unit_test(a_limit_of_0_never_opens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
