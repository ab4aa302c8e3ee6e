/* sr1_train/view.c - see view.h. */
#include "sr1_train/view.h"

#include "common/args.h"
#include "common/quote.h"
#include "common/table.h"

#include <searchr1/base.h>
#include <searchr1/ext/eval_figures.h>
#include <searchr1/ext/run_info.h>
#include <searchr1/ext/tokenizer.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double read_view_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fits_terminal(const char *text)
{
    int width = terminal_width(STDOUT_FILENO);

    return width <= 0 || (size_t)text_prefix(text, width) == strlen(text);
}

/* A line for stdout, cut where that is a terminal and not so wide. */
static void print_line(const char *text)
{
    int width = terminal_width(STDOUT_FILENO);

    printf("%.*s\n", (int)(width > 0 ? text_prefix(text, width) : strlen(text)), text);
    fflush(stdout);
}

/* ---- the banner ---- */

/* "512", "12.3 k", "1.5 G". */
static void short_number(double v, char out[16])
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    size_t i = 0;

    while (v >= 999.5 && i + 1 < sizeof(units) / sizeof(units[0])) {
        v /= 1e3;
        i++;
    }
    snprintf(out, 16, "%.*f%s", i > 0 && v < 99.95 ? 1 : 0, v, units[i]);
}

static const char *get_config_text(const sr1_config *c, const char *key)
{
    const char *s = "";

    (void)sr1_config_get_str(c, key, &s);
    return s;
}

static int64_t get_config_int(const sr1_config *c, const char *key)
{
    int64_t v = 0;

    (void)sr1_config_get_int(c, key, &v);
    return v;
}

static double get_config_real(const sr1_config *c, const char *key)
{
    double v = 0;

    (void)sr1_config_get_real(c, key, &v);
    return v;
}

static void print_policy(const struct view *v, const sr1_run_plan *p, const sr1_config *c)
{
    sr1_rollout *rollout = sr1_trainer_rollout(v->trainer);
    char line[512], count[16], memory[16];

    short_number((double)p->parameters, count);
    short_number((double)p->memory_bytes, memory);
    snprintf(
        line, sizeof(line), "policy  %s: %s parameters, %s on %s; the process has %sB",
        get_config_text(c, "model_name_or_path"), count, p->dtype, p->device, memory);
    print_line(line);
    if (get_config_int(c, "lora_rank") > 0) {
        short_number((double)p->trained, count);
        snprintf(line, sizeof(line), "adapter rank %lld, %s parameters are trained",
                 (long long)get_config_int(c, "lora_rank"), count);
        print_line(line);
    }
    snprintf(line, sizeof(line), "chat    template family %s",
             sr1_tokenizer_chat_family(sr1_rollout_tokenizer(rollout)));
    print_line(line);
}

static void print_data(const struct view *v, const sr1_run_plan *p, const sr1_config *c)
{
    char line[512];
    int n =
        snprintf(line, sizeof(line), "data    %lld %s%s, %lld a step", (long long)p->rows,
                 v->is_sft ? "demonstration" : "question", plural_ending(p->rows, "s"),
                 (long long)(get_config_int(c, "batch_size") < p->rows
                                 ? get_config_int(c, "batch_size")
                                 : p->rows));

    if (!v->is_sft)
        n += snprintf(line + n, sizeof(line) - (size_t)n, " x %lld samples",
                      (long long)get_config_int(c, "group_size"));
    if (p->validation_rows > 0)
        snprintf(line + n, sizeof(line) - (size_t)n, "; %lld for validation",
                 (long long)p->validation_rows);
    print_line(line);
}

/* Keys that were left to the plan of memory. */
static void print_chosen(const sr1_run_plan *p)
{
    char line[128];
    int n = snprintf(line, sizeof(line), "chosen ");

    if (p->chosen_micro_batch_tokens > 0)
        n += snprintf(line + n, sizeof(line) - (size_t)n, " micro_batch_tokens=%lld",
                      (long long)p->chosen_micro_batch_tokens);
    if (p->chosen_max_rows > 0)
        snprintf(line + n, sizeof(line) - (size_t)n, " max_rows=%lld",
                 (long long)p->chosen_max_rows);
    print_line(line);
}

static void print_plan(const struct view *v, const sr1_run_plan *p)
{
    char line[512], checkpoint[16], disk[16];

    if (p->chosen_micro_batch_tokens > 0 || p->chosen_max_rows > 0)
        print_chosen(p);
    short_number((double)p->checkpoint_bytes, checkpoint);
    short_number((double)p->disk_bytes, disk);
    snprintf(line, sizeof(line),
             "steps   %lld of %lld done; a checkpoint takes %sB, the run at most %sB",
             (long long)p->steps_done, (long long)p->steps, checkpoint, disk);
    print_line(line);
    snprintf(line, sizeof(line), "run     %s", sr1_trainer_run_folder(v->trainer));
    print_line(line);
}

static void print_banner(const struct view *v, const sr1_config *c)
{
    sr1_run_plan p = {.struct_size = sizeof(p)};
    char line[512];

    if (sr1_trainer_plan(v->trainer, &p) != SR1_OK)
        return;
    snprintf(line, sizeof(line), "sr1-train %s, stage %s, loss %s", sr1_version(),
             get_config_text(c, "stage"), v->is_sft ? "nll" : get_config_text(c, "loss"));
    print_line(line);
    print_policy(v, &p, c);
    print_data(v, &p, c);
    print_plan(v, &p);
}

static int may_end_early(const sr1_config *c)
{
    return get_config_int(c, "early_stopping_patience") > 0 ||
           get_config_real(c, "stop_at_exact_match") > 0 ||
           get_config_real(c, "stop_at_kl") > 0 ||
           get_config_real(c, "stop_below_entropy") > 0;
}

void view_begin(struct view *v, sr1_trainer *trainer)
{
    const sr1_config *config = sr1_trainer_config(trainer);

    memset(v, 0, sizeof(*v));
    v->trainer = trainer;
    v->interval = get_config_int(config, "log_interval");
    v->acts = strcmp(get_config_text(config, "environment"), "none") != 0;
    v->searches = strcmp(get_config_text(config, "environment"), "search") == 0;
    v->is_sft = strcmp(get_config_text(config, "stage"), "sft") == 0;
    v->begun_at = sr1_trainer_steps_done(trainer);
    v->began = read_view_clock();
    print_banner(v, config);
    progress_begin(&v->bar, "training", "steps", 1.0);
    v->bar.may_end_early = may_end_early(config);
    progress_resume(&v->bar, (double)v->begun_at);
}

/* ---- within a step ---- */

/* Progress of the rollout of a step, or of a validation. Without a terminal, a line is
 * printed only if none was printed for a while. */
static sr1_status on_phase(void *user, const char *phase, int64_t done, int64_t total)
{
    struct view *v = user;

    if (v->phase == NULL || strcmp(v->phase, phase) != 0 || done == 0) {
        progress_clear(&v->bar);
        snprintf(v->title, sizeof(v->title), "step %lld, %s",
                 (long long)sr1_trainer_steps_done(v->trainer) +
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

static void clear_train_bars(struct view *v)
{
    if (v->phase != NULL)
        progress_clear(&v->part);
    v->phase = NULL;
    progress_clear(&v->bar);
}

/* ---- readers that leave ---- */

int view_reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

/* Costs the lines that follow, not the run, which is in its folder: said once. */
static void report_reader_left(struct view *v)
{
    if (v->unread || !view_reader_left())
        return;
    v->unread = 1;
    fprintf(stderr,
            "nobody reads standard output any more; the run goes on and is in %s; kill "
            "%ld stops it with a checkpoint\n",
            sr1_trainer_run_folder(v->trainer), (long)getpid());
}

/* ---- steps ---- */

static long long count_of(const sr1_step_report *r, const char *metric)
{
    double value = 0;

    (void)sr1_step_metric(r, metric, &value);
    return (long long)value;
}

/* A reward cannot be had where the sandbox, say, fails. */
static void warn_excluded(const sr1_step_report *r)
{
    long long excluded = count_of(r, "training/excluded_trajectories");
    long long unscored = count_of(r, "training/unscored_trajectories");

    if (excluded == 0)
        return;
    fprintf(stderr, "step %lld: %lld of %lld trajectories left out:", (long long)r->step,
            excluded, (long long)r->trajectories);
    if (excluded > unscored)
        fprintf(stderr, " a search, a tool or the server failed for %lld",
                excluded - unscored);
    if (unscored > 0)
        fprintf(stderr, "%s the reward could not be had for %lld",
                excluded > unscored ? "," : "", unscored);
    fputc('\n', stderr);
}

static void warn_skipped(const sr1_step_report *r)
{
    long long skipped = count_of(r, "training/skipped_updates");

    if (skipped > 0)
        fprintf(stderr, "step %lld: %lld update%s skipped, not finite\n",
                (long long)r->step, skipped, plural_ending(skipped, "s"));
}

static int digits_of(int64_t v)
{
    char text[24];

    return snprintf(text, sizeof(text), "%lld", (long long)v);
}

/* "5.3s", "1:05" */
static void write_seconds(double seconds, char took[24])
{
    if (seconds < 10)
        snprintf(took, 24, "%.1fs", seconds);
    else
        progress_time(seconds, took);
}

/* The share of trajectories that acted, and of actions that were refused. */
static void write_actions(const struct view *v, const sr1_step_report *r, char *text,
                          size_t size)
{
    double refused = 0;
    int n = snprintf(text, size, "  %s %3.0f%%", v->searches ? "searches" : "actions",
                     100.0 * r->search_trajectories);

    if (!v->searches && sr1_step_metric(r, "env/refused_rate", &refused) == SR1_OK)
        snprintf(text + n, size - (size_t)n, "  refused %3.0f%%", 100.0 * refused);
}

/* Figures of a step of reinforcement learning. A double may take 318 characters: there
 * is room for all. */
static void write_rl_figures(const struct view *v, const sr1_step_report *r, int actions,
                             char figures[2048])
{
    int n = snprintf(figures, 2048, "  reward %7.3f  loss %8.4f  kl %7.4f  tokens %6.1f",
                     r->avg_reward, r->loss, r->kl_div, r->avg_tokens);

    if (actions && v->acts)
        write_actions(v, r, figures + n, 2048 - (size_t)n);
}

/* left: ", 4:05 left", or "". */
static void write_step(const struct view *v, const sr1_step_report *r, int64_t planned,
                       int actions, const char *left, char line[2200])
{
    char figures[2048], took[24];

    write_seconds(r->seconds, took);
    if (v->is_sft)
        snprintf(figures, sizeof(figures), "  loss %8.4f  lr %8.2g", r->loss,
                 r->learning_rate);
    else
        write_rl_figures(v, r, actions, figures);
    snprintf(line, 2200, "step %*lld/%lld%s  %7s%s", digits_of(planned),
             (long long)r->step, (long long)planned, figures, took, left);
}

/* One line a step, its figures below those of the step before; without the share of
 * actions where a terminal has no room for it. */
static void print_step(const struct view *v, const sr1_step_report *r, int64_t planned,
                       const char *left)
{
    char line[2200];

    write_step(v, r, planned, 1, left, line);
    if (!fits_terminal(line))
        write_step(v, r, planned, 0, left, line);
    print_line(line);
}

/* Where no bar tells the time left, the lines do. */
static void measure_time_left(struct view *v, const sr1_step_report *r, int64_t planned,
                              char left[64])
{
    char text[48];

    progress_left(&v->bar, (double)r->step, (double)planned, text);
    snprintf(left, 64, "%s%s",
             !v->bar.terminal && text[0] && r->step < planned ? ", " : "",
             !v->bar.terminal && r->step < planned ? text : "");
}

static sr1_status on_step(void *user, const sr1_step_report *r, int64_t planned)
{
    struct view *v = user;
    double measure = v->is_sft ? r->loss : r->avg_reward;
    char left[64];

    clear_train_bars(v);
    measure_time_left(v, r, planned, left);
    if (r->step % v->interval == 0 || r->step == planned)
        print_step(v, r, planned, left);
    if (v->seen < VIEW_ENDS)
        v->first[v->seen] = measure;
    v->recent[v->seen++ % VIEW_ENDS] = measure;
    warn_excluded(r);
    warn_skipped(r);
    report_reader_left(v);
    if (v->bar.terminal && r->step < planned)
        progress_show(&v->bar, (double)r->step, (double)planned, NULL);
    return SR1_OK;
}

/* Of several answers to each question, by exact match: their best, and what most gave. */
static int write_answer_figures(const sr1_evaluation *e, char *line, size_t size)
{
    double best, majority;

    if (sr1_evaluation_figure(e, 0, "exact_match", "best", &best) != SR1_OK ||
        sr1_evaluation_figure(e, 0, "exact_match", "majority", &majority) != SR1_OK)
        return 0; /* there is one */
    return snprintf(line, size, "  best %.3f  majority %.3f", best, majority);
}

static sr1_status on_validation(void *user, int64_t step, const sr1_evaluation *e)
{
    struct view *v = user;
    sr1_eval_scores s = {.struct_size = sizeof(s)};
    char line[4096];
    int n;

    if (sr1_evaluation_scores(e, 0, &s) != SR1_OK)
        return SR1_OK;
    clear_train_bars(v);
    if (s.excluded > 0)
        fprintf(stderr, "step %lld: %lld questions of the validation were not scored\n",
                (long long)step, (long long)s.excluded);
    if (s.rows == 0)
        return SR1_OK;
    n = snprintf(line, sizeof(line),
                 "step %lld: validation exact match %.3f  f1 %.3f  format %.3f",
                 (long long)step, s.exact_match, s.f1, s.format);
    n += write_answer_figures(e, line + n, sizeof(line) - (size_t)n);
    if (v->acts)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  %s %.2f",
                      v->searches ? "searches" : "actions", s.searches);
    n += snprintf(line + n, sizeof(line) - (size_t)n, "  reward %.3f", s.reward);
    if (s.success > 0)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  success %.3f", s.success);
    if (s.thinking > 0)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  thinking %.1f tokens",
                      s.thinking);
    snprintf(line + n, sizeof(line) - (size_t)n, "  (%lld question%s)", (long long)s.rows,
             plural_ending(s.rows, "s"));
    print_line(line);
    return SR1_OK;
}

static void on_note(void *user, const char *text)
{
    struct view *v = user;

    clear_train_bars(v);
    fprintf(stderr, "%s\n", text);
}

void view_callbacks(struct view *v, sr1_run_callbacks *cb)
{
    cb->user = v;
    cb->step = on_step;
    cb->phase = on_phase;
    cb->validation = on_validation;
    cb->note = on_note;
}

/* ---- the end ---- */

void view_end(struct view *v)
{
    clear_train_bars(v);
}

static double average_ends(const double *values, int64_t from, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += values[(from + i) % VIEW_ENDS];
    return n > 0 ? sum / (double)n : 0.0;
}

/* How a run that is done can go on; one that a key has ended ends again by itself. */
static void print_next(const sr1_run_plan *p, const char *quoted)
{
    if (*p->stopped_by)
        printf("%s; to go on: sr1-train --resume %s %s=0 max_steps=N\n", p->stopped_why,
               quoted, p->stopped_by);
    else
        printf("to go on: sr1-train --resume %s max_steps=N\n", quoted);
}

/* "; best val/exact_match 0.812 at step 40", or "". */
static void write_best(const struct view *v, const sr1_run_plan *p, char text[256])
{
    text[0] = '\0';
    if (p->best_step > 0)
        snprintf(text, 256, "; best %.100s %.4g at step %lld, in best/",
                 get_config_text(sr1_trainer_config(v->trainer), "metric_for_best_model"),
                 p->best_value, (long long)p->best_step);
}

void view_result(const struct view *v)
{
    const char *folder = sr1_trainer_run_folder(v->trainer);
    long long done = (long long)sr1_trainer_steps_done(v->trainer);
    int64_t part = v->seen / 5 < VIEW_ENDS ? v->seen / 5 : VIEW_ENDS;
    char took[24], of[64] = "the first and last", quoted[QUOTED_SIZE], best[256];
    sr1_run_plan p = {.struct_size = sizeof(p), .stopped_by = ""};

    part = part > 0 ? part : 1;
    progress_time(read_view_clock() - v->began, took);
    sr1__quote_word(folder, quoted, sizeof(quoted));
    (void)sr1_trainer_plan(v->trainer, &p);
    if (v->seen == 0) {
        printf("%lld step%s %s done before; ", done, done == 1 ? "" : "s",
               done == 1 ? "was" : "were");
        print_next(&p, quoted);
        return;
    }
    if (part > 1)
        snprintf(of, sizeof(of), "means of the first and last %lld", (long long)part);
    if (v->seen > 1)
        printf("%s %.3f -> %.3f (%s of %lld steps) in %s\n",
               v->is_sft ? "loss" : "reward", average_ends(v->first, 0, part),
               average_ends(v->recent, v->seen - part, part), of, (long long)v->seen,
               took);
    if (*p.stopped_by)
        print_next(&p, quoted);
    write_best(v, &p, best);
    printf("%lld step%s done; the run is in %s%s; sr1-report %s draws it\n", done,
           done == 1 ? "" : "s", folder, best, quoted);
}
