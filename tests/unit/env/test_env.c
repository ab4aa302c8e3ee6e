/* Environments: what is inserted for an action, by format, engine and kind of failure. */
#include "base/mem.h"
#include "base/utf8.h"
#include "environment/env/env.h"
#include "environment/env/sink.h"

#include <searchr1/ext/episodes.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- an engine that does what its queries say ---- */

struct engine {
    int calls;
    size_t queries; /* of the last call */
    int destroyed;
};

static sr1_status engine_search(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct engine *e = self;
    size_t i;

    e->calls++;
    e->queries = n;
    for (i = 0; i < n; i++) {
        sr1_status status = SR1_OK;

        if (strcmp(queries[i], "slow") == 0)
            status = sr1_search_sink_status(sink, i, SR1_ACTION_TIMEOUT, "too slow");
        else if (strcmp(queries[i], "broken") == 0)
            status = sr1_search_sink_status(sink, i, SR1_ACTION_ERROR, "broken");
        else if (strcmp(queries[i], "fatal") == 0)
            return sr1_set_error(SR1_E_NETWORK, "the engine is gone");
        else if (strcmp(queries[i], "no id") == 0)
            status = sr1_search_sink_hit(sink, i, "", "just text", 1);
        else if (strcmp(queries[i], "nothing") != 0)
            status =
                sr1_search_sink_hit(sink, i, "d1", "\"Paris\"\nCapital\nof France.", 2);
        if (status == SR1_OK && strcmp(queries[i], "two") == 0 && top_k > 1)
            status = sr1_search_sink_hit(sink, i, "d2", "Lyon", 1);
        if (status != SR1_OK)
            return status;
    }
    return SR1_OK;
}

static void engine_destroy(void *self)
{
    ((struct engine *)self)->destroyed++;
}

static sr1_search *open_engine(struct engine *e)
{
    sr1_search_ops ops = {sizeof ops, "test", engine_search, engine_destroy, 0};
    sr1_search *s = NULL;

    memset(e, 0, sizeof *e);
    assert_int_equal(sr1_search_new(&s, &ops, e), SR1_OK);
    return s;
}

static sr1_env *open_env(struct engine *e, const char *format)
{
    sr1_env_options o = {sizeof o, NULL, format, 0};
    sr1_search *s = open_engine(e);
    sr1_env *env = NULL;

    assert_int_equal(sr1_env_open(&env, "search", s, &o), SR1_OK);
    sr1_search_free(s); /* the environment holds its own reference */
    assert_int_equal(e->destroyed, 0);
    return env;
}

/* ---- blocks ---- */

struct block_case {
    const char *format, *query, *block;
};

static const struct block_case block_cases[] = {
    {"titled", "one",
     "\n\n<information>Doc 1(Title: \"Paris\") Capital\nof France.</information>\n\n"},
    {"titled", "two",
     "\n\n<information>Doc 1(Title: \"Paris\") Capital\nof France.\n"
     "Doc 2(Title: Lyon)</information>\n\n"},
    {"titled", "no id", "\n\n<information>just text</information>\n\n"},
    {"numbered", "two",
     "\n\n<information>Doc 1: \"Paris\"\nCapital\nof France.\nDoc 2: "
     "Lyon</information>\n\n"},
    {"numbered", "no id", "\n\n<information>just text</information>\n\n"},
    {"plain", "two", "<information> \"Paris\"\nCapital\nof France. Lyon </information>"},
    {"plain", "nothing",
     "<information> No information found for: nothing </information>"},
    {"plain", "", "<information> No information found </information>"},
    {"titled", "slow", "\n\n<information></information>\n\n"},
    {"titled", "broken", "\n\n<information></information>\n\n"},
    {"plain", "fatal", "<information>  </information>"},
};

static void blocks_by_format(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof block_cases / sizeof block_cases[0]; i++) {
        const struct block_case *c = &block_cases[i];
        struct engine e;
        sr1_env *env = open_env(&e, c->format);
        char *text = NULL;
        size_t len = 0;

        assert_int_equal(sr1_env_answer(env, c->query, strlen(c->query), &text, &len),
                         SR1_OK);
        assert_string_equal(text, c->block);
        assert_int_equal(len, strlen(c->block));
        sr1_free(text);
        sr1_env_free(env);
        assert_int_equal(e.destroyed, 1);
    }
}

static void a_turn_is_one_batch(void **state)
{
    static const int32_t want[] = {SR1_ACTION_OK, SR1_ACTION_TIMEOUT, SR1_ACTION_EMPTY,
                                   SR1_ACTION_OK};
    struct sr1__action a[] = {
        {4, "two", 3, 1}, {5, "slow", 4, 1}, {6, "", 0, 1}, {9, "q\0x", 3, 1}};
    struct sr1__observation out[4];
    struct engine e;
    sr1_env *env = open_env(&e, "titled");
    size_t i;

    (void)state;
    assert_int_equal(sr1__env_act(env, a, 4, out), SR1_OK);
    assert_int_equal(e.calls, 1);
    assert_int_equal(e.queries, 3); /* the blank one is not sent */
    for (i = 0; i < 4; i++)
        assert_int_equal(out[i].status, want[i]);
    assert_int_equal(out[0].n_hits, 2);
    assert_string_equal(out[0].hit_ids[0], "d1");
    assert_string_equal(out[0].hit_ids[1], "d2");
    assert_int_equal(out[1].body.len, 0);
    assert_string_equal(sr1__buf_cstr(&out[2].body), "No information found");
    for (i = 0; i < 4; i++) {
        assert_int_equal(out[i].done, 0);
        assert_string_equal(sr1__buf_cstr(&out[i].head), "\n\n<information>");
        assert_string_equal(sr1__buf_cstr(&out[i].tail), "</information>\n\n");
        sr1__observation_free(&out[i]);
    }
    assert_int_equal(sr1__env_act(env, a, 0, NULL), SR1_OK);
    sr1_env_free(env);
}

/* Of batches that are split. */
struct told {
    int32_t lines;
    char last[512];
};

static void keep_line(void *user, int32_t level, const char *message)
{
    struct told *told = user;

    (void)level;
    if (!strstr(message, " at once ("))
        return;
    told->lines++;
    snprintf(told->last, sizeof told->last, "%s", message);
}

/* The rows beside it are asked once more, each by itself, which is said once. */
static void a_query_that_fails_its_batch_fails_alone(void **state)
{
    struct sr1__action a[] = {{0, "one", 3, 0}, {1, "fatal", 5, 0}, {2, "two", 3, 0}};
    static const int32_t want[] = {SR1_ACTION_OK, SR1_ACTION_ERROR, SR1_ACTION_OK};
    struct sr1__observation out[3];
    struct engine e;
    struct told told = {0};
    sr1_env *env = open_env(&e, NULL);

    (void)state;
    sr1_log_set(keep_line, &told);
    for (int round = 1; round <= 2; round++) {
        assert_int_equal(sr1__env_act(env, a, 3, out), SR1_OK);
        assert_int_equal(e.calls, round * (1 + 3));
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(out[i].status, want[i]);
            assert_int_equal(out[i].body.len > 0, want[i] == SR1_ACTION_OK);
            sr1__observation_free(&out[i]);
        }
        assert_int_equal(told.lines, 1);
    }
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(told.last, "failed for 3 queries at once ("));
    sr1_env_free(env);
}

static void an_engine_that_is_down_is_not_asked_for_every_row(void **state)
{
    struct sr1__observation out[20];
    struct sr1__action a[20];
    struct engine e;
    sr1_env *env = open_env(&e, NULL);

    (void)state;
    for (size_t i = 0; i < 20; i++) /* some blank, which are never sent */
        a[i] = (struct sr1__action){i, i % 7 ? "fatal" : "", i % 7 ? 5 : 0, 0, 0};
    assert_int_equal(sr1__env_act(env, a, 20, out), SR1_OK);
    assert_true(e.calls <= 1 + 20 / 2);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(out[i].status, i % 7 ? SR1_ACTION_ERROR : SR1_ACTION_EMPTY);
        sr1__observation_free(&out[i]);
    }
    sr1_env_free(env);
}

static void none_carries_nothing_out(void **state)
{
    struct sr1__action a[] = {{0, "one", 3, 0}};
    struct sr1__observation out[1];
    sr1_env *env = NULL;

    (void)state;
    assert_int_equal(sr1_env_open(&env, "none", NULL, NULL), SR1_OK);
    assert_false(sr1__env_acts(env));
    assert_int_equal(sr1__env_act(env, a, 1, out), SR1_OK);
    assert_int_equal(out[0].head.len + out[0].body.len + out[0].tail.len, 0);
    assert_string_equal(sr1_env_name(env), "none");
    assert_string_equal(sr1__env_protocol(env)->name, "search-r1");
    sr1__observation_free(&out[0]);
    sr1_env_free(env);
}

/* ---- an environment of the caller's ---- */

enum mode { GOOD, FAILS_WITH_REASON, FAILS_SILENTLY, FAILS_ODDLY, BAD_BYTES, TOO_LONG };

struct custom {
    enum mode mode;
    int destroyed;
};

static sr1_status put_long(sr1_env_sink *sink)
{
    char piece[3 * 4096];
    size_t i;

    for (i = 0; i < sizeof piece; i += 3)
        memcpy(piece + i, "\xe4\xbd\xa0", 3);
    for (i = 0; i < 200; i++) {
        sr1_status status = sr1_env_sink_text(sink, 0, piece, sizeof piece);

        if (status != SR1_OK)
            return status;
    }
    return SR1_OK;
}

static sr1_status custom_act(void *self, const sr1_env_action *const *actions, size_t n,
                             sr1_env_sink *sink)
{
    struct custom *c = self;

    assert_int_equal(n, 2);
    assert_int_equal(actions[1]->struct_size, sizeof(sr1_env_action));
    assert_int_equal(actions[1]->row, 8);
    assert_int_equal(actions[1]->turn, 3);
    assert_memory_equal(actions[1]->text, "2+2", 3);
    switch (c->mode) {
    case FAILS_WITH_REASON:
        return sr1_set_error(SR1_E_LIMIT, "too hard");
    case FAILS_SILENTLY:
        return SR1_E_LIMIT;
    case FAILS_ODDLY:
        return 77;
    case BAD_BYTES:
        return sr1_env_sink_text(sink, 0, " a\xff\xe4\xbd ", 6);
    case TOO_LONG:
        return put_long(sink);
    case GOOD:
        break;
    }
    assert_int_equal(sr1_env_sink_text(sink, 2, "x", 1), SR1_E_INVALID);
    assert_int_equal(sr1_env_sink_text(sink, 0, NULL, 1), SR1_E_INVALID);
    assert_int_equal(sr1_env_sink_status(sink, 0, 99), SR1_E_INVALID);
    assert_int_equal(sr1_env_sink_text(sink, 1, "fo", 2), SR1_OK);
    assert_int_equal(sr1_env_sink_text(sink, 1, "ur", 2), SR1_OK);
    assert_int_equal(sr1_env_sink_hit(sink, 1, NULL), SR1_OK);
    return sr1_env_sink_done(sink, 1);
}

static void custom_destroy(void *self)
{
    ((struct custom *)self)->destroyed++;
}

static sr1_status run_custom(enum mode mode, struct sr1__observation out[2])
{
    sr1_env_ops ops = {sizeof ops, "sums", custom_act, custom_destroy};
    struct sr1__action a[2] = {{7, "1+1", 3, 3}, {8, "2+2", 3, 3}};
    struct custom c = {mode, 0};
    sr1_env *env = NULL;
    sr1_status status;

    assert_int_equal(sr1_env_new(&env, &ops, &c, NULL), SR1_OK);
    status = sr1__env_act(env, a, 2, out);
    sr1_env_free(env);
    assert_int_equal(c.destroyed, 1);
    return status;
}

static void free_both(struct sr1__observation out[2])
{
    sr1__observation_free(&out[0]);
    sr1__observation_free(&out[1]);
}

static void callers_can_be_environments(void **state)
{
    struct sr1__observation out[2];

    (void)state;
    assert_int_equal(run_custom(GOOD, out), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&out[1].body), "four");
    assert_int_equal(out[1].done, 1);
    assert_int_equal(out[1].n_hits, 1);
    assert_int_equal(out[0].done, 0);
    assert_string_equal(sr1__buf_cstr(&out[0].head), "\n\n<information>");
    free_both(out);
    assert_int_equal(run_custom(BAD_BYTES, out), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&out[0].body),
                        "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    free_both(out);
    assert_int_equal(run_custom(TOO_LONG, out), SR1_OK);
    assert_true(out[0].body.len <= SR1__OBSERVATION_MAX);
    assert_true(out[0].body.len > SR1__OBSERVATION_MAX - 3);
    assert_true(sr1__utf8_valid(out[0].body.data, out[0].body.len));
    free_both(out);
}

static void a_failing_callback_is_named(void **state)
{
    struct sr1__observation out[2];

    (void)state;
    assert_int_equal(run_custom(FAILS_WITH_REASON, out), SR1_E_LIMIT);
    assert_string_equal(sr1_last_error(), "environment 'sums': too hard");
    assert_int_equal(run_custom(FAILS_SILENTLY, out), SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "environment 'sums'"));
    assert_non_null(strstr(sr1_last_error(), "gave no reason"));
    assert_int_equal(run_custom(FAILS_ODDLY, out), SR1_E_CALLBACK);
    assert_non_null(strstr(sr1_last_error(), "environment 'sums'"));
}

static void wrong_arguments_are_refused(void **state)
{
    sr1_env_ops ops = {sizeof ops, "sums", NULL, NULL};
    sr1_env_options o = {sizeof o, "nope", NULL, 0};
    struct engine e;
    sr1_search *s = open_engine(&e);
    sr1_env *env = NULL;
    int32_t event = 9;
    size_t begin = 9, n = 9;

    (void)state;
    assert_int_equal(sr1_env_open(&env, "nope", s, NULL), SR1_E_NOT_FOUND);
    assert_int_equal(sr1_env_open(&env, NULL, s, NULL), SR1_E_NOT_FOUND);
    assert_int_equal(sr1_env_open(&env, "search", NULL, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_env_open(NULL, "search", s, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_env_open(&env, "search", s, &o), SR1_E_NOT_FOUND);
    o.protocol = NULL;
    o.document_format = "nope";
    assert_int_equal(sr1_env_open(&env, "search", s, &o), SR1_E_NOT_FOUND);
    o.document_format = NULL;
    o.top_k = -1;
    assert_int_equal(sr1_env_open(&env, "search", s, &o), SR1_E_INVALID);
    o.struct_size = 0;
    assert_int_equal(sr1_env_open(&env, "search", s, &o), SR1_E_INVALID);
    assert_int_equal(sr1_env_new(&env, &ops, NULL, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_env_answer(NULL, "q", 1, NULL, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_protocol_parse("nope", "", 0, &event, &begin, &n),
                     SR1_E_NOT_FOUND);
    assert_int_equal(sr1_protocol_parse(NULL, NULL, 1, &event, &begin, &n),
                     SR1_E_INVALID);
    assert_null(env);
    assert_int_equal(event, 9);
    sr1_env_free(NULL);
    sr1_search_free(s);
}

static void text_is_parsed(void **state)
{
    const char *text = "<think>x</think> <search> who? </search>";
    int32_t event = 9;
    size_t begin = 9, n = 9;

    (void)state;
    assert_int_equal(sr1_protocol_parse(NULL, text, 3, &event, &begin, &n), SR1_OK);
    assert_int_equal(event, SR1__EVENT_NONE);
    assert_int_equal(begin, 9);
    assert_int_equal(sr1_protocol_parse(NULL, text, strlen(text), &event, &begin, &n),
                     SR1_OK);
    assert_int_equal(event, SR1__EVENT_ACTION);
    assert_int_equal(n, 4);
    assert_memory_equal(text + begin, "who?", 4);
}

/* Every allocation of opening and answering fails once; nothing leaks (the sanitizers
 * watch) and the outcome is out of memory. */
static void any_allocation_may_fail(void **state)
{
    struct engine e;
    sr1_search *s = open_engine(&e);
    sr1_status status = SR1_E_NOMEM;
    int64_t k;

    (void)state;
    for (k = 1; status != SR1_OK; k++) {
        sr1_env *env = NULL;
        char *text = NULL;
        size_t len;

        assert_int_equal(status, SR1_E_NOMEM);
        sr1__mem_fail_at(k);
        status = sr1_env_open(&env, "search", s, NULL);
        if (status == SR1_OK)
            status = sr1_env_answer(env, "two", 3, &text, &len);
        sr1__mem_fail_at(0);
        sr1_free(text);
        sr1_env_free(env);
    }
    assert_true(k > 10);
    sr1_search_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_by_format),
        cmocka_unit_test(a_turn_is_one_batch),
        cmocka_unit_test(a_query_that_fails_its_batch_fails_alone),
        cmocka_unit_test(an_engine_that_is_down_is_not_asked_for_every_row),
        cmocka_unit_test(none_carries_nothing_out),
        cmocka_unit_test(callers_can_be_environments),
        cmocka_unit_test(a_failing_callback_is_named),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(text_is_parsed),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
