/* Arrays that grow, allocations that are checked, constructors that give whole objects.
 */
#include "../../support/torture.h"

#include "base/rng.h"

#include <string.h>

#define MOST 5000

struct list {
    uint32_t *v;
    uint32_t n;
    uint32_t cap; /* narrower than what the macro counts in */
};

static sr1_status reserve_list(struct list *l, size_t n)
{
    SR1__RESERVE(l->v, l->cap, n, "numbers of a list");
    return SR1_OK;
}

static sr1_status push_number(struct list *l, uint32_t x)
{
    SR1__TRY(reserve_list(l, (size_t)l->n + 1));
    l->v[l->n++] = x;
    return SR1_OK;
}

static void a_list_holds_what_was_pushed(void **state)
{
    static uint32_t model[MOST];
    struct list l = {0};
    struct sr1__rng rng;
    int moved = 0;

    (void)state;
    sr1__rng_seed(&rng, 3, 0);
    for (uint32_t i = 0; i < MOST; i++) {
        uint32_t before = l.cap;

        model[i] = (uint32_t)sr1__rng_u64(&rng);
        assert_int_equal(push_number(&l, model[i]), SR1_OK);
        assert_true(l.cap >= l.n);
        moved += l.cap != before;
        if (l.cap != before)
            assert_true(l.cap >= 2 * before);
    }
    assert_memory_equal(l.v, model, sizeof model);
    assert_true(moved < 20); /* doublings, not steps */
    sr1__free(l.v);
}

static void room_for_many_is_had_at_once(void **state)
{
    struct list l = {0};

    (void)state;
    assert_int_equal(reserve_list(&l, 0), SR1_OK);
    assert_null(l.v);
    assert_int_equal(reserve_list(&l, 1000), SR1_OK);
    assert_true(l.cap >= 1000);
    memset(l.v, 1, 1000 * sizeof *l.v);
    sr1__free(l.v);
}

static sr1_status push_many(void *arg)
{
    struct list l = {0};
    sr1_status status = SR1_OK;
    uint32_t i;

    (void)arg;
    for (i = 0; i < 100 && status == SR1_OK; i++)
        status = push_number(&l, i);
    for (uint32_t k = 0; k < l.n; k++)
        assert_int_equal(l.v[k], k); /* a failure takes nothing away */
    if (status != SR1_OK)
        assert_non_null(strstr(sr1_last_error(), "numbers of a list"));
    sr1__free(l.v);
    return status;
}

static void a_list_that_cannot_grow_stays(void **state)
{
    struct list huge = {0};

    (void)state;
    assert_true(torture(push_many, NULL) >= 3);
    assert_int_equal(reserve_list(&huge, SIZE_MAX / 2), SR1_E_NOMEM);
    assert_true(huge.v == NULL && huge.cap == 0);
}

struct thing {
    char *name;
    int32_t *counts;
};

static void thing_free(struct thing *t)
{
    sr1__free(t->name);
    sr1__free(t->counts);
    sr1__free(t);
}

static sr1_status fill_thing(struct thing *t, const char *name)
{
    SR1__CALLOC(t->counts, 4, "counts of a thing");
    t->name = sr1__strdup(name);
    SR1__CHECK_ALLOC(t->name && t->counts, "name of a thing");
    return *name ? SR1_OK : sr1__fail(SR1_E_INVALID, "a thing needs a name");
}

static sr1_status thing_new(struct thing **out, const char *name)
{
    struct thing *t;

    SR1__CALLOC(t, 1, "a thing");
    SR1__RETURN_NEW(out, t, fill_thing(t, name), thing_free);
}

static sr1_status make_thing(void *arg)
{
    struct thing *t = NULL;
    sr1_status status = thing_new(&t, arg);

    assert_int_equal(t != NULL, status == SR1_OK);
    if (t) {
        assert_string_equal(t->name, arg);
        assert_int_equal(t->counts[0] | t->counts[3], 0);
        thing_free(t);
    }
    return status;
}

static void an_object_is_given_whole_or_not_at_all(void **state)
{
    char name[] = "lamp", none[] = "";
    int64_t live = sr1__mem_live();

    (void)state;
    assert_int_equal(torture(make_thing, name), 3);
    assert_int_equal(make_thing(none), SR1_E_INVALID);
    assert_string_equal(sr1_last_error(), "a thing needs a name");
    assert_int_equal(sr1__mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_holds_what_was_pushed),
        cmocka_unit_test(room_for_many_is_had_at_once),
        cmocka_unit_test(a_list_that_cannot_grow_stays),
        cmocka_unit_test(an_object_is_given_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
