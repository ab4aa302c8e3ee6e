/* Rewards and text metrics equal to plain Python's on the vectors of tests/golden, and
 * the time they take on hostile texts. */
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "signal/reward/chars.h"

#include <searchr1/reward.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/ext/text_metrics.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_TRUTHS 8

/* A row of the vectors. */
struct row {
    const char *answer;
    size_t len;
    const char *truths[MAX_TRUTHS];
    size_t n;
};

static const char *text_of(const json_t *o, const char *key, size_t *len)
{
    const json_t *s = json_object_get(o, key);

    assert_true(json_is_string(s));
    *len = json_string_length(s);
    return json_string_value(s);
}

static double number_of(const json_t *o, const char *key)
{
    assert_true(json_is_number(json_object_get(o, key)));
    return json_number_value(json_object_get(o, key));
}

static struct row row_of(const json_t *o)
{
    const json_t *truths = json_object_get(o, "truths");
    struct row r = {0};

    r.answer = text_of(o, "answer", &r.len);
    for (r.n = 0; r.n < json_array_size(truths); r.n++) {
        assert_true(r.n < MAX_TRUTHS);
        r.truths[r.n] = json_string_value(json_array_get(truths, r.n));
    }
    return r;
}

/* Call check on every line of a file of tests/golden; how many there were. */
static int each_line(const char *name, void (*check)(const json_t *))
{
    char path[4096], *line, *end;
    struct sr1__buf text;
    int n = 0;

    snprintf(path, sizeof path, "%s/tests/golden/%s", getenv("SR1_SRC"), name);
    assert_int_equal(sr1__file_read(path, 0, &text), SR1_OK);
    for (line = text.data; (end = strchr(line, '\n')) != NULL; line = end + 1, n++) {
        json_t *j = NULL;

        assert_int_equal(sr1__json_parse(&j, line, (size_t)(end - line), name), SR1_OK);
        check(j);
        json_decref(j);
    }
    sr1__buf_free(&text);
    return n;
}

static void check_ratio(const json_t *j)
{
    const json_t *a = json_array_get(j, 0), *b = json_array_get(j, 1);
    double want = json_number_value(json_array_get(j, 2)), got;

    assert_int_equal(sr1_similarity_ratio(json_string_value(a), json_string_length(a),
                                          json_string_value(b), json_string_length(b),
                                          &got),
                     SR1_OK);
    if (got != want)
        fail_msg("ratio of '%s' and '%s' is %.17g, not %.17g", json_string_value(a),
                 json_string_value(b), got, want);
}

static void ratio_equals_difflib(void **state)
{
    (void)state;
    assert_true(each_line("difflib.jsonl", check_ratio) > 2500);
}

/* ---- reward.jsonl, kind by kind ---- */

static void check_lower_text(const char *s, size_t n, const char *want, size_t want_n)
{
    struct sr1__chars c;
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    assert_int_equal(sr1__chars_decode(&c, s, n), SR1_OK);
    assert_int_equal(sr1__chars_lower(&c), SR1_OK);
    sr1__chars_encode(c.cp, c.n, &b);
    assert_int_equal(b.len, want_n);
    assert_memory_equal(b.data, want, want_n);
    sr1__buf_free(&b);
    sr1__chars_free(&c);
}

static void check_case(const json_t *o)
{
    const json_t *pairs = json_object_get(o, "pairs"), *pair;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)pairs, i, pair)
    {
        const json_t *from = json_array_get(pair, 0), *to = json_array_get(pair, 1);

        check_lower_text(json_string_value(from), json_string_length(from),
                         json_string_value(to), json_string_length(to));
    }
    assert_true(i > 1300);
}

static void check_lower(const json_t *o)
{
    size_t n, want_n;
    const char *s = text_of(o, "text", &n), *want = text_of(o, "lower", &want_n);

    check_lower_text(s, n, want, want_n);
}

static void check_normalize(const json_t *o)
{
    size_t n, want_n, got_n;
    const char *s = text_of(o, "text", &n), *want = text_of(o, "normalized", &want_n);
    char *got;

    assert_int_equal(sr1_reward_normalize(s, n, &got, &got_n), SR1_OK);
    if (got_n != want_n || memcmp(got, want, want_n) != 0)
        fail_msg("normalise '%s' is '%s', not '%s'", s, got, want);
    sr1_free(got);
}

static void check_format(const json_t *o)
{
    sr1_reward_scales s = {.struct_size = sizeof s};
    const char *keys[2] = {"well_formed", "closed"};
    size_t n;
    const char *text = text_of(o, "text", &n);
    double got;

    sr1_reward_scales_init(&s);
    for (s.closed_thoughts = 0; s.closed_thoughts < 2; s.closed_thoughts++) {
        int want = json_is_true(json_object_get(o, keys[s.closed_thoughts]));

        assert_int_equal(sr1_reward_check_format(text, n, &s, &got), SR1_OK);
        if (got != (want ? 0.5 : -1.0))
            fail_msg("format of '%s' is %g, %s", text, got, keys[s.closed_thoughts]);
    }
}

static void check_match(const json_t *o)
{
    struct row r = row_of(o);
    double got;

    assert_int_equal(sr1_reward_exact_match(r.answer, r.len, r.truths, r.n, &got),
                     SR1_OK);
    assert_true(got == number_of(o, "em"));
    assert_int_equal(sr1_reward_sub_match(r.answer, r.len, r.truths, r.n, &got), SR1_OK);
    assert_true(got == number_of(o, "sub"));
    assert_int_equal(sr1_reward_f1(r.answer, r.len, r.truths, r.n, &got), SR1_OK);
    assert_true(fabs(got - number_of(o, "f1")) < 1e-15);
}

static void check_answer(const json_t *o)
{
    struct row r = row_of(o);
    double got;

    assert_int_equal(sr1_reward_check_answer(r.answer, r.len, r.truths, r.n, NULL, &got),
                     SR1_OK);
    if (got != number_of(o, "score"))
        fail_msg("answer '%s' to '%s' gives %g, not %g", r.answer, r.truths[0], got,
                 number_of(o, "score"));
}

static void check_metrics(const json_t *o)
{
    struct row r = row_of(o);
    double got;

    assert_int_equal(sr1_metric_bleu(r.answer, r.len, r.truths, r.n, &got), SR1_OK);
    assert_true(fabs(got - number_of(o, "bleu")) < 1e-12);
    assert_int_equal(sr1_metric_rouge_n(r.answer, r.len, r.truths, r.n, 1, &got), SR1_OK);
    assert_true(fabs(got - number_of(o, "rouge1")) < 1e-12);
    assert_int_equal(sr1_metric_rouge_n(r.answer, r.len, r.truths, r.n, 2, &got), SR1_OK);
    assert_true(fabs(got - number_of(o, "rouge2")) < 1e-12);
    assert_int_equal(sr1_metric_rouge_l(r.answer, r.len, r.truths, r.n, &got), SR1_OK);
    assert_true(fabs(got - number_of(o, "rougeL")) < 1e-12);
}

static struct kind {
    const char *name;
    void (*check)(const json_t *);
    int least; /* lines there must be */
    int seen;
} kinds[] = {
    {"case", check_case, 1, 0},
    {"lower", check_lower, 400, 0},
    {"normalize", check_normalize, 500, 0},
    {"match", check_match, 500, 0},
    {"answer", check_answer, 600, 0},
    {"metrics", check_metrics, 500, 0},
    {"format", check_format, 400, 0},
};

#define N_KINDS (sizeof kinds / sizeof kinds[0])

static void check_any(const json_t *o)
{
    size_t n, i;
    const char *kind = text_of(o, "kind", &n);

    for (i = 0; i < N_KINDS && strcmp(kinds[i].name, kind) != 0;)
        i++;
    assert_true(i < N_KINDS);
    kinds[i].check(o);
    kinds[i].seen++;
}

static void rewards_equal_python(void **state)
{
    size_t i;

    (void)state;
    each_line("reward.jsonl", check_any);
    for (i = 0; i < N_KINDS; i++)
        assert_true(kinds[i].seen >= kinds[i].least);
}

/* Python changes exactly the characters of the vectors; versions of Unicode after 14 may
 * have a few pairs more. */
static void other_characters_stay(void **state)
{
    struct sr1__chars c = {NULL, 0};
    uint32_t cp, changed = 0;

    (void)state;
    for (cp = 0; cp < 0x110000; cp++) {
        char utf8[4] = {(char)(0xf0 | cp >> 18), (char)(0x80 | (cp >> 12 & 63)),
                        (char)(0x80 | (cp >> 6 & 63)), (char)(0x80 | (cp & 63))};

        if (cp < 0x10000) /* only those of four bytes are decoded; the others are set */
            memcpy(utf8, "\xf0\x90\x80\x80", 4);
        assert_int_equal(sr1__chars_decode(&c, utf8, 4), SR1_OK);
        c.cp[0] = cp;
        assert_int_equal(sr1__chars_lower(&c), SR1_OK);
        changed += c.n != 1 || c.cp[0] != cp;
        sr1__chars_free(&c);
    }
    assert_in_range(changed, 1433, 1433 + 100);
}

/* ---- hostile texts ---- */

static char *repeat(const char *piece, size_t n)
{
    size_t len = strlen(piece), i;
    char *s = malloc(n * len + 1);

    assert_non_null(s);
    for (i = 0; i < n; i++)
        memcpy(s + i * len, piece, len);
    s[n * len] = '\0';
    return s;
}

static double seconds_of_ratio(const char *a, const char *b)
{
    double begin = sr1__now(), ratio;

    assert_int_equal(sr1_similarity_ratio(a, strlen(a), b, strlen(b), &ratio), SR1_OK);
    return sr1__now() - begin;
}

static void long_texts_take_bounded_time(void **state)
{
    char a[SR1_SIMILARITY_MAX + 1], b[SR1_SIMILARITY_MAX + 1];
    double worst = 0, one;
    int shift, alphabet;
    size_t i;

    (void)state;
    a[SR1_SIMILARITY_MAX] = b[SR1_SIMILARITY_MAX] = '\0';
    for (alphabet = 2; alphabet <= 98; alphabet += 4) {
        for (shift = 1; shift < 40; shift += 13) {
            for (i = 0; i < SR1_SIMILARITY_MAX; i++) {
                a[i] = (char)(' ' + (i * i + i / 7) % 95 % (size_t)alphabet);
                b[i] = (char)(' ' + (i * (size_t)shift + i / 3) % (size_t)alphabet);
            }
            one = seconds_of_ratio(a, b);
            worst = one > worst ? one : worst;
            b[199] = '\0'; /* no popular characters below 200 */
            one = seconds_of_ratio(a, b);
            worst = one > worst ? one : worst;
        }
    }
    print_message("slowest ratio of %d characters: %.3f s\n", SR1_SIMILARITY_MAX, worst);
    assert_true(worst < 2.0);
}

static void too_long_is_said(void **state)
{
    char *longer = repeat("a", SR1_SIMILARITY_MAX + 1);
    char *spaced = repeat("a ", SR1_SIMILARITY_MAX + 1);
    const char *truths[1] = {longer};
    double out = 9;

    (void)state;
    assert_int_equal(sr1_similarity_ratio(longer, strlen(longer), "a", 1, &out),
                     SR1_E_LIMIT);
    assert_true(out == 9);
    /* longer than the limit: equal is exact, equal when folded is similar, else nothing
     */
    assert_int_equal(
        sr1_reward_check_answer(longer, strlen(longer), truths, 1, NULL, &out), SR1_OK);
    assert_true(out == 2);
    assert_int_equal(
        sr1_reward_check_answer(spaced, strlen(spaced), truths, 1, NULL, &out), SR1_OK);
    assert_true(out == 1);
    assert_int_equal(
        sr1_reward_check_answer(longer, strlen(longer) - 1, truths, 1, NULL, &out),
        SR1_OK);
    assert_true(out == 0);
    assert_int_equal(sr1_metric_rouge_l(spaced, strlen(spaced), truths, 1, &out), SR1_OK);
    free(spaced);
    spaced = repeat("a ", 5000);
    assert_int_equal(sr1_metric_rouge_l(spaced, strlen(spaced), truths, 1, &out),
                     SR1_E_LIMIT);
    free(spaced);
    free(longer);
}

/* Megabytes of tags and of equal tokens: each pass is linear or n log n. */
static void big_texts_take_bounded_time(void **state)
{
    static const char *const pieces[] = {"<think>", "<answer>",          "<information>",
                                         "<",       "</answer><answer>", "a "};
    const char *truths[1] = {"a a a"};
    double begin = sr1__now(), out;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char *s = repeat(pieces[i], 200000);

        assert_int_equal(sr1_reward_total(s, strlen(s), truths, 1, NULL, &out), SR1_OK);
        assert_int_equal(sr1_reward_f1(s, strlen(s), truths, 1, &out), SR1_OK);
        assert_int_equal(sr1_metric_bleu(s, strlen(s), truths, 1, &out), SR1_OK);
        free(s);
    }
    assert_true(sr1__now() - begin < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratio_equals_difflib),
        cmocka_unit_test(rewards_equal_python),
        cmocka_unit_test(other_characters_stay),
        cmocka_unit_test(long_texts_take_bounded_time),
        cmocka_unit_test(too_long_is_said),
        cmocka_unit_test(big_texts_take_bounded_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
