/* Tiny programs with planted bugs: Python agrees about every one, what is said of them is
 * right, and files are as the header tells. */
#include "support/files.h"
#include "support/torture.h"

#include "base/json.h"
#include "environment/world/programs.h"

#include <stdio.h>
#include <string.h>

#define OK(expr)                                                                         \
    do {                                                                                 \
        sr1_status ok_status = (expr);                                                   \
        if (ok_status != SR1_OK)                                                         \
            fail_msg("%s: %d: %s", #expr, ok_status, sr1_last_error());                  \
    } while (0)

static void draw(struct sr1__programs_problem *p, uint64_t seed)
{
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, 0);
    sr1__programs_draw(p, &rng);
}

static json_t *code_of(const struct sr1__program *p)
{
    struct sr1__buf b;
    json_t *text;

    sr1__buf_init(&b, 0);
    sr1__programs_append_code(&b, p);
    text = json_string(sr1__buf_cstr(&b));
    sr1__buf_free(&b);
    return text;
}

/* ---- meaning ---- */

static json_t *row_of(const struct sr1__programs_problem *p)
{
    json_t *tests = json_array(), *bugs = json_array();

    for (int32_t i = 0; i < SR1__PROGRAMS_TESTS; i++) {
        struct sr1__buf b;

        sr1__buf_init(&b, 0);
        sr1__programs_append_test(&b, &p->right, &p->tests[i]);
        json_array_append_new(tests, json_string(sr1__buf_cstr(&b)));
        sr1__buf_free(&b);
    }
    for (int32_t i = 0; i < p->n_bugs; i++) {
        struct sr1__program q = sr1__programs_with(&p->right, p->bugs[i]);

        json_array_append_new(bugs, code_of(&q));
    }
    return json_pack("{s:o, s:o, s:o}", "tests", tests, "right", code_of(&p->right),
                     "bugs", bugs);
}

/* A thousand problems and all their bugs, by one process of Python. */
static void python_agrees(void **state)
{
    struct sr1__programs_problem p;
    struct sr1__buf rows;
    char command[1024], answer[64] = "";
    int32_t programs = 0;
    FILE *out;

    (void)state;
    if (system("python3 -c pass >/dev/null 2>&1") != 0)
        skip();
    sr1__buf_init(&rows, 0);
    for (uint64_t seed = 0; seed < 1000; seed++) {
        json_t *row;

        draw(&p, seed);
        row = row_of(&p);
        OK(sr1__json_dump(row, 0, &rows));
        sr1__buf_char(&rows, '\n');
        json_decref(row);
        programs += 1 + p.n_bugs;
    }
    snprintf(command, sizeof command, "python3 %s/tests/unit/world/programs.py %s",
             getenv("SR1_SRC"), scratch_file("programs", rows.data, rows.len));
    sr1__buf_free(&rows);
    out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(answer, sizeof answer, out));
    assert_int_equal(pclose(out), 0);
    assert_int_equal(atoi(answer), programs);
    assert_true(programs > 5000);
}

/* ---- changes ---- */

static int fails_a_test(const struct sr1__programs_problem *p,
                        const struct sr1__program *q)
{
    for (int32_t i = 0; i < SR1__PROGRAMS_TESTS; i++)
        if (sr1__programs_run(q, p->tests[i].arguments) != p->tests[i].expected)
            return 1;
    return 0;
}

/* Each bug can be said and mended: what is wrong stands once in its line. */
static void bugs_are_found_and_can_be_said(void **state)
{
    int32_t of_family[SR1__PROGRAMS_FAMILIES] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct sr1__programs_problem p;

        draw(&p, seed);
        of_family[p.right.family]++;
        assert_in_range(p.n_bugs, 1, SR1__PROGRAMS_BUGS);
        assert_false(fails_a_test(&p, &p.right));
        for (int32_t b = 0; b < p.n_bugs; b++) {
            struct sr1__program q = sr1__programs_with(&p.right, p.bugs[b]);

            assert_true(fails_a_test(&p, &q));
            assert_true(sr1__programs_is_plain(&q, p.bugs[b].slot));
        }
    }
    for (int32_t i = 0; i < SR1__PROGRAMS_FAMILIES; i++)
        assert_true(of_family[i] > 200);
}

static void advice_is_possible(void **state)
{
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 5, 0);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct sr1__programs_problem p;
        struct sr1__programs_change c;

        draw(&p, seed);
        c = sr1__programs_any_change(&p.right, &rng);
        assert_true(sr1__programs_is_plain(&p.right, c.slot));
        assert_int_not_equal(p.right.value[c.slot], c.value);
    }
}

/* ---- texts ---- */

typedef void (*say_fn)(struct sr1__buf *b, const struct sr1__program *p);

static void says(say_fn say, const struct sr1__program *p, const char *expected)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    say(&b, p);
    assert_string_equal(sr1__buf_cstr(&b), expected);
    sr1__buf_free(&b);
}

/* A sum, its last number not counted by mistake. */
static void texts_by_hand(void **state)
{
    struct sr1__program p = {.family = 1, .value = {2, 3, 0, 0, 1, 1}}, q;
    struct sr1__programs_change bug = {2, 1}, mend = {2, 0};
    struct sr1__programs_critique said = {&p, &q, 2, &mend};
    struct sr1__programs_test t = {.arguments = {{-1, {3}}}, .expected = 18};
    struct sr1__buf b;

    (void)state;
    says(sr1__programs_append_task, &p,
         "Write f(x) that adds up i times 3 for i from 1 to x.");
    says(sr1__programs_append_code, &p,
         "```python\ndef f(x):\n    s = 0\n    for i in range(1, x + 1):\n"
         "        s += i * 3\n    return s\n```");
    assert_int_equal(sr1__programs_run(&p, t.arguments), 18);
    assert_int_equal(sr1__programs_line(&p, 2), 3);
    assert_false(sr1__programs_is_plain(&p, 4)); /* 1 stands twice in line 3 */
    assert_true(sr1__programs_is_plain(&p, 2));
    q = sr1__programs_with(&p, bug);
    assert_int_equal(sr1__programs_run(&q, t.arguments), 9);
    sr1__buf_init(&b, 0);
    sr1__programs_append_test(&b, &p, &t);
    assert_string_equal(sr1__buf_cstr(&b), "assert f(3) == 18");
    sr1__buf_clear(&b);
    sr1__programs_append_critique(&b, &said);
    assert_string_equal(sr1__buf_cstr(&b),
                        "Analysis: times is *, 3 is 3, to is x wrong.\n"
                        "Improvement suggestions: in line 3 write x + 1 not x.\n"
                        "Overall judgment: Incorrect");
    sr1__buf_clear(&b);
    said.advice = NULL;
    said.compared = 1;
    sr1__programs_append_critique(&b, &said);
    assert_string_equal(sr1__buf_cstr(&b), "Analysis: times is *.\n"
                                           "Improvement suggestions: none.\n"
                                           "Overall judgment: Correct");
    sr1__buf_free(&b);
}

/* ---- files ---- */

static sr1_programs_options few(void)
{
    sr1_programs_options o = {0};

    sr1_programs_options_init(&o);
    o.seed = 3;
    o.train_problems = 300;
    o.validation_problems = o.test_problems = 60;
    o.copies = o.demonstrations = o.careless = 200;
    return o;
}

static json_t *rows_of(const char *path)
{
    json_t *rows = json_array();
    struct sr1__buf text;
    char *line, *end;

    OK(sr1__file_read(scratch_path(path), 0, &text));
    for (line = text.data; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, line, (size_t)(end - line), path));
        json_array_append_new(rows, row);
    }
    sr1__buf_free(&text);
    return rows;
}

static const char *text(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));

    assert_non_null(s);
    return s;
}

/* A task whatever its variables are called: they are words of one letter. */
static json_t *without_names(const char *task)
{
    char s[256];

    snprintf(s, sizeof s, "%s", task);
    for (char *at = s; *at; at++)
        if (*at >= 'a' && *at <= 'z' && strchr(" (", at[-1]) && strchr(" ,.)", at[1]))
            *at = *at == 'n' ? 'x' : *at == 'k' ? 'y' : *at;
    return json_string(s);
}

static void gather(json_t *tasks, const char *path, const char *split)
{
    json_t *rows = rows_of(path), *row, *task;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        task = without_names(text(row, "problem"));
        if (split)
            json_object_set_new(tasks, json_string_value(task), json_string(split));
        else
            assert_null(json_object_get(tasks, json_string_value(task)));
        json_decref(task);
    }
    json_decref(rows);
}

static void splits_share_no_program(void **state)
{
    sr1_programs_options o = few();
    json_t *validation = json_object(), *test = json_object();

    (void)state;
    OK(sr1_programs_write(scratch_path("splits"), &o, NULL, NULL));
    gather(validation, "splits/validation.jsonl", "validation");
    gather(validation, "splits/train.jsonl", NULL);
    gather(validation, "splits/test.jsonl", NULL);
    gather(test, "splits/test.jsonl", "test");
    gather(test, "splits/train.jsonl", NULL);
    json_decref(validation);
    json_decref(test);
}

static void problems_are_whole(void **state)
{
    sr1_programs_options o = few();
    json_t *rows, *row;
    size_t i, correct = 0;

    (void)state;
    OK(sr1_programs_write(scratch_path("whole"), &o, NULL, NULL));
    rows = rows_of("whole/train.jsonl");
    assert_int_equal(json_array_size(rows), 300);
    json_array_foreach(rows, i, row)
    {
        const char *question = text(row, "question");

        assert_true(strlen(question) < 400);
        assert_non_null(strstr(question, text(row, "problem")));
        assert_non_null(strstr(question, text(row, "solution")));
        assert_non_null(strstr(question, "\"Overall judgment: Correct\""));
        assert_non_null(strstr(question, "\"Overall judgment: Incorrect\""));
        assert_int_equal(json_array_size(json_object_get(row, "tests")),
                         SR1__PROGRAMS_TESTS);
        correct += strcmp(text(row, "solution"), text(row, "reference")) == 0;
    }
    assert_in_range(correct, 60, 120); /* 0.3 of 300 */
    json_decref(rows);
}

typedef int (*row_fn)(const json_t *row); /* -1: of another kind, else a count */

/* Rows of a kind in a file, and the sum of their counts. */
static size_t count_rows(const char *path, row_fn use, size_t *sum)
{
    json_t *rows = rows_of(path), *row;
    size_t i, n = 0;

    *sum = 0;
    json_array_foreach(rows, i, row)
    {
        int found = use(row);

        n += found >= 0;
        *sum += found > 0;
    }
    json_decref(rows);
    return n;
}

/* Does a critique find something? Where it does not, it says so twice. */
static int raises_alarm(const json_t *row)
{
    const json_t *segments = json_object_get(row, "segments");
    const char *said;

    if (!segments)
        return -1;
    said = text(json_array_get(segments, 0), "text");
    assert_true(strlen(said) < 250);
    assert_memory_equal(said, "Analysis: ", 10);
    assert_true((strstr(said, " wrong.\n") != NULL) ==
                (strstr(said, "\nOverall judgment: Incorrect<|im_end|>") != NULL));
    assert_true((strstr(said, "suggestions: none.") != NULL) ==
                (strstr(said, "\nOverall judgment: Correct<|im_end|>") != NULL));
    return strstr(said, " wrong.") != NULL;
}

/* Is what a reviser answers another text than it is given? So it is advised. */
static int revises(const json_t *row)
{
    const json_t *m = json_object_get(row, "messages");
    const char *given, *advice, *after;
    int told;

    if (!m)
        return -1;
    given = text(json_array_get(m, 1), "content");
    advice = text(json_array_get(m, 2), "content");
    after = text(json_array_get(m, 3), "content");
    told = strstr(advice, "judgment: Incorrect") != NULL;
    assert_int_equal(json_integer_value(json_object_get(json_array_get(m, 1), "weight")),
                     0);
    assert_null(json_object_get(json_array_get(m, 3), "weight"));
    assert_int_equal(strcmp(given, after) != 0, told);
    return told;
}

/* The careful critic finds the bugs there are, the careless one few of them. */
static void critics_differ(void **state)
{
    sr1_programs_options o = few();
    size_t found;

    (void)state;
    OK(sr1_programs_write(scratch_path("critics"), &o, NULL, NULL));
    assert_int_equal(count_rows("critics/sft.jsonl", raises_alarm, &found), 200);
    assert_in_range(found, 110, 170); /* 0.7 of 200 */
    assert_int_equal(count_rows("critics/careless.jsonl", raises_alarm, &found), 200);
    assert_in_range(found, 40, 110);
}

static void revisions_do_what_they_are_told(void **state)
{
    sr1_programs_options o = few();
    size_t changed;

    (void)state;
    OK(sr1_programs_write(scratch_path("revisions"), &o, NULL, NULL));
    assert_int_equal(count_rows("revisions/sft.jsonl", revises, &changed), 400);
    assert_in_range(changed, 110, 170); /* 0.7 of 200; 200 are copies */
}

static void files_repeat(void **state)
{
    static const char *const names[] = {"train.jsonl",    "validation.jsonl",
                                        "test.jsonl",     "sft.jsonl",
                                        "careless.jsonl", "tokenizer/tokenizer.json"};
    sr1_programs_options o = few();

    (void)state;
    OK(sr1_programs_write(scratch_path("once"), &o, NULL, NULL));
    OK(sr1_programs_write(scratch_path("twice"), &o, NULL, NULL));
    o.seed = 4;
    OK(sr1_programs_write(scratch_path("other"), &o, NULL, NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sr1__buf a, b, c;
        char path[64];

        snprintf(path, sizeof path, "once/%s", names[i]);
        OK(sr1__file_read(scratch_path(path), 0, &a));
        snprintf(path, sizeof path, "twice/%s", names[i]);
        OK(sr1__file_read(scratch_path(path), 0, &b));
        snprintf(path, sizeof path, "other/%s", names[i]);
        OK(sr1__file_read(scratch_path(path), 0, &c));
        assert_string_equal(a.data, b.data);
        if (!strstr(path, "tokenizer"))
            assert_string_not_equal(a.data, c.data);
        sr1__buf_free(&a);
        sr1__buf_free(&b);
        sr1__buf_free(&c);
    }
}

static void options_are_checked(void **state)
{
    sr1_programs_options o = few();

    (void)state;
    assert_int_equal(sr1_programs_write(NULL, &o, NULL, NULL), SR1_E_INVALID);
    o.careless = 0;
    assert_int_equal(sr1_programs_write(scratch_path("no"), &o, NULL, NULL),
                     SR1_E_INVALID);
    o = few();
    o.correct = 1.5;
    assert_int_equal(sr1_programs_write(scratch_path("no"), &o, NULL, NULL),
                     SR1_E_INVALID);
    assert_false(sr1__path_exists(scratch_path("no")));
}

static sr1_status write_one(void *arg)
{
    sr1_programs_options o = {0};

    (void)arg;
    sr1_programs_options_init(&o);
    o.train_problems = o.validation_problems = o.test_problems = 1;
    o.copies = o.demonstrations = o.careless = 1;
    return sr1_programs_write(scratch_path("torture"), &o, NULL, NULL);
}

static void torture_write(void **state)
{
    (void)state;
    torture(write_one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_agrees),
        cmocka_unit_test(bugs_are_found_and_can_be_said),
        cmocka_unit_test(advice_is_possible),
        cmocka_unit_test(texts_by_hand),
        cmocka_unit_test(splits_share_no_program),
        cmocka_unit_test(problems_are_whole),
        cmocka_unit_test(critics_differ),
        cmocka_unit_test(revisions_do_what_they_are_told),
        cmocka_unit_test(files_repeat),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(torture_write),
    };

    return cmocka_run_group_tests_name("programs", tests, scratch_make, scratch_remove);
}
