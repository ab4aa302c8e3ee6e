/* search/row_parse.c - see row_parse.h. Most rows are read without a JSON parser
 * (row_scan.h). */
#include "search/row_parse.h"

#include "search/row_scan.h"

void sr1__row_parser_init(struct sr1__row_parser *p,
                          const struct sr1__text_format *format)
{
    p->format = format;
    p->json = NULL;
    sr1__buf_init(&p->cut, 0);
    sr1__buf_init(&p->row, 0);
}

void sr1__row_parser_free(struct sr1__row_parser *p)
{
    json_decref(p->json);
    sr1__buf_free(&p->cut);
    sr1__buf_free(&p->row);
}

static sr1_status check_row(const json_t *row, const json_t **contents)
{
    const json_t *id = json_object_get(row, "id");

    *contents = json_object_get(row, "contents");
    if (!json_is_object(row))
        return sr1__fail(SR1_E_PARSE, "not a JSON object");
    if (!json_is_string(id) && !json_is_integer(id))
        return sr1__fail(SR1_E_PARSE, "'id' is missing or neither string nor integer");
    if (!json_is_string(*contents))
        return sr1__fail(SR1_E_PARSE, "'contents' is missing or not a string");
    return SR1_OK;
}

/* Put the text of the contents in their place, and the row anew into p->row. */
static sr1_status cut(struct sr1__row_parser *p, const json_t *contents)
{
    sr1__buf_clear(&p->cut);
    sr1__buf_clear(&p->row);
    SR1__TRY(p->format->cut(json_string_value(contents), json_string_length(contents),
                            &p->cut));
    if (json_object_set_new(p->json, "contents",
                            json_stringn(sr1__buf_cstr(&p->cut), p->cut.len)) != 0)
        return sr1__fail_nomem("row");
    return sr1__json_dump(p->json, 0, &p->row);
}

static sr1_status parse_json(struct sr1__row_parser *p, const char *text, size_t n,
                             struct sr1__parsed_row *out)
{
    const json_t *contents = NULL;

    SR1__TRY(sr1__json_parse(&p->json, text, n, "row"));
    SR1__TRY(check_row(p->json, &contents));
    if (p->format->cut == NULL) {
        *out = (struct sr1__parsed_row){text, n, json_string_value(contents),
                                        json_string_length(contents)};
        return SR1_OK;
    }
    SR1__TRY(cut(p, contents));
    *out = (struct sr1__parsed_row){p->row.data, p->row.len, sr1__buf_cstr(&p->cut),
                                    p->cut.len};
    return SR1_OK;
}

sr1_status sr1__row_parse(struct sr1__row_parser *p, const char *text, size_t n,
                          struct sr1__parsed_row *out)
{
    json_decref(p->json);
    p->json = NULL;
    if (p->format->cut == NULL) {
        const char *found = NULL;
        size_t size = 0;
        int known = 0;

        SR1__TRY(sr1__row_scan(text, n, &p->cut, &known, &found, &size));
        if (known) {
            *out = (struct sr1__parsed_row){text, n, found, size};
            return SR1_OK;
        }
    }
    return parse_json(p, text, n, out);
}
