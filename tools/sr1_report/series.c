/* series.c - see series.h. */
#include "sr1_report/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void series_free(struct series *s)
{
    for (size_t i = 0; i < s->n_columns; i++) {
        free(s->columns[i].name);
        free(s->columns[i].values);
        free(s->columns[i].counts);
    }
    memset(s, 0, sizeof(*s));
}

static int ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

static enum merge_kind choose_merge_kind(const char *name)
{
    if (ends_in(name, "/min"))
        return MERGE_LEAST;
    if (ends_in(name, "/max") || ends_in(name, "_max") ||
        strncmp(name, "health/alarm", 12) == 0)
        return MERGE_GREATEST;
    return MERGE_MEAN;
}

static struct column *new_column(struct series *s, const char *name)
{
    struct column *c = &s->columns[s->n_columns];

    c->name = strdup(name);
    c->values = malloc(SERIES_POINTS * sizeof(*c->values));
    c->counts = calloc(SERIES_POINTS, sizeof(*c->counts));
    if (c->name == NULL || c->values == NULL || c->counts == NULL) {
        free(c->name);
        free(c->values);
        free(c->counts);
        c->name = NULL;
        return NULL;
    }
    for (size_t i = 0; i < SERIES_POINTS; i++)
        c->values[i] = NAN;
    c->kind = choose_merge_kind(name);
    s->n_columns++;
    return c;
}

const struct column *series_find(const struct series *s, const char *name)
{
    for (size_t i = 0; i < s->n_columns; i++) {
        if (strcmp(s->columns[i].name, name) == 0)
            return &s->columns[i];
    }
    return NULL;
}

/* The same, looked for first at *next: rows name their columns in one order. */
static struct column *find_next(struct series *s, const char *name, size_t *next)
{
    const struct column *c;

    if (*next >= s->n_columns || strcmp(s->columns[*next].name, name) != 0) {
        c = series_find(s, name);
        *next = c != NULL ? (size_t)(c - s->columns) : s->n_columns;
    }
    return *next < s->n_columns ? &s->columns[(*next)++] : NULL;
}

/* a (of na numbers) and b (of nb) as one. */
static double merge_series_values(enum merge_kind kind, double a, int64_t na, double b,
                                  int64_t nb)
{
    if (!isfinite(a))
        return b;
    if (!isfinite(b))
        return a;
    if (kind == MERGE_MEAN)
        return (a * (double)na + b * (double)nb) / (double)(na + nb);
    return (kind == MERGE_LEAST) == (a < b) ? a : b;
}

/* Put each two neighbours together. */
static void halve_series(struct series *s)
{
    size_t n = s->n / 2;

    for (size_t k = 0; k < s->n_columns; k++) {
        struct column *c = &s->columns[k];

        for (size_t i = 0; i < n; i++) {
            c->values[i] =
                merge_series_values(c->kind, c->values[2 * i], c->counts[2 * i],
                                    c->values[2 * i + 1], c->counts[2 * i + 1]);
            c->counts[i] = c->counts[2 * i] + c->counts[2 * i + 1];
        }
        for (size_t i = n; i < SERIES_POINTS; i++) {
            c->values[i] = NAN;
            c->counts[i] = 0;
        }
    }
    for (size_t i = 0; i < n; i++) {
        s->rows[i] = s->rows[2 * i] + s->rows[2 * i + 1];
        s->steps[i] = s->steps[2 * i + 1];
    }
    s->n = n;
    s->merge *= 2;
}

static void record_column_value(struct column *c, double step, double v)
{
    if (!isfinite(v))
        return;
    c->first = c->n ? c->first : v;
    c->last = v;
    c->least = c->n && c->least < v ? c->least : v;
    c->greatest = c->n && c->greatest > v ? c->greatest : v;
    c->sum += v;
    c->n++;
    if (v > 0) {
        c->above_zero++;
        c->last_above = step;
    }
}

/* The point that the next row belongs to. */
static size_t next_point(struct series *s)
{
    if (s->merge == 0)
        s->merge = 1;
    if (s->n == SERIES_POINTS && s->rows[s->n - 1] >= s->merge)
        halve_series(s);
    if (s->n == 0 || s->rows[s->n - 1] >= s->merge)
        s->rows[s->n++] = 0;
    return s->n - 1;
}

/* Figures of several answers to the questions of many sources leave half of the room. */
static int has_room(const struct series *s, const char *name)
{
    size_t most = strncmp(name, "val-", 4) == 0 ? SERIES_COLUMNS / 2 : SERIES_COLUMNS;

    return s->n_columns < most && strlen(name) <= SERIES_NAME_BYTES;
}

int series_add(struct series *s, double step, const json_t *row)
{
    size_t at = next_point(s);
    size_t next = 0;
    const char *name;
    json_t *value;

    s->rows[at]++;
    s->steps[at] = s->last_step = step;
    s->n_rows++;
    json_object_foreach((json_t *)row, name, value)
    {
        double v = json_is_number(value) ? json_number_value(value) : NAN;
        struct column *c = find_next(s, name, &next);

        if (!json_is_number(value) && !json_is_null(value))
            continue;
        if (c == NULL && !has_room(s, name)) {
            s->names_left_out++;
            continue;
        }
        if (c == NULL) {
            c = new_column(s, name);
            next = s->n_columns;
        }
        if (c == NULL)
            return -1;
        record_column_value(c, step, v);
        c->values[at] = merge_series_values(c->kind, c->values[at], c->counts[at], v, 1);
        c->counts[at] += isfinite(v);
    }
    return 0;
}

double series_edge(const struct series *s, const struct column *c, int last,
                   double *error)
{
    size_t part = s->n / 5 ? s->n / 5 : 1;
    double n = 0, sum = 0, squares = 0;

    /* from the edge inwards, until so many numbers were seen */
    for (size_t i = 0; i < s->n && n < (double)part; i++) {
        double v = c->values[last ? s->n - 1 - i : i];

        if (!isfinite(v))
            continue;
        n++;
        sum += v;
        squares += v * v;
    }
    if (error != NULL)
        *error = n > 1 ? sqrt(fmax(squares / n - sum / n * (sum / n), 0) / (n - 1)) : 0;
    return n > 0 ? sum / n : NAN;
}
