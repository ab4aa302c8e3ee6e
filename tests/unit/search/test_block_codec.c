/* test_block_codec.c - packed blocks come back as they were, with and without vectors,
 * and hostile ones end. */
#include "base/rng.h"
#include "retrieval/search/block_codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Numbers of up to `bits` bits, a few of them larger. */
static void random_numbers(struct sr1__rng *rng, uint32_t *v, uint32_t n, unsigned bits)
{
    for (uint32_t i = 0; i < n; i++) {
        unsigned b = sr1__rng_below(rng, 20) == 0 ? 31 : bits;

        v[i] = (uint32_t)sr1__rng_below(rng, (uint64_t)1 << sr1__rng_below(rng, b + 1));
    }
}

/* In memory of its own, so that a reader past the allowance is noticed. */
static unsigned char *exact(const unsigned char *p, size_t n)
{
    unsigned char *copy = malloc(n + SR1__BLOCK_OVERREAD);

    memcpy(copy, p, n);
    memset(copy + n, 0xFF, SR1__BLOCK_OVERREAD);
    return copy;
}

static void numbers_come_back(void **state)
{
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 1, 0);
    for (int round = 0; round < 40000; round++) {
        uint32_t n = round % 2 ? SR1__BLOCK : 1 + (uint32_t)sr1__rng_below(&rng, 128);
        uint32_t v[SR1__BLOCK];
        uint32_t got[2][SR1__BLOCK];
        uint32_t all[2];
        uint32_t any = 0;
        unsigned char packed[SR1__BLOCK_BYTES];
        unsigned char *copy;
        size_t size;

        random_numbers(&rng, v, n, (unsigned)(round / 2 % 32));
        size = sr1__block_pack(v, n, packed);
        assert_true(size <= 1 + ((size_t)n * 31 + 7) / 8);
        copy = exact(packed, size);
        assert_int_equal(sr1__block_unpack(copy, size, n, got[0], &all[0]), size);
        assert_int_equal(sr1__block_unpack_plain(copy, size, n, got[1], &all[1]), size);
        assert_memory_equal(got[0], v, n * sizeof(*v));
        assert_memory_equal(got[1], v, n * sizeof(*v));
        for (uint32_t i = 0; i < n; i++)
            any |= v[i];
        assert_int_equal(any & ~all[0], 0);
        assert_int_equal(all[0], all[1]);
        free(copy);
    }
}

static void equal_numbers_take_next_to_nothing(void **state)
{
    uint32_t v[SR1__BLOCK] = {0};
    unsigned char packed[SR1__BLOCK_BYTES];

    (void)state;
    assert_int_equal(sr1__block_pack(v, SR1__BLOCK, packed), 1);
    v[77] = 1; /* head, position */
    assert_int_equal(sr1__block_pack(v, SR1__BLOCK, packed), 2);
    v[77] = 3; /* and the number */
    assert_int_equal(sr1__block_pack(v, SR1__BLOCK, packed), 3);
}

static void hostile_bytes_end(void **state)
{
    struct sr1__rng rng;
    size_t refused = 0;

    (void)state;
    sr1__rng_seed(&rng, 2, 0);
    for (int round = 0; round < 100000; round++) {
        uint32_t n = round % 2 ? SR1__BLOCK : 1 + (uint32_t)sr1__rng_below(&rng, 128);
        unsigned char bytes[80];
        unsigned char *copy;
        uint32_t got[2][SR1__BLOCK];
        uint32_t all[2] = {0, 0};
        size_t size = sr1__rng_below(&rng, sizeof(bytes));
        size_t took;

        for (size_t i = 0; i < size; i++)
            bytes[i] =
                (unsigned char)sr1__rng_below(&rng, i < 2 && round % 3 > 0 ? 40 : 256);
        copy = exact(bytes, size);
        took = sr1__block_unpack(copy, size, n, got[0], &all[0]);
        assert_true(took <= size);
        assert_int_equal(sr1__block_unpack_plain(copy, size, n, got[1], &all[1]), took);
        if (took > 0)
            assert_memory_equal(got[0], got[1], n * sizeof(got[0][0]));
        for (uint32_t i = 0; took > 0 && i < n; i++)
            assert_true(got[0][i] >> 31 == 0);
        refused += took == 0;
        free(copy);
    }
    assert_true(refused > 1000 && refused < 99000);
}

static void sums_are_documents(void **state)
{
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 3, 0);
    for (uint32_t n = 1; n <= SR1__BLOCK; n++) {
        uint32_t v[SR1__BLOCK];
        uint32_t want[SR1__BLOCK];
        uint32_t before = (uint32_t)sr1__rng_below(&rng, 1000) - 1;
        uint32_t doc = before;

        for (uint32_t i = 0; i < n; i++) {
            v[i] = (uint32_t)sr1__rng_below(&rng, 1 << 20);
            want[i] = doc += v[i] + 1;
        }
        sr1__block_sums(v, n, before);
        assert_memory_equal(v, want, n * sizeof(*v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(equal_numbers_take_next_to_nothing),
        cmocka_unit_test(hostile_bytes_end),
        cmocka_unit_test(sums_are_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
