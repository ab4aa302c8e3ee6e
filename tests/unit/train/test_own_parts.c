/* A training run whose parts are programs: tools of an MCP server, a reward, an
 * environment and a search engine. */
#define ADD_CALL "{\"name\": \"add\", \"arguments\": {\"a\": 40, \"b\": 2}}"
#define TINY_MORE_WORDS "<tool_call>", "</tool_call>", ADD_CALL

#include "runs.h"

#include "base/file.h"
#include "policy/rollout_internal.h"
#include "signal/reward/reward_set.h"
#include "train/internal.h"

#include <unistd.h>

static int make(void **state)
{
    static const struct tiny_rule caller[] = {{"", "<tool_call>"},
                                              {"", "<answer>"},
                                              {"<tool_call>", ADD_CALL},
                                              {ADD_CALL, "</tool_call>"},
                                              {"</tool_call>", "<|im_end|>"},
                                              {"<answer>", " Paris"},
                                              {"<answer>", " Rome"},
                                              {" Paris", "</answer>"},
                                              {" Rome", "</answer>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("model", TINY_SEARCHER, 9);
    tiny_model("caller", caller, sizeof caller / sizeof *caller, 9);
    runs_files();
    return 0;
}

/* The configuration of a run that names programs of tests/support. */
static sr1_config *own_config(const char *model, const char *run)
{
    static char reward[600], tools[600];
    char text[1200];

    snprintf(text, sizeof text,
             "{\"mcpServers\": {\"sums\": {\"command\": \"python3\", \"args\": "
             "[\"%s/tests/support/mcp_server.py\"]}}}",
             getenv("SR1_SRC"));
    snprintf(tools, sizeof tools, "tools=%s", scratch_file("mcp.json", text, 0));
    snprintf(reward, sizeof reward, "reward_programs=%s/tests/support/program.py:length",
             getenv("SR1_SRC"));
    return tiny_config(model, train_path, out_pair(run), reward, tools, "max_steps=12",
                       "rewards=length", "reward_weights=0.01", "environment=tools",
                       "protocol=hermes", "search_engine=none", "learning_rate=3e-3",
                       "group_size=8", "beta=0", NULL);
}

static void a_policy_learns_with_an_mcp_tool_by_a_programs_reward(void **state)
{
    sr1_trainer *tr = open_trainer(own_config("caller", "own"));
    json_t *rows;

    (void)state;
    OK(sr1_trainer_run(tr, NULL));
    rows = metrics("own");
    assert_true(metric(rows, 11, "avg_reward") > metric(rows, 0, "avg_reward"));
    assert_true(metric(rows, 0, "env/number_of_searches") > 0);
    json_decref(rows);
    sr1_trainer_free(tr);
}

/* What the run has recorded: the server's answer is in a message of results. */
static void the_record_has_the_tools_answer(void **state)
{
    sr1_lines *lines = NULL;
    char path[1200];
    const char *text;
    size_t len, found = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/trajectories.jsonl.zst", scratch_path("own"));
    OK(sr1_lines_open(&lines, path));
    for (;;) {
        sr1_trajectory *t = NULL;

        OK(sr1_lines_next(lines, &text, &len));
        if (!text)
            break;
        OK(sr1_trajectory_from_json(&t, text, len));
        found += strstr(sr1_trajectory_generated_text(t, NULL),
                        "<tool_response>\n42\n</tool_response>") != NULL;
        sr1_trajectory_free(t);
    }
    assert_true(found > 0);
    sr1_lines_free(lines);
}

static void a_program_is_the_environment_and_the_engine(void **state)
{
    char path[600];
    sr1_config *c = tiny_config("model", train_path, out_pair("env"), "max_steps=2",
                                "environment=program", "rewards=format", NULL);
    sr1_trainer *tr;
    json_t *rows;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/support/program.py", getenv("SR1_SRC"));
    OK(sr1_config_set(c, "environment_program", path));
    tr = open_trainer(c);
    OK(sr1_trainer_run(tr, NULL));
    rows = metrics("env");
    assert_true(metric(rows, 0, "env/number_of_searches") > 0);
    json_decref(rows);
    sr1_trainer_free(tr);
    c = tiny_config("model", train_path, out_pair("engine"), "max_steps=2",
                    "search_engine=program", "rewards=format", NULL);
    OK(sr1_config_set(c, "search_program", path));
    tr = open_trainer(c);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

/* ---- stopping ---- */

static sr1_status hang_programs(void *user, const sr1_step_report *report,
                                int64_t planned)
{
    (void)user;
    (void)report;
    (void)planned;
    scratch_file("hang", "", 0);
    return SR1_OK;
}

/* As the handler of a signal that comes in the second step. */
static sr1_status stop_hanging_run(void *user, const char *phase, int64_t done,
                                   int64_t total)
{
    (void)phase;
    (void)done;
    (void)total;
    if (access(scratch_path("hang"), F_OK) == 0)
        sr1_trainer_stop(user);
    return SR1_OK;
}

/* The step that waits for it is given up, and those before it are kept. */
static void a_program_that_hangs_does_not_keep_a_stop(void **state)
{
    static const struct {
        const char *key, *more, *run;
    } rows[] = {{"reward_programs", "environment=search", "hanging-reward"},
                {"environment_program", "environment=program", "hanging-env"}};
    char path[600], saved[64];

    (void)state;
    snprintf(path, sizeof path, "%s/tests/support/program.py", getenv("SR1_SRC"));
    setenv("SR1_TEST_HANG", scratch_path("hang"), 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_config *c =
            tiny_config("model", train_path, knowledge_path, out_pair(rows[i].run),
                        "max_steps=3", "rewards=format", rows[i].more, NULL);
        sr1_run_callbacks cb = {
            .struct_size = sizeof cb, .step = hang_programs, .phase = stop_hanging_run};
        sr1_trainer *tr;

        OK(sr1_config_set(c, rows[i].key, path));
        tr = open_trainer(c);
        cb.user = tr;
        REFUSED(sr1_trainer_run(tr, &cb), SR1_E_CANCELLED, "step 2");
        snprintf(saved, sizeof saved, "%s/checkpoints/step-1", rows[i].run);
        assert_true(sr1__path_is_dir(scratch_path(saved)));
        assert_null(tr->rollout->stop); /* what is asked of it now is waited for */
        assert_null(tr->rewards->context.stop);
        sr1_trainer_free(tr);
        assert_int_equal(remove(scratch_path("hang")), 0);
    }
    unsetenv("SR1_TEST_HANG");
}

/* ---- files that are edited ---- */

static char logged[4096];

static void keep_log(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level == SR1_LOG_WARN)
        strncat(logged, text, sizeof logged - strlen(logged) - 1);
}

/* A copy of the tests' program with that end. */
static const char *copy_program(const char *name, const char *end)
{
    char path[600], *all;
    struct sr1__buf text;
    const char *copy;

    snprintf(path, sizeof path, "%s/tests/support/program.py", getenv("SR1_SRC"));
    OK(sr1__file_read(path, 0, &text));
    sr1__buf_str(&text, end);
    all = sr1__buf_take(&text);
    copy = scratch_file(name, all, 0);
    sr1_free(all);
    return copy;
}

static void resume_for_a_step(const char *steps)
{
    const char *const pairs[] = {steps};
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = pairs, .n_pairs = 1};
    sr1_trainer *tr = NULL;

    logged[0] = '\0';
    sr1_log_set(keep_log, NULL);
    OK(sr1_trainer_resume(&tr, scratch_path("edited"), &o));
    OK(sr1_trainer_run(tr, NULL));
    sr1_log_set(NULL, NULL);
    sr1_trainer_free(tr);
}

/* Edited between a stop and --resume, they change a run: it says so. */
static void a_file_that_was_edited_is_told(void **state)
{
    sr1_config *c = tiny_config("model", train_path, out_pair("edited"), "max_steps=1",
                                "environment=program", "rewards=format", NULL);
    char reward[600];

    (void)state;
    snprintf(reward, sizeof reward, "%s:length", copy_program("reward.py", "\n"));
    OK(sr1_config_set(c, "reward_programs", reward));
    OK(sr1_config_set(c, "environment_program", copy_program("world.py", "\n")));
    run_whole(c);
    resume_for_a_step("max_steps=2");
    assert_null(strstr(logged, "resume:"));
    copy_program("world.py", "# other\n");
    resume_for_a_step("max_steps=3");
    assert_non_null(
        strstr(logged, "the file of the key environment_program is not what"));
    assert_null(strstr(logged, "reward_programs"));
    copy_program("reward.py", "# other\n");
    resume_for_a_step("max_steps=4");
    assert_null(strstr(logged, "environment_program")); /* told once */
    assert_non_null(strstr(logged, "the file of the key reward_programs is not what"));
}

static void programs_that_are_not_there_are_named(void **state)
{
    static const struct {
        const char *key, *value, *more, *said;
    } rows[] = {
        {"reward_programs", "/no/such.py", "beta=0", "/no/such.py"},
        {"reward_programs", "/no/:", "beta=0", "neither FILE nor FILE:NAME"},
        {"reward_programs", "/no/such.py:format", "rewards=format",
         "reward_programs: 'format' is a built-in reward; name the program otherwise"},
        {"reward_programs", "/no/format.py", "rewards=format,exact_match",
         "(/no/format.py:NAME)"},
        {"reward_programs", "/no/p.py", "rewards=p,p", "'p' is there twice"},
        {"reward_programs", "/no/my.reward.py", "rewards=my.reward",
         "cannot run /no/my.reward.py"},
        {"reward_programs", "/no/p.py", "reward_weights=1,2,3,4,5,6",
         "where rewards names it"},
        {"environment_program", "/no/such.py", "environment=program", "/no/such.py"},
        {"search_program", "/no/such.py", "search_engine=program", "/no/such.py"},
        {"seed", "1", "search_engine=program", "search_program is empty"},
        {"seed", "1", "environment=program", "environment_program is empty"},
        {"tools", "/no/mcp.json", "environment=tools", "/no/mcp.json"},
        {"tools", "/no/mcp.json", "environment=search", "set environment: tools"},
        {"tools", "/no/mcp.json", "search_engine=bm25", "set environment: tools"},
        {"tools", "/no/mcp.json", "environment=none", "set environment: tools"},
        {"tools", "/no/mcp.json", "environment=rooms", "set environment: tools"},
        {"protocol_file", "/no/protocol.yaml", "environment=tools", "/no/protocol.yaml"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_config *c =
            tiny_config("model", train_path, out_pair("none"), rows[i].more, NULL);
        sr1_trainer *tr = NULL;

        OK(sr1_config_set(c, rows[i].key, rows[i].value));
        assert_int_not_equal(sr1_trainer_new(&tr, c, NULL), SR1_OK);
        if (!strstr(sr1_last_error(), rows[i].said))
            fail_msg("'%s' is not in: %s", rows[i].said, sr1_last_error());
        sr1_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_learns_with_an_mcp_tool_by_a_programs_reward),
        cmocka_unit_test(the_record_has_the_tools_answer),
        cmocka_unit_test(a_program_is_the_environment_and_the_engine),
        cmocka_unit_test(a_program_that_hangs_does_not_keep_a_stop),
        cmocka_unit_test(a_file_that_was_edited_is_told),
        cmocka_unit_test(programs_that_are_not_there_are_named),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
