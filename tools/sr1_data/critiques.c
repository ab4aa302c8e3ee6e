/* critiques.c - see critiques.h. Solutions are sampled, run, and criticised by a model
 * that is told what running them showed; the demonstrations do not show that. */
#include "sr1_data/critiques.h"

#include "common/args.h"
#include "common/progress.h"
#include "common/writers.h"

#include <searchr1/critique.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct work {
    const struct critique_options *o;
    sr1_config *c;
    sr1_forest_options f;
    sr1_tokenizer *tokenizer;
    struct progress bar;
    char phase[32];
};

static sr1_status show(void *user, const char *phase, int64_t done, int64_t total)
{
    struct work *w = user;

    if (strcmp(w->phase, phase) != 0) {
        snprintf(w->phase, sizeof(w->phase), "%s", phase);
        progress_clear(&w->bar);
        progress_begin(&w->bar, w->phase, "answers", 1.0);
    }
    progress_show(&w->bar, (double)done, (double)total, NULL);
    return SR1_OK;
}

/* ---- who writes ---- */

static sr1_status configure(struct work *w, const char *const *pairs, size_t n)
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
static sr1_status open_writer(struct work *w, sr1_writer **out, const char *folder,
                              double temperature)
{
    sr1_writer_options o = {.struct_size = sizeof(o),
                            .temperature = temperature,
                            .top_p = temperature > 0.0 ? 0.8 : 1.0,
                            .seed = (uint64_t)w->o->seed};

    folder = folder ? folder : w->o->model;
    return folder ? sr1_writer_open_model(out, folder, w->c, &o)
                  : sr1_writer_open_remote(out, w->c, &o);
}

/* Of a server's model only the key tokenizer tells; without it no prompt is too long. */
static sr1_status open_tokenizer(struct work *w)
{
    const char *folder = NULL;
    sr1_status st = sr1_config_get_str(w->c, "tokenizer", &folder);

    if (st == SR1_OK && !*folder)
        folder = w->o->model;
    return st == SR1_OK && folder ? sr1_tokenizer_open(&w->tokenizer, folder) : st;
}

/* What --rows will read again when all is done. */
static sr1_status check_rows(const struct work *w, const char *problems)
{
    const char *dot = strrchr(problems, '.');

    if (!w->o->rows || (dot && strcmp(dot, ".jsonl") == 0))
        return SR1_OK;
    return sr1_set_error(SR1_E_INVALID,
                         "--rows: the name of the file of problems must end in .jsonl");
}

static int is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Hours of work are not to end at a file that cannot be written. */
static sr1_status check_target(const char *path, const char *problems)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    char folder[4096] = ".", text[4200];
    struct stat st;

    if (!path)
        return SR1_OK;
    if (slash)
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path + 1), path);
    if (is_same_file(path, problems))
        snprintf(text, sizeof(text), "%.4000s is the file of problems; name another",
                 path);
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(text, sizeof(text), "%.4000s is a folder; name a file", path);
    else if (access(folder, W_OK) != 0)
        snprintf(text, sizeof(text), "cannot write %.4000s: %s", path, strerror(errno));
    else
        return SR1_OK;
    return sr1_set_error(SR1_E_IO, text);
}

static sr1_status open_all(struct work *w, const char *problems, const char *out)
{
    sr1_status st = check_rows(w, problems);

    if (st == SR1_OK)
        st = check_target(out, problems);
    if (st == SR1_OK)
        st = check_target(w->o->rows, problems);
    if (st == SR1_OK)
        st = sr1_problems_load(&w->f.problems, &problems, 1, NULL);
    if (st == SR1_OK)
        st = style_open(&w->f.style, w->c);
    if (st == SR1_OK)
        st = sr1_checker_open(&w->f.checker, w->c);
    if (st == SR1_OK && !w->o->own)
        st = open_writer(w, &w->f.solver, NULL, w->o->temperature);
    if (st == SR1_OK)
        st = open_writer(w, &w->f.critic, w->o->critic, w->o->temperature);
    if (st == SR1_OK)
        st = open_writer(w, &w->f.reviser, w->o->reviser, 0.0);
    return st == SR1_OK ? open_tokenizer(w) : st;
}

static void close_all(struct work *w)
{
    sr1_problems_free(w->f.problems);
    sr1_critique_style_free(w->f.style);
    sr1_checker_free(w->f.checker);
    sr1_writer_free(w->f.solver);
    sr1_writer_free(w->f.critic);
    sr1_writer_free(w->f.reviser);
    sr1_tokenizer_free(w->tokenizer);
    sr1_config_free(w->c);
}

/* ---- files ---- */

static sr1_status write_demos(const struct work *w, const sr1_forest *f, const char *out)
{
    sr1_critique_demo_options o = {.struct_size = sizeof(o),
                                   .drop_failed = w->o->passing,
                                   .one_per_problem = w->o->one,
                                   .drop_unjudged = w->o->judged,
                                   .drop_untrue = w->o->truthful,
                                   .tokenizer = w->tokenizer,
                                   .balance = w->o->balance};
    sr1_critique_demo_report r = {.struct_size = sizeof(r)};
    sr1_status st = sr1_forest_write_demos(f, out, &o, &r);

    if (st == SR1_OK)
        printf("%s: %lld demonstrations of %lld critiques; left out: %lld speak of the "
               "hint, %lld prompts are too long, %lld are not wanted, %lld have too few "
               "of the other judgement\n",
               out, (long long)r.written, (long long)r.critiques, (long long)r.mentioning,
               (long long)r.too_long, (long long)r.unwanted, (long long)r.surplus);
    return st;
}

static sr1_status write_rows(const struct work *w, const sr1_forest *f,
                             const char *problems)
{
    int64_t n = 0;
    sr1_status st = SR1_OK;

    if (w->o->rows)
        st = sr1_forest_write_rows(f, &problems, 1, w->o->rows, &n);
    if (st == SR1_OK && w->o->rows)
        printf("%s: %lld problems, each with an answer to criticise\n", w->o->rows,
               (long long)n);
    return st;
}

static void print_scores(const sr1_forest *f)
{
    for (int32_t k = 0; k < 2; k++) {
        sr1_forest_scores s = {.struct_size = sizeof(s)};

        if (sr1_forest_scores_get(f, k, &s) == SR1_OK)
            printf("%s: %lld answers, %.3f of them pass\n", k ? "revised" : "first",
                   (long long)s.nodes, s.pass_at_1);
    }
}

/* ---- the work ---- */

static sr1_status grow(struct work *w, sr1_forest **out, int64_t *missing)
{
    const int32_t widths[] = {1, w->o->own ? 1 : (int32_t)w->o->solutions, 1};
    sr1_forest *f = NULL;
    sr1_status st = sr1_forest_open(&f, &w->f);

    progress_begin(&w->bar, "answers", "answers", 1.0);
    if (st == SR1_OK)
        st = sr1_forest_expand(f, widths, 3, missing);
    progress_clear(&w->bar);
    *out = f;
    return st;
}

static int finish(const struct work *w, const sr1_forest *f, const char *problems,
                  const char *out, int64_t missing)
{
    sr1_status st = write_demos(w, f, out);

    if (st == SR1_OK)
        st = write_rows(w, f, problems);
    if (st != SR1_OK)
        return tool_failed("sr1-data", st);
    print_scores(f);
    if (missing == 0)
        return TOOL_OK;
    fprintf(stderr,
            "sr1-data: %lld answers are missing: a writer or the sandbox failed; run it "
            "again%s\n",
            (long long)missing,
            w->o->tree ? ", the tree goes on where it is"
                       : " with --tree FILE, which keeps what there is");
    return TOOL_FAILED;
}

int make_critiques(const struct critique_options *o, const char *problems,
                   const char *out, const char *const *pairs, size_t n_pairs)
{
    struct work w = {.o = o,
                     .f = {.struct_size = sizeof(w.f),
                           .max_problems = o->max_problems,
                           .seed = (uint64_t)o->seed,
                           .path = o->tree,
                           .hints = 1,
                           .progress = show,
                           .user = &w}};
    sr1_forest *f = NULL;
    int64_t missing = 0;
    int code;
    sr1_status st = configure(&w, pairs, n_pairs);

    progress_wait("opening models");
    if (st == SR1_OK)
        st = open_all(&w, problems, out);
    progress_wait(NULL);
    if (st != SR1_OK) {
        code = tool_refused("sr1-data", st);
    } else {
        st = grow(&w, &f, &missing);
        code = st == SR1_OK ? finish(&w, f, problems, out, missing)
                            : tool_failed("sr1-data", st);
    }
    sr1_forest_free(f);
    close_all(&w);
    return code;
}
