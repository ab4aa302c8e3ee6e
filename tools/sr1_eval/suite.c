/* suite.c - see suite.h. A share stands with the ends of its interval of 95 %:
 * 0.412 (0.396-0.428). */
#include "sr1_eval/suite.h"

#include "common/args.h"
#include "common/policy.h"
#include "common/progress.h"
#include "common/ranks.h"
#include "common/remote.h"
#include "common/stop.h"
#include "common/table.h"
#include "sr1_eval/figure.h"

#include <searchr1/rollout.h>
#include <searchr1/ext/suite.h>

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_COLUMNS 20

/* ---- figures ---- */

struct suite_column {
    const char *figure;
    int32_t k; /* of "pass" */
    const char *format;
    int has_ends; /* its interval is printed in tables */
    char heading[24];
};

/* Whether a question of any set has the figure. */
static int has_figure(const sr1_suite *s, const char *figure)
{
    double value = NAN;

    for (size_t set = 0; set < sr1_suite_count(s) && !isfinite(value); set++)
        if (sr1_suite_figure(s, set, figure, 0, &value, NULL, NULL) != SR1_OK)
            return 0;
    return isfinite(value);
}

/* What searches found, where that is known. Returns how many columns there are. */
static size_t list_retrieval(const sr1_suite *s, struct suite_column *columns)
{
    static const struct suite_column known[] = {
        {"retrieval/hit_rate", 0, "%.3f", 1, "hit rate"},
        {"retrieval/recall", 0, "%.3f", 1, "recall"}};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (has_figure(s, known[i].figure))
            columns[n++] = known[i];
    return n;
}

/* pass@1 is exact match, pass@n the last; between them powers of two. */
static size_t list_columns(const sr1_suite *s, struct suite_column *columns)
{
    int32_t samples = sr1_suite_samples(s);
    size_t n = 0;

    columns[n++] = (struct suite_column){"exact_match", 0, "%.3f", 1, "EM"};
    columns[n++] = (struct suite_column){"f1", 0, "%.3f", 1, "F1"};
    if (samples > 1) {
        snprintf(columns[0].heading, sizeof(columns[0].heading), "EM mean@%d",
                 (int)samples);
        columns[n] = (struct suite_column){"majority", 0, "%.3f", 1, ""};
        snprintf(columns[n++].heading, sizeof(columns[0].heading), "maj@%d",
                 (int)samples);
    }
    for (int32_t k = 2; k < 2 * samples && samples > 1; k *= 2) {
        columns[n] =
            (struct suite_column){"pass", k < samples ? k : samples, "%.3f", 1, ""};
        snprintf(columns[n].heading, sizeof(columns[n].heading), "pass@%d",
                 (int)columns[n].k);
        n++;
    }
    columns[n++] = (struct suite_column){"searches", 0, "%.2f", 0, "searches"};
    columns[n++] = (struct suite_column){"tokens", 0, "%.1f", 0, "tokens"};
    return n + list_retrieval(s, columns + n);
}

static sr1_status write_figure(const sr1_suite *s, size_t set,
                               const struct suite_column *c, char *out, size_t size)
{
    double value, low, high;
    char figure[3][16];
    sr1_status st = sr1_suite_figure(s, set, c->figure, c->k, &value, &low, &high);

    figure_text(value, c->format, figure[0], sizeof(figure[0]));
    figure_text(low, c->format, figure[1], sizeof(figure[1]));
    figure_text(high, c->format, figure[2], sizeof(figure[2]));
    if (c->has_ends)
        snprintf(out, size, "%s (%s-%s)", figure[0], figure[1], figure[2]);
    else
        snprintf(out, size, "%s", figure[0]);
    return st;
}

/* ---- as a table ---- */

#define FIRST 2

/* The cells of one row; set sr1_suite_count is the average. */
static sr1_status fill_cells(const sr1_suite *s, size_t set,
                             const struct suite_column *columns, size_t n,
                             char (*cells)[64])
{
    int64_t left_out = sr1_suite_excluded(s, set);
    sr1_status st = SR1_OK;

    snprintf(cells[0], sizeof(cells[0]), "%s", sr1_suite_name(s, set));
    snprintf(cells[1], sizeof(cells[1]), left_out ? "%lld (+%lld)" : "%lld",
             (long long)sr1_suite_rows(s, set), (long long)left_out);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = write_figure(s, set, &columns[i], cells[FIRST + i], sizeof(cells[0]));
    return st;
}

static sr1_status print_plain(const sr1_suite *s, const struct suite_column *columns,
                              size_t n)
{
    struct table_column heads[MAX_COLUMNS + FIRST] = {{"set", TABLE_LEFT, 32},
                                                      {"questions", TABLE_RIGHT, 0}};
    char cells[MAX_COLUMNS + FIRST][64];
    const char *row[MAX_COLUMNS + FIRST];
    sr1_status st = SR1_OK;
    struct table t;

    for (size_t i = 0; i < n; i++)
        heads[FIRST + i] = (struct table_column){columns[i].heading, TABLE_RIGHT, 0};
    for (size_t i = 0; i < FIRST + n; i++)
        row[i] = cells[i];
    table_begin(&t, heads, FIRST + n);
    for (size_t set = 0; set <= sr1_suite_count(s) && st == SR1_OK; set++) {
        st = fill_cells(s, set, columns, n, cells);
        table_row(&t, row);
    }
    if (table_end(&t, stdout) != 0 && st == SR1_OK)
        st = sr1_set_error(SR1_E_NOMEM, "out of memory");
    return st;
}

static void print_markdown_row(const char *const *cells, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("| %s ", cells[i]);
    printf("|\n");
}

static sr1_status print_markdown(const sr1_suite *s, const struct suite_column *columns,
                                 size_t n)
{
    char cells[MAX_COLUMNS + FIRST][64];
    const char *row[MAX_COLUMNS + FIRST] = {"set", "questions"};
    sr1_status st = SR1_OK;

    for (size_t i = 0; i < n; i++)
        row[FIRST + i] = columns[i].heading;
    print_markdown_row(row, FIRST + n);
    for (size_t i = 0; i < FIRST + n; i++)
        row[i] = i ? "---:" : "---";
    print_markdown_row(row, FIRST + n);
    for (size_t i = 0; i < FIRST + n; i++)
        row[i] = cells[i];
    for (size_t set = 0; set <= sr1_suite_count(s) && st == SR1_OK; set++) {
        st = fill_cells(s, set, columns, n, cells);
        print_markdown_row(row, FIRST + n);
    }
    return st;
}

/* ---- as JSON ---- */

static int put_figure(json_t *o, const char *name, const sr1_suite *s, size_t set,
                      const struct suite_column *c)
{
    double value = 0, low = 0, high = 0;
    json_t *one = json_object();
    int bad = sr1_suite_figure(s, set, c->figure, c->k, &value, &low, &high) != SR1_OK;

    bad |= json_object_set_new(one, "value", figure_json(value));
    bad |= json_object_set_new(one, "low", figure_json(low));
    bad |= json_object_set_new(one, "high", figure_json(high));
    return bad | json_object_set_new(o, name, one);
}

static json_t *describe_scores(const sr1_suite *s, size_t set,
                               const struct suite_column *columns, size_t n)
{
    json_t *o = json_object();
    int bad = json_object_set_new(o, "rows", json_integer(sr1_suite_rows(s, set)));

    bad |= json_object_set_new(o, "excluded", json_integer(sr1_suite_excluded(s, set)));
    for (size_t i = 0; i < n; i++)
        bad |= put_figure(
            o, strcmp(columns[i].figure, "pass") ? columns[i].figure : columns[i].heading,
            s, set, &columns[i]);
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

static sr1_status print_suite_json(const sr1_suite *s, const struct suite_column *columns,
                                   size_t n)
{
    json_t *all = json_object(), *sets = json_object();
    size_t count = sr1_suite_count(s);
    int bad = json_object_set_new(all, "samples", json_integer(sr1_suite_samples(s)));

    for (size_t i = 0; i < count; i++)
        bad |= json_object_set_new(sets, sr1_suite_name(s, i),
                                   describe_scores(s, i, columns, n));
    bad |= json_object_set_new(all, "sets", sets);
    bad |= json_object_set_new(all, "average", describe_scores(s, count, columns, n));
    if (bad || figures_print(all) != 0) {
        json_decref(all);
        return sr1_set_error(SR1_E_NOMEM, "out of memory");
    }
    json_decref(all);
    return SR1_OK;
}

/* ---- the work ---- */

struct suite_view {
    struct progress bar;
    int silent; /* another process shows it */
};

static sr1_status show_suite_progress(void *user, int64_t done, int64_t total,
                                      int64_t tokens)
{
    struct suite_view *v = user;
    char note[64];

    if (stop_asked())
        return SR1_E_CANCELLED;
    if (v->silent)
        return SR1_OK;
    snprintf(note, sizeof(note), "%lld tokens", (long long)tokens);
    progress_show(&v->bar, (double)done, (double)total, note);
    return SR1_OK;
}

static sr1_status print_suite(const struct suite_tool_options *o, const sr1_suite *s)
{
    struct suite_column columns[MAX_COLUMNS];
    size_t n = list_columns(s, columns);

    if (o->json)
        return print_suite_json(s, columns, n);
    return o->markdown ? print_markdown(s, columns, n) : print_plain(s, columns, n);
}

/* Nothing is opened for sets that are not there. */
static sr1_status check_sets(const char *folder)
{
    DIR *d = opendir(folder);
    char text[4200];

    if (d) {
        closedir(d);
        return SR1_OK;
    }
    snprintf(text, sizeof(text), "cannot open folder %.4000s: %s", folder,
             strerror(errno));
    return sr1_set_error(SR1_E_IO, text);
}

static sr1_status answer_suite(const struct suite_tool_options *o, const sr1_config *c,
                               int *begun, sr1_suite **out)
{
    struct suite_view v = {.silent = !ranks_is_first(o->ranks)};
    sr1_suite_options s = {.struct_size = sizeof(s),
                           .samples = (int32_t)o->samples,
                           .greedy = !o->sample,
                           .seed = (uint64_t)o->seed,
                           .max_rows = o->max_rows,
                           .no_search = o->no_search,
                           .results = o->results,
                           .progress = show_suite_progress,
                           .user = &v,
                           .ranks = o->ranks};
    sr1_rollout *rollout = NULL;
    sr1_status st = check_sets(o->folder);

    progress_wait("opening the model");
    if (st == SR1_OK)
        st = sr1_rollout_new(&rollout, c, NULL, NULL, NULL);
    progress_wait(NULL);
    stop_note();
    st = sr1_ranks_agree(o->ranks, st);
    progress_begin(&v.bar, "answering", "answers", 1.0);
    *begun = st == SR1_OK;
    if (st == SR1_OK)
        st = sr1_suite_run(out, rollout, c, o->folder, &s);
    progress_clear(&v.bar);
    if (st == SR1_OK && !v.silent)
        remote_note("sr1-eval", rollout);
    sr1_rollout_free(rollout);
    return st;
}

static int end_suite(const struct suite_tool_options *o, const sr1_suite *s)
{
    int64_t n = sr1_suite_excluded(s, sr1_suite_count(s));

    if (n == 0)
        return TOOL_OK;
    if (ranks_is_first(o->ranks))
        fprintf(stderr,
                "sr1-eval: %lld question%s left out: a search, or the server that "
                "answers, failed; see to it and run it again%s\n",
                (long long)n, n == 1 ? " is" : "s are",
                o->results ? ", which asks them alone" : "");
    return TOOL_FAILED;
}

int suite_run(const struct suite_tool_options *o, const sr1_config *c)
{
    const char *program = ranks_program(o->ranks, "sr1-eval");
    sr1_suite *s = NULL;
    int begun = 0, code;
    sr1_status st = answer_suite(o, c, &begun, &s);

    if (st == SR1_OK && ranks_is_first(o->ranks))
        st = print_suite(o, s);
    if (stop_asked() || st == SR1_E_CANCELLED) {
        if (ranks_is_first(o->ranks))
            fprintf(stderr, "sr1-eval: stopped%s\n",
                    o->results ? "; the same command goes on" : "");
        code = TOOL_INTERRUPTED;
    } else if (st == SR1_OK)
        code = end_suite(o, s);
    else
        code = begun ? tool_failed(program, st) : tool_refused(program, st);
    sr1_suite_free(s);
    return code;
}
