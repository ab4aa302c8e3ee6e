/* The critic's loss against torch's autograd and verl; parts, bounds, what is refused. */
#include "vectors.h"

#include "signal/loss/loss.h"
#include "support/torture.h"

struct case_ {
    float values[MAX], old[MAX], returns[MAX], weight[MAX], gradient[MAX];
    sr1_value_batch b;
    sr1_value_options o;
    sr1_value_report r;
};

/* All but the weights. */
static void read_batch(const json_t *row, struct case_ *c)
{
    *c = (struct case_){0};
    c->b = (sr1_value_batch){sizeof c->b, floats(row, "values", c->values),
                             c->values,   c->returns,
                             c->old,      c->weight};
    floats(row, "old", c->old);
    floats(row, "returns", c->returns);
    c->o = (sr1_value_options){sizeof c->o, number(row, "clip_range")};
    c->r.struct_size = sizeof c->r;
}

static void read_case(const json_t *row, struct case_ *c)
{
    read_batch(row, c);
    floats(row, "weight", c->weight);
}

static void call(struct case_ *c)
{
    assert_int_equal(sr1_value_loss(&c->b, &c->o, c->gradient, &c->r), SR1_OK);
}

static void check_case(const json_t *row)
{
    float want[MAX];
    struct case_ c;
    double explained;

    read_case(row, &c);
    floats(row, "gradient", want);
    call(&c);
    near(c.r.loss, number(row, "value_loss"), 1e-12);
    near(c.r.clip_fraction, number(row, "clip_fraction"), 1e-12);
    assert_int_equal(c.r.tokens, c.b.n);
    assert_int_equal(sr1_value_explained_variance(&c.r, &explained), SR1_OK);
    near(explained, number(row, "explained"), 1e-9);
    for (size_t i = 0; i < c.b.n; i++)
        assert_true(fabs((double)c.gradient[i] - want[i]) <= 1e-6 * fabs(want[i]));
}

static void it_equals_torch(void **state)
{
    (void)state;
    assert_int_equal(each_row("losses.jsonl", "value_loss", check_case), 12);
}

/* verl's compute_value_loss, by its own mean. */
static void check_peer(const json_t *row)
{
    int64_t begin[MAX];
    sr1_loss_maps m = {.struct_size = sizeof m, .seq_begin = begin};
    float want[MAX];
    struct case_ c;

    read_batch(row, &c);
    floats(row, "gradient", want);
    m.n_seqs = integers(row, "seq_begin", begin) - 1;
    m.length = number(row, "length");
    assert_int_equal(
        sr1_loss_weights(json_string_value(json_object_get(row, "aggregation")), &m,
                         c.weight),
        SR1_OK);
    call(&c);
    near(c.r.loss, number(row, "value_loss"), 1e-6);
    if (json_object_get(row, "clip_fraction"))
        near(c.r.clip_fraction, number(row, "clip_fraction"), 1e-6);
    for (size_t i = 0; i < c.b.n; i++)
        near(c.gradient[i], want[i], 1e-6);
}

static void it_is_verls(void **state)
{
    (void)state;
    assert_int_equal(each_row("peer_losses.jsonl", "value_loss", check_peer), 6);
}

static void add_halves(const json_t *row)
{
    sr1_value_report sum = {.struct_size = sizeof sum};
    struct case_ c;
    double whole, parts;
    size_t n, half;

    read_case(row, &c);
    call(&c);
    n = c.b.n;
    half = n / 2;
    for (size_t i = 0; i < 2; i++) {
        size_t from = i ? half : 0, to = i ? n : half;
        sr1_value_batch b = {sizeof b,         to - from,    c.values + from,
                             c.returns + from, c.old + from, c.weight + from};
        sr1_value_report r = {.struct_size = sizeof r};
        float part[MAX];

        assert_int_equal(sr1_value_loss(&b, &c.o, part, &r), SR1_OK);
        assert_memory_equal(part, c.gradient + from, (to - from) * sizeof *part);
        sr1__value_report_add(&sum, &r);
    }
    near(sum.loss, c.r.loss, 1e-12);
    near(sum.clip_fraction, c.r.clip_fraction, 1e-12);
    near(sum.value, c.r.value, 1e-12);
    assert_int_equal(sum.tokens, n);
    assert_int_equal(sr1_value_explained_variance(&c.r, &whole), SR1_OK);
    assert_int_equal(sr1_value_explained_variance(&sum, &parts), SR1_OK);
    near(parts, whole, 1e-9);
}

static void its_parts_add_up(void **state)
{
    (void)state;
    assert_int_equal(each_row("losses.jsonl", "value_loss", add_halves), 12);
}

/* v = 2, v_old = 0, c = 0.5: u = 0.5. Towards R = 3 the clip holds: (0.5 - 3)^2 / 2.
 * Away from R = 0 it does not: (2 - 0)^2 / 2. */
static void by_hand(void **state)
{
    float v = 2, old = 0, returns = 3, g = 9;
    sr1_value_batch b = {sizeof b, 1, &v, &returns, &old, NULL};
    sr1_value_report r = {.struct_size = sizeof r};
    double explained = 7;

    (void)state;
    assert_int_equal(sr1_value_loss(&b, NULL, &g, &r), SR1_OK); /* c is 0.5 */
    near(r.loss, 3.125, 1e-15);
    assert_true(g == 0 && r.clip_fraction == 1 && r.weight == 1);
    returns = 0;
    assert_int_equal(sr1_value_loss(&b, NULL, &g, &r), SR1_OK);
    near(r.loss, 2, 1e-15);
    assert_true(g == 2 && r.clip_fraction == 0 && r.error == -2);
    assert_int_equal(sr1_value_explained_variance(&r, &explained), SR1_OK);
    assert_true(explained == 0); /* one return does not vary */
    b.n = 0;
    assert_int_equal(sr1_value_loss(&b, NULL, NULL, &r), SR1_OK);
    assert_true(r.loss == 0 && r.weight == 0);
    assert_int_equal(sr1_value_explained_variance(&r, &explained), SR1_OK);
    assert_true(explained == 0);
}

static void bad_input_is_refused_and_outputs_kept(void **state)
{
    float v[2] = {1, 2}, returns[2] = {1, NAN}, old[2] = {0, 0}, g[2] = {5, 5};
    float weights[2] = {1, 1};
    sr1_value_batch b = {sizeof b, 2, v, returns, old, weights};
    sr1_value_options o = {sizeof o, 0.5};
    sr1_value_report r = {.struct_size = sizeof r, .loss = 7};

    (void)state;
    assert_int_equal(sr1_value_loss(&b, &o, g, &r), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "token 1 of 2: returns"));
    returns[1] = 3e38f;
    v[1] = -3e38f;
    assert_int_equal(sr1_value_loss(&b, &o, g, &r), SR1_E_NUMERIC);
    returns[1] = 0;
    b.old_values = NULL;
    assert_int_equal(sr1_value_loss(&b, &o, g, &r), SR1_E_INVALID);
    o.clip_range = NAN;
    assert_int_equal(sr1_value_loss(&b, &o, g, &r), SR1_E_INVALID);
    o.clip_range = -1;
    assert_int_equal(sr1_value_loss(&b, &o, g, &r), SR1_E_INVALID);
    b.returns = NULL;
    assert_int_equal(sr1_value_loss(&b, &o, g, &r), SR1_E_INVALID);
    assert_int_equal(sr1_value_loss(NULL, &o, g, &r), SR1_E_INVALID);
    assert_int_equal(sr1_value_explained_variance(NULL, NULL), SR1_E_INVALID);
    assert_true(g[0] == 5 && g[1] == 5 && r.loss == 7);
}

static sr1_status lose(void *arg)
{
    static const float v[3] = {1, 2, 3};
    sr1_value_batch b = {sizeof b, 3, v, v, v, NULL};
    float g[3];

    (void)arg;
    return sr1_value_loss(&b, NULL, g, NULL);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(torture(lose, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_equals_torch),
        cmocka_unit_test(it_is_verls),
        cmocka_unit_test(its_parts_add_up),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(bad_input_is_refused_and_outputs_kept),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
