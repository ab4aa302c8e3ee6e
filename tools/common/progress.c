/* progress.c - see progress.h. */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define TERMINAL_EVERY 0.1
#define LINES_EVERY 5.0
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
    p->last = p->begun - LINES_EVERY + 1;
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

void progress_show(struct progress *p, double done, double total, const char *note)
{
    double t = now();
    double elapsed = t - p->begun;
    double rate = elapsed > 0 ? done / elapsed : 0;
    double part = total > 0 ? done / total : 0;
    char left[24];
    char spent[24];
    char text[256];

    if (t - p->last < (p->terminal ? TERMINAL_EVERY : LINES_EVERY))
        return;
    p->last = t;
    progress_time(elapsed, spent);
    progress_time(rate > 0 && total >= done ? (total - done) / rate : -1, left);
    snprintf(text, sizeof(text), "%3.0f%% %.1f/%.1f %s, %.1f %s/s, %s, %s left%s%s",
             100 * part, done * p->scale, total * p->scale, p->unit, rate * p->scale,
             p->unit, spent, left, note != NULL ? ", " : "", note != NULL ? note : "");
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

    progress_clear(p);
    progress_time(elapsed, spent);
    fprintf(stderr, "%s done: %.1f %s in %s", p->title, done * p->scale, p->unit, spent);
    if (elapsed > 0.05)
        fprintf(stderr, " (%.1f %s/s)", done * p->scale / elapsed, p->unit);
    fprintf(stderr, "%s%s\n", note != NULL ? ", " : "", note != NULL ? note : "");
}
