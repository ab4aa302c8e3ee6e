/* sr1_report/report.h - what the parts of sr1-report share.
 *
 *     lines.c       lines of a file of any size
 *     scan.c        a quick look into a line of JSON
 *     series.c      numbers by step
 *     run.c         a run folder: configuration, metrics, checkpoints
 *     figures.c     the table of final figures, the verdict in words
 *     pick.c        which trajectories go into the page
 *     trajectory.c  one trajectory in the page's form
 *     page.c        all of it as one HTML file
 *     page/         the page's own HTML, CSS and JavaScript */
#ifndef SR1_TOOLS_SR1_REPORT_REPORT_H
#define SR1_TOOLS_SR1_REPORT_REPORT_H

#include "sr1_report/series.h"
#include "sr1_report/text.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define REPORT_RUNS 16

/* What could not be used, said on the page. */
struct skipped {
    int64_t broken;   /* lines that are no JSON object of this kind */
    int64_t too_long; /* lines beyond LINE_MAX_BYTES */
    int64_t cut;      /* a last line without its end: being written, or torn */
    int64_t backward; /* rows whose step does not rise */
};

struct run {
    char *folder;   /* as given */
    char *label;    /* the end of its path, given once all runs are read */
    json_t *config; /* NULL: missing or broken */
    struct series series;
    struct skipped rows;
    int64_t planned; /* steps, 0: not known */
    int64_t saved;   /* step of the newest checkpoint, -1: none */
    int has_model;   /* model/ is there: the run came to its end */
    int has_metrics;
    time_t begun, last; /* of config.json and metrics.jsonl, 0: not there */
};

/* Read a run folder. 0, or the exit code after a message on stderr. */
int run_read(struct run *r, const char *folder);
void run_free(struct run *r);
/* A text member of the configuration, "" when it is not there. */
const char *run_setting(const struct run *r, const char *key);
int run_is_sft(const struct run *r);
double run_steps_done(const struct run *r);
/* "folder/name" in out. */
const char *run_path(const struct run *r, const char *name, char out[4096]);

/* ---- figures.c ---- */

/* A file's name as JSON; bytes that are not UTF-8 become '?'. NULL without memory. */
json_t *path_as_json(const char *path);
/* Final figures of a run as a JSON object: {"steps_done": 20, ...}; what is not known is
 * left out. NULL without memory. */
json_t *figures_of(const struct run *r);
/* [{"tone": "good" | "bad" | "plain", "text": "..."}, ...]; NULL without memory. */
json_t *verdict_of(const struct run *r);

/* ---- pick.c ---- */

/* Where a trajectory stands in its file, and what it was chosen by. */
struct pick {
    uint64_t offset;
    size_t len;
    double step, reward, advantage;
};

struct picks {
    struct pick *chosen; /* in the order of the file */
    size_t n;
    int64_t seen; /* whole lines */
    struct skipped lines;
    int missing; /* no such file */
    int error;   /* errno of a failed read */
};

/* Choose at most max of the trajectories in path, spread over the file. -1: no memory. */
int picks_make(struct picks *p, const char *path, size_t max);
void picks_free(struct picks *p);

/* ---- trajectory.c ---- */

/* Append one trajectory, read from a line of trajectories.jsonl, in the page's form. -1:
 * it is no trajectory. */
int trajectory_write(struct text *out, const json_t *t, size_t run);

/* ---- page.c ---- */

struct page_options {
    const char *path;
    size_t trajectories; /* at most, of all runs */
    size_t bytes;        /* that trajectories may take in the page */
};

/* Write the page. 0, or the exit code after a message; *size is its length. */
int page_write(struct run *runs, size_t n, const struct page_options *o, size_t *size);

/* Made from page/ at build time: the page up to its data, and what follows. */
extern const char page_head[];
extern const char page_tail[];

#endif
