/* policy/dataset_queries.c - rows of a dataset as queries; see dataset_queries.h. */
#include "policy/dataset_queries.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/data/dataset.h"

#include <string.h>

static sr1_status row_query(const sr1_row *row, sr1_query *q)
{
    const struct sr1__messages *history = sr1__row_history(row);
    size_t n = sr1_row_answer_count(row);
    const char **answers = sr1__calloc(n + 1, sizeof(char *));

    SR1__CHECK_ALLOC(answers, "gold answers");
    for (size_t i = 0; i < n; i++)
        answers[i] = sr1_row_answer(row, i);
    *q = (sr1_query){.struct_size = sizeof(*q),
                     .text = sr1_row_question(row),
                     .text_len = strlen(sr1_row_question(row)),
                     .id = sr1_row_id(row),
                     .answers = answers,
                     .n_answers = n,
                     .data_source = sr1_row_data_source(row),
                     .history_roles = history->roles,
                     .history_texts = history->texts,
                     .n_history = history->n};
    return SR1_OK;
}

static int64_t index_of(const int64_t *rows, int64_t at)
{
    return rows ? rows[at] : at;
}

sr1_status sr1__dataset_queries_read_plain(struct sr1__dataset_queries *a,
                                           const sr1_dataset *data, const int64_t *rows,
                                           int64_t from, size_t n)
{
    *a = (struct sr1__dataset_queries){.rows = sr1__calloc(n + 1, sizeof(*a->rows)),
                                       .queries = sr1__calloc(n + 1, sizeof(*a->queries)),
                                       .texts = sr1__calloc(n + 1, sizeof(*a->texts)),
                                       .n = n};
    SR1__CHECK_ALLOC(a->rows && a->queries && a->texts, "questions");
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(sr1_dataset_read(data, index_of(rows, from + (int64_t)i), &a->rows[i]));
        SR1__TRY(row_query(a->rows[i], &a->queries[i]));
    }
    return SR1_OK;
}

static void report_long(const sr1_dataset *data, const char *id)
{
    if (sr1__dataset_tell_long(data))
        sr1__log(SR1_LOG_INFO,
                 "question '%.64s': its row is longer than %d bytes; rewards do not see "
                 "the columns of such rows",
                 id, SR1_TRAJECTORY_MAX_ROW);
}

/* Row i as JSON, for its trajectories; a longer one cannot travel with them. */
static sr1_status copy_row_json(struct sr1__dataset_queries *a, size_t i,
                                const sr1_dataset *data)
{
    sr1_query *q = &a->queries[i];
    size_t len;

    SR1__TRY(sr1_row_json(a->rows[i], &a->texts[i]));
    len = strlen(a->texts[i]);
    if (len > SR1_TRAJECTORY_MAX_ROW) {
        report_long(data, q->id);
        return SR1_OK;
    }
    q->row = a->texts[i];
    q->row_len = len;
    return SR1_OK;
}

sr1_status sr1__dataset_queries_read(struct sr1__dataset_queries *a,
                                     const sr1_dataset *data, const int64_t *rows,
                                     int64_t from, size_t n)
{
    SR1__TRY(sr1__dataset_queries_read_plain(a, data, rows, from, n));
    for (size_t i = 0; i < n; i++)
        SR1__TRY(copy_row_json(a, i, data));
    return SR1_OK;
}

void sr1__dataset_queries_free(struct sr1__dataset_queries *a)
{
    for (size_t i = 0; a->rows && a->queries && a->texts && i < a->n; i++) {
        sr1_row_free(a->rows[i]);
        sr1_free(a->texts[i]);
        sr1__free((void *)(uintptr_t)a->queries[i].answers);
    }
    sr1__free(a->rows);
    sr1__free(a->queries);
    sr1__free(a->texts);
    *a = (struct sr1__dataset_queries){0};
}
