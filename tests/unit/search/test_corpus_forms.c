/* Corpora as they are published: compressed, BEIR's, with title and text, with escapes
 * that only Python reads; and what is said of one that cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "base/json.h"
#include "retrieval/search/document_store.h"
#include "support/files.h"

#include <searchr1/search.h>
#include <searchr1/ext/bm25.h>

static const char plain[] =
    "{\"id\": \"1\", \"contents\": \"Paris\\nA city in France.\"}\n"
    "{\"id\": \"2\", \"contents\": \"Lyon\\nAnother city.\"}\n";

static const char *index_path(void)
{
    return scratch_path("corpus.bm25");
}

static void expect_built(const char *corpus)
{
    if (sr1_bm25_build(corpus, index_path(), NULL, NULL, NULL) != SR1_OK)
        fail_msg("%s: %s", corpus, sr1_last_error());
}

static void expect_refused(const char *corpus, sr1_status status, const char *says)
{
    if (sr1_bm25_build(corpus, index_path(), NULL, NULL, NULL) != status)
        fail_msg("%s: %s", corpus, sr1_last_error());
    if (strstr(sr1_last_error(), says) == NULL)
        fail_msg("'%s' is not in '%s'", says, sr1_last_error());
}

/* The best hit for the query. row: as JSON. */
static void expect_hit(const char *query, const char *id, const char *contents,
                       const char *row)
{
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search *e = NULL;
    json_t *got = NULL, *want = NULL;

    assert_int_equal(sr1_search_open_bm25(&e, index_path(), NULL), SR1_OK);
    assert_int_equal(sr1_search_run(e, &query, 1, 3, &found), SR1_OK);
    assert_int_equal(sr1_search_results_hit(found, 0, 0, &hit), SR1_OK);
    assert_string_equal(hit.id, id);
    assert_string_equal(hit.contents, contents);
    assert_int_equal(sr1__json_parse(&got, hit.row, strlen(hit.row), "row"), SR1_OK);
    assert_int_equal(sr1__json_parse(&want, row, strlen(row), "test"), SR1_OK);
    if (!json_equal(got, want))
        fail_msg("%s", hit.row);
    json_decref(got);
    json_decref(want);
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void expect_paris(void)
{
    expect_hit("france", "1", "Paris\nA city in France.",
               "{\"id\": \"1\", \"contents\": \"Paris\\nA city in France.\"}");
    expect_hit("lyon", "2", "Lyon\nAnother city.",
               "{\"id\": \"2\", \"contents\": \"Lyon\\nAnother city.\"}");
}

/* ---- compressed ---- */

static size_t gzip(const char *text, size_t n, unsigned char *to, size_t room)
{
    z_stream z = {0};

    assert_int_equal(
        deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (unsigned)n;
    z.next_out = to;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    n = z.total_out;
    deflateEnd(&z);
    return n;
}

static void gzip_and_zstd_are_read_as_they_are(void **state)
{
    unsigned char packed[1024];
    size_t half = sizeof(plain) / 3; /* in the middle of a row */
    size_t n = gzip(plain, strlen(plain), packed, sizeof packed);

    (void)state;
    expect_built(scratch_file("wiki.jsonl.gz", packed, n));
    expect_paris();
    /* the first bytes count, not the name; and several members are one text */
    n = gzip(plain, half, packed, sizeof packed);
    n += gzip(plain + half, strlen(plain) - half, packed + n, sizeof packed - n);
    expect_built(scratch_file("wiki.jsonl", packed, n));
    expect_paris();
    n = ZSTD_compress(packed, sizeof packed, plain, half, 3);
    n += ZSTD_compress(packed + n, sizeof packed - n, plain + half, strlen(plain) - half,
                       3);
    expect_built(scratch_file("wiki.jsonl.zst", packed, n));
    expect_paris();
}

/* More than any buffer on the way, and the same index as from the plain file. */
static void a_large_one_gives_the_same_index(void **state)
{
    size_t room = (size_t)1 << 20, n = 0;
    char *text = malloc(room);
    unsigned char *packed = malloc(room);
    struct sr1__buf a, b;

    (void)state;
    for (int i = 0; n < room - 200; i++)
        n += (size_t)sprintf(text + n, "{\"id\": %d, \"contents\": \"T\\nword%d w%d\"}\n",
                             i, i % 977, i * 31 % 10007);
    expect_built(scratch_file("large.jsonl", text, n));
    assert_int_equal(sr1__file_read(index_path(), 0, &a), SR1_OK);
    expect_built(scratch_file("large.gz", packed, gzip(text, n, packed, room)));
    assert_int_equal(sr1__file_read(index_path(), 0, &b), SR1_OK);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    sr1__buf_free(&b);
    expect_built(
        scratch_file("large.zst", packed, ZSTD_compress(packed, room, text, n, 3)));
    assert_int_equal(sr1__file_read(index_path(), 0, &b), SR1_OK);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    sr1__buf_free(&a);
    sr1__buf_free(&b);
    free(text);
    free(packed);
}

/* As tapes and disks of whole blocks leave them; anything else is told. */
static void zeros_may_follow_a_member(void **state)
{
    static unsigned char packed[200000];
    size_t n = gzip(plain, strlen(plain), packed, sizeof packed);

    (void)state;
    memset(packed + n, 0, sizeof packed - n);
    expect_built(scratch_file("padded.gz", packed, n + 1));
    expect_built(scratch_file("padded.gz", packed, 1 << 16)); /* to a chunk's end */
    expect_built(scratch_file("padded.gz", packed, sizeof packed));
    expect_paris();
    packed[n + 700] = 'x';
    expect_refused(scratch_file("tail.gz", packed, n + 800), SR1_E_CORRUPT,
                   "what follows its last member is not gzip");
}

static void damaged_ones_are_errors(void **state)
{
    unsigned char packed[1024];
    size_t n = gzip(plain, strlen(plain), packed, sizeof packed);

    (void)state;
    for (size_t cut = 2; cut < n; cut++)
        expect_refused(scratch_file("cut.gz", packed, cut), SR1_E_CORRUPT,
                       "its gzip data cannot be read: it ends too early");
    packed[n / 2] ^= 0x55;
    expect_refused(scratch_file("bad.gz", packed, n), SR1_E_CORRUPT, "gzip");
    n = ZSTD_compress(packed, sizeof packed, plain, strlen(plain), 3);
    for (size_t cut = 4; cut < n; cut++)
        expect_refused(scratch_file("cut.zst", packed, cut), SR1_E_CORRUPT,
                       "its zstd data cannot be read: it ends too early");
}

/* Where rows are read one by one there is no way into the middle. */
static void documents_by_number_want_a_plain_file(void **state)
{
    unsigned char packed[1024];
    size_t n = gzip(plain, strlen(plain), packed, sizeof packed);
    struct sr1__document_store *d = NULL;

    (void)state;
    assert_int_equal(sr1__document_store_open(&d, scratch_file("docs.gz", packed, n)),
                     SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "decompress it"));
}

/* ---- forms of rows ---- */

static void beirs_rows_and_titles_are_read(void **state)
{
    static const char corpus[] =
        "{\"_id\": \"doc1\", \"title\": \"Paris\", \"text\": \"In France.\", "
        "\"metadata\": {}}\n"
        "{\"_id\": \"doc2\", \"title\": \"\", \"text\": \"No title here.\"}\n"
        "{\"id\": 3, \"title\": \"Lyon\", \"text\": \"A town.\"}\n"
        "{\"id\": \"4\", \"text\": \"Only words.\"}\n"
        "{\"id\": \"5\", \"contents\": \"Ours\\nstays.\", \"title\": \"x\", \"text\": "
        "\"y\"}\n";
    const char *path = scratch_file("beir.jsonl", corpus, 0);
    struct sr1__document_store *d = NULL;
    struct sr1__doc *doc = NULL;

    (void)state;
    expect_built(path);
    expect_hit(
        "france", "doc1", "Paris\nIn France.",
        "{\"_id\": \"doc1\", \"title\": \"Paris\", \"text\": \"In France.\", "
        "\"metadata\": {}, \"id\": \"doc1\", \"contents\": \"Paris\\nIn France.\"}");
    expect_hit(
        "here", "doc2", "No title here.",
        "{\"_id\": \"doc2\", \"title\": \"\", \"text\": \"No title here.\", \"id\": "
        "\"doc2\", \"contents\": \"No title here.\"}");
    expect_hit("town", "3", "Lyon\nA town.",
               "{\"id\": 3, \"title\": \"Lyon\", \"text\": \"A town.\", \"contents\": "
               "\"Lyon\\nA town.\"}");
    expect_hit(
        "words", "4", "Only words.",
        "{\"id\": \"4\", \"text\": \"Only words.\", \"contents\": \"Only words.\"}");
    expect_hit(
        "stays", "5", "Ours\nstays.",
        "{\"id\": \"5\", \"contents\": \"Ours\\nstays.\", \"title\": \"x\", \"text\": "
        "\"y\"}");
    assert_int_equal(sr1__document_store_open(&d, path), SR1_OK);
    assert_int_equal(sr1__document_store_get(d, 0, &doc), SR1_OK);
    assert_string_equal(sr1__doc_id(doc), "doc1");
    assert_string_equal(sr1__doc_contents(doc), "Paris\nIn France.");
    sr1__doc_release(doc);
    sr1__document_store_close(d);
}

/* psgs_w100.tsv: what Python's csv writes with tabs. */
static void dprs_passages_are_read_as_published(void **state)
{
    static const char tsv[] =
        "id\ttext\ttitle\n"
        "1\t\"Aaron (or; \"\"Ahron\"\") is a prophet of France.\"\tAaron\n"
        "2\tNo quote \"here\" but \\ and \xc3\xa9 in Lyon.\t\"A \"\"title\"\"\"\r\n"
        "3\tWithout a title in Nice.\t\n";
    unsigned char packed[1024];
    size_t n = gzip(tsv, strlen(tsv), packed, sizeof packed);

    (void)state;
    for (int zipped = 0; zipped < 2; zipped++) {
        expect_built(zipped ? scratch_file("psgs.tsv.gz", packed, n)
                            : scratch_file("psgs.tsv", tsv, 0));
        expect_hit(
            "france", "1", "Aaron\nAaron (or; \"Ahron\") is a prophet of France.",
            "{\"id\": \"1\", \"title\": \"Aaron\", \"text\": \"Aaron (or; "
            "\\\"Ahron\\\") is a prophet of France.\", \"contents\": \"Aaron\\nAaron "
            "(or; \\\"Ahron\\\") is a prophet of France.\"}");
        expect_hit(
            "lyon", "2", "A \"title\"\nNo quote \"here\" but \\ and \xc3\xa9 in Lyon.",
            "{\"id\": \"2\", \"title\": \"A \\\"title\\\"\", \"text\": \"No quote "
            "\\\"here\\\" but \\\\ and \xc3\xa9 in Lyon.\", \"contents\": \"A "
            "\\\"title\\\"\\nNo quote \\\"here\\\" but \\\\ and \xc3\xa9 in Lyon.\"}");
        expect_hit("nice", "3", "Without a title in Nice.",
                   "{\"id\": \"3\", \"title\": \"\", \"text\": \"Without a title in "
                   "Nice.\", \"contents\": \"Without a title in Nice.\"}");
    }
}

static void other_rows_of_passages_are_errors(void **state)
{
    static const struct {
        const char *row, *says;
    } rows[] = {{"4\tone tab", "bad.tsv:3: a row of a TSV corpus is id, text and title"},
                {"4\ta\tb\tc", "bad.tsv:3: a row of a TSV corpus"},
                {"4\ta\tb\t", "bad.tsv:3: a row of a TSV corpus"},
                {"4\t\"a\tb", "bad.tsv:3: a quote of the row is never closed"},
                {"4\ta\xff\tb", "bad.tsv:3: the row is not UTF-8"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char corpus[1024];

        snprintf(corpus, sizeof corpus, "id\ttext\ttitle\n1\ta\tb\n%s\n", rows[i].row);
        expect_refused(scratch_file("bad.tsv", corpus, 0), SR1_E_PARSE, rows[i].says);
    }
}

static void half_a_surrogate_pair_spoils_nothing(void **state)
{
    static const char corpus[] =
        "{\"id\": \"1\", \"contents\": \"cut \\ud83d here\"}\n"
        "{\"id\": \"2\", \"contents\": \"low \\uDDFC \\\\ud83d \\ud83d\\u0041\"}\n"
        "{\"id\": \"3\", \"contents\": \"whole \\ud83d\\uddfc\", \"n\": "
        "123456789012345678901234567890, \"score\": NaN, \"s\": \"NaN -Infinity\"}\n"
        "{\"id\": \"4\", \"contents\": \"beyond\", \"x\": [-Infinity, 1e999, -1e999]}\n";

    (void)state;
    expect_built(scratch_file("half.jsonl", corpus, 0));
    expect_hit("cut", "1", "cut \xEF\xBF\xBD here",
               "{\"id\": \"1\", \"contents\": \"cut \\ufffd here\"}");
    expect_hit("low", "2",
               "low \xEF\xBF\xBD \\ud83d \xEF\xBF\xBD"
               "A",
               "{\"id\": \"2\", \"contents\": \"low \\ufffd \\\\ud83d \\ufffdA\"}");
    expect_hit("whole", "3", "whole \xF0\x9F\x97\xBC",
               "{\"id\": \"3\", \"contents\": \"whole \\ud83d\\uddfc\", \"n\": "
               "123456789012345678901234567890e0, \"score\": null, \"s\": \"NaN "
               "-Infinity\"}");
    expect_hit("beyond", "4", "beyond",
               "{\"id\": \"4\", \"contents\": \"beyond\", \"x\": [null, "
               "1.7976931348623157e308, -1.7976931348623157e308]}");
}

static int repeats;

static void note_repeats(void *user, int32_t level, const char *text)
{
    (void)user;
    (void)level;
    repeats += strstr(text, "id") != NULL;
}

/* An id is what the JSON means, however it is written. */
static void ids_written_in_two_ways_are_equal(void **state)
{
    static const char *const corpora[] = {
        "{\"id\": \"a/b\", \"contents\": \"x\"}\n{\"id\": \"a\\/b\", \"contents\": "
        "\"y\"}\n",
        "{\"id\": \"A\", \"contents\": \"x\"}\n{\"id\": \"\\u0041\", \"contents\": "
        "\"y\"}\n",
        "{\"id\": 0, \"contents\": \"x\"}\n{\"id\": -0, \"contents\": \"y\"}\n"};

    (void)state;
    for (size_t i = 0; i < sizeof corpora / sizeof *corpora; i++) {
        repeats = 0;
        sr1_log_set(note_repeats, NULL);
        expect_built(scratch_file("twice.jsonl", corpora[i], 0));
        sr1_log_set(NULL, NULL);
        if (repeats != 1)
            fail_msg("%d warnings: %s", repeats, corpora[i]);
    }
}

/* ---- errors ---- */

static void errors_have_one_line_number(void **state)
{
    static const struct {
        const char *row;
        const char *says;
    } rows[] = {
        {"{\"id\": \"3\", \"contents\": \"a\" \"b\"}", "bad.jsonl:3: column 31: "},
        {"[1]", "bad.jsonl:3: not a JSON object"},
        {"{\"contents\": \"a\"}", "bad.jsonl:3: 'id' (or BEIR's '_id') is missing"},
        {"{\"id\": 1.5, \"contents\": \"a\"}", "bad.jsonl:3: 'id' "},
        {"{\"_id\": \"1\"}", "bad.jsonl:3: 'contents' (or 'text'"},
        {"{\"id\": \"1\", \"text\": 7}", "bad.jsonl:3: 'contents' (or 'text'"},
        {"{\"id\": \"\\ud83d\", \"contents\": \"a\",}", "bad.jsonl:3: column "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char corpus[1024];

        snprintf(corpus, sizeof corpus, "%s%s\n", plain, rows[i].row);
        expect_refused(scratch_file("bad.jsonl", corpus, 0), SR1_E_PARSE, rows[i].says);
        assert_null(strstr(sr1_last_error(), "line 1"));
    }
}

static void an_index_is_no_corpus(void **state)
{
    (void)state;
    expect_built(scratch_file("good.jsonl", plain, 0));
    assert_int_equal(rename(index_path(), scratch_path("given.bm25")), 0);
    expect_refused(scratch_path("given.bm25"), SR1_E_UNSUPPORTED,
                   "given.bm25 is a BM25 index, not a corpus of JSON rows");
}

static void files_of_other_kinds_are_no_corpus(void **state)
{
    (void)state;
    expect_refused(scratch_file("rows.csv", "id,contents\n1,a\n", 0), SR1_E_PARSE,
                   "rows.csv is no corpus: a corpus has one JSON object a line");
    expect_refused(scratch_file("rows.parquet", "PAR1....PAR1", 0), SR1_E_UNSUPPORTED,
                   "rows.parquet is a Parquet file, not a corpus of JSON rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_and_zstd_are_read_as_they_are),
        cmocka_unit_test(a_large_one_gives_the_same_index),
        cmocka_unit_test(zeros_may_follow_a_member),
        cmocka_unit_test(damaged_ones_are_errors),
        cmocka_unit_test(documents_by_number_want_a_plain_file),
        cmocka_unit_test(beirs_rows_and_titles_are_read),
        cmocka_unit_test(dprs_passages_are_read_as_published),
        cmocka_unit_test(other_rows_of_passages_are_errors),
        cmocka_unit_test(half_a_surrogate_pair_spoils_nothing),
        cmocka_unit_test(ids_written_in_two_ways_are_equal),
        cmocka_unit_test(errors_have_one_line_number),
        cmocka_unit_test(an_index_is_no_corpus),
        cmocka_unit_test(files_of_other_kinds_are_no_corpus),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
