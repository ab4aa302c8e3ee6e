/* Cursor, templates, demonstrations, record files. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "text/data/cursor.h"
#include "text/data/demo.h"
#include "text/data/jsonl.h"
#include "text/data/prompt_template.h"
#include "text/data/question.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void assert_error(sr1_status status, sr1_status expected, const char *part)
{
    if (status != expected || !strstr(sr1_last_error(), part))
        fail_msg("%s: '%s', not %s: '%s'", sr1_status_name(status), sr1_last_error(),
                 sr1_status_name(expected), part);
}

/* ---- cursor ---- */

static void an_epoch_uses_each_row_once(void **state)
{
    int64_t rows[3][10], batch[4];
    struct sr1__cursor *c = NULL;

    (void)state;
    assert_int_equal(sr1__cursor_new(&c, 10, 42, 1), SR1_OK);
    for (int epoch = 0; epoch < 3; epoch++) {
        static const size_t sizes[] = {4, 4, 2};
        int seen[10] = {0};
        size_t at = 0, n;

        for (int b = 0; b < 3; b++) {
            assert_int_equal(sr1__cursor_epoch(c), epoch);
            assert_int_equal(sr1__cursor_next(c, 4, batch, &n), SR1_OK);
            assert_int_equal(n, sizes[b]);
            for (size_t i = 0; i < n; i++) {
                rows[epoch][at++] = batch[i];
                seen[batch[i]]++;
            }
        }
        for (int i = 0; i < 10; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_not_equal(rows[1], rows[2], sizeof rows[0]);
    assert_error(sr1__cursor_next(c, 0, batch, &(size_t){0}), SR1_E_INVALID, "no rows");
    sr1__cursor_free(c);
    sr1__cursor_free(NULL);
}

static void a_sought_cursor_continues(void **state)
{
    struct sr1__cursor *a = NULL, *b = NULL;
    int64_t x[7], y[7];
    size_t n, m;

    (void)state;
    assert_int_equal(sr1__cursor_new(&a, 100, 7, 1), SR1_OK);
    for (int step = 0; step < 60; step++) {
        assert_int_equal(sr1__cursor_new(&b, 100, 7, 1), SR1_OK);
        assert_int_equal(
            sr1__cursor_seek(b, sr1__cursor_epoch(a), sr1__cursor_position(a)), SR1_OK);
        assert_int_equal(sr1__cursor_next(a, 7, x, &n), SR1_OK);
        assert_int_equal(sr1__cursor_next(b, 7, y, &m), SR1_OK);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n * sizeof *x);
        sr1__cursor_free(b);
    }
    assert_error(sr1__cursor_seek(a, 0, 100), SR1_E_CORRUPT, "position 100 of 100");
    assert_error(sr1__cursor_seek(a, -1, 0), SR1_E_CORRUPT, "position");
    sr1__cursor_free(a);
    assert_error(sr1__cursor_new(&a, 0, 7, 1), SR1_E_INVALID, "no rows");
    assert_int_equal(sr1__cursor_new(&a, 5, 7, 0), SR1_OK);
    assert_int_equal(sr1__cursor_next(a, 7, x, &n), SR1_OK);
    assert_true(n == 5 && x[0] == 0 && x[4] == 4);
    sr1__cursor_free(a);
}

static sr1_status make_cursor(void *arg)
{
    struct sr1__cursor *c = NULL;
    sr1_status status = sr1__cursor_new(&c, 10, 1, 1);

    (void)arg;
    sr1__cursor_free(c);
    return status;
}

/* ---- templates ---- */

static const char *const names[] = {"question", "turns"};

static void templates_render_once(void **state)
{
    static const char *const values[] = {"{{turns}} and {{x}}", "4"};
    static const char *const rows[][2] = {
        {"", ""},
        {"no places { } {x}", "no places { } {x}"},
        {"Q: {{question}}\n", "Q: {{turns}} and {{x}}\n"},
        {"{{turns}}{{ turns }}-{{question}}", "44-{{turns}} and {{x}}"},
        {"}} {{turns}}", "}} 4"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sr1__prompt_template *t = NULL;
        struct sr1__buf b;

        assert_int_equal(
            sr1__prompt_template_parse(&t, rows[i][0], strlen(rows[i][0]), "t", names, 2),
            SR1_OK);
        sr1__buf_init(&b, 0);
        assert_int_equal(sr1__prompt_template_render(t, values, &b, NULL), SR1_OK);
        assert_string_equal(sr1__buf_cstr(&b), rows[i][1]);
        sr1__buf_free(&b);
        sr1__prompt_template_free(t);
    }
    sr1__prompt_template_free(NULL);
}

static void bad_templates(void **state)
{
    static const char *const rows[][2] = {
        {"a\n{{quest}}",
         "t:2: {{quest}} is not known here; known: {{question}}, {{turns}}"},
        {"a\n\n{{question", "t:3: '{{' without '}}'"},
        {"{{}}", "{{}} is not known"},
        {"{{ }}", "is not known"},
        {"{{{question}}}", "is not known"},
        {"\x80", "UTF-8"},
    };
    char many[5200];
    struct sr1__prompt_template *t = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_error(
            sr1__prompt_template_parse(&t, rows[i][0], strlen(rows[i][0]), "t", names, 2),
            SR1_E_PARSE, rows[i][1]);
    assert_error(sr1__prompt_template_parse(&t, "a\0b", 3, "t", names, 2), SR1_E_PARSE,
                 "NUL");
    assert_error(sr1__prompt_template_parse(&t, "{{x}}", 5, "t", NULL, 0), SR1_E_PARSE,
                 "known: none");
    assert_error(
        sr1__question_template(&t, scratch_file("same.txt", "Think, then answer.\n", 0)),
        SR1_E_PARSE, "{{question}} does not stand in it");
    for (size_t i = 0; i < 520; i++)
        memcpy(many + 9 * i, "{{turns}}", 9);
    assert_error(sr1__prompt_template_parse(&t, many, 9 * 520, "t", names, 2),
                 SR1_E_LIMIT, "places");
    assert_error(sr1__prompt_template_load(&t, scratch_path("gone.txt"), names, 2),
                 SR1_E_IO, "gone.txt");
    assert_error(
        sr1__prompt_template_load(&t, scratch_file("p.txt", "x\n{{y}}", 0), names, 2),
        SR1_E_PARSE, "p.txt:2");
    assert_null(t);
}

static void built_in_templates(void **state)
{
    static const char *const tags[] = {"<think>",   "</think>",      "<search>",
                                       "</search>", "<information>", "</information>",
                                       "<answer>",  "</answer>"};
    static const char *const places[] = {"tools", "question", "marked_question"};
    const char *text = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(sr1__prompt_template_builtin("search-r1", &text, &n), SR1_OK);
    assert_int_equal(strlen(text), n);
    for (size_t i = 0; i < COUNT(tags); i++)
        assert_non_null(strstr(text, tags[i]));
    assert_int_equal(sr1__prompt_template_builtin("answer-only", &text, &n), SR1_OK);
    assert_null(strstr(text, "<search>"));
    assert_int_equal(sr1__prompt_template_builtin("search-r1", &text, NULL), SR1_OK);
    assert_null(strstr(text, "{{"));
    assert_int_equal(sr1__prompt_template_builtin("mt-grpo", &text, NULL), SR1_OK);
    assert_non_null(strstr(text, "{{tools}}"));
    assert_non_null(strstr(text, "<tool> {\"name\""));
    for (size_t i = 0; i < sr1__n_builtin_templates; i++) {
        struct sr1__prompt_template *t = NULL;

        assert_int_equal(
            sr1__prompt_template_builtin(sr1__builtin_templates[i].name, &text, &n),
            SR1_OK);
        assert_int_equal(
            sr1__prompt_template_parse(&t, text, n, "built-in", places, COUNT(places)),
            SR1_OK);
        sr1__prompt_template_free(t);
    }
    assert_error(sr1__prompt_template_builtin("none", &text, &n), SR1_E_NOT_FOUND,
                 "search-r1, mt-grpo, rlvcr, hermes, qwen3-coder, llama3, answer-only");
}

static sr1_status make_template(void *arg)
{
    static const char *const values[] = {"q", "4"};
    struct sr1__prompt_template *t = NULL;
    struct sr1__buf b;
    sr1_status status = sr1__prompt_template_load(&t, arg, names, 2);

    sr1__buf_init(&b, 0);
    if (status == SR1_OK)
        status = sr1__prompt_template_render(t, values, &b, NULL);
    sr1__buf_free(&b);
    sr1__prompt_template_free(t);
    return status;
}

/* ---- demonstrations ---- */

static const char demo_rows[] =
    "{\"question\":\"Q\",\"segments\":[{\"source\":\"policy\",\"text\":\"<think>\"},"
    "{\"source\":\"environment\",\"text\":\"E\"},{\"source\":\"policy\",\"text\":\"A\"}]}"
    "\n"
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\","
    "\"content\":\"U\"},"
    "{\"role\":\"assistant\",\"content\":\"A\"}]}\n";

static void the_forms_of_demonstrations(void **state)
{
    struct sr1__demos *d = NULL;
    struct sr1__demo demo;

    (void)state;
    assert_int_equal(sr1__demos_open(&d, scratch_file("d.jsonl", demo_rows, 0)), SR1_OK);
    assert_int_equal(sr1__demos_count(d), 2);
    assert_int_equal(sr1__demos_read(d, 0, &demo), SR1_OK);
    assert_string_equal(demo.question, "Q");
    assert_int_equal(demo.n_segments, 3);
    assert_true(!demo.is_chat && demo.segments[0].is_policy &&
                !demo.segments[1].is_policy);
    assert_string_equal(demo.segments[1].text, "E");
    assert_null(demo.segments[1].role);
    sr1__demo_clear(&demo);
    assert_int_equal(sr1__demos_read(d, 1, &demo), SR1_OK);
    assert_string_equal(demo.question, "U");
    assert_int_equal(demo.n_segments, 3);
    assert_true(demo.is_chat && demo.segments[2].is_policy &&
                !demo.segments[0].is_policy);
    assert_string_equal(demo.segments[2].role, "assistant");
    sr1__demo_clear(&demo);
    assert_error(sr1__demos_read(d, 2, &demo), SR1_E_INVALID, "row 2 of 2");
    sr1__demos_free(d);
    sr1__demos_free(NULL);
}

static void a_conversation_stands_before_the_question(void **state)
{
    static const char row[] =
        "{\"question\":\"Q\",\"history\":[{\"role\":\"system\",\"content\":\"S\"},"
        "{\"role\":\"user\",\"content\":\"U\"}],"
        "\"segments\":[{\"source\":\"policy\",\"text\":\"A\"}]}\n";
    struct sr1__demos *d = NULL;
    struct sr1__demo demo;

    (void)state;
    assert_int_equal(sr1__demos_open(&d, scratch_file("h.jsonl", row, 0)), SR1_OK);
    assert_int_equal(sr1__demos_read(d, 0, &demo), SR1_OK);
    assert_int_equal(demo.history.n, 2);
    assert_string_equal(demo.history.roles[0], "system");
    assert_string_equal(demo.history.texts[1], "U");
    sr1__demo_clear(&demo);
    sr1__demos_free(d);
}

static void what_has_no_weight_is_context(void **state)
{
    static const char row[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"},"
        "{\"role\":\"assistant\",\"content\":\"A\",\"weight\":0},"
        "{\"role\":\"user\",\"content\":\"V\",\"weight\":1},"
        "{\"role\":\"assistant\",\"content\":\"B\",\"weight\":1}]}\n";
    struct sr1__demos *d = NULL;
    struct sr1__demo demo;

    (void)state;
    assert_int_equal(sr1__demos_open(&d, scratch_file("w.jsonl", row, 0)), SR1_OK);
    assert_int_equal(sr1__demos_read(d, 0, &demo), SR1_OK);
    assert_false(demo.segments[1].is_policy);
    assert_false(demo.segments[2].is_policy);
    assert_true(demo.segments[3].is_policy);
    sr1__demo_clear(&demo);
    sr1__demos_free(d);
}

/* A prompt and its completion, as TRL has them: the loss counts the completion. */
static void a_prompt_and_its_completion_are_a_conversation(void **state)
{
    static const char text[] = "{\"prompt\":\"U\",\"completion\":\"A\"}\n";
    static const char lists[] =
        "{\"prompt\":[{\"role\":\"user\",\"content\":\"U\"},"
        "{\"role\":\"assistant\",\"content\":\"B\"},"
        "{\"role\":\"user\",\"content\":\"V\"}],"
        "\"completion\":[{\"role\":\"assistant\",\"content\":\"A\"}]}\n";
    static const char *const rows[] = {text, lists};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sr1__demos *d = NULL;
        struct sr1__demo demo;

        assert_int_equal(sr1__demos_open(&d, scratch_file("p.jsonl", rows[i], 0)),
                         SR1_OK);
        assert_int_equal(sr1__demos_read(d, 0, &demo), SR1_OK);
        assert_true(demo.is_chat);
        assert_string_equal(demo.question, "U");
        assert_int_equal(demo.n_segments, i ? 4 : 2);
        for (size_t k = 0; k < demo.n_segments; k++)
            assert_int_equal(demo.segments[k].is_policy, k + 1 == demo.n_segments);
        assert_string_equal(demo.segments[demo.n_segments - 1].role, "assistant");
        assert_string_equal(demo.segments[demo.n_segments - 1].text, "A");
        sr1__demo_clear(&demo);
        sr1__demos_free(d);
    }
}

static void bad_demonstrations(void **state)
{
    static const char *const rows[][2] = {
        {"{}", "e.jsonl:1: a demonstration has either"},
        {"{\"segments\":[],\"messages\":[]}", "has either"},
        {"{\"messages\":[],\"completion\":\"x\"}", "has either"},
        {"{\"completion\":\"x\"}",
         "'prompt' must be text, or a list of messages that is not empty"},
        {"{\"prompt\":\"x\",\"completion\":[]}", "'completion' must be text"},
        {"{\"prompt\":\"x\",\"completion\":\"\"}", "nothing to learn"},
        {"{\"prompt\":\"x\",\"completion\":[{\"role\":\"user\",\"content\":\"x\"}]}",
         "nothing to learn: 'completion' holds no text by the policy"},
        {"{\"prompt\":[{\"role\":\"bot\",\"content\":\"x\"}],\"completion\":\"x\"}",
         "prompt[0]: 'role' is 'bot'"},
        {"{\"question\":\"Q\",\"history\":\"x\",\"segments\":[{\"source\":\"policy\","
         "\"text\":\"A\"}]}",
         "'history' is no list"},
        {"{\"question\":\"Q\",\"history\":[{\"role\":\"tool\",\"content\":\"\"}],"
         "\"segments\":[{\"source\":\"policy\",\"text\":\"A\"}]}",
         "message 0: its role 'tool'"},
        {"{\"segments\":[{\"source\":\"policy\",\"text\":\"x\"}]}",
         "'question' is missing"},
        {"{\"question\":\"q\",\"segments\":[]}",
         "'segments' must be a list that is not empty"},
        {"{\"question\":\"q\",\"segments\":3}", "'segments' must be a list"},
        {"{\"question\":\"q\",\"segments\":[3]}", "segments[0]"},
        {"{\"question\":\"q\",\"segments\":[{\"source\":\"me\",\"text\":\"x\"}]}",
         "segments[0]: 'source' is 'me', not policy or environment"},
        {"{\"question\":\"q\",\"segments\":[{\"source\":\"policy\",\"text\":3}]}",
         "'text' is an integer"},
        {"{\"question\":\"q\",\"segments\":[{\"source\":\"policy\",\"text\":\"a\\u0000\"}"
         "]}",
         "NUL"},
        {"{\"question\":\"q\",\"segments\":[{\"source\":\"environment\",\"text\":\"x\"}]"
         "}",
         "nothing to learn"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}",
         "no message of the user"},
        {"{\"messages\":[{\"role\":\"bot\",\"content\":\"x\"}]}", "'role' is 'bot'"},
        {"{\"tools\":\"[]\\u0000\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"assistant\",\"content\":\"x\"}]}",
         "'tools' holds a NUL"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"weight\":0.5}]}",
         "messages[0]: 'weight' must be 0 or 1"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"assistant\",\"content\":\"x\",\"weight\":0}]}",
         "nothing to learn"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{}]},"
         "{\"role\":\"assistant\",\"content\":\"x\"}]}",
         "messages[1]: tool_calls[0]: a tool call needs 'name' and 'arguments'"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":\"[1]\"}]"
         "}]"
         "}",
         "messages[1]: tool_calls[0]: 'arguments' of a tool call are no JSON object"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":\"{\"}]}]"
         "}",
         "messages[1]: tool_calls[0]: 'arguments' of a tool call"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"assistant\",\"tool_calls\":[]}]}",
         "'content' is missing"},
        {"{\"question\":\"q\",\"segments\":[{\"source\":\"policy\",\"text\":\"x\","
         "\"reasoning_content\":\"y\"}]}",
         "segments[0]: 'tool_calls' and 'reasoning_content' are members of 'messages'"},
        {"\n\n{\"messages\":", "e.jsonl:3"},
    };
    struct sr1__demos *d = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_error(sr1__demos_open(&d, scratch_file("e.jsonl", rows[i][0], 0)),
                     SR1_E_PARSE, rows[i][1]);
        assert_non_null(strstr(sr1_last_error(), "e.jsonl:"));
    }
    assert_null(d);
}

static sr1_status read_demos(void *path)
{
    struct sr1__demos *d = NULL;
    sr1_status status = sr1__demos_open(&d, path);

    sr1__demos_free(d);
    return status;
}

/* ---- record files ---- */

static void assert_holds(const char *path, const char *text)
{
    struct sr1__buf b;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), text);
    sr1__buf_free(&b);
}

static sr1_status add_number(struct sr1__jsonl *w, int v)
{
    json_t *j = json_pack("{s:i}", "v", v);
    sr1_status status = j ? sr1__jsonl_add(w, j) : sr1__fail_nomem("record");

    json_decref(j);
    return status;
}

static void records_append_and_torn_ones_go(void **state)
{
    const char *path = scratch_path("m.jsonl");
    struct sr1__jsonl *w = NULL;

    (void)state;
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(add_number(w, 1), SR1_OK);
    assert_holds(path, "{\"v\":1}\n"); /* before it is closed */
    sr1__jsonl_close(w);
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(sr1__jsonl_size(w), 8);
    assert_int_equal(add_number(w, 2), SR1_OK);
    assert_int_equal(add_number(w, 3), SR1_OK);
    assert_int_equal(sr1__jsonl_truncate(w, 16), SR1_OK);
    assert_int_equal(add_number(w, 4), SR1_OK);
    assert_error(sr1__jsonl_truncate(w, 25), SR1_E_CORRUPT, "24 bytes long");
    sr1__jsonl_close(w);
    assert_holds(path, "{\"v\":1}\n{\"v\":2}\n{\"v\":4}\n");
    scratch_file("m.jsonl", "{\"v\":1}\n{\"v\":", 0);
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(add_number(w, 5), SR1_OK);
    sr1__jsonl_close(w);
    assert_holds(path, "{\"v\":1}\n{\"v\":5}\n");
    scratch_file("m.jsonl", "{\"v\":1}\n{\"v\": 6}", 0); /* by hand */
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(sr1__jsonl_size(w), 17);
    assert_int_equal(add_number(w, 7), SR1_OK);
    sr1__jsonl_close(w);
    assert_holds(path, "{\"v\":1}\n{\"v\": 6}\n{\"v\":7}\n");
    scratch_file("m.jsonl", "{\"v\":1}\n[8]", 0);
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    sr1__jsonl_close(w);
    assert_holds(path, "{\"v\":1}\n");
    sr1__jsonl_close(NULL);
}

static void records_have_one_writer(void **state)
{
    const char *path = scratch_path("one.jsonl");
    struct sr1__jsonl *w = NULL, *other = NULL;

    (void)state;
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(add_number(w, 1), SR1_OK);
    assert_error(sr1__jsonl_open(&other, path), SR1_E_STATE,
                 "is being written, here or by another");
    assert_null(other);
    sr1__jsonl_close(w);
    assert_int_equal(sr1__jsonl_open(&other, path), SR1_OK);
    sr1__jsonl_close(other);
    assert_holds(path, "{\"v\":1}\n");
}

static void a_torn_line_longer_than_a_piece(void **state)
{
    static char torn[9000];
    const char *path;
    struct sr1__jsonl *w = NULL;

    (void)state;
    memset(torn, 'x', sizeof torn);
    path = scratch_file("torn.jsonl", torn, sizeof torn);
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(sr1__jsonl_size(w), 0);
    sr1__jsonl_close(w);
    torn[0] = '\n';
    scratch_file("torn.jsonl", torn, sizeof torn);
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(sr1__jsonl_size(w), 1);
    sr1__jsonl_close(w);
    assert_error(sr1__jsonl_open(&w, scratch_path("no/such.jsonl")), SR1_E_IO,
                 "such.jsonl");
    assert_error(sr1__jsonl_open(&w, "/dev/null"), SR1_E_IO, "not a regular file");
}

static int read_error; /* of pread; 0: it reads, -1: the file has ended */

/* In place of the system's. */
ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    if (read_error > 0)
        errno = read_error;
    return read_error ? (read_error > 0 ? -1 : 0)
                      : syscall(SYS_pread64, fd, bytes, n, at);
}

static void a_file_that_cannot_be_read_says_why(void **state)
{
    const char *path = scratch_file("r.jsonl", "{\"v\":1}\n", 0);
    struct sr1__jsonl *w = NULL;

    (void)state;
    read_error = EIO;
    assert_error(sr1__jsonl_open(&w, path), SR1_E_IO, strerror(EIO));
    read_error = -1;
    errno = 0;
    assert_error(sr1__jsonl_open(&w, path), SR1_E_IO, "was cut while it was opened");
    read_error = 0;
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    sr1__jsonl_close(w);
}

static void a_full_disk_leaves_whole_lines(void **state)
{
    const char *path = scratch_path("full.jsonl");
    struct rlimit old, small;
    struct sr1__jsonl *w = NULL;
    sr1_status status;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(sr1__jsonl_open(&w, path), SR1_OK);
    assert_int_equal(add_number(w, 1), SR1_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 12;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    status = add_number(w, 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_error(status, SR1_E_IO, "full.jsonl");
    assert_holds(path, "{\"v\":1}\n");
    assert_int_equal(add_number(w, 3), SR1_OK);
    sr1__jsonl_close(w);
    assert_holds(path, "{\"v\":1}\n{\"v\":3}\n");
}

static sr1_status write_records(void *path)
{
    struct sr1__jsonl *w = NULL;
    sr1_status status = sr1__jsonl_open(&w, path);

    if (status == SR1_OK)
        status = add_number(w, 1);
    sr1__jsonl_close(w);
    return status;
}

static void memory_may_fail(void **state)
{
    char template[600], demos[600], records[600];

    (void)state;
    snprintf(template, sizeof template, "%s",
             scratch_file("t.txt", "{{turns}} {{question}}", 0));
    snprintf(demos, sizeof demos, "%s", scratch_file("d.jsonl", demo_rows, 0));
    snprintf(records, sizeof records, "%s", scratch_path("r.jsonl"));
    assert_int_equal(torture(make_cursor, NULL), 2);
    assert_true(torture(make_template, template) > 3);
    assert_true(torture(read_demos, demos) > 20);
    assert_true(torture(write_records, records) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_uses_each_row_once),
        cmocka_unit_test(a_sought_cursor_continues),
        cmocka_unit_test(templates_render_once),
        cmocka_unit_test(bad_templates),
        cmocka_unit_test(built_in_templates),
        cmocka_unit_test(the_forms_of_demonstrations),
        cmocka_unit_test(a_conversation_stands_before_the_question),
        cmocka_unit_test(what_has_no_weight_is_context),
        cmocka_unit_test(a_prompt_and_its_completion_are_a_conversation),
        cmocka_unit_test(bad_demonstrations),
        cmocka_unit_test(records_append_and_torn_ones_go),
        cmocka_unit_test(records_have_one_writer),
        cmocka_unit_test(a_torn_line_longer_than_a_piece),
        cmocka_unit_test(a_file_that_cannot_be_read_says_why),
        cmocka_unit_test(a_full_disk_leaves_whole_lines),
        cmocka_unit_test(memory_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
