/* Relative paths: of a file beside it, of the command line in the working folder. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/file.h"
#include "base/mem.h"
#include "config/config.h"
#include "config/paths.h"

#include <string.h>
#include <unistd.h>

static void ok(sr1_status st)
{
    if (st != SR1_OK)
        fail_msg("%s", sr1_last_error());
}

static sr1_config *load(const char *name, const char *text)
{
    sr1_config *c = NULL;

    ok(sr1_config_new(&c));
    (void)scratch_file(name, text, 0);
    ok(sr1_config_load(c, scratch_path(name)));
    return c;
}

/* The key is this path, below the scratch folder unless it begins with '='. */
static void is(const sr1_config *c, const char *key, const char *want)
{
    const char *got = NULL;

    ok(sr1_config_get_str(c, key, &got));
    if (*want == '=')
        assert_string_equal(got, want + 1);
    else
        assert_string_equal(got, scratch_path(want));
}

/* A folder named ~ would be made, and removed with the home that it was taken for. */
static void what_only_a_shell_expands_is_refused(void **state)
{
    static const char *const keys[] = {"out", "search_cache_dir", "train_file"};
    sr1_config *c = NULL;

    (void)state;
    ok(sr1_config_new(&c));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[64];

        assert_int_equal(sr1_config_set(c, keys[i], "~/x"), SR1_E_CONFIG);
        assert_non_null(strstr(sr1_last_error(), "only a shell expands ~"));
        assert_int_equal(sr1_config_set(c, keys[i], "~root/x"), SR1_E_CONFIG);
        assert_int_equal(sr1_config_set(c, keys[i], "~"), SR1_E_CONFIG);
        ok(sr1_config_set(c, keys[i], "./~/x"));
        ok(sr1_config_set(c, keys[i], "~x"));
        snprintf(text, sizeof text, "%s: ~/x\n", keys[i]);
        (void)scratch_file("tilde.yaml", text, 0);
        assert_int_equal(sr1_config_load(c, scratch_path("tilde.yaml")), SR1_E_CONFIG);
        assert_non_null(strstr(sr1_last_error(), "only a shell expands ~"));
    }
    sr1_config_free(c);
}

static void paths_of_a_file_are_beside_it(void **state)
{
    sr1_config *c;

    (void)state;
    ok(sr1__dir_make(scratch_path("recipes/models/tiny")));
    c = load("recipes/a.yaml",
             "train_file: data/train.jsonl\nsearch_index: ../wiki.bm25\n"
             "test_file: [t.jsonl, /abs/u.csv, ../v.json]\n"
             "validation_file: /abs/v.jsonl\nmodel_name_or_path: models/tiny\n"
             "proxy_model: Qwen/Qwen2.5-0.5B\ntokenizer: models/tiny/tok.json\n"
             "code_problems: [a.jsonl, /b.jsonl, sub/c.jsonl]\nmock_knowledge: ''\n"
             "sft_file: null\nout: runs/x\nname: data/train.jsonl\n"
             "prompt_template: none\nquestion_template: search-r1\n"
             "critique_template: none\n");
    is(c, "train_file", "recipes/data/train.jsonl");
    is(c, "search_index", "recipes/../wiki.bm25");
    is(c, "validation_file", "=/abs/v.jsonl");
    is(c, "model_name_or_path", "recipes/models/tiny");
    is(c, "proxy_model", "recipes/Qwen/Qwen2.5-0.5B"); /* never one of the cwd */
    is(c, "tokenizer", "recipes/models/tiny/tok.json");
    is(c, "mock_knowledge", "=");
    is(c, "sft_file", "=");
    is(c, "out", "=runs/x"); /* where one stands */
    is(c, "name", "=data/train.jsonl");
    is(c, "prompt_template", "=none");
    is(c, "question_template", "=search-r1");
    is(c, "critique_template", "recipes/none");
    {
        char want[2000];

        snprintf(want, sizeof want, "=%s,/b.jsonl,%s", scratch_path("recipes/a.jsonl"),
                 scratch_path("recipes/sub/c.jsonl"));
        is(c, "code_problems", want);
        snprintf(want, sizeof want, "=%s,/abs/u.csv,%s", scratch_path("recipes/t.jsonl"),
                 scratch_path("recipes/../v.json"));
        is(c, "test_file", want);
    }
    ok(sr1_config_set(c, "train_file", "data/train.jsonl")); /* a command line's */
    is(c, "train_file", "=data/train.jsonl");
    sr1_config_free(c);
}

static void a_file_here_gives_paths_from_here(void **state)
{
    sr1_config *c = NULL;
    char old[4096];

    (void)state;
    assert_non_null(getcwd(old, sizeof old));
    ok(sr1_config_new(&c));
    (void)scratch_file("recipes/b.json", "{\"train_file\": \"x.jsonl\"}", 0);
    assert_int_equal(chdir(scratch_path("recipes")), 0);
    ok(sr1_config_load(c, "b.json"));
    is(c, "train_file", "=x.jsonl");
    ok(sr1_config_load(c, "./b.json"));
    is(c, "train_file", "=./x.jsonl");
    ok(sr1_config_load(c, "../recipes/b.json"));
    is(c, "train_file", "=../recipes/x.jsonl");
    /* made absolute by the true name of the folder; a link stays */
    assert_int_equal(symlink("/nowhere/rows", "link.jsonl"), 0);
    ok(sr1_config_set(c, "validation_file", "../recipes/link.jsonl"));
    ok(sr1_config_set(c, "search_index", "gone/too.bm25"));
    ok(sr1_config_set(c, "out", "runs/x"));
    ok(sr1__config_paths_absolute(c));
    is(c, "train_file", "recipes/x.jsonl");
    is(c, "validation_file", "recipes/link.jsonl");
    is(c, "search_index", "recipes/gone/too.bm25");
    is(c, "out", "=runs/x");
    is(c, "model_name_or_path", "="); /* nobody set it */
    sr1_config_free(c);
    assert_int_equal(chdir(old), 0);
}

static void what_moved_along_is_found(void **state)
{
    static const struct {
        const char *was, *is;
    } cases[] = {
        {"/old/place/runs/one/served/a", "new/runs/one/served/a"}, /* in the run */
        {"/old/place/data/a", "new/data/a"},                       /* beside it */
        {"/old/place/data/gone", "=/old/place/data/gone"},
        {"/other/data/a", "=/other/data/a"},
        {"/old/placement/data/a", "=/old/placement/data/a"}, /* no whole name */
        {"/dev/null", "=/dev/null"},                         /* still there */
        {"data/a", "=data/a"},
    };
    sr1_config *c = NULL;

    (void)state;
    ok(sr1__dir_make(scratch_path("new/runs/one/served")));
    ok(sr1__dir_make(scratch_path("new/data")));
    (void)scratch_file("new/runs/one/served/a", "x", 0);
    (void)scratch_file("new/data/a", "x", 0);
    ok(sr1_config_new(&c));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ok(sr1_config_set(c, "out", "/old/place/runs/one"));
        ok(sr1_config_set(c, "search_index", cases[i].was));
        ok(sr1__config_paths_moved(c, scratch_path("new/runs/one")));
        is(c, "search_index", cases[i].is);
    }
    /* a folder of an older version, which does not know where it was */
    ok(sr1_config_set(c, "out", "runs/one"));
    ok(sr1_config_set(c, "search_index", "/old/place/data/a"));
    ok(sr1__config_paths_moved(c, scratch_path("new/runs/one")));
    is(c, "search_index", "=/old/place/data/a");
    sr1_config_free(c);
}

static void memory_may_fail(void **state)
{
    const char *path =
        scratch_file("recipes/m.yaml", "train_file: t.jsonl\ncode_problems: [a, b]\n", 0);
    int64_t live = sr1__mem_live();

    (void)state;
    for (int64_t i = 1;; i++) {
        sr1_config *c = NULL;
        sr1_status st = sr1_config_new(&c);

        assert_int_equal(st, SR1_OK);
        sr1__mem_fail_at(i);
        st = sr1_config_load(c, path);
        if (st == SR1_OK)
            st = sr1__config_paths_absolute(c);
        sr1__mem_fail_at(0);
        sr1_config_free(c);
        assert_int_equal(sr1__mem_live(), live);
        if (st == SR1_OK)
            break;
        assert_int_equal(st, SR1_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_only_a_shell_expands_is_refused),
        cmocka_unit_test(paths_of_a_file_are_beside_it),
        cmocka_unit_test(a_file_here_gives_paths_from_here),
        cmocka_unit_test(what_moved_along_is_found),
        cmocka_unit_test(memory_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
