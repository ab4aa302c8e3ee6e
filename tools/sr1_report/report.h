/* sr1_report/report.h - declarations shared by the parts of sr1-report.
 *
 *     lines.c       lines of a file of any size
 *     scan.c        a quick look into a line of JSON
 *     series.c      numbers by step
 *     run.c         a run folder: configuration, metrics, checkpoints
 *     figures.c     the table of final figures, the verdict in words
 *     pick.c        which trajectories go into the page
 *     trajectory.c  one trajectory in the page's form
 *     samples.c     one question at every stage
 *     page.c        all of it as one HTML file
 *     serve.c       the page of runs that are under way, over HTTP
 *     page/         the page's own HTML, CSS and JavaScript */
#ifndef SR1_TOOLS_SR1_REPORT_REPORT_H
#define SR1_TOOLS_SR1_REPORT_REPORT_H

#include "sr1_report/series.h"
#include "sr1_report/text.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define REPORT_RUNS 16

/* The input that could not be used, which the page mentions. */
struct skipped {
    int64_t broken;   /* lines that are no JSON object of this kind */
    int64_t too_long; /* lines beyond LINE_MAX_BYTES */
    int64_t cut;      /* a last line without its end: being written, or torn */
    int64_t backward; /* rows whose step does not rise */
};

struct loaded_run {
    char *folder;    /* as given */
    char *label;     /* the end of its path, given once all runs are read */
    json_t *config;  /* NULL: missing or broken */
    json_t *starts;  /* of run.json: each time it was started; NULL likewise */
    json_t *changes; /* rows of config-changes.jsonl; NULL without memory */
    struct series series;
    struct skipped rows;
    int64_t planned; /* steps, 0: not known */
    int64_t saved;   /* step of the newest checkpoint, -1: none */
    int has_model;   /* model/ is there: the run came to its end once */
    int has_metrics;
    time_t begun, last; /* of config.json and metrics.jsonl, 0: not there */
};

/* Read a run folder. 0, or the exit code after a message on stderr. */
int run_read(struct loaded_run *r, const char *folder);
void run_free(struct loaded_run *r);
/* A text member of the configuration, "" when it is not there. */
const char *run_setting(const struct loaded_run *r, const char *key);
int run_is_sft(const struct loaded_run *r);
double run_steps_done(const struct loaded_run *r);
/* "folder/name" in out. */
const char *run_path(const struct loaded_run *r, const char *name, char out[4096]);

/* ---- figures.c ---- */

/* A file's name as JSON; bytes that are not UTF-8 become '?'. NULL without memory. */
json_t *path_as_json(const char *path);
/* Final figures of a run as a JSON object: {"steps_done": 20, ...}; unknown figures are
 * left out. NULL without memory. */
json_t *run_figures(const struct loaded_run *r);
/* [{"tone": "good" | "bad" | "plain", "text": "..."}, ...]; NULL without memory. */
json_t *run_verdict(const struct loaded_run *r);

/* ---- pick.c ---- */

#define PICK_BYTES ((size_t)256 << 20) /* of lines that are held */

/* The position of a trajectory in its file, and the reason of its choice. */
struct pick {
    uint64_t offset;
    size_t len;
    double step, reward, advantage;
    char *text; /* the line; NULL beyond PICK_BYTES */
};

struct picks {
    struct pick *chosen; /* in the order of the file */
    size_t n;
    int64_t too_big; /* of these without a text */
    int64_t seen;    /* whole lines */
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

/* ---- samples.c ---- */

/* One question as several models answer it: {"question", "right_answer", "samples":
 * [{"name", "text", "figures": {name: number}}]}. 0, or the exit code after a message on
 * stderr; free *out with json_decref. */
int samples_read(json_t **out, const char *path);

/* ---- page.c ---- */

struct page_options {
    const char *path;
    const json_t *samples; /* what the page opens with, or NULL */
    size_t trajectories;   /* at most, of all runs */
    size_t bytes;          /* that trajectories may take in the page */
    time_t made;           /* 0: now */
};

/* Write the page. 0, or the exit code after a message; *size is its length. */
int page_write(struct loaded_run *runs, size_t n, const struct page_options *o,
               size_t *size);

/* Append the page to out; o->path is not read. 0, or the exit code after a message. */
int page_text(struct text *out, struct loaded_run *runs, size_t n,
              const struct page_options *o);

/* Made from page/ at build time: the page up to its data, and the rest of the page. */
extern const char page_head[];
extern const char page_tail[];

#endif
