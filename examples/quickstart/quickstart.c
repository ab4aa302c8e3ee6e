/* quickstart.c - from nothing to a model that searches before it answers, in minutes.
 *
 *     made-up world -> demonstrations -> warm start -> GRPO with search -> held-out test
 *
 * Every step is a call of the public header; the settings are in sft.yaml, mix.yaml and
 * grpo.yaml beside this file. Questions of the test are about names that occur nowhere in
 * training, so only a model that searches can answer them. */
#include "common/args.h"
#include "common/output.h"
#include "common/policy.h"
#include "common/progress.h"
#include "common/table.h"

#include <searchr1/searchr1.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/world.h>

#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH_SIZE 1024

struct quickstart {
    const char *out;    /* folder of everything made */
    const char *recipe; /* folder with model.json, sft.yaml, grpo.yaml */
    int64_t seed;
    int brief; /* a cut that shows the mechanism in two minutes */
    struct progress bar;
    const char *phase;
};

/* What one stage of the model reaches on the held-out questions. */
struct result {
    const char *name;
    int done;
    double all, one_hop, two_hop;
    double searches_one, searches_two;
    double format;
    json_t *sample; /* what it does with one question */
};

enum { START, SFT, GRPO, DEAF, RESULTS };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void path_of(const struct quickstart *q, char out[PATH_SIZE], const char *name)
{
    if (snprintf(out, PATH_SIZE, "%s/%s", q->out, name) >= PATH_SIZE)
        out[0] = 0; /* no such file: the call that gets it says so */
}

/* ---- progress ---- */

static void begin(struct quickstart *q, const char *phase, const char *unit)
{
    q->phase = phase;
    progress_begin(&q->bar, phase, unit, 1.0);
}

static sr1_status on_world(void *user, const char *phase, int64_t done, int64_t total)
{
    struct quickstart *q = user;

    (void)phase;
    if (total > 1)
        progress_show(&q->bar, (double)done, (double)total, NULL);
    return SR1_OK;
}

static sr1_status on_step(void *user, const sr1_step_report *r, int64_t planned)
{
    struct quickstart *q = user;
    double searches = 0;
    char note[96];

    (void)sr1_step_metric(r, "env/number_of_searches", &searches);
    if (searches > 0)
        snprintf(note, sizeof(note), "reward %.2f  searches %.2f", r->avg_reward,
                 searches / (double)r->trajectories);
    else
        snprintf(note, sizeof(note), "loss %.3f", r->loss);
    progress_show(&q->bar, (double)r->step, (double)planned, note);
    return SR1_OK;
}

static sr1_status on_answers(void *user, int64_t done, int64_t total, int64_t tokens)
{
    struct quickstart *q = user;

    (void)tokens;
    progress_show(&q->bar, (double)done, (double)total, NULL);
    return SR1_OK;
}

/* ---- the steps ---- */

static sr1_status make_world(struct quickstart *q)
{
    static const int32_t brief_steps[5] = {120, 80, 160, 0, 40};
    sr1_world_options o;
    char folder[PATH_SIZE];
    sr1_status st;

    sr1_world_options_init(&o);
    o.seed = (uint64_t)q->seed;
    if (q->brief)
        memcpy(o.stage_steps, brief_steps, sizeof(brief_steps));
    path_of(q, folder, "world");
    begin(q, "making the world", "rows");
    st = sr1_world_write(folder, &o, on_world, q);
    progress_clear(&q->bar);
    return st;
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1, 65536) : NULL;

    if (text && fread(text, 1, 65535, f) == 0)
        text[0] = '\0';
    if (f)
        fclose(f);
    return text;
}

static sr1_status make_model(struct quickstart *q)
{
    sr1_model_options o = {
        .struct_size = sizeof(o), .device = "cpu", .dtype = "fp32", .init = "fan_in"};
    char config[PATH_SIZE], folder[PATH_SIZE], tokens[PATH_SIZE];
    sr1_tokenizer *tokenizer = NULL;
    sr1_model *model = NULL;
    char *text;
    sr1_status st;

    snprintf(config, sizeof(config), "%s/model.json", q->recipe);
    path_of(q, folder, "start");
    path_of(q, tokens, "world/tokenizer");
    text = read_text(config);
    st = text ? sr1_tokenizer_open(&tokenizer, tokens)
              : sr1_set_error(SR1_E_IO, "cannot read model.json of the recipe; run this "
                                        "from the source folder, or say --recipe FOLDER");
    if (st == SR1_OK)
        st = sr1_model_new_random(&model, text, (uint64_t)q->seed, &o);
    if (st == SR1_OK)
        st = sr1_model_save(model, folder);
    if (st == SR1_OK)
        st = sr1_tokenizer_save(tokenizer, folder);
    sr1_model_free(model);
    sr1_tokenizer_free(tokenizer);
    free(text);
    return st;
}

/* One training run: a recipe, the model it begins with, its folder. */
struct stage {
    const char *phase; /* as people read it */
    const char *recipe;
    const char *demos; /* of a warm start, else NULL */
    const char *model;
    const char *out;
};

static const struct stage clean = {"warm start: clean demonstrations", "sft.yaml",
                                   "world/sft.jsonl", "start", "clean"};
static const struct stage mixed = {"warm start: mixed demonstrations", "mix.yaml",
                                   "world/mix.jsonl", "clean/model", "sft"};
static const struct stage grpo = {"GRPO", "grpo.yaml", NULL, "sft/model", "grpo"};

/* A recipe with this run's files. */
static sr1_status configure(const struct quickstart *q, const struct stage *stage,
                            sr1_config **c)
{
    static const struct {
        const char *key, *file;
    } files[] = {{"train_file", "world/train.jsonl"},
                 {"validation_file", "world/validation.jsonl"},
                 {"search_index", "world/corpus.bm25"}};
    char path[PATH_SIZE];
    sr1_status st = sr1_config_new(c);

    snprintf(path, sizeof(path), "%s/%s", q->recipe, stage->recipe);
    if (st == SR1_OK)
        st = sr1_config_load(*c, path);
    if (st == SR1_OK && stage->demos) {
        path_of(q, path, stage->demos);
        st = sr1_config_set(*c, "sft_file", path);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && st == SR1_OK; i++) {
        path_of(q, path, files[i].file);
        st = sr1_config_set(*c, files[i].key, path);
    }
    path_of(q, path, stage->model);
    if (st == SR1_OK)
        st = sr1_config_set(*c, "model_name_or_path", path);
    path_of(q, path, stage->out);
    if (st == SR1_OK)
        st = sr1_config_set(*c, "out", path);
    snprintf(path, sizeof(path), "%lld", (long long)q->seed);
    if (st == SR1_OK)
        st = sr1_config_set(*c, "seed", path);
    if (st == SR1_OK && q->brief && stage == &grpo)
        st = sr1_config_set(*c, "max_steps", "5");
    return st;
}

static sr1_status train(struct quickstart *q, const struct stage *stage)
{
    sr1_run_callbacks cb = {.struct_size = sizeof(cb), .user = q, .step = on_step};
    sr1_config *c = NULL;
    sr1_trainer *tr = NULL;
    sr1_status st = configure(q, stage, &c);

    double goal = 0;

    begin(q, stage->phase, "steps");
    if (st == SR1_OK)
        st = sr1_config_get_real(c, "stop_at_exact_match", &goal);
    q->bar.may_end_early = goal > 0;
    if (st == SR1_OK)
        st = sr1_trainer_new(&tr, c, NULL);
    if (st == SR1_OK)
        st = sr1_trainer_run(tr, &cb);
    progress_clear(&q->bar);
    sr1_trainer_free(tr);
    sr1_config_free(c);
    return st;
}

/* ---- the test ---- */

static void read_scores(const sr1_evaluation *e, struct result *r)
{
    for (size_t i = 0; i < sr1_evaluation_count(e); i++) {
        sr1_eval_scores s = {.struct_size = sizeof(s)};

        if (sr1_evaluation_scores(e, i, &s) != SR1_OK)
            continue;
        if (!s.data_source) {
            r->all = s.exact_match;
            r->format = s.format;
        } else if (strcmp(s.data_source, "one-hop") == 0) {
            r->one_hop = s.exact_match;
            r->searches_one = s.searches;
        } else {
            r->two_hop = s.exact_match;
            r->searches_two = s.searches;
        }
    }
    r->done = 1;
}

/* Show what the model does with one two-hop question, and keep it for the report. */
static sr1_status show_sample(sr1_rollout *rollout, const sr1_dataset *data, int deaf,
                              struct result *r)
{
    int64_t last = sr1_dataset_count(data) - 1;
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = 1,
                             .greedy = 1,
                             .max_tokens = 60,
                             .no_search = deaf};
    sr1_trajectory *t = NULL;
    sr1_row *row = NULL;
    sr1_status st = sr1_dataset_read(data, last, &row);

    if (st == SR1_OK) {
        sr1_query query = {.struct_size = sizeof(query),
                           .text = sr1_row_question(row),
                           .text_len = strlen(sr1_row_question(row))};

        st = sr1_rollout_generate(rollout, &query, 1, &o, &t);
    }
    if (st == SR1_OK) {
        printf("  question: %s\n  right answer: %s\n  model: %s\n\n",
               sr1_row_question(row), sr1_row_answer(row, 0),
               sr1_trajectory_generated_text(t, NULL));
        r->sample = json_pack("{s:s, s:s, s:s}", "question", sr1_row_question(row),
                              "right_answer", sr1_row_answer(row, 0), "text",
                              sr1_trajectory_generated_text(t, NULL));
    }
    sr1_trajectory_free(t);
    sr1_row_free(row);
    return st;
}

static sr1_status test(struct quickstart *q, const char *model, int deaf,
                       struct result *r)
{
    sr1_eval_options o = {.struct_size = sizeof(o),
                          .greedy = 1,
                          .no_search = deaf,
                          .progress = on_answers,
                          .user = q};
    char path[PATH_SIZE];
    const char *paths[1] = {path};
    sr1_config *c = NULL;
    sr1_rollout *rollout = NULL;
    sr1_dataset *data = NULL;
    sr1_evaluation *e = NULL;
    const struct stage asked = {"test", "grpo.yaml", NULL, model, "test"};
    sr1_status st = configure(q, &asked, &c);

    path_of(q, path, "world/test.jsonl");
    begin(q, "answering held-out questions", "questions");
    if (st == SR1_OK)
        st = sr1_dataset_open(&data, paths, 1, NULL);
    if (st == SR1_OK)
        st = sr1_rollout_new(&rollout, c, NULL, NULL, NULL);
    if (st == SR1_OK)
        st = sr1_evaluate(&e, rollout, data, &o);
    progress_clear(&q->bar);
    if (st == SR1_OK) {
        read_scores(e, r);
        printf("%s: exact match %.3f on %lld held-out questions\n", r->name, r->all,
               (long long)sr1_dataset_count(data));
        st = show_sample(rollout, data, deaf, r);
    }
    fflush(stdout);
    sr1_evaluation_free(e);
    sr1_rollout_free(rollout);
    sr1_dataset_free(data);
    sr1_config_free(c);
    return st;
}

/* ---- the summary ---- */

/* Said before the figures of a cut and behind them. */
static const char brief_note[] =
    "--brief shows the mechanism only: so few steps teach the model little, and most "
    "figures stay near 0; the same command without it trains to the end\n";

static void print_summary(const struct result *r, double seconds)
{
    static const struct table_column heads[] = {
        {"model", TABLE_LEFT, 0},          {"exact match", TABLE_RIGHT, 0},
        {"one hop", TABLE_RIGHT, 0},       {"two hops", TABLE_RIGHT, 0},
        {"searches, one", TABLE_RIGHT, 0}, {"two", TABLE_RIGHT, 0},
        {"well-formed", TABLE_RIGHT, 0}};
    struct table t;

    table_begin(&t, heads, 7);
    for (int i = 0; i < RESULTS; i++) {
        char cells[6][16];
        const double v[6] = {r[i].all,          r[i].one_hop,      r[i].two_hop,
                             r[i].searches_one, r[i].searches_two, r[i].format};
        const char *row[7] = {r[i].name};

        for (int k = 0; k < 6; k++) {
            snprintf(cells[k], sizeof(cells[k]), k < 3 || k == 5 ? "%.3f" : "%.2f", v[k]);
            row[k + 1] = cells[k];
        }
        table_row(&t, row);
    }
    (void)table_end(&t, stdout);
    printf("\n%.0f seconds from warm start to last test\n", seconds);
}

static json_t *by_stage(const struct result *r, size_t offset)
{
    json_t *o = json_object();

    for (int i = 0; i < RESULTS; i++)
        json_object_set_new(
            o, r[i].name,
            json_real(*(const double *)(const void *)((const char *)&r[i] + offset)));
    return o;
}

static sr1_status write_summary(const struct quickstart *q, const struct result *r,
                                double seconds)
{
    json_t *searches = json_object();
    json_t *all = json_pack("{s:I, s:b, s:f}", "seed", (json_int_t)q->seed, "brief",
                            q->brief, "seconds", seconds);
    char path[PATH_SIZE];
    int failed;

    json_object_set_new(all, "exact_match", by_stage(r, offsetof(struct result, all)));
    json_object_set_new(all, "exact_match_one_hop",
                        by_stage(r, offsetof(struct result, one_hop)));
    json_object_set_new(all, "exact_match_two_hop",
                        by_stage(r, offsetof(struct result, two_hop)));
    json_object_set_new(all, "format", by_stage(r, offsetof(struct result, format)));
    json_object_set_new(searches, "one_hop",
                        by_stage(r, offsetof(struct result, searches_one)));
    json_object_set_new(searches, "two_hop",
                        by_stage(r, offsetof(struct result, searches_two)));
    json_object_set_new(all, "searches_per_question", searches);
    path_of(q, path, "summary.json");
    failed = json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(all);
    if (failed)
        return sr1_set_error(SR1_E_IO, "cannot write summary.json");
    printf("summary: %s; each run's folder beside it holds metrics.jsonl and the model\n",
           path);
    return SR1_OK;
}

/* The same question at every stage, for the top of the report. */
static sr1_status write_samples(const struct quickstart *q, const struct result *r)
{
    json_t *list = json_array(), *all;
    char path[PATH_SIZE];
    int failed;

    for (int i = START; i <= GRPO; i++) {
        json_object_set_new(r[i].sample, "name", json_string(r[i].name));
        json_object_set_new(r[i].sample, "figures",
                            json_pack("{s:f}", "exact match", r[i].all));
        json_array_append(list, r[i].sample);
    }
    all = json_pack("{s:O, s:O, s:o}", "question",
                    json_object_get(r[GRPO].sample, "question"), "right_answer",
                    json_object_get(r[GRPO].sample, "right_answer"), "samples", list);
    path_of(q, path, "samples.json");
    failed = json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(all);
    return failed ? sr1_set_error(SR1_E_IO, "cannot write samples.json") : SR1_OK;
}

static sr1_status run(struct quickstart *q)
{
    struct result r[RESULTS] = {{.name = "start"},
                                {.name = "sft"},
                                {.name = "grpo"},
                                {.name = "grpo_without_search"}};
    double began;
    sr1_status st = make_world(q);

    if (st == SR1_OK)
        st = make_model(q);
    if (st == SR1_OK)
        st = test(q, "start", 0, &r[START]);
    began = now();
    if (st == SR1_OK)
        st = train(q, &clean);
    if (st == SR1_OK)
        st = train(q, &mixed);
    if (st == SR1_OK)
        st = test(q, "sft/model", 0, &r[SFT]);
    if (st == SR1_OK)
        st = train(q, &grpo);
    if (st == SR1_OK)
        st = test(q, "grpo/model", 0, &r[GRPO]);
    if (st == SR1_OK)
        st = test(q, "grpo/model", 1, &r[DEAF]);
    if (st == SR1_OK) {
        print_summary(r, now() - began);
        fputs(q->brief ? brief_note : "", stdout);
        st = write_summary(q, r, now() - began);
    }
    if (st == SR1_OK)
        st = write_samples(q, r);
    for (int i = 0; i < RESULTS; i++)
        json_decref(r[i].sample);
    return st;
}

/* Where a path begins that is relative to the folder of this program. */
static void path_from_program(char path[PATH_SIZE], const char *relative)
{
    char program[PATH_SIZE];
    ssize_t n = readlink("/proc/self/exe", program, PATH_SIZE - 1);
    char *name;

    program[n > 0 ? n : 0] = '\0';
    name = strrchr(program, '/');
    if (name)
        *name = '\0';
    if (snprintf(path, PATH_SIZE, "%s/%s", program, relative) >= PATH_SIZE)
        path[0] = '\0';
}

/* The folder of the tools: that of the same build, or the one this program is installed
 * in. */
static int find_tool(char path[PATH_SIZE], const char *name)
{
    static const char *const folders[] = {"../../tools", "."};
    char relative[128];

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(relative, sizeof(relative), "%s/%s", folders[i], name);
        path_from_program(path, relative);
        if (access(path, X_OK) == 0)
            return 1;
    }
    return 0;
}

/* The settings: those of the checkout that this is started in, or those installed. */
static void find_recipe(struct quickstart *q, char path[PATH_SIZE])
{
    if (q->recipe)
        return;
    q->recipe = "examples/quickstart";
    path_from_program(path, "../share/searchr1/quickstart");
    if (access("examples/quickstart/grpo.yaml", R_OK) != 0 && access(path, R_OK) == 0)
        q->recipe = path;
}

/* The page about the GRPO run, by sr1-report; it says where the page lies. Where that
 * tool is not there, nothing happens. */
static void write_report(const struct quickstart *q)
{
    char tool[PATH_SIZE], folder[PATH_SIZE], page[PATH_SIZE], samples[PATH_SIZE];
    char option[] = "-o", with[] = "--samples";
    char *const words[] = {tool, folder, option, page, with, samples, NULL};
    pid_t child;

    if (!find_tool(tool, "sr1-report"))
        return;
    path_of(q, folder, "grpo");
    path_of(q, page, "report.html");
    path_of(q, samples, "samples.json");
    printf("report, for a browser: ");
    fflush(stdout);
    if (posix_spawn(&child, tool, NULL, NULL, words, environ) == 0)
        waitpid(child, NULL, 0);
}

/* What the user types next: the tool of the build as README writes it, or the installed
 * one. */
static void print_next_command(const struct quickstart *q)
{
    char tool[PATH_SIZE];

    path_from_program(tool, "sr1-infer");
    printf(
        "ask it: %s %s/grpo --question 'QUESTION', like those of %s/world/test.jsonl\n",
        access(tool, X_OK) == 0 ? "sr1-infer" : "build/tools/sr1-infer", q->out, q->out);
}

/* The default folder, or runs/quickstart-2, -3, ... when it is taken. */
static void next_free_folder(struct quickstart *q, char folder[PATH_SIZE])
{
    for (int i = 2; output_holds_files(q->out); i++) {
        snprintf(folder, PATH_SIZE, "runs/quickstart-%d", i);
        q->out = folder;
    }
}

static const char help_text[] =
    "usage: sr1-quickstart [options]\n"
    "\n"
    "Makes a world, a model with random weights, a warm start from demonstrations and a "
    "GRPO\n"
    "run with search, and tests each on questions about names it has never seen.\n";

int main(int argc, char **argv)
{
    struct quickstart q = {.out = "runs/quickstart", .seed = 11};
    const struct args_option options[] = {
        {"--seed", ARGS_INT, &q.seed, "N", "of names, world, weights and sampling (11)",
         0, 1e15},
        {"--out", ARGS_STRING, &q.out, "FOLDER", "where to write (runs/quickstart)", 0,
         0},
        {"--recipe", ARGS_STRING, &q.recipe, "FOLDER",
         "model.json, sft.yaml and grpo.yaml (examples/quickstart, or those installed)",
         0, 0},
        {"--brief", ARGS_FLAG, &q.brief, NULL,
         "a cut of two minutes: shows the mechanism, learns less", 0, 0},
    };
    int given[sizeof(options) / sizeof(options[0])] = {0};
    const struct args a = {.program = "sr1-quickstart",
                           .help = help_text,
                           .options = options,
                           .n_options = sizeof(options) / sizeof(options[0]),
                           .given = given};
    const char *rest[1];
    size_t n = 0;
    char folder[PATH_SIZE], recipe[PATH_SIZE];
    int code = args_read(&a, argc, argv, rest, 1, &n);

    if (code >= 0)
        return code;
    policy_passive_waiting(argv);
    find_recipe(&q, recipe);
    if (args_is_given(&a, "--out") && output_holds_files(q.out)) {
        fprintf(
            stderr,
            "sr1-quickstart: %s is not empty, and files in it could be replaced; choose "
            "another folder with --out\n",
            q.out);
        return TOOL_USAGE;
    }
    next_free_folder(&q, folder);
    printf("writing to %s\n", q.out);
    fputs(q.brief ? brief_note : "", stdout);
    if (run(&q) != SR1_OK) {
        fprintf(stderr, "sr1-quickstart: %s: %s\n", q.phase ? q.phase : "start",
                sr1_last_error());
        return TOOL_FAILED;
    }
    write_report(&q);
    print_next_command(&q);
    return TOOL_OK;
}
