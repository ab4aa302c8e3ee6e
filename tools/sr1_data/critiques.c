/* critiques.c - see critiques.h. Solutions are sampled, run, and criticised by a model
 * that is told what running them showed; the demonstrations do not show that. */
#include "sr1_data/critiques.h"

#include "common/args.h"
#include "common/output.h"
#include "common/progress.h"
#include "common/generators.h"

#include <searchr1/ext/config_names.h>
#include <searchr1/ext/critique.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct critique_work {
    const struct critique_options *o;
    sr1_config *c;
    sr1_revision_tree_options f;
    sr1_tokenizer *tokenizer;
    char *makers;
    struct progress bar;
    char phase[32];
};

static sr1_status show_critique_progress(void *user, const char *phase, int64_t done,
                                         int64_t total)
{
    struct critique_work *w = user;

    if (strcmp(w->phase, phase) != 0) {
        snprintf(w->phase, sizeof(w->phase), "%s", phase);
        progress_clear(&w->bar);
        progress_begin(&w->bar, w->phase, "answers", 1.0);
    }
    progress_show(&w->bar, (double)done, (double)total, NULL);
    return SR1_OK;
}

/* ---- who writes ---- */

static sr1_status configure_critiques(struct critique_work *w, const char *const *pairs,
                                      size_t n)
{
    sr1_status st = sr1_config_new(&w->c);

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_config_set_pair(w->c, pairs[i]);
    if (st == SR1_OK && w->o->remote)
        st = sr1_config_set(w->c, "openai_base_url", w->o->remote);
    if (st == SR1_OK && w->o->model)
        st = sr1_config_set(w->c, "model_name_or_path", w->o->model);
    return st == SR1_OK ? count_tests(w->c) : st;
}

/* As published: solutions and critiques sampled at a temperature, revisions greedy. */
static sr1_status open_critique_generator(struct critique_work *w, sr1_generator **out,
                                          const char *folder, double temperature)
{
    sr1_generator_options o = {.struct_size = sizeof(o),
                               .temperature = temperature,
                               .top_p = temperature > 0.0 ? 0.8 : 1.0,
                               .seed = (uint64_t)w->o->seed};

    folder = folder ? folder : w->o->model;
    return folder ? sr1_generator_open_model(out, folder, w->c, &o)
                  : sr1_generator_open_remote(out, w->c, &o);
}

/* Of a server's model only the key tokenizer tells; without it no prompt is too long. */
static sr1_status open_demo_tokenizer(struct critique_work *w)
{
    const char *folder = NULL, *family = NULL;
    sr1_status st = sr1_config_get_str(w->c, "tokenizer", &folder);

    if (st == SR1_OK && !*folder)
        folder = w->o->model;
    if (st != SR1_OK || !folder)
        return st;
    st = sr1_tokenizer_open(&w->tokenizer, folder);
    if (st == SR1_OK)
        st = sr1_config_get_str(w->c, "chat_template", &family);
    return st == SR1_OK && strcmp(family, "auto") != 0
               ? sr1_tokenizer_set_chat_family(w->tokenizer, family)
               : st;
}

/* What --rows will read again when all is done. */
static sr1_status check_rows_option(const struct critique_work *w, const char *problems)
{
    const char *dot = strrchr(problems, '.');

    if (!w->o->rows || (dot && strcmp(dot, ".jsonl") == 0))
        return SR1_OK;
    return sr1_set_error(SR1_E_INVALID,
                         "--rows: the name of the file of problems must end in .jsonl");
}

/* What the nodes of a file depend on that the configuration does not say. */
static sr1_status name_critique_makers(struct critique_work *w)
{
    char numbers[64];
    const char *more[] = {"sr1-data",   w->o->model,   w->o->remote,
                          w->o->critic, w->o->reviser, numbers};
    sr1_status st;

    snprintf(numbers, sizeof(numbers), "%d %g %lld", w->o->own, w->o->temperature,
             (long long)w->o->seed);
    st = made_by(&w->makers, w->c, more, sizeof(more) / sizeof(more[0]));
    w->f.made_by = w->makers;
    return st;
}

static int are_demonstrations(const char *path)
{
    return first_row_has(path, "\"judgement\":");
}

static int are_rows(const char *path)
{
    return first_row_has(path, "\"critique_prompt\":");
}

static int is_begun(const char *tree)
{
    struct stat st;

    return tree && stat(tree, &st) == 0 && st.st_size > 0;
}

/* A tree is gone on with; then what an earlier call made from it is made again. */
static sr1_status check_critique_outputs(const struct critique_work *w,
                                         const char *problems, const char *out)
{
    const struct critique_options *o = w->o;
    const char *files[] = {problems, out, o->rows, o->tree};
    const char *kind = is_begun(o->tree) ? "what this command wrote" : NULL;
    const struct output outputs[] = {{out, kind, kind ? are_demonstrations : NULL},
                                     {o->rows, kind, kind ? are_rows : NULL},
                                     {.path = o->tree, .resumes = 1}};
    sr1_status st = SR1_OK;

    for (size_t i = 0; st == SR1_OK && i < sizeof(outputs) / sizeof(outputs[0]); i++)
        st = output_check(&outputs[i], files, i + 1, o->force);
    return st;
}

static sr1_status open_critique_inputs(struct critique_work *w, const char *problems,
                                       const char *out)
{
    sr1_status st = check_rows_option(w, problems);

    if (st == SR1_OK)
        st = check_critique_outputs(w, problems, out);
    if (st == SR1_OK)
        st = name_critique_makers(w);
    if (st == SR1_OK)
        st = sr1_problems_load(&w->f.problems, &problems, 1, NULL);
    if (st == SR1_OK)
        st = style_open(&w->f.style, w->c);
    if (st == SR1_OK)
        st = sr1_checker_open(&w->f.checker, w->c);
    if (st == SR1_OK && !w->o->own)
        st = open_critique_generator(w, &w->f.solver, NULL, w->o->temperature);
    if (st == SR1_OK)
        st = open_critique_generator(w, &w->f.critic, w->o->critic, w->o->temperature);
    if (st == SR1_OK)
        st = open_critique_generator(w, &w->f.reviser, w->o->reviser, 0.0);
    return st == SR1_OK ? open_demo_tokenizer(w) : st;
}

static void close_critique_inputs(struct critique_work *w)
{
    sr1_problems_free(w->f.problems);
    sr1_critique_style_free(w->f.style);
    sr1_checker_free(w->f.checker);
    sr1_generator_free(w->f.solver);
    sr1_generator_free(w->f.critic);
    sr1_generator_free(w->f.reviser);
    sr1_tokenizer_free(w->tokenizer);
    sr1_config_free(w->c);
    free(w->makers);
}

/* ---- files ---- */

static sr1_status write_demo_file(const struct critique_work *w,
                                  const sr1_revision_trees *f, const char *out)
{
    sr1_critique_demo_options o = {.struct_size = sizeof(o),
                                   .drop_failed = w->o->passing,
                                   .one_per_problem = w->o->one,
                                   .drop_unjudged = w->o->judged,
                                   .drop_untrue = w->o->truthful,
                                   .tokenizer = w->tokenizer,
                                   .balance = w->o->balance};
    sr1_critique_demo_report r = {.struct_size = sizeof(r)};
    sr1_status st = sr1_revision_trees_write_demos(f, out, &o, &r);

    if (st == SR1_OK)
        printf("%s: %lld demonstration%s of %lld critique%s; left out: speaking of the "
               "hint %lld, prompt too long %lld, empty %lld, not wanted %lld, too few of "
               "the other judgement %lld\n",
               out, (long long)r.written, plural_ending(r.written, "s"),
               (long long)r.critiques, plural_ending(r.critiques, "s"),
               (long long)r.mentioning, (long long)r.too_long, (long long)r.empty,
               (long long)r.unwanted, (long long)r.surplus);
    return st;
}

static sr1_status write_problem_rows(const struct critique_work *w,
                                     const sr1_revision_trees *f, const char *problems)
{
    int64_t n = 0;
    sr1_status st = SR1_OK;

    if (w->o->rows)
        st = sr1_revision_trees_write_rows(f, &problems, 1, w->o->rows, &n);
    if (st == SR1_OK && w->o->rows)
        printf("%s: %lld problem%s, each with an answer to criticise\n", w->o->rows,
               (long long)n, plural_ending(n, "s"));
    return st;
}

static void print_scores(const sr1_revision_trees *f)
{
    for (int32_t k = 0; k < 2; k++) {
        sr1_revision_tree_scores s = {.struct_size = sizeof(s)};

        if (sr1_revision_trees_scores(f, k, &s) == SR1_OK)
            printf("%s: %lld answer%s, share that pass %.3f\n", k ? "revised" : "first",
                   (long long)s.nodes, plural_ending(s.nodes, "s"), s.pass_at_1);
    }
}

/* ---- the work ---- */

static sr1_status grow_critique_trees(struct critique_work *w, sr1_revision_trees **out,
                                      int64_t *missing)
{
    const int32_t widths[] = {1, w->o->own ? 1 : (int32_t)w->o->solutions, 1};
    sr1_revision_trees *f = NULL;
    sr1_status st = sr1_revision_trees_open(&f, &w->f);

    progress_begin(&w->bar, "answers", "answers", 1.0);
    if (st == SR1_OK)
        st = sr1_revision_trees_expand(f, widths, 3, missing);
    progress_clear(&w->bar);
    *out = f;
    return st;
}

static int write_critique_data(const struct critique_work *w, const sr1_revision_trees *f,
                               const char *problems, const char *out, int64_t missing)
{
    sr1_status st = write_demo_file(w, f, out);

    if (st == SR1_OK)
        st = write_problem_rows(w, f, problems);
    if (st != SR1_OK)
        return tool_failed("sr1-data", st);
    print_scores(f);
    return check_missing_answers("sr1-data", missing, w->o->tree);
}

int make_critiques(const struct critique_options *o, const char *problems,
                   const char *out, const char *const *pairs, size_t n_pairs)
{
    struct critique_work w = {.o = o,
                              .f = {.struct_size = sizeof(w.f),
                                    .max_problems = o->max_problems,
                                    .seed = (uint64_t)o->seed,
                                    .path = o->tree,
                                    .hints = 1,
                                    .progress = show_critique_progress,
                                    .user = &w}};
    sr1_revision_trees *f = NULL;
    int64_t missing = 0;
    int code;
    sr1_status st = configure_critiques(&w, pairs, n_pairs);

    progress_wait("opening models");
    if (st == SR1_OK)
        st = open_critique_inputs(&w, problems, out);
    progress_wait(NULL);
    if (st != SR1_OK) {
        code = tool_refused("sr1-data", st);
    } else {
        st = grow_critique_trees(&w, &f, &missing);
        code = st == SR1_OK ? write_critique_data(&w, f, problems, out, missing)
                            : tool_failed("sr1-data", st);
    }
    sr1_revision_trees_free(f);
    close_critique_inputs(&w);
    return code;
}
