/* fuzz_corpus_row.c - a line of a corpus: whatever is taken is strict JSON with id and
 * contents. */
#include "fuzz.h"

#include "base/json.h"
#include "retrieval/search/row_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__parsed_row row = {0};
    struct sr1__row_parser p;
    json_t *o = NULL;

    sr1__row_parser_init(&p, sr1__text_format_find("plain", NULL));
    if (sr1__row_parse(&p, (const char *)data, size, &row) == SR1_OK) {
        FUZZ_CHECK(sr1__json_parse(&o, row.row, row.row_size, "row") == SR1_OK);
        FUZZ_CHECK(json_object_get(o, "id") != NULL);
        FUZZ_CHECK(json_string_length(json_object_get(o, "contents")) == row.size);
        json_decref(o);
    }
    sr1__row_parser_free(&p);
    return 0;
}
