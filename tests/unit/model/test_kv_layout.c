/* How rows are laid out in a cache of tensors: prompts of groups once, and never more
 * places than rows take that share nothing. */
#include "unit/tensor/check.h"

#include "tensor/model/kv_layout.h"

#define ROWS 64
#define PROMPT 512
#define TAIL 1024

static struct sr1__kv_layout choose(const struct sr1__kv_family *families,
                                    int64_t n_families, int64_t times, int64_t queries)
{
    const struct sr1__kv_need need = {.families = families,
                                      .n_families = n_families,
                                      .times = times,
                                      .tail = TAIL,
                                      .max_rows = ROWS + 1,
                                      .max_tokens = 4096,
                                      .queries = queries};

    return sr1__kv_layout_choose(&need);
}

static void check_layout(struct sr1__kv_layout l, int64_t n_blocks, int64_t rows,
                         int64_t prefix)
{
    assert_int_equal(l.n_blocks, n_blocks);
    assert_int_equal(l.rows, rows);
    assert_int_equal(l.prefix, prefix);
    assert_int_equal(l.tail, TAIL);
    assert_int_equal(sr1__kv_layout_places(&l), n_blocks * (prefix + rows * TAIL));
}

static void a_group_has_a_block(void **state)
{
    const struct sr1__kv_family of_8 = {8, PROMPT}, of_16 = {16, PROMPT};

    (void)state;
    check_layout(choose(&of_8, 1, 8, 4), 8, 8, PROMPT);
    check_layout(choose(&of_16, 1, 4, 4), 8, 8, PROMPT);  /* two copies of a prompt */
    check_layout(choose(&of_8, 1, 8, 16), 16, 4, PROMPT); /* of 64 queries */
    check_layout(choose(&of_8, 1, 8, 128), 64, 1, PROMPT);
}

static void rows_alone_have_a_block_each(void **state)
{
    const struct sr1__kv_family alone = {1, PROMPT}, brief = {8, 64}, none = {1, 0};

    (void)state;
    check_layout(choose(&alone, 1, 64, 4), 64, 1, PROMPT);
    check_layout(choose(&brief, 1, 8, 4), 64, 1, 64); /* too little is saved */
    check_layout(choose(&none, 1, 3, 4), 4, 1, 0);
}

/* Groups of which some rows have ended. */
static void sharing_never_costs_places(void **state)
{
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 1, 1);
    for (int t = 0; t < 2000; t++) {
        struct sr1__kv_family f[ROWS];
        int64_t n = 0, left = ROWS, rows = 0, longest = 0, room = 0;
        struct sr1__kv_layout l;

        while (left > 0 && n < 12) {
            f[n].rows = 1 + (int64_t)sr1__rng_below(&rng, left < 8 ? (uint64_t)left : 8);
            f[n].prefix = (int64_t)sr1__rng_below(&rng, 2000);
            left -= f[n].rows;
            rows += f[n].rows;
            longest = f[n].prefix > longest ? f[n].prefix : longest;
            n++;
        }
        l = choose(f, n, 1, 4);
        assert_true(l.n_blocks * l.rows >= rows && l.tail >= TAIL && l.prefix >= longest);
        longest = (longest + 255) / 256 * 256;
        assert_true(sr1__kv_layout_places(&l) <= ROWS * (longest + TAIL));
        for (int64_t i = 0, at = 0; i < n; at += f[i++].rows) {
            room = at % l.rows ? room + f[i].prefix : f[i].prefix;
            assert_true(room <= l.prefix);
            room = (at + f[i].rows) / l.rows > at / l.rows ? f[i].prefix : room;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_has_a_block),
        cmocka_unit_test(rows_alone_have_a_block_each),
        cmocka_unit_test(sharing_never_costs_places),
    };

    return cmocka_run_group_tests_name("kv_layout", tests, NULL, NULL);
}
