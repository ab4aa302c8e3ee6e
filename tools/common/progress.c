/* progress.c - see progress.h. */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define TERMINAL_EVERY 0.1
#define LINES_EVERY 10.0
#define FIRST_LINE 2.0 /* seconds after the beginning: it lives */
#define BAR_MAX 30

static double now(void)
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

void progress_begin(struct progress *p, const char *title, const char *unit, double scale)
{
    struct winsize size;

    memset(p, 0, sizeof(*p));
    p->title = title;
    p->unit = unit;
    p->scale = scale;
    p->begun = now();
    p->terminal = isatty(STDERR_FILENO);
    p->width = 80;
    if (p->terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        p->width = size.ws_col;
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

static void draw_bar(struct progress *p, double part, const char *text)
{
    int room = p->width - (int)strlen(text) - (int)strlen(p->title) - 6;
    int bar = room > BAR_MAX ? BAR_MAX : room;
    char cells[BAR_MAX + 1];

    if (bar < 0)
        bar = 0;
    for (int i = 0; i < bar; i++)
        cells[i] = i < (int)(part * bar) ? '#' : '.';
    cells[bar] = '\0';
    fprintf(stderr, "\r%s %s%s%s %.*s\033[K", p->title, bar > 0 ? "[" : "", cells,
            bar > 0 ? "]" : "", p->width - 2, text);
    p->shown = 1;
}

/* Things are counted whole; parts of a scaled unit have a decimal. */
static int decimals(const struct progress *p)
{
    return p->scale == 1.0 ? 0 : 1;
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
static int is_due(struct progress *p, double t, double done, double total)
{
    int first_end = !p->terminal && !p->ended && total > 0 && done >= total;

    p->ended |= first_end;
    return first_end || t - p->last >= (p->terminal ? TERMINAL_EVERY : LINES_EVERY);
}

/* Speed, time spent and time left; before anything is done there is only the second. */
static void pace_text(const struct progress *p, double done, double total, double elapsed,
                      char out[128])
{
    double rate = elapsed > 0 ? (done - p->from) / elapsed : 0;
    char left[24], spent[24], speed[64];

    progress_time(elapsed, spent);
    if (!(rate > 0)) {
        snprintf(out, 128, "%s", spent);
        return;
    }
    progress_time(total >= done ? (total - done) / rate : -1, left);
    rate_text(p, rate, speed);
    snprintf(out, 128, "%s, %s, %s left", speed, spent, left);
}

void progress_show(struct progress *p, double done, double total, const char *note)
{
    double t = now();
    double part = total > 0 ? done / total : 0;
    char pace[128];
    char text[256];

    if (!is_due(p, t, done, total))
        return;
    p->last = t;
    pace_text(p, done, total, t - p->begun, pace);
    snprintf(text, sizeof(text), "%3d%% %.*f/%.*f %s, %s%s%s", (int)(100 * part),
             decimals(p), done * p->scale, decimals(p), total * p->scale, p->unit, pace,
             note != NULL ? ", " : "", note != NULL ? note : "");
    if (p->terminal)
        draw_bar(p, part, text);
    else
        fprintf(stderr, "%s %s\n", p->title, text);
    fflush(stderr);
}

void progress_end(struct progress *p, double done, const char *note)
{
    double elapsed = now() - p->begun;
    char spent[24];
    char speed[64];

    progress_clear(p);
    progress_time(elapsed, spent);
    fprintf(stderr, "%s done: %.*f %s in %s", p->title, decimals(p), done * p->scale,
            p->unit, spent);
    if (elapsed > 0.05) {
        rate_text(p, (done - p->from) / elapsed, speed);
        fprintf(stderr, " (%s)", speed);
    }
    fprintf(stderr, "%s%s\n", note != NULL ? ", " : "", note != NULL ? note : "");
}
