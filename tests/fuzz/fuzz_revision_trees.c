/* fuzz_revision_trees.c - nodes read from the lines of any file: revision trees that take
 * one are whole, and its figures are within their bounds. */
#include "fuzz.h"

#include "base/json.h"
#include "environment/critique/revision_trees.h"

#include <string.h>

static const char rows[] = "{\"id\": \"a\", \"problem\": \"P\", \"tests\": [\"x\"]}\n"
                           "{\"id\": \"b\", \"problem\": \"Q\", \"tests\": [\"y\"]}\n";

static sr1_status run(void *user, const sr1_problem *p, const char *answer, size_t len,
                      int32_t *verdict, double *pass_rate)
{
    (void)user, (void)p, (void)answer, (void)len, (void)verdict, (void)pass_rate;
    return SR1_OK;
}

static void check_node(const sr1_revision_trees *f, size_t i)
{
    sr1_revision_node n = {.struct_size = sizeof n};

    FUZZ_CHECK(sr1_revision_trees_node(f, i, &n) == SR1_OK);
    FUZZ_CHECK(n.pass_rate >= 0 && n.pass_rate <= 1);
    FUZZ_CHECK(n.judgement >= 0 && n.judgement <= 2);
    FUZZ_CHECK((n.depth == 0) == (n.kind == SR1_NODE_ROOT) && strlen(n.hash) == 40);
}

static void read_lines(sr1_revision_trees *f, const char *text, size_t size)
{
    while (size > 0) {
        const char *nl = memchr(text, '\n', size);
        size_t n = nl ? (size_t)(nl - text) : size;
        json_t *line = NULL;

        if (sr1__json_parse(&line, text, n, "line") == SR1_OK)
            (void)sr1__revision_trees_read(f, line);
        json_decref(line);
        text += n + (nl != NULL);
        size -= n + (nl != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sr1_revision_tree_options o = {.struct_size = sizeof o, .run = run};
    sr1_revision_tree_scores s = {.struct_size = sizeof s};
    sr1_revision_trees *f = NULL;

    FUZZ_CHECK(sr1_problems_parse(&o.problems, rows, strlen(rows), "rows", NULL) ==
               SR1_OK);
    FUZZ_CHECK(sr1_revision_trees_open(&f, &o) == SR1_OK);
    read_lines(f, (const char *)data, size);
    for (size_t i = 0; i < sr1_revision_trees_count(f); i++)
        check_node(f, i);
    for (int32_t k = 0; sr1_revision_trees_scores(f, k, &s) == SR1_OK; k++)
        FUZZ_CHECK(s.pass_at_1 >= 0 && s.pass_at_1 <= 1 && s.f1 >= 0 && s.f1 <= 1);
    sr1_revision_trees_free(f);
    sr1_problems_free(o.problems);
    return 0;
}
