/* The reward judge: prompts, replies, votes, cache, budget and outages, against a server
 * of the tests. The replies of tests/fixtures/judge are written in the forms that models
 * give them; no model was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "responses.h"
#include "signal/reward/judge_text.h"
#include "support/files.h"
#include "support/http_server.h"
#include "support/torture.h"

#include <searchr1/ext/judge.h>
#include <searchr1/ext/reward_set.h>

#include <math.h>

/* ---- recorded answers, and a server that replies as they say ---- */

#define ROWS_MAX 32

struct recorded {
    json_t *rows[ROWS_MAX];
    size_t n;
    int fail_code;              /* 0: none */
    const char *const *replies; /* in place of the rows', in turn; NULL: none */
    size_t n_replies;
    const char *finish; /* NULL: stop */
    int completions;
    char kept[64][1024]; /* bodies, which must outlive the reply */
};

static struct recorded rec;

static int read_rows(void **state)
{
    const char *src = getenv("SR1_SRC");
    struct sr1__buf b;
    char path[512];
    char *line, *rest = NULL;

    snprintf(path, sizeof path, "%s/tests/fixtures/judge/replies.jsonl", src ? src : ".");
    if (scratch_make(state) != 0 || sr1__file_read(path, 0, &b) != SR1_OK)
        return -1;
    for (line = strtok_r(b.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (sr1__json_parse(&rec.rows[rec.n++], line, strlen(line), path) != SR1_OK)
            return -1;
    sr1__buf_free(&b);
    return 0;
}

static int free_rows(void **state)
{
    for (size_t i = 0; i < rec.n; i++)
        json_decref(rec.rows[i]);
    return scratch_remove(state);
}

static const char *text_of(size_t row, const char *key)
{
    return json_string_value(json_object_get(rec.rows[row], key));
}

/* The recorded reply to the question and answer of a prompt. */
static const char *find_reply(const char *prompt)
{
    for (size_t i = 0; i < rec.n; i++) {
        char answer[200];

        snprintf(answer, sizeof answer, "<answer>\n%s\n</answer>", text_of(i, "answer"));
        if (strstr(prompt, text_of(i, "question")) && strstr(prompt, answer))
            return text_of(i, "reply");
    }
    return "no such row";
}

static void answer_completion(const char *request, struct reply *r)
{
    json_t *body = NULL, *said;
    const char *text = request_body(request), *reply;
    char *out = rec.kept[rec.completions % 64];

    assert_int_equal(sr1__json_parse(&body, text, strlen(text), "request"), SR1_OK);
    text = json_string_value(
        json_object_get(json_array_get(json_object_get(body, "messages"), 0), "content"));
    reply = rec.replies ? rec.replies[(size_t)rec.completions % rec.n_replies]
                        : find_reply(text);
    rec.completions++;
    said = json_pack("{s:[{s:i, s:s, s:{s:s, s:s}}], s:{s:i, s:i}}", "choices", "index",
                     0, "finish_reason", rec.finish ? rec.finish : "stop", "message",
                     "role", "assistant", "content", reply, "usage", "prompt_tokens", 100,
                     "completion_tokens", 20);
    (void)json_dumpb(said, memset(out, 0, 1024), 1023, 0);
    json_decref(said);
    json_decref(body);
    r->body = out;
}

static void serve(void *user, int nth, const char *request, struct reply *r)
{
    (void)user;
    (void)nth;
    if (strncmp(request, "GET ", 4) == 0)
        r->body = "{\"object\":\"list\",\"data\":[{\"id\":\"judge-1\"}]}";
    else if (rec.fail_code)
        r->code = rec.fail_code, r->body = "{\"error\":{\"message\":\"no judge today\"}}";
    else
        answer_completion(request, r);
}

static sr1_judge_options quick(const struct server *s)
{
    static char url[96];
    sr1_judge_options o;

    sr1_judge_options_init(&o);
    snprintf(url, sizeof url, "%s/v1", s->url);
    o.base_url = url;
    o.retries = 0;
    o.timeout_s = 20;
    return o;
}

static void begin(struct server *s)
{
    rec.fail_code = rec.completions = 0;
    rec.replies = NULL;
    rec.finish = NULL;
    server_start(s, serve, NULL);
}

/* With a server that says these replies, in turn, whatever it is asked. */
static void begin_with(struct server *s, const char *const *replies, size_t n)
{
    begin(s);
    rec.replies = replies;
    rec.n_replies = n;
}

static sr1_judge *open_judge(const sr1_judge_options *o)
{
    sr1_judge *j = NULL;

    if (sr1_judge_open(&j, o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return j;
}

/* What the judge makes of one answer. */
static double score_one(sr1_judge *j)
{
    const sr1_judge_item item = {sizeof(item), "q", "a", NULL, 0};
    double score = 0;

    assert_int_equal(sr1_judge_score(j, &item, 1, &score), SR1_OK);
    return score;
}

static size_t fill_items(sr1_judge_item *items, const char *truths[][4])
{
    for (size_t i = 0; i < rec.n; i++) {
        const json_t *list = json_object_get(rec.rows[i], "golden_answers");

        for (size_t k = 0; k < json_array_size(list); k++)
            truths[i][k] = json_string_value(json_array_get(list, k));
        items[i] =
            (sr1_judge_item){sizeof(items[i]), text_of(i, "question"),
                             text_of(i, "answer"), truths[i], json_array_size(list)};
    }
    return rec.n;
}

/* ---- texts ---- */

static void the_last_score_counts(void **state)
{
    static const struct {
        const char *reply;
        double score; /* NAN: none */
    } cases[] = {
        {"Score: 1", 1},
        {"score:0", 0},
        {"It is right.\n\n**Score:** 1", 1},
        {"Score: **0.5**", 0.5},
        {"Final Score: [7/10]", 7},
        {"Score: 1. No, it is wrong. Score: 0.", 0},
        {"Score: -2", -2},
        {"score: 3.25\n", 3.25},
        {"Score:", NAN},
        {"Score: high", NAN},
        {"Score: 1.2.3", NAN},
        {"**Score**: 7.", 7},
        {"Score : _7_ / 10 points", 7},
        {"Score\xef\xbc\x9a 7", 7},
        {"Score: 7 out of 10, as it is right", 7},
        {"Score: 7, 8 would be too much", 7},
        {"Score: 7/100", NAN},
        {"Score: 7 out of 5", NAN},
        {"Score: 0,5", NAN},
        {"Score: 1e-3", NAN},
        {"Score: 0x1", NAN},
        {"Score: 50%", NAN},
        {"scored 1", NAN},
        {"", NAN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double score = sr1__judge_reply_score(cases[i].reply, strlen(cases[i].reply), 10);

        if (isnan(cases[i].score) ? !isnan(score) : score != cases[i].score)
            fail_msg("'%s' is %g", cases[i].reply, score);
    }
}

static void votes_are_counted(void **state)
{
    double five[] = {1, 0, 1, 0.5, 1}, tie[] = {1, 0, 0, 1}, one[] = {0.25};

    (void)state;
    assert_true(fabs(sr1__judge_vote(five, 5, SR1_JUDGE_MEAN) - 0.7) < 1e-12);
    assert_true(sr1__judge_vote(five, 5, SR1_JUDGE_MAJORITY) == 1);
    assert_true(sr1__judge_vote(tie, 4, SR1_JUDGE_MAJORITY) == 0);
    assert_true(sr1__judge_vote(one, 1, SR1_JUDGE_MAJORITY) == 0.25);
}

static void texts_stand_in_their_places(void **state)
{
    const char *truths[] = {"one", "{{answer}}"};
    sr1_judge_item item = {sizeof(item), "q {{answer}}", "a {{question}}", truths, 2};
    struct sr1__buf b;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__judge_prompt_write(&b, "Q {{question}} A {{answer}} T {{ground_truths}}.",
                            &item);
    assert_string_equal(b.data, "Q q {{answer}} A a {{question}} T - one\n- {{answer}}.");
    sr1__buf_free(&b);
    assert_int_equal(sr1__judge_prompt_check(sr1__judge_prompt), SR1_OK);
    assert_int_equal(sr1__judge_prompt_check("{{question}}"), SR1_E_CONFIG);
    assert_int_equal(sr1__judge_prompt_check("{{answer}} {{reference}}"), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "{{reference}}"));
}

/* ---- scores ---- */

/* Where the exact match says right the judge does, too, and where they differ the judge
 * saw that other words mean the same. */
static void agrees_with_exact_match(void **state)
{
    sr1_judge_item items[ROWS_MAX];
    const char *truths[ROWS_MAX][4];
    double scores[ROWS_MAX];
    struct server s;
    sr1_judge_options o;
    sr1_judge *j;
    size_t n = fill_items(items, truths), agree = 0, exact = 0;

    (void)state;
    begin(&s);
    o = quick(&s);
    j = open_judge(&o);
    assert_int_equal(sr1_judge_score(j, items, n, scores), SR1_OK);
    for (size_t i = 0; i < n; i++) {
        double em;

        assert_int_equal(sr1_reward_exact_match(items[i].answer, strlen(items[i].answer),
                                                truths[i], items[i].n_truths, &em),
                         SR1_OK);
        agree += scores[i] == em;
        exact += em == 1;
        if (em == 1)
            assert_true(scores[i] == 1);
        if (scores[i] != em)
            assert_true(strcmp(items[i].answer, "Shakespeare") == 0 ||
                        strcmp(items[i].answer, "324 m") == 0);
    }
    assert_int_equal(n, 12);
    assert_int_equal(exact, 5);
    assert_int_equal(agree, 10);
    sr1_judge_free(j);
    server_stop(&s);
}

static void equal_answers_are_asked_once(void **state)
{
    sr1_judge_item items[ROWS_MAX];
    const char *truths[ROWS_MAX][4];
    double scores[3];
    sr1_judge_counters c = {sizeof(c)};
    struct server s;
    sr1_judge_options o;
    sr1_judge *j;

    (void)state;
    fill_items(items, truths);
    items[2] = items[0];
    begin(&s);
    o = quick(&s);
    o.cache_dir = scratch_path("judged");
    for (int k = 0; k < 2; k++) { /* the second finds them on the disk */
        j = open_judge(&o);
        assert_int_equal(sr1_judge_score(j, items, 3, scores), SR1_OK);
        assert_true(scores[0] == 1 && scores[1] == 1 && scores[2] == 1);
        assert_int_equal(sr1_judge_counters_get(j, &c), SR1_OK);
        assert_int_equal(c.items, 3);
        assert_int_equal(c.requests, k == 0 ? 2 : 0);
        assert_int_equal(c.cached, k == 0 ? 0 : 2);
        assert_int_equal(c.tokens, k == 0 ? 240 : 0);
        sr1_judge_free(j);
    }
    o.prompt = "Is {{answer}} right? {{question}} <answer>\n{{answer}}\n</answer>";
    j = open_judge(&o);
    assert_int_equal(sr1_judge_score(j, items, 1, scores), SR1_OK);
    assert_int_equal(rec.completions, 3); /* another rubric is another judgement */
    sr1_judge_free(j);
    server_stop(&s);
}

static void several_replies_are_one_score(void **state)
{
    static const char *const replies[] = {"Score: 10", "Score: 4", "I cannot say."};
    sr1_judge_counters c = {sizeof(c)};
    struct server s;
    sr1_judge_options o;
    sr1_judge *j;

    (void)state;
    begin_with(&s, replies, 3);
    o = quick(&s);
    o.samples = 3;
    o.max_score = 10;
    o.concurrency = 1;
    o.temperature = 0.7;
    j = open_judge(&o);
    assert_true(fabs(score_one(j) - 0.7) < 1e-12); /* of the two that have one */
    assert_int_equal(sr1_judge_counters_get(j, &c), SR1_OK);
    assert_int_equal(c.requests, 3);
    assert_int_equal(c.unreadable, 1);
    assert_int_equal(c.unknown, 0);
    assert_non_null(strstr(s.last, "\"seed\":"));
    sr1_judge_free(j);
    o.vote = SR1_JUDGE_MAJORITY;
    j = open_judge(&o);
    assert_true(fabs(score_one(j) - 0.4) < 1e-12);
    sr1_judge_free(j);
    server_stop(&s);
}

static void a_score_out_of_range_is_none(void **state)
{
    static const char *const replies[] = {"Score: 2", "Score: -1", "Score: nan"};
    struct server s;
    sr1_judge_options o;
    sr1_judge *j;

    (void)state;
    begin_with(&s, replies, 3);
    o = quick(&s);
    j = open_judge(&o);
    for (int i = 0; i < 3; i++)
        assert_true(isnan(score_one(j)));
    sr1_judge_free(j);
    server_stop(&s);
}

/* A judge that thinks aloud repeats the rubric before it comes to its score. */
static void a_reply_that_is_cut_off_is_none(void **state)
{
    static const char *const replies[] = {
        "The task: end with \"Score: 1\" if it is right, else \"Score: 0\". Let me"};
    sr1_judge_counters c = {sizeof(c)};
    struct server s;
    sr1_judge_options o;
    sr1_judge *j;

    (void)state;
    begin_with(&s, replies, 1);
    rec.finish = "length";
    o = quick(&s);
    o.cache_dir = scratch_path("judged-cut");
    j = open_judge(&o);
    for (int i = 0; i < 2; i++)
        assert_true(isnan(score_one(j)));
    assert_int_equal(sr1_judge_counters_get(j, &c), SR1_OK);
    assert_int_equal(c.unreadable, 2); /* nothing was kept */
    sr1_judge_free(j);
    server_stop(&s);
}

/* What is kept is the reply's number, not what an older max_score made of it. */
static void a_kept_score_follows_max_score(void **state)
{
    static const char *const replies[] = {"Score: 1"};
    static const double scores[] = {1, 0.1, 1};
    struct server s;
    sr1_judge_options o;

    (void)state;
    begin_with(&s, replies, 1);
    o = quick(&s);
    o.cache_dir = scratch_path("judged-max");
    for (int i = 0; i < 3; i++) {
        sr1_judge *j;

        o.max_score = i == 1 ? 10 : 1;
        j = open_judge(&o);
        assert_true(score_one(j) == scores[i]);
        sr1_judge_free(j);
    }
    assert_int_equal(rec.completions, 1);
    server_stop(&s);
}

/* In milliseconds, as others' answers in the folder: the oldest go first. */
static void a_kept_score_has_the_time_of_others(void **state)
{
    static const char *const replies[] = {"Score: 1"};
    int64_t now = (int64_t)time(NULL) * 1000, at = 0;
    struct sr1__buf kept;
    sr1_judge_options o;
    struct server s;
    sr1_judge *j;

    (void)state;
    begin_with(&s, replies, 1);
    o = quick(&s);
    o.cache_dir = scratch_path("judged-at");
    j = open_judge(&o);
    assert_true(score_one(j) == 1);
    sr1_judge_free(j);
    server_stop(&s);
    sr1__buf_init(&kept, 0);
    assert_int_equal(sr1__file_read(scratch_path("judged-at/answers"), 1000, &kept),
                     SR1_OK);
    memcpy(&at, kept.data + 16, sizeof at); /* behind magic, length and hash */
    assert_in_range(at, now - 1000, now + 600000);
    sr1__buf_free(&kept);
}

static void a_budget_is_kept(void **state)
{
    sr1_judge_item items[ROWS_MAX];
    const char *truths[ROWS_MAX][4];
    double scores[ROWS_MAX] = {-1};
    struct server s;
    sr1_judge_options o;
    sr1_judge *j;

    (void)state;
    fill_items(items, truths);
    begin(&s);
    o = quick(&s);
    o.max_requests = 3;
    j = open_judge(&o);
    assert_int_equal(sr1_judge_score(j, items, 4, scores), SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "judge_max_requests"));
    assert_int_equal(rec.completions, 0);
    assert_true(scores[0] == -1);
    assert_int_equal(sr1_judge_score(j, items, 3, scores), SR1_OK);
    assert_int_equal(sr1_judge_score(j, items + 3, 1, scores), SR1_E_LIMIT);
    assert_int_equal(rec.completions, 3);
    sr1_judge_free(j);
    o.max_requests = 0;
    o.max_total_tokens = 200;
    j = open_judge(&o);
    assert_int_equal(sr1_judge_score(j, items, 2, scores), SR1_OK); /* 240 tokens */
    assert_int_equal(sr1_judge_score(j, items + 2, 1, scores), SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "judge_max_total_tokens"));
    sr1_judge_free(j);
    server_stop(&s);
}

static void an_outage_is_no_score(void **state)
{
    struct response right = {{"<answer>Paris</answer>"}, "Paris", {"Paris"}};
    struct response none = {{"I do not know."}, NULL, {"Paris"}};
    sr1_trajectory *t[2] = {NULL};
    sr1_reward_options r;
    sr1_reward_set *set = NULL;
    double totals[2];
    struct server s;
    sr1_judge_options o;

    (void)state;
    begin(&s);
    o = quick(&s);
    sr1_reward_options_init(&r);
    r.rewards = "judge";
    assert_int_equal(sr1_reward_set_new(&set, &r), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "judge_base_url"));
    r.judge = open_judge(&o);
    assert_int_equal(sr1_reward_set_new(&set, &r), SR1_OK);
    sr1_judge_free(r.judge); /* the set has its own */
    assert_int_equal(make_opened(&right, 0, &t[0]), SR1_OK);
    assert_int_equal(make_opened(&none, 0, &t[1]), SR1_OK);
    rec.fail_code = 503;
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 2, NULL, totals),
        SR1_OK);
    assert_true(isnan(totals[0]) &&
                totals[1] == 0); /* without an answer nothing is asked */
    assert_int_equal(sr1_reward_set_apply(set, t, 1), SR1_OK);
    assert_int_equal(sr1_trajectory_stop_reason(t[0]), SR1_STOP_UNSCORED);
    assert_int_equal(sr1_trajectory_has_reward(t[0]), 0);
    rec.fail_code = 401;
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 2, NULL, totals),
        SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "judge_api_key_env"));
    rec.fail_code = 0;
    rec.replies = (const char *const[]){"Score: 1"};
    rec.n_replies = 1;
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 2, NULL, totals),
        SR1_OK);
    assert_true(totals[0] == 1 && totals[1] == 0);
    assert_non_null(strstr(s.last, "Paris"));
    for (int i = 0; i < 2; i++)
        sr1_trajectory_free(t[i]);
    sr1_reward_set_free(set);
    server_stop(&s);
}

static void options_are_checked(void **state)
{
    struct server s;
    sr1_judge_options o;
    sr1_judge *j = NULL;

    (void)state;
    begin(&s);
    sr1_judge_options_init(&o);
    assert_int_equal(sr1_judge_open(&j, &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "judge_base_url"));
    o = quick(&s);
    o.samples = 3;
    assert_int_equal(sr1_judge_open(&j, &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "judge_temperature"));
    o = quick(&s);
    o.max_score = 0;
    assert_int_equal(sr1_judge_open(&j, &o), SR1_E_INVALID);
    o = quick(&s);
    o.prompt = "no place";
    assert_int_equal(sr1_judge_open(&j, &o), SR1_E_CONFIG);
    o = quick(&s);
    o.key_env = "SR1_TEST_KEY";
    setenv("SR1_TEST_KEY", "j-key", 1);
    j = open_judge(&o);
    assert_non_null(strstr(s.last, "Authorization: Bearer j-key"));
    sr1_judge_free(j);
    unsetenv("SR1_TEST_KEY");
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_score_counts),
        cmocka_unit_test(votes_are_counted),
        cmocka_unit_test(texts_stand_in_their_places),
        cmocka_unit_test(agrees_with_exact_match),
        cmocka_unit_test(equal_answers_are_asked_once),
        cmocka_unit_test(several_replies_are_one_score),
        cmocka_unit_test(a_score_out_of_range_is_none),
        cmocka_unit_test(a_reply_that_is_cut_off_is_none),
        cmocka_unit_test(a_kept_score_follows_max_score),
        cmocka_unit_test(a_kept_score_has_the_time_of_others),
        cmocka_unit_test(a_budget_is_kept),
        cmocka_unit_test(an_outage_is_no_score),
        cmocka_unit_test(options_are_checked),
    };

    return cmocka_run_group_tests(tests, read_rows, free_rows);
}
