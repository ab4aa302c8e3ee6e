/* sr1-eval - how well a policy answers a file of questions. */
#include "common/args.h"
#include "common/output.h"
#include "common/policy.h"
#include "common/progress.h"
#include "common/ranks.h"
#include "common/remote.h"
#include "common/stop.h"
#include "common/table.h"
#include "sr1_eval/ctrl.h"
#include "sr1_eval/figure.h"
#include "sr1_eval/suite.h"

#include <searchr1/rollout.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/eval_figures.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help_text[] =
    "usage: sr1-eval POLICY QUESTIONS [key=value ...]\n"
    "       sr1-eval --suite FOLDER POLICY [key=value ...]\n"
    "       sr1-eval --task ctrl POLICY PROBLEMS [key=value ...]\n"
    "\n"
    "POLICY is a run folder of sr1-train or a model folder; QUESTIONS a .jsonl, .json, "
    ".csv or\n"
    ".tsv file with gold answers. Each question is answered once (greedily unless "
    "--sample) and\n"
    "scored: exact match, F1, sub-string match, BLEU, ROUGE-1/2/L, well-formed share, "
    "searches\n"
    "and tokens per question; over all rows and for each data source. With --samples N "
    "it is\n"
    "answered N times: scores are means over the answers, and exact match is also that "
    "of the best\n"
    "of them (best@N) and of the answer that most gave (maj@N). With "
    "reward_embedder=FOLDER\n"
    "also the mean cosine of the embeddings of answer and gold answer, with "
    "environment=rooms the\n"
    "share of successes, with protocol=rlvcr the tokens of thought. With "
    "use_openai=true a\n"
    "server answers, by the tokenizer of POLICY. Ctrl-C ends it with a table of what was "
    "answered\n"
    "(exit code 130); --trajectories is then FILE.part (FILE.part2 where that is "
    "there).\n"
    "\n"
    "Started several times by torchrun, mpirun or srun, the processes share the "
    "questions, and\n"
    "the first one prints and writes what one process would.\n"
    "\n"
    "With --suite, POLICY answers every .jsonl, .json, .csv and .tsv file of FOLDER, "
    "such as the\n"
    "seven sets of Search-R1, and one table is printed: exact match and F1 with "
    "intervals of 95 %\n"
    "and their average over the sets; with --samples N also the answer that most gave "
    "(maj@N) and\n"
    "pass@k. --results keeps every answer, and what was stopped goes on from there.\n"
    "\n"
    "With --task ctrl, POLICY criticises answers to programming PROBLEMS, and a second "
    "model\n"
    "revises them: proxy_model, or else the model that POLICY was trained from. Answers "
    "and\n"
    "revisions are run. Printed are the shares that pass before and after each of "
    "--revisions,\n"
    "the shares gained and lost against the first answer, and how often the critiques "
    "judge\n"
    "rightly. --widths \"1 5 1 1\" grows trees instead: of 1 problem 5 first answers, of "
    "each\n"
    "one revision, and of that one.\n"
    "\n"
    "Example:\n"
    "  sr1-eval runs/grpo test.jsonl search_index=corpus.bm25\n"
    "  sr1-eval --suite sets runs/grpo --samples 4 --results results\n"
    "  sr1-eval --task ctrl runs/critic problems.jsonl --revisions 3 --tree tree.jsonl\n";

struct eval_tool_options {
    int64_t max_rows, seed, samples;
    int sample, no_search, json;
    int force; /* replace trajectories that are there */
    const char *trajectories, *task;
    struct ctrl_options ctrl;
    struct suite_tool_options suite;
    sr1_ranks *ranks; /* of the job that a launcher started */
};

struct eval_view {
    struct progress bar;
    FILE *trajectories;
    const char *path;     /* of trajectories */
    char part[4096];      /* what they are written into before; "": path, no plain file */
    sr1_status unwritten; /* why they are not whole */
    char reason[512];
    const char *unit; /* of these: */
    int64_t done, total;
    int silent; /* another process shows it */
};

static sr1_status show_eval_progress(void *user, int64_t done, int64_t total,
                                     int64_t tokens)
{
    struct eval_view *v = user;
    char note[64];

    v->done = done;
    v->total = total;
    if (stop_asked())
        return SR1_E_CANCELLED;
    if (v->silent)
        return SR1_OK;
    snprintf(note, sizeof(note), "%lld tokens", (long long)tokens);
    progress_show(&v->bar, (double)done, (double)total, note);
    return SR1_OK;
}

/* A disk that is full costs the file, not the scores. */
static void note_unwritten(struct eval_view *v)
{
    if (v->unwritten != SR1_OK)
        return;
    v->unwritten = SR1_E_IO;
    snprintf(v->reason, sizeof(v->reason), "--trajectories: cannot write %.400s: %s",
             v->path, strerror(errno));
}

static sr1_status on_trajectory(void *user, const sr1_trajectory *t)
{
    struct eval_view *v = user;
    char *text;
    size_t n;
    sr1_status st;

    if (v->unwritten != SR1_OK)
        return SR1_OK;
    st = sr1_trajectory_to_json(t, &text, &n);
    if (st != SR1_OK)
        return st;
    if (fwrite(text, 1, n, v->trajectories) != n || fputc('\n', v->trajectories) == EOF ||
        fflush(v->trajectories) != 0)
        note_unwritten(v);
    sr1_free(text);
    return SR1_OK;
}

/* FILE.part, or FILE.part2 and so on where that is somebody's; 0 where none is free. */
static int name_part(char *out, size_t size, const char *file)
{
    struct stat info;

    for (int i = 1; i < 1000; i++) {
        int n = i == 1 ? snprintf(out, size, "%s.part", file)
                       : snprintf(out, size, "%s.part%d", file, i);

        if (n >= (int)size)
            return 0;
        if (lstat(out, &info) != 0)
            return errno == ENOENT;
    }
    return 0;
}

/* A file that is there stays until the new one is whole; a pipe has no other name. */
static sr1_status open_trajectories(struct eval_view *v, const char *path)
{
    struct stat is;

    v->path = path;
    if (stat(path, &is) == 0 && !S_ISREG(is.st_mode))
        v->trajectories = fopen(path, "w");
    else if (name_part(v->part, sizeof(v->part), path))
        v->trajectories = fopen(v->part, "wx");
    if (!v->trajectories)
        note_unwritten(v);
    return v->trajectories ? SR1_OK : sr1_set_error(v->unwritten, v->reason);
}

/* Trajectories of a part of the questions stay under the other name, not where those of
 * all will stand: the same command can be given again. Half a file is of no use. */
static void close_trajectories(struct eval_view *v, sr1_status st)
{
    if (!v->trajectories)
        return;
    if (fclose(v->trajectories) != 0)
        note_unwritten(v);
    if (!*v->part)
        return;
    if (st != SR1_OK || v->unwritten != SR1_OK)
        (void)unlink(v->part);
    else if (!stop_asked() && rename(v->part, v->path) != 0)
        note_unwritten(v);
}

/* ---- output ---- */

/* When some columns are shown. */
static int config_key_equals(const sr1_config *c, const char *key, const char *value)
{
    const char *v = "";

    return sr1_config_get_str(c, key, &v) == SR1_OK && strcmp(v, value) == 0;
}

static int has_embedder(const sr1_config *c, int64_t samples)
{
    (void)samples;
    return !config_key_equals(c, "reward_embedder", "");
}

static int has_goals(const sr1_config *c, int64_t samples)
{
    (void)samples;
    return config_key_equals(c, "environment", "rooms");
}

static int has_levels(const sr1_config *c, int64_t samples)
{
    (void)samples;
    return config_key_equals(c, "protocol", "rlvcr");
}

static int has_samples(const sr1_config *c, int64_t samples)
{
    (void)c;
    return samples > 1;
}

static const struct {
    const char *name;    /* of figures of exact match the figure's */
    const char *heading; /* of those, before the number of answers */
    size_t offset;       /* 0: such a figure */
    const char *format;
    int (*when)(const sr1_config *c, int64_t samples); /* NULL: always */
    size_t with; /* the number of rows that the score is over, without which it is not
                    shown; 0: it is */
} columns[] = {
#define COLUMN(name, heading, format, when)                                              \
    {                                                                                    \
#name, heading, offsetof(sr1_eval_scores, name), format, when                    \
    }
    COLUMN(exact_match, "EM", "%.3f", NULL),
    {"best", "best@", 0, "%.3f", has_samples},
    {"majority", "maj@", 0, "%.3f", has_samples},
    COLUMN(f1, "F1", "%.3f", NULL),
    COLUMN(sub_match, "sub-EM", "%.3f", NULL),
    COLUMN(bleu, "BLEU", "%.3f", NULL),
    COLUMN(rouge1, "ROUGE-1", "%.3f", NULL),
    COLUMN(rouge2, "ROUGE-2", "%.3f", NULL),
    COLUMN(rougeL, "ROUGE-L", "%.3f", NULL),
    COLUMN(format, "format", "%.3f", NULL),
    COLUMN(answered, "answered", "%.3f", NULL),
    COLUMN(searches, "searches", "%.2f", NULL),
    COLUMN(tokens, "tokens", "%.1f", NULL),
    {"retrieval/hit_rate", "hit rate", offsetof(sr1_eval_scores, hit_rate), "%.3f", NULL,
     offsetof(sr1_eval_scores, with_search)},
    {"retrieval/recall", "recall", offsetof(sr1_eval_scores, recall), "%.3f", NULL,
     offsetof(sr1_eval_scores, with_gold_ids)},
    COLUMN(embedding, "embedding", "%.3f", has_embedder),
    COLUMN(success, "success", "%.3f", has_goals),
    COLUMN(thinking, "thinking", "%.1f", has_levels),
#undef COLUMN
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* Which of them are shown. */
static size_t shown[N_COLUMNS], n_shown;

static char headings[N_COLUMNS][16];

static void choose_columns(const sr1_config *c, int64_t samples)
{
    n_shown = 0;
    for (size_t i = 0; i < N_COLUMNS; i++) {
        snprintf(headings[i], sizeof(headings[i]), "%s", columns[i].heading);
        if (!columns[i].offset)
            snprintf(headings[i], sizeof(headings[i]), "%s%lld", columns[i].heading,
                     (long long)samples);
        if (!columns[i].when || columns[i].when(c, samples))
            shown[n_shown++] = i;
    }
}

/* Leave out the columns that no row counts in. */
static void drop_empty_columns(const sr1_evaluation *e)
{
    sr1_eval_scores all = {.struct_size = sizeof(all)};
    size_t kept = 0;

    if (sr1_evaluation_scores(e, 0, &all) != SR1_OK)
        return;
    for (size_t i = 0; i < n_shown; i++) {
        size_t with = columns[shown[i]].with;
        const void *n = (const char *)&all + with;

        if (with == 0 || *(const int64_t *)n > 0)
            shown[kept++] = shown[i];
    }
    n_shown = kept;
}

/* An entry of an evaluation. */
struct shown_entry {
    const sr1_evaluation *of;
    size_t index;
    sr1_eval_scores scores;
};

static sr1_status read_entry(struct shown_entry *entry, const sr1_evaluation *e, size_t k)
{
    *entry = (struct shown_entry){
        .of = e, .index = k, .scores = {.struct_size = sizeof(entry->scores)}};
    return sr1_evaluation_scores(e, k, &entry->scores);
}

static double get_eval_score(const struct shown_entry *entry, size_t i)
{
    double v = NAN;

    if (columns[i].offset)
        return *(const double *)(const void *)((const char *)&entry->scores +
                                               columns[i].offset);
    (void)sr1_evaluation_figure(entry->of, entry->index, "exact_match", columns[i].name,
                                &v);
    return v;
}

/* Rows that were not scored, over all sources. */
static int64_t count_excluded(const sr1_evaluation *e)
{
    sr1_eval_scores all = {.struct_size = sizeof(all)};

    return sr1_evaluation_scores(e, 0, &all) == SR1_OK ? all.excluded : 0;
}

/* Source, rows, those that were not scored where there are any, then the scores. */
#define FIRST_COLUMNS 3

static void add_score_row(struct table *t, const struct shown_entry *entry, size_t first)
{
    const sr1_eval_scores *s = &entry->scores;
    char cells[N_COLUMNS + FIRST_COLUMNS][32];
    const char *row[N_COLUMNS + FIRST_COLUMNS] = {s->data_source ? s->data_source
                                                                 : "all"};

    snprintf(cells[1], sizeof(cells[1]), "%lld", (long long)s->rows);
    snprintf(cells[2], sizeof(cells[2]), "%lld", (long long)s->excluded);
    for (size_t i = 0; i < n_shown; i++)
        figure_text(get_eval_score(entry, shown[i]), columns[shown[i]].format,
                    cells[first + i], sizeof(cells[0]));
    for (size_t i = 1; i < first + n_shown; i++)
        row[i] = cells[i];
    table_row(t, row);
}

static sr1_status print_scores_table(const sr1_evaluation *e)
{
    struct table_column heads[N_COLUMNS + FIRST_COLUMNS] = {
        {"data source", TABLE_LEFT, 32},
        {"rows", TABLE_RIGHT, 0},
        {"not scored", TABLE_RIGHT, 0}};
    size_t first = count_excluded(e) > 0 ? FIRST_COLUMNS : FIRST_COLUMNS - 1;
    sr1_status st = SR1_OK;
    struct table t;

    for (size_t i = 0; i < n_shown; i++)
        heads[first + i] = (struct table_column){headings[shown[i]], TABLE_RIGHT, 0};
    table_begin(&t, heads, first + n_shown);
    /* one source is all there is: its row says it */
    for (size_t k = sr1_evaluation_count(e) == 2; k < sr1_evaluation_count(e); k++) {
        struct shown_entry entry;

        st = st == SR1_OK ? read_entry(&entry, e, k) : st;
        if (st == SR1_OK)
            add_score_row(&t, &entry, first);
    }
    if (table_end(&t, stdout) != 0 && st == SR1_OK)
        st = sr1_set_error(SR1_E_NOMEM, "out of memory");
    return st;
}

/* A data source may be called what the scores over all, or another source renamed here,
 * are called: it gets as many prefixes as make it new. Takes one over. */
static int put_scores(json_t *all, const sr1_eval_scores *s, json_t *one)
{
    json_t *key = json_string(s->data_source ? s->data_source : "all");
    int bad;

    while (key && json_object_get(all, json_string_value(key))) {
        json_t *longer = json_sprintf("data_source %s", json_string_value(key));

        json_decref(key);
        key = longer;
    }
    bad = !key || json_object_set(all, json_string_value(key), one) != 0;
    json_decref(one);
    json_decref(key);
    return bad;
}

static sr1_status print_scores_json(const sr1_evaluation *e, int64_t samples)
{
    json_t *all = json_object();
    sr1_status st = SR1_OK;
    int bad = 0;

    for (size_t k = 0; k < sr1_evaluation_count(e) && st == SR1_OK; k++) {
        struct shown_entry entry;
        json_t *one;

        st = read_entry(&entry, e, k);
        if (st != SR1_OK)
            break;
        one = json_object();
        bad |= json_object_set_new(one, "rows", json_integer(entry.scores.rows));
        bad |= json_object_set_new(one, "excluded", json_integer(entry.scores.excluded));
        if (samples > 1)
            bad |= json_object_set_new(one, "samples", json_integer(samples));
        for (size_t i = 0; i < n_shown; i++)
            bad |= json_object_set_new(one, columns[shown[i]].name,
                                       figure_json(get_eval_score(&entry, shown[i])));
        bad |= put_scores(all, &entry.scores, one);
    }
    if (stop_asked())
        bad |= json_object_set_new(json_object_get(all, "all"), "partial", json_true());
    if (st == SR1_OK && (bad || figures_print(all) != 0))
        st = sr1_set_error(SR1_E_NOMEM, "out of memory");
    json_decref(all);
    return st;
}

/* Rows that could not be scored leave the work unfinished. */
static int check_excluded(const sr1_evaluation *e, int first)
{
    int64_t n = count_excluded(e);

    if (n == 0)
        return TOOL_OK;
    if (first)
        fprintf(
            stderr,
            "sr1-eval: %lld question%s not among the rows: a search, or the server that "
            "answers, failed; see to it and run it again\n",
            (long long)n, n == 1 ? " is" : "s are");
    return TOOL_FAILED;
}

/* ---- the work ---- */

/* NULL where the configuration names none. */
static sr1_status open_reward_embedder(sr1_embedder **out, const sr1_config *c)
{
    const char *folder = NULL;
    sr1_encoder_options o;

    sr1_encoder_options_init(&o);
    if (sr1_config_get_str(c, "reward_embedder", &folder) != SR1_OK ||
        sr1_config_get_str(c, "device", &o.device) != SR1_OK)
        return SR1_E_CONFIG;
    if (!*folder)
        return SR1_OK;
    return sr1_embedder_open(out, folder, &o);
}

static void report_stopped(const struct eval_view *v)
{
    fprintf(stderr, "sr1-eval: stopped when %lld of %lld %s\n", (long long)v->done,
            (long long)v->total, v->unit);
    if (v->trajectories && *v->part && access(v->part, F_OK) == 0)
        fprintf(stderr, "sr1-eval: their trajectories are in %s\n", v->part);
}

/* Of several processes the first one writes and shows how far it is. */
static sr1_status run_evaluation(const struct eval_tool_options *o, const sr1_config *c,
                                 const char *path, struct eval_view *v, int *begun,
                                 sr1_evaluation **out)
{
    int first = ranks_is_first(o->ranks);
    sr1_eval_options e = {.struct_size = sizeof(e),
                          .max_rows = o->max_rows,
                          .greedy = !o->sample,
                          .samples = (int32_t)o->samples,
                          .seed = (uint64_t)o->seed,
                          .no_search = o->no_search,
                          .partial = 1,
                          .progress = show_eval_progress,
                          .user = v,
                          .ranks = o->ranks};
    sr1_dataset *data = NULL;
    sr1_rollout *rollout = NULL;
    sr1_status st = policy_questions(&data, c, path);

    progress_wait("opening the model");
    if (st == SR1_OK)
        st = open_reward_embedder(&e.embedder, c);
    if (st == SR1_OK)
        st = sr1_rollout_new(&rollout, c, NULL, NULL, NULL);
    progress_wait(NULL);
    stop_note();
    if (st == SR1_OK && o->trajectories && first) {
        e.trajectory = on_trajectory;
        st = open_trajectories(v, o->trajectories);
    }
    st = sr1_ranks_agree(o->ranks, st);
    choose_columns(c, o->samples);
    v->unit = o->samples > 1 ? "answers were given" : "questions were answered";
    progress_begin(&v->bar, "answering", o->samples > 1 ? "answers" : "questions", 1.0);
    v->silent = !first;
    *begun = st == SR1_OK;
    if (st == SR1_OK)
        st = sr1_evaluate(out, rollout, data, &e);
    progress_clear(&v->bar);
    if (st == SR1_OK && first)
        remote_note("sr1-eval", rollout);
    close_trajectories(v, st);
    if (stop_asked() && first)
        report_stopped(v);
    sr1_rollout_free(rollout);
    sr1_dataset_free(data);
    sr1_embedder_free(e.embedder);
    return st;
}

static int answer_questions(const struct eval_tool_options *o, sr1_config *c,
                            const char *path)
{
    struct eval_view v = {.unwritten = SR1_OK};
    sr1_evaluation *e = NULL;
    int begun = 0, first = ranks_is_first(o->ranks), code;
    sr1_status st = run_evaluation(o, c, path, &v, &begun, &e);

    if (st == SR1_OK && stop_asked() && !o->json && first)
        printf("partial: stopped before all questions were answered\n");
    if (st == SR1_OK)
        drop_empty_columns(e);
    if (st == SR1_OK && first)
        st = o->json ? print_scores_json(e, o->samples) : print_scores_table(e);
    if (st == SR1_OK && v.unwritten != SR1_OK)
        st = sr1_set_error(v.unwritten, v.reason);
    if (stop_asked() || st == SR1_E_CANCELLED)
        code = TOOL_INTERRUPTED;
    else if (st == SR1_OK)
        code = check_excluded(e, first);
    else
        code = begun ? tool_failed(ranks_program(o->ranks, "sr1-eval"), st)
                     : tool_refused(ranks_program(o->ranks, "sr1-eval"), st);
    if (st != SR1_OK && config_key_equals(c, "environment", "critique"))
        fprintf(stderr, "sr1-eval: this policy criticises answers to programming "
                        "problems; --task ctrl measures that\n");
    sr1_evaluation_free(e);
    return code;
}

static int revise_answers(const struct eval_tool_options *o, sr1_config *c,
                          const char *path)
{
    struct ctrl_options ctrl = o->ctrl;

    ctrl.max_rows = o->max_rows;
    ctrl.seed = o->seed;
    ctrl.sample = o->sample;
    ctrl.json = o->json;
    return ctrl_run(&ctrl, c, path);
}

/* path is the policy's: the questions are in the folder. */
static int answer_sets(const struct eval_tool_options *o, sr1_config *c, const char *path)
{
    struct suite_tool_options suite = o->suite;

    (void)path;
    suite.max_rows = o->max_rows;
    suite.seed = o->seed;
    suite.sample = o->sample;
    suite.samples = o->samples;
    suite.no_search = o->no_search;
    suite.json = o->json;
    suite.ranks = o->ranks;
    return suite_run(&suite, c);
}

/* ---- the command line ---- */

static const struct eval_task {
    const char *name;
    int (*run)(const struct eval_tool_options *o, sr1_config *c, const char *path);
} tasks[] = {{"answers", answer_questions}, {"ctrl", revise_answers}};

/* That of --suite. */
static const struct eval_task suite_task = {"suite", answer_sets};

static struct eval_tool_options o = {
    .task = "answers",
    .samples = 1,
    .ctrl = {.revisions = 1, .answers = 1, .votes = 1, .solver_temperature = 0.7}};

static const struct args_option options[] = {
    {"--max-rows", ARGS_INT, &o.max_rows, "N",
     "answer only the first N questions (0: all)", 0, 1e12},
    {"--sample", ARGS_FLAG, &o.sample, NULL, "sample by temperature instead of greedily",
     0, 0},
    {"--samples", ARGS_INT, &o.samples, "N",
     "answers, suite: answers to each question (1)", 1, 1024},
    {"--seed", ARGS_INT, &o.seed, "N", "seed of sampling (0)", 0, 1e15},
    {"--no-search", ARGS_FLAG, &o.no_search, NULL,
     "answers, suite: searches find nothing (ablation)", 0, 0},
    {"--trajectories", ARGS_STRING, &o.trajectories, "FILE",
     "answers: write every trajectory as a JSON line", 0, 0},
    {"--force", ARGS_FLAG, &o.force, NULL, "answers: replace what is there", 0, 0},
    {"--json", ARGS_FLAG, &o.json, NULL, "print JSON instead of a table", 0, 0},
    {"--suite", ARGS_STRING, &o.suite.folder, "FOLDER",
     "answer all sets of questions in a folder; one table", 0, 0},
    {"--results", ARGS_STRING, &o.suite.results, "FOLDER",
     "suite: keep every answer there; what was stopped is continued", 0, 0},
    {"--markdown", ARGS_FLAG, &o.suite.markdown, NULL, "suite: print a table in Markdown",
     0, 0},
    {"--task", ARGS_STRING, &o.task, "NAME", "answers (the default) or ctrl", 0, 0},
    {"--revisions", ARGS_INT, &o.ctrl.revisions, "K", "ctrl: revisions in a row (1)", 0,
     30},
    {"--answers", ARGS_INT, &o.ctrl.answers, "N", "ctrl: first answers a problem (1)", 1,
     100000},
    {"--widths", ARGS_STRING, &o.ctrl.widths, "LIST",
     "ctrl: children by layer, in place of --answers and --revisions", 0, 0},
    {"--votes", ARGS_INT, &o.ctrl.votes, "N",
     "ctrl: critiques of each answer, of which most decide (1)", 1, 1000},
    {"--solver", ARGS_STRING, &o.ctrl.solver, "FOLDER",
     "ctrl: model that writes first answers (the problems' own)", 0, 0},
    {"--solver-temperature", ARGS_REAL, &o.ctrl.solver_temperature, "X",
     "ctrl: of several answers (0.7)", 0, 100},
    {"--tree", ARGS_STRING, &o.ctrl.tree, "FILE",
     "ctrl: write nodes as JSON lines; an unfinished file is continued", 0, 0},
};

static int given[sizeof(options) / sizeof(options[0])];

static const struct args a = {.program = "sr1-eval",
                              .help = help_text,
                              .options = options,
                              .n_options = sizeof(options) / sizeof(options[0]),
                              .given = given,
                              .takes_keys = 1};

/* -1 when the options given are of the task. Tasks own options as commands do. */
static int check_task_options(const char *task)
{
    static const struct args_command names[] = {
        {"answers", "", NULL}, {"ctrl", "", NULL}, {"suite", "", NULL}};
    struct args of_tasks = a;
    int code;

    of_tasks.commands = names;
    of_tasks.n_commands = sizeof(names) / sizeof(names[0]);
    code = args_check_command(&of_tasks, task);
    if (code >= 0)
        fprintf(stderr, "'answers' is the default, 'ctrl' is --task ctrl, 'suite' is "
                        "--suite FOLDER\n");
    return code;
}

/* -1, or the exit code where the policy stands in place of the folder of sets. */
static int check_suite_folder(const char *folder)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/config.json", folder);
    if (access(path, F_OK) != 0)
        return -1;
    return args_wrong(&a,
                      "--suite %.400s: that is a policy; the folder of sets comes first: "
                      "sr1-eval --suite FOLDER POLICY",
                      folder);
}

static int is_question_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* -1, or the exit code where a file of questions stands in place of the policy. */
static int check_word_order(const char *policy, const char *questions)
{
    if (!is_question_folder(questions) || is_question_folder(policy))
        return -1;
    return args_wrong(&a,
                      "%.400s is a folder, not a file of questions; the policy comes "
                      "first: sr1-eval POLICY QUESTIONS",
                      questions);
}

static const struct eval_task *find_eval_task(const char *name)
{
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
        if (strcmp(tasks[i].name, name) == 0)
            return &tasks[i];
    return NULL;
}

/* Critiques are of one process. */
static sr1_status check_ranks(const struct eval_task *task)
{
    if (task->run != revise_answers || sr1_ranks_size(o.ranks) == 1)
        return SR1_OK;
    return sr1_set_error(SR1_E_UNSUPPORTED,
                         "--task ctrl is not shared by several processes; start one");
}

static sr1_status check_eval_outputs(const sr1_config *c, const char *policy,
                                     const char *questions)
{
    const struct output trajectories = {.path = o.trajectories, .streams = 1};
    const struct output tree = {.path = o.ctrl.tree, .resumes = 1};
    const char *inputs[2 + POLICY_PATHS] = {policy, questions};
    size_t n = 2 + policy_paths(c, inputs + 2);
    sr1_status st = output_check(&trajectories, inputs, n, o.force);

    return st == SR1_OK ? output_check(&tree, &questions, 1, 0) : st;
}

int main(int argc, char **argv)
{
    const char *rest[256];
    const struct eval_task *task;
    sr1_config *c = NULL;
    size_t n = 0, words;
    sr1_status st;
    int code = args_read(&a, argc, argv, rest, 256, &n);

    if (code >= 0)
        return code;
    if (o.suite.folder && args_is_given(&a, "--task"))
        return args_wrong(&a, "--suite and --task exclude each other");
    words = o.suite.folder ? 1 : 2;
    if (n < words)
        return words == 1
                   ? args_wrong(&a, "give a policy: sr1-eval --suite FOLDER POLICY")
                   : args_wrong(&a, "give a policy and a file of questions: sr1-eval "
                                    "POLICY QUESTIONS");
    task = o.suite.folder ? &suite_task : find_eval_task(o.task);
    if (!task)
        return args_wrong(&a, "--task '%s' is not known; there are answers and ctrl",
                          o.task);
    code = check_task_options(task->name);
    if (code < 0 && task->run == answer_questions && o.samples > SR1_EVAL_MAX_SAMPLES)
        code = args_wrong(&a, "--samples %lld: at most %d, or 1024 with --suite",
                          (long long)o.samples, SR1_EVAL_MAX_SAMPLES);
    if (code < 0)
        code = o.suite.folder ? check_suite_folder(o.suite.folder)
                              : check_word_order(rest[0], rest[1]);
    if (code >= 0)
        return code;
    policy_passive_waiting(argv);
    progress_warnings();
    st = policy_config(&c, rest[0], rest + words, n - words);
    if (st == SR1_OK)
        st = ranks_begin(&o.ranks, &c);
    if (st == SR1_OK)
        st = check_ranks(task);
    if (o.ranks) {
        if (st == SR1_OK && ranks_is_first(o.ranks))
            st = check_eval_outputs(c, rest[0], words > 1 ? rest[1] : o.suite.folder);
        st = sr1_ranks_agree(o.ranks, st);
    }
    if (st == SR1_OK && ranks_is_first(o.ranks) && task->run != revise_answers)
        policy_warn_of_sampling(o.sample || o.samples > 1, rest + words, n - words);
    code = st == SR1_OK ? task->run(&o, c, rest[words - 1])
                        : tool_refused(ranks_program(o.ranks, "sr1-eval"), st);
    ranks_end(o.ranks);
    sr1_config_free(c);
    return tool_printed("sr1-eval", code);
}
