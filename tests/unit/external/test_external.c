/* Programs of the user's as reward, environment and search engine, and their outages. */
#include "support/torture.h"
#include "support/files.h"

#include "base/clock.h"
#include "base/rpc_process.h"
#include "environment/env/env.h"
#include "environment/trajectory/builder.h"

#include <searchr1/ext/episodes.h>
#include <searchr1/ext/external.h>
#include <searchr1/ext/reward_set.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char program[512];

#define OK(call) assert_ok((call), #call)

static void assert_ok(sr1_status st, const char *what)
{
    if (st != SR1_OK)
        fail_msg("%s: %s", what, sr1_last_error());
}

static int make(void **state)
{
    snprintf(program, sizeof program, "%s/tests/support/program.py", getenv("SR1_SRC"));
    return scratch_make(state);
}

/* ---- rewards ---- */

static sr1_trajectory *answered(const char *query, const char *answer)
{
    static const char *const truths[] = {"Paris"};
    struct sr1__trajectory_context c = {
        .temperature = 1, .top_p = 1, .ground_truths = truths, .n_ground_truths = 1};
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;

    OK(sr1__trajectory_builder_new(&b, query, strlen(query), "q", 0));
    OK(sr1__trajectory_builder_context(b, &c));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, answer, strlen(answer), &t));
    return t;
}

/* Scores of one trajectory, weighted: the total is NaN where the program gave none. */
static double score(sr1_reward_set *set, const char *query, const char *answer)
{
    sr1_trajectory *t = answered(query, answer);
    double total = 0;

    OK(sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, NULL, &total));
    sr1_trajectory_free(t);
    return total;
}

static sr1_reward_set *open_rewards(double timeout_s)
{
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
    sr1_external_options x = {.struct_size = sizeof x, .timeout_s = timeout_s};
    sr1_reward_set *set = NULL;

    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add_external(set, program, "length", 2, &x));
    return set;
}

static void a_program_scores(void **state)
{
    sr1_reward_set *set = open_rewards(60);

    (void)state;
    assert_string_equal(sr1_reward_set_name(set, 0), "length");
    assert_true(score(set, "Where?", "Rome") == 8);
    assert_true(score(set, "Where?", "Paris!") == 212);
    assert_true(score(set, "bad \xff bytes", "") == 0);
    sr1_reward_set_free(set);
}

static void an_outage_is_no_score(void **state)
{
    static const char *const ways[] = {"unknown", "please die", "please err",
                                       "please miscount"};
    sr1_reward_set *set = open_rewards(60);

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        assert_true(isnan(score(set, ways[i], "Rome")));
        assert_true(score(set, "Where?", "Rome") == 8); /* it goes on */
    }
    sr1_reward_set_free(set);
}

/* One that hangs would hang for every request that follows. */
static void a_late_program_is_started_anew(void **state)
{
    sr1_reward_set *set = open_rewards(2);
    double got = NAN;

    (void)state;
    assert_true(isnan(score(set, "please sleep", "Rome")));
    for (int tries = 0; tries < 20 && isnan(got); tries++) { /* it may start slowly */
        got = score(set, "Where?", "Rome");
        if (isnan(got))
            sleep(2);
    }
    assert_true(got == 8);
    sr1_reward_set_free(set);
}

static char warned[1024];

static void keep_warning(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level == SR1_LOG_WARN)
        snprintf(warned, sizeof warned, "%s", text);
}

static void why_there_is_no_score_is_told(void **state)
{
    static const struct {
        const char *file, *text, *warning;
    } wrong[] = {
        {"functions.py", "def score(items):\n    return [1.0]\n",
         "it has ended without a word; it has to read its standard input"},
        {"nan.py",
         "import json, sys\n"
         "for line in sys.stdin:\n"
         "    i = json.loads(line)['id']\n"
         "    print(json.dumps({'id': i, 'result': [float('nan')]}), flush=True)\n",
         "1 trajectory was not scored: reward program"},
        {"null.py",
         "import json, sys\n"
         "for line in sys.stdin:\n"
         "    i = json.loads(line)['id']\n"
         "    print(json.dumps({'id': i, 'result': [None]}), flush=True)\n",
         "null.py gave null, or what is no number, as a score"},
    };

    (void)state;
    sr1_log_set(keep_warning, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
        sr1_reward_set *set = NULL;

        warned[0] = '\0';
        OK(sr1_reward_set_new(&set, &o));
        OK(sr1_reward_set_add_external(set, scratch_file(wrong[i].file, wrong[i].text, 0),
                                       "mine", 1, NULL));
        assert_true(isnan(score(set, "Where?", "Rome")));
        assert_non_null(strstr(warned, wrong[i].warning));
        sr1_reward_set_free(set);
    }
    sr1_log_set(NULL, NULL);
}

/* Right and wrong are 1 and 0, and what is no score costs its own trajectory. */
static void truths_are_scores(void **state)
{
    static const char text[] =
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    print(json.dumps({'id': m['id'], 'result': [True, False, 'yes', 3]}),\n"
        "          flush=True)\n";
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
    sr1_trajectory *t[4];
    sr1_reward_set *set = NULL;
    double totals[4];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        t[i] = answered("Where?", "Rome");
    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add_external(set, scratch_file("truths.py", text, 0), "mine", 1,
                                   NULL));
    OK(sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 4, NULL, totals));
    assert_true(totals[0] == 1 && totals[1] == 0 && isnan(totals[2]) && totals[3] == 3);
    sr1_reward_set_free(set);
    for (size_t i = 0; i < 4; i++)
        sr1_trajectory_free(t[i]);
}

/* ---- search ---- */

static void a_program_searches(void **state)
{
    static const char *const queries[] = {"tower", "nothing", "fail"};
    static const int32_t status[] = {SR1_ACTION_OK, SR1_ACTION_EMPTY, SR1_ACTION_ERROR};
    sr1_search_hit hit = {.struct_size = sizeof hit};
    sr1_search_results *found = NULL;
    sr1_search *engine = NULL;

    (void)state;
    OK(sr1_search_open_external(&engine, program, NULL));
    OK(sr1_search_run(engine, queries, 3, 2, &found));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sr1_search_results_status(found, i), status[i]);
    assert_int_equal(sr1_search_results_hit_count(found, 0), 2);
    OK(sr1_search_results_hit(found, 0, 1, &hit));
    assert_string_equal(hit.id, "d1");
    assert_string_equal(hit.contents, "tower\nfact 1");
    sr1_search_results_free(found);
    found = NULL;
    assert_int_not_equal(
        sr1_search_run(engine, (const char *const[]){"please die"}, 1, 2, &found),
        SR1_OK);
    assert_non_null(strstr(sr1_last_error(), "it said last: as you wish"));
    OK(sr1_search_run(engine, queries, 1, 2, &found)); /* started anew */
    sr1_search_results_free(found);
    sr1_search_free(engine);
}

/* Answers each query, or action, with the JSON that it is. */
static const char *parrot_program(void)
{
    return scratch_file("parrot.py",
                        "import json, sys\n"
                        "for line in sys.stdin:\n"
                        "    r = json.loads(line)\n"
                        "    p = r.get('params', {})\n"
                        "    a = p.get('queries') or [x['text'] for x in "
                        "p.get('actions', [])]\n"
                        "    a = [json.loads(x) for x in a]\n"
                        "    if 'id' in r:\n"
                        "        print(json.dumps({'id': r['id'], 'result': a}), "
                        "flush=True)\n",
                        0);
}

static void members_of_a_hit_have_their_types(void **state)
{
    static const struct {
        const char *hit, *id, *error, *contents;
    } rows[] = {
        {"[{\"id\": 17, \"text\": \"a\"}]", "17", NULL, "a"},
        {"[{\"id\": \"x\", \"text\": \"a\"}]", "x", NULL, "a"},
        {"[{\"id\": null, \"title\": null, \"score\": null, \"text\": \"a\"}]", "", NULL,
         "a"},
        /* NUL, which a C string would end at */
        {"[{\"id\": \"x\\u0000y\", \"title\": \"t\\u0000u\", \"contents\": "
         "\"a\\u0000b\"}]",
         "x\xEF\xBF\xBDy", NULL,
         "t\xEF\xBF\xBDu\na\xEF\xBF\xBD"
         "b"},
        {"[\"a\\u0000b\"]", "", NULL,
         "a\xEF\xBF\xBD"
         "b"},
        {"[{\"id\": 1.5, \"text\": \"a\"}]", NULL, "the id of a hit"},
        {"[{\"title\": 3, \"text\": \"a\"}]", NULL, "the title of a hit"},
        {"[{\"score\": \"1\", \"text\": \"a\"}]", NULL, "the score of a hit"},
    };
    sr1_search *engine = NULL;

    (void)state;
    OK(sr1_search_open_external(&engine, parrot_program(), NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_search_hit hit = {.struct_size = sizeof hit};
        sr1_search_results *found = NULL;
        sr1_status st = sr1_search_run(engine, &rows[i].hit, 1, 2, &found);

        if (rows[i].error) {
            assert_int_not_equal(st, SR1_OK);
            assert_non_null(strstr(sr1_last_error(), rows[i].error));
            continue;
        }
        OK(st);
        OK(sr1_search_results_hit(found, 0, 0, &hit));
        assert_string_equal(hit.id, rows[i].id);
        assert_string_equal(hit.contents, rows[i].contents);
        sr1_search_results_free(found);
    }
    sr1_search_free(engine);
}

/* ---- requests side by side ---- */

static sr1_search *open_engine(const char *name, const char *code, double timeout_s)
{
    sr1_external_options o = {.struct_size = sizeof o, .timeout_s = timeout_s};
    sr1_search *engine = NULL;

    OK(sr1_search_open_external(&engine, scratch_file(name, code, 0), &o));
    return engine;
}

struct search_call {
    sr1_search *engine;
    const char *word; /* the query, then letters up to n */
    size_t n;
    sr1_status status;
    char said[512];     /* an error's text */
    char contents[128]; /* of the first hit */
};

static void *run_search_call(void *arg)
{
    struct search_call *c = arg;
    char *query = malloc(c->n + strlen(c->word) + 1);
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {.struct_size = sizeof hit};
    size_t n = strlen(c->word);

    memcpy(query, c->word, n);
    memset(query + n, 'q', c->n);
    query[n + c->n] = '\0';
    c->status = sr1_search_run(c->engine, (const char *const *)&query, 1, 3, &found);
    snprintf(c->said, sizeof c->said, "%s", c->status == SR1_OK ? "" : sr1_last_error());
    if (c->status == SR1_OK && sr1_search_results_hit_count(found, 0) > 0 &&
        sr1_search_results_hit(found, 0, 0, &hit) == SR1_OK)
        snprintf(c->contents, sizeof c->contents, "%s", hit.contents);
    sr1_search_results_free(found);
    free(query);
    return NULL;
}

static void run_search_calls(struct search_call *calls, size_t n)
{
    pthread_t threads[8];

    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_search_call, &calls[i]),
                         0);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < n; i++)
        if (calls[i].status != SR1_OK)
            fail_msg("call %zu: %s", i, calls[i].said);
}

/* Neither fits a pipe: who writes must go on reading, and who reads writing. */
static void long_requests_and_answers_cross(void **state)
{
    sr1_search *engine =
        open_engine("long.py",
                    "import json, sys, time\n"
                    "for line in sys.stdin:\n"
                    "    r = json.loads(line)\n"
                    "    time.sleep(0.2)\n"
                    "    a = [['A' * 200000] for q in r['params']['queries']]\n"
                    "    print(json.dumps({'id': r['id'], 'result': a}), flush=True)\n",
                    100);
    struct search_call calls[] = {
        {engine, "a", 100, 0, "", ""},    {engine, "b", 100, 0, "", ""},
        {engine, "c", 300000, 0, "", ""}, {engine, "d", 300000, 0, "", ""},
        {engine, "e", 300000, 0, "", ""}, {engine, "f", 100, 0, "", ""}};

    (void)state;
    run_search_calls(calls, sizeof calls / sizeof *calls);
    sr1_search_free(engine);
}

static atomic_int is_over;

static void *run_to_its_limit(void *arg)
{
    (void)run_search_call(arg);
    atomic_store(&is_over, 1);
    return NULL;
}

/* It answers others meanwhile: one late answer is no reason to end it. */
static void a_busy_program_is_not_ended(void **state)
{
    sr1_search *engine = open_engine(
        "busy.py",
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    r = json.loads(line)\n"
        "    if r['params']['queries'][0] == 'never':\n"
        "        continue\n"
        "    print(json.dumps({'id': r['id'], 'result': [[str(os.getpid())]]}), "
        "flush=True)\n",
        15);
    struct search_call never = {engine, "never", 0, 0, "", ""};
    struct search_call first = {engine, "a", 0, 0, "", ""}, next;
    pthread_t thread;
    char word[16];

    (void)state;
    run_search_calls(&first, 1);
    assert_int_equal(pthread_create(&thread, NULL, run_to_its_limit, &never), 0);
    for (int i = 0; !atomic_load(&is_over); i++) {
        snprintf(word, sizeof word, "%d", i);
        next = (struct search_call){engine, word, 0, 0, "", ""};
        run_search_calls(&next, 1);
        assert_string_equal(next.contents, first.contents);
        usleep(10000);
    }
    pthread_join(thread, NULL);
    assert_int_equal(never.status, SR1_E_TIMEOUT);
    sr1_search_free(engine);
}

/* ---- environments ---- */

static sr1_env_reply step(sr1_env *env, int64_t episode, const char *action,
                          const char *want)
{
    sr1_env_reply reply = {.struct_size = sizeof reply};
    char *text = NULL;
    size_t n;

    OK(sr1_env_step(env, episode, action, strlen(action), &reply, &text, &n));
    if (want)
        assert_string_equal(text, want);
    sr1_free(text);
    return reply;
}

#define BLOCK(text) "\n\n<information>" text "</information>\n\n"

static void a_program_is_an_environment(void **state)
{
    sr1_env *env = NULL;
    sr1_env_reply reply;
    int64_t a, b;

    (void)state;
    OK(sr1_env_open_external(&env, program, NULL, NULL));
    OK(sr1_env_begin(env, "q1", "Where?", 6, 7, &a));
    OK(sr1_env_begin(env, "q2", "When?", 5, 8, &b));
    reply = step(env, a, "look", BLOCK("LOOK"));
    assert_int_equal(reply.status, SR1_ACTION_OK);
    (void)step(env, b, "count", BLOCK("2 begun, When?"));
    reply = step(env, a, "win", NULL);
    assert_true(reply.done && reply.success && reply.reward == 0.5);
    sr1_env_finish(env, a);
    (void)step(env, b, "count", BLOCK("1 begun, When?"));
    reply = step(env, b, "fail", NULL);
    assert_int_equal(reply.status, SR1_ACTION_ERROR);
    sr1_env_finish(env, b);
    sr1_env_free(env);
}

static void members_of_an_answer_have_their_types(void **state)
{
    static const char *const wrong[][2] = {
        {"{\"reward\": \"1.0\"}", "the reward of an answer"},
        {"{\"done\": 1}", "done of an answer"},
        {"{\"success\": \"yes\"}", "success of an answer"},
        {"{\"executed\": 0}", "executed of an answer"},
        {"{\"observation\": \"You see a door\"}", "no member 'observation'"},
        {"{\"txt\": null, \"reward\": 1}", "no member 'txt': it has text, reward"}};
    sr1_env *env = NULL;
    sr1_env_reply reply = {.struct_size = sizeof reply};
    char *text = NULL;
    size_t n;

    (void)state;
    OK(sr1_env_open_external(&env, parrot_program(), NULL, NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(
            sr1_env_step(env, 0, wrong[i][0], strlen(wrong[i][0]), &reply, &text, &n),
            SR1_E_PARSE);
        assert_non_null(strstr(sr1_last_error(), wrong[i][1]));
    }
    reply = step(env, 0,
                 "{\"reward\": null, \"done\": null, \"success\": true, "
                 "\"executed\": null, \"status\": null, \"text\": null}",
                 NULL);
    assert_int_equal(reply.status, SR1_ACTION_OK);
    assert_true(reply.reward == 0 && !reply.done && reply.success);
    reply = step(env, 0, "{\"reward\": 2, \"executed\": false}", NULL);
    assert_true(reply.reward == 2 && reply.flags & SR1_ANSWER_UNEXECUTED);
    sr1_env_free(env);
}

/* examples/programs/guess.py: whatever the number is, one of nine guesses is right. */
/* Its neighbours of the same call are answered. */
static void a_wrong_answer_costs_its_own_trajectory(void **state)
{
    static const char *const said[] = {"\"fine\"", "{\"text\": \"x\", \"reward\": \"1\"}",
                                       "{\"reward\": 2}"};
    struct sr1__action a[3];
    struct sr1__observation out[3];
    sr1_env *env = NULL;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        a[i] = (struct sr1__action){i, said[i], strlen(said[i]), 1, (int64_t)i + 7};
    sr1_log_set(keep_warning, NULL);
    OK(sr1_env_open_external(&env, parrot_program(), NULL, NULL));
    OK(sr1__env_act(env, a, 3, out));
    assert_string_equal(sr1__buf_cstr(&out[0].body), "fine");
    assert_int_equal(out[1].status, SR1_ACTION_ERROR);
    assert_int_equal(out[1].body.len, 0);
    assert_string_equal(out[1].failure, "the reward of an answer must be a number");
    assert_non_null(strstr(warned, "answer 2 of 3 (episode 8): the reward of an answer"));
    assert_true(out[0].status == SR1_ACTION_OK && out[2].status == SR1_ACTION_OK);
    assert_true(out[2].reward == 2);
    for (size_t i = 0; i < 3; i++)
        sr1__observation_free(&out[i]);
    sr1_env_free(env);
    sr1_log_set(NULL, NULL);
}

static void the_example_is_an_environment(void **state)
{
    char path[512];
    sr1_env *env = NULL;
    int64_t episode;
    int right = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/examples/programs/guess.py", getenv("SR1_SRC"));
    OK(sr1_env_open_external(&env, path, NULL, NULL));
    OK(sr1_env_begin(env, "q", "Guess.", 6, 7, &episode));
    (void)step(env, episode, "one", BLOCK("Error: guess a number from 1 to 9."));
    for (int k = 1; k <= 9; k++) {
        char guess[2] = {(char)('0' + k), '\0'};
        sr1_env_reply reply = step(env, episode, guess, NULL);

        right += reply.success && reply.done && reply.reward == 1;
    }
    assert_int_equal(right, 1);
    assert_int_equal(step(env, 0, "1", NULL).status, SR1_ACTION_ERROR);
    sr1_env_finish(env, episode);
    sr1_env_free(env);
}

static void the_examples_score_and_search(void **state)
{
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
    sr1_reward_set *set = NULL;
    sr1_search *engine = NULL;
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {.struct_size = sizeof hit};
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s/examples/programs/brevity.py", getenv("SR1_SRC"));
    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add_external(set, path, "brevity", 1, NULL));
    assert_true(score(set, "Where?", "Paris") == 0.5);
    sr1_reward_set_free(set);
    snprintf(path, sizeof path, "%s/examples/programs/engine.py", getenv("SR1_SRC"));
    setenv("DOCUMENTS",
           scratch_file("facts.txt", "a tower in Paris\nsomething else\n", 0), 1);
    OK(sr1_search_open_external(&engine, path, NULL));
    OK(sr1_search_run(engine, (const char *const[]){"the tower"}, 1, 3, &found));
    assert_int_equal(sr1_search_results_hit_count(found, 0), 1);
    OK(sr1_search_results_hit(found, 0, 0, &hit));
    assert_string_equal(hit.contents, "a tower in Paris");
    sr1_search_results_free(found);
    sr1_search_free(engine);
}

/* Bytes of a policy that are not UTF-8 are no outage, nor the end of a run. */
static void bytes_that_are_no_text_are_shown(void **state)
{
    sr1_env *env = NULL;
    int64_t episode;

    (void)state;
    OK(sr1_env_open_external(&env, program, NULL, NULL));
    OK(sr1_env_begin(env, "q\xff", "bad \xff query", 11, 7, &episode));
    (void)step(env, episode, "bad \xff byte", BLOCK("BAD \uFFFD BYTE"));
    (void)step(env, episode, "count", BLOCK("1 begun, bad \uFFFD query"));
    sr1_env_free(env);
}

/* What was begun before is not known to a program that was started anew. */
static void a_new_program_is_asked_nothing_of_old_episodes(void **state)
{
    sr1_env_reply reply = {.struct_size = sizeof reply};
    sr1_env *env = NULL;
    char *text = NULL;
    size_t n;
    int64_t old, new;

    (void)state;
    OK(sr1_env_open_external(&env, program, NULL, NULL));
    OK(sr1_env_begin(env, "q1", "Where?", 6, 7, &old));
    assert_int_not_equal(sr1_env_step(env, old, "please die", 10, &reply, &text, &n),
                         SR1_OK);
    OK(sr1_env_begin(env, "q2", "When?", 5, 8, &new));
    (void)step(env, new, "count", BLOCK("1 begun, When?"));
    assert_int_equal(step(env, old, "count", NULL).status, SR1_ACTION_ERROR);
    sr1_env_finish(env, old);
    (void)step(env, new, "count", BLOCK("1 begun, When?"));
    sr1_env_finish(env, new);
    sr1_env_free(env);
}

/* Nor is it told that they are over: one that keeps a table of them need not expect it.
 */
static void a_new_program_is_told_nothing_of_old_episodes(void **state)
{
    sr1_env_reply reply = {.struct_size = sizeof reply};
    sr1_env *env = NULL;
    char code[1024], *text = NULL;
    int64_t old, new;
    size_t n;

    (void)state;
    snprintf(code, sizeof code,
             "exec(open('%s').read().replace('episodes.pop(params[\"episode\"], None)', "
             "'del episodes[params[\"episode\"]]'))\n",
             program);
    OK(sr1_env_open_external(&env, scratch_file("strict.py", code, 0), NULL, NULL));
    OK(sr1_env_begin(env, "q1", "Where?", 6, 7, &old));
    assert_int_not_equal(sr1_env_step(env, old, "please die", 10, &reply, &text, &n),
                         SR1_OK);
    OK(sr1_env_begin(env, "q2", "When?", 5, 8, &new));
    sr1_env_finish(env, old);
    (void)step(env, new, "count", BLOCK("1 begun, When?"));
    sr1_env_finish(env, new);
    OK(sr1_env_begin(env, "q3", "Who?", 4, 9, &new));
    (void)step(env, new, "count", BLOCK("1 begun, Who?")); /* what it knew it forgot */
    sr1_env_free(env);
}

/* A program that loads for long reads nothing meanwhile: what a pipe does not hold waits,
 * as long as a request may take. */
static void a_program_may_take_long_to_start(void **state)
{
    char code[1024], query[10001];
    sr1_search *engine;
    struct search_call call = {NULL, "a", 300000, 0, "", ""};
    int64_t episodes[8];
    sr1_env *env = NULL;
    pthread_t thread;

    (void)state;
    snprintf(code, sizeof code,
             "import sys, time\ntime.sleep(10.5)\nexec(open('%s').read())\n", program);
    engine = open_engine("slow.py", code, 200);
    call.engine = engine;
    assert_int_equal(pthread_create(&thread, NULL, run_search_call, &call), 0);
    OK(sr1_env_open_external(&env, scratch_path("slow.py"), NULL, NULL));
    memset(query, 'q', sizeof query - 1);
    query[sizeof query - 1] = '\0';
    for (size_t i = 0; i < 8; i++)
        OK(sr1_env_begin(env, "q", query, sizeof query - 1, i, &episodes[i]));
    (void)step(env, episodes[7], "look", BLOCK("LOOK"));
    for (size_t i = 1; i < 8; i++)
        sr1_env_finish(env, episodes[i]);
    sr1_env_free(env);
    pthread_join(thread, NULL);
    if (call.status != SR1_OK)
        fail_msg("%s", call.said);
    sr1_search_free(engine);
}

/* In a rollout the actions of a call that failed are outages. */
static void an_outage_is_no_observation(void **state)
{
    struct sr1__action a = {0, "please die", 10, 0, 0};
    struct sr1__observation o;
    sr1_env *env = NULL;

    (void)state;
    OK(sr1_env_open_external(&env, program, NULL, NULL));
    OK(sr1__env_act_rows(env, &a, 1, &o));
    assert_int_equal(o.status, SR1_ACTION_ERROR);
    assert_non_null(strstr(o.failure, "it said last: as you wish"));
    sr1__observation_free(&o);
    (void)step(env, 0, "look", BLOCK("LOOK"));
    sr1_env_free(env);
}

static void files_that_are_no_program_are_named(void **state)
{
    sr1_search *engine = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_external(&engine, scratch_path("none"), NULL),
                     SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "No such file"));
    assert_int_equal(
        sr1_search_open_external(&engine, scratch_file("text.sh", "exit 0", 0), NULL),
        SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "make it executable"));
    assert_int_equal(mkdir(scratch_path("folder.py"), 0755), 0);
    assert_int_equal(sr1_search_open_external(&engine, scratch_path("folder.py"), NULL),
                     SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "folder.py: it is no file"));
    assert_int_equal(chmod(scratch_file("bare.py", "print(1)\n", 0), 0755), 0);
    assert_int_equal(sr1_search_open_external(&engine, scratch_path("bare.py"), NULL),
                     SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "its first line is not #!"));
    assert_null(engine);
}

/* After three failures in a row a program is left alone. */
/* ---- shared objects ---- */

/* A shared object that the build made; static memory. */
static const char *built(const char *name)
{
    static char path[1024];

    snprintf(path, sizeof path, "%s/tests/unit/external/%s", getenv("SR1_BUILD"), name);
    return path;
}

static void tables_of_shared_objects_are_parts(void **state)
{
    static const char *const queries[] = {"tower"};
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
    sr1_reward_set *set = NULL;
    sr1_search_results *found = NULL;
    sr1_search *engine = NULL;
    sr1_env *env = NULL;
    sr1_search_hit hit = {.struct_size = sizeof hit};
    char *text = NULL;
    size_t n = 0;

    (void)state;
    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_add_external(set, built("brevity.so"), "brevity", 2, NULL));
    assert_string_equal(sr1_reward_set_name(set, 0), "brevity");
    assert_true(fabs(score(set, "q", "Oslo it") - 2 / (1 + 7 / 6.0)) < 1e-12);
    sr1_reward_set_free(set);
    OK(sr1_search_open_external(&engine, built("parts.so"), NULL));
    OK(sr1_search_run(engine, queries, 1, 3, &found));
    OK(sr1_search_results_hit(found, 0, 0, &hit));
    assert_string_equal(hit.contents, "tower");
    sr1_search_results_free(found);
    sr1_search_free(engine);
    OK(sr1_env_open_external(&env, built("parts.so"), NULL, NULL));
    OK(sr1_env_answer(env, "look", 4, &text, &n));
    assert_non_null(strstr(text, "look"));
    sr1_free(text);
    sr1_env_free(env);
}

static void shared_objects_without_the_table_are_named(void **state)
{
    static const struct {
        const char *path, *text;
        sr1_status status;
    } cases[] = {
        {"none.so", "cannot load", SR1_E_IO},
        {"text.so", "cannot load", SR1_E_IO},
        {"parts.so", "exports no 'const sr1_reward_ops length'", SR1_E_NOT_FOUND}};
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = ""};
    sr1_reward_set *set = NULL;
    sr1_search *engine = NULL;
    sr1_env *env = NULL;

    (void)state;
    (void)scratch_file("text.so", "no object", 0);
    OK(sr1_reward_set_new(&set, &o));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = i == 1 ? scratch_path("text.so") : built(cases[i].path);

        assert_int_equal(sr1_reward_set_add_external(set, path, "length", 1, NULL),
                         cases[i].status);
        assert_non_null(strstr(sr1_last_error(), cases[i].text));
    }
    sr1_reward_set_free(set);
    assert_int_equal(sr1_search_open_external(&engine, built("brevity.so"), NULL),
                     SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "search_engine"));
    assert_int_equal(sr1_env_open_external(&env, built("brevity.so"), NULL, NULL),
                     SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "environment"));
}

static void a_broken_program_rests(void **state)
{
    const char *path = scratch_file("broken.py", "import sys; sys.exit('broken')\n", 0);
    sr1_search_results *found = NULL;
    sr1_search *engine = NULL;

    (void)state;
    OK(sr1_search_open_external(&engine, path, NULL));
    for (int i = 0; i < 6; i++) {
        assert_int_not_equal(
            sr1_search_run(engine, (const char *const[]){"a"}, 1, 1, &found), SR1_OK);
        assert_non_null(strstr(sr1_last_error(), "it said last: broken"));
    }
    sr1_search_free(engine);
}

/* ---- what is left behind ---- */

/* Has it ended? Who would wait for it may never do so. */
static int is_gone(long pid)
{
    char path[64], state = 'Z';
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    f = fopen(path, "r");
    if (!f)
        return 1;
    if (fscanf(f, "%*d %*s %c", &state) != 1)
        state = 'Z';
    fclose(f);
    return state == 'Z' || state == 'X';
}

static void assert_goes(long pid)
{
    for (int i = 0; i < 6000 && !is_gone(pid); i++)
        usleep(10000);
    assert_true(is_gone(pid));
}

static struct sr1__line_process *start_script(const char *script, long *helper)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct sr1__line_process_options o = {.name = "sh", .argv = argv, .max_line = 100};
    struct sr1__line_process *p = NULL;
    struct sr1__buf line;
    struct sr1__line_exchange x = {.line = &line};

    OK(sr1__line_process_start(&p, &o));
    sr1__buf_init(&line, 0);
    OK(sr1__line_process_exchange(p, &x, -1, sr1__now() + 100));
    *helper = atol(sr1__buf_cstr(&line));
    sr1__buf_free(&line);
    assert_true(*helper > 0 && !is_gone(*helper));
    return p;
}

/* The leader, a wrapper, ends with its input; what it has started does not. */
static void a_programs_helpers_end_with_it(void **state)
{
    static const char *const scripts[] = {
        "sleep 1000 & echo $!; exec cat",
        "(trap '' TERM; while :; do sleep 1; done) & echo $!; exec cat"};

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        long helper;

        sr1__line_process_free(start_script(scripts[i], &helper));
        assert_goes(helper);
    }
}

static void hear_alarm(int number)
{
    (void)number;
}

/* Signals that end the waiting of calls, as Python's do. */
static void a_programs_end_is_waited_for_through_signals(void **state)
{
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct sigaction act = {.sa_handler = hear_alarm}, before;

    (void)state;
    sigaction(SIGALRM, &act, &before);
    for (int i = 0; i < 20; i++) {
        long self;
        struct sr1__line_process *p = start_script("echo $$; exec cat", &self);

        setitimer(ITIMER_REAL, &often, NULL);
        sr1__line_process_free(p);
        setitimer(ITIMER_REAL, &never, NULL);
    }
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* One that does not read never sees that its input has ended. */
static void a_program_ends_with_a_process_that_is_killed(void **state)
{
    int pipes[2];
    long helper = 0;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        (void)start_script("echo $$; exec sleep 1000", &helper);
        (void)!write(pipes[1], &helper, sizeof helper);
        kill(getpid(), SIGKILL);
    }
    assert_true(child > 0);
    assert_int_equal(read(pipes[0], &helper, sizeof helper), (ssize_t)sizeof helper);
    waitpid(child, NULL, 0);
    assert_goes(helper);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_scores),
        cmocka_unit_test(an_outage_is_no_score),
        cmocka_unit_test(a_late_program_is_started_anew),
        cmocka_unit_test(why_there_is_no_score_is_told),
        cmocka_unit_test(truths_are_scores),
        cmocka_unit_test(a_program_searches),
        cmocka_unit_test(members_of_a_hit_have_their_types),
        cmocka_unit_test(long_requests_and_answers_cross),
        cmocka_unit_test(a_busy_program_is_not_ended),
        cmocka_unit_test(a_program_is_an_environment),
        cmocka_unit_test(bytes_that_are_no_text_are_shown),
        cmocka_unit_test(a_new_program_is_asked_nothing_of_old_episodes),
        cmocka_unit_test(a_new_program_is_told_nothing_of_old_episodes),
        cmocka_unit_test(a_program_may_take_long_to_start),
        cmocka_unit_test(members_of_an_answer_have_their_types),
        cmocka_unit_test(a_wrong_answer_costs_its_own_trajectory),
        cmocka_unit_test(the_example_is_an_environment),
        cmocka_unit_test(the_examples_score_and_search),
        cmocka_unit_test(an_outage_is_no_observation),
        cmocka_unit_test(files_that_are_no_program_are_named),
        cmocka_unit_test(tables_of_shared_objects_are_parts),
        cmocka_unit_test(shared_objects_without_the_table_are_named),
        cmocka_unit_test(a_broken_program_rests),
        cmocka_unit_test(a_programs_helpers_end_with_it),
        cmocka_unit_test(a_programs_end_is_waited_for_through_signals),
        cmocka_unit_test(a_program_ends_with_a_process_that_is_killed),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
