/* text/data/dataset_mix.c - how often and in which order the rows of the training files
 * are used in a pass: times of each file (train_weights), easy ones first
 * (curriculum_field). */
#include "text/data/dataset.h"

#include "base/mem.h"
#include "base/num.h"
#include "config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TIMES 1000

/* ---- times of a file ---- */

static sr1_status read_times(char *const *items, size_t n, int64_t *times)
{
    for (size_t i = 0; i < n; i++)
        if (!sr1__parse_int(items[i], strlen(items[i]), &times[i]) || times[i] < 1 ||
            times[i] > MOST_TIMES)
            return sr1__fail(
                SR1_E_CONFIG,
                "train_weights: '%.40s' is no whole number from 1 to %d: how "
                "often a file's rows are used in each pass",
                items[i], MOST_TIMES);
    return SR1_OK;
}

/* Every row as often as its file says, one use of all rows after another. */
static sr1_status repeat_rows(sr1_dataset *d, const int64_t *times)
{
    int64_t all = 0, most = 0, n = 0, count = sr1_dataset_count(d);
    int64_t *rows;
    sr1_status st;

    for (int64_t i = 0; i < count; i++) {
        int64_t t = times[sr1__dataset_file(d, i)];

        all += t;
        most = t > most ? t : most;
    }
    rows = sr1__calloc((size_t)all + 1, sizeof(*rows));
    SR1__CHECK_ALLOC(rows, "rows of a pass");
    for (int64_t use = 0; use < most; use++)
        for (int64_t i = 0; i < count; i++)
            if (use < times[sr1__dataset_file(d, i)])
                rows[n++] = i;
    st = sr1__dataset_keep(d, rows, n);
    sr1__free(rows);
    return st;
}

static sr1_status weigh_files(sr1_dataset *d, const sr1_config *c)
{
    char **items = NULL, **files = NULL;
    int64_t *times = NULL;
    size_t n = 0, n_files = 0;
    sr1_status st = sr1__config_list(c, "train_weights", &items, &n);

    if (st == SR1_OK && n > 0)
        st = sr1__config_list(c, "train_file", &files, &n_files);
    if (st == SR1_OK && n > 0 && n != n_files)
        st = sr1__fail(
            SR1_E_CONFIG,
            "train_weights has %zu number%s, and train_file %zu files; give each "
            "file one",
            n, n == 1 ? "" : "s", n_files);
    if (st == SR1_OK && n > 0) {
        times = sr1__calloc(n, sizeof(*times));
        st = times ? read_times(items, n, times) : sr1__fail_nomem("weights of files");
    }
    if (st == SR1_OK && n > 0)
        st = repeat_rows(d, times);
    sr1__free(times);
    sr1__free((void *)items);
    sr1__free((void *)files);
    return st;
}

/* ---- easy ones first ---- */

struct graded_row {
    double grade;
    int64_t row;
};

static int compare_grades(const void *a, const void *b)
{
    const struct graded_row *x = a, *y = b;

    if (x->grade != y->grade)
        return x->grade > y->grade ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

/* A number, also as text, as in a file of CSV. */
static int read_grade_number(const json_t *v, double *out)
{
    const char *s = json_string_value(v);

    if (json_is_number(v))
        *out = json_number_value(v);
    return json_is_number(v) ||
           (s && sr1__parse_real(s, strlen(s), out) && isfinite(*out));
}

static sr1_status read_grade(const sr1_dataset *d, int64_t i, const char *field,
                             double *out)
{
    sr1_row *row = NULL;
    const json_t *grade;
    sr1_status st;

    SR1__TRY(sr1_dataset_read(d, i, &row));
    grade = json_object_get(sr1__dataset_row_json(row), field);
    st = read_grade_number(grade, out)
             ? SR1_OK
             : sr1__fail(SR1_E_PARSE, "field '%s' (curriculum_field) is no number%s",
                         field, grade ? "" : ": the row has no field of this name");
    sr1_row_free(row);
    return sr1__dataset_context(d, i, st);
}

static sr1_status sort_by_grade(sr1_dataset *d, const char *field)
{
    int64_t n = sr1_dataset_count(d);
    struct graded_row *graded = sr1__calloc((size_t)n + 1, sizeof(*graded));
    int64_t *rows = sr1__calloc((size_t)n + 1, sizeof(*rows));
    sr1_status st = graded && rows ? SR1_OK : sr1__fail_nomem("rows of a pass");

    for (int64_t i = 0; i < n && st == SR1_OK; i++) {
        graded[i].row = i;
        st = read_grade(d, i, field, &graded[i].grade);
    }
    if (st == SR1_OK) {
        qsort(graded, (size_t)n, sizeof(*graded), compare_grades);
        for (int64_t i = 0; i < n; i++)
            rows[i] = graded[i].row;
        st = sr1__dataset_keep(d, rows, n);
    }
    sr1__free(graded);
    sr1__free(rows);
    return st;
}

sr1_status sr1__dataset_mix(sr1_dataset *d, const sr1_config *c)
{
    const char *field = sr1__config_str(c, "curriculum_field");

    SR1__TRY(weigh_files(d, c));
    return *field ? sort_by_grade(d, field) : SR1_OK;
}
