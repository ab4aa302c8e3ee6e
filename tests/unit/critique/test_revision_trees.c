/* Trees of revisions: they grow as asked, go on where they were stopped, and their scores
 * are those counted by hand. */
#include "critique_test.h"
#include "support/count_text.h"
#include "support/files.h"

#include "base/mem.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* A made-up trade: an answer is a number in text, and passes when it is 3 or more. The
 * first sample of a solver is 2, then 3, 4, ...; a critic calls below 3 incorrect, except
 * that its second sample lies; a reviser adds one to what is called incorrect, and takes
 * one off what is called correct when it is 3. */

static int number(const char *text)
{
    const char *at = strpbrk(text, "0123456789");

    return at ? at[0] - '0' : -1;
}

static const char *solver(const sr1_conversation *c, char *room, size_t size)
{
    snprintf(room, size, "%d", 2 + (int)c->sample);
    return room;
}

static const char *critic(const sr1_conversation *c, char *room, size_t size)
{
    const char *answer = strstr(c->contents[0], "<answer>");
    int right = number(answer) >= 3;

    if (c->sample == 1)
        right = !right;
    snprintf(room, size, "critique %d\nOverall judgment: %s", (int)c->sample,
             right ? "Correct" : "Incorrect");
    return room;
}

/* Its only sample of each answer tells the truth. */
static const char *honest(const sr1_conversation *c, char *room, size_t size)
{
    snprintf(room, size, "Overall judgment: %s",
             number(strstr(c->contents[0], "<answer>")) >= 3 ? "Correct" : "Incorrect");
    return room;
}

/* It has nothing to say of what is wrong. */
static const char *silent_or_honest(const sr1_conversation *c, char *room, size_t size)
{
    return number(strstr(c->contents[0], "<answer>")) >= 3 ? honest(c, room, size) : "";
}

static const char *kind(const sr1_conversation *c, char *room, size_t size)
{
    (void)c;
    snprintf(room, size, "Overall judgment: Correct");
    return room;
}

static const char *reviser(const sr1_conversation *c, char *room, size_t size)
{
    int n = number(c->contents[1]);
    int wrong = strstr(c->contents[2], "Incorrect") != NULL;

    snprintf(room, size, "%d", wrong ? n + 1 : n == 3 ? 2 : n);
    return room;
}

struct trade {
    struct script solver, critic, reviser;
    sr1_generator *writers[3];
    sr1_problems *problems;
    int runs, fail_at, stop_at;
    int32_t odd_verdict; /* of the first run, unless 0 */
    double odd_rate;
};

static sr1_status run(void *user, const sr1_problem *p, const char *answer, size_t len,
                      int32_t *verdict, double *pass_rate)
{
    struct trade *t = user;

    (void)p, (void)len;
    if (++t->runs == t->fail_at) {
        *verdict = SR1_RUN_INFRASTRUCTURE;
        return SR1_OK;
    }
    if (t->runs == 1 && t->odd_verdict) {
        *verdict = t->odd_verdict;
        *pass_rate = t->odd_rate;
        return SR1_OK;
    }
    *verdict = number(answer) >= 3 ? SR1_RUN_PASSED : SR1_RUN_WRONG;
    *pass_rate = number(answer) >= 3 ? 1.0 : number(answer) / 4.0;
    return SR1_OK;
}

static sr1_status progress(void *user, const char *phase, int64_t done, int64_t total)
{
    struct trade *t = user;

    assert_true(*phase && done <= total);
    return t->stop_at && t->runs >= t->stop_at ? sr1_set_error(SR1_E_CANCELLED, "stop")
                                               : SR1_OK;
}

static void trade_open(struct trade *t)
{
    *t = (struct trade){.solver = {.say = solver},
                        .critic = {.say = critic},
                        .reviser = {.say = reviser},
                        .problems = three_problems()};
    OK(script_open(&t->writers[0], &t->solver));
    OK(script_open(&t->writers[1], &t->critic));
    OK(script_open(&t->writers[2], &t->reviser));
}

static void trade_close(struct trade *t)
{
    for (size_t i = 0; i < 3; i++)
        sr1_generator_free(t->writers[i]);
    sr1_problems_free(t->problems);
}

static sr1_revision_tree_options options(struct trade *t, const char *path)
{
    return (sr1_revision_tree_options){.struct_size = sizeof(sr1_revision_tree_options),
                                       .problems = t->problems,
                                       .solver = t->writers[0],
                                       .critic = t->writers[1],
                                       .reviser = t->writers[2],
                                       .run = run,
                                       .progress = progress,
                                       .user = t,
                                       .path = path};
}

static void near(double a, double b)
{
    if (!(a - b < 1e-12 && b - a < 1e-12))
        fail_msg("%.15g is not %.15g", a, b);
}

/* Answers 2 3 4 of each of 3 problems. One revision by sample 0 of the critic, which
 * tells the truth: 2 -> 3, 3 -> 2, 4 -> 4. Another by sample 1, which lies: 2 -> 2, 3 ->
 * 4, 4 -> 5. */
static void scores_are_those_counted_by_hand(void **state)
{
    static const int32_t widths[] = {1, 3, 2};
    sr1_revision_tree_scores s = {.struct_size = sizeof s};
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;
    int64_t missing = -1;

    (void)state;
    trade_open(&t);
    o = options(&t, NULL);
    OK(sr1_revision_trees_open(&f, &o));
    assert_int_equal(sr1_revision_trees_count(f), 3);
    REFUSED(sr1_revision_trees_scores(f, 0, &s), SR1_E_NOT_FOUND, "0 times");
    OK(sr1_revision_trees_expand(f, widths, 3, &missing));
    assert_int_equal(missing, 0);
    assert_int_equal(sr1_revision_trees_count(f), 3 + 9 + 18);

    OK(sr1_revision_trees_scores(f, 0, &s));
    assert_int_equal(s.problems, 3);
    assert_int_equal(s.nodes, 9);
    near(s.pass_at_1, 2.0 / 3);
    near(s.pass_rate, (0.5 + 1 + 1) / 3);
    near(s.gained, 0);
    assert_int_equal(s.critiques, 0);

    OK(sr1_revision_trees_scores(f, 1, &s));
    assert_int_equal(s.nodes, 18);
    near(s.pass_at_1, 4.0 / 6); /* of 3 2 4 2 4 5 */
    near(s.gained, 1.0 / 6);    /* 2 -> 3 */
    near(s.lost, 1.0 / 6);      /* 3 -> 2 */
    assert_int_equal(s.critiques, 18);
    near(s.accuracy, 0.5);
    near(s.f1, 4.0 / 7); /* precision 2/3, recall 1/2 */
    sr1_revision_trees_free(f);
    trade_close(&t);
}

/* Of three critiques two tell the truth: they win. */
static void the_majority_of_several_critics_decides(void **state)
{
    static const int32_t widths[] = {1, 3, 1};
    sr1_revision_tree_scores s = {.struct_size = sizeof s};
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;

    (void)state;
    trade_open(&t);
    o = options(&t, NULL);
    o.votes = 3;
    OK(sr1_revision_trees_open(&f, &o));
    OK(sr1_revision_trees_expand(f, widths, 3, NULL));
    OK(sr1_revision_trees_scores(f, 1, &s));
    near(s.accuracy, 1.0);
    assert_int_equal(t.critic.asked, 3 * 9);
    assert_int_equal(t.reviser.asked, 9);
    for (size_t i = 3 + 9; i < sr1_revision_trees_count(f); i++) {
        sr1_revision_node n = {.struct_size = sizeof n};

        OK(sr1_revision_trees_node(f, i, &n));
        assert_int_equal(n.kind, SR1_NODE_REVISION);
        assert_int_equal(n.depth, 2);
        assert_int_not_equal(number(n.critique), 1); /* the liar was not drawn */
    }
    sr1_revision_trees_free(f);
    trade_close(&t);
}

static char *slurp(const char *path)
{
    struct sr1__buf b;
    char *text;

    OK(sr1__file_read(path, 0, &b));
    text = sr1__buf_take(&b);
    assert_non_null(text);
    return text;
}

/* Answers, then two layers of revisions, with a file. */
static void grow(struct trade *t, const char *path, int64_t *missing, sr1_status want)
{
    static const int32_t widths[] = {1, 30, 1, 1};
    sr1_revision_tree_options o = options(t, path);
    sr1_revision_trees *f = NULL;

    OK(sr1_revision_trees_open(&f, &o));
    assert_int_equal(sr1_revision_trees_expand(f, widths, 4, missing), want);
    sr1_revision_trees_free(f);
}

/* As a killed program may leave it: with a part of a line, or the line's end missing. */
static void tear(const char *path, int within)
{
    struct stat st;
    FILE *f;

    assert_int_equal(stat(path, &st), 0);
    if (!within) {
        assert_int_equal(truncate(path, st.st_size - 1), 0);
        return;
    }
    f = fopen(path, "a");
    assert_non_null(f);
    fputs("{\"task_id\": \"ad", f);
    assert_int_equal(fclose(f), 0);
}

static void a_stopped_tree_goes_on(void **state)
{
    char whole[512], parts[512], *a, *b;
    struct trade t;
    int64_t missing;

    (void)state;
    snprintf(whole, sizeof whole, "%s", scratch_path("whole.jsonl"));
    snprintf(parts, sizeof parts, "%s", scratch_path("parts.jsonl"));
    trade_open(&t);
    grow(&t, whole, &missing, SR1_OK);
    assert_int_equal(t.runs, 3 * 30 * 3);
    assert_int_equal(missing, 0);

    t.runs = 0;
    for (int stop = 1; stop <= 4; stop++) {
        t.stop_at = 60 * stop;
        grow(&t, parts, &missing, SR1_E_CANCELLED);
        tear(parts, stop % 2);
    }
    t.stop_at = 0;
    grow(&t, parts, &missing, SR1_OK);
    assert_int_equal(t.runs, 3 * 30 * 3); /* nothing was made twice */
    a = slurp(whole);
    b = slurp(parts);
    assert_string_equal(a, b);
    sr1__free(a);
    sr1__free(b);
    grow(&t, parts, &missing, SR1_OK);
    assert_int_equal(t.runs, 3 * 30 * 3); /* it was whole */
    trade_close(&t);
}

/* An answer that could not be run is no node; the next call tries again. */
static void an_outage_leaves_a_gap_that_is_filled_later(void **state)
{
    static const int32_t widths[] = {1, 3};
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;
    int64_t missing;

    (void)state;
    trade_open(&t);
    t.fail_at = 2;
    o = options(&t, NULL);
    OK(sr1_revision_trees_open(&f, &o));
    OK(sr1_revision_trees_expand(f, widths, 2, &missing));
    assert_int_equal(missing,
                     2); /* the second of the first problem, and the one behind */
    assert_int_equal(sr1_revision_trees_count(f), 3 + 9 - 2);
    OK(sr1_revision_trees_expand(f, widths, 2, &missing));
    assert_int_equal(missing, 0);
    assert_int_equal(sr1_revision_trees_count(f), 3 + 9);
    sr1_revision_trees_free(f);
    trade_close(&t);
}

static void pass_at_k_is_what_counting_gives(void **state)
{
    /* share of the k-subsets of n answers that hold one of the c that pass, counted by
     * itertools.combinations */
    static const struct {
        int64_t n, c, k;
        double want;
    } cases[] = {
        {5, 2, 1, 2.0 / 5}, {5, 2, 3, 9.0 / 10},     {5, 0, 2, 0.0 / 10},
        {5, 5, 5, 1.0 / 1}, {10, 3, 4, 175.0 / 210}, {7, 1, 7, 1.0 / 1},
        {4, 2, 3, 4.0 / 4},
    };
    double v;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(sr1_pass_at_k(cases[i].n, cases[i].c, cases[i].k, &v));
        near(v, cases[i].want);
    }
    OK(sr1_pass_at_k(INT64_MAX, 3037000500, 3037000500, &v)); /* 1 - 1 / e, soon */
    assert_true(fabs(v - 0.63212055882855767) < 1e-8);
    OK(sr1_pass_at_k(20000000000000, 3000000, 5000000, &v));
    assert_true(fabs(v - 0.5276335181139706) < 1e-8);
    OK(sr1_pass_at_k(INT64_MAX, INT64_MAX, 1, &v));
    near(v, 1.0);
    OK(sr1_pass_at_k(INT64_MAX, INT64_MAX / 2, INT64_MAX / 2, &v));
    near(v, 1.0);
    OK(sr1_pass_at_k(INT64_MAX, 2, 1, &v));
    near(v, 0.0);
    assert_int_equal(sr1_pass_at_k(5, 6, 1, &v), SR1_E_INVALID);
    assert_int_equal(sr1_pass_at_k(5, 2, 0, &v), SR1_E_INVALID);
    assert_int_equal(sr1_pass_at_k(5, 2, 6, &v), SR1_E_INVALID);
}

static void files_of_other_trees_are_refused(void **state)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"{\"hash\": \"x\", \"prev_hash\": \"y\"}", "no node before it"},
        {"{\"hash\": 3}", "hash"},
        {"[]", ""},
    };
    struct trade t;

    (void)state;
    trade_open(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        sr1_revision_tree_options o;
        sr1_revision_trees *f = NULL;

        snprintf(text, sizeof text, "%s\n", cases[i].line);
        o = options(&t, scratch_file("bad.jsonl", text, 0));
        assert_int_not_equal(sr1_revision_trees_open(&f, &o), SR1_OK);
        if (!strstr(sr1_last_error(), cases[i].says) ||
            !strstr(sr1_last_error(), "bad.jsonl:1"))
            fail_msg("case %zu: %s", i, sr1_last_error());
        assert_null(f);
    }
    trade_close(&t);
}

/* A file named by mistake is as it was, also where its last line has no end. */
static void files_that_are_no_trees_are_left_alone(void **state)
{
    static const char *const texts[] = {
        "{\"id\": 1, \"question\": \"?\"}\n{\"id\": 2, \"question\": \"?\"}",
        "{\"id\": 1, \"question\": \"?\"}", "{\"task_id\": 1}\n{\"task_id\": 2}",
        "\n\n  "};
    struct trade t;

    (void)state;
    trade_open(&t);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sr1_revision_tree_options o =
            options(&t, scratch_file("rows.jsonl", texts[i], 0));
        sr1_revision_trees *f = NULL;
        char *now;

        assert_int_not_equal(sr1_revision_trees_open(&f, &o), SR1_OK);
        assert_non_null(strstr(sr1_last_error(), "rows.jsonl"));
        now = slurp(o.path);
        assert_string_equal(now, texts[i]);
        sr1__free(now);
    }
    trade_close(&t);
}

/* Opens the file tree.jsonl, made by whom, over the problem of these rows. */
static sr1_status reopen(struct trade *t, const char *row, const char *made_by,
                         sr1_revision_trees **f)
{
    sr1_revision_tree_options o = options(t, scratch_path("maker.jsonl"));
    sr1_problems *p = NULL;
    sr1_status st;

    OK(sr1_problems_parse(&p, row, strlen(row), "rows", NULL));
    o.problems = p;
    o.made_by = made_by;
    st = sr1_revision_trees_open(f, &o);
    sr1_problems_free(p);
    return st;
}

/* Figures of one critic are not taken for those of another. */
static void a_tree_is_of_its_makers(void **state)
{
    static const int32_t widths[] = {1, 1, 1};
#define ROW(text, more, test)                                                            \
    "{\"id\": \"a\", \"problem\": \"" text "\", " more "\"tests\": [\"" test "\"]}"
    static const char row[] = ROW("Three?", "", "assert 3");
    static const char *const others[] = {
        ROW("Three?", "", "assert 4"), ROW("Four?", "", "assert 3"),
        ROW("Three?", "\"solution\": \"3\", ", "assert 3")};
#undef ROW
    struct trade t;
    sr1_revision_trees *f = NULL;

    (void)state;
    trade_open(&t);
    OK(reopen(&t, row, "critic A", &f));
    OK(sr1_revision_trees_expand(f, widths, 3, NULL));
    sr1_revision_trees_free(f);
    f = NULL;
    REFUSED(reopen(&t, row, "critic B", &f), SR1_E_STATE, "maker.jsonl:1: an answer to");
    for (size_t i = 0; i < 3; i++)
        REFUSED(reopen(&t, others[i], "critic A", &f), SR1_E_STATE, "the problem was");
    assert_null(f);
    OK(reopen(&t, row, "critic A", &f));
    assert_int_equal(sr1_revision_trees_count(f), 3);
    sr1_revision_trees_free(f);
    OK(reopen(&t, row, NULL, &f)); /* nobody asks */
    sr1_revision_trees_free(f);
    trade_close(&t);
}

static void widths_and_options_are_checked(void **state)
{
    static const int32_t two[] = {2, 1}, deep[] = {1, 1, 1}, negative[] = {1, -1};
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;

    (void)state;
    trade_open(&t);
    o = options(&t, NULL);
    o.run = NULL;
    REFUSED(sr1_revision_trees_open(&f, &o), SR1_E_INVALID, "run answers");
    o = options(&t, NULL);
    o.reviser = NULL;
    REFUSED(sr1_revision_trees_open(&f, &o), SR1_E_INVALID, "go together");
    o.critic = o.solver = NULL;
    OK(sr1_revision_trees_open(&f, &o));
    REFUSED(sr1_revision_trees_expand(f, two, 2, NULL), SR1_E_INVALID, "first width");
    REFUSED(sr1_revision_trees_expand(f, negative, 2, NULL), SR1_E_INVALID, "width -1");
    REFUSED(sr1_revision_trees_expand(f, deep, 3, NULL), SR1_E_INVALID, "critic");
    REFUSED(sr1_revision_trees_expand(f, deep, 2, NULL), SR1_E_INVALID, "'bare' has no");
    sr1_revision_trees_free(f);
    trade_close(&t);
}

/* What a function of the caller's says is looked at before it is kept. */
static void outcomes_of_the_caller_are_checked(void **state)
{
    static const int32_t widths[] = {1, 1};
    static const struct {
        int32_t verdict;
        double rate;
    } odd[] = {{99, 0},
               {-1, 0},
               {SR1_RUN_WRONG, 1.5},
               {SR1_RUN_WRONG, -1},
               {SR1_RUN_WRONG, NAN}};

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct trade t;
        sr1_revision_tree_options o;
        sr1_revision_trees *f = NULL;

        trade_open(&t);
        t.odd_verdict = odd[i].verdict;
        t.odd_rate = odd[i].rate;
        o = options(&t, NULL);
        OK(sr1_revision_trees_open(&f, &o));
        REFUSED(sr1_revision_trees_expand(f, widths, 2, NULL), SR1_E_CALLBACK, "'add'");
        assert_int_equal(sr1_revision_trees_count(f), 3);
        sr1_revision_trees_free(f);
        trade_close(&t);
    }
}

/* A file that could not be read again is refused before work is put into it. */
static void a_tree_has_a_file_of_json_lines(void **state)
{
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;

    (void)state;
    trade_open(&t);
    o = options(&t, scratch_path("tree.json"));
    REFUSED(sr1_revision_trees_open(&f, &o), SR1_E_INVALID, ".jsonl");
    o = options(&t, scratch_path("tree"));
    REFUSED(sr1_revision_trees_open(&f, &o), SR1_E_INVALID, ".jsonl");
    trade_close(&t);
}

/* No program is that long: the writer failed. */
static sr1_status long_write(void *self, const sr1_conversation *const *c, size_t n,
                             sr1_generator_sink *sink)
{
    static char text[(1 << 20) + 2];

    (void)self, (void)c;
    memset(text, '3', sizeof text);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_generator_sink_text(sink, i, text, i == 0 ? sizeof text : 1));
    return SR1_OK;
}

static void an_answer_that_is_too_long_is_missing(void **state)
{
    static const int32_t widths[] = {1, 1};
    sr1_generator_ops ops = {
        .struct_size = sizeof ops, .name = "long", .write = long_write};
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;
    sr1_generator *w = NULL;
    int64_t missing = 0;

    (void)state;
    trade_open(&t);
    OK(sr1_generator_new(&w, &ops, NULL));
    o = options(&t, scratch_path("long.jsonl"));
    o.solver = w;
    OK(sr1_revision_trees_open(&f, &o));
    OK(sr1_revision_trees_expand(f, widths, 2, &missing));
    assert_int_equal(missing, 1);
    assert_int_equal(sr1_revision_trees_count(f), 3 + 2);
    sr1_revision_trees_free(f);
    sr1_generator_free(w);
    trade_close(&t);
}

static sr1_status forest_once(void *arg)
{
    static const int32_t widths[] = {1, 2, 1};
    sr1_revision_tree_options o = options(arg, NULL);
    sr1_revision_trees *f = NULL;
    sr1_revision_tree_scores s = {.struct_size = sizeof s};
    sr1_status st = sr1_revision_trees_open(&f, &o);

    if (st == SR1_OK)
        st = sr1_revision_trees_expand(f, widths, 3, NULL);
    if (st == SR1_OK)
        st = sr1_revision_trees_scores(f, 1, &s);
    sr1_revision_trees_free(f);
    return st;
}

static void trees_survive_want_of_memory(void **state)
{
    struct trade t;

    (void)state;
    trade_open(&t);
    assert_true(torture(forest_once, &t) > 10);
    trade_close(&t);
}

/* ---- hints and demonstrations ---- */

/* Says what it was told; speaks of the hint about the second problem. */
static const char *told(const sr1_conversation *c, char *room, size_t size)
{
    const char *hint = strstr(c->contents[0], "<hint>\n");

    if (strstr(c->contents[0], "neg(a)"))
        return "As the hint says.\nOverall judgment: Correct";
    snprintf(room, size, "%.40s\nOverall judgment: %s", hint ? hint + 7 : "nothing",
             hint && strstr(hint, "is correct") ? "Correct" : "Incorrect");
    return room;
}

static size_t lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Answers 2 and 3 of each problem; the critic knows by the hint which of them passes. */
static sr1_revision_trees *hinted(struct trade *t)
{
    static const int32_t widths[] = {1, 2, 1};
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;

    trade_open(t);
    t->critic.say = told;
    o = options(t, NULL);
    o.hints = 1;
    OK(sr1_revision_trees_open(&f, &o));
    OK(sr1_revision_trees_expand(f, widths, 3, NULL));
    return f;
}

static void critics_that_are_told_judge_rightly(void **state)
{
    struct trade t;
    sr1_revision_trees *f = hinted(&t);
    sr1_revision_node n = {.struct_size = sizeof n};

    (void)state;
    OK(sr1_revision_trees_node(f, 3 + 6, &n)); /* of "add", the answer 2 */
    assert_non_null(strstr(n.critique, "The answer gives a wrong result."));
    OK(sr1_revision_trees_node(f, 3 + 6 + 1, &n));
    assert_non_null(strstr(n.critique, "The answer passes all tests"));
    sr1_revision_trees_free(f);
    trade_close(&t);
}

static void demonstrations_do_not_show_the_hint(void **state)
{
    static const struct {
        sr1_critique_demo_options o;
        int64_t written, unwanted;
    } cases[] = {
        /* of 3 problems with 2 critiques each, one problem's speak of the hint */
        {{.struct_size = sizeof cases[0].o}, 4, 0},
        {{.struct_size = sizeof cases[0].o, .one_per_problem = 1}, 2, 2},
        {{.struct_size = sizeof cases[0].o, .drop_failed = 1}, 2, 2}, /* 3 becomes 2 */
        {{.struct_size = sizeof cases[0].o, .drop_untrue = 1, .drop_unjudged = 1}, 4, 0},
    };
    struct trade t;
    sr1_revision_trees *f = hinted(&t);
    const char *path = scratch_path("demos.jsonl");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr1_critique_demo_report r = {.struct_size = sizeof r};
        char *text;

        OK(sr1_revision_trees_write_demos(f, path, &cases[i].o, &r));
        assert_int_equal(r.critiques, 6);
        assert_int_equal(r.mentioning, 2);
        assert_int_equal(r.written, cases[i].written);
        assert_int_equal(r.unwanted, cases[i].unwanted);
        text = slurp(path);
        assert_int_equal(lines(text), cases[i].written);
        assert_null(strstr(text, "<hint>"));
        assert_null(strstr(text, "the hint"));
        sr1__free(text);
    }
    sr1_revision_trees_free(f);
    trade_close(&t);
}

/* Trees of six critiques of each answer by a critic that says this. */
static void
grow_trees(sr1_revision_trees **out, struct trade *t, const sr1_revision_tree_options *o,
           const char *(*say)(const sr1_conversation *c, char *room, size_t size))
{
    static const int32_t widths[] = {1, 6, 1};

    t->critic.say = say;
    OK(sr1_revision_trees_open(out, o));
    OK(sr1_revision_trees_expand(*out, widths, 3, NULL));
}

static void empty_critiques_are_no_demonstrations(void **state)
{
    sr1_critique_demo_options d = {.struct_size = sizeof d};
    sr1_critique_demo_report r = {.struct_size = sizeof r};
    const char *path = scratch_path("silent.jsonl");
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;
    char *text;

    (void)state;
    trade_open(&t);
    o = options(&t, NULL);
    grow_trees(&f, &t, &o, silent_or_honest);
    OK(sr1_revision_trees_write_demos(f, path, &d, &r));
    assert_int_equal(r.critiques, 18);
    assert_int_equal(r.empty, 3);
    assert_int_equal(r.written, 15);
    text = slurp(path);
    assert_null(strstr(text, "\"assistant\",\"content\":\"\""));
    sr1__free(text);
    sr1_revision_trees_free(f);
    trade_close(&t);
}

/* Critiques that say the answer 2 is wrong and 3 to 7 are right: of the five as many stay
 * as there are of the others, and they lie evenly. */
static void judgements_can_be_balanced(void **state)
{
    sr1_critique_demo_options d = {.struct_size = sizeof d, .balance = 1};
    sr1_critique_demo_report r = {.struct_size = sizeof r};
    const char *path = scratch_path("balanced.jsonl");
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;
    char *text;

    (void)state;
    trade_open(&t);
    o = options(&t, NULL);
    grow_trees(&f, &t, &o, honest);
    OK(sr1_revision_trees_write_demos(f, path, &d, &r));
    assert_int_equal(r.critiques, 18);
    assert_int_equal(r.written, 6);
    assert_int_equal(r.surplus, 12);
    text = slurp(path);
    assert_int_equal(count_text(text, "\"judgement\":\"correct\""), 3);
    assert_int_equal(count_text(text, "\"judgement\":\"incorrect\""), 3);
    assert_int_equal(count_text(text, "\"task_id\":\"add\""),
                     2); /* of each problem both */
    assert_int_equal(count_text(text, "\"task_id\":\"bare\""), 2);
    sr1__free(text);
    d.drop_failed = 1; /* with 2 -> 3, and 3 -> 2: now 4 to 7, which all pass, and 2 */
    d.drop_untrue = 1;
    r.struct_size = sizeof r;
    OK(sr1_revision_trees_write_demos(f, path, &d, &r));
    assert_int_equal(r.written, 6);
    sr1_revision_trees_free(f);
    /* nothing to balance with: nothing is left, and the error says why */
    grow_trees(&f, &t, &o, kind);
    REFUSED(sr1_revision_trees_write_demos(f, path, &d, &r), SR1_E_NOT_FOUND,
            "have none of the other judgement");
    sr1_revision_trees_free(f);
    trade_close(&t);
}

static void rows_get_answers_and_prompts(void **state)
{
    struct trade t;
    sr1_revision_trees *f = hinted(&t);
    const char *from = scratch_file("rows.jsonl", rows, 0);
    const char *to = scratch_path("trained.jsonl");
    const char *two[] = {from, from};
    sr1_problems *p = NULL;
    int64_t n = 0;
    char *text;

    (void)state;
    OK(sr1_revision_trees_write_rows(f, &from, 1, to, &n));
    assert_int_equal(n, 3);
    OK(sr1_problems_load(&p, &to, 1, NULL)); /* problems again */
    assert_string_equal(sr1_problem_solution(sr1_problems_find(p, "bare")), "2");
    text = slurp(to);
    assert_non_null(strstr(text, "\"critique_prompt\":"));
    assert_non_null(strstr(text, "<answer>\\n2\\n</answer>"));
    sr1__free(text);
    sr1_problems_free(p);
    REFUSED(sr1_revision_trees_write_rows(f, two, 2, to, &n), SR1_E_INVALID,
            "6 in the files");
    REFUSED(sr1_revision_trees_write_rows(f, &from, 1, from, &n), SR1_E_INVALID,
            "same file");
    sr1_revision_trees_free(f);
    trade_close(&t);
}

/* Rows without tests have no problem, and the others keep their own rows. */
static void rows_without_tests_are_passed_over(void **state)
{
    static const char apps[] =
        "{\"id\": 1, \"question\": \"no tests\", \"input_output\": \"\"}\n"
        "{\"id\": 2, \"question\": \"echo\", \"input_output\": {\"inputs\": [\"1\"], "
        "\"outputs\": [\"1\"]}}\n";
    const char *from = scratch_file("apps.jsonl", apps, 0);
    const char *to = scratch_path("apps-rows.jsonl");
    const int32_t widths[] = {1, 1};
    sr1_problems *p = NULL;
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;
    int64_t n = 0;
    char *text;

    (void)state;
    trade_open(&t);
    OK(sr1_problems_load(&p, &from, 1, NULL));
    o = options(&t, NULL);
    o.problems = p;
    OK(sr1_revision_trees_open(&f, &o));
    OK(sr1_revision_trees_expand(f, widths, 2, NULL));
    OK(sr1_revision_trees_write_rows(f, &from, 1, to, &n));
    assert_int_equal(n, 1);
    text = slurp(to);
    assert_non_null(strstr(text, "\"question\":\"echo\""));
    sr1__free(text);
    sr1_revision_trees_free(f);
    sr1_problems_free(p);
    trade_close(&t);
}

static void nodes_are_not_written_over(void **state)
{
    const char *path = scratch_path("own.jsonl"), *other = scratch_path("own-link.jsonl");
    const char *from = scratch_file("rows.jsonl", rows, 0);
    const int32_t widths[] = {1, 2};
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;
    char *before, *after;

    (void)state;
    trade_open(&t);
    o = options(&t, path);
    OK(sr1_revision_trees_open(&f, &o));
    OK(sr1_revision_trees_expand(f, widths, 2, NULL));
    before = slurp(path);
    assert_int_equal(link(path, other), 0);
    REFUSED(sr1_revision_trees_write_demos(f, path, NULL, NULL), SR1_E_INVALID,
            "same file");
    REFUSED(sr1_revision_trees_write_demos(f, other, NULL, NULL), SR1_E_INVALID,
            "same file");
    REFUSED(sr1_revision_trees_write_rows(f, &from, 1, path, NULL), SR1_E_INVALID,
            "same file");
    after = slurp(path);
    assert_string_equal(after, before);
    sr1__free(before);
    sr1__free(after);
    sr1_revision_trees_free(f);
    trade_close(&t);
}

static sr1_status demos_once(void *arg)
{
    sr1_revision_trees *f = arg;
    sr1_status st =
        sr1_revision_trees_write_demos(f, scratch_path("once.jsonl"), NULL, NULL);

    if (st == SR1_OK) {
        const char *from = scratch_path("rows.jsonl");

        st =
            sr1_revision_trees_write_rows(f, &from, 1, scratch_path("twice.jsonl"), NULL);
    }
    return st;
}

static void demonstrations_survive_want_of_memory(void **state)
{
    struct trade t;
    sr1_revision_trees *f = hinted(&t);

    (void)state;
    (void)scratch_file("rows.jsonl", rows, 0);
    assert_true(torture(demos_once, f) > 10);
    sr1_revision_trees_free(f);
    trade_close(&t);
}

/* More nodes than the table of hashes has room for at first. */
static void many_nodes_are_read_back(void **state)
{
    const char *path = scratch_path("many.jsonl");
    const int32_t widths[] = {1, 100};
    struct trade t;
    sr1_revision_tree_options o;
    sr1_revision_trees *f = NULL;

    (void)state;
    trade_open(&t);
    o = options(&t, path);
    OK(sr1_revision_trees_open(&f, &o));
    OK(sr1_revision_trees_expand(f, widths, 2, NULL));
    sr1_revision_trees_free(f);
    OK(sr1_revision_trees_open(&f, &o));
    assert_int_equal(sr1_revision_trees_count(f), 303);
    sr1_revision_trees_free(f);
    trade_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_nodes_are_read_back),
        cmocka_unit_test(scores_are_those_counted_by_hand),
        cmocka_unit_test(the_majority_of_several_critics_decides),
        cmocka_unit_test(a_stopped_tree_goes_on),
        cmocka_unit_test(an_outage_leaves_a_gap_that_is_filled_later),
        cmocka_unit_test(pass_at_k_is_what_counting_gives),
        cmocka_unit_test(files_of_other_trees_are_refused),
        cmocka_unit_test(files_that_are_no_trees_are_left_alone),
        cmocka_unit_test(a_tree_is_of_its_makers),
        cmocka_unit_test(widths_and_options_are_checked),
        cmocka_unit_test(outcomes_of_the_caller_are_checked),
        cmocka_unit_test(a_tree_has_a_file_of_json_lines),
        cmocka_unit_test(an_answer_that_is_too_long_is_missing),
        cmocka_unit_test(trees_survive_want_of_memory),
        cmocka_unit_test(critics_that_are_told_judge_rightly),
        cmocka_unit_test(demonstrations_do_not_show_the_hint),
        cmocka_unit_test(empty_critiques_are_no_demonstrations),
        cmocka_unit_test(judgements_can_be_balanced),
        cmocka_unit_test(rows_get_answers_and_prompts),
        cmocka_unit_test(rows_without_tests_are_passed_over),
        cmocka_unit_test(nodes_are_not_written_over),
        cmocka_unit_test(demonstrations_survive_want_of_memory),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
