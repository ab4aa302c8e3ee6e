/* rollout/asked.c - rows of a dataset as queries; see asked.h. */
#include "rollout/asked.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/dataset.h"

#include <string.h>

static sr1_status row_query(const sr1_row *row, sr1_query *q)
{
    const struct sr1__messages *history = sr1__row_history(row);
    size_t n = sr1_row_answer_count(row);
    const char **answers = sr1__calloc(n + 1, sizeof(char *));

    if (!answers)
        return sr1__fail_nomem("gold answers");
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

sr1_status sr1__asked_read(struct sr1__asked *a, const sr1_dataset *data,
                           const int64_t *rows, int64_t from, size_t n)
{
    sr1_status st;

    *a = (struct sr1__asked){.rows = sr1__calloc(n + 1, sizeof(*a->rows)),
                             .queries = sr1__calloc(n + 1, sizeof(*a->queries)),
                             .n = n};
    st = a->rows && a->queries ? SR1_OK : sr1__fail_nomem("questions");
    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        st = sr1_dataset_read(data, rows ? rows[i] : from + (int64_t)i, &a->rows[i]);
        if (st == SR1_OK)
            st = row_query(a->rows[i], &a->queries[i]);
    }
    return st;
}

void sr1__asked_free(struct sr1__asked *a)
{
    for (size_t i = 0; a->rows && a->queries && i < a->n; i++) {
        sr1_row_free(a->rows[i]);
        sr1__free((void *)(uintptr_t)a->queries[i].answers);
    }
    sr1__free(a->rows);
    sr1__free(a->queries);
    *a = (struct sr1__asked){0};
}
