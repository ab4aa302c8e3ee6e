/* The learning rate over the steps of a run. */
#include "train/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fmax(1.0, fabs(b))))
        fail_msg("%.12g is not %.12g", a, b);
}

static void the_rate_warms_up_and_falls(void **state)
{
    struct sr1__schedule s = {.shape = "linear",
                              .rate = 1,
                              .warmup = 3,
                              .total = 13,
                              .decay_start = 0.5,
                              .final_ratio = 0.2};

    (void)state;
    near(sr1__schedule_rate(&s, 0), 0.25, 1e-12);
    near(sr1__schedule_rate(&s, 2), 0.75, 1e-12);
    near(sr1__schedule_rate(&s, 3), 1, 1e-12);
    near(sr1__schedule_rate(&s, 6), 1, 1e-12);
    near(sr1__schedule_rate(&s, 12), 0.2 + 0.8 / 6.5, 1e-12);
    near(sr1__schedule_rate(&s, 13), 0.2, 1e-12);
    near(sr1__schedule_rate(&s, 99), 0.2, 1e-12);
    for (int i = 7; i < 13; i++)
        assert_true(sr1__schedule_rate(&s, i) < sr1__schedule_rate(&s, i - 1));
    s.shape = "cosine";
    s.decay_start = 0;
    s.warmup = 0;
    s.total = 12;
    near(sr1__schedule_rate(&s, 6), 0.2 + 0.8 * 0.5, 1e-12);
    s.shape = "constant";
    near(sr1__schedule_rate(&s, 12), 1, 1e-12);
    s.shape = "linear";
    s.total = 0; /* not known: it does not fall */
    near(sr1__schedule_rate(&s, 1000), 1, 1e-12);
    s.total = 1;
    s.warmup = 0;
    near(sr1__schedule_rate(&s, 0), 1, 1e-12);
}

/* As verl's int(ratio * steps), of whole results too; a number of steps wins. */
static void a_warmup_may_be_a_part_of_the_steps(void **state)
{
    static const struct {
        double ratio;
        int64_t given, total, warmup;
    } rows[] = {{0.285, 0, 1005, 286}, {0.285, 0, 50, 14}, {0.29, 0, 100, 29},
                {0.1, 0, 30, 3},       {0.5, 7, 100, 7},   {0, 0, 100, 0},
                {1, 0, 8, 8},          {0.1, 0, 3, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sr1__schedule s = {.shape = "constant",
                                  .rate = 1,
                                  .warmup = rows[i].given,
                                  .warmup_ratio = rows[i].ratio};

        sr1__schedule_plan(&s, rows[i].total);
        assert_int_equal(s.total, rows[i].total);
        assert_int_equal(s.warmup, rows[i].warmup);
    }
}

static void a_part_of_the_steps_needs_their_number(void **state)
{
    static const struct {
        const char *shape;
        int64_t warmup;
        double ratio;
        int needs;
    } rows[] = {{"constant", 0, 0, 0},
                {"constant", 5, 0.1, 0},
                {"constant", 0, 0.1, 1},
                {"linear", 0, 0, 1},
                {"cosine", 5, 0, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(sr1__schedule_needs_total(
                             &(struct sr1__schedule){.shape = rows[i].shape,
                                                     .warmup = rows[i].warmup,
                                                     .warmup_ratio = rows[i].ratio}),
                         rows[i].needs);
}

/* Behind the warm-up the rates are those of transformers'
 * get_linear_schedule_with_warmup(4, 20) and
 * get_cosine_with_min_lr_schedule_with_warmup(4, 20, min_lr_rate=0.1): the highest one is
 * reached, and nothing jumps. */
static void the_fall_begins_where_the_rise_ends(void **state)
{
    static const int64_t at[] = {4, 5, 9, 12, 19, 20};
    static const double linear[] = {1.0, 0.9375, 0.6875, 0.5, 0.0625, 0.0};
    static const double cosine[] = {1.0,  0.991353376181, 0.800006604859,
                                    0.55, 0.108646623819, 0.1};
    struct sr1__schedule s = {.shape = "linear", .rate = 1, .warmup = 4, .total = 20};

    (void)state;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        s.shape = "linear";
        s.final_ratio = 0;
        near(sr1__schedule_rate(&s, at[i]), linear[i], 1e-9);
        s.shape = "cosine";
        s.final_ratio = 0.1;
        near(sr1__schedule_rate(&s, at[i]), cosine[i], 1e-9);
    }
}

/* transformers' get_linear_schedule_with_warmup(0, 3), and
 * get_cosine_schedule_with_warmup of these: no step is without a rate. */
static void the_last_step_learns(void **state)
{
    static const double linear[] = {1.0, 2.0 / 3, 1.0 / 3}, cosine[] = {1.0, 0.75, 0.25};

    (void)state;
    for (int64_t i = 0; i < 3; i++) {
        struct sr1__schedule s = {.shape = "linear", .rate = 1};

        sr1__schedule_plan(&s, 3);
        near(sr1__schedule_rate(&s, i), linear[i], 1e-12);
        s.shape = "cosine";
        near(sr1__schedule_rate(&s, i), cosine[i], 1e-12);
    }
}

/* The policy's begins when critic_warmup is over. */
static void a_schedule_may_begin_late(void **state)
{
    static const double rates[] = {1.0 / 3, 2.0 / 3, 1.0, 0.75, 0.5, 0.25};
    struct sr1__schedule s = {
        .shape = "linear", .rate = 1, .first = 5, .warmup_ratio = 0.4};

    (void)state;
    sr1__schedule_plan(&s, 11);
    assert_int_equal(s.total, 6);
    assert_int_equal(s.warmup, 2);
    for (int64_t i = 0; i < 6; i++)
        near(sr1__schedule_rate(&s, 5 + i), rates[i], 1e-12);
    sr1__schedule_plan(&s, 4); /* it never begins */
    assert_int_equal(s.total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_warms_up_and_falls),
        cmocka_unit_test(a_part_of_the_steps_needs_their_number),
        cmocka_unit_test(the_fall_begins_where_the_rise_ends),
        cmocka_unit_test(a_warmup_may_be_a_part_of_the_steps),
        cmocka_unit_test(the_last_step_learns),
        cmocka_unit_test(a_schedule_may_begin_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
