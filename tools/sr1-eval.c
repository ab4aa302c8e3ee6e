/* sr1-eval - how well a policy answers a file of questions. */
#include "common/args.h"
#include "common/policy.h"
#include "common/progress.h"
#include "common/remote.h"
#include "common/table.h"
#include "sr1_eval/ctrl.h"

#include <searchr1/rollout.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "usage: sr1-eval POLICY QUESTIONS [key=value ...]\n"
    "       sr1-eval --task ctrl POLICY PROBLEMS [key=value ...]\n"
    "\n"
    "POLICY is a run folder of sr1-train or a model folder; QUESTIONS a .jsonl, .json or "
    ".csv\n"
    "file with gold answers. Each question is answered once (greedily unless --sample) "
    "and\n"
    "scored: exact match, F1, sub-string match, BLEU, ROUGE-1/2/L, well-formed share, "
    "searches\n"
    "and tokens per question; over all rows and for each data source. With "
    "reward_embedder=FOLDER\n"
    "also the mean cosine of the embeddings of answer and gold answer, with "
    "environment=rooms the\n"
    "share of successes, with protocol=rlvcr the tokens of thought. With "
    "use_openai=true a\n"
    "server answers, by the tokenizer of POLICY.\n"
    "\n"
    "With --task ctrl POLICY criticises answers to programming PROBLEMS, proxy_model "
    "(else "
    "what\n"
    "POLICY began as) revises them, and both are run: shares that pass before and after "
    "each "
    "of\n"
    "--revisions, that are gained and lost against the first answer, and how often "
    "judgements\n"
    "are true. --widths \"1 5 1 1\" grows trees: 5 answers each, one revision, one of "
    "that.\n"
    "\n"
    "Example:\n"
    "  sr1-eval runs/grpo test.jsonl search_index=corpus.bm25\n"
    "  sr1-eval --task ctrl runs/critic problems.jsonl --revisions 3 --tree tree.jsonl\n";

struct options {
    int64_t max_rows, seed;
    int sample, no_search, json;
    const char *trajectories, *task;
    struct ctrl_options ctrl;
};

struct view {
    struct progress bar;
    FILE *trajectories;
    const char *path; /* of trajectories */
};

static sr1_status on_progress(void *user, int64_t done, int64_t total, int64_t tokens)
{
    struct view *v = user;
    char note[64];

    snprintf(note, sizeof(note), "%lld tokens", (long long)tokens);
    progress_show(&v->bar, (double)done, (double)total, note);
    return SR1_OK;
}

static sr1_status cannot_write(const char *path)
{
    char text[512];

    snprintf(text, sizeof(text), "--trajectories: cannot write %.400s: %s", path,
             strerror(errno));
    return sr1_set_error(SR1_E_IO, text);
}

static sr1_status on_trajectory(void *user, const sr1_trajectory *t)
{
    struct view *v = user;
    char *text;
    size_t n;
    sr1_status st = sr1_trajectory_to_json(t, &text, &n);

    if (st != SR1_OK)
        return st;
    if (fwrite(text, 1, n, v->trajectories) != n || fputc('\n', v->trajectories) == EOF)
        st = cannot_write(v->path);
    sr1_free(text);
    return st;
}

/* ---- output ---- */

/* When some columns are shown. */
static int is_set(const sr1_config *c, const char *key, const char *value)
{
    const char *v = "";

    return sr1_config_get_str(c, key, &v) == SR1_OK && strcmp(v, value) == 0;
}

static int has_embedder(const sr1_config *c)
{
    return !is_set(c, "reward_embedder", "");
}

static int has_goals(const sr1_config *c)
{
    return is_set(c, "environment", "rooms");
}

static int has_levels(const sr1_config *c)
{
    return is_set(c, "protocol", "rlvcr");
}

static const struct {
    const char *name;
    const char *heading;
    size_t offset;
    const char *format;
    int (*when)(const sr1_config *c); /* NULL: always */
} columns[] = {
#define COLUMN(name, heading, format, when)                                              \
    {                                                                                    \
#name, heading, offsetof(sr1_eval_scores, name), format, when                    \
    }
    COLUMN(exact_match, "EM", "%.3f", NULL),
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
    COLUMN(embedding, "embedding", "%.3f", has_embedder),
    COLUMN(success, "success", "%.3f", has_goals),
    COLUMN(thinking, "thinking", "%.1f", has_levels),
#undef COLUMN
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* Which of them are shown. */
static size_t shown[N_COLUMNS], n_shown;

static void choose_columns(const sr1_config *c)
{
    n_shown = 0;
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (!columns[i].when || columns[i].when(c))
            shown[n_shown++] = i;
}

static double value(const sr1_eval_scores *s, size_t i)
{
    return *(const double *)(const void *)((const char *)s + columns[i].offset);
}

static int print_table(const sr1_evaluation *e)
{
    struct table_column heads[N_COLUMNS + 2] = {{"data source", TABLE_LEFT, 32},
                                                {"rows", TABLE_RIGHT, 0}};
    struct table t;

    for (size_t i = 0; i < n_shown; i++)
        heads[i + 2] = (struct table_column){columns[shown[i]].heading, TABLE_RIGHT, 0};
    table_begin(&t, heads, n_shown + 2);
    for (size_t k = 0; k < sr1_evaluation_count(e); k++) {
        sr1_eval_scores s = {.struct_size = sizeof(s)};
        char cells[N_COLUMNS + 1][32];
        const char *row[N_COLUMNS + 2];

        if (sr1_evaluation_scores(e, k, &s) != SR1_OK)
            return -1;
        row[0] = s.data_source ? s.data_source : "all";
        snprintf(cells[0], sizeof(cells[0]), "%lld", (long long)s.rows);
        row[1] = cells[0];
        for (size_t i = 0; i < n_shown; i++) {
            snprintf(cells[i + 1], sizeof(cells[0]), columns[shown[i]].format,
                     value(&s, shown[i]));
            row[i + 2] = cells[i + 1];
        }
        table_row(&t, row);
    }
    return table_end(&t, stdout);
}

/* JSON has no NaN: what is not known is null. */
static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static int print_json(const sr1_evaluation *e)
{
    json_t *all = json_object();
    int code;

    for (size_t k = 0; k < sr1_evaluation_count(e); k++) {
        sr1_eval_scores s = {.struct_size = sizeof(s)};
        json_t *one = json_object();

        if (sr1_evaluation_scores(e, k, &s) != SR1_OK)
            break;
        json_object_set_new(one, "rows", json_integer(s.rows));
        json_object_set_new(one, "excluded", json_integer(s.excluded));
        for (size_t i = 0; i < n_shown; i++)
            json_object_set_new(one, columns[shown[i]].name,
                                number(value(&s, shown[i])));
        json_object_set_new(all, s.data_source ? s.data_source : "all", one);
    }
    code = json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return code;
}

/* Rows that could not be scored leave the work unfinished. */
static int check_excluded(const sr1_evaluation *e)
{
    sr1_eval_scores all = {.struct_size = sizeof(all)};

    if (sr1_evaluation_scores(e, 0, &all) != SR1_OK || all.excluded == 0)
        return TOOL_OK;
    fprintf(stderr,
            "sr1-eval: %lld questions are not among the rows: a search of theirs, or the "
            "server that answers, failed; see to it and run it again\n",
            (long long)all.excluded);
    return TOOL_FAILED;
}

/* ---- the work ---- */

static sr1_status open_questions(sr1_dataset **out, const sr1_config *c, const char *path)
{
    sr1_dataset_options o = {.struct_size = sizeof(o)};

    if (sr1_config_get_str(c, "question_field", &o.question_field) != SR1_OK ||
        sr1_config_get_str(c, "answer_field", &o.answer_field) != SR1_OK ||
        sr1_config_get_str(c, "id_field", &o.id_field) != SR1_OK ||
        sr1_config_get_str(c, "history_field", &o.history_field) != SR1_OK)
        return SR1_E_CONFIG;
    return sr1_dataset_open(out, &path, 1, &o);
}

/* NULL where the configuration names none. */
static sr1_status open_embedder(sr1_embedder **out, const sr1_config *c)
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

static sr1_status evaluate(const struct options *o, const sr1_config *c, const char *path,
                           int *begun, sr1_evaluation **out)
{
    struct view v = {0};
    sr1_eval_options e = {.struct_size = sizeof(e),
                          .max_rows = o->max_rows,
                          .greedy = !o->sample,
                          .seed = (uint64_t)o->seed,
                          .no_search = o->no_search,
                          .progress = on_progress,
                          .user = &v};
    sr1_dataset *data = NULL;
    sr1_rollout *rollout = NULL;
    sr1_status st = open_questions(&data, c, path);

    progress_wait("opening the model");
    if (st == SR1_OK)
        st = open_embedder(&e.embedder, c);
    if (st == SR1_OK)
        st = sr1_rollout_new(&rollout, c, NULL, NULL, NULL);
    progress_wait(NULL);
    if (st == SR1_OK && o->trajectories) {
        v.trajectories = fopen(o->trajectories, "w");
        v.path = o->trajectories;
        e.trajectory = on_trajectory;
        if (!v.trajectories)
            st = cannot_write(o->trajectories);
    }
    choose_columns(c);
    progress_begin(&v.bar, "answering", "questions", 1.0);
    *begun = st == SR1_OK;
    if (st == SR1_OK)
        st = sr1_evaluate(out, rollout, data, &e);
    progress_clear(&v.bar);
    if (st == SR1_OK)
        remote_note("sr1-eval", rollout);
    if (v.trajectories && fclose(v.trajectories) != 0 && st == SR1_OK)
        st = cannot_write(o->trajectories);
    sr1_rollout_free(rollout);
    sr1_dataset_free(data);
    sr1_embedder_free(e.embedder);
    return st;
}

static int answer_questions(const struct options *o, sr1_config *c, const char *path)
{
    sr1_evaluation *e = NULL;
    int begun = 0, code;
    sr1_status st = evaluate(o, c, path, &begun, &e);

    if (st != SR1_OK)
        code = begun ? tool_failed("sr1-eval", st) : tool_refused("sr1-eval", st);
    else
        code = (o->json ? print_json(e) : print_table(e)) == 0 ? check_excluded(e)
                                                               : TOOL_FAILED;
    if (st != SR1_OK && is_set(c, "environment", "critique"))
        fprintf(stderr, "sr1-eval: this policy criticises answers to programming "
                        "problems; --task ctrl measures that\n");
    sr1_evaluation_free(e);
    return code;
}

static int revise_answers(const struct options *o, sr1_config *c, const char *path)
{
    struct ctrl_options ctrl = o->ctrl;

    ctrl.max_rows = o->max_rows;
    ctrl.seed = o->seed;
    ctrl.sample = o->sample;
    ctrl.json = o->json;
    return ctrl_run(&ctrl, c, path);
}

/* ---- the command line ---- */

static const struct task {
    const char *name;
    int (*run)(const struct options *o, sr1_config *c, const char *path);
} tasks[] = {{"answers", answer_questions}, {"ctrl", revise_answers}};

static struct options o = {
    .task = "answers",
    .ctrl = {.revisions = 1, .answers = 1, .votes = 1, .solver_temperature = 0.7}};

static const struct args_option options[] = {
    {"--max-rows", ARGS_INT, &o.max_rows, "N", "answer only the first N questions", 0,
     1e12, NULL},
    {"--sample", ARGS_FLAG, &o.sample, NULL, "sample by temperature instead of greedily",
     0, 0, NULL},
    {"--seed", ARGS_INT, &o.seed, "N", "of sampling (0)", 0, 1e15, NULL},
    {"--no-search", ARGS_FLAG, &o.no_search, NULL, "searches find nothing (ablation)", 0,
     0, NULL},
    {"--trajectories", ARGS_STRING, &o.trajectories, "FILE",
     "write every trajectory as a JSON line", 0, 0, NULL},
    {"--json", ARGS_FLAG, &o.json, NULL, "print JSON instead of a table", 0, 0, NULL},
    {"--task", ARGS_STRING, &o.task, "NAME", "answers (the default) or ctrl", 0, 0, NULL},
    {"--revisions", ARGS_INT, &o.ctrl.revisions, "K", "ctrl: revisions in a row (1)", 0,
     30, NULL},
    {"--answers", ARGS_INT, &o.ctrl.answers, "N", "ctrl: first answers a problem (1)", 1,
     100000, NULL},
    {"--widths", ARGS_STRING, &o.ctrl.widths, "LIST",
     "ctrl: children by layer, in place of both", 0, 0, NULL},
    {"--votes", ARGS_INT, &o.ctrl.votes, "N",
     "ctrl: critiques of each answer, of which most decide (1)", 1, 1000, NULL},
    {"--solver", ARGS_STRING, &o.ctrl.solver, "FOLDER",
     "ctrl: model that writes first answers (the problems' own)", 0, 0, NULL},
    {"--solver-temperature", ARGS_REAL, &o.ctrl.solver_temperature, "X",
     "ctrl: of several answers (0.7)", 0, 100, NULL},
    {"--tree", ARGS_STRING, &o.ctrl.tree, "FILE",
     "ctrl: nodes as JSON lines; an unfinished one is gone on with", 0, 0, NULL},
};

static const struct args a = {"sr1-eval", help_text, options,
                              sizeof(options) / sizeof(options[0])};

static const struct task *find(const char *name)
{
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
        if (strcmp(tasks[i].name, name) == 0)
            return &tasks[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *rest[256];
    const struct task *task;
    sr1_config *c = NULL;
    size_t n = 0;
    sr1_status st;
    int code = args_read(&a, argc, argv, rest, 256, &n);

    if (code >= 0)
        return code;
    if (n < 2)
        return args_wrong(
            &a, "give a policy and a file of questions: sr1-eval POLICY QUESTIONS");
    task = find(o.task);
    if (!task)
        return args_wrong(&a, "--task '%s' is not known; there are answers and ctrl",
                          o.task);
    policy_passive_waiting(argv);
    progress_warnings();
    st = policy_config(&c, rest[0], rest + 2, n - 2);
    code = st == SR1_OK ? task->run(&o, c, rest[1]) : tool_refused("sr1-eval", st);
    sr1_config_free(c);
    return tool_printed("sr1-eval", code);
}
