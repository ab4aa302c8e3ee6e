/* ctrl.c - see ctrl.h. Critic is the policy, reviser the proxy model of the
 * configuration; trees of revisions grow by the library (searchr1/critique.h). */
#include "sr1_eval/ctrl.h"

#include "common/args.h"
#include "common/progress.h"
#include "common/table.h"
#include "common/writers.h"

#include <searchr1/critique.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LAYERS 32

struct run {
    const struct ctrl_options *o;
    int32_t widths[MOST_LAYERS];
    size_t n_widths;
    struct progress bar;
    char phase[32];
    int64_t missing;
};

/* ---- widths ---- */

static sr1_status wrong(const char *text)
{
    return sr1_set_error(SR1_E_INVALID, text);
}

static sr1_status read_widths(struct run *r, const char *text)
{
    char *end = NULL;

    for (const char *at = text; *at; at = end) {
        long v = strtol(at, &end, 10);

        if (end == at || v < 0 || v > 100000 || r->n_widths == MOST_LAYERS)
            return wrong("--widths: give numbers such as \"1 5 1 1\"");
        r->widths[r->n_widths++] = (int32_t)v;
        end += strspn(end, " ,");
    }
    return r->n_widths >= 2 ? SR1_OK : wrong("--widths: give at least \"1 1\"");
}

static sr1_status choose_widths(struct run *r)
{
    if (r->o->widths)
        return read_widths(r, r->o->widths);
    if (r->o->revisions + 2 > MOST_LAYERS)
        return wrong("--revisions: too many");
    r->widths[0] = 1;
    r->widths[1] = (int32_t)r->o->answers;
    for (r->n_widths = 2; r->n_widths < (size_t)r->o->revisions + 2; r->n_widths++)
        r->widths[r->n_widths] = 1;
    return SR1_OK;
}

/* Several critiques of one answer must differ. */
static int must_sample(const struct run *r)
{
    int several = r->o->sample || r->o->votes > 1;

    for (size_t i = 2; i < r->n_widths; i++)
        several |= r->widths[i] > 1;
    return several;
}

/* ---- who writes ---- */

static sr1_status open_critic(sr1_writer **out, const struct run *r, const sr1_config *c)
{
    sr1_writer_options o = {.struct_size = sizeof(o), .seed = (uint64_t)r->o->seed};
    const char *folder = NULL;
    int64_t top_k = 0;
    sr1_status st = sr1_config_get_str(c, "model_name_or_path", &folder);

    if (st == SR1_OK)
        st = sr1_config_get_int(c, "max_tokens", &o.max_tokens);
    if (st == SR1_OK && must_sample(r)) {
        st = sr1_config_get_real(c, "temperature", &o.temperature);
        if (st == SR1_OK)
            st = sr1_config_get_real(c, "top_p", &o.top_p);
        if (st == SR1_OK)
            st = sr1_config_get_int(c, "top_k", &top_k);
        o.top_k = (int32_t)top_k;
    }
    return st == SR1_OK ? sr1_writer_open_model(out, folder, c, &o) : st;
}

/* NULL for the problems' own answers. */
static sr1_status open_solver(sr1_writer **out, const struct run *r, const sr1_config *c)
{
    sr1_writer_options o = {.struct_size = sizeof(o),
                            .seed = (uint64_t)r->o->seed,
                            .temperature =
                                r->widths[1] > 1 ? r->o->solver_temperature : 0.0};

    return r->o->solver ? sr1_writer_open_model(out, r->o->solver, c, &o) : SR1_OK;
}

/* ---- growing ---- */

static sr1_status on_progress(void *user, const char *phase, int64_t done, int64_t total)
{
    struct run *r = user;

    if (strcmp(r->phase, phase) != 0) {
        snprintf(r->phase, sizeof(r->phase), "%s", phase);
        progress_clear(&r->bar);
        progress_begin(&r->bar, r->phase, "answers", 1.0);
    }
    progress_show(&r->bar, (double)done, (double)total, NULL);
    return SR1_OK;
}

static sr1_status grow(struct run *r, sr1_forest_options *f, sr1_forest **out)
{
    sr1_forest *forest = NULL;
    sr1_status st = sr1_forest_open(&forest, f);

    progress_begin(&r->bar, "answers", "answers", 1.0);
    if (st == SR1_OK)
        st = sr1_forest_expand(forest, r->widths, r->n_widths, &r->missing);
    progress_clear(&r->bar);
    if (st == SR1_OK)
        *out = forest;
    else
        sr1_forest_free(forest);
    return st;
}

static sr1_status work(struct run *r, const sr1_config *c, const char *path, int *begun,
                       sr1_forest **out)
{
    sr1_forest_options f = {.struct_size = sizeof(f),
                            .max_problems = r->o->max_rows,
                            .votes = (int32_t)r->o->votes,
                            .seed = (uint64_t)r->o->seed,
                            .path = r->o->tree,
                            .progress = on_progress,
                            .user = r};
    sr1_status st = choose_widths(r);

    if (st == SR1_OK)
        st = sr1_problems_load(&f.problems, &path, 1, NULL);
    if (st == SR1_OK)
        st = sr1_checker_open(&f.checker, c);
    if (st == SR1_OK)
        st = style_open(&f.style, c);
    progress_wait("opening models");
    if (st == SR1_OK)
        st = open_solver(&f.solver, r, c);
    if (st == SR1_OK && r->n_widths > 2)
        st = open_critic(&f.critic, r, c);
    if (st == SR1_OK && r->n_widths > 2)
        st = sr1_writer_open_proxy(&f.reviser, c);
    progress_wait(NULL);
    *begun = st == SR1_OK;
    if (st == SR1_OK)
        st = grow(r, &f, out);
    sr1_problems_free(f.problems);
    sr1_checker_free(f.checker);
    sr1_writer_free(f.solver);
    sr1_writer_free(f.critic);
    sr1_writer_free(f.reviser);
    sr1_critique_style_free(f.style);
    return st;
}

/* ---- output ---- */

/* The figures of a row: name in JSON, heading, format, where they lie. Those from the
 * accuracy on are of judgements: without critiques there is nothing to tell. */
#define FIGURES(X)                                                                       \
    X(pass_at_1, "pass@1", "%.3f")                                                       \
    X(pass_rate, "tests", "%.3f")                                                        \
    X(gained, "gained", "%.3f")                                                          \
    X(lost, "lost", "%.3f")                                                              \
    X(accuracy, "judged right", "%.3f")                                                  \
    X(f1, "F1", "%.3f")                                                                  \
    X(f1_incorrect, "F1 incorrect", "%.3f")

static const struct {
    const char *name, *heading, *format;
    size_t offset;
} figures[] = {
#define ROW(name, heading, format)                                                       \
    {#name, heading, format, offsetof(sr1_forest_scores, name)},
    FIGURES(ROW)
#undef ROW
};
#define N_FIGURES (sizeof(figures) / sizeof(figures[0]))

/* NaN where nothing is known. */
static double value(const sr1_forest_scores *s, size_t i)
{
    if (s->critiques == 0 && figures[i].offset >= offsetof(sr1_forest_scores, accuracy))
        return NAN;
    return *(const double *)(const void *)((const char *)s + figures[i].offset);
}

/* Revisions shown: every layer that has nodes. */
static int scores(const sr1_forest *f, int32_t revisions, sr1_forest_scores *s)
{
    *s = (sr1_forest_scores){.struct_size = sizeof(*s)};
    return sr1_forest_scores_get(f, revisions, s) == SR1_OK;
}

static void figure_text(const sr1_forest_scores *s, size_t i, char out[32])
{
    double v = value(s, i);

    if (isnan(v))
        snprintf(out, 32, "-");
    else
        snprintf(out, 32, figures[i].format, v);
}

static int print_table(const sr1_forest *f)
{
    struct table_column heads[N_FIGURES + 3] = {{"revisions", TABLE_RIGHT, 0},
                                                {"problems", TABLE_RIGHT, 0},
                                                {"answers", TABLE_RIGHT, 0}};
    sr1_forest_scores s;
    struct table t;

    for (size_t i = 0; i < N_FIGURES; i++)
        heads[i + 3] = (struct table_column){figures[i].heading, TABLE_RIGHT, 0};
    table_begin(&t, heads, N_FIGURES + 3);
    for (int32_t k = 0; scores(f, k, &s); k++) {
        char cells[N_FIGURES + 3][32];
        const char *row[N_FIGURES + 3];

        snprintf(cells[0], sizeof(cells[0]), "%d", (int)k);
        snprintf(cells[1], sizeof(cells[0]), "%lld", (long long)s.problems);
        snprintf(cells[2], sizeof(cells[0]), "%lld", (long long)s.nodes);
        for (size_t i = 0; i < N_FIGURES; i++)
            figure_text(&s, i, cells[i + 3]);
        for (size_t i = 0; i < N_FIGURES + 3; i++)
            row[i] = cells[i];
        table_row(&t, row);
    }
    return table_end(&t, stdout);
}

/* pass@k for 1, 2, 4, ... as far as every problem has as many answers. */
static json_t *pass_at(const sr1_forest *f, int32_t revisions)
{
    json_t *all = json_object();
    double v;

    for (int64_t k = 1; sr1_forest_pass_at_k(f, revisions, k, &v) == SR1_OK; k *= 2) {
        char name[24];

        snprintf(name, sizeof(name), "%lld", (long long)k);
        json_object_set_new(all, name, json_real(v));
    }
    return all;
}

static int print_json(const sr1_forest *f, int64_t missing)
{
    json_t *all = json_object(), *layers = json_array();
    sr1_forest_scores s;
    int code;

    for (int32_t k = 0; scores(f, k, &s); k++) {
        json_t *one = json_object();

        json_object_set_new(one, "revisions", json_integer(k));
        json_object_set_new(one, "problems", json_integer(s.problems));
        json_object_set_new(one, "answers", json_integer(s.nodes));
        for (size_t i = 0; i < N_FIGURES; i++)
            json_object_set_new(one, figures[i].name,
                                isnan(value(&s, i)) ? json_null()
                                                    : json_real(value(&s, i)));
        json_object_set_new(one, "critiques", json_integer(s.critiques));
        json_object_set_new(one, "no_judgement", json_integer(s.no_judgement));
        json_object_set_new(one, "pass_at", pass_at(f, k));
        json_array_append_new(layers, one);
    }
    json_object_set_new(all, "layers", layers);
    json_object_set_new(all, "missing", json_integer(missing));
    code = json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return code;
}

/* Answers that could not be had leave the work unfinished. */
static int check_missing(const struct run *r)
{
    if (r->missing == 0)
        return TOOL_OK;
    fprintf(stderr,
            "sr1-eval: %lld answers are missing: a writer or the sandbox failed; run it "
            "again%s\n",
            (long long)r->missing,
            r->o->tree ? ", the tree goes on where it is"
                       : " (--tree FILE keeps the rest)");
    return TOOL_FAILED;
}

int ctrl_run(const struct ctrl_options *o, sr1_config *c, const char *problems)
{
    struct run r = {.o = o};
    sr1_forest *f = NULL;
    int begun = 0, code;
    sr1_status st = count_tests(c);

    if (st == SR1_OK)
        st = work(&r, c, problems, &begun, &f);

    if (st != SR1_OK)
        return begun ? tool_failed("sr1-eval", st) : tool_refused("sr1-eval", st);
    code = (o->json ? print_json(f, r.missing) : print_table(f)) == 0 ? check_missing(&r)
                                                                      : TOOL_FAILED;
    sr1_forest_free(f);
    return code;
}
