/* sr1-train - train a policy by a configuration file; continue a run that was stopped. */
#include "common/args.h"
#include "common/build.h"
#include "common/policy.h"
#include "common/progress.h"
#include "common/quote.h"
#include "common/stop.h"
#include "sr1_train/rank_log.h"
#include "sr1_train/view.h"

#include <searchr1/trainer.h>
#include <searchr1/ext/plan.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/run_info.h>

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help_text[] =
    "usage: sr1-train CONFIG.yaml [key=value ...]\n"
    "       sr1-train --resume RUN [key=value ...]\n"
    "       sr1-train --plan CONFIG.yaml [key=value ...] [--memory GB] [--json]\n"
    "\n"
    "Trains as the configuration says and leaves a run folder (key `out`, else "
    "runs/<name>):\n"
    "config.json, metrics.jsonl, trajectories.jsonl.zst, checkpoints/, model/. "
    "Keys given on the\n"
    "command line win over the file. A relative path in the file begins at the file's "
    "folder,\n"
    "one on the command line, and `out` anywhere, at the working folder. With --resume "
    "only\n"
    "keys can be given that no checkpoint depends on, such as max_steps; metrics and\n"
    "trajectories behind the newest checkpoint are discarded. Ctrl-C, SIGTERM, SIGUSR1 "
    "(which\n"
    "Slurm's --signal sends) or the loss of the terminal stop the run after the present "
    "step,\n"
    "with a checkpoint; a second Ctrl-C ends it at once.\n"
    "\n"
    "Example:\n"
    "  sr1-train recipe.yaml learning_rate=5e-4 out=runs/first\n"
    "  sr1-train --resume runs/first\n"
    "  sr1-train --resume runs/first max_steps=500\n"
    "  sr1-train --plan recipe.yaml lora_rank=16 --memory 24\n"
    "\n"
    "With --plan nothing is loaded or written: from config.json it tells what the run "
    "will "
    "take\n"
    "of memory and disk in each phase, whether that fits, and which keys would lower "
    "it.\n"
    "\n"
    "sr1-train --keys lists every key with its default, meaning and bounds; sr1-train "
    "--keys\n"
    "reward those with 'reward' in their names, and --keys lr what TRL's, verl's or "
    "OpenRLHF's\n"
    "'lr' is here.\n";

static sr1_trainer *running;
static volatile sig_atomic_t interrupts;

/* A terminal that goes away may tell so twice (the shell and the kernel each do): only a
 * second Ctrl-C ends at once. */
static void on_interrupt(int sig)
{
    static const char text[] =
        "\nstopping after this step, with a checkpoint; Ctrl-C now ends at once\n";
    static const char ended[] =
        "\nended at once; sr1-train --resume goes on from the last checkpoint\n";

    if (running && interrupts > 0 && sig == SIGINT)
        (void)!write(STDERR_FILENO, ended, sizeof(ended) - 1);
    if (!running || (interrupts > 0 && sig == SIGINT))
        _exit(TOOL_INTERRUPTED);
    sr1_trainer_stop(running);
    if (interrupts++ == 0)
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
}

/* A reader of our output that is gone is no reason to lose the run. */
static void catch_signals(void)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN};

    stop_catch(on_interrupt, 0);
    sigaction(SIGPIPE, &ignored, NULL);
}

/* ---- --keys ---- */

/* Where a group of keys begins, in the order of sr1_config_key_describe. */
static const struct {
    const char *first;
    const char *heading;
} groups[] = {
    {"use_openai", "Model"},        {"compat", "Presets"},
    {"max_tokens", "Generation"},   {"search_engine", "Search"},
    {"rewards", "Reward"},          {"group_size", "Algorithm"},
    {"learning_rate", "Optimizer"}, {"stage", "Training loop"},
    {"train_file", "Data"},         {"out", "Output"},
};

#define NAME_WIDTH 24
#define HELP_COLUMN 38
#define CHOICES_MAX 50

/* " [a|b|c]"; more than a line of them " [a | b | c]", which can be broken. */
static void choices_text(const char *choices, char *out, size_t size)
{
    const char *bar = strlen(choices) > CHOICES_MAX ? " %c " : "%c";
    size_t n = (size_t)snprintf(out, size, " [");

    for (const char *at = choices; *at != '\0' && n + 4 < size; at++)
        n += (size_t)snprintf(out + n, size - n, *at == '|' ? bar : "%c", *at);
    snprintf(out + n, size - n, "]");
}

/* What a value may be: " [cpu|cuda]", " [2 to 65536]", "" when anything may. */
static void allowed_text(const sr1_config_key_info *k, char *out, size_t size)
{
    out[0] = '\0';
    if (k->type == SR1_CONFIG_SECRET)
        snprintf(out, size, " [environment variable %s]", k->choices);
    else if (k->type == SR1_CONFIG_INT)
        snprintf(out, size, " [%.0f to %.0f%s%s]", k->min, k->max,
                 k->choices ? " or " : "", k->choices ? k->choices : "");
    else if (k->choices)
        choices_text(k->choices, out, size);
    else if (k->type == SR1_CONFIG_BOOL)
        snprintf(out, size, " [true|false]");
    else if (k->type == SR1_CONFIG_REAL)
        snprintf(out, size, " [%.12g to %.12g]", k->min, k->max);
}

/* Defaults of its own under values of compat: " (compat trl: 8)". */
static void add_presets(const sr1_config_key_info *k, char *out, size_t size)
{
    sr1_config_preset p = {.struct_size = sizeof(p)};
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sr1_config_preset_count() && n < size; i++)
        if (sr1_config_preset_describe(i, &p) == SR1_OK && strcmp(p.key, k->name) == 0)
            n += (size_t)snprintf(out + n, size - n, "%s%s: %s", n ? ", " : " (compat ",
                                  p.compat, p.value);
    if (n > 0 && n < size)
        snprintf(out + n, size - n, ")");
}

/* A name and what stands beside it, then text in a column of its own. */
static void print_entry(const char *name, const char *beside, const char *text)
{
    int at = printf("  %-*s %s", NAME_WIDTH, name, beside);

    if (at >= HELP_COLUMN)
        at = printf("\n") - 1;
    at += printf("%*s", HELP_COLUMN - at, "");
    args_wrapped(text, at, HELP_COLUMN);
}

static void print_key(const sr1_config_key_info *k)
{
    char allowed[512], presets[256];
    char text[1536];

    allowed_text(k, allowed, sizeof(allowed));
    add_presets(k, presets, sizeof(presets));
    snprintf(text, sizeof(text), "%s%s%s%s", k->help, allowed, presets,
             k->status == SR1_CONFIG_LATER ? " (still to come)" : "");
    print_entry(k->name, k->default_text[0] ? k->default_text : "-", text);
}

/* Names are compared without regard to case, and '-' is '_'. */
#define PART_SIZE 1024 /* choices are searched, too */

static void fold_text(const char *text, size_t n, char out[PART_SIZE])
{
    n = n < PART_SIZE ? n : PART_SIZE - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = text[i] == '-' ? '_' : (char)tolower((unsigned char)text[i]);
    out[n] = '\0';
}

static void fold_name(const char *name, char out[PART_SIZE])
{
    fold_text(name, strlen(name), out);
}

/* What was typed: a '+' before a name is how Hydra's command lines add it, and what
 * follows '=' is a value. */
static void fold_part(const char *part, char out[PART_SIZE])
{
    part += strspn(part, "+");
    fold_text(part, strcspn(part, "="), out);
}

/* Is this the name itself? */
static int is_name_itself(const char *name, const char *part)
{
    char a[PART_SIZE], b[PART_SIZE];

    fold_name(name, a);
    fold_part(part, b);
    return strcmp(a, b) == 0;
}

/* Is name the part, or the last of its words between dots? */
static int is_called(const char *name, const char *part)
{
    char a[PART_SIZE], b[PART_SIZE];
    size_t n, m;

    fold_name(name, a);
    fold_part(part, b);
    n = strlen(a);
    m = strlen(b);
    return n >= m && strcmp(a + n - m, b) == 0 && (n == m || a[n - m - 1] == '.');
}

static int matches_any_part(const char *name, const char *const *parts, size_t n)
{
    char folded[PART_SIZE], part[PART_SIZE];

    fold_name(name, folded);
    for (size_t i = 0; i < n; i++) {
        fold_part(parts[i], part);
        if (strstr(folded, part))
            return 1;
    }
    return n == 0;
}

/* A row of the names of other programs that one of the parts calls: by the name itself,
 * or by the last word of a longer one. */
static int is_row_called(const sr1_config_elsewhere *e, const char *const *parts,
                         size_t n, int itself)
{
    for (size_t i = 0; i < n; i++)
        if (itself ? is_name_itself(e->name, parts[i]) : is_called(e->name, parts[i]))
            return 1;
    return 0;
}

static void print_elsewhere(const sr1_config_elsewhere *e)
{
    char text[512];

    snprintf(text, sizeof(text), "%s: %s%s%s%s", e->of, e->key ? "use " : "",
             e->key ? e->key : "", e->key && e->text ? "; " : "", e->text ? e->text : "");
    print_entry(e->name, "", text);
}

/* What names of other programs are here, a part itself before longer names. Returns how
 * many were listed. */
static size_t list_elsewhere(const char *const *parts, size_t n)
{
    sr1_config_elsewhere e = {.struct_size = sizeof(e)};
    size_t listed = 0;

    for (int itself = 1; itself >= 0; itself--)
        for (size_t i = 0; i < sr1_config_elsewhere_count(); i++) {
            if (sr1_config_elsewhere_describe(i, &e) != SR1_OK ||
                !is_row_called(&e, parts, n, itself) ||
                (!itself && is_row_called(&e, parts, n, 1)))
                continue;
            if (listed++ == 0)
                printf("In other programs\n");
            print_elsewhere(&e);
        }
    return listed;
}

/* Is the key what another program calls by one of the parts? */
static int is_meant(const char *key, const char *const *parts, size_t n, int itself)
{
    sr1_config_elsewhere e = {.struct_size = sizeof(e)};

    for (size_t i = 0; i < sr1_config_elsewhere_count(); i++)
        if (sr1_config_elsewhere_describe(i, &e) == SR1_OK && e.key &&
            strcmp(e.key, key) == 0 && is_row_called(&e, parts, n, itself))
            return 1;
    return 0;
}

/* Is a part the key's very name, here or elsewhere? */
static int is_named(const char *key, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_name_itself(key, parts[i]))
            return 1;
    return is_meant(key, parts, n, 1);
}

/* Has the key a part in its name or its choices, or is it meant by one? */
static int is_listed(const sr1_config_key_info *k, const char *const *parts, size_t n)
{
    return matches_any_part(k->name, parts, n) ||
           (k->choices && matches_any_part(k->choices, parts, n)) ||
           is_meant(k->name, parts, n, 0);
}

/* The keys that a part names, or the others that are listed, `before` of all. */
static size_t list_own_keys(const char *const *parts, size_t n, int named, size_t before)
{
    const char *heading = NULL;
    size_t group = 0, listed = 0;

    for (size_t i = 0; i < sr1_config_key_count(); i++) {
        sr1_config_key_info k = {.struct_size = sizeof(k)};

        if (sr1_config_key_describe(i, &k) != SR1_OK)
            continue;
        if (group < sizeof(groups) / sizeof(groups[0]) &&
            strcmp(k.name, groups[group].first) == 0)
            heading = groups[group++].heading;
        if (!is_listed(&k, parts, n) || is_named(k.name, parts, n) != named)
            continue;
        if (heading)
            printf("%s%s\n", before + listed > 0 ? "\n" : "", heading);
        heading = NULL;
        print_key(&k);
        listed++;
    }
    return listed;
}

/* What other programs call by the parts; the keys of these names; and those with one of
 * the parts in their names or choices, all keys when there are no parts. */
static int list_keys(const char *const *parts, size_t n)
{
    size_t listed = list_elsewhere(parts, n);

    listed += list_own_keys(parts, n, 1, listed);
    listed += list_own_keys(parts, n, 0, listed);
    if (listed > 0)
        return TOOL_OK;
    fprintf(stderr,
            "sr1-train: no key has '%s' in its name or among its choices; see sr1-train "
            "--keys\n",
            parts[0]);
    return TOOL_USAGE;
}

/* ---- training ---- */

/* A file in which nothing is set, before a rule about some key refuses it. */
static sr1_status check_not_empty(const sr1_config *c, const char *path)
{
    static const char *const first[] = {"model_name_or_path", "train_file", "sft_file"};
    char text[512];

    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        const char *given = NULL;

        if (sr1_config_get_str(c, first[i], &given) != SR1_OK)
            return SR1_E_CONFIG;
        if (*given)
            return SR1_OK;
    }
    snprintf(
        text, sizeof(text),
        "%.300s sets neither a model (model_name_or_path) nor questions (train_file) "
        "or demonstrations (sft_file); sr1-train --keys lists all keys",
        path);
    return sr1_set_error(SR1_E_CONFIG, text);
}

/* The file rest[0] with the pairs behind it; free *c also after a failure. */
static sr1_status read_config(sr1_config **c, const char *const *rest, size_t n)
{
    sr1_status st = sr1_config_new(c);

    if (st == SR1_OK)
        st = sr1_config_load(*c, rest[0]);
    for (size_t i = 1; i < n && st == SR1_OK; i++)
        st = sr1_config_set_pair(*c, rest[i]);
    return st == SR1_OK ? check_not_empty(*c, rest[0]) : st;
}

static sr1_status open_configured_trainer(sr1_trainer **out, const char *const *rest,
                                          size_t n)
{
    sr1_config *c = NULL;
    sr1_status st = read_config(&c, rest, n);

    if (st == SR1_OK)
        st = sr1_trainer_check(c);
    if (st == SR1_OK)
        st = sr1_trainer_new(out, c, NULL);
    sr1_config_free(c);
    return st;
}

static sr1_status open_resumed_trainer(sr1_trainer **out, const char *folder,
                                       const char *const *pairs, size_t n)
{
    sr1_resume_options o = {.struct_size = sizeof(o), .pairs = pairs, .n_pairs = n};

    return sr1_trainer_resume(out, folder, &o);
}

static void print_resume_hint(const sr1_trainer *tr, sr1_status st)
{
    const char *folder = sr1_trainer_run_folder(tr);
    int64_t saved = sr1_trainer_steps_saved(tr);
    char path[4096], quoted[QUOTED_SIZE];

    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    if (st == SR1_E_CONFIG || access(path, F_OK) != 0)
        return;
    sr1__quote_word(folder, quoted, sizeof(quoted));
    if (saved >= 0)
        fprintf(stderr,
                "once that is mended, sr1-train --resume %s%s goes on from the "
                "checkpoint of step %lld\n",
                quoted, saved < sr1_trainer_steps_planned(tr) ? "" : " max_steps=N",
                (long long)saved);
    else
        fprintf(stderr,
                "there is no checkpoint yet; once that is mended, sr1-train --resume %s "
                "begins again at step 1\n",
                quoted);
}

/* As a shell reads it back. */
static void join_command(char **argv, char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; argv[i] != NULL && n + 1 < size; i++) {
        if (i > 0)
            out[n++] = ' ';
        sr1__quote_word(argv[i], out + n, size - n);
        n += strlen(out + n);
    }
}

static int report_stopped(const sr1_trainer *tr)
{
    char quoted[QUOTED_SIZE];

    sr1__quote_word(sr1_trainer_run_folder(tr), quoted, sizeof(quoted));
    fprintf(stderr,
            "stopped after step %lld of %lld; continue with sr1-train --resume %s\n",
            (long long)sr1_trainer_steps_done(tr),
            (long long)sr1_trainer_steps_planned(tr), quoted);
    return TOOL_INTERRUPTED;
}

/* A process that is not the first of its job: that one tells how the run ended. */
static int run_other_rank(sr1_trainer *tr)
{
    static struct rank_log l;
    sr1_run_callbacks cb = {.struct_size = sizeof(cb)};
    sr1_status st;

    running = tr;
    catch_signals();
    rank_log_begin(&l, tr, &cb);
    st = sr1_trainer_run(tr, &cb);
    rank_log_end(&l);
    running = NULL;
    if (st == SR1_OK || st == SR1_E_CANCELLED)
        return st == SR1_OK ? TOOL_OK : TOOL_INTERRUPTED;
    (void)tool_failed(l.program, st);
    return st == SR1_E_CONFIG ? TOOL_USAGE : TOOL_FAILED;
}

static int run_training(sr1_trainer *tr, char **argv)
{
    static struct view v;
    static char command[16384];
    sr1_run_callbacks cb = {
        .struct_size = sizeof(cb), .command = command, .commit = build_commit};
    sr1_status st;

    join_command(argv, command, sizeof(command));
    running = tr;
    catch_signals();
    view_begin(&v, tr);
    view_callbacks(&v, &cb);
    st = sr1_trainer_run(tr, &cb);
    view_end(&v);
    running = NULL;
    if (st == SR1_E_CANCELLED)
        return report_stopped(tr);
    if (st != SR1_OK) { /* once begun, only a folder in use is wrong usage */
        int code = tool_failed("sr1-train", st);

        print_resume_hint(tr, st);
        return st == SR1_E_CONFIG ? code : TOOL_FAILED;
    }
    view_result(&v);
    return TOOL_OK;
}

/* ---- --plan ---- */

struct plan_command {
    int wanted, json;
    double memory; /* GB */
};

static int print_plan(const struct plan_command *command, const char *const *rest,
                      size_t n)
{
    sr1_config *c = NULL;
    sr1_plan *plan = NULL;
    sr1_status st = read_config(&c, rest, n);

    if (st == SR1_OK)
        st = sr1_plan_new(&plan, c, command->memory);
    if (st == SR1_OK && command->json)
        printf("%s\n", sr1_plan_json(plan));
    else if (st == SR1_OK)
        fputs(sr1_plan_text(plan), stdout);
    sr1_plan_free(plan);
    sr1_config_free(c);
    return tool_printed("sr1-train",
                        st == SR1_OK ? TOOL_OK : tool_refused("sr1-train", st));
}

int main(int argc, char **argv)
{
    const char *folder = NULL;
    int keys = 0;
    struct plan_command plan = {0};
    const struct args_option options[] = {
        {"--resume", ARGS_STRING, &folder, "RUN", "continue the run in this folder", 0,
         0},
        {"--keys", ARGS_FLAG, &keys, NULL, "list the configuration's keys", 0, 0},
        {"--plan", ARGS_FLAG, &plan.wanted, NULL,
         "tell what memory and disk the run will take, without loading anything", 0, 0},
        {"--memory", ARGS_REAL, &plan.memory, "GB",
         "--plan for a device with so many GB (10^9 bytes) that need not be here", 0.001,
         1000000},
        {"--json", ARGS_FLAG, &plan.json, NULL, "print the plan as JSON", 0, 0},
    };
    const struct args a = {.program = "sr1-train",
                           .help = help_text,
                           .options = options,
                           .n_options = sizeof(options) / sizeof(options[0]),
                           .takes_keys = 1};
    const char *rest[256];
    size_t n = 0;
    sr1_trainer *tr = NULL;
    sr1_status st;
    int code = args_read(&a, argc, argv, rest, 256, &n);

    if (code >= 0)
        return code;
    if (keys)
        return tool_printed("sr1-train", list_keys(rest, n));
    if (!plan.wanted && (plan.json || plan.memory > 0))
        return args_wrong(&a, "--memory and --json belong to --plan");
    if (plan.wanted && (folder || n == 0))
        return args_wrong(&a, "--plan takes a configuration file");
    if (!folder && n == 0)
        return args_wrong(&a, "give a configuration file, or --resume RUN");
    if (!folder && strchr(rest[0], '=') && access(rest[0], F_OK) != 0)
        return args_wrong(&a,
                          "'%.80s' is no file: the configuration file comes before "
                          "key=value",
                          rest[0]);
    policy_passive_waiting(argv);
    progress_warnings();
    if (plan.wanted)
        return print_plan(&plan, rest, n);
    progress_wait("opening model and data");
    st = folder ? open_resumed_trainer(&tr, folder, rest, n)
                : open_configured_trainer(&tr, rest, n);
    progress_wait(NULL);
    if (st != SR1_OK)
        code = tool_refused("sr1-train", st);
    else if (sr1_trainer_rank(tr) > 0)
        code = run_other_rank(tr);
    else
        code = run_training(tr, argv);
    sr1_trainer_free(tr);
    return view_reader_left() ? code : tool_printed("sr1-train", code);
}
