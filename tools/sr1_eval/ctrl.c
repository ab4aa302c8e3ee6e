/* ctrl.c - see ctrl.h. Critic is the policy, reviser the proxy model of the
 * configuration; trees of revisions grow by the library (searchr1/ext/critique.h). */
#include "sr1_eval/ctrl.h"

#include "common/args.h"
#include "common/progress.h"
#include "common/stop.h"
#include "common/table.h"
#include "common/generators.h"
#include "sr1_eval/figure.h"

#include <searchr1/ext/critique.h>

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LAYERS 32

struct ctrl_state {
    const struct ctrl_options *o;
    int32_t widths[MOST_LAYERS];
    size_t n_widths;
    struct progress bar;
    char phase[32];
    int64_t missing;
    int64_t done, total; /* of the phase */
};

/* ---- widths ---- */

static sr1_status refuse_ctrl_option(const char *text)
{
    return sr1_set_error(SR1_E_INVALID, text);
}

static sr1_status read_widths(struct ctrl_state *r, const char *text)
{
    char *end = NULL;

    for (const char *at = text; *at; at = end) {
        long v = strtol(at, &end, 10);

        if (end == at || v < 0 || v > 100000 || r->n_widths == MOST_LAYERS)
            return refuse_ctrl_option("--widths: give numbers such as \"1 5 1 1\"");
        r->widths[r->n_widths++] = (int32_t)v;
        end += strspn(end, " ,");
    }
    return r->n_widths >= 2 ? SR1_OK
                            : refuse_ctrl_option("--widths: give at least \"1 1\"");
}

static sr1_status choose_widths(struct ctrl_state *r)
{
    if (r->o->widths)
        return read_widths(r, r->o->widths);
    if (r->o->revisions + 2 > MOST_LAYERS)
        return refuse_ctrl_option("--revisions: too many");
    r->widths[0] = 1;
    r->widths[1] = (int32_t)r->o->answers;
    for (r->n_widths = 2; r->n_widths < (size_t)r->o->revisions + 2; r->n_widths++)
        r->widths[r->n_widths] = 1;
    return SR1_OK;
}

/* Several critiques of one answer must differ. */
static int must_sample(const struct ctrl_state *r)
{
    int several = r->o->sample || r->o->votes > 1;

    for (size_t i = 2; i < r->n_widths; i++)
        several |= r->widths[i] > 1;
    return several;
}

/* ---- who writes ---- */

static sr1_status open_critic(sr1_generator **out, const struct ctrl_state *r,
                              const sr1_config *c)
{
    sr1_generator_options o = {.struct_size = sizeof(o), .seed = (uint64_t)r->o->seed};
    const char *folder = NULL;
    int64_t top_k = 0;
    int32_t remote = 0;
    sr1_status st = sr1_config_get_str(c, "model_name_or_path", &folder);

    if (st == SR1_OK)
        st = sr1_config_get_bool(c, "use_openai", &remote);
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
    if (st != SR1_OK)
        return st;
    return remote ? sr1_generator_open_remote(out, c, &o)
                  : sr1_generator_open_model(out, folder, c, &o);
}

/* NULL for the problems' own answers. */
static sr1_status open_solver(sr1_generator **out, const struct ctrl_state *r,
                              const sr1_config *c)
{
    sr1_generator_options o = {.struct_size = sizeof(o),
                               .seed = (uint64_t)r->o->seed,
                               .temperature =
                                   r->widths[1] > 1 ? r->o->solver_temperature : 0.0};

    return r->o->solver ? sr1_generator_open_model(out, r->o->solver, c, &o) : SR1_OK;
}

/* ---- growing ---- */

static sr1_status show_ctrl_progress(void *user, const char *phase, int64_t done,
                                     int64_t total)
{
    struct ctrl_state *r = user;

    if (strcmp(r->phase, phase) != 0) {
        snprintf(r->phase, sizeof(r->phase), "%s", phase);
        progress_clear(&r->bar);
        progress_begin(&r->bar, r->phase, "answers", 1.0);
    }
    r->done = done;
    r->total = total;
    if (stop_asked())
        return SR1_E_CANCELLED;
    progress_show(&r->bar, (double)done, (double)total, NULL);
    return SR1_OK;
}

/* What is there already has its scores. */
static sr1_status report_stopped_trees(const struct ctrl_state *r)
{
    fprintf(stderr, "sr1-eval: stopped in '%s' at %lld of %lld answers%s\n", r->phase,
            (long long)r->done, (long long)r->total,
            r->o->tree ? "; the same command goes on from its tree" : "");
    return SR1_OK;
}

static sr1_status grow_revision_trees(struct ctrl_state *r, sr1_revision_tree_options *f,
                                      sr1_revision_trees **out)
{
    sr1_revision_trees *trees = NULL;
    sr1_status st = sr1_revision_trees_open(&trees, f);

    progress_begin(&r->bar, "answers", "answers", 1.0);
    if (st == SR1_OK)
        st = sr1_revision_trees_expand(trees, r->widths, r->n_widths, &r->missing);
    progress_clear(&r->bar);
    if (st == SR1_E_CANCELLED && stop_asked())
        st = report_stopped_trees(r);
    if (st == SR1_OK)
        *out = trees;
    else
        sr1_revision_trees_free(trees);
    return st;
}

/* What the nodes of a file depend on that the configuration does not say. */
static sr1_status name_ctrl_makers(struct ctrl_state *r, const sr1_config *c, char **out)
{
    char numbers[128];
    const char *more[] = {"sr1-eval", r->o->solver, numbers};

    snprintf(numbers, sizeof(numbers), "%d %g %lld %lld", must_sample(r),
             r->o->solver && r->widths[1] > 1 ? r->o->solver_temperature : 0.0,
             (long long)r->o->votes, (long long)r->o->seed);
    return made_by(out, c, more, sizeof(more) / sizeof(more[0]));
}

static sr1_status evaluate_revisions(struct ctrl_state *r, const sr1_config *c,
                                     const char *path, int *begun,
                                     sr1_revision_trees **out)
{
    char *makers = NULL;
    sr1_revision_tree_options f = {.struct_size = sizeof(f),
                                   .max_problems = r->o->max_rows,
                                   .votes = (int32_t)r->o->votes,
                                   .seed = (uint64_t)r->o->seed,
                                   .path = r->o->tree,
                                   .progress = show_ctrl_progress,
                                   .user = r};
    sr1_status st = choose_widths(r);

    if (st == SR1_OK)
        st = name_ctrl_makers(r, c, &makers);
    f.made_by = makers;
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
        st = sr1_generator_open_reviser(&f.reviser, c);
    progress_wait(NULL);
    stop_note();
    *begun = st == SR1_OK;
    if (st == SR1_OK)
        st = grow_revision_trees(r, &f, out);
    sr1_problems_free(f.problems);
    sr1_checker_free(f.checker);
    sr1_generator_free(f.solver);
    sr1_generator_free(f.critic);
    sr1_generator_free(f.reviser);
    sr1_critique_style_free(f.style);
    free(makers);
    return st;
}

/* ---- output ---- */

/* The figures of a row: name in JSON, heading, format, where they lie. The
 * figures from accuracy on describe judgements; without critiques they are NaN. */
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
    {#name, heading, format, offsetof(sr1_revision_tree_scores, name)},
    FIGURES(ROW)
#undef ROW
};
#define N_FIGURES (sizeof(figures) / sizeof(figures[0]))

/* NaN where nothing is known. */
static double get_layer_figure(const sr1_revision_tree_scores *s, size_t i)
{
    if (s->critiques == 0 &&
        figures[i].offset >= offsetof(sr1_revision_tree_scores, accuracy))
        return NAN;
    return *(const double *)(const void *)((const char *)s + figures[i].offset);
}

/* Revisions shown: every layer that has nodes. */
static int read_layer_scores(const sr1_revision_trees *f, int32_t revisions,
                             sr1_revision_tree_scores *s)
{
    *s = (sr1_revision_tree_scores){.struct_size = sizeof(*s)};
    return sr1_revision_trees_scores(f, revisions, s) == SR1_OK;
}

static int print_ctrl_table(const sr1_revision_trees *f)
{
    struct table_column heads[N_FIGURES + 3] = {{"revisions", TABLE_RIGHT, 0},
                                                {"problems", TABLE_RIGHT, 0},
                                                {"answers", TABLE_RIGHT, 0}};
    sr1_revision_tree_scores s;
    struct table t;

    for (size_t i = 0; i < N_FIGURES; i++)
        heads[i + 3] = (struct table_column){figures[i].heading, TABLE_RIGHT, 0};
    table_begin(&t, heads, N_FIGURES + 3);
    for (int32_t k = 0; read_layer_scores(f, k, &s); k++) {
        char cells[N_FIGURES + 3][32];
        const char *row[N_FIGURES + 3];

        snprintf(cells[0], sizeof(cells[0]), "%d", (int)k);
        snprintf(cells[1], sizeof(cells[0]), "%lld", (long long)s.problems);
        snprintf(cells[2], sizeof(cells[0]), "%lld", (long long)s.nodes);
        for (size_t i = 0; i < N_FIGURES; i++)
            figure_text(get_layer_figure(&s, i), figures[i].format, cells[i + 3],
                        sizeof(cells[0]));
        for (size_t i = 0; i < N_FIGURES + 3; i++)
            row[i] = cells[i];
        table_row(&t, row);
    }
    return table_end(&t, stdout);
}

/* pass@k for 1, 2, 4, ... as far as every problem has as many answers. */
static json_t *make_pass_at_json(const sr1_revision_trees *f, int32_t revisions)
{
    json_t *all = json_object();
    double v;

    for (int64_t k = 1; sr1_revision_trees_pass_at_k(f, revisions, k, &v) == SR1_OK;
         k *= 2) {
        char name[24];

        snprintf(name, sizeof(name), "%lld", (long long)k);
        json_object_set_new(all, name, json_real(v));
    }
    return all;
}

static int print_ctrl_json(const sr1_revision_trees *f, int64_t missing)
{
    json_t *all = json_object(), *layers = json_array();
    sr1_revision_tree_scores s;
    int code;

    for (int32_t k = 0; read_layer_scores(f, k, &s); k++) {
        json_t *one = json_object();

        json_object_set_new(one, "revisions", json_integer(k));
        json_object_set_new(one, "problems", json_integer(s.problems));
        json_object_set_new(one, "answers", json_integer(s.nodes));
        for (size_t i = 0; i < N_FIGURES; i++)
            json_object_set_new(one, figures[i].name,
                                figure_json(get_layer_figure(&s, i)));
        json_object_set_new(one, "critiques", json_integer(s.critiques));
        json_object_set_new(one, "no_judgement", json_integer(s.no_judgement));
        json_object_set_new(one, "pass_at", make_pass_at_json(f, k));
        json_array_append_new(layers, one);
    }
    json_object_set_new(all, "layers", layers);
    json_object_set_new(all, "missing", json_integer(missing));
    if (stop_asked())
        json_object_set_new(all, "partial", json_true());
    code = figures_print(all);
    json_decref(all);
    return code;
}

int ctrl_run(const struct ctrl_options *o, sr1_config *c, const char *problems)
{
    struct ctrl_state r = {.o = o};
    sr1_revision_trees *f = NULL;
    int begun = 0, code;
    sr1_status st = count_tests(c);

    if (st == SR1_OK)
        st = evaluate_revisions(&r, c, problems, &begun, &f);

    if (st != SR1_OK)
        return begun ? tool_failed("sr1-eval", st) : tool_refused("sr1-eval", st);
    if (stop_asked() && !o->json)
        printf("partial: stopped before all answers were there\n");
    if ((o->json ? print_ctrl_json(f, r.missing) : print_ctrl_table(f)) == 0)
        code = stop_asked() ? TOOL_INTERRUPTED
                            : check_missing_answers("sr1-eval", r.missing, o->tree);
    else
        code = tool_failed("sr1-eval", sr1_set_error(SR1_E_NOMEM, "out of memory"));
    sr1_revision_trees_free(f);
    return code;
}
