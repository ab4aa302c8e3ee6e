/* test_analyze.c - word boundaries, the stemmer and the two analysers. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "retrieval/search/analyze.h"
#include "retrieval/search/porter.h"
#include "retrieval/search/word_break.h"

#include "search_files.h"

#include <libstemmer.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORD_BREAK_TEST "/usr/share/unicode/auxiliary/WordBreakTest.txt"

static sr1_status collect(void *arg, const char *token, size_t n)
{
    return json_array_append_new(arg, json_stringn(token, n)) == 0
               ? SR1_OK
               : sr1__fail_nomem("test tokens");
}

static json_t *tokens_of(const char *analyzer, const char *text, size_t n)
{
    struct sr1__analysis scratch;
    json_t *out = json_array();

    sr1__analysis_init(&scratch);
    assert_int_equal(
        sr1__analyze(sr1__analyzer_find(analyzer, NULL), text, n, &scratch, collect, out),
        SR1_OK);
    sr1__analysis_free(&scratch);
    return out;
}

static void assert_tokens(const char *analyzer, const char *text, size_t n, json_t *want,
                          const char *where)
{
    json_t *got = tokens_of(analyzer, text, n);

    if (!json_equal(got, want)) {
        char *g = json_dumps(got, 0);
        char *w = json_dumps(want, 0);

        print_error("%s: %s\n got %s\nwant %s\n", where, text, g, w);
        free(g);
        free(w);
        fail();
    }
    json_decref(got);
}

/* Each line: {"analyzer", "text", "tokens"}; the first is "english" when absent. */
static void check_cases(const char *path, size_t at_least)
{
    struct sr1__buf b;
    size_t line = 0;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    for (char *p = b.data; p != NULL && *p != '\0';) {
        char *end = strchr(p, '\n');
        size_t n = end != NULL ? (size_t)(end - p) : strlen(p);
        json_t *row = json_loadb(p, n, JSON_ALLOW_NUL, NULL);
        json_t *text = json_object_get(row, "text");
        json_t *kind = json_object_get(row, "analyzer");
        char where[300];

        line++;
        snprintf(where, sizeof(where), "%s:%zu", path, line);
        assert_non_null(row);
        assert_tokens(kind != NULL ? json_string_value(kind) : "english",
                      json_string_value(text), json_string_length(text),
                      json_object_get(row, "tokens"), where);
        json_decref(row);
        p = end != NULL ? end + 1 : NULL;
    }
    assert_true(line >= at_least);
    sr1__buf_free(&b);
}

static void own_cases(void **state)
{
    char *path = test_fixture("search/analyzer_cases.jsonl");

    (void)state;
    check_cases(path, 15);
    free(path);
}

static void lucene_cases(void **state)
{
    char *path = test_shared("bm25/analyzer_cases.jsonl");

    (void)state;
    if (path == NULL)
        skip();
    check_cases(path, 398);
    free(path);
}

/* One line of WordBreakTest.txt: hexadecimal code points with a division or
 * multiplication sign before, between and after. Returns 0 for a comment. */
static int check_break_line(const char *line, size_t number)
{
    char text[256];
    int is_end[256] = {0};
    size_t n = 0;
    size_t at = 0;

    for (const char *p = line; *p != '\0' && *p != '#' && *p != '\n';) {
        unsigned long cp;
        char *end;

        if (strncmp(p, "\xC3\xB7", 2) == 0 || strncmp(p, "\xC3\x97", 2) == 0) {
            is_end[n] = p[1] == '\xB7';
            p += 2;
        } else if (*p == ' ' || *p == '\t') {
            p++;
        } else {
            cp = strtoul(p, &end, 16);
            assert_true(end > p);
            n += (size_t)sr1__utf8_put((uint32_t)cp, text + n);
            p = end;
        }
    }
    while (at < n) {
        struct sr1__word_segment w = sr1__word_break_next(text, n, at);

        for (size_t i = at + 1; i <= w.end; i++) {
            if (is_end[i] != (i == w.end))
                fail_msg("WordBreakTest.txt line %zu, byte %zu", number, i);
        }
        at = w.end;
    }
    return n > 0;
}

static void unicode_word_break_test(void **state)
{
    FILE *f = fopen(WORD_BREAK_TEST, "r");
    char line[1024];
    size_t number = 0;
    size_t checked = 0;

    (void)state;
    if (f == NULL)
        skip();
    while (fgets(line, sizeof(line), f) != NULL)
        checked += (size_t)check_break_line(line, ++number);
    fclose(f);
    assert_true(checked > 1500);
}

/* Bytes that are not UTF-8 are cut one by one, and every byte belongs to one segment. */
static void segments_cover_any_bytes(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        char s[40];
        size_t at = 0;

        for (size_t i = 0; i < sizeof(s); i++) {
            seed = seed * 1103515245u + 12345u;
            s[i] = (char)(seed >> 16);
        }
        while (at < sizeof(s)) {
            struct sr1__word_segment w = sr1__word_break_next(s, sizeof(s), at);

            assert_int_equal(w.start, at);
            assert_true(w.end > at && w.end <= sizeof(s));
            at = w.end;
        }
    }
}

/* The departures from the paper that Snowball's "porter" does not make. */
static int departs(const char *w, size_t n)
{
    static const char *const doubles[] = {"hh", "ww", "xx", "kk", "vv", "qq", "jj", "cc"};

    for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); i++) {
        if (strstr(w, doubles[i]) != NULL)
            return 1;
    }
    return n <= 2 || strstr(w, "bli") != NULL || strstr(w, "bly") != NULL ||
           strstr(w, "logi") != NULL || strstr(w, "logy") != NULL;
}

/* Random words over letters and suffixes that make every rule fire. */
static size_t random_word(unsigned *seed, char *w)
{
    static const char *const parts[] = {
        "a",     "e",       "i",     "o",     "u",       "y",       "b",       "l",
        "s",     "t",       "z",     "w",     "x",       "ll",      "ss",      "at",
        "iz",    "ational", "tion",  "enci",  "izer",    "alli",    "entli",   "eli",
        "ousli", "ization", "ator",  "alism", "iveness", "fulness", "ousness", "aliti",
        "iviti", "biliti",  "icate", "ative", "alize",   "iciti",   "ical",    "ful",
        "ness",  "al",      "ance",  "er",    "able",    "ement",   "ment",    "ent",
        "ion",   "ou",      "ism",   "ate",   "ous",     "ive",     "ed",      "ing",
        "eed",   "sses",    "ies",   "sion",  "rr",      "hop",     "fil",     "tt",
    };
    size_t n = 0;
    int count;

    *seed = *seed * 1103515245u + 12345u;
    count = 1 + (int)(*seed >> 16) % 5;
    for (int i = 0; i < count; i++) {
        const char *p;

        *seed = *seed * 1103515245u + 12345u;
        p = parts[(*seed >> 16) % (sizeof(parts) / sizeof(parts[0]))];
        memcpy(w + n, p, strlen(p));
        n += strlen(p);
    }
    w[n] = '\0';
    return n;
}

static void stemmer_equals_snowball_porter(void **state)
{
    struct sb_stemmer *sb = sb_stemmer_new("porter", "UTF_8");
    unsigned seed = 1;
    int compared = 0;

    (void)state;
    assert_non_null(sb);
    for (int i = 0; i < 200000; i++) {
        char w[64];
        char ours[64];
        size_t n = random_word(&seed, w);
        const sb_symbol *theirs;

        if (departs(w, n))
            continue;
        memcpy(ours, w, n + 1);
        ours[sr1__porter_stem(ours, n)] = '\0';
        theirs = sb_stemmer_stem(sb, (const sb_symbol *)w, (int)n);
        if (strcmp(ours, (const char *)theirs) != 0)
            fail_msg("%s: ours %s, Snowball's %s", w, ours, (const char *)theirs);
        compared++;
    }
    assert_true(compared > 150000);
    sb_stemmer_delete(sb);
}

static void long_words_are_cut(void **state)
{
    char text[600];
    json_t *got;

    (void)state;
    memset(text, 'b', sizeof(text));
    got = tokens_of("english", text, sizeof(text));
    assert_int_equal(json_array_size(got), 3);
    assert_int_equal(json_string_length(json_array_get(got, 0)), 255);
    assert_int_equal(json_string_length(json_array_get(got, 2)), 90);
    json_decref(got);
    got = tokens_of("cjk", text, sizeof(text));
    assert_int_equal(json_array_size(got), 3);
    assert_int_equal(json_string_length(json_array_get(got, 2)), 90);
    json_decref(got);
}

static void unknown_analyzer_is_null(void **state)
{
    const char *names = NULL;

    (void)state;
    assert_null(sr1__analyzer_find("klingon", &names));
    assert_string_equal(names, "english, plain, cjk");
}

static void analysis_survives_lack_of_memory(void **state)
{
    const char *text = "Stra\xC3\x9F"
                       "e \xEF\xBC\xA1\xEF\xBC\xA2 caf\x65\xCC\x81 na\xC3\xAFve words";
    int64_t n = 1;
    sr1_status status;

    (void)state;
    do {
        struct sr1__analysis scratch;
        json_t *out = json_array();

        sr1__analysis_init(&scratch);
        sr1__mem_fail_at(n);
        status = sr1__analyze(sr1__analyzer_find("plain", NULL), text, strlen(text),
                              &scratch, collect, out);
        sr1__mem_fail_at(0);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
        sr1__analysis_free(&scratch);
        json_decref(out);
        n++;
    } while (status != SR1_OK);
    assert_true(n > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_cases),
        cmocka_unit_test(lucene_cases),
        cmocka_unit_test(unicode_word_break_test),
        cmocka_unit_test(segments_cover_any_bytes),
        cmocka_unit_test(stemmer_equals_snowball_porter),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(unknown_analyzer_is_null),
        cmocka_unit_test(analysis_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
