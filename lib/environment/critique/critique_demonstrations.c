/* environment/critique/critique_demonstrations.c - from revision trees: demonstrations of
 * critiques, and rows to train critics on. */
#include "environment/critique/revision_trees.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/code/problems.h"
#include "text/data/row_files.h"

#include <string.h>

#define MAX_PROMPT 2048

/* ---- demonstrations ---- */

struct demo_selection {
    const struct sr1_revision_trees *f;
    const sr1_critique_demo_options *o;
    sr1_critique_demo_report r;
    struct sr1__file_writer *file;
    unsigned char *taught; /* [nodes] roots whose problem has a demonstration */
    unsigned char *fit;    /* [nodes] critiques that become one */
};

static int node_passes(const struct sr1__revision_node *n)
{
    return n->verdict == SR1_RUN_PASSED;
}

static const struct sr1__revision_node *judged_answer(const struct demo_selection *t,
                                                      const struct sr1__revision_node *n)
{
    return &t->f->nodes[n->parent];
}

static int is_judgement_correct(const struct demo_selection *t,
                                const struct sr1__revision_node *n)
{
    int right = node_passes(judged_answer(t, n));

    return n->judgement == (right ? SR1_JUDGEMENT_CORRECT : SR1_JUDGEMENT_INCORRECT);
}

static int matches_demo_options(const struct demo_selection *t,
                                const struct sr1__revision_node *n)
{
    const sr1_critique_demo_options *o = t->o;

    return !(o->drop_failed && !node_passes(n)) &&
           !(o->drop_unjudged && n->judgement == SR1_JUDGEMENT_NONE) &&
           !(o->drop_untrue && !is_judgement_correct(t, n)) &&
           !(o->one_per_problem && t->taught[judged_answer(t, n)->parent]);
}

/* The prompt of its critic without the hint. */
static sr1_status build_plain_critique_prompt(const struct demo_selection *t,
                                              const struct sr1__revision_node *n,
                                              char **out)
{
    const char *solution = judged_answer(t, n)->solution;

    return sr1_critique_prompt(t->f->o.style, n->problem, solution, strlen(solution),
                               NULL, out);
}

static sr1_status is_critique_prompt_long(const struct demo_selection *t,
                                          const struct sr1__revision_node *n, int *yes)
{
    char *prompt = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    sr1_status st;

    *yes = 0;
    if (!t->o->tokenizer)
        return SR1_OK;
    SR1__TRY(build_plain_critique_prompt(t, n, &prompt));
    st = sr1_tokenizer_encode(t->o->tokenizer, prompt, strlen(prompt),
                              SR1_ENCODE_ADDED_AS_TEXT, &ids, &count);
    sr1_free(prompt);
    sr1_free(ids);
    *yes = (int64_t)count >= t->o->max_prompt_tokens;
    return st;
}

/* Is critique i fit for a demonstration by itself? */
static sr1_status select_critique(struct demo_selection *t, size_t i)
{
    const struct sr1__revision_node *n = &t->f->nodes[i];
    int too_long = 0;

    size_t begin, len;

    t->r.critiques++;
    sr1_critique_text(n->critique, strlen(n->critique), &begin, &len);
    if (len == 0) {
        t->r.empty++;
        return SR1_OK;
    }
    if (strstr(n->critique, "he hint")) {
        t->r.mentioning++;
        return SR1_OK;
    }
    if (!matches_demo_options(t, n)) {
        t->r.unwanted++;
        return SR1_OK;
    }
    SR1__TRY(is_critique_prompt_long(t, n, &too_long));
    t->r.too_long += too_long;
    t->fit[i] = !too_long;
    t->taught[judged_answer(t, n)->parent] |= !too_long;
    return SR1_OK;
}

/* Of m critiques with the same judgement `keep` are kept: the k-th where k keep / m
 * passes a whole number. */
static void balance_judgements(struct demo_selection *t)
{
    int64_t have[3] = {0}, met[3] = {0}, keep;

    for (size_t i = 0; i < t->f->n; i++)
        have[t->f->nodes[i].judgement] += t->fit[i];
    keep = have[SR1_JUDGEMENT_CORRECT] < have[SR1_JUDGEMENT_INCORRECT]
               ? have[SR1_JUDGEMENT_CORRECT]
               : have[SR1_JUDGEMENT_INCORRECT];
    for (size_t i = 0; i < t->f->n; i++) {
        int32_t j = t->f->nodes[i].judgement;
        int64_t k = met[j];

        if (!t->fit[i] || j == SR1_JUDGEMENT_NONE)
            continue;
        met[j]++;
        t->fit[i] = (k + 1) * keep / have[j] > k * keep / have[j];
        t->r.surplus += !t->fit[i];
    }
}

static json_t *build_demonstration_json(const struct sr1__revision_node *n,
                                        const char *prompt)
{
    static const char *const judgements[] = {"none", "correct", "incorrect"};
    size_t begin, len;

    sr1_critique_text(n->critique, strlen(n->critique), &begin, &len);
    return json_pack("{s:[{s:s, s:s}, {s:s, s:s%}], s:s, s:b, s:s}", "messages", "role",
                     "user", "content", prompt, "role", "assistant", "content",
                     n->critique + begin, len, "task_id", sr1_problem_id(n->problem),
                     "success", node_passes(n), "judgement", judgements[n->judgement]);
}

static sr1_status write_critique_demonstration(struct demo_selection *t,
                                               const struct sr1__revision_node *n)
{
    char *prompt = NULL;
    sr1_status st;

    SR1__TRY(build_plain_critique_prompt(t, n, &prompt));
    st = sr1__json_write_line(t->file, build_demonstration_json(n, prompt));
    sr1_free(prompt);
    t->r.written++;
    return st;
}

static sr1_status write_critique_demonstrations(struct demo_selection *t)
{
    const sr1_critique_demo_report *r = &t->r;

    for (size_t i = 0; i < t->f->n; i++)
        if (t->f->nodes[i].depth == 2)
            SR1__TRY(select_critique(t, i));
    if (t->o->balance)
        balance_judgements(t);
    for (size_t i = 0; i < t->f->n; i++)
        if (t->fit[i])
            SR1__TRY(write_critique_demonstration(t, &t->f->nodes[i]));
    if (r->written > 0)
        return SR1_OK;
    return sr1__fail(SR1_E_NOT_FOUND,
                     "none of %lld critiques is fit for a demonstration: %lld speak of "
                     "the hint, %lld have prompts that are too long, %lld are "
                     "empty, %lld are not wanted, %lld have none of the other judgement "
                     "to balance them",
                     (long long)r->critiques, (long long)r->mentioning,
                     (long long)r->too_long, (long long)r->empty, (long long)r->unwanted,
                     (long long)r->surplus);
}

/* Put what was written in the place of path, unless something failed. */
static sr1_status finish_file(struct sr1__file_writer *w, sr1_status st)
{
    if (st == SR1_OK)
        return sr1__file_writer_commit(w);
    sr1__file_writer_abort(w);
    return st;
}

/* The trees' own file is not what may be written over. */
static sr1_status check_not_nodes(const struct sr1_revision_trees *f, const char *path)
{
    return f->path ? sr1__path_distinct(f->path, path) : SR1_OK;
}

void sr1_critique_demo_options_init(sr1_critique_demo_options *options)
{
    static const sr1_critique_demo_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1_revision_trees_write_demos(const sr1_revision_trees *f, const char *path,
                                          const sr1_critique_demo_options *options,
                                          sr1_critique_demo_report *report)
{
    sr1_critique_demo_options o = {.max_prompt_tokens = 0};
    struct demo_selection t = {.f = f, .o = &o};
    sr1_status st;

    if (!f || !path)
        return sr1__fail(SR1_E_INVALID, "demonstrations: trees and path are needed");
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_critique_demo_options, struct_size),
                              "demonstration options"));
    if (report)
        SR1__TRY(sr1__struct_check(report, "demonstration report"));
    SR1__TRY(check_not_nodes(f, path));
    o.max_prompt_tokens = o.max_prompt_tokens > 0 ? o.max_prompt_tokens : MAX_PROMPT;
    t.taught = sr1__calloc(f->n + 1, 1);
    t.fit = sr1__calloc(f->n + 1, 1);
    st = t.taught && t.fit ? sr1__file_writer_open(&t.file, path)
                           : sr1__fail_nomem("demonstrations");
    if (st == SR1_OK)
        st = finish_file(t.file, write_critique_demonstrations(&t));
    sr1__free(t.taught);
    sr1__free(t.fit);
    if (st != SR1_OK || !report)
        return st;
    return sr1__struct_give(report, &t.r, sizeof(t.r), "demonstration report");
}

/* ---- rows ---- */

/* The first answer to the problem whose root is node i; NULL: there is none. */
static const struct sr1__revision_node *first_answer(const struct sr1_revision_trees *f,
                                                     size_t root)
{
    const struct sr1__revision_node *n = &f->nodes[root];

    return n->children > 0 ? &f->nodes[n->first_child] : NULL;
}

static sr1_status set_row_text(json_t *row, const char *key, const char *text)
{
    if (json_object_set_new(row, key, json_string(text)) != 0)
        return sr1__fail_nomem("a row");
    return SR1_OK;
}

static sr1_status complete_critique_row(const struct sr1_revision_trees *f, json_t *row,
                                        const struct sr1__revision_node *answer)
{
    char *prompt = NULL;
    sr1_status st = sr1_critique_prompt(f->o.style, answer->problem, answer->solution,
                                        strlen(answer->solution), NULL, &prompt);

    if (st == SR1_OK)
        st = set_row_text(row, "solution", answer->solution);
    if (st == SR1_OK)
        st = set_row_text(row, "critique_prompt", prompt);
    if (st == SR1_OK && !json_object_get(row, "id"))
        st = set_row_text(row, "id", sr1_problem_id(answer->problem));
    sr1_free(prompt);
    return st;
}

static sr1_status write_critique_row(const struct sr1_revision_trees *f,
                                     const struct sr1__row_files *rows, size_t i,
                                     struct sr1__file_writer *w, int64_t *written)
{
    const struct sr1__revision_node *answer = first_answer(f, i);
    int64_t at = (int64_t)f->nodes[i].problem->row;
    json_t *row = NULL;
    sr1_status st;

    if (!answer)
        return SR1_OK;
    SR1__TRY(sr1__row_files_read(rows, at, &row));
    st = sr1__row_files_context(rows, at, complete_critique_row(f, row, answer));
    if (st != SR1_OK) {
        json_decref(row);
        return st;
    }
    ++*written;
    return sr1__json_write_line(w, row);
}

static sr1_status write_critique_rows(const struct sr1_revision_trees *f,
                                      const struct sr1__row_files *rows,
                                      struct sr1__file_writer *w, int64_t *written)
{
    size_t n = sr1_problems_count(f->o.problems);
    size_t in_problems = sr1__problems_rows(f->o.problems);

    if ((size_t)sr1__row_files_count(rows) != in_problems)
        return sr1__fail(SR1_E_INVALID,
                         "rows: %lld in the files, %zu problems in the trees; name the "
                         "files they were loaded from",
                         (long long)sr1__row_files_count(rows), in_problems);
    for (size_t i = 0; i < n && i < f->n && f->nodes[i].depth == 0; i++)
        SR1__TRY(write_critique_row(f, rows, i, w, written));
    return SR1_OK;
}

sr1_status sr1_revision_trees_write_rows(const sr1_revision_trees *f,
                                         const char *const *problem_paths, size_t n_paths,
                                         const char *path, int64_t *written)
{
    struct sr1__row_files *rows = NULL;
    struct sr1__file_writer *w = NULL;
    int64_t n = 0;
    sr1_status st;

    if (!f || !problem_paths || !n_paths || !path)
        return sr1__fail(SR1_E_INVALID, "rows: trees, files and path are needed");
    SR1__TRY(check_not_nodes(f, path));
    SR1__TRY(sr1__row_files_open(&rows, problem_paths, n_paths));
    st = sr1__row_files_distinct(rows, path);
    if (st == SR1_OK)
        st = sr1__file_writer_open(&w, path);
    if (st == SR1_OK)
        st = finish_file(w, write_critique_rows(f, rows, w, &n));
    sr1__row_files_free(rows);
    if (st == SR1_OK && written)
        *written = n;
    return st;
}
