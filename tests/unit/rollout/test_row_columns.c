/* The row of a question goes with its trajectories, whatever generates and answers them,
 * and to the environment's episodes. */
#include "support/openai_server.h"
#include "support/tiny.h"

#include <searchr1/ext/episodes.h>

#define ROW "{\"level\": 3, \"tags\": [\"a\"], \"hex\": {\"hex\": \"ff\"}}"

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    return 0;
}

static sr1_query ask(const char *text, const char *row)
{
    sr1_query q = tiny_query(text);

    q.row = row;
    q.row_len = strlen(row);
    return q;
}

/* Two questions, the second without a row; samples of a group share one text. */
static void rows_come_with(sr1_rollout *r)
{
    sr1_query q[2] = {ask("Where is the tower?", ROW), tiny_query("Where?")};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 3, .seed = 5};
    sr1_trajectory *t[6] = {0};
    const char *first;
    size_t len;

    OK(sr1_rollout_generate(r, q, 2, &o, t));
    first = sr1_trajectory_row_json(t[0], &len);
    assert_string_equal(first, ROW);
    assert_int_equal(len, strlen(ROW));
    assert_ptr_equal(sr1_trajectory_row_json(t[1], NULL), first);
    sr1_trajectory_free(t[0]);
    assert_string_equal(sr1_trajectory_row_json(t[2], NULL), ROW);
    for (size_t i = 3; i < 6; i++)
        assert_string_equal(sr1_trajectory_row_json(t[i], NULL), "");
    tiny_free_all(t + 1, 5);
    sr1_rollout_free(r);
}

static void every_environment_keeps_rows(void **state)
{
    static const char *const words[] = {"environment=search", "environment=none",
                                        "environment=tools", "workers=2", "max_rows=1"};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        rows_come_with(
            tiny_rollout(tiny_config("searcher", words[i], NULL), tiny_engine()));
}

static void a_server_keeps_rows(void **state)
{
    struct openai_server server = {0};
    sr1_config *c = tiny_config("searcher", NULL);

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    openai_use(&server, c);
    rows_come_with(tiny_rollout(c, tiny_engine()));
    openai_stop(&server);
}

/* A question that asks nothing has its row too. */
static void an_empty_question_keeps_its_row(void **state)
{
    sr1_rollout *r = tiny_rollout(tiny_config("searcher", NULL), tiny_engine());
    sr1_query q = ask(" ", ROW);
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1};
    sr1_trajectory *t = NULL;

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    assert_string_equal(sr1_trajectory_row_json(t, NULL), ROW);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

/* ---- episodes ---- */

static char begun[3][64];

static sr1_status begin(void *self, const sr1_env_episode *e)
{
    (void)self;
    assert_int_equal(strlen(e->row), e->row_len);
    snprintf(begun[e->episode % 3], sizeof begun[0], "%s", e->row);
    return SR1_OK;
}

static void finish(void *self, int64_t episode)
{
    (void)self;
    (void)episode;
}

static sr1_status act(void *self, const sr1_env_action *const *a, size_t n,
                      sr1_env_sink *sink)
{
    (void)self;
    (void)a;
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_env_sink_text(sink, i, "so", 2));
    return SR1_OK;
}

static void an_episode_sees_the_row(void **state)
{
    sr1_env_ops ops = {.struct_size = sizeof ops,
                       .name = "seer",
                       .act = act,
                       .begin = begin,
                       .finish = finish};
    sr1_env_options eo = {.struct_size = sizeof eo, .document_format = "plain"};
    sr1_rollout *r = tiny_rollout(tiny_config("searcher", NULL), tiny_engine());
    sr1_query q[2] = {ask("Where?", ROW), tiny_query("When?")};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1};
    sr1_trajectory *t[2] = {0};
    sr1_env *env = NULL;
    int64_t episode;

    (void)state;
    OK(sr1_env_new(&env, &ops, NULL, &eo));
    OK(sr1_rollout_set_env(r, env));
    OK(sr1_rollout_generate(r, q, 2, &o, t));
    assert_string_equal(begun[1], ROW);
    assert_string_equal(begun[2], "");
    OK(sr1_env_begin(env, "x", "Why?", 4, 1, &episode));
    assert_string_equal(begun[0], ""); /* outside of rollouts there is none */
    sr1_env_finish(env, episode);
    tiny_free_all(t, 2);
    sr1_env_free(env);
    sr1_rollout_free(r);
}

/* A gap that Python's json wrote is null, as in rows of files. */
static void a_rows_gap_is_null(void **state)
{
    sr1_rollout *r = tiny_rollout(tiny_config("searcher", NULL), tiny_engine());
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1};
    sr1_query q = ask("When?", "{\"a\": NaN}");
    sr1_trajectory *t = NULL;

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    assert_string_equal(sr1_trajectory_row_json(t, NULL), "{\"a\": null}");
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

/* ---- refused ---- */

static void wrong_rows_are_refused(void **state)
{
    static const struct {
        const char *row;
        const char *says;
    } rows[] = {{"[1]", "query 1: row: is not a JSON object"},
                {"{\"a\": nan}", "query 1: row"},
                {"{", "query 1: row"}};
    sr1_rollout *r = tiny_rollout(tiny_config("searcher", NULL), tiny_engine());
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1};
    sr1_trajectory *t[2] = {0};
    sr1_query q[2] = {tiny_query("Where?"), tiny_query("When?")};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        q[1] = ask("When?", rows[i].row);
        REFUSED(sr1_rollout_generate(r, q, 2, &o, t), SR1_E_PARSE, rows[i].says);
    }
    q[1].row = NULL;
    REFUSED(sr1_rollout_generate(r, q, 2, &o, t), SR1_E_INVALID, "query 1: row");
    assert_null(t[0]);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_environment_keeps_rows),
        cmocka_unit_test(a_server_keeps_rows),
        cmocka_unit_test(an_empty_question_keeps_its_row),
        cmocka_unit_test(a_rows_gap_is_null),
        cmocka_unit_test(an_episode_sees_the_row),
        cmocka_unit_test(wrong_rows_are_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
