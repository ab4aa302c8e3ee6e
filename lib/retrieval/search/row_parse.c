/* retrieval/search/row_parse.c - see row_parse.h. Most rows are read without a JSON
 * parser (row_scan.h). */
#include "retrieval/search/row_parse.h"

#include "base/rng.h"
#include "retrieval/search/row_scan.h"

#include <stdio.h>
#include <string.h>

void sr1__row_parser_init(struct sr1__row_parser *p,
                          const struct sr1__text_format *format)
{
    p->format = format;
    p->json = NULL;
    sr1__buf_init(&p->cut, 0);
    sr1__buf_init(&p->row, 0);
    sr1__buf_init(&p->mended, 0);
}

void sr1__row_parser_free(struct sr1__row_parser *p)
{
    json_decref(p->json);
    sr1__buf_free(&p->cut);
    sr1__buf_free(&p->row);
    sr1__buf_free(&p->mended);
}

/* ---- forms of rows ---- */

/* A row of BEIR ("_id", "title", "text"), or one with title and text only, gets the
 * members that every row has. *made: it did not have them. */
static sr1_status add_id(json_t *row, int *made)
{
    json_t *id = json_object_get(row, "_id");

    if (json_object_get(row, "id") != NULL || id == NULL)
        return SR1_OK;
    *made = 1;
    return json_object_set(row, "id", id) == 0 ? SR1_OK : sr1__fail_nomem("row");
}

static sr1_status add_contents(struct sr1__row_parser *p, int *made)
{
    const json_t *title = json_object_get(p->json, "title");
    const json_t *text = json_object_get(p->json, "text");
    json_t *contents;

    if (json_object_get(p->json, "contents") != NULL || !json_is_string(text))
        return SR1_OK;
    sr1__buf_clear(&p->cut);
    if (json_string_length(title) > 0) {
        sr1__buf_add(&p->cut, json_string_value(title), json_string_length(title));
        sr1__buf_char(&p->cut, '\n');
    }
    sr1__buf_add(&p->cut, json_string_value(text), json_string_length(text));
    SR1__TRY(sr1__buf_status(&p->cut, "row"));
    contents = json_stringn(sr1__buf_cstr(&p->cut), p->cut.len);
    *made = 1;
    return json_object_set_new(p->json, "contents", contents) == 0
               ? SR1_OK
               : sr1__fail_nomem("row");
}

static sr1_status check_corpus_row(const json_t *row)
{
    const json_t *id = json_object_get(row, "id");

    if (!json_is_string(id) && !json_is_integer(id))
        return sr1__fail(SR1_E_PARSE,
                         "'id' (or BEIR's '_id') is missing or neither string nor "
                         "integer");
    if (!json_is_string(json_object_get(row, "contents")))
        return sr1__fail(SR1_E_PARSE,
                         "'contents' (or 'text', with or without 'title') is "
                         "missing or not a string");
    return SR1_OK;
}

/* Put the text of the contents in their place. */
static sr1_status strip_contents(struct sr1__row_parser *p, const json_t *contents)
{
    sr1__buf_clear(&p->cut);
    SR1__TRY(p->format->cut(json_string_value(contents), json_string_length(contents),
                            &p->cut));
    if (json_object_set_new(p->json, "contents",
                            json_stringn(sr1__buf_cstr(&p->cut), p->cut.len)) != 0)
        return sr1__fail_nomem("row");
    return SR1_OK;
}

/* What other programs than ours read too: rows are stored as strict JSON, mended where
 * they are not (sr1__json_parse_loose says what that is). */
static sr1_status parse_any(struct sr1__row_parser *p, const char **text, size_t *n)
{
    sr1_status status = sr1__json_parse(&p->json, *text, *n, NULL);
    struct sr1__error first;

    if (status != SR1_E_PARSE)
        return status;
    sr1__error_save(&first, status);
    sr1__buf_clear(&p->mended);
    sr1__json_mend(*text, *n, &p->mended);
    SR1__TRY(sr1__buf_status(&p->mended, "row"));
    status = sr1__json_parse(&p->json, p->mended.data, p->mended.len, NULL);
    if (status == SR1_E_PARSE)
        return sr1__error_raise(&first);
    SR1__TRY(status);
    *text = p->mended.data;
    *n = p->mended.len;
    return SR1_OK;
}

static sr1_status parse_json(struct sr1__row_parser *p, const char *text, size_t n,
                             struct sr1__parsed_row *out)
{
    const json_t *contents;
    int made = 0;

    SR1__TRY(parse_any(p, &text, &n));
    if (!json_is_object(p->json))
        return sr1__fail(SR1_E_PARSE, "not a JSON object");
    SR1__TRY(add_id(p->json, &made));
    SR1__TRY(add_contents(p, &made));
    SR1__TRY(check_corpus_row(p->json));
    if (p->format->cut != NULL) {
        SR1__TRY(strip_contents(p, json_object_get(p->json, "contents")));
        made = 1;
    }
    if (made) {
        sr1__buf_clear(&p->row);
        SR1__TRY(sr1__json_dump(p->json, 0, &p->row));
        text = p->row.data;
        n = p->row.len;
    }
    contents = json_object_get(p->json, "contents");
    *out = (struct sr1__parsed_row){text, n, json_string_value(contents),
                                    json_string_length(contents)};
    return SR1_OK;
}

static uint64_t hash_id(const json_t *id)
{
    char digits[32];

    if (json_is_string(id))
        return sr1__hash64(json_string_value(id), json_string_length(id), 0);
    snprintf(digits, sizeof(digits), "%lld", (long long)json_integer_value(id));
    return sr1__hash64(digits, strlen(digits), 0);
}

sr1_status sr1__row_parse(struct sr1__row_parser *p, const char *text, size_t n,
                          struct sr1__parsed_row *out)
{
    json_decref(p->json);
    p->json = NULL;
    if (p->format->cut == NULL) {
        struct sr1__scanned_row row;
        int known = 0;

        SR1__TRY(sr1__row_scan(text, n, &p->cut, &known, &row));
        if (known) {
            *out = (struct sr1__parsed_row){text, n, row.contents, row.size,
                                            sr1__hash64(row.id, row.id_size, 0)};
            return SR1_OK;
        }
    }
    SR1__TRY(parse_json(p, text, n, out));
    out->id_hash = hash_id(json_object_get(p->json, "id"));
    return SR1_OK;
}
