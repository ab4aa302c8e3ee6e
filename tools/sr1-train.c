/* sr1-train - train a policy by a configuration file; continue a run that was stopped. */
#include "common/args.h"
#include "common/policy.h"
#include "common/progress.h"

#include <searchr1/trainer.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help_text[] =
    "usage: sr1-train CONFIG.yaml [key=value ...]\n"
    "       sr1-train --resume RUN\n"
    "\n"
    "Trains as the configuration says and leaves a run folder (key `out`, else "
    "runs/<name>):\n"
    "config.json, metrics.jsonl, trajectories.jsonl, checkpoints/, model/. Keys given on "
    "the\n"
    "command line win over the file. Ctrl-C ends after the present step with a "
    "checkpoint; a\n"
    "second one ends at once.\n"
    "\n"
    "Example:\n"
    "  sr1-train recipe.yaml learning_rate=5e-4 out=runs/first\n"
    "  sr1-train --resume runs/first\n"
    "\n"
    "sr1-train --keys lists every key with its default, meaning and bounds; sr1-train "
    "--keys\n"
    "reward those with 'reward' in their names.\n";

static sr1_trainer *running;
static volatile sig_atomic_t interrupts;

static void on_interrupt(int sig)
{
    static const char text[] =
        "\nstopping after this step, with a checkpoint; Ctrl-C again ends at once\n";

    (void)sig;
    if (interrupts++ || !running)
        _exit(TOOL_INTERRUPTED);
    sr1_trainer_stop(running);
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
}

struct view {
    struct progress bar;
    struct progress part; /* of a step, or a validation */
    const char *phase;
    char title[64];
};

/* A step may take long: how far its rollout is, or a validation. In a file that is told
 * where nothing else was for a while. */
static sr1_status on_phase(void *user, const char *phase, int64_t done, int64_t total)
{
    struct view *v = user;

    if (v->phase == NULL || strcmp(v->phase, phase) != 0 || done == 0) {
        progress_clear(&v->bar);
        snprintf(v->title, sizeof(v->title), "step %lld, %s",
                 (long long)sr1_trainer_steps_done(running) +
                     (strcmp(phase, "validation") != 0),
                 phase);
        progress_begin(&v->part, v->title, "trajectories", 1.0);
        if (!v->part.terminal)
            v->part.last = v->part.begun;
    }
    v->phase = phase;
    if (done < total)
        progress_show(&v->part, (double)done, (double)total, NULL);
    return SR1_OK;
}

static void end_phase(struct view *v)
{
    if (v->phase != NULL)
        progress_clear(&v->part);
    v->phase = NULL;
}

/* A reward cannot be had where the sandbox, say, fails. */
static void say_left_out(struct view *v, const sr1_step_report *r)
{
    if (r->excluded == 0)
        return;
    progress_clear(&v->bar);
    fprintf(stderr, "step %lld: %lld of %lld trajectories left out:", (long long)r->step,
            (long long)r->excluded, (long long)r->trajectories);
    if (r->excluded > r->unscored)
        fprintf(stderr, " a search, a tool or the server failed for %lld",
                (long long)(r->excluded - r->unscored));
    if (r->unscored > 0)
        fprintf(stderr, "%s the reward could not be had for %lld",
                r->excluded > r->unscored ? "," : "", (long long)r->unscored);
    fputc('\n', stderr);
}

static sr1_status on_step(void *user, const sr1_step_report *r, int64_t planned)
{
    struct view *v = user;
    char note[160];

    end_phase(v);
    if (r->search_trajectories > 0 || r->avg_reward != 0.0)
        snprintf(note, sizeof(note), "reward %.3f  loss %.4f  kl %.4f  searches %.0f%%",
                 r->avg_reward, r->loss, r->kl_div, 100.0 * r->search_trajectories);
    else
        snprintf(note, sizeof(note), "loss %.4f  lr %.2g", r->loss, r->learning_rate);
    progress_show(&v->bar, (double)r->step, (double)planned, note);
    say_left_out(v, r);
    if (r->skipped_updates) {
        progress_clear(&v->bar);
        fprintf(stderr, "step %lld: %lld updates skipped, not finite\n",
                (long long)r->step, (long long)r->skipped_updates);
    }
    return SR1_OK;
}

static sr1_status on_validation(void *user, int64_t step, const sr1_evaluation *e)
{
    struct view *v = user;
    sr1_eval_scores s = {.struct_size = sizeof(s)};

    if (sr1_evaluation_scores(e, 0, &s) != SR1_OK)
        return SR1_OK;
    end_phase(v);
    progress_clear(&v->bar);
    printf("step %lld: validation exact match %.3f  f1 %.3f  format %.3f  searches %.2f  "
           "reward %.3f",
           (long long)step, s.exact_match, s.f1, s.format, s.searches, s.reward);
    if (s.success > 0)
        printf("  success %.3f", s.success);
    if (s.thinking > 0)
        printf("  thinking %.1f tokens", s.thinking);
    printf("  (%lld questions)\n", (long long)s.rows);
    fflush(stdout);
    return SR1_OK;
}

static void on_note(void *user, const char *text)
{
    struct view *v = user;

    end_phase(v);
    progress_clear(&v->bar);
    fprintf(stderr, "%s\n", text);
}

/* ---- --keys ---- */

/* Where a group of keys begins, in the order of sr1_config_key_describe. */
static const struct {
    const char *first;
    const char *heading;
} groups[] = {
    {"use_openai", "Model"},     {"max_tokens", "Generation"},
    {"search_engine", "Search"}, {"rewards", "Reward"},
    {"group_size", "Algorithm"}, {"learning_rate", "Optimizer"},
    {"stage", "Training loop"},  {"train_file", "Data"},
    {"out", "Output"},
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
    else if (k->choices)
        choices_text(k->choices, out, size);
    else if (k->type == SR1_CONFIG_BOOL)
        snprintf(out, size, " [true|false]");
    else if (k->type == SR1_CONFIG_INT)
        snprintf(out, size, " [%.0f to %.0f]", k->min, k->max);
    else if (k->type == SR1_CONFIG_REAL)
        snprintf(out, size, " [%.12g to %.12g]", k->min, k->max);
}

static void print_key(const sr1_config_key_info *k)
{
    char allowed[512];
    char text[1536];
    int at = printf("  %-*s %s", NAME_WIDTH, k->name,
                    k->default_text[0] ? k->default_text : "-");

    allowed_text(k, allowed, sizeof(allowed));
    snprintf(text, sizeof(text), "%s%s%s", k->help, allowed,
             k->status == SR1_CONFIG_LATER ? " (still to come)" : "");
    if (at >= HELP_COLUMN)
        at = printf("\n") - 1;
    at += printf("%*s", HELP_COLUMN - at, "");
    args_wrapped(text, at, HELP_COLUMN);
}

static int is_wanted(const char *name, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strstr(name, parts[i]))
            return 1;
    }
    return n == 0;
}

/* Keys with one of the parts in their names; all when there are none. */
static int list_keys(const char *const *parts, size_t n)
{
    const char *heading = NULL;
    size_t group = 0;
    size_t listed = 0;

    for (size_t i = 0; i < sr1_config_key_count(); i++) {
        sr1_config_key_info k = {.struct_size = sizeof(k)};

        if (sr1_config_key_describe(i, &k) != SR1_OK)
            continue;
        if (group < sizeof(groups) / sizeof(groups[0]) &&
            strcmp(k.name, groups[group].first) == 0)
            heading = groups[group++].heading;
        if (!is_wanted(k.name, parts, n))
            continue;
        if (heading)
            printf("%s%s\n", listed > 0 ? "\n" : "", heading);
        heading = NULL;
        print_key(&k);
        listed++;
    }
    if (listed > 0)
        return TOOL_OK;
    fprintf(stderr, "sr1-train: no key has '%s' in its name; see sr1-train --keys\n",
            parts[0]);
    return TOOL_USAGE;
}

/* ---- training ---- */

static sr1_status configure(sr1_trainer **out, const char *const *rest, size_t n)
{
    sr1_config *c = NULL;
    sr1_status st = sr1_config_new(&c);

    if (st == SR1_OK)
        st = sr1_config_load(c, rest[0]);
    for (size_t i = 1; i < n && st == SR1_OK; i++)
        st = sr1_config_set_pair(c, rest[i]);
    if (st == SR1_OK)
        st = sr1_trainer_new(out, c, NULL);
    sr1_config_free(c);
    return st;
}

static void say_how_to_go_on(const sr1_trainer *tr, sr1_status st)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/metrics.jsonl", sr1_trainer_run_folder(tr));
    if (st != SR1_E_CONFIG && access(path, F_OK) == 0)
        fprintf(stderr,
                "once that is mended, sr1-train --resume %s goes on from its last "
                "checkpoint\n",
                sr1_trainer_run_folder(tr));
}

static int run(sr1_trainer *tr)
{
    struct view v = {0};
    sr1_run_callbacks cb = {.struct_size = sizeof(cb),
                            .user = &v,
                            .step = on_step,
                            .phase = on_phase,
                            .validation = on_validation,
                            .note = on_note};
    struct sigaction act = {.sa_handler = on_interrupt};
    sr1_status st;

    running = tr;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    progress_begin(&v.bar, "training", "steps", 1.0);
    progress_resume(&v.bar, (double)sr1_trainer_steps_done(tr));
    st = sr1_trainer_run(tr, &cb);
    end_phase(&v);
    progress_clear(&v.bar);
    running = NULL;
    if (st == SR1_E_CANCELLED) {
        fprintf(stderr,
                "stopped after step %lld of %lld; continue with sr1-train --resume %s\n",
                (long long)sr1_trainer_steps_done(tr),
                (long long)sr1_trainer_steps_planned(tr), sr1_trainer_run_folder(tr));
        return TOOL_INTERRUPTED;
    }
    if (st != SR1_OK) { /* once begun, only a folder in use is wrong usage */
        int code = tool_failed("sr1-train", st);

        say_how_to_go_on(tr, st);
        return st == SR1_E_CONFIG ? code : TOOL_FAILED;
    }
    printf("%lld steps done; the run is in %s\n", (long long)sr1_trainer_steps_done(tr),
           sr1_trainer_run_folder(tr));
    return TOOL_OK;
}

int main(int argc, char **argv)
{
    const char *resume = NULL;
    int keys = 0;
    const struct args_option options[] = {
        {"--resume", ARGS_STRING, &resume, "RUN", "continue the run in this folder", 0, 0,
         NULL},
        {"--keys", ARGS_FLAG, &keys, NULL, "list the configuration's keys", 0, 0, NULL},
    };
    const struct args a = {"sr1-train", help_text, options,
                           sizeof(options) / sizeof(options[0])};
    const char *rest[256];
    size_t n = 0;
    sr1_trainer *tr = NULL;
    sr1_status st;
    int code = args_read(&a, argc, argv, rest, 256, &n);

    if (code >= 0)
        return code;
    if (keys)
        return list_keys(rest, n);
    if (resume && n > 0)
        return args_wrong(&a,
                          "--resume takes nothing beside it: the run goes on with its "
                          "own config.json, where keys can be changed before");
    if (!resume && n == 0)
        return args_wrong(&a, "give a configuration file, or --resume RUN");
    policy_passive_waiting(argv);
    progress_warnings();
    progress_wait("opening model and data");
    st = resume ? sr1_trainer_resume(&tr, resume, NULL) : configure(&tr, rest, n);
    progress_wait(NULL);
    if (st != SR1_OK)
        return tool_refused("sr1-train", st);
    code = run(tr);
    sr1_trainer_free(tr);
    return code;
}
