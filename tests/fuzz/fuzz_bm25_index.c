/* fuzz_bm25_index.c - whatever the bytes of an index (its footer's checksum is set
 * right), opening it, asking it and reading every row ends with a status, hits are in
 * order, and documents exist. */
#include "fuzz.h"

#include "retrieval/search/bm25.h"
#include "retrieval/search/bm25_format.h"

#include <stdlib.h>
#include <string.h>

static void ask(const void *data, size_t size)
{
    static const char *const queries[] = {"amber", "amber basalt copper delta",
                                          "topaz w1 w2", "apples every title", "zzz"};
    sr1_search *e = NULL;
    sr1_search_results *r = NULL;

    if (sr1__search_open_bm25_memory(&e, data, size, NULL) != SR1_OK)
        return;
    if (sr1_search_run(e, queries, 5, 4, &r) == SR1_OK) {
        for (size_t i = 0; i < 5; i++) {
            sr1_search_hit hit = {sizeof(hit)};
            double before = 0;

            for (int32_t k = 0; sr1_search_results_hit(r, i, k, &hit) == SR1_OK; k++) {
                FUZZ_CHECK(k == 0 || hit.score <= before);
                before = hit.score;
            }
        }
    }
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void read_lists(const struct sr1__index *ix)
{
    static const char *const terms[] = {"amber", "basalt", "topaz", "w1", "everi", "a"};
    static struct sr1__postings p;

    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
        struct sr1__index_term t;

        if (sr1__index_find(ix, terms[i], strlen(terms[i]), &t) != SR1_OK || t.df == 0 ||
            sr1__postings_open(&p, ix, &t) != SR1_OK)
            continue;
        for (; p.block < p.n_blocks && sr1__postings_decode(&p) == SR1_OK &&
               sr1__postings_decode_tfs(&p) == SR1_OK;
             p.block++) {
            for (uint32_t k = 0; k < p.count; k++)
                FUZZ_CHECK(p.docs[k] < sr1__index_meta(ix)->documents && p.tfs[k] >= 1);
        }
    }
}

static void read_rows(const struct sr1__index *ix)
{
    struct sr1__row_reader *r = NULL;

    if (sr1__row_reader_new(&r, sr1__index_rows(ix)) != SR1_OK)
        return;
    for (uint32_t d = 0; d < sr1__index_meta(ix)->documents && d < 50; d++) {
        const char *row = NULL;
        size_t n = 0;

        if (sr1__row_read(r, d, &row, &n) == SR1_OK && n > 0)
            FUZZ_CHECK(row[0] == row[0] && row[n - 1] == row[n - 1]); /* readable */
    }
    sr1__row_reader_free(r);
}

/* Make the footer's checksum fit, so that what it protects is reached. */
static void seal(unsigned char *bytes, size_t size)
{
    size_t footer = SECTIONS_FOOTER_BYTES(INDEX_COUNTS_BYTES, INDEX_SECTIONS);
    uint64_t end;

    if (size < SECTIONS_HEADER_BYTES + footer)
        return;
    end = sr1__index_sum_of(bytes + size - footer, footer - 16);
    for (int i = 0; i < 8; i++)
        bytes[size - 16 + (size_t)i] = (unsigned char)(end >> (8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *bytes = malloc(size > 0 ? size : 1);
    struct sr1__index *ix = NULL;

    FUZZ_CHECK(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    seal(bytes, size);
    ask(bytes, size);
    if (sr1__index_open_memory(&ix, bytes, size) == SR1_OK) {
        read_lists(ix);
        read_rows(ix);
        (void)sr1__index_verify(ix);
        sr1__index_close(ix);
    }
    free(bytes);
    return 0;
}
