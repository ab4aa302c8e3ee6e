/* Documents by the number of their row: from an index and from a corpus, whose offsets
 * are kept beside it and made again when they do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <utime.h>

#include <cmocka.h>

#include "base/mem.h"
#include "retrieval/search/document_store.h"
#include "support/files.h"
#include "support/torture.h"

#include <searchr1/ext/bm25.h>

/* Blank lines, a byte order mark, both ends of line, and no end of line at the end. */
static const char corpus[] =
    "\xEF\xBB\xBF{\"id\": \"a\", \"contents\": \"first\\none\"}\r\n"
    "\n"
    "  {\"id\": 2, \"contents\": \"second\", \"url\": \"u\"}  \n"
    " \t\r\n"
    "{\"id\": \"c\", \"contents\": \"\xC3\xA9t\xC3\xA9\"}";

static struct sr1__document_store *open_documents(const char *path)
{
    struct sr1__document_store *d = NULL;

    if (sr1__document_store_open(&d, path) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return d;
}

static void check_row(struct sr1__document_store *d, uint64_t row, const char *id,
                      const char *contents, const char *text)
{
    struct sr1__doc *doc = NULL;

    if (sr1__document_store_get(d, row, &doc) != SR1_OK)
        fail_msg("row %" PRIu64 ": %s", row, sr1_last_error());
    assert_string_equal(sr1__doc_id(doc), id);
    assert_string_equal(sr1__doc_contents(doc), contents);
    assert_string_equal(sr1__doc_row(doc), text);
    sr1__doc_release(doc);
}

static void check_all(const char *path)
{
    struct sr1__document_store *d = open_documents(path);
    struct sr1__doc *doc = NULL;

    assert_int_equal(sr1__document_store_count(d), 3);
    for (int again = 0; again < 2; again++) {
        check_row(d, 2, "c", "\xC3\xA9t\xC3\xA9",
                  "{\"id\": \"c\", \"contents\": \"\xC3\xA9t\xC3\xA9\"}");
        check_row(d, 0, "a", "first\none",
                  "{\"id\": \"a\", \"contents\": \"first\\none\"}");
        check_row(d, 1, "2", "second",
                  "{\"id\": 2, \"contents\": \"second\", \"url\": \"u\"}");
    }
    assert_int_equal(sr1__document_store_get(d, 3, &doc), SR1_E_NOT_FOUND);
    assert_null(doc);
    sr1__document_store_close(d);
}

static void an_index_and_its_corpus_have_the_same(void **state)
{
    const char *path = scratch_file("corpus.jsonl", corpus, 0);
    const char *index = scratch_path("corpus.bm25");

    (void)state;
    assert_int_equal(sr1_bm25_build(path, index, NULL, NULL, NULL), SR1_OK);
    check_all(index);
    check_all(path);
}

static ino_t inode(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static void offsets_are_kept_until_the_corpus_changes(void **state)
{
    const char *path = scratch_file("kept.jsonl", corpus, 0);
    const char *offsets = scratch_path("kept.jsonl.offsets");
    struct utimbuf then = {1000, 1000};
    struct sr1__document_store *d;
    ino_t first, second;

    (void)state;
    check_all(path);
    first = inode(offsets);
    check_all(path);
    assert_int_equal(inode(offsets), first);
    assert_int_equal(utime(path, &then), 0);
    check_all(path);
    second = inode(offsets);
    assert_int_not_equal(second, first);
    scratch_file("kept.jsonl", "{\"id\": 1, \"contents\": \"other\"}\n", 0);
    d = open_documents(path);
    assert_int_equal(sr1__document_store_count(d), 1);
    check_row(d, 0, "1", "other", "{\"id\": 1, \"contents\": \"other\"}");
    sr1__document_store_close(d);
}

/* Offsets that do not fit are made again, or a row cannot be had; nothing worse. */
static void try_rows(const char *path)
{
    struct sr1__document_store *d = NULL;

    if (sr1__document_store_open(&d, path) != SR1_OK)
        return;
    for (uint64_t i = 0; i < sr1__document_store_count(d); i++) {
        struct sr1__doc *doc = NULL;

        if (sr1__document_store_get(d, i, &doc) == SR1_OK)
            sr1__doc_release(doc);
    }
    sr1__document_store_close(d);
}

static void damaged_offsets_do_no_harm(void **state)
{
    const char *path = scratch_file("hurt.jsonl", corpus, 0);
    const char *offsets = scratch_path("hurt.jsonl.offsets");
    struct sr1__buf whole;

    (void)state;
    check_all(path);
    assert_int_equal(sr1__file_read(offsets, 0, &whole), SR1_OK);
    for (size_t n = 0; n < whole.len; n++) { /* cut: made again */
        assert_int_equal(sr1__file_replace(offsets, whole.data, n), SR1_OK);
        check_all(path);
    }
    for (size_t i = 0; i < whole.len; i++) {
        whole.data[i] ^= (char)0xFF;
        assert_int_equal(sr1__file_replace(offsets, whole.data, whole.len), SR1_OK);
        whole.data[i] ^= (char)0xFF;
        try_rows(path);
    }
    sr1__buf_free(&whole);
}

static void what_is_not_offsets_stays(void **state)
{
    const char *path = scratch_file("noted.jsonl", corpus, 0);
    const char *notes = scratch_file("noted.jsonl.offsets", "my own notes\n", 0);
    struct sr1__document_store *none = NULL;
    struct sr1__buf b;

    (void)state;
    assert_int_equal(sr1__document_store_open(&none, path), SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "noted.jsonl.offsets"));
    assert_int_equal(sr1__file_read(notes, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), "my own notes\n");
    sr1__buf_free(&b);
}

static void what_is_no_document_is_refused(void **state)
{
    const char *path =
        scratch_file("bad.jsonl",
                     "{\"id\": 1}\n{\"id\": 1, \"contents\"\n[]\n{\"id\":[],"
                     "\"contents\":\"\"}\n",
                     0);
    struct sr1__document_store *d = open_documents(path), *none = NULL;
    struct sr1__doc *doc = NULL;

    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(sr1__document_store_get(d, i, &doc), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "row 3"));
    sr1__document_store_close(d);
    assert_int_equal(sr1__document_store_open(&none, scratch_path("none")), SR1_E_IO);
    assert_int_equal(sr1__document_store_open(&none, scratch_file("blank", " \n\n", 0)),
                     SR1_E_LIMIT);
    assert_int_equal(sr1__document_store_open(&none, scratch_file("cut", "SR1BM25\n", 0)),
                     SR1_E_CORRUPT);
    path = scratch_file("psgs.tsv", "id\ttext\ttitle\n1\tA tower.\tTower\n", 0);
    assert_int_equal(sr1__document_store_open(&none, path), SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "psgs.tsv is a TSV corpus"));
    /* where the offsets cannot be kept */
    path = scratch_file("full.jsonl", corpus, 0);
    assert_int_equal(sr1__dir_make(scratch_path("full.jsonl.offsets")), SR1_OK);
    assert_int_equal(sr1__document_store_open(&none, path), SR1_E_IO);
    assert_null(none);
}

static sr1_status open_and_read(void *arg)
{
    struct sr1__document_store *d = NULL;
    struct sr1__doc *doc = NULL;
    char offsets[512];
    sr1_status status;

    snprintf(offsets, sizeof offsets, "%s.offsets", (const char *)arg);
    remove(offsets);
    status = sr1__document_store_open(&d, arg);
    if (status == SR1_OK)
        status = sr1__document_store_get(d, 1, &doc);
    sr1__doc_release(doc);
    sr1__document_store_close(d);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    const char *path = scratch_file("torture.jsonl", corpus, 0);
    const char *index = scratch_path("torture.bm25");

    (void)state;
    assert_int_equal(sr1_bm25_build(path, index, NULL, NULL, NULL), SR1_OK);
    assert_true(torture(open_and_read, (void *)(uintptr_t)path) > 5);
    assert_true(torture(open_and_read, (void *)(uintptr_t)index) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_and_its_corpus_have_the_same),
        cmocka_unit_test(offsets_are_kept_until_the_corpus_changes),
        cmocka_unit_test(damaged_offsets_do_no_harm),
        cmocka_unit_test(what_is_not_offsets_stays),
        cmocka_unit_test(what_is_no_document_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
