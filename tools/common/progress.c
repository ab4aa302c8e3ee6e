/* progress.c - see progress.h. */
#include "progress.h"

#include <searchr1/base.h>

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define TERMINAL_EVERY 0.1
#define LINES_EVERY 10.0
#define FIRST_LINE 2.0    /* seconds after the beginning: it lives */
#define MEASURED_TIME 2.0 /* seconds of work from which time left is told, */
#define MEASURED_WORK 3.0 /* and units of it; the first, slow ones count in neither */
#define BAR_MAX 30
#define BAR_MIN 4 /* a shorter one says nothing */

static double read_progress_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_time(double seconds, char out[24])
{
    int64_t s = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;

    if (seconds < 0)
        snprintf(out, 24, "?");
    else if (s < 60)
        snprintf(out, 24, "%ds", (int)s);
    else if (s < 3600)
        snprintf(out, 24, "%d:%02d", (int)(s / 60), (int)(s % 60));
    else
        snprintf(out, 24, "%d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60),
                 (int)(s % 60));
}

int is_control(unsigned char before, unsigned char c)
{
    return c < 0x20 || c == 0x7F || (before == 0xC2 && c >= 0x80 && c < 0xA0);
}

int terminal_width(int fd)
{
    struct winsize size;

    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void progress_begin(struct progress *p, const char *title, const char *unit, double scale)
{
    memset(p, 0, sizeof(*p));
    p->title = title;
    p->unit = unit;
    p->scale = scale;
    p->begun = read_progress_clock();
    p->terminal = isatty(STDERR_FILENO);
    p->last = p->begun - (p->terminal ? TERMINAL_EVERY : LINES_EVERY - FIRST_LINE);
}

void progress_resume(struct progress *p, double done)
{
    p->from = done;
}

void progress_clear(struct progress *p)
{
    if (p->terminal && p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}

/* The parts of a line: narrow terminals show the more important ones. */
struct progress_line {
    char percent[8];
    char count[96]; /* "12/40 steps" */
    char pace[192]; /* speed, time spent, time left */
    char left[64];  /* of these the last, or what there is */
    char note[160];
};

static int compose_line(char *out, size_t size, const char *percent, const char *count,
                        const char *pace, const char *note)
{
    return snprintf(out, size, "%s%s%s%s%s%s%s", percent, *count ? " " : "", count,
                    *pace ? ", " : "", pace, *note ? ", " : "", note);
}

/* The note without its last figure; those are two spaces apart. */
static void shorten_note(char *note)
{
    char *at = note + strlen(note);

    while (at > note && !(at[0] == ' ' && at[1] == ' '))
        at--;
    *at = '\0';
}

/* As much as room has: first speed and time spent go, then the note, figure by figure,
 * then the counts. */
static void fit_progress_line(const struct progress_line *l, int room, char *out,
                              size_t size)
{
    char note[sizeof(l->note)];

    memcpy(note, l->note, sizeof(note));
    if (compose_line(out, size, l->percent, l->count, l->pace, note) <= room)
        return;
    while (compose_line(out, size, l->percent, l->count, l->left, note) > room && *note)
        shorten_note(note);
    if ((int)strlen(out) > room)
        compose_line(out, size, l->percent, "", l->left, "");
    if ((int)strlen(out) > room)
        out[room > 0 ? room : 0] = '\0';
}

/* A line longer than the terminal is wide could not be drawn over. */
static void draw_bar(struct progress *p, double part, const struct progress_line *l)
{
    int room = terminal_width(STDERR_FILENO) - (int)strlen(p->title) - 2;
    int bar;
    char cells[BAR_MAX + 1];
    char text[512];

    fit_progress_line(l, room, text, sizeof(text));
    bar = room - (int)strlen(text) - 3;
    bar = bar > BAR_MAX ? BAR_MAX : bar;
    bar = bar < BAR_MIN ? 0 : bar;
    for (int i = 0; i < bar; i++)
        cells[i] = i < (int)(part * bar) ? '#' : '.';
    cells[bar] = '\0';
    fprintf(stderr, "\r%s %s%s%s%s\033[K", p->title, bar > 0 ? "[" : "", cells,
            bar > 0 ? "] " : "", text);
    p->shown = 1;
}

/* Things are counted whole; parts of a scaled unit have a decimal. */
static int choose_decimals(const struct progress *p)
{
    return p->scale == 1.0 ? 0 : 1;
}

/* What would be 0.0 MB is counted in kB. */
static void choose_unit(struct progress *p, double whole)
{
    if (p->scale != 1e-6 || strcmp(p->unit, "MB") != 0 || whole >= 1e5)
        return;
    p->scale = 1e-3;
    p->unit = "kB";
}

/* "12 rows/s", "3.4 steps/s", "7.5 steps/min", "2.0 steps/h": three digits say enough. */
static void rate_text(const struct progress *p, double per_second, char out[64])
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{1, "s"}, {60, "min"}, {3600, "h"}};
    double rate = per_second * p->scale;
    size_t i = 0;

    while (i < 2 && rate * units[i].seconds < 1.0)
        i++;
    rate *= units[i].seconds;
    snprintf(out, 64, "%.*f %s/%s", rate < 10 ? 1 : 0, rate, p->unit, units[i].name);
}

/* Whether it is time to draw; without a terminal the end of the work always is, once. */
static int is_draw_due(struct progress *p, double t, double done, double total)
{
    int first_end = !p->terminal && !p->ended && total > 0 && done >= total;

    p->ended |= first_end;
    return first_end || t - p->last >= (p->terminal ? TERMINAL_EVERY : LINES_EVERY);
}

void progress_left(struct progress *p, double done, double total, char out[48])
{
    double t = read_progress_clock(), rate;
    char left[24];

    out[0] = '\0';
    if (!p->has_first && done > p->from) {
        p->has_first = 1;
        p->first_at = t;
        p->first_done = done;
    }
    if (!p->has_first || t - p->first_at < MEASURED_TIME ||
        done - p->first_done < MEASURED_WORK || total < done)
        return;
    rate = (done - p->first_done) / (t - p->first_at);
    progress_time((total - done) / rate, left);
    snprintf(out, 48, "%s%s left", p->may_end_early && done < total ? "at most " : "",
             left);
}

/* Speed, time spent and time left; before enough is done there is only the second. */
static void pace_text(struct progress *p, double done, double total, double elapsed,
                      struct progress_line *l)
{
    double rate = elapsed > 0 ? (done - p->from) / elapsed : 0;
    char spent[24], speed[64];

    progress_left(p, done, total, l->left);
    if (done >= total && rate > 0)
        snprintf(l->left, sizeof(l->left), "0s left");
    progress_time(elapsed, spent);
    rate_text(p, rate, speed);
    if (l->left[0] != '\0') {
        snprintf(l->pace, sizeof(l->pace), "%s, %s, %s", speed, spent, l->left);
        return;
    }
    snprintf(l->pace, sizeof(l->pace), "%s", spent);
    snprintf(l->left, sizeof(l->left), "%s", spent);
}

void progress_show(struct progress *p, double done, double total, const char *note)
{
    double t = read_progress_clock();
    double part = total > 0 ? done / total : 0;
    struct progress_line l;
    char text[512];

    progress_left(p, done, total, l.left); /* measured whether or not it is drawn */
    if (!is_draw_due(p, t, done, total))
        return;
    p->last = t;
    choose_unit(p, total);
    pace_text(p, done, total, t - p->begun, &l);
    snprintf(l.percent, sizeof(l.percent), "%3d%%", (int)(100 * part));
    snprintf(l.count, sizeof(l.count), "%.*f/%.*f %s", choose_decimals(p),
             done * p->scale, choose_decimals(p), total * p->scale, p->unit);
    snprintf(l.note, sizeof(l.note), "%s", note != NULL ? note : "");
    if (p->terminal) {
        draw_bar(p, part, &l);
    } else {
        compose_line(text, sizeof(text), l.percent, l.count, l.pace, l.note);
        fprintf(stderr, "%s %s\n", p->title, text);
    }
    fflush(stderr);
}

void progress_end(struct progress *p, double done, const char *note)
{
    double elapsed = read_progress_clock() - p->begun;
    char spent[24];
    char speed[64];

    progress_clear(p);
    choose_unit(p, done);
    progress_time(elapsed, spent);
    fprintf(stderr, "%s done: %.*f %s in %s", p->title, choose_decimals(p),
            done * p->scale, p->unit, spent);
    if (elapsed > 0.05) {
        rate_text(p, (done - p->from) / elapsed, speed);
        fprintf(stderr, " (%s)", speed);
    }
    fprintf(stderr, "%s%s\n", note != NULL ? ", " : "", note != NULL ? note : "");
}

void progress_wait(const char *what)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%s%s\033[K", what != NULL ? what : "", what != NULL ? " ..." : "");
    fflush(stderr);
}

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level >= SR1_LOG_WARN)
        fprintf(stderr, "%swarning: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
}

void progress_warnings(void)
{
    sr1_log_set(on_log, NULL);
}
