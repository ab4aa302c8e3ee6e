/* sr1-data - make what training needs: worlds to learn in, models to begin with. */
#include "common/args.h"
#include "common/output.h"
#include "common/policy.h"
#include "common/progress.h"
#include "sr1_data/critiques.h"
#include "sr1_data/synth.h"

#include <searchr1/data.h>
#include <searchr1/model.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/data_files.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/world.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help_text[] =
    "Existing files are kept unless --force is given.\n"
    "\n"
    "Example:\n"
    "  sr1-data world runs/world --seed 1\n"
    "  sr1-data model examples/quickstart/model.json runs/start \\\n"
    "      --tokenizer runs/world/tokenizer\n"
    "  sr1-data critiques problems.jsonl sft.jsonl --model models/coder \\\n"
    "      --tree tree.jsonl --rows rows.jsonl\n";

#define TEXT_MAX (1 << 20) /* bytes of a config.json */

struct data_options {
    int64_t seed;
    int64_t tests;
    const char *tokenizer;
    const char *base;
    const char *init;
    double scale;
    const char *protocol;
    const char *stages;
    int64_t hops;
    int small;
    int force; /* replace what is there */
    const char *source;
    const char *split;
    const char *tools, *chat_template;
    struct synth_options synth;
    struct critique_options critiques;
};

static sr1_status show_data_phase(void *user, const char *phase, int64_t done,
                                  int64_t total)
{
    struct progress *p = user;

    if (strcmp(p->title, phase) != 0) {
        progress_clear(p);
        progress_begin(p, phase, "rows", 1.0);
    }
    if (total > 1)
        progress_show(p, (double)done, (double)total, NULL);
    return SR1_OK;
}

/* "A,B,C,D,E" into the steps of five stages. Returns whether it is that. */
static int read_stages(const char *text, int32_t steps[5])
{
    int used = 0;

    return strlen(text) < 40 && strspn(text, "0123456789,") == strlen(text) &&
           sscanf(text, "%9d,%9d,%9d,%9d,%9d%n", &steps[0], &steps[1], &steps[2],
                  &steps[3], &steps[4], &used) == 5 &&
           text[used] == '\0';
}

static int was_written(const char *folder, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static int make_world(const struct args *a, const struct data_options *o,
                      const char **words, size_t n)
{
    const char *folder = words[0];
    sr1_world_options w = {0};
    struct progress p;
    sr1_status st;

    (void)n;
    sr1_world_options_init(&w);
    w.seed = (uint64_t)o->seed;
    w.scale = o->scale;
    w.protocol = o->protocol;
    w.hops = (int32_t)o->hops;
    if (o->stages && !read_stages(o->stages, w.stage_steps))
        return args_wrong(a, "--stages: '%.64s' is not five numbers with commas",
                          o->stages);
    progress_begin(&p, "world", "rows", 1.0);
    st = output_check_folder(folder, NULL, 0, o->force);
    if (st == SR1_OK)
        st = sr1_world_write(folder, &w, show_data_phase, &p);
    progress_clear(&p);
    if (st != SR1_OK)
        return tool_failed("sr1-data", st);
    printf("%s: corpus.jsonl, corpus.bm25, %s%s%strain.jsonl, validation.jsonl, "
           "test.jsonl, tokenizer/\n",
           folder,
           was_written(folder, "sft-corpus.jsonl") ? "sft-corpus.jsonl, sft-corpus.bm25, "
                                                   : "",
           was_written(folder, "sft.jsonl") ? "sft.jsonl, " : "",
           was_written(folder, "mix.jsonl") ? "mix.jsonl, " : "");
    return TOOL_OK;
}

static int make_rooms(const struct args *a, const struct data_options *o,
                      const char **words, size_t n)
{
    const char *folder = words[0];
    sr1_rooms_options r;
    struct progress p;
    sr1_status st;

    (void)a;
    (void)n;
    sr1_rooms_options_init(&r);
    r.seed = (uint64_t)o->seed;
    if (o->tests > 0)
        r.test_questions = (int32_t)o->tests;
    r.small = o->small;
    progress_begin(&p, "rooms", "rows", 1.0);
    st = output_check_folder(folder, NULL, 0, o->force);
    if (st == SR1_OK)
        st = sr1_rooms_write(folder, &r, show_data_phase, &p);
    progress_clear(&p);
    if (st != SR1_OK)
        return tool_failed("sr1-data", st);
    printf("%s: sft.jsonl, train.jsonl, validation.jsonl, test.jsonl, tokenizer/\n",
           folder);
    return TOOL_OK;
}

static int make_programs(const struct args *a, const struct data_options *o,
                         const char **words, size_t n)
{
    const char *folder = words[0];
    sr1_programs_options w = {0};
    struct progress p;
    sr1_status st;

    (void)a;
    (void)n;
    sr1_programs_options_init(&w);
    w.seed = (uint64_t)o->seed;
    progress_begin(&p, "programs", "rows", 1.0);
    st = output_check_folder(folder, NULL, 0, o->force);
    if (st == SR1_OK)
        st = sr1_programs_write(folder, &w, show_data_phase, &p);
    progress_clear(&p);
    if (st != SR1_OK)
        return tool_failed("sr1-data", st);
    printf("%s: sft.jsonl, careless.jsonl, train.jsonl, validation.jsonl, test.jsonl, "
           "critique.txt, solve.txt, tokenizer/\n",
           folder);
    return TOOL_OK;
}

static sr1_status cannot_read(const char *path)
{
    char text[512];

    snprintf(text, sizeof(text), "cannot read %.400s: %s", path, strerror(errno));
    return sr1_set_error(SR1_E_NOT_FOUND, text);
}

/* The text of a small file; free it. */
static sr1_status read_model_config(const char *path, char **out)
{
    FILE *f = fopen(path, "rb");
    char *text;
    int failed = 0;

    if (!f)
        return cannot_read(path);
    text = calloc(1, TEXT_MAX + 2);
    errno = 0;
    if (text)
        failed = fread(text, 1, TEXT_MAX + 1, f) > TEXT_MAX || ferror(f);
    if (failed && !ferror(f))
        errno = EFBIG;
    fclose(f);
    if (!text)
        return sr1_set_error(SR1_E_NOMEM, "out of memory");
    if (failed) {
        free(text);
        return cannot_read(path);
    }
    *out = text;
    return SR1_OK;
}

/* Put the file's name before an error in the text that was read from it. */
static sr1_status name_file(sr1_status st, const char *path)
{
    char text[1024];

    if (st == SR1_OK || strncmp(sr1_last_error(), "config:", 7) != 0)
        return st;
    snprintf(text, sizeof(text), "%.400s: %.600s", path, sr1_last_error());
    return sr1_set_error(st, text);
}

/* The config.json that is read is not to become the one that is written. */
static sr1_status check_model(const char *config, const char *folder, int force)
{
    char written[4200];
    const struct output o = {.path = written};

    snprintf(written, sizeof(written), "%.4096s/config.json", folder);
    if (access(written, F_OK) == 0) {
        sr1_status st = output_check(&o, &config, 1, 1);

        if (st != SR1_OK)
            return st;
    }
    return output_check_folder(folder, NULL, 0, force);
}

/* Of a folder, whose other files are written with it. */
static sr1_status open_tokenizer(sr1_tokenizer **out, const char *folder)
{
    struct stat is;
    char text[600];

    if (stat(folder, &is) != 0 || S_ISDIR(is.st_mode))
        return sr1_tokenizer_open(out, folder);
    snprintf(text, sizeof(text),
             "--tokenizer %.400s is a file; name the folder that it is in, whose other "
             "files are written too",
             folder);
    return sr1_set_error(SR1_E_INVALID, text);
}

/* Has every id of the tokenizer an embedding? Otherwise no tool would open the model. */
static sr1_status check_vocabulary(const sr1_model *model, const sr1_tokenizer *tokenizer,
                                   const char *config)
{
    long long ids = sr1_tokenizer_vocab_size(tokenizer);
    long long rows = sr1_model_info(model, SR1_MODEL_VOCAB);
    char text[1024];

    if (ids <= rows)
        return SR1_OK;
    snprintf(text, sizeof(text),
             "%.400s: vocab_size is %lld, and the tokenizer has %lld ids; set vocab_size "
             "to %lld or more",
             config, rows, ids, ids);
    return sr1_set_error(SR1_E_CONFIG, text);
}

static int make_model(const struct args *a, const struct data_options *o,
                      const char **words, size_t n)
{
    const char *config = words[0], *folder = words[1];
    sr1_model_options m = {
        .struct_size = sizeof(m), .device = "cpu", .dtype = "fp32", .init = o->init};
    sr1_tokenizer *tokenizer = NULL;
    sr1_model *model = NULL;
    char *text = NULL;
    int ready; /* what follows writes */
    sr1_status st;

    (void)n;
    if (!o->tokenizer)
        return args_wrong(a, "model needs --tokenizer FOLDER");
    st = check_model(config, folder, o->force);
    if (st == SR1_OK)
        st = read_model_config(config, &text);
    if (st == SR1_OK)
        st = open_tokenizer(&tokenizer, o->tokenizer);
    if (st == SR1_OK)
        st = name_file(sr1_model_new_random(&model, text, (uint64_t)o->seed, &m), config);
    if (st == SR1_OK)
        st = check_vocabulary(model, tokenizer, config);
    ready = st == SR1_OK;
    if (st == SR1_OK)
        st = sr1_model_save(model, folder);
    if (st == SR1_OK)
        st = sr1_tokenizer_save(tokenizer, folder);
    if (st == SR1_OK)
        printf("%s: %lld parameters\n", folder,
               (long long)sr1_model_info(model, SR1_MODEL_PARAMETERS));
    sr1_model_free(model);
    sr1_tokenizer_free(tokenizer);
    free(text);
    if (st == SR1_OK)
        return TOOL_OK;
    return ready ? tool_failed("sr1-data", st) : tool_refused("sr1-data", st);
}

/* The folder of the model that `path` stands for: a run, a checkpoint, an adapter; and
 * that of its base, unless it is given or the adapter's to say. */
static sr1_status find_model(const char *path, sr1_config **c, const char **folder,
                             const char **base)
{
    sr1_status st = policy_config(c, path, NULL, 0);

    if (st == SR1_OK && !*base)
        st = sr1_config_get_str(*c, "base_model_name_or_path", base);
    return st == SR1_OK ? sr1_config_get_str(*c, "model_name_or_path", folder) : st;
}

/* The adapter's own; where it has none and its base is named, the base's. */
static sr1_status open_adapter_tokenizer(sr1_tokenizer **out, const char *folder,
                                         const char *base)
{
    sr1_status st = sr1_tokenizer_open(out, folder);

    return st == SR1_E_NOT_FOUND && *base ? sr1_tokenizer_open(out, base) : st;
}

static sr1_status open_adapter(sr1_model **out, const char *folder, const char *base)
{
    sr1_model_options m = {
        .struct_size = sizeof(m), .device = "cpu", .dtype = "stored", .base_model = base};
    char text[512];
    sr1_status st = sr1_model_open(out, folder, &m);

    if (st != SR1_OK || sr1_model_info(*out, SR1_MODEL_LORA_RANK) > 0)
        return st;
    snprintf(text, sizeof(text), "%.400s is a whole model: it holds no adapter", folder);
    return sr1_set_error(SR1_E_INVALID, text);
}

static sr1_status check_merged(const struct data_options *o, const char *from,
                               const char *adapter, const char *to)
{
    const char *inputs[] = {from, adapter, o->base, o->tokenizer};

    return output_check_folder(to, inputs, 4, o->force);
}

static int merge_adapter(const struct args *a, const struct data_options *o,
                         const char **words, size_t n)
{
    const char *from = words[0], *to = words[1], *folder = NULL, *base = o->base;
    sr1_tokenizer *tokenizer = NULL;
    sr1_model *model = NULL;
    sr1_config *c = NULL;
    int ready; /* what follows writes */
    sr1_status st = find_model(from, &c, &folder, &base);

    (void)a;
    (void)n;
    if (st == SR1_OK)
        st = check_merged(o, from, folder, to);
    if (st == SR1_OK)
        st = open_adapter(&model, folder, base);
    if (st == SR1_OK)
        st = o->tokenizer ? open_tokenizer(&tokenizer, o->tokenizer)
                          : open_adapter_tokenizer(&tokenizer, folder, base);
    ready = st == SR1_OK;
    if (st == SR1_OK)
        st = sr1_model_save_merged(model, to);
    if (st == SR1_OK)
        st = sr1_tokenizer_save(tokenizer, to);
    if (st == SR1_OK)
        printf("%s: %lld parameters, an adapter of rank %lld among them, %s\n", to,
               (long long)sr1_model_info(model, SR1_MODEL_PARAMETERS),
               (long long)sr1_model_info(model, SR1_MODEL_LORA_RANK),
               sr1_model_dtype(model));
    sr1_tokenizer_free(tokenizer);
    sr1_model_free(model);
    sr1_config_free(c);
    if (st == SR1_OK)
        return TOOL_OK;
    return ready ? tool_failed("sr1-data", st) : tool_refused("sr1-data", st);
}

/* The questions of a file, by the fields that key=value words name. */
static sr1_status open_rows(sr1_dataset **out, const char *path, const char *const *pairs,
                            size_t n)
{
    sr1_config *c = NULL;
    sr1_status st = sr1_config_new(&c);

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_config_set_pair(c, pairs[i]);
    if (st == SR1_OK)
        st = policy_questions(out, c, path);
    sr1_config_free(c);
    return st;
}

static int make_records(const struct args *a, const struct data_options *o,
                        const char **words, size_t n)
{
    const char *from = words[0], *to = words[1];
    sr1_record_options r = {
        .struct_size = sizeof(r), .data_source = o->source, .split = o->split};
    const struct output out = {.path = to};
    sr1_dataset *dataset = NULL;
    sr1_status st = output_check(&out, &from, 1, o->force);

    (void)a;
    if (st == SR1_OK)
        st = open_rows(&dataset, from, words + 2, n - 2);
    if (st != SR1_OK)
        return tool_refused("sr1-data", st);
    st = sr1_dataset_write_records(dataset, to, &r);
    if (st == SR1_OK)
        printf("%s: %lld record%s\n", to, (long long)sr1_dataset_count(dataset),
               plural_ending(sr1_dataset_count(dataset), "s"));
    sr1_dataset_free(dataset);
    return st == SR1_OK ? TOOL_OK : tool_failed("sr1-data", st);
}

static int make_demonstrations(const struct args *a, const struct data_options *o,
                               const char **words, size_t n)
{
    struct synth_options synth = o->synth;

    (void)a;
    synth.seed = o->seed;
    return synth_run(&synth, words[0], words[1], words[2], words + 3, n - 3);
}

static int make_critique_data(const struct args *a, const struct data_options *o,
                              const char **words, size_t n)
{
    struct critique_options k = o->critiques;

    if (!k.model == !k.remote)
        return args_wrong(a, "critiques needs --model FOLDER or --remote URL");
    k.seed = o->seed;
    k.force = o->force;
    return make_critiques(&k, words[0], words[1], words + 2, n - 2);
}

/* A conversation as the tokenizer's chat template writes it, up to the next answer. */
static int print_chat(const struct args *a, const struct data_options *o,
                      const char **words, size_t n)
{
    sr1_chat_options options = {.struct_size = sizeof(options),
                                .add_generation_prompt = 1};
    sr1_tokenizer *tokenizer = NULL;
    char *messages = NULL, *tools = NULL, *text = NULL;
    size_t size = 0;
    struct stat s;
    sr1_status st;

    (void)n;
    if (stat(words[1], &s) == 0 && S_ISDIR(s.st_mode))
        return args_wrong(a,
                          "%s is a folder, not a file of messages; the tokenizer comes "
                          "first",
                          words[1]);
    st = sr1_tokenizer_open(&tokenizer, words[0]);
    if (st == SR1_OK && o->chat_template)
        st = sr1_tokenizer_set_chat_template(tokenizer, o->chat_template);
    if (st == SR1_OK)
        st = read_model_config(words[1], &messages);
    if (st == SR1_OK && o->tools)
        st = read_model_config(o->tools, &tools);
    options.tools = tools;
    if (st == SR1_OK)
        st = sr1_tokenizer_chat_json(tokenizer, messages, strlen(messages), &options,
                                     &text, &size, NULL, NULL);
    if (st == SR1_OK)
        fwrite(text, 1, size, stdout);
    sr1_free(text);
    sr1_tokenizer_free(tokenizer);
    free(messages);
    free(tools);
    return st == SR1_OK ? TOOL_OK : tool_refused("sr1-data", st);
}

/* ---- the command line ---- */

#define WORDS 256 /* at most: a command and what it works on, key=value among it */

static const struct args_command commands[] = {
    {"world", "sr1-data world FOLDER [--seed N] [--protocol NAME] [--hops N]\n",
     "world      write a made-up world: passages with their BM25 index, questions for "
     "training,\n"
     "           validation and test, demonstrations for a warm start, and a "
     "tokenizer\n"},
    {"rooms", "sr1-data rooms FOLDER [--seed N] [--small]\n",
     "rooms      write tasks in a text world of rooms and things, demonstrations that "
     "think\n"
     "           at levels, and a tokenizer\n"},
    {"programs", "sr1-data programs FOLDER [--seed N]\n",
     "programs   write problems of tiny Python programs with planted bugs, "
     "demonstrations of\n"
     "           criticising and revising them, and a tokenizer\n"},
    {"critiques",
     "sr1-data critiques PROBLEMS OUT.jsonl --model FOLDER [key=value ...]\n",
     "critiques  write demonstrations of critiques for stage sft: a model (--model, or a "
     "server,\n"
     "           --remote) solves programming problems, is told what running its "
     "answers\n"
     "           showed, and criticises and revises them; --rows writes the problems "
     "with\n"
     "           answers to train on. Programs run in the sandbox (keys sandbox*)\n"},
    {"model", "sr1-data model CONFIG.json FOLDER --tokenizer FOLDER [--seed N]\n",
     "model      write a model with random weights of the shape in a Hugging Face "
     "config.json,\n"
     "           together with a tokenizer, as a folder that sr1-train opens\n"},
    {"merge", "sr1-data merge ADAPTER FOLDER [--base FOLDER] [--tokenizer FOLDER]\n",
     "merge      write the whole model of a LoRA adapter and the base that it names, in "
     "the\n"
     "           base's type; ADAPTER is a folder of peft's, a run of sr1-train with "
     "lora_rank,\n"
     "           or one of its checkpoints\n"},
    {"nq",
     "sr1-data nq QUESTIONS OUT.jsonl [key=value ...] [--source NAME] [--split NAME]\n",
     "nq         write questions with gold answers (.jsonl, .json, .csv, .tsv) as the "
     "records of\n"
     "           Search-R1's published code: prompt, data_source, reward_model, "
     "extra_info;\n"
     "           answer_field=NAME and question_field=NAME where fields have other "
     "names\n"},
    {"synth",
     "sr1-data synth POLICY QUESTIONS OUT.jsonl [key=value ...] [--samples N]\n"
     "         [--min-reward X] [--keep N] [--greedy] [--max-rows N] [--seed N]\n",
     "synth      let a policy, or with use_openai=true a model behind a server, answer\n"
     "           questions, and append what earned enough as demonstrations for stage "
     "sft.\n"
     "           POLICY is a run folder or a model folder (for a server: its tokenizer "
     "is\n"
     "           enough). After a stop the same command continues\n"},
    {"chat", "sr1-data chat TOKENIZER MESSAGES.json [--tools FILE] [--template NAME]\n",
     "chat       print a conversation, a JSON array of messages, as the chat template of "
     "a\n"
     "           tokenizer's folder writes it, up to the beginning of the next answer\n"},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* In the order of the commands. */
static const struct {
    size_t least, most; /* words it takes */
    const char *needs;  /* said when they are too few or too many */
    int computes;       /* with models */
    int (*run)(const struct args *a, const struct data_options *o, const char **words,
               size_t n);
} runs[COMMANDS] = {
    {1, 1, "one folder: sr1-data world FOLDER", 0, make_world},
    {1, 1, "one folder: sr1-data rooms FOLDER", 0, make_rooms},
    {1, 1, "one folder: sr1-data programs FOLDER", 0, make_programs},
    {2, WORDS, "two names: sr1-data critiques PROBLEMS OUT.jsonl", 1, make_critique_data},
    {2, 2, "two names: sr1-data model CONFIG.json FOLDER", 0, make_model},
    {2, 2, "two names: sr1-data merge ADAPTER FOLDER", 1, merge_adapter},
    {2, WORDS, "two names: sr1-data nq QUESTIONS OUT.jsonl", 0, make_records},
    {3, WORDS, "three names: sr1-data synth POLICY QUESTIONS OUT.jsonl", 1,
     make_demonstrations},
    {2, 2, "two names: sr1-data chat TOKENIZER MESSAGES.json", 0, print_chat},
};

static struct data_options o = {.init = "fan_in",
                                .scale = 1.0,
                                .hops = 2,
                                .synth = {.samples = 1, .keep = 1, .min_reward = 1.0},
                                .critiques = {.solutions = 4, .temperature = 0.7}};

static const struct args_option options[] = {
    {"--seed", ARGS_INT, &o.seed, "N",
     "world, rooms, programs, critiques, model, synth: of everything that is random (0)",
     0, 1e15},
    {"--tokenizer", ARGS_STRING, &o.tokenizer, "FOLDER",
     "model, merge: the tokenizer to copy (merge: the adapter's)", 0, 0},
    {"--base", ARGS_STRING, &o.base, "FOLDER",
     "merge: the adapter's base, in place of the one that the adapter names", 0, 0},
    {"--init", ARGS_STRING, &o.init, "KIND",
     "model: fan_in (the default) or normal (standard deviation 0.02)", 0, 0},
    {"--scale", ARGS_REAL, &o.scale, "X", "world: its size, 1 is 1216 passages (1)", 0.05,
     1.5},
    {"--protocol", ARGS_STRING, &o.protocol, "NAME",
     "world: how demonstrations speak, search-r1 (the default), mt-grpo or hermes", 0, 0},
    {"--hops", ARGS_INT, &o.hops, "N", "world: facts a question needs, 1 or 2 (2)", 1, 2},
    {"--stages", ARGS_STRING, &o.stages, "A,B,C,D,E",
     "world: training steps of its demonstrations: repeat, look up, one search, two, "
     "mixed (350,800,150,1200,180)",
     0, 0},
    {"--small", ARGS_FLAG, &o.small, NULL,
     "rooms: two rooms, two containers, two things, no doors, few names", 0, 0},
    {"--tests", ARGS_INT, &o.tests, "N", "rooms: test questions (200)", 1, 100000},
    {"--source", ARGS_STRING, &o.source, "NAME",
     "nq: data_source of all records (each row's own)", 0, 0},
    {"--split", ARGS_STRING, &o.split, "NAME", "nq: split of all records (train)", 0, 0},
    {"--samples", ARGS_INT, &o.synth.samples, "N",
     "synth: trajectories for each question (1)", 1, 1000},
    {"--min-reward", ARGS_REAL, &o.synth.min_reward, "X",
     "synth: least reward, by the keys rewards and reward_weights (1)", -1e6, 1e6},
    {"--keep", ARGS_INT, &o.synth.keep, "N",
     "synth: demonstrations of one question at most, the best first (1)", 1, 1000},
    {"--greedy", ARGS_FLAG, &o.synth.greedy, NULL,
     "synth: the likeliest tokens instead of sampled ones", 0, 0},
    {"--max-rows", ARGS_INT, &o.synth.max_rows, "N", "synth: the first N questions only",
     1, 1e15},
    {"--model", ARGS_STRING, &o.critiques.model, "FOLDER",
     "critiques: the model that solves, criticises and revises", 0, 0},
    {"--critic", ARGS_STRING, &o.critiques.critic, "FOLDER",
     "critiques: the model that criticises, if not --model's", 0, 0},
    {"--reviser", ARGS_STRING, &o.critiques.reviser, "FOLDER",
     "critiques: the model that revises, if not --model's", 0, 0},
    {"--remote", ARGS_STRING, &o.critiques.remote, "URL",
     "critiques: a server in OpenAI's API in place of --model", 0, 0},
    {"--solutions", ARGS_INT, &o.critiques.solutions, "N",
     "critiques: solutions written for each problem (4)", 1, 1000},
    {"--own", ARGS_FLAG, &o.critiques.own, NULL,
     "critiques: criticise the solutions that come with the problems", 0, 0},
    {"--problems", ARGS_INT, &o.critiques.max_problems, "N",
     "critiques: only the first N problems", 0, 1e12},
    {"--temperature", ARGS_REAL, &o.critiques.temperature, "X",
     "critiques: sampling temperature of solutions and critiques (0.7)", 0, 100},
    {"--one", ARGS_FLAG, &o.critiques.one, NULL, "critiques: one demonstration a problem",
     0, 0},
    {"--passing", ARGS_FLAG, &o.critiques.passing, NULL,
     "critiques: only critiques whose revision passes", 0, 0},
    {"--judged", ARGS_FLAG, &o.critiques.judged, NULL,
     "critiques: only critiques that judge the answer", 0, 0},
    {"--true", ARGS_FLAG, &o.critiques.truthful, NULL,
     "critiques: only critiques whose judgement is true", 0, 0},
    {"--balance", ARGS_FLAG, &o.critiques.balance, NULL,
     "critiques: as many that judge \"Correct\" as \"Incorrect\"", 0, 0},
    {"--tree", ARGS_STRING, &o.critiques.tree, "FILE",
     "critiques: write all answers as JSON lines; an unfinished file is continued", 0, 0},
    {"--rows", ARGS_STRING, &o.critiques.rows, "FILE",
     "critiques: write the problems with an answer each, to train on", 0, 0},
    {"--tools", ARGS_STRING, &o.tools, "FILE",
     "chat: descriptions of tools, a JSON array", 0, 0},
    {"--template", ARGS_STRING, &o.chat_template, "NAME",
     "chat: one of several chat templates of the tokenizer's folder", 0, 0},
    {"--force", ARGS_FLAG, &o.force, NULL,
     "world, rooms, programs, critiques, model, merge, nq: replace what is there", 0, 0},
};

static int given[sizeof(options) / sizeof(options[0])];

static const struct args a = {.program = "sr1-data",
                              .help = help_text,
                              .options = options,
                              .n_options = sizeof(options) / sizeof(options[0]),
                              .commands = commands,
                              .n_commands = COMMANDS,
                              .given = given,
                              .takes_keys = 1};

/* COMMANDS: there is none of that name. */
static size_t find_data_command(const char *name)
{
    size_t i = 0;

    while (i < COMMANDS && strcmp(commands[i].name, name) != 0)
        i++;
    return i;
}

int main(int argc, char **argv)
{
    const char *words[WORDS];
    size_t c, n = 0;
    int code = args_read(&a, argc, argv, words, WORDS, &n);

    if (code >= 0)
        return code;
    if (n == 0)
        return args_wrong(&a, "which command: world, rooms, programs, critiques, model, "
                              "merge, nq, synth or chat?");
    c = find_data_command(words[0]);
    if (c == COMMANDS)
        return args_wrong(&a,
                          "there is no command '%s'; there are world, rooms, programs, "
                          "critiques, model, merge, nq, synth and chat",
                          words[0]);
    code = args_check_command(&a, words[0]);
    if (code >= 0)
        return code;
    if (n - 1 < runs[c].least || n - 1 > runs[c].most)
        return args_wrong(&a, "%s needs %s", words[0], runs[c].needs);
    if (runs[c].computes)
        policy_passive_waiting(argv);
    progress_warnings();
    return tool_printed("sr1-data", runs[c].run(&a, &o, words + 1, n - 1));
}
