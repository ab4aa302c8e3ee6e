/* sr1-infer, sr1-eval and sr1-data synth with a server that answers: output, exit codes,
 * demonstrations that can be learned from, and a synthesis that goes on where it was. */
#include "support/openai_server.h"

#include "base/file.h"
#include "text/data/demo.h"

#include <searchr1/ext/synthesis.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct openai_server server;
static char url[128], facts[512], questions[512], model[512];

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    snprintf(model, sizeof model, "%s", scratch_path("searcher"));
    snprintf(facts, sizeof facts, "mock_knowledge=%s", tiny_knowledge("facts.json"));
    snprintf(questions, sizeof questions, "%s", tiny_questions("test.jsonl", 5));
    return 0;
}

static void serve(void)
{
    openai_start(&server, model);
    snprintf(url, sizeof url, "openai_base_url=%s/v1", server.http.url);
}

/* Run a tool of the build with these words and those of the server; its exit code. What
 * it prints goes to the files out and err of the scratch folder. */
static int call(const char *const *words)
{
    static const char *const base[] = {"prompt_template=none", "document_format=plain",
                                       "use_openai=true",      "openai_concurrency=2",
                                       "max_tokens=24",        "max_turns=2",
                                       "openai_retries=0"};
    const char *argv[32];
    char tool[512];
    size_t n = 0;
    int status;
    pid_t pid;

    snprintf(tool, sizeof tool, "%s/tools/%s", getenv("SR1_BUILD"), words[0]);
    argv[n++] = tool;
    for (size_t i = 1; words[i]; i++)
        argv[n++] = words[i];
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        argv[n++] = base[i];
    argv[n++] = url;
    argv[n++] = facts;
    argv[n] = NULL;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(open(scratch_path("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
        dup2(open(scratch_path("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
        execv(tool, (char *const *)(uintptr_t)argv);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
#define CALL(...) call((const char *const[]){__VA_ARGS__, NULL})

static const char *said(const char *name)
{
    static char text[65536];
    FILE *f = fopen(scratch_path(name), "r");
    size_t n = fread(text, 1, sizeof text - 1, f);

    fclose(f);
    text[n] = '\0';
    return text;
}

static void says(const char *name, const char *text)
{
    if (!strstr(said(name), text))
        fail_msg("'%s' is not in %s: %s", text, name, said(name));
}

static void sr1_infer_shows_what_the_server_says(void **state)
{
    char talk[512];

    (void)state;
    snprintf(
        talk, sizeof talk, "%s",
        scratch_file("talk.json", "[{\"role\": \"user\", \"content\": \"Well?\"}]", 0));
    serve();
    assert_int_equal(CALL("sr1-infer", model, "--question", "Where is the tower?"), 0);
    says("out", "<search> tower</search>");
    says("out", "The tower stands in Paris.");
    says("out", "(answer; 6 tokens, 1 action)");
    assert_int_equal(CALL("sr1-infer", model, "--question", "Where?", "--history", talk,
                          "openai_endpoint=chat"),
                     0);
    assert_non_null(strstr(server.http.last, "\"content\":\"Well?\""));
    server.fail_code = 401;
    server.fail_every = 1;
    assert_int_equal(CALL("sr1-infer", model, "--question", "Where?"), 1);
    says("err", "HTTP 401");
    openai_stop(&server);
    assert_int_equal(CALL("sr1-infer", model, "--question", "Where?"), 1);
    says("err", "is a model served there?");
}

static void sr1_eval_scores_the_server(void **state)
{
    (void)state;
    serve();
    assert_int_equal(CALL("sr1-eval", model, questions, "--json"), 0);
    says("out", "\"rows\": 5");
    says("out", "\"answered\": 1.0");
    says("err", "10 answers of the server: 10 with token ids");
    server.fail_code = 500;
    server.fail_every = 5; /* some rows cannot be scored */
    assert_int_equal(CALL("sr1-eval", model, questions), 1);
    says("err", " not among the rows"); /* one or two of them */
    openai_stop(&server);
}

/* What --force replaces is there until all of the new file is. */
static void trajectories_are_replaced_by_whole_ones(void **state)
{
    char path[512], part[600];

    (void)state;
    snprintf(path, sizeof path, "%s", scratch_file("kept.jsonl", "mine\n", 0));
    snprintf(part, sizeof part, "%s.part", path);
    serve();
    server.fail_code = 401;
    server.fail_every = 8;
    assert_int_equal(
        CALL("sr1-eval", model, questions, "--trajectories", path, "--force"), 1);
    says("err", "HTTP 401");
    assert_string_equal(said("kept.jsonl"), "mine\n");
    assert_int_not_equal(access(part, F_OK), 0);
    server.fail_every = 0;
    server.fail_code = 0;
    assert_int_equal(
        CALL("sr1-eval", model, questions, "--trajectories", path, "--force"), 0);
    says("kept.jsonl", "\"generated_text\"");
    assert_int_not_equal(access(part, F_OK), 0);
    openai_stop(&server);
}

/* ---- demonstrations ---- */

static int64_t count_demos(const char *path)
{
    struct sr1__demos *d = NULL;
    int64_t n;

    OK(sr1__demos_open(&d, path));
    n = sr1__demos_count(d);
    sr1__demos_free(d);
    return n;
}

static void good_trajectories_become_demonstrations(void **state)
{
    char out[512];
    struct sr1__demos *d = NULL;
    struct sr1__demo demo;

    (void)state;
    serve();
    snprintf(out, sizeof out, "%s", scratch_path("demos.jsonl"));
    assert_int_equal(CALL("sr1-data", "synth", model, questions, out, "--samples", "8",
                          "--min-reward", "1", "rewards=exact_match"),
                     0);
    says("out", "5 demonstrations from 40 trajectories of 5 questions");
    says("err", "with token ids");
    assert_int_equal(count_demos(out), 5);
    OK(sr1__demos_open(&d, out));
    OK(sr1__demos_read(d, 2, &demo));
    assert_string_equal(demo.question, "Where is tower 2?");
    assert_int_equal(demo.n_segments, 3);
    assert_string_equal(demo.segments[0].text, "<search> tower</search>");
    assert_int_equal(demo.segments[1].is_policy, 0);
    assert_non_null(strstr(demo.segments[1].text, "<information>"));
    assert_string_equal(demo.segments[2].text, "<answer> Paris</answer>");
    sr1__demo_clear(&demo);
    sr1__demos_free(d);
    says("demos.jsonl", "\"reward\":1");
    says("demos.jsonl", "\"model\":\"tiny\"");
    openai_stop(&server);
}

/* As many questions as in the file of the others. */
static const char *of_others(void)
{
    return scratch_file("others.jsonl",
                        "{\"question\": \"a?\", \"golden_answers\": [\"Paris\"]}\n"
                        "{\"question\": \"b?\", \"golden_answers\": [\"Paris\"]}\n"
                        "{\"question\": \"c?\", \"golden_answers\": [\"Paris\"]}\n"
                        "{\"question\": \"d?\", \"golden_answers\": [\"Paris\"]}\n"
                        "{\"question\": \"e?\", \"golden_answers\": [\"Paris\"]}\n",
                        0);
}

/* The conversation of a row is in the demonstration, and read back. */
static void demonstrations_have_their_history(void **state)
{
    const char *rows = scratch_file(
        "talks.jsonl",
        "{\"question\": \"Where is the tower?\", \"golden_answers\": [\"Paris\"], "
        "\"talk\": [{\"role\": \"user\", \"content\": \"Well?\"}, {\"role\": "
        "\"assistant\", \"content\": \"So.\"}]}\n",
        0);
    char out[512], questions_file[512];
    struct sr1__demos *d = NULL;
    struct sr1__demo demo;

    (void)state;
    serve();
    snprintf(questions_file, sizeof questions_file, "%s", rows);
    snprintf(out, sizeof out, "%s", scratch_path("talked.jsonl"));
    assert_int_equal(CALL("sr1-data", "synth", model, questions_file, out, "--greedy",
                          "--min-reward", "-9", "history_field=talk"),
                     0);
    OK(sr1__demos_open(&d, out));
    OK(sr1__demos_read(d, 0, &demo));
    assert_int_equal(demo.history.n, 2);
    assert_string_equal(demo.history.roles[1], "assistant");
    assert_string_equal(demo.history.texts[1], "So.");
    sr1__demo_clear(&demo);
    sr1__demos_free(d);
    openai_stop(&server);
}

static void a_synthesis_goes_on_where_it_was(void **state)
{
    char out[512], whole[512], state_file[600];
    struct sr1__buf a, b;
    int asked;

    (void)state;
    serve();
    snprintf(whole, sizeof whole, "%s", scratch_path("whole.jsonl"));
    snprintf(out, sizeof out, "%s", scratch_path("parts.jsonl"));
    assert_int_equal(CALL("sr1-data", "synth", model, questions, whole, "--min-reward",
                          "-9", "--seed", "3", "--samples", "8"),
                     0);
    /* the first chunk (two threads: 8 trajectories) is one question; then it fails */
    server.completions = 0;
    server.fail_code = 401;
    server.fail_every = 40;
    assert_int_equal(CALL("sr1-data", "synth", model, questions, out, "--min-reward",
                          "-9", "--seed", "3", "--samples", "8"),
                     1);
    assert_in_range(count_demos(out), 1, 4);
    server.fail_code = 0;
    asked = server.completions;
    assert_int_equal(CALL("sr1-data", "synth", model, questions, out, "--min-reward",
                          "-9", "--seed", "3", "--samples", "8"),
                     0);
    says("out", "were done before)");
    assert_true(server.completions - asked < 5 * 16);
    OK(sr1__file_read(whole, 0, &a));
    OK(sr1__file_read(out, 0, &b));
    assert_string_equal(sr1__buf_cstr(&a), sr1__buf_cstr(&b));
    sr1__buf_free(&a);
    sr1__buf_free(&b);
    /* it is done: nothing more is asked */
    asked = server.completions;
    assert_int_equal(CALL("sr1-data", "synth", model, questions, out, "--min-reward",
                          "-9", "--seed", "3", "--samples", "8"),
                     0);
    assert_int_equal(server.completions, asked);
    /* other settings, and files of others */
    assert_int_equal(CALL("sr1-data", "synth", model, questions, out, "--seed", "4"), 1);
    says("err", "was made with other settings");
    assert_int_equal(CALL("sr1-data", "synth", model, questions, out, "--min-reward",
                          "-9", "--seed", "3", "--samples", "8", "rewards=format"),
                     1);
    says("err", "was made with other settings, questions or rewards");
    assert_int_equal(CALL("sr1-data", "synth", model, questions, out, "--min-reward",
                          "-9", "--seed", "3", "--samples", "8",
                          "similarity_threshold=0.9"),
                     1);
    says("err", "was made with other settings, questions or rewards");
    assert_int_equal(CALL("sr1-data", "synth", model, of_others(), out, "--min-reward",
                          "-9", "--seed", "3", "--samples", "8"),
                     1);
    says("err", "was made with other settings, questions or rewards");
    snprintf(state_file, sizeof state_file, "%s",
             scratch_file("notes.txt", "not ours", 0));
    assert_int_equal(CALL("sr1-data", "synth", model, questions, state_file), 1);
    says("err", "was not begun by this");
    assert_string_equal(said("notes.txt"), "not ours");
    openai_stop(&server);
}

/* What is written is what the sft stage reads as the same tokens. */
static void a_trajectory_that_is_no_example_is_refused(void **state)
{
    sr1_rollout *r;
    sr1_query q = tiny_query("Where is the tower?");
    sr1_rollout_options o = {
        .struct_size = sizeof o, .group_size = 1, .greedy = 1, .max_tokens = 2};
    sr1_trajectory *t = NULL;
    char *text = NULL;
    size_t n;

    (void)state;
    r = tiny_rollout(tiny_config("searcher", NULL), tiny_engine());
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    REFUSED(sr1_rollout_demonstration(r, t, &text, &n), SR1_E_UNSUPPORTED,
            "has no answer");
    sr1_trajectory_free(t);
    o.max_tokens = 0;
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    OK(sr1_rollout_demonstration(r, t, &text, &n));
    assert_int_equal(strlen(text), n);
    assert_non_null(
        strstr(text, "\"segments\":[{\"source\":\"policy\",\"text\":\"<search>"));
    assert_null(strstr(text, "\"model\""));
    sr1_free(text);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sr1_infer_shows_what_the_server_says),
        cmocka_unit_test(sr1_eval_scores_the_server),
        cmocka_unit_test(trajectories_are_replaced_by_whole_ones),
        cmocka_unit_test(good_trajectories_become_demonstrations),
        cmocka_unit_test(demonstrations_have_their_history),
        cmocka_unit_test(a_synthesis_goes_on_where_it_was),
        cmocka_unit_test(a_trajectory_that_is_no_example_is_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("openai_tools", tests, make, scratch_remove);
}
