/* Random numbers: published vectors of xoshiro256**, our own frozen ones, distributions.
 */
#include "../../support/torture.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

/* From the authors' reference code with state {1, 2, 3, 4}. */
static void matches_the_reference(void **state)
{
    static const uint64_t expected[] = {11520u, 0u, 1509978240u, 1215971899390074240u};
    struct sr1__rng r = {{1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_true(sr1__rng_u64(&r) == expected[i]);
}

/* Frozen: a change here changes every seeded run. */
static void seeds_are_frozen(void **state)
{
    static const struct {
        uint64_t seed, stream, first, second;
    } rows[] = {
#include "rng_vectors.inc"
    };
    struct sr1__rng r;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1__rng_seed(&r, rows[i].seed, rows[i].stream);
        assert_true(sr1__rng_u64(&r) == rows[i].first);
        assert_true(sr1__rng_u64(&r) == rows[i].second);
    }
}

static void a_copied_state_continues(void **state)
{
    struct sr1__rng a, b;

    (void)state;
    sr1__rng_seed(&a, 42, 0);
    for (int i = 0; i < 100; i++)
        sr1__rng_normal(&a);
    b = a;
    for (int i = 0; i < 100; i++)
        assert_true(sr1__rng_normal(&a) == sr1__rng_normal(&b));
}

static void streams_differ(void **state)
{
    struct sr1__rng a, b;
    int same = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        sr1__rng_seed(&a, i, i + 1);
        sr1__rng_seed(&b, i + 1, i);
        same += sr1__rng_u64(&a) == sr1__rng_u64(&b);
        sr1__rng_seed(&a, 7, i);
        sr1__rng_seed(&b, 7, i + 1);
        same += sr1__rng_u64(&a) == sr1__rng_u64(&b);
    }
    assert_int_equal(same, 0);
}

static void moments_fit(void **state)
{
    struct sr1__rng r;
    double mean = 0.0, square = 0.0, uniform = 0.0;
    const int n = 200000;

    (void)state;
    sr1__rng_seed(&r, 1, 2);
    for (int i = 0; i < n; i++) {
        double z = sr1__rng_normal(&r);
        double u = sr1__rng_uniform(&r);

        assert_true(isfinite(z) && u >= 0.0 && u < 1.0);
        mean += z / n;
        square += z * z / n;
        uniform += u / n;
    }
    assert_true(fabs(mean) < 0.01);
    assert_true(fabs(square - 1.0) < 0.02);
    assert_true(fabs(uniform - 0.5) < 0.005);
}

static void below_is_even(void **state)
{
    struct sr1__rng r;
    int count[7] = {0};

    (void)state;
    sr1__rng_seed(&r, 3, 0);
    for (int i = 0; i < 70000; i++)
        count[sr1__rng_below(&r, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(count[i], 9600, 10400);
    assert_true(sr1__rng_below(&r, 1) == 0);
    for (int i = 0; i < 100; i++) /* half of all draws are refused here */
        assert_true(sr1__rng_below(&r, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
}

static void shuffle_permutes(void **state)
{
    int64_t v[100];
    char seen[100] = {0};
    struct sr1__rng r;
    int moved = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        v[i] = i;
    sr1__rng_seed(&r, 5, 5);
    sr1__rng_shuffle(&r, v, 100);
    for (int i = 0; i < 100; i++) {
        moved += v[i] != i;
        seen[v[i]]++;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    assert_true(moved > 80);
    sr1__rng_shuffle(&r, v, 0);
}

static void hash_spreads(void **state)
{
    uint64_t a = sr1__hash64("row-1", 5, 42), b = sr1__hash64("row-2", 5, 42);

    (void)state;
    assert_true(a == sr1__hash64("row-1", 5, 42));
    assert_true(a != b && a != sr1__hash64("row-1", 5, 43));
    assert_in_range(__builtin_popcountll(a ^ b), 12, 52);
    assert_true(sr1__hash64("", 0, 0) != sr1__hash64("\0", 1, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference),
        cmocka_unit_test(seeds_are_frozen),
        cmocka_unit_test(a_copied_state_continues),
        cmocka_unit_test(streams_differ),
        cmocka_unit_test(moments_fit),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(shuffle_permutes),
        cmocka_unit_test(hash_spreads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
