/* policy/suite_results.c - see suite_results.h. Questions that could not be answered have
 * no line, so they are asked again. */
#include "policy/suite_results.h"

#include "base/file.h"
#include "base/mem.h"
#include "text/data/jsonl.h"

#include <math.h>
#include <string.h>

#define RESULTS_MAX ((size_t)1 << 30)
#define SETTINGS "settings"
#define PROMPT_TIME "prompt_time"

struct sr1__suite_results {
    struct sr1__dist *dist;
    char *path;
    int64_t time;
    struct sr1__buf text;   /* what is there, until it is read */
    struct sr1__jsonl *out; /* the first rank's; NULL elsewhere */
};

static sr1_status fail_of_line(const char *path, int64_t line)
{
    return sr1__fail(SR1_E_CORRUPT,
                     "%s:%lld: this is no result of a suite; give another folder of "
                     "results, or remove the file to begin its set again",
                     path, (long long)line);
}

/* NaN for null, and in lines that were written before there was such a figure. */
static sr1_status read_figure(const json_t *o, const char *name, double *out)
{
    *out = NAN;
    return sr1__json_given(o, name) ? sr1__json_get_num(o, name, out) : SR1_OK;
}

static sr1_status read_result(const json_t *o, struct sr1__suite_set *set,
                              int32_t samples)
{
    struct sr1__suite_row r = {.done = 1, .known = 1};
    int64_t i = -1, right = 0, majority = 0;

    SR1__TRY(sr1__json_get_int(o, "row", &i));
    SR1__TRY(sr1__json_get_int(o, "right", &right));
    SR1__TRY(sr1__json_get_int(o, "majority", &majority));
    SR1__TRY(sr1__json_get_num(o, "f1", &r.f1));
    SR1__TRY(sr1__json_get_num(o, "searches", &r.searches));
    SR1__TRY(sr1__json_get_num(o, "tokens", &r.tokens));
    SR1__TRY(read_figure(o, "hit_rate", &r.hit_rate));
    SR1__TRY(read_figure(o, "recall", &r.recall));
    if (i < 0 || right < 0 || right > samples || majority < 0 || majority > 1)
        return SR1_E_CORRUPT;
    r.right = (int32_t)right;
    r.majority = (int32_t)majority;
    if (i < set->n) /* another max_rows asked more */
        set->rows[i] = r;
    return SR1_OK;
}

static sr1_status check_result_settings(const json_t *o, const json_t *settings,
                                        const char *path)
{
    if (json_equal(json_object_get(o, SETTINGS), settings))
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "%s: what is there is of another policy, or of other questions or "
                     "options; give the same, or another folder of results",
                     path);
}

/* Whether a first line without an end was cut by a kill: a file of another kind is not
 * ours to cut. */
static int is_begun_by_us(const char *text, size_t n)
{
    static const char begin[] = "{\"" SETTINGS "\":";

    return memcmp(text, begin, n < sizeof(begin) - 1 ? n : sizeof(begin) - 1) == 0;
}

/* One line after another into the set. */
static sr1_status read_results(const char *text, size_t n, const char *path,
                               struct sr1__suite_set *set, const json_t *settings,
                               int32_t samples)
{
    const char *end = text + n;
    sr1_status st = SR1_OK;

    for (int64_t line = 1; text < end && st == SR1_OK; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        json_t *o = NULL;

        if (!stop) /* torn by a kill: asked again */
            return line > 1 || is_begun_by_us(text, n) ? SR1_OK
                                                       : fail_of_line(path, line);
        if (sr1__json_parse(&o, text, (size_t)(stop - text), path) != SR1_OK)
            return fail_of_line(path, line);
        if (line == 1)
            st = check_result_settings(o, settings, path);
        else if (read_result(o, set, samples) != SR1_OK)
            st = fail_of_line(path, line);
        json_decref(o);
        text = stop + 1;
    }
    return st;
}

/* The first rank's file, as all ranks read it. */
static sr1_status share_results_file(struct sr1__dist *d, const char *path,
                                     struct sr1__buf *out)
{
    struct sr1__gathered g = {0};
    struct sr1__buf own = {0};
    const void *bytes;
    size_t n = 0;
    sr1_status st = SR1_OK;

    if (sr1__dist_rank(d) == 0 && sr1__path_exists(path))
        st = sr1__file_read(path, RESULTS_MAX, &own);
    st = sr1__dist_gather(d, path, st, own.data, own.len, &g);
    if (st == SR1_OK) {
        bytes = sr1__gathered_of(&g, 0, &n);
        sr1__buf_add(out, bytes, n);
        st = sr1__buf_status(out, "results of a suite");
    }
    sr1__gathered_free(&g);
    sr1__buf_free(&own);
    return st;
}

/* The time in the first line. */
static void read_prompt_time(const struct sr1__buf *text, int64_t *time)
{
    const char *stop = text->len ? memchr(text->data, '\n', text->len) : NULL;
    json_t *o = NULL;

    if (stop &&
        sr1__json_parse(&o, (const char *)text->data,
                        (size_t)(stop - (const char *)text->data), "results") == SR1_OK)
        (void)sr1__json_get_int(o, PROMPT_TIME, time);
    json_decref(o);
}

sr1_status sr1__suite_results_open(struct sr1__suite_results **out, struct sr1__dist *d,
                                   const char *folder, const char *set, int64_t *time)
{
    struct sr1__suite_results *w;
    struct sr1__buf path;
    sr1_status st;

    *out = NULL;
    if (!folder)
        return SR1_OK;
    SR1__CALLOC(w, 1, "results of a suite");
    w->dist = d;
    sr1__buf_init(&w->text, RESULTS_MAX);
    sr1__buf_init(&path, 0);
    sr1__buf_fmt(&path, "%s/%s.jsonl", folder, set);
    st = sr1__buf_finish(&path, "path", &w->path);
    if (st == SR1_OK && sr1__dist_rank(d) == 0)
        st = sr1__dir_make(folder);
    st = sr1__dist_agree(d, folder, st);
    if (st == SR1_OK)
        st = share_results_file(d, w->path, &w->text);
    if (st == SR1_OK)
        read_prompt_time(&w->text, time);
    w->time = *time;
    SR1__RETURN_NEW(out, w, st, sr1__suite_results_close);
}

static sr1_status begin_results_file(struct sr1__suite_results *w, const json_t *settings)
{
    json_t *first;
    sr1_status st;

    SR1__TRY(sr1__jsonl_open(&w->out, w->path));
    if (sr1__jsonl_size(w->out) > 0)
        return SR1_OK;
    first = json_pack("{s:O, s:I}", SETTINGS, settings, PROMPT_TIME, (json_int_t)w->time);
    st = first ? sr1__jsonl_add(w->out, first) : sr1__fail_nomem("results of a suite");
    json_decref(first);
    return st;
}

sr1_status sr1__suite_results_begin(struct sr1__suite_results *w,
                                    struct sr1__suite_set *set, const json_t *settings,
                                    int32_t samples)
{
    sr1_status st;

    if (!w)
        return SR1_OK;
    st = read_results(sr1__buf_cstr(&w->text), w->text.len, w->path, set, settings,
                      samples);
    if (st == SR1_OK && sr1__dist_rank(w->dist) == 0)
        st = begin_results_file(w, settings);
    sr1__buf_free(&w->text);
    return sr1__dist_agree(w->dist, w->path, st);
}

sr1_status sr1__suite_results_add(struct sr1__suite_results *w, int64_t i, const char *id,
                                  const struct sr1__suite_row *row, json_t *answers)
{
    json_t *o;
    sr1_status st;

    if (!w || !w->out)
        return SR1_OK;
    o = json_pack(
        "{s:I, s:s, s:O, s:i, s:i, s:f, s:f, s:f, s:o, s:o}", "row", (json_int_t)i, "id",
        id, "answers", answers, "right", (int)row->right, "majority", (int)row->majority,
        "f1", row->f1, "searches", row->searches, "tokens", row->tokens, "hit_rate",
        sr1__json_number(row->hit_rate), "recall", sr1__json_number(row->recall));
    st = o ? sr1__jsonl_add(w->out, o) : sr1__fail_nomem("results of a suite");
    json_decref(o);
    return st;
}

void sr1__suite_results_close(struct sr1__suite_results *w)
{
    if (!w)
        return;
    sr1__jsonl_close(w->out);
    sr1__buf_free(&w->text);
    sr1__free(w->path);
    sr1__free(w);
}
