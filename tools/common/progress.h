/* progress.h - how far a long piece of work is: a bar with time left on a terminal, a
 * plain line every ten seconds or so otherwise. Writes to stderr. */
#ifndef SR1_TOOLS_PROGRESS_H
#define SR1_TOOLS_PROGRESS_H

#include <stdint.h>

struct progress {
    const char *title; /* "indexing" */
    const char *unit;  /* what is counted: "MB", "steps" */
    double scale;      /* units for one of done and total: 1e-6 for bytes shown as MB */
    int terminal;
    int shown; /* the bar is on the screen now */
    int ended; /* the line of the end was printed */
    double begun;
    double last;
    double from; /* done before this work began */
    int has_first;
    double first_at, first_done; /* when something was done first, and how much */
    int may_end_early;           /* time left is the most that it may be */
};

/* Strings are borrowed until progress_end. */
void progress_begin(struct progress *p, const char *title, const char *unit,
                    double scale);
/* Say that so much was done before: it counts in no rate. */
void progress_resume(struct progress *p, double done);
/* Call as often as you like; drawing is limited to some times a second. note may be NULL,
 * else it is put at the end of the line ("loss 0.31"). */
void progress_show(struct progress *p, double done, double total, const char *note);
/* "4:05 left", once enough was done behind the first of it for that to be worth
 * something; "" before. progress_show calls it. */
void progress_left(struct progress *p, double done, double total, char out[48]);
/* Take the bar off the screen, to print something else; the next show draws it again. */
void progress_clear(struct progress *p);
/* The last line: the work done and its time. */
void progress_end(struct progress *p, double done, const char *note);

/* Show on a terminal the work in progress while its length is unknown: "opening the
 * model"; NULL removes it. */
void progress_wait(const char *what);

/* From now on the library's warnings go to stderr, in place of a bar if there is one. */
void progress_warnings(void);

/* Is c a control character, with `before` the byte before it (0: none)? In UTF-8: one
 * byte, or the second of U+0080 to U+009F, which terminals obey too. */
int is_control(unsigned char before, unsigned char c);

/* Columns of the terminal that fd is; 0 where it is none. */
int terminal_width(int fd);

/* "1:02:03", "4:05", "6s"; "?" for a time that is not known (negative). */
void progress_time(double seconds, char out[24]);

#endif
