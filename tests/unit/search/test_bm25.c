/* test_bm25.c - building and opening indexes: rows, options, errors, damage, memory,
 * threads. */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/bm25.h"

#include "search_files.h"

#include <searchr1/ext/engines.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static char *in_folder(const char *name)
{
    char *path = malloc(200);

    snprintf(path, 200, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/sr1-bm25-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return sr1__dir_remove(folder) != SR1_OK;
}

static char *corpus(const char *text, size_t n)
{
    char *path = in_folder("corpus.jsonl");

    assert_int_equal(sr1__file_replace(path, text, n), SR1_OK);
    return path;
}

static sr1_status build(const char *text, size_t n, const sr1_bm25_build_options *o)
{
    char *from = corpus(text, n);
    char *to = in_folder("index");
    sr1_status status = sr1_bm25_build(from, to, o, NULL, NULL);

    free(from);
    free(to);
    return status;
}

static sr1_search *open_index(void)
{
    char *path = in_folder("index");
    sr1_search *e = NULL;

    assert_int_equal(sr1_search_open_bm25(&e, path, NULL), SR1_OK);
    free(path);
    return e;
}

static sr1_search_results *ask(sr1_search *e, const char *query, int32_t k)
{
    sr1_search_results *r = NULL;

    assert_int_equal(sr1_search_run(e, &query, 1, k, &r), SR1_OK);
    return r;
}

static const char rows[] =
    "\xEF\xBB\xBF{\"id\": \"a\", \"contents\": \"Red apples\\nare tasty\", \"url\": "
    "1}\r\n"
    "\n"
    "  {\"id\": 7, \"contents\": \"green apple\\u0000tree\"}\n"
    "{\"id\": \"c\", \"contents\": \"the of and\"}\n"
    "{\"id\": \"d\", \"contents\": \"\"}\n"
    "{\"id\": \"e\", \"contents\": \"na\xC3\xAFve apples and pears apples\"}";

static void rows_come_back_as_they_were(void **state)
{
    sr1_bm25_info info = {sizeof(info)};
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search_results *r;
    sr1_search *e;

    (void)state;
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    e = open_index();
    assert_int_equal(sr1_bm25_info_get(e, &info), SR1_OK);
    assert_int_equal(info.documents, 5);
    assert_int_equal(info.total_terms, 3 + 3 + 0 + 0 + 4);
    assert_int_equal(info.terms, 7); /* red appl tasti green tree naïv pear */
    assert_string_equal(info.analyzer, "english");
    r = ask(e, "Apple", 10);
    assert_int_equal(sr1_search_results_hit_count(r, 0), 3);
    assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
    assert_string_equal(hit.id, "e"); /* twice */
    assert_int_equal(sr1_search_results_hit(r, 0, 1, &hit), SR1_OK);
    assert_string_equal(hit.id, "a"); /* of equal score, the first in the corpus */
    assert_string_equal(hit.contents, "Red apples\nare tasty");
    assert_string_equal(
        hit.row, "{\"id\": \"a\", \"contents\": \"Red apples\\nare tasty\", \"url\": 1}");
    assert_int_equal(sr1_search_results_hit(r, 0, 2, &hit), SR1_OK);
    assert_string_equal(hit.id, "7");
    assert_string_equal(hit.contents, "green apple\xEF\xBF\xBDtree");
    sr1_search_results_free(r);
    r = ask(e, "the of", 10);
    assert_int_equal(sr1_search_results_status(r, 0), SR1_ACTION_EMPTY);
    assert_string_equal(sr1_search_results_message(r, 0),
                        "No information found for: the of");
    sr1_search_results_free(r);
    sr1_search_free(e);
}

/* A reference beside its caption: the caption is found, the reference comes along. */
static void images_come_with_their_caption(void **state)
{
    static const char text[] =
        "{\"id\": 1, \"contents\": \"A heron by the lake\", \"image\": "
        "\"photos/17.jpg\"}\n{\"id\": 2, \"contents\": \"A lake\"}";
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search_results *r;
    sr1_search *e;

    (void)state;
    assert_int_equal(build(text, sizeof(text) - 1, NULL), SR1_OK);
    e = open_index();
    r = ask(e, "herons", 3);
    assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
    assert_string_equal(hit.contents, "A heron by the lake");
    assert_non_null(strstr(hit.row, "\"image\": \"photos/17.jpg\""));
    sr1_search_results_free(r);
    r = ask(e, "photos", 3);
    assert_int_equal(sr1_search_results_hit_count(r, 0), 0);
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void only_words_without_meaning(void **state)
{
    static const char text[] = "{\"id\": 1, \"contents\": \"the\"}";
    sr1_search_results *r;
    sr1_search *e;

    (void)state;
    assert_int_equal(build(text, sizeof(text) - 1, NULL), SR1_OK);
    e = open_index();
    r = ask(e, "apple", 3);
    assert_int_equal(sr1_search_results_status(r, 0), SR1_ACTION_EMPTY);
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void plain_analysis_keeps_every_word(void **state)
{
    static const char text[] = "{\"id\": 1, \"contents\": \"THE Stra\xC3\x9F"
                               "e \xE4\xBD\xA0\xE5\xA5\xBD\"}\n"
                               "{\"id\": 2, \"contents\": \"running\"}";
    sr1_bm25_build_options o;
    sr1_bm25_info info = {sizeof(info)};
    static const char *const queries[] = {"the", "STRASSE", "\xE4\xBD\xA0", "running"};
    sr1_search_results *r = NULL;
    sr1_search *e;

    (void)state;
    sr1_bm25_build_options_init(&o);
    o.analyzer = "plain";
    assert_int_equal(build(text, sizeof(text) - 1, &o), SR1_OK);
    e = open_index();
    assert_int_equal(sr1_bm25_info_get(e, &info), SR1_OK);
    assert_string_equal(info.analyzer, "plain");
    assert_int_equal(sr1_search_run(e, queries, 4, 3, &r), SR1_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sr1_search_results_hit_count(r, i), 1);
    sr1_search_results_free(r);
    r = ask(e, "run", 3);
    assert_int_equal(sr1_search_results_hit_count(r, 0), 0);
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void bad_rows_are_named(void **state)
{
    static const struct {
        const char *text;
        sr1_status status;
        const char *says;
    } cases[] = {
        {"", SR1_E_PARSE, "no documents"},
        {"\n\n", SR1_E_PARSE, "no documents"},
        {"{\"id\": 1, \"contents\": \"x\"}\n{\"id\": 2", SR1_E_PARSE, ":2"},
        {"{\"id\": 1, \"contents\": \"x\"}\n\n[1]", SR1_E_PARSE, ":3"},
        {"{\"contents\": \"x\"}", SR1_E_PARSE, "'id'"},
        {"{\"id\": 1.5, \"contents\": \"x\"}", SR1_E_PARSE, "'id'"},
        {"{\"id\": 1}", SR1_E_PARSE, "'contents'"},
        {"{\"id\": 1, \"contents\": 3}", SR1_E_PARSE, "'contents'"},
        {"{\"id\": 1, \"contents\": \"\xFF\"}", SR1_E_PARSE, ":1"},
    };
    char *old = in_folder("index");
    struct sr1__buf before;
    struct sr1__buf after;

    (void)state;
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    assert_int_equal(sr1__file_read(old, 0, &before), SR1_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(build(cases[i].text, strlen(cases[i].text), NULL),
                         cases[i].status);
        assert_non_null(strstr(sr1_last_error(), cases[i].says));
        assert_non_null(strstr(sr1_last_error(), "corpus.jsonl"));
    }
    assert_int_equal(sr1__file_read(old, 0, &after), SR1_OK);
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.data, before.data, before.len);
    sr1__buf_free(&before);
    sr1__buf_free(&after);
    free(old);
}

/* What is stored is what is left of the markup; everything else of the row stays. */
static void markup_is_cut_before_indexing(void **state)
{
    static const char text[] =
        "{\"id\": 1, \"url\": [1], \"contents\": \"<p>red <b>apples</b>&amp;pears</p>"
        "<script>hidden</script>\"}";
    sr1_bm25_build_options o;
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search_results *r;
    sr1_search *e;

    (void)state;
    sr1_bm25_build_options_init(&o);
    o.memory_bytes = 0;
    o.text_format = "html";
    o.threads = 1;
    assert_int_equal(build(text, sizeof(text) - 1, &o), SR1_OK);
    e = open_index();
    r = ask(e, "hidden b p", 3);
    assert_int_equal(sr1_search_results_hit_count(r, 0), 0);
    sr1_search_results_free(r);
    r = ask(e, "pear", 3);
    assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
    assert_string_equal(hit.contents, "red apples&pears");
    assert_string_equal(hit.row,
                        "{\"id\":1,\"url\":[1],\"contents\":\"red apples&pears\"}");
    sr1_search_results_free(r);
    sr1_search_free(e);
}

static void arguments_are_checked(void **state)
{
    char *index = in_folder("index");
    sr1_bm25_build_options build_options;
    sr1_bm25_options o;
    sr1_search *e = NULL;

    (void)state;
    sr1_bm25_build_options_init(&build_options);
    build_options.zstd_level = 20;
    assert_int_equal(build(rows, sizeof(rows) - 1, &build_options), SR1_E_INVALID);
    sr1_bm25_build_options_init(&build_options);
    build_options.analyzer = "klingon";
    assert_int_equal(build(rows, sizeof(rows) - 1, &build_options), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "english, plain, cjk"));
    sr1_bm25_build_options_init(&build_options);
    build_options.memory_bytes = 0;
    build_options.text_format = "pdf";
    build_options.threads = 0;
    assert_int_equal(build(rows, sizeof(rows) - 1, &build_options), SR1_E_INVALID);
    build_options.text_format = NULL;
    build_options.threads = -1;
    assert_int_equal(build(rows, sizeof(rows) - 1, &build_options), SR1_E_INVALID);
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    sr1_bm25_options_init(&o);
    o.b = 1.5;
    assert_int_equal(sr1_search_open_bm25(&e, index, &o), SR1_E_INVALID);
    sr1_bm25_options_init(&o);
    o.k1 = -1;
    assert_int_equal(sr1_search_open_bm25(&e, index, &o), SR1_E_INVALID);
    o.struct_size = 0;
    assert_int_equal(sr1_search_open_bm25(&e, index, &o), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_bm25(&e, folder, NULL), SR1_E_IO);
    assert_null(e);
    assert_int_equal(sr1_bm25_info_get(NULL, NULL), SR1_E_INVALID);
    free(index);
}

static void k1_and_b_change_scores(void **state)
{
    char *index = in_folder("index");
    sr1_bm25_options o;
    sr1_search_hit hit = {sizeof(hit)};
    sr1_search *e = NULL;
    sr1_search_results *r;

    (void)state;
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    sr1_bm25_options_init(&o);
    o.k1 = 0; /* presence only: every score is the idf */
    assert_int_equal(sr1_search_open_bm25(&e, index, &o), SR1_OK);
    r = ask(e, "apple", 3);
    for (int32_t k = 0; k < 3; k++) {
        assert_int_equal(sr1_search_results_hit(r, 0, k, &hit), SR1_OK);
        /* ln(1 + (5 - 3 + 0.5) / (3 + 0.5)) */
        assert_true(hit.score > 0.5389965 - 1e-6 && hit.score < 0.5389965 + 1e-6);
    }
    sr1_search_results_free(r);
    sr1_search_free(e);
    free(index);
}

static int32_t stop_at_once(void *user, uint64_t done, uint64_t total, uint64_t documents)
{
    (void)documents;
    assert_true(done <= total);
    ++*(int *)user;
    return 1;
}

/* Words that no document has take no place of those that some have. */
static void unknown_words_do_not_crowd_out(void **state)
{
    char *query = malloc(32 * 3000);
    size_t n = 0;
    sr1_search_results *r;
    sr1_search *e;

    (void)state;
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    e = open_index();
    for (int i = 0; i < 3000; i++)
        n += (size_t)sprintf(query + n, "zq%d ", i);
    strcpy(query + n, "apples");
    r = ask(e, query, 10);
    assert_int_equal(sr1_search_results_hit_count(r, 0), 3);
    sr1_search_results_free(r);
    sr1_search_free(e);
    free(query);
}

/* A word counts as often as it is there, whatever was asked before, in any spelling that
 * becomes the same term. */
static void repeated_words_count(void **state)
{
    static const char *const queries[] = {"apple pears", "apple Apples APPLE'S pears"};
    double scores[2] = {0, 0};
    double pears;
    sr1_search *e;

    (void)state;
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    e = open_index();
    for (int round = 0; round < 2; round++) {
        sr1_search_hit hit = {sizeof(hit)};
        sr1_search_results *r = ask(e, "pears", 1);

        assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
        pears = hit.score;
        sr1_search_results_free(r);
        for (int i = 0; i < 2; i++) {
            r = ask(e, queries[i], 1);
            assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
            assert_string_equal(hit.id, "e");
            scores[i] = hit.score - pears;
            sr1_search_results_free(r);
        }
        assert_float_equal(scores[1], 3 * scores[0], 1e-8);
    }
    sr1_search_free(e);
}

static void numbers_are_of_bm25_engines(void **state)
{
    const char *keyword = "k";
    uint32_t doc = 7;
    double score = 7;
    int32_t found = 7;
    sr1_search *e = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_mock(&e, &keyword, &keyword, 1), SR1_OK);
    assert_int_equal(sr1__bm25_numbers(e, "k", 1, &doc, &score, &found), SR1_E_INVALID);
    assert_int_equal(sr1__bm25_numbers(NULL, "k", 1, &doc, &score, &found),
                     SR1_E_INVALID);
    assert_int_equal(found, 7);
    sr1_search_free(e);
}

#define LONG_ROWS 300
#define LONG_ROW 30000

/* Row i: its own word, then text of its own; one is larger than what stays unpacked. */
static size_t fill_long_row(char *to, int i)
{
    size_t size = i == 77 ? 20 * LONG_ROW : LONG_ROW;
    size_t n = (size_t)sprintf(to, "only%d", i);

    while (n < size)
        n += (size_t)sprintf(to + n, " w%zu", (n * 31 + (size_t)i) % 1000);
    return n;
}

/* Frames of rows stay unpacked; those that leave come back as they were. */
static void rows_are_their_own_in_any_order(void **state)
{
    struct sr1__buf text;
    char *want = malloc(21 * LONG_ROW);
    sr1_search *e;

    (void)state;
    sr1__buf_init(&text, 0);
    for (int i = 0; i < LONG_ROWS; i++) {
        size_t n = fill_long_row(want, i);

        sr1__buf_fmt(&text, "{\"id\": %d, \"contents\": \"", i);
        sr1__buf_add(&text, want, n);
        sr1__buf_str(&text, "\"}\n");
    }
    assert_int_equal(build(text.data, text.len, NULL), SR1_OK);
    sr1__buf_free(&text);
    e = open_index();
    for (int k = 0; k < LONG_ROWS; k++) {
        int i = k * 97 % LONG_ROWS;
        sr1_search_hit hit = {sizeof(hit)};
        sr1_search_results *r;
        char query[16];

        snprintf(query, sizeof(query), "only%d", i);
        r = ask(e, query, 2);
        assert_int_equal(sr1_search_results_hit_count(r, 0), 1);
        assert_int_equal(sr1_search_results_hit(r, 0, 0, &hit), SR1_OK);
        assert_int_equal(strlen(hit.contents), fill_long_row(want, i));
        assert_string_equal(hit.contents, want);
        sr1_search_results_free(r);
    }
    sr1_search_free(e);
    free(want);
}

static void progress_can_stop_a_build(void **state)
{
    char *from = corpus(rows, sizeof(rows) - 1);
    char *to = in_folder("new-index");
    int calls = 0;

    (void)state;
    assert_int_equal(sr1_bm25_build(from, to, NULL, stop_at_once, &calls),
                     SR1_E_CANCELLED);
    assert_int_equal(calls, 1);
    assert_false(sr1__path_exists(to));
    free(from);
    free(to);
}

/* A corpus whose lists fill several blocks and whose rows fill several frames. */
static void build_large(void)
{
    struct sr1__buf b;
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 1, 0);
    sr1__buf_init(&b, 0);
    for (int d = 0; d < 1500; d++) {
        sr1__buf_fmt(&b, "{\"id\": %d, \"contents\": \"Title\\nevery ", d);
        for (int i = 0; i < 30; i++)
            sr1__buf_fmt(&b, "w%u ",
                         (unsigned)sr1__rng_below(&rng, 1 + sr1__rng_below(&rng, 200)));
        sr1__buf_fmt(&b, "\"}\n");
    }
    assert_int_equal(build(b.data, b.len, NULL), SR1_OK);
    sr1__buf_free(&b);
}

/* Open damaged bytes and ask; any status is fine as long as it is one of these. */
static sr1_status try_bytes(const void *bytes, size_t n)
{
    static const char *const queries[] = {"every w1 w2 w3", "w100", "w0 w7 title",
                                          "absent"};
    sr1_search *e = NULL;
    sr1_search_results *r = NULL;
    sr1_status status = sr1__search_open_bm25_memory(&e, bytes, n, NULL);

    if (status == SR1_OK)
        status = sr1_search_run(e, queries, 4, 5, &r);
    sr1_search_results_free(r);
    sr1_search_free(e);
    assert_true(status == SR1_OK || status == SR1_E_CORRUPT ||
                status == SR1_E_UNSUPPORTED);
    return status;
}

static void damage_is_found(void **state)
{
    char *path = in_folder("index");
    struct sr1__buf b;
    struct sr1__rng rng;
    char *exact;
    size_t caught = 0;

    (void)state;
    build_large();
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    assert_int_equal(try_bytes(b.data, b.len), SR1_OK);
    exact = malloc(b.len);
    for (size_t n = 0; n < b.len; n += 1 + n / 8) { /* every cut is noticed */
        char *cut = malloc(n + 1);

        memcpy(cut, b.data, n);
        assert_int_equal(try_bytes(cut, n), SR1_E_CORRUPT);
        free(cut);
    }
    sr1__rng_seed(&rng, 2, 0);
    for (int i = 0; i < 3000; i++) {
        size_t flips = 1 + sr1__rng_below(&rng, 3);

        memcpy(exact, b.data, b.len);
        for (size_t f = 0; f < flips; f++) {
            size_t at = sr1__rng_below(&rng, 4) > 0
                            ? b.len - 1 - sr1__rng_below(&rng, 4000)
                            : sr1__rng_below(&rng, b.len);

            exact[at] = (char)sr1__rng_u64(&rng);
        }
        caught += try_bytes(exact, b.len) != SR1_OK;
    }
    assert_true(caught > 200);
    free(exact);
    sr1__buf_free(&b);
    free(path);
}

static sr1_status verify_bytes(const void *bytes, size_t n)
{
    struct sr1__index *ix = NULL;
    sr1_status status = sr1__index_open_memory(&ix, bytes, n);

    if (status == SR1_OK)
        status = sr1__index_verify(ix);
    sr1__index_close(ix);
    return status;
}

static void verifying_finds_every_changed_byte(void **state)
{
    char *path = in_folder("index");
    struct sr1__buf b;

    (void)state;
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    assert_int_equal(sr1_bm25_verify(path), SR1_OK);
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    for (size_t at = 0; at < b.len; at++) {
        int padding = b.data[at] == 0; /* of the header, or between sections */

        b.data[at] ^= 0x40;
        if (verify_bytes(b.data, b.len) == SR1_OK && !padding)
            fail_msg("byte %zu of %zu: nobody noticed", at, b.len);
        b.data[at] ^= 0x40;
    }
    b.data[20] ^= 1; /* of the documents */
    assert_int_equal(sr1__file_replace(path, b.data, b.len), SR1_OK);
    assert_int_equal(sr1_bm25_verify(path), SR1_E_CORRUPT);
    assert_non_null(strstr(sr1_last_error(), "checksum of its documents"));
    assert_int_equal(sr1_bm25_verify(folder), SR1_E_IO);
    assert_int_equal(sr1_bm25_verify(NULL), SR1_E_INVALID);
    sr1__buf_free(&b);
    free(path);
}

static void other_versions_are_refused(void **state)
{
    char *path = in_folder("index");
    struct sr1__buf b;

    (void)state;
    assert_int_equal(build(rows, sizeof(rows) - 1, NULL), SR1_OK);
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    b.data[8] = 1;
    assert_int_equal(try_bytes(b.data, b.len), SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "format 1"));
    sr1__buf_free(&b);
    free(path);
}

static void lack_of_memory_is_an_error(void **state)
{
    char *from = corpus(rows, sizeof(rows) - 1);
    char *to = in_folder("torture");
    const char *queries[] = {"apples", "nothing here"};
    sr1_status status = SR1_E_NOMEM;
    int64_t n;

    (void)state;
    for (n = 1; status != SR1_OK; n++) {
        sr1_search *e = NULL;
        sr1_search_results *r = NULL;

        sr1__mem_fail_at(n);
        status = sr1_bm25_build(from, to, NULL, NULL, NULL);
        if (status == SR1_OK)
            status = sr1_search_open_bm25(&e, to, NULL);
        if (status == SR1_OK)
            status = sr1_search_run(e, queries, 2, 3, &r);
        sr1__mem_fail_at(0);
        assert_int_equal(status == SR1_OK || status == SR1_E_NOMEM, 1);
        sr1_search_results_free(r);
        sr1_search_free(e);
        unlink(to);
    }
    assert_true(n > 50);
    free(from);
    free(to);
}

/* ---- threads ---- */

struct asker {
    sr1_search *engine;
    const sr1_search_results *want; /* of the 40 queries asked in one thread */
    char (*texts)[40];
    atomic_int differs;
};

static int same(const sr1_search_results *a, size_t i, const sr1_search_results *b,
                size_t j)
{
    int32_t n = sr1_search_results_hit_count(a, i);

    if (n != sr1_search_results_hit_count(b, j))
        return 0;
    for (int32_t k = 0; k < n; k++) {
        sr1_search_hit x = {sizeof(x)};
        sr1_search_hit y = {sizeof(y)};

        sr1_search_results_hit(a, i, k, &x);
        sr1_search_results_hit(b, j, k, &y);
        if (strcmp(x.id, y.id) != 0 || x.score != y.score ||
            strcmp(x.contents, y.contents) != 0)
            return 0;
    }
    return 1;
}

static void *asking(void *arg)
{
    struct asker *a = arg;

    for (size_t round = 0; round < 200; round++) {
        size_t i = (round * 7) % 40;
        const char *query = a->texts[i];
        sr1_search_results *r = NULL;

        a->differs |= sr1_search_run(a->engine, &query, 1, 5, &r) != SR1_OK ||
                      !same(r, 0, a->want, i);
        sr1_search_results_free(r);
    }
    return NULL;
}

static void threads_get_the_same_answers(void **state)
{
    static char texts[40][40];
    const char *queries[40];
    struct asker a = {.texts = texts};
    pthread_t threads[4];
    sr1_search_results *alone = NULL;
    sr1_search_results *spread = NULL;

    (void)state;
    build_large();
    a.engine = open_index();
    for (int i = 0; i < 40; i++) {
        snprintf(texts[i], sizeof(texts[i]), "every w%d w%d w%d", i, 3 * i, 5 * i % 17);
        queries[i] = texts[i];
    }
    assert_int_equal(sr1_search_run(a.engine, queries, 40, 5, &alone), SR1_OK);
    a.want = alone;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, asking, &a), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_false(a.differs);
    assert_int_equal(sr1_search_set_threads(a.engine, 3), SR1_OK);
    assert_int_equal(sr1_search_run(a.engine, queries, 40, 5, &spread), SR1_OK);
    for (size_t i = 0; i < 40; i++)
        assert_true(same(alone, i, spread, i));
    sr1_search_results_free(alone);
    sr1_search_results_free(spread);
    sr1_search_free(a.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_as_they_were),
        cmocka_unit_test(images_come_with_their_caption),
        cmocka_unit_test(only_words_without_meaning),
        cmocka_unit_test(plain_analysis_keeps_every_word),
        cmocka_unit_test(bad_rows_are_named),
        cmocka_unit_test(markup_is_cut_before_indexing),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(k1_and_b_change_scores),
        cmocka_unit_test(unknown_words_do_not_crowd_out),
        cmocka_unit_test(repeated_words_count),
        cmocka_unit_test(numbers_are_of_bm25_engines),
        cmocka_unit_test(rows_are_their_own_in_any_order),
        cmocka_unit_test(progress_can_stop_a_build),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(verifying_finds_every_changed_byte),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(lack_of_memory_is_an_error),
        cmocka_unit_test(threads_get_the_same_answers),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
