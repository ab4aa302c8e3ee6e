/* fuzz_corpus_row.c - a line of a corpus, as JSON and as one of DPR's passages: whatever
 * is taken is strict JSON with id and contents. */
#include "fuzz.h"

#include "base/json.h"
#include "retrieval/search/row_parse.h"
#include "retrieval/search/tsv_row.h"

static void take_row(const char *text, size_t size)
{
    struct sr1__parsed_row row = {0};
    struct sr1__row_parser p;
    json_t *o = NULL;

    sr1__row_parser_init(&p, sr1__text_format_find("plain", NULL));
    if (sr1__row_parse(&p, text, size, &row) == SR1_OK) {
        FUZZ_CHECK(sr1__json_parse(&o, row.row, row.row_size, "row") == SR1_OK);
        FUZZ_CHECK(json_object_get(o, "id") != NULL);
        FUZZ_CHECK(json_string_length(json_object_get(o, "contents")) == row.size);
        json_decref(o);
    }
    sr1__row_parser_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__buf cells, made;

    take_row((const char *)data, size);
    sr1__buf_init(&cells, 0);
    sr1__buf_init(&made, 0);
    if (sr1__tsv_row_json((const char *)data, size, &cells, &made) == SR1_OK)
        take_row(made.data, made.len);
    sr1__buf_free(&cells);
    sr1__buf_free(&made);
    return 0;
}
