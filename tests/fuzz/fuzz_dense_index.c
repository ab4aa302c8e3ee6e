/* fuzz_dense_index.c - whatever the bytes of a dense index (its footer's checksum is set
 * right), opening it, asking it, reading every vector and row ends with a status, and
 * hits are in order. */
#include "fuzz.h"

#include "base/mem.h"
#include "retrieval/search/dense_index.h"

#include <searchr1/ext/embed.h>

#include <stdlib.h>
#include <string.h>

static sr1_status ones(void *self, const char *const *texts, size_t n, int32_t kind,
                       float *out)
{
    size_t dim = *(const size_t *)self;

    (void)texts;
    (void)kind;
    for (size_t i = 0; i < n * dim; i++)
        out[i] = i % 3 == 0 ? -1.5F : 1.0F;
    return SR1_OK;
}

static void ask(const void *data, size_t size)
{
    static const char *const queries[] = {"a", "b"};
    struct sr1__dense_index *ix = NULL;
    sr1_dense_options o;
    sr1_embedder *e = NULL;
    sr1_search *engine = NULL;
    sr1_search_results *r = NULL;
    size_t dim;

    if (sr1__dense_open_memory(&ix, data, size) != SR1_OK)
        return;
    dim = sr1__dense_meta(ix)->dim;
    sr1_dense_options_init(&o);
    o.threads = 1;
    {
        const sr1_embedder_ops ops = {.struct_size = sizeof(ops),
                                      .name = "ones",
                                      .embed = ones,
                                      .dim = (int32_t)dim};

        FUZZ_CHECK(sr1_embedder_new(&e, &ops, &dim) == SR1_OK);
    }
    if (sr1__search_open_dense_index(&engine, ix, e, &o) == SR1_OK &&
        sr1_search_run(engine, queries, 2, 3, &r) == SR1_OK) {
        for (size_t i = 0; i < 2; i++) {
            sr1_search_hit hit = {sizeof(hit)};
            double before = 0;

            for (int32_t k = 0; sr1_search_results_hit(r, i, k, &hit) == SR1_OK; k++) {
                FUZZ_CHECK(k == 0 || hit.score <= before);
                before = hit.score;
            }
        }
    }
    sr1_search_results_free(r);
    sr1_search_free(engine);
    sr1_embedder_free(e);
}

static void read_all(const struct sr1__dense_index *ix)
{
    const struct sr1__dense_meta *m = sr1__dense_meta(ix);
    struct sr1__row_reader *r = NULL;
    float *v = sr1__calloc(m->dim, sizeof(*v));

    if (v != NULL && sr1__row_reader_new(&r, sr1__dense_rows(ix)) == SR1_OK) {
        for (uint32_t d = 0; d < m->documents && d < 50; d++) {
            const char *row = NULL;
            size_t n = 0;

            sr1__dense_floats(ix, d, 1, v);
            if (sr1__row_read(r, d, &row, &n) == SR1_OK && n > 0)
                FUZZ_CHECK(row[0] == row[0] && row[n - 1] == row[n - 1]); /* readable */
        }
    }
    sr1__row_reader_free(r);
    sr1__free(v);
}

/* Make the footer's checksum fit, so that what it protects is reached. */
static void seal(unsigned char *bytes, size_t size)
{
    size_t footer = SECTIONS_FOOTER_BYTES(DENSE_COUNTS_BYTES, DENSE_SECTIONS);
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
    struct sr1__dense_index *ix = NULL;

    FUZZ_CHECK(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    seal(bytes, size);
    ask(bytes, size);
    if (sr1__dense_open_memory(&ix, bytes, size) == SR1_OK) {
        read_all(ix);
        (void)sr1__dense_check(ix);
        sr1__dense_close(ix);
    }
    free(bytes);
    return 0;
}
