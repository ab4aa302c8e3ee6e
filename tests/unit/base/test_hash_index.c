/* Elements found by their hash, against a list that is searched from front to back. */
#include "../../support/torture.h"

#include "base/hash_index.h"
#include "base/rng.h"

#define ITEMS 3000

/* How often `item` is found among the elements with this hash; *n counts those. */
static int count_found(const struct sr1__hash_index *x, uint64_t hash, size_t item,
                       size_t *n)
{
    struct sr1__hash_probe p = {hash};
    int found = 0;

    for (*n = 0; sr1__hash_index_next(x, &p); ++*n)
        found += p.item == item;
    return found;
}

/* Few different hashes, so that elements share them, and some that are one apart. */
static void every_element_is_found_once_and_no_other(void **state)
{
    static uint64_t hashes[ITEMS];
    struct sr1__hash_index x = {0};
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 7, 0);
    for (size_t i = 0; i < ITEMS; i++) {
        hashes[i] =
            sr1__rng_below(&rng, 2) ? sr1__rng_below(&rng, 700) : sr1__rng_u64(&rng);
        assert_int_equal(sr1__hash_index_add(&x, hashes[i], i), SR1_OK);
    }
    for (size_t i = 0; i < ITEMS; i++) {
        size_t same = 0, n;

        for (size_t k = 0; k < ITEMS; k++)
            same += (uint32_t)hashes[k] == (uint32_t)hashes[i];
        assert_int_equal(count_found(&x, hashes[i], i, &n), 1);
        assert_int_equal(n, same);
    }
    sr1__hash_index_free(&x);
}

static void what_was_not_added_is_not_found(void **state)
{
    struct sr1__hash_index x = {0};
    size_t n;

    (void)state;
    assert_int_equal(count_found(&x, 5, 0, &n), 0);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(sr1__hash_index_add(&x, 2 * i, i), SR1_OK);
    for (uint64_t h = 1; h < 400; h += 2) {
        assert_int_equal(count_found(&x, h, 0, &n), 0);
        assert_int_equal(n, 0);
    }
    assert_int_equal(sr1__hash_index_add(&x, 1, UINT32_MAX), SR1_E_LIMIT);
    sr1__hash_index_free(&x);
    assert_int_equal(count_found(&x, 2, 1, &n), 0);
    sr1__hash_index_free(&x);
}

static sr1_status add_many(void *arg)
{
    struct sr1__hash_index x = {0};
    sr1_status status = SR1_OK;
    size_t i, n;

    (void)arg;
    for (i = 0; i < 200 && status == SR1_OK; i++)
        status = sr1__hash_index_add(&x, i * 31, i);
    for (size_t k = 0; k + (status != SR1_OK) < i;
         k++) /* all that were added are there */
        assert_int_equal(count_found(&x, k * 31, k, &n), 1);
    sr1__hash_index_free(&x);
    return status;
}

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    assert_true(torture(add_many, NULL) > 2);
}

static void reserved_room_is_enough(void **state)
{
    struct sr1__hash_index x = {0};

    (void)state;
    for (size_t i = 0; i < 500; i++) {
        assert_int_equal(sr1__hash_index_reserve(&x), SR1_OK);
        sr1__mem_fail_at(1);
        assert_int_equal(sr1__hash_index_add(&x, i, i), SR1_OK);
        sr1__mem_fail_at(0);
    }
    sr1__hash_index_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_found_once_and_no_other),
        cmocka_unit_test(what_was_not_added_is_not_found),
        cmocka_unit_test(without_memory_nothing_is_lost),
        cmocka_unit_test(reserved_room_is_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
