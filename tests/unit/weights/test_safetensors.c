/* safetensors: files read back equal, and every kind of broken file is refused by name.
 */
#include "base/file.h"
#include "base/mem.h"
#include "tensor/weights/safetensors.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/sr1-safetensors-XXXXXX";

static char *at(const char *name)
{
    static char path[300];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int clean(void **state)
{
    (void)state;
    sr1__dir_remove(folder);
    return sr1__dir_make(folder) == SR1_OK ? 0 : -1;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return sr1__dir_remove(folder) == SR1_OK ? 0 : -1;
}

/* A file of this header and n bytes of data 0, 1, 2, ... */
static void put(const char *name, const char *header, size_t n)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    sr1__buf_u64(&b, strlen(header));
    sr1__buf_str(&b, header);
    for (size_t i = 0; i < n; i++)
        sr1__buf_u8(&b, (uint8_t)i);
    assert_int_equal(sr1__file_replace(at(name), b.data, b.len), SR1_OK);
    sr1__buf_free(&b);
}

static void put_text(const char *name, const char *text)
{
    assert_int_equal(sr1__file_replace(at(name), text, strlen(text)), SR1_OK);
}

static void refused(const char *path, sr1_status status, const char *first,
                    const char *second)
{
    struct sr1__weights *w = NULL;
    sr1_status got = sr1__weights_open(&w, path);

    if (got != status || !strstr(sr1_last_error(), first) ||
        !strstr(sr1_last_error(), second))
        fail_msg("status %d, text '%s'; wanted %d, '%s', '%s'", (int)got,
                 sr1_last_error(), (int)status, first, second);
    assert_null(w);
}

#define F32_4 "\"dtype\":\"F32\",\"shape\":[4]"

/* The header pads to a multiple of 8 like real ones, so that data is aligned. */
static const struct bad_row {
    const char *header;
    size_t n_data;
    sr1_status status;
    const char *first;
    const char *second;
} bad_headers[] = {
    {"", 0, SR1_E_PARSE, "m.safetensors", ""},
    {"{", 0, SR1_E_PARSE, "m.safetensors", "line 1"},
    {"[]      ", 0, SR1_E_CORRUPT, "m.safetensors", "not a JSON object"},
    {"{\"a\":1} ", 0, SR1_E_CORRUPT, "'a'", "dtype"},
    {"{\"a\":{" F32_4 "}}", 16, SR1_E_CORRUPT, "'a'", "data_offsets"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,17]}}", 16, SR1_E_CORRUPT, "'a'", "outside"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,9223372036854775807]}}", 16, SR1_E_CORRUPT,
     "'a'", "outside"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,92233720368547758070]}}", 16, SR1_E_PARSE,
     "m.safetensors", "integer"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[-16,0]}}", 16, SR1_E_CORRUPT, "'a'", "outside"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[16,0]}}", 16, SR1_E_CORRUPT, "'a'", "outside"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0.0,16]}}", 16, SR1_E_CORRUPT, "'a'",
     "data_offsets"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,16,16]}}", 16, SR1_E_CORRUPT, "'a'",
     "data_offsets"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,12]}}", 16, SR1_E_CORRUPT, "'a'",
     "take 16 bytes"},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16,
     SR1_E_CORRUPT, "'a'", "take 8 bytes"},
    {"{\"a\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,16]}}", 16,
     SR1_E_CORRUPT, "'a'", "take 24 bytes"},
    {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2,
     SR1_E_UNSUPPORTED, "'a'", "F8_E4M3"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", 16,
     SR1_E_CORRUPT, "'a'", "shape[0]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[0,16]}}", 16,
     SR1_E_CORRUPT, "'a'", "shape[0]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,4],\"data_offsets\":[0,16]}}", 16,
     SR1_E_CORRUPT, "'a'", "at most 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}"
     "}",
     0, SR1_E_CORRUPT, "'a'", "overflow"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}"
     "}",
     0, SR1_E_CORRUPT, "'a'", "overflow"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,16]},\"b\":{" F32_4
     ",\"data_offsets\":[8,24]}}  ",
     24, SR1_E_CORRUPT, "'b'", "overlaps"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,16]},\"b\":{" F32_4
     ",\"data_offsets\":[0,16]}}  ",
     16, SR1_E_CORRUPT, "'", "overlaps"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,16]},\"b\":{" F32_4
     ",\"data_offsets\":[20,36]}} ",
     36, SR1_E_CORRUPT, "'b'", "gap"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,16]}}", 20, SR1_E_CORRUPT, "m.safetensors",
     "4 bytes after"},
    {"{\"a\":{" F32_4 ",\"data_offsets\":[0,16]},\"a\":{" F32_4
     ",\"data_offsets\":[16,32]}}",
     32, SR1_E_PARSE, "m.safetensors", "duplicate"},
};

static void test_broken_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++) {
        const struct bad_row *row = &bad_headers[i];
        char header[400];

        /* Padding in front, where JSON allows it, keeps the data aligned. */
        snprintf(header, sizeof header, "%*s%s", (int)((8 - strlen(row->header) % 8) % 8),
                 "", row->header);
        put("m.safetensors", header, row->n_data);
        refused(at("m.safetensors"), row->status, row->first, row->second);
    }
}

/* Files of older versions hold buffers of whole numbers; nobody can ask for them. */
static void test_buffers_are_passed_over(void **state)
{
    static const int64_t two = 2;
    static const int64_t four = 4;
    const struct sr1__weight *t = NULL;
    struct sr1__weights *w = NULL;

    (void)state;
    put("m.safetensors",
        "{\"a\":{" F32_4 ",\"data_offsets\":[16,32]},"
        "\"ids\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]}}",
        32);
    assert_int_equal(sr1__weights_open(&w, at("m.safetensors")), SR1_OK);
    assert_int_equal(sr1__weights_get(w, "a", 1, &four, &t), SR1_OK);
    assert_int_equal(sr1__weights_get(w, "ids", 1, &two, &t), SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "'ids': dtype I64"));
    sr1__weights_close(w);
}

static void test_not_aligned(void **state)
{
    (void)state;
    put("m.safetensors", "{\"a\":{" F32_4 ",\"data_offsets\":[0,16]}}  ", 16);
    refused(at("m.safetensors"), SR1_E_UNSUPPORTED, "'a'", "not aligned");
}

/* A file cut anywhere is refused; so is one whose header claims too much. */
static void test_truncation(void **state)
{
    static const unsigned char huge[16] = {255, 255, 255, 255, 255,
                                           255, 255, 127, '{', '}'};
    struct sr1__buf b;
    struct sr1__weights *w = NULL;

    (void)state;
    put("whole", "{\"a\":{" F32_4 ",\"data_offsets\":[0,16]}} ", 16);
    assert_int_equal(sr1__file_read(at("whole"), 0, &b), SR1_OK);
    assert_int_equal(b.len % 8, 0);
    for (size_t n = 0; n < b.len; n++) {
        assert_int_equal(sr1__file_replace(at("cut"), b.data, n), SR1_OK);
        assert_int_not_equal(sr1__weights_open(&w, at("cut")), SR1_OK);
        assert_non_null(strstr(sr1_last_error(), "cut"));
    }
    assert_int_equal(sr1__weights_open(&w, at("whole")), SR1_OK);
    sr1__weights_close(w);
    sr1__buf_free(&b);
    assert_int_equal(sr1__file_replace(at("huge"), huge, sizeof huge), SR1_OK);
    refused(at("huge"), SR1_E_CORRUPT, "huge", "cut short");
}

static void test_header_bound(void **state)
{
    static const unsigned char length[8] = {1, 0xe1, 0xf5, 5}; /* 100,000,001 */
    FILE *f;

    (void)state;
    f = fopen(at("long"), "wb");
    assert_int_equal(fwrite(length, 1, 8, f), 8);
    assert_int_equal(ftruncate(fileno(f), 100000001 + 8), 0);
    fclose(f);
    refused(at("long"), SR1_E_LIMIT, "long", "100000001");
}

static const struct sr1__weight_out table[] = {
    {"z.weight", SR1__WEIGHT_F32, 2, {3, 4}},  {"half", SR1__WEIGHT_F16, 1, {5}},
    {"brain", SR1__WEIGHT_BF16, 3, {2, 1, 3}}, {"scalar", SR1__WEIGHT_F32, 0, {0}},
    {"empty", SR1__WEIGHT_F32, 2, {0, 7}},     {"a.weight", SR1__WEIGHT_F32, 1, {6}},
};
#define N_TABLE (sizeof table / sizeof *table)

static size_t table_bytes(size_t i)
{
    size_t n = sr1__weight_dtype_size(table[i].dtype);

    for (int32_t d = 0; d < table[i].n_dims; d++)
        n *= (size_t)table[i].shape[d];
    return n;
}

static sr1_status give_bytes(void *arg, size_t i, const void **bytes)
{
    static unsigned char data[64];

    if (arg && *(size_t *)arg == i)
        return sr1__fail(SR1_E_DEVICE, "no such luck");
    for (size_t k = 0; k < sizeof data; k++)
        data[k] = (unsigned char)(i * 40 + k);
    *bytes = data;
    return SR1_OK;
}

static void check_table(const char *path)
{
    struct sr1__weights *w = NULL;

    assert_int_equal(sr1__weights_open(&w, path), SR1_OK);
    assert_int_equal(sr1__weights_count(w), N_TABLE);
    for (size_t i = 0; i < N_TABLE; i++) {
        const struct sr1__weight *t = NULL;
        const void *bytes;

        assert_int_equal(
            sr1__weights_get(w, table[i].name, table[i].n_dims, table[i].shape, &t),
            SR1_OK);
        assert_int_equal(t->dtype, table[i].dtype);
        assert_int_equal(t->n_bytes, table_bytes(i));
        give_bytes(NULL, i, &bytes);
        assert_memory_equal(t->data, bytes, t->n_bytes);
    }
    for (size_t i = 1; i < N_TABLE; i++)
        assert_true(strcmp(sr1__weights_at(w, i - 1)->name, sr1__weights_at(w, i)->name) <
                    0);
    sr1__weights_close(w);
}

static void test_save_single(void **state)
{
    struct sr1__buf first;
    struct sr1__buf second;

    (void)state;
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, NULL),
                     SR1_OK);
    check_table(folder);
    check_table(at("model.safetensors"));
    assert_int_equal(sr1__file_read(at("model.safetensors"), 0, &first), SR1_OK);
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, NULL),
                     SR1_OK);
    assert_int_equal(sr1__file_read(at("model.safetensors"), 0, &second), SR1_OK);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);
    assert_non_null(strstr(first.data + 8, "{\"__metadata__\":{\"format\":\"pt\"}"));
    sr1__buf_free(&first);
    sr1__buf_free(&second);
}

static void test_save_shards(void **state)
{
    (void)state;
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, NULL),
                     SR1_OK);
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 30, give_bytes, NULL),
                     SR1_OK);
    assert_false(sr1__path_exists(at("model.safetensors")));
    assert_true(sr1__path_exists(at("model-00003-of-00003.safetensors")));
    check_table(folder);
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 1, give_bytes, NULL),
                     SR1_OK);
    check_table(folder);
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 1000, give_bytes, NULL),
                     SR1_OK);
    assert_false(sr1__path_exists(at("model.safetensors.index.json")));
    check_table(folder);
}

/* A failure on the way leaves the old file and no temporary. */
static uint64_t hash_of(const char *path)
{
    struct sr1__weights *w = NULL;
    uint64_t hash;

    assert_int_equal(sr1__weights_open(&w, path), SR1_OK);
    hash = sr1__weights_hash(w);
    sr1__weights_close(w);
    return hash;
}

/* Of tensors, not of files. */
static void test_hash(void **state)
{
    struct sr1__buf b;
    uint64_t hash;

    (void)state;
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 30, give_bytes, NULL),
                     SR1_OK);
    hash = hash_of(folder);
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, NULL),
                     SR1_OK);
    assert_true(hash_of(folder) == hash);
    assert_int_equal(sr1__file_read(at("model.safetensors"), 0, &b), SR1_OK);
    b.data[b.len - 1] ^= 1;
    assert_int_equal(sr1__file_replace(at("changed.safetensors"), b.data, b.len), SR1_OK);
    assert_true(hash_of(at("changed.safetensors")) != hash);
    sr1__buf_free(&b);
}

static void test_save_failure(void **state)
{
    size_t failing = 3;
    char **names = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, NULL),
                     SR1_OK);
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, &failing),
                     SR1_E_DEVICE);
    assert_string_equal(sr1_last_error(), "tensor 'scalar': no such luck");
    check_table(folder);
    assert_int_equal(sr1__dir_list(folder, &names, &n), SR1_OK);
    assert_int_equal(n, 1);
    sr1__free(names[0]);
    sr1__free(names);
}

/* A process that was killed while it wrote leaves a file as large as the weights. */
static void test_save_removes_leftovers(void **state)
{
    (void)state;
    put_text("model.safetensors.tmp-12-3", "half");
    put_text("other.tmp-12-3", "not ours");
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, NULL),
                     SR1_OK);
    assert_false(sr1__path_exists(at("model.safetensors.tmp-12-3")));
    assert_true(sr1__path_exists(at("other.tmp-12-3")));
    assert_int_equal(remove(at("other.tmp-12-3")), 0);
}

static void test_save_refusals(void **state)
{
    const struct sr1__weight_out twice[] = {{"a", 0, 1, {1}}, {"a", 0, 1, {1}}};
    const struct sr1__weight_out dtype = {"a", 9, 1, {1}};
    const struct sr1__weight_out huge = {"a", 0, 2, {INT64_C(1) << 40, INT64_C(1) << 40}};

    (void)state;
    assert_int_equal(sr1__weights_save(folder, twice, 2, 0, give_bytes, NULL),
                     SR1_E_INVALID);
    assert_int_equal(sr1__weights_save(folder, &dtype, 1, 0, give_bytes, NULL),
                     SR1_E_INVALID);
    assert_int_equal(sr1__weights_save(folder, &huge, 1, 0, give_bytes, NULL),
                     SR1_E_INVALID);
}

#define SHARD_A "{\"a\":{" F32_4 ",\"data_offsets\":[0,16]}} "
#define INDEX(map) "{\"metadata\":{},\"weight_map\":{" map "}}"

static const struct index_row {
    const char *index;
    sr1_status status;
    const char *first;
    const char *second;
} bad_indices[] = {
    {"{}", SR1_E_CORRUPT, "index.json", "weight_map"},
    {"{\"weight_map\":[]}", SR1_E_CORRUPT, "index.json", "weight_map"},
    {"{\"weight_map\":", SR1_E_PARSE, "index.json", "line"},
    {INDEX("\"a\":3"), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"../m-1.safetensors\""), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"/etc/x.safetensors\""), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"sub/m-1.safetensors\""), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"..\""), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"\""), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"config.json\""), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"m-1.safetensors\\u0000x\""), SR1_E_CORRUPT, "'a'", "not the name"},
    {INDEX("\"a\":\"m-9.safetensors\""), SR1_E_IO, "m-9.safetensors", "index.json"},
    {INDEX("\"b\":\"m-1.safetensors\""), SR1_E_CORRUPT, "'b'", "m-1.safetensors"},
    {INDEX("\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\""), SR1_E_CORRUPT, "'a'",
     "both in"},
    {INDEX("\"a\":\"m-3.safetensors\",\"c\":\"m-1.safetensors\""), SR1_E_CORRUPT, "'a'",
     "m-3.safetensors"},
};

static void test_broken_indices(void **state)
{
    (void)state;
    put("m-1.safetensors", SHARD_A, 16);
    put("m-2.safetensors", SHARD_A, 16);
    put("m-3.safetensors", "{\"c\":{" F32_4 ",\"data_offsets\":[0,16]}} ", 16);
    for (size_t i = 0; i < sizeof bad_indices / sizeof *bad_indices; i++) {
        put_text("model.safetensors.index.json", bad_indices[i].index);
        refused(folder, bad_indices[i].status, bad_indices[i].first,
                bad_indices[i].second);
    }
    put_text("model.safetensors.index.json", INDEX("\"a\":\"pipe.safetensors\""));
    assert_int_equal(mkfifo(at("pipe.safetensors"), 0600), 0);
    refused(folder, SR1_E_IO, "pipe.safetensors", "special file");
}

static void test_missing(void **state)
{
    const int64_t shape[2] = {4, 3};
    struct sr1__weights *w = NULL;
    const struct sr1__weight *t = NULL;

    (void)state;
    refused(folder, SR1_E_NOT_FOUND, folder, "no model.safetensors");
    refused(at("nothing"), SR1_E_IO, "nothing", "");
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 0, give_bytes, NULL),
                     SR1_OK);
    assert_int_equal(sr1__weights_open(&w, folder), SR1_OK);
    assert_int_equal(sr1__weights_get(w, "lm_head.weight", 2, shape, &t),
                     SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "'lm_head.weight' is missing"));
    assert_int_equal(sr1__weights_get(w, "z.weight", 2, shape, &t), SR1_E_CORRUPT);
    assert_non_null(strstr(sr1_last_error(), "[3, 4]"));
    assert_non_null(strstr(sr1_last_error(), "[4, 3]"));
    assert_int_equal(sr1__weights_get(w, "z.weight", 1, shape, &t), SR1_E_CORRUPT);
    assert_null(t);
    sr1__weights_close(w);
    w = NULL;
    assert_int_equal(sr1__weights_save(folder, table, N_TABLE, 30, give_bytes, NULL),
                     SR1_OK);
    assert_int_equal(sr1__weights_open(&w, folder), SR1_OK);
    assert_int_equal(sr1__weights_get(w, "lm_head.weight", 2, shape, &t),
                     SR1_E_NOT_FOUND);
    assert_null(strstr(sr1_last_error(), "model-0")); /* no one file is at fault */
    assert_non_null(strstr(sr1_last_error(), folder));
    sr1__weights_close(w);
}

static void test_allocation_failures(void **state)
{
    sr1_status status = SR1_E_NOMEM;

    (void)state;
    for (int64_t n = 1; status != SR1_OK; n++) {
        sr1__mem_fail_at(n);
        status = sr1__weights_save(folder, table, N_TABLE, 30, give_bytes, NULL);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
    }
    status = SR1_E_NOMEM;
    for (int64_t n = 1; status != SR1_OK; n++) {
        struct sr1__weights *w = NULL;

        sr1__mem_fail_at(n);
        status = sr1__weights_open(&w, folder);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
        sr1__weights_close(w);
    }
    sr1__mem_fail_at(0);
    check_table(folder);
}

#define TEST(f) cmocka_unit_test_setup(f, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_broken_headers), TEST(test_buffers_are_passed_over),
        TEST(test_not_aligned),    TEST(test_truncation),
        TEST(test_header_bound),   TEST(test_save_single),
        TEST(test_save_shards),    TEST(test_hash),
        TEST(test_save_failure),   TEST(test_save_removes_leftovers),
        TEST(test_save_refusals),  TEST(test_broken_indices),
        TEST(test_missing),        TEST(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
