/* What several answers to one question are worth together: verl's numbers, cases worked
 * out by hand, and what holds of any answers. */
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "signal/reward/answer_figures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Answers to a question. */
struct answers {
    int32_t n;
    double values[SR1__ANSWERS_MAX];
    char texts[SR1__ANSWERS_MAX][16];
    char *votes[SR1__ANSWERS_MAX];
    double figures[SR1__ANSWER_FIGURES_MAX];
};

static void compute_figures(struct answers *a)
{
    struct sr1__answer_votes v;

    for (int32_t i = 0; i < a->n; i++)
        a->votes[i] = a->texts[i];
    assert_int_equal(sr1__answer_votes_count(&v, a->votes, a->n), SR1_OK);
    sr1__answer_figures(&v, a->values, a->figures);
}

static double figure_of(const struct answers *a, const char *wanted)
{
    char name[SR1__ANSWER_FIGURE_NAME];

    for (size_t i = 0; i < sr1__answer_figure_count(a->n); i++) {
        sr1__answer_figure_name(a->n, i, name);
        if (strcmp(name, wanted) == 0)
            return a->figures[i];
    }
    fail_msg("there is no figure %s of %d answers", wanted, (int)a->n);
    return NAN;
}

static void assert_near(double got, double wanted, double most, const char *what)
{
    if (!(fabs(got - wanted) <= most))
        fail_msg("%s is %.15g, not %.15g (%g)", what, got, wanted, most);
}

/* ---- verl ---- */

static void read_answers(struct answers *a, const json_t *row)
{
    const json_t *values = json_object_get(row, "values");
    const json_t *votes = json_object_get(row, "votes");

    a->n = (int32_t)json_array_size(values);
    assert_in_range(a->n, 1, SR1__ANSWERS_MAX);
    for (int32_t i = 0; i < a->n; i++) {
        a->values[i] = json_number_value(json_array_get(values, (size_t)i));
        snprintf(a->texts[i], sizeof(a->texts[i]), "%s",
                 json_string_value(json_array_get(votes, (size_t)i)));
    }
}

/* How far a mean of 1,000 random draws may be off: five times its standard error, by the
 * deviation of one draw, which verl's own may have missed. */
static double error_of_draws(const struct answers *a, const char *name)
{
    char of[32];

    snprintf(of, sizeof(of), "%.*s/std", (int)strcspn(name, "/"), name);
    return 5.0 * figure_of(a, of) / sqrt(1000.0) + 1e-12;
}

/* verl has no more figures than those with an '@'. */
static void check_against_verl(const json_t *row)
{
    const json_t *figures = json_object_get(row, "figures");
    int exact = json_is_true(json_object_get(row, "exact"));
    struct answers a;
    const char *name;
    json_t *v;

    read_answers(&a, row);
    compute_figures(&a);
    assert_int_equal(json_object_size(figures),
                     sr1__answer_figure_count(a.n) - (a.n > 1 ? 2 : 0));
    json_object_foreach((json_t *)(uintptr_t)figures, name, v)
    {
        double got = figure_of(&a, name);

        if (exact || !strchr(name, '/'))
            assert_near(got, json_number_value(v), 1e-12, name);
        else if (strstr(name, "/mean"))
            assert_near(got, json_number_value(v), error_of_draws(&a, name), name);
    }
}

static void figures_equal_verls(void **state)
{
    char path[1100];
    struct sr1__buf text;
    size_t rows = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/golden/validation_figures.jsonl",
             getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, 0, &text), SR1_OK);
    for (char *at = text.data, *end;
         (end = memchr(at, '\n', (size_t)(text.data + text.len - at)));
         at = end + 1, rows++) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, at, (size_t)(end - at), path), SR1_OK);
        check_against_verl(row);
        json_decref(row);
    }
    assert_int_equal(rows, 21);
    sr1__buf_free(&text);
}

/* ---- by hand ---- */

static void the_best_and_the_majority_are_of_all_answers(void **state)
{
    struct answers a = {.n = 5,
                        .values = {0.5, 1, 0, 0, 0.25},
                        .texts = {"rome", "paris", "rome", "oslo", "oslo"}};

    (void)state;
    compute_figures(&a);
    assert_near(figure_of(&a, "best"), 1, 0, "best");
    assert_near(figure_of(&a, "majority"), 0.5, 0, "majority"); /* rome came first */
    assert_near(figure_of(&a, "mean@5"), 0.35, 1e-15, "mean@5");
}

/* The one that answers has the vote of each draw that it is in. */
static void without_a_text_there_is_no_vote(void **state)
{
    struct answers a = {.n = 3, .values = {0, 1, 0}, .texts = {"", "paris", ""}};
    struct answers none = {.n = 2, .values = {0.25, 0.75}, .texts = {"", ""}};

    (void)state;
    compute_figures(&a);
    assert_near(figure_of(&a, "maj@3/mean"), 1 - 8.0 / 27, 1e-15, "maj@3/mean");
    assert_near(figure_of(&a, "maj@2/mean"), 1 - 4.0 / 9, 1e-15, "maj@2/mean");
    assert_near(figure_of(&a, "majority"), 1, 0, "majority");
    compute_figures(&none);
    assert_near(figure_of(&none, "maj@2/mean"), 0.5, 1e-15, "maj@2/mean");
    assert_near(figure_of(&none, "maj@2/std"), 0.25, 1e-15, "maj@2/std");
    assert_near(figure_of(&none, "majority"), 0.5, 0, "majority");
}

/* ---- of any answers ---- */

static void random_answers(struct sr1__rng *r, struct answers *a, int32_t n)
{
    uint64_t texts = 1 + sr1__rng_below(r, (uint64_t)n);

    a->n = n;
    for (int32_t i = 0; i < n; i++) {
        uint64_t text = sr1__rng_below(r, texts);

        a->values[i] = sr1__rng_normal(r);
        snprintf(a->texts[i], sizeof(a->texts[i]), "answer %u", (unsigned)text);
        if (text == 0)
            a->texts[i][0] = '\0';
    }
}

/* Values that are all alike have no spread, and each draw has a majority. */
static void probabilities_are_of_all_draws(void **state)
{
    static const int32_t sizes[] = {1, 2, 7, 31, 64, 127, 128};
    struct sr1__rng r;
    struct answers a;

    (void)state;
    sr1__rng_seed(&r, 1, 0);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        random_answers(&r, &a, sizes[k]);
        for (int32_t i = 0; i < a.n; i++)
            a.values[i] = 3.0;
        compute_figures(&a);
        for (size_t i = 0; i < sr1__answer_figure_count(a.n); i++) {
            char name[SR1__ANSWER_FIGURE_NAME];

            sr1__answer_figure_name(a.n, i, name);
            assert_near(a.figures[i], strstr(name, "std") ? 0.0 : 3.0, 1e-9, name);
        }
    }
}

/* The more answers, the better the best and the worse the worst; mirrored values mirror
 * the figures. */
static void more_draws_go_further(void **state)
{
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 2, 0);
    for (int k = 0; k < 20; k++) {
        struct answers a, mirror;

        random_answers(&r, &a, 9);
        mirror = a;
        for (int32_t i = 0; i < a.n; i++)
            mirror.values[i] = -a.values[i];
        compute_figures(&a);
        compute_figures(&mirror);
        assert_true(figure_of(&a, "best@2/mean") > figure_of(&a, "mean@9"));
        assert_true(figure_of(&a, "best@4/mean") > figure_of(&a, "best@2/mean"));
        assert_true(figure_of(&a, "best@9/mean") > figure_of(&a, "best@8/mean"));
        assert_true(figure_of(&a, "best") > figure_of(&a, "best@9/mean"));
        assert_near(figure_of(&a, "worst@4/mean"), -figure_of(&mirror, "best@4/mean"),
                    1e-12, "worst@4/mean");
        assert_near(figure_of(&a, "worst@4/std"), figure_of(&mirror, "best@4/std"), 1e-12,
                    "worst@4/std");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_equal_verls),
        cmocka_unit_test(the_best_and_the_majority_are_of_all_answers),
        cmocka_unit_test(without_a_text_there_is_no_vote),
        cmocka_unit_test(probabilities_are_of_all_draws),
        cmocka_unit_test(more_draws_go_further),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
