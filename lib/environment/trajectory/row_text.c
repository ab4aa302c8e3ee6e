/* environment/trajectory/row_text.c - see row_text.h. */
#include "environment/trajectory/row_text.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

struct sr1__row_text {
    atomic_int refs;
    size_t len;
    char text[]; /* [len + 1] */
};

static sr1_status check_row_object(const char *json, size_t len)
{
    json_t *row = NULL;
    sr1_status status;

    SR1__TRY(sr1__json_parse(&row, json, len, "row"));
    status = json_is_object(row) ? SR1_OK
                                 : sr1__fail(SR1_E_PARSE, "row: is not a JSON object");
    json_decref(row);
    return status;
}

static sr1_status keep_row_text(struct sr1__row_text **out, const char *json, size_t len)
{
    struct sr1__row_text *row;

    if (len > SR1_TRAJECTORY_MAX_ROW)
        return sr1__fail(SR1_E_LIMIT, "row: %zu bytes; at most %d", len,
                         SR1_TRAJECTORY_MAX_ROW);
    SR1__TRY(check_row_object(json, len));
    row = sr1__malloc(sizeof *row + len + 1);
    SR1__CHECK_ALLOC(row, "row");
    atomic_init(&row->refs, 1);
    row->len = len;
    memcpy(row->text, json, len);
    row->text[len] = '\0';
    *out = row;
    return SR1_OK;
}

/* What Python's json writes and ours does not read, as rows of files are read. */
static sr1_status keep_mended_row(struct sr1__row_text **out, const char *json,
                                  size_t len)
{
    struct sr1__buf mended;
    sr1_status status;

    sr1__buf_init(&mended, 0);
    sr1__json_mend(json, len, &mended);
    status = sr1__buf_status(&mended, "row");
    if (status == SR1_OK)
        status = keep_row_text(out, sr1__buf_cstr(&mended), mended.len);
    sr1__buf_free(&mended);
    return status;
}

sr1_status sr1__row_text_new(struct sr1__row_text **out, const char *json, size_t len)
{
    struct sr1__error first;
    sr1_status status;

    *out = NULL;
    if (len == 0)
        return SR1_OK;
    status = keep_row_text(out, json, len);
    if (status != SR1_E_PARSE)
        return status;
    sr1__error_save(&first, status);
    SR1__TRY(sr1__context(sr1__json_refuse_big(json, len), "row"));
    status = keep_mended_row(out, json, len);
    return status == SR1_E_PARSE ? sr1__error_raise(&first) : status;
}

struct sr1__row_text *sr1__row_text_retain(struct sr1__row_text *row)
{
    if (row)
        atomic_fetch_add_explicit(&row->refs, 1, memory_order_relaxed);
    return row;
}

void sr1__row_text_free(struct sr1__row_text *row)
{
    if (row && atomic_fetch_sub_explicit(&row->refs, 1, memory_order_acq_rel) == 1)
        sr1__free(row);
}

const char *sr1__row_text_view(const struct sr1__row_text *row, size_t *len)
{
    if (len)
        *len = row ? row->len : 0;
    return row ? row->text : "";
}
