/* retrieval/search/analyze.c - text to index tokens: word boundaries, then one normaliser
 * a row.
 *
 *   english  Lucene's EnglishAnalyzer: possessive 's off, simple lower case, 33 stop
 *            words out, Porter stem
 *   plain    scripts with spaces between words: case folding and NFKC (compatibility
 *            characters replaced)
 *   cjk      like plain, but runs of Han, kana and Hangul become overlapping bigrams; a
 *            lone character is one token (Lucene's CJKAnalyzer without its stop words)
 *
 * As in Lucene, a word longer than 255 UTF-16 units is cut into pieces of 255. */
#include "retrieval/search/analyze.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "retrieval/search/porter.h"
#include "retrieval/search/word_break.h"

#include <string.h>
#include <utf8proc.h>

#define WORD_MAX_UNITS 255

static const char *const stop_words[] = {
    "a",    "an",   "and",  "are",  "as",   "at",    "be",   "but",   "by",
    "for",  "if",   "in",   "into", "is",   "it",    "no",   "not",   "of",
    "on",   "or",   "such", "that", "the",  "their", "then", "there", "these",
    "they", "this", "to",   "was",  "will", "with",
};

static int is_stop_word(const char *w, size_t n)
{
    if (n > 5)
        return 0;
    for (size_t i = 0; i < sizeof(stop_words) / sizeof(stop_words[0]); i++) {
        if (w[0] == stop_words[i][0] && strlen(stop_words[i]) == n &&
            memcmp(w, stop_words[i], n) == 0)
            return 1;
    }
    return 0;
}

static int is_ascii_text(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)s[i] >= 0x80)
            return 0;
    }
    return 1;
}

static void add_ascii_lower(const char *s, size_t n, struct sr1__buf *b)
{
    size_t at = b->len;

    sr1__buf_add(b, s, n);
    for (; b->status == SR1_OK && at < b->len; at++) {
        if (b->data[at] >= 'A' && b->data[at] <= 'Z')
            b->data[at] = (char)(b->data[at] + 32);
    }
}

/* Character by character, as Java's Character.toLowerCase. */
static void add_lower(const char *s, size_t n, struct sr1__buf *b)
{
    size_t i = 0;

    while (i < n) {
        uint32_t cp;
        int width = sr1__utf8_next(s + i, n - i, &cp);
        char out[4];

        if (width <= 0) {
            width = 1;
            cp = 0xFFFD;
        }
        sr1__buf_add(b, out,
                     (size_t)sr1__utf8_put((uint32_t)utf8proc_tolower((int32_t)cp), out));
        i += (size_t)width;
    }
}

/* Length without a final 's, with any of the three apostrophes. */
static size_t without_possessive(const char *w, size_t n)
{
    static const char *const apostrophes[] = {"'", "\xE2\x80\x99", "\xEF\xBC\x87"};

    if (n < 2 || (w[n - 1] != 's' && w[n - 1] != 'S'))
        return n;
    for (size_t i = 0; i < 3; i++) {
        size_t width = strlen(apostrophes[i]);

        if (n > width && memcmp(w + n - 1 - width, apostrophes[i], width) == 0)
            return n - 1 - width;
    }
    return n;
}

static sr1_status normalise_english(const char *word, size_t n, struct sr1__buf *b)
{
    n = without_possessive(word, n);
    if (is_ascii_text(word, n))
        add_ascii_lower(word, n, b);
    else
        add_lower(word, n, b);
    if (b->status != SR1_OK || b->len == 0)
        return sr1__buf_status(b, "index token");
    if (is_stop_word(b->data, b->len))
        b->len = 0;
    else
        b->len = sr1__porter_stem(b->data, b->len);
    return SR1_OK;
}

static sr1_status normalise_plain(const char *word, size_t n, struct sr1__buf *b)
{
    return sr1__text_fold(word, n, 1, b);
}

static utf8proc_ssize_t decompose_text(const char *s, size_t n, int compatible,
                                       int32_t *out, size_t cap)
{
    int options = UTF8PROC_CASEFOLD | UTF8PROC_COMPOSE | UTF8PROC_STABLE;

    if (compatible)
        options |= UTF8PROC_COMPAT | UTF8PROC_IGNORE;
    return utf8proc_decompose((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, out,
                              (utf8proc_ssize_t)cap, (utf8proc_option_t)options);
}

sr1_status sr1__text_fold(const char *text, size_t n, int compatible, struct sr1__buf *b)
{
    int32_t small[64];
    int32_t *cps = small;
    utf8proc_ssize_t count;

    if (is_ascii_text(text, n)) {
        add_ascii_lower(text, n, b);
        return sr1__buf_status(b, "folded text");
    }
    count = decompose_text(text, n, compatible, small, sizeof(small) / sizeof(small[0]));
    if (count > (utf8proc_ssize_t)(sizeof(small) / sizeof(small[0]))) {
        cps = sr1__realloc(NULL, (size_t)count, sizeof(*cps));
        if (cps == NULL)
            return sr1__fail_nomem("folded text");
        count = decompose_text(text, n, compatible, cps, (size_t)count);
    }
    if (count >= 0)
        count = utf8proc_normalize_utf32(cps, count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        char out[4];

        sr1__buf_add(b, out, (size_t)sr1__utf8_put((uint32_t)cps[i], out));
    }
    if (cps != small)
        sr1__free(cps);
    if (count < 0)
        return sr1__fail(SR1_E_PARSE, "text to fold: %s", utf8proc_errmsg(count));
    return sr1__buf_status(b, "folded text");
}

/* Bytes of the longest prefix of w[0..n) with at most WORD_MAX_UNITS UTF-16 units. */
static size_t measure_piece(const char *w, size_t n)
{
    size_t units = 0;
    size_t i = 0;

    if (n <= WORD_MAX_UNITS)
        return n;
    while (i < n) {
        unsigned char lead = (unsigned char)w[i];
        size_t width = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

        units += width == 4 ? 2 : 1;
        if (units > WORD_MAX_UNITS)
            return i;
        i += width;
    }
    return n;
}

static sr1_status split_text_words(const char *text, size_t n, struct sr1__buf *scratch,
                                   sr1__token_fn word, void *arg)
{
    struct sr1__word_segment w = {0, 0, 0};

    (void)scratch;
    while (w.end < n) {
        w = sr1__word_break_next(text, n, w.end);
        for (size_t at = w.start; w.indexed && at < w.end;) {
            size_t part = measure_piece(text + at, w.end - at);

            SR1__TRY(word(arg, text + at, part));
            at += part;
        }
    }
    return SR1_OK;
}

/* ---- pairs of characters ---- */

static int is_cjk(uint32_t cp)
{
    static const uint32_t ranges[][2] = {
        {0x1100, 0x11FF},   {0x2E80, 0x2FDF}, {0x3005, 0x3007}, {0x3021, 0x3029},
        {0x3031, 0x3035},   {0x3038, 0x303C}, {0x3041, 0x30FF}, {0x3105, 0x31BF},
        {0x31F0, 0x31FF},   {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xA960, 0xA97F},
        {0xAC00, 0xD7FF},   {0xF900, 0xFAFF}, {0xFF66, 0xFFDC}, {0x1AFF0, 0x1B16F},
        {0x20000, 0x3FFFD},
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]) && cp >= ranges[i][0];
         i++) {
        if (cp <= ranges[i][1])
            return 1;
    }
    return 0;
}

/* A run of such characters, its last one at the front of pair. */
struct pairs {
    sr1__token_fn word;
    void *arg;
    char pair[8];
    size_t width; /* of the last one */
    size_t run;   /* characters; 0: none */
};

static sr1_status end_run(struct pairs *p)
{
    size_t run = p->run;

    p->run = 0;
    return run == 1 ? p->word(p->arg, p->pair, p->width) : SR1_OK;
}

static sr1_status add_character(struct pairs *p, const char *c, size_t width)
{
    size_t before = p->run++ > 0 ? p->width : 0;

    memcpy(p->pair + before, c, width);
    p->width = width;
    if (before == 0)
        return SR1_OK;
    SR1__TRY(p->word(p->arg, p->pair, before + width));
    memmove(p->pair, p->pair + before, width);
    return SR1_OK;
}

/* One folded word: its pairs, and what lies between runs. */
static sr1_status pair_word(struct pairs *p, const char *s, size_t n)
{
    size_t other = 0; /* since here: no such characters */

    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int width = sr1__utf8_next(s + i, n - i, &cp);
        size_t end = i + (width > 0 ? (size_t)width : 1);

        if (width > 0 && is_cjk(cp)) {
            if (other < i)
                SR1__TRY(p->word(p->arg, s + other, i - other));
            SR1__TRY(add_character(p, s + i, end - i));
            other = end;
        } else {
            SR1__TRY(end_run(p));
        }
        i = end;
    }
    return other < n ? p->word(p->arg, s + other, n - other) : SR1_OK;
}

/* A run goes on from word to word as long as nothing lies between. */
static sr1_status split_pairs(const char *text, size_t n, struct sr1__buf *scratch,
                              sr1__token_fn word, void *arg)
{
    struct pairs p = {.word = word, .arg = arg};
    struct sr1__word_segment w = {0, 0, 0};

    while (w.end < n) {
        w = sr1__word_break_next(text, n, w.end);
        if (!w.indexed) {
            SR1__TRY(end_run(&p));
            continue;
        }
        for (size_t at = w.start; at < w.end;) {
            size_t part = measure_piece(text + at, w.end - at);

            sr1__buf_clear(scratch);
            SR1__TRY(sr1__text_fold(text + at, part, 1, scratch));
            SR1__TRY(pair_word(&p, sr1__buf_cstr(scratch), scratch->len));
            at += part;
        }
    }
    return end_run(&p);
}

static sr1_status keep_folded_word(const char *word, size_t n, struct sr1__buf *b)
{
    sr1__buf_add(b, word, n);
    return sr1__buf_status(b, "index token");
}

/* ---- all ---- */

static const struct sr1__analyzer analyzers[] = {
    {"english", split_text_words, normalise_english},
    {"plain", split_text_words, normalise_plain},
    {"cjk", split_pairs, keep_folded_word},
};

const struct sr1__analyzer *sr1__analyzer_find(const char *name, const char **names)
{
    if (names != NULL)
        *names = "english, plain, cjk";
    for (size_t i = 0; i < sizeof(analyzers) / sizeof(analyzers[0]); i++) {
        if (strcmp(analyzers[i].name, name) == 0)
            return &analyzers[i];
    }
    return NULL;
}

struct normaliser {
    const struct sr1__analyzer *analyzer;
    struct sr1__buf *token;
    sr1__token_fn fn;
    void *arg;
};

/* sr1__token_fn */
static sr1_status emit_normalised_token(void *arg, const char *word, size_t n)
{
    struct normaliser *m = arg;

    sr1__buf_clear(m->token);
    SR1__TRY(m->analyzer->normalise(word, n, m->token));
    if (m->token->len == 0 || m->token->len > SR1__TOKEN_MAX_BYTES)
        return SR1_OK;
    return m->fn(m->arg, m->token->data, m->token->len);
}

sr1_status sr1__analyze(const struct sr1__analyzer *a, const char *text, size_t n,
                        struct sr1__analysis *memory, sr1__token_fn fn, void *arg)
{
    struct normaliser m = {a, &memory->token, fn, arg};

    return a->split(text, n, &memory->word, emit_normalised_token, &m);
}

void sr1__analysis_init(struct sr1__analysis *memory)
{
    sr1__buf_init(&memory->token, 0);
    sr1__buf_init(&memory->word, 0);
}

void sr1__analysis_free(struct sr1__analysis *memory)
{
    sr1__buf_free(&memory->token);
    sr1__buf_free(&memory->word);
}
