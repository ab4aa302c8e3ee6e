/* page.c - runs as one HTML file: page_head, the data as JSON, page_tail.
 *
 * Trajectories are read in a shuffled order, so that those left out for their size are
 * from everywhere, and written in the order of the file. */
#include "sr1_report/report.h"

#include "common/args.h"
#include "sr1_report/lines.h"

#include <searchr1/base.h>
#include <searchr1/config.h>
#include <searchr1/ext/config_names.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- numbers ---- */

static int same_values(const struct series *s, const struct column *a,
                       const struct column *b)
{
    for (size_t i = 0; i < s->n; i++) {
        int both = a->values[i] == b->values[i] ||
                   (a->values[i] != a->values[i] && b->values[i] != b->values[i]);

        if (!both)
            return 0;
    }
    return 1;
}

/* A column, or the name of an earlier one that holds the same numbers: one figure has
 * several names. */
static void put_column(struct text *out, const struct series *s, size_t k)
{
    const struct column *c = &s->columns[k];

    text_json_str(out, c->name);
    text_str(out, ":");
    for (size_t j = 0; j < k; j++) {
        if (same_values(s, &s->columns[j], c)) {
            text_json_str(out, s->columns[j].name);
            return;
        }
    }
    text_str(out, "[");
    for (size_t i = 0; i < s->n; i++) {
        text_str(out, i ? "," : "");
        text_number(out, c->values[i], 6);
    }
    text_str(out, "]");
}

static void put_series(struct text *out, const struct series *s)
{
    text_fmt(out, ",\"merge\":%lld,\"rows\":%lld,\"namesLeftOut\":%lld,\"steps\":[",
             (long long)(s->merge ? s->merge : 1), (long long)s->n_rows,
             (long long)s->names_left_out);
    for (size_t i = 0; i < s->n; i++) {
        text_str(out, i ? "," : "");
        text_number(out, s->steps[i], 15);
    }
    text_str(out, "],\"columns\":{");
    for (size_t k = 0; k < s->n_columns; k++) {
        text_str(out, k ? "," : "");
        put_column(out, s, k);
    }
    text_str(out, "}");
}

static void put_skipped(struct text *out, const char *name, const struct skipped *s)
{
    text_fmt(out,
             ",\"%s\":{\"broken\":%lld,\"tooLong\":%lld,\"cut\":%lld,\"backward\":%lld}",
             name, (long long)s->broken, (long long)s->too_long, (long long)s->cut,
             (long long)s->backward);
}

static int put_run(struct text *out, const struct loaded_run *r)
{
    json_t *figures = run_figures(r);
    json_t *verdict = run_verdict(r);
    int bad = figures == NULL || verdict == NULL;

    text_str(out, "{\"label\":");
    text_json_str(out, r->label);
    text_str(out, ",\"folder\":");
    text_json_str(out, r->folder);
    text_fmt(out, ",\"begun\":%lld,\"last\":%lld,\"hasMetrics\":%d,\"config\":",
             (long long)r->begun, (long long)r->last, r->has_metrics);
    text_value(out, r->config);
    text_str(out, ",\"starts\":");
    text_value(out, r->starts);
    text_str(out, ",\"changes\":");
    text_value(out, r->changes);
    text_str(out, ",\"figures\":");
    text_value(out, figures);
    text_str(out, ",\"verdict\":");
    text_value(out, verdict);
    put_skipped(out, "skippedRows", &r->rows);
    put_series(out, &r->series);
    json_decref(figures);
    json_decref(verdict);
    return bad ? -1 : 0;
}

/* The default and the help text of every key. */
static void put_keys(struct text *out)
{
    const char *comma = "";

    text_str(out, "\"keys\":[");
    for (size_t i = 0; i < sr1_config_key_count(); i++) {
        sr1_config_key_info k = {.struct_size = sizeof(k)};

        if (sr1_config_key_describe(i, &k) != SR1_OK || k.type == SR1_CONFIG_SECRET)
            continue;
        text_str(out, comma);
        text_str(out, "[");
        text_json_str(out, k.name);
        text_str(out, ",");
        text_json_str(out, k.default_text);
        text_str(out, ",");
        text_json_str(out, k.help);
        text_str(out, "]");
        comma = ",";
    }
    text_str(out, "]");
}

/* ---- trajectories ---- */

/* Spread evenly whatever n is: multiples of a step near n/phi that shares no factor. */
static size_t choose_stride(size_t n)
{
    size_t stride = (size_t)((double)n * 0.6180339887) + 1, a, b;

    for (;; stride++) {
        for (a = stride, b = n; b != 0;) {
            size_t rest = a % b;

            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

/* Each chosen trajectory as text, until `bytes` are used; the others stay empty. */
static int64_t write_picks(struct text *texts, struct picks *p, size_t run, size_t bytes)
{
    size_t stride = choose_stride(p->n ? p->n : 1);
    int64_t too_big = p->too_big;

    for (size_t i = 0, at = 0; i < p->n; i++, at = (at + stride) % p->n) {
        const struct pick *pick = &p->chosen[at];
        json_t *t = NULL;

        if (pick->text == NULL)
            continue;
        t = json_loadb(pick->text, pick->len, JSON_ALLOW_NUL, NULL);

        if (t == NULL || trajectory_write(&texts[at], t, run) != 0) {
            p->lines.broken++;
            p->seen--;
            text_free(&texts[at]);
        } else if (texts[at].len > bytes) {
            too_big++;
            text_free(&texts[at]);
        } else {
            bytes -= texts[at].len;
        }
        json_decref(t);
    }
    return too_big;
}

/* Those of one file of a run. */
static int put_trajectories_of(struct text *out, const char *path, size_t run, size_t max,
                               size_t bytes, const char *comma)
{
    struct picks p;
    struct text *texts;
    int64_t shown = 0, too_big;
    int bad;

    if (picks_make(&p, path, max) != 0)
        return -1;
    texts = calloc(p.n + 1, sizeof(*texts));
    if (texts == NULL) {
        picks_free(&p);
        return -1;
    }
    too_big = write_picks(texts, &p, run, bytes);
    text_str(out, comma);
    text_str(out, "{\"list\":[");
    for (size_t i = 0; i < p.n; i++) {
        if (texts[i].len == 0)
            continue;
        text_str(out, shown++ ? "," : "");
        text_add(out, texts[i].data, texts[i].len);
        text_free(&texts[i]);
    }
    text_fmt(out, "],\"seen\":%lld,\"shown\":%lld,\"tooBig\":%lld,\"missing\":%d",
             (long long)p.seen, (long long)shown, (long long)too_big, p.missing);
    text_str(out, ",\"error\":");
    text_json_str(out, p.error ? strerror(p.error) : "");
    put_skipped(out, "skipped", &p.lines);
    text_str(out, "}");
    bad = out->failed;
    free(texts);
    picks_free(&p);
    return bad ? -1 : 0;
}

/* Of the runs' steps, and of their validations, which have half of the room where there
 * are any. 0, or -1 without memory. */
static int put_trajectories(struct text *out, const struct loaded_run *runs, size_t n,
                            const struct page_options *o, int validations)
{
    int bad = 0;

    for (size_t i = 0; i < n && !bad; i++) {
        char steps[4096], validated[4096];
        struct stat info;
        size_t parts = n;

        run_path(&runs[i], "trajectories.jsonl.zst", steps);
        if (access(steps, F_OK) != 0) /* of older versions */
            run_path(&runs[i], "trajectories.jsonl", steps);
        run_path(&runs[i], "validation-trajectories.jsonl.zst", validated);
        if (stat(validated, &info) == 0 && info.st_size > 0)
            parts *= 2;
        bad =
            put_trajectories_of(out, validations ? validated : steps, i,
                                o->trajectories / parts, o->bytes / parts, i ? "," : "");
    }
    return bad;
}

/* ---- the page ---- */

static int put_page_data(struct text *out, const struct loaded_run *runs, size_t n,
                         const struct page_options *o)
{
    int bad = 0;

    text_fmt(out,
             "{\"made\":%lld,\"version\":", (long long)(o->made ? o->made : time(NULL)));
    text_json_str(out, sr1_version());
    text_str(out, ",");
    put_keys(out);
    text_str(out, ",\"samples\":");
    text_value(out, o->samples);
    text_str(out, ",\"runs\":[");
    for (size_t i = 0; i < n && !bad; i++) {
        text_str(out, i ? "," : "");
        bad = put_run(out, &runs[i]);
        text_str(out, "}");
    }
    text_str(out, "],\"trajectories\":[");
    bad = bad || put_trajectories(out, runs, n, o, 0) != 0;
    text_str(out, "],\"validations\":[");
    bad = bad || put_trajectories(out, runs, n, o, 1) != 0;
    text_str(out, "]}");
    return bad || out->failed ? -1 : 0;
}

static int write_page_bytes(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

/* Beside the file, then renamed: a page appears whole or not at all. */
static int replace_file(const char *path, const struct text *t)
{
    char beside[4096 + 8];
    int fd, bad;

    snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    errno = ENAMETOOLONG;
    fd = strlen(path) < 4096 ? mkstemp(beside) : -1;
    bad = fd < 0;
    if (!bad) {
        mode_t mask = umask(0);

        umask(mask);
        bad = write_page_bytes(fd, t->data, t->len) != 0 || fchmod(fd, 0666 & ~mask) != 0;
        bad |= close(fd) != 0;
        bad = bad || rename(beside, path) != 0;
    }
    if (!bad)
        return 0;
    fprintf(stderr, "sr1-report: cannot write %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        unlink(beside);
    return TOOL_FAILED;
}

int page_text(struct text *out, struct loaded_run *runs, size_t n,
              const struct page_options *o)
{
    text_str(out, page_head);
    if (put_page_data(out, runs, n, o) != 0 || out->failed) {
        fprintf(stderr, "sr1-report: out of memory\n");
        return TOOL_FAILED;
    }
    text_str(out, page_tail);
    return out->failed ? TOOL_FAILED : TOOL_OK;
}

int page_write(struct loaded_run *runs, size_t n, const struct page_options *o,
               size_t *size)
{
    struct text t = {0};
    int code = page_text(&t, runs, n, o);

    if (code == TOOL_OK)
        code = replace_file(o->path, &t);
    *size = t.len;
    text_free(&t);
    return code;
}
