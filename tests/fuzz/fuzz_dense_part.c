/* fuzz_dense_part.c - whatever the bytes of INDEX.part, which a build goes on from: it
 * opens, gives back as many rows as it says, and what is added is there when it is opened
 * again. The first byte says how vectors are kept, and whether the header and the sums of
 * the records behind it are set right first. */
#include "fuzz.h"

#include "base/file.h"
#include "retrieval/search/dense_part.h"

#include <stdio.h>
#include <string.h>

#define DIM 3
#define KEY "key of a build"
#define HEADER_BYTES (16 + sizeof(KEY) - 1 + 8)
#define RECORD_BYTES 24 /* before its rows */

static char folder[256], index_path[300], part_path[310];

static void remove_folder(void)
{
    (void)sr1__dir_remove(folder);
}

static void make_folder(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/sr1-fuzz-XXXXXX", base ? base : "/tmp");
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    snprintf(index_path, sizeof index_path, "%s/x", folder);
    snprintf(part_path, sizeof part_path, "%s.part", index_path);
    FUZZ_CHECK(atexit(remove_folder) == 0);
}

static void put_u64(unsigned char *at, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

static void set_header(unsigned char *bytes)
{
    memcpy(bytes, "SR1PART\n\1\0\0\0", 12);
    memcpy(bytes + 12, (unsigned char[]){sizeof(KEY) - 1, 0, 0, 0}, 4);
    memcpy(bytes + 16, KEY, sizeof(KEY) - 1);
    put_u64(bytes + HEADER_BYTES - 8, sr1__index_sum_of(bytes, HEADER_BYTES - 8));
}

/* As far as their sizes lead. */
static void set_sums(unsigned char *bytes, size_t size, size_t row_bytes)
{
    size_t at = HEADER_BYTES;

    while (size - at >= RECORD_BYTES) {
        uint64_t rows = index_u32(bytes + at) * (uint64_t)row_bytes;
        struct index_sum sum = {0};

        if (rows > size - at - RECORD_BYTES)
            return;
        index_sum_add(&sum, bytes + at, 16);
        index_sum_add(&sum, bytes + at + RECORD_BYTES, (size_t)rows);
        put_u64(bytes + at + 16, index_sum_end(&sum));
        at += RECORD_BYTES + (size_t)rows;
    }
}

static struct sr1__dense_part *open_part(const struct sr1__dense_type *type)
{
    struct sr1__dense_part *p = NULL;

    FUZZ_CHECK(sr1__dense_part_open(&p, index_path, KEY, type, DIM) == SR1_OK);
    return p;
}

/* Rows up to the end of the last record. */
static uint64_t rows_of(const struct sr1__dense_part *p)
{
    uint64_t before = 0;
    uint64_t hash;

    for (size_t i = 0; i < sr1__dense_part_records(p); i++) {
        uint64_t end = sr1__dense_part_end(p, i, &hash);

        FUZZ_CHECK(end > before);
        before = end;
    }
    return before;
}

static void copy_all(struct sr1__dense_part *p, const struct sr1__dense_type *type)
{
    struct sr1__section_writer w = {0};
    uint64_t rows = rows_of(p);

    FUZZ_CHECK(sr1__file_writer_open(&w.file, index_path) == SR1_OK);
    FUZZ_CHECK(sr1__dense_part_copy(p, &w) == SR1_OK);
    FUZZ_CHECK(w.places[DENSE_VECTORS].size ==
               rows * sr1__dense_stride(DIM) * type->size);
    FUZZ_CHECK(w.places[DENSE_SCALES].size == (type->scaled ? rows * 4 : 0));
    sr1__file_writer_abort(w.file);
}

static void use(const struct sr1__dense_type *type)
{
    static const float v[2 * DIM] = {1, -2, 3, 0, 0, 0.5F};
    struct sr1__dense_part *p = open_part(type);
    size_t records = sr1__dense_part_records(p);
    uint64_t rows = rows_of(p);
    uint64_t hash = 0;

    copy_all(p, type);
    FUZZ_CHECK(sr1__dense_part_add(p, v, 2, 77) == SR1_OK);
    sr1__dense_part_close(p);
    p = open_part(type);
    FUZZ_CHECK(sr1__dense_part_records(p) == records + 1 && rows_of(p) == rows + 2);
    (void)sr1__dense_part_end(p, records, &hash);
    FUZZ_CHECK(hash == 77);
    copy_all(p, type);
    sr1__dense_part_remove(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sr1__dense_type *type;
    unsigned char *bytes;
    FILE *f;

    if (size == 0)
        return 0;
    if (!folder[0])
        make_folder();
    type = sr1__dense_type_at(data[0] % 3);
    bytes = malloc(size);
    FUZZ_CHECK(type != NULL && bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 128 && size - 1 >= HEADER_BYTES) {
        set_header(bytes);
        set_sums(bytes, size - 1,
                 sr1__dense_stride(DIM) * type->size + (type->scaled ? 4 : 0));
    }
    f = fopen(part_path, "wb");
    FUZZ_CHECK(f && fwrite(bytes, 1, size - 1, f) == size - 1 && fclose(f) == 0);
    free(bytes);
    use(type);
    return 0;
}
