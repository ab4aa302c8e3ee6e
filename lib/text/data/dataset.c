/* text/data/dataset.c - a data set: rows of files, each read on demand; a seeded split.
 */
#include "text/data/dataset.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "base/utf8.h"
#include "text/data/dataset_row.h"
#include "text/data/row_files.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state shared by the data sets of one set of files. */
struct source {
    struct sr1__row_files *rows;
    struct sr1__fields fields;
    struct sr1__repeats repeats;
    atomic_int references;
    atomic_int told_long; /* a row that is too long to travel was reported */
};

struct sr1_dataset {
    struct source *source;
    int64_t *rows; /* NULL: all rows of the source */
    int64_t count;
};

static void source_drop(struct source *s)
{
    if (!s || atomic_fetch_sub(&s->references, 1) > 1)
        return;
    sr1__row_files_free(s->rows);
    sr1__free(s->fields.question);
    sr1__free(s->fields.answer);
    sr1__free(s->fields.id);
    sr1__free(s->fields.source);
    sr1__free(s->fields.history);
    sr1__free(s);
}

void sr1_dataset_free(sr1_dataset *dataset)
{
    if (!dataset)
        return;
    source_drop(dataset->source);
    sr1__free(dataset->rows);
    sr1__free(dataset);
}

int64_t sr1_dataset_count(const sr1_dataset *dataset)
{
    return dataset ? dataset->count : 0;
}

static sr1_status read_dataset_row(const struct source *s, int64_t index, sr1_row **out)
{
    json_t *json = NULL;
    sr1_status status = sr1__row_files_read(s->rows, index, &json);

    if (status != SR1_OK)
        return status;
    status = sr1__row_make(out, json, &s->fields, sr1__row_files_path(s->rows, index));
    return sr1__row_files_context(s->rows, index, status);
}

sr1_status sr1_dataset_read(const sr1_dataset *dataset, int64_t index, sr1_row **out)
{
    SR1__REQUIRE(dataset && out, "dataset: dataset and out");
    if (index < 0 || index >= dataset->count)
        return sr1__fail(SR1_E_INVALID, "row %lld of %lld is asked for", (long long)index,
                         (long long)dataset->count);
    return read_dataset_row(dataset->source, dataset->rows ? dataset->rows[index] : index,
                            out);
}

/* ---- rows of one id ---- */

/* Ids are told apart by their hashes. */
struct seen_id {
    uint64_t hash;
    int64_t row;
};

static int compare_seen(const void *a, const void *b)
{
    const struct seen_id *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash > y->hash ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

/* What there is to say of the first of them. */
static sr1_status describe_repeat(struct source *s, int64_t first)
{
    struct sr1__repeats *r = &s->repeats;
    sr1_row *row = NULL;

    SR1__TRY(read_dataset_row(s, first, &row));
    snprintf(r->id, sizeof r->id, "%s", sr1_row_id(row));
    r->id[sr1__utf8_complete(r->id, strlen(r->id))] = '\0';
    sr1_row_free(row);
    r->path = sr1__row_files_path(s->rows, first);
    r->line = sr1__row_files_line(s->rows, first);
    return SR1_OK;
}

static sr1_status count_repeats(struct source *s, struct seen_id *seen, int64_t n)
{
    int64_t first = -1;

    s->repeats.of = n;
    qsort(seen, (size_t)n, sizeof *seen, compare_seen);
    for (int64_t i = 1; i < n; i++) {
        if (seen[i].hash != seen[i - 1].hash)
            continue;
        s->repeats.n++;
        if (first < 0 || seen[i].row < first)
            first = seen[i].row;
    }
    return first < 0 ? SR1_OK : describe_repeat(s, first);
}

static sr1_status read_ids(const struct source *s, struct seen_id *seen, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        sr1_row *row = NULL;
        const char *id;

        SR1__TRY(read_dataset_row(s, i, &row));
        id = sr1_row_id(row);
        seen[i] = (struct seen_id){sr1__hash64(id, strlen(id), 0), i};
        sr1_row_free(row);
    }
    return SR1_OK;
}

static sr1_status check_dataset_rows(struct source *s)
{
    int64_t n = sr1__row_files_count(s->rows);
    struct seen_id *seen = sr1__calloc((size_t)n, sizeof *seen);
    sr1_status status;

    SR1__CHECK_ALLOC(seen, "ids of a dataset");
    status = read_ids(s, seen, n);
    if (status == SR1_OK)
        status = count_repeats(s, seen, n);
    sr1__free(seen);
    return status;
}

const struct sr1__repeats *sr1__dataset_repeats(const sr1_dataset *dataset)
{
    return &dataset->source->repeats;
}

/* ---- opening ---- */

static sr1_status copy_name(char **out, const char *given, const char *fallback)
{
    *out = sr1__strdup(given && given[0] ? given : fallback);
    return *out ? SR1_OK : sr1__fail_nomem("field name");
}

static sr1_status source_fill(struct source *s, const char *const *paths, size_t n_paths,
                              const sr1_dataset_options *o)
{
    SR1__TRY(copy_name(&s->fields.question, o->question_field, SR1__DEFAULT_QUESTION));
    SR1__TRY(copy_name(&s->fields.answer, o->answer_field, SR1__DEFAULT_ANSWERS));
    SR1__TRY(copy_name(&s->fields.id, o->id_field, "id"));
    SR1__TRY(copy_name(&s->fields.source, o->source_field, "data_source"));
    SR1__TRY(copy_name(&s->fields.history, o->history_field, "history"));
    s->fields.answers_optional = o->answers_optional != 0;
    SR1__TRY(sr1__row_files_open(&s->rows, paths, n_paths));
    return o->skip_check ? SR1_OK : check_dataset_rows(s);
}

void sr1_dataset_options_init(sr1_dataset_options *options)
{
    static const sr1_dataset_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1_dataset_open(sr1_dataset **out, const char *const *paths, size_t n_paths,
                            const sr1_dataset_options *options)
{
    sr1_dataset_options o = {0};
    sr1_dataset *d;
    sr1_status status;

    SR1__REQUIRE(out && (paths || n_paths == 0), "dataset: out and paths");
    SR1__TRY(sr1__struct_take(&o, sizeof o, options,
                              SR1__STRUCT_END(sr1_dataset_options, question_field),
                              "sr1_dataset_options"));
    SR1__CALLOC(d, 1, "dataset");
    d->source = sr1__calloc(1, sizeof *d->source);
    if (!d->source) {
        sr1__free(d);
        return sr1__fail_nomem("dataset");
    }
    atomic_init(&d->source->references, 1);
    status = source_fill(d->source, paths, n_paths, &o);
    if (status != SR1_OK) {
        sr1_dataset_free(d);
        return status;
    }
    d->count = sr1__row_files_count(d->source->rows);
    *out = d;
    return SR1_OK;
}

size_t sr1__dataset_file(const sr1_dataset *dataset, int64_t i)
{
    return sr1__row_files_file(dataset->source->rows,
                               dataset->rows ? dataset->rows[i] : i);
}

sr1_status sr1__dataset_distinct(const sr1_dataset *dataset, const char *path)
{
    return sr1__row_files_distinct(dataset->source->rows, path);
}

int32_t sr1__dataset_tell_long(const sr1_dataset *dataset)
{
    return !atomic_exchange(&dataset->source->told_long, 1);
}

sr1_status sr1__dataset_context(const sr1_dataset *dataset, int64_t i, sr1_status status)
{
    return sr1__row_files_context(dataset->source->rows,
                                  dataset->rows ? dataset->rows[i] : i, status);
}

sr1_status sr1__dataset_hash(const sr1_dataset *d, uint64_t *out)
{
    uint64_t hash = 0;

    for (int64_t i = 0; i < d->count; i++)
        SR1__TRY(sr1__row_files_hash(d->source->rows, d->rows ? d->rows[i] : i, &hash));
    *out = hash;
    return SR1_OK;
}

/* A field that is not the one that every row has by default. */
static void add_field_name(const char *field, const char *standard, uint64_t *hash)
{
    if (field && strcmp(field, standard) != 0)
        *hash = sr1__hash64(field, strlen(field), *hash + 1);
}

uint64_t sr1__dataset_fields(const sr1_dataset *d, uint64_t hash)
{
    const struct sr1__fields *f = &d->source->fields;

    add_field_name(f->question, SR1__DEFAULT_QUESTION, &hash);
    add_field_name(f->answer, SR1__DEFAULT_ANSWERS, &hash);
    add_field_name(f->history, "", &hash);
    return hash;
}

sr1_status sr1__dataset_keep(sr1_dataset *d, const int64_t *rows, int64_t n)
{
    int64_t *kept = sr1__calloc((size_t)n + 1, sizeof *kept);

    SR1__CHECK_ALLOC(kept, "dataset");
    for (int64_t i = 0; i < n; i++)
        kept[i] = d->rows ? d->rows[rows[i]] : rows[i];
    sr1__free(d->rows);
    d->rows = kept;
    d->count = n;
    return SR1_OK;
}

struct split {
    double validation;
    double test;
    uint64_t seed;
    int32_t part;
};

static int32_t part_of(const struct split *split, const char *id)
{
    double u = (double)(sr1__hash64(id, strlen(id), split->seed) >> 11) * 0x1.0p-53;

    if (u < split->validation)
        return SR1_PART_VALIDATION;
    return u < split->validation + split->test ? SR1_PART_TEST : SR1_PART_TRAIN;
}

static sr1_status select_split_rows(sr1_dataset *d, const sr1_dataset *from,
                                    const struct split *split)
{
    for (int64_t i = 0; i < from->count; i++) {
        sr1_row *row = NULL;

        SR1__TRY(sr1_dataset_read(from, i, &row));
        if (part_of(split, sr1_row_id(row)) == split->part)
            d->rows[d->count++] = from->rows ? from->rows[i] : i;
        sr1_row_free(row);
    }
    if (d->count == 0)
        return sr1__fail(
            SR1_E_INVALID,
            "the split leaves no row of %lld for this part; change the fractions",
            (long long)from->count);
    return SR1_OK;
}

static int fractions_fit(double a, double b)
{
    return isfinite(a) && isfinite(b) && a >= 0.0 && b >= 0.0 && a + b < 1.0;
}

sr1_status sr1_dataset_split(sr1_dataset **out, const sr1_dataset *dataset,
                             double validation_fraction, double test_fraction,
                             uint64_t seed, int32_t part)
{
    struct split split = {validation_fraction, test_fraction, seed, part};
    sr1_dataset *d;

    SR1__REQUIRE(out && dataset, "split: out and dataset");
    if (!fractions_fit(validation_fraction, test_fraction))
        return sr1__fail(SR1_E_INVALID,
                         "split fractions must be 0 or more, their sum below 1");
    if (part < SR1_PART_TRAIN || part > SR1_PART_TEST)
        return sr1__fail(SR1_E_INVALID, "part %d is not one of SR1_PART_...", (int)part);
    SR1__CALLOC(d, 1, "dataset");
    d->source = dataset->source;
    atomic_fetch_add(&d->source->references, 1);
    d->rows = sr1__calloc((size_t)dataset->count, sizeof *d->rows);
    SR1__RETURN_NEW(out, d,
                    d->rows ? select_split_rows(d, dataset, &split)
                            : sr1__fail_nomem("dataset"),
                    sr1_dataset_free);
}
