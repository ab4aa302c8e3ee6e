/* retrieval/search/analyze.h - text to index tokens. */
#ifndef SR1__SEARCH_ANALYZE_H
#define SR1__SEARCH_ANALYZE_H

#include "base/buf.h"

#define SR1__TOKEN_MAX_BYTES                                                             \
    1024 /* longer tokens (not possible in "english") are dropped */

/* Borrowed for the call. Any failing status ends the analysis and is passed on. */
typedef sr1_status (*sr1__token_fn)(void *arg, const char *token, size_t n);

/* A text is split into words, and each word becomes a token or nothing, whatever its
 * neighbours are. */
struct sr1__analyzer {
    const char *name; /* as users and index files write it */
    sr1_status (*split)(const char *text, size_t n, struct sr1__buf *scratch,
                        sr1__token_fn word, void *arg);
    /* Append the token of a word to b (nothing: drop it). Returns b's status. */
    sr1_status (*normalise)(const char *word, size_t n, struct sr1__buf *b);
};

/* The analyser of that name; NULL if there is none, and then *names (when asked for) is
 * "english, plain, cjk". */
const struct sr1__analyzer *sr1__analyzer_find(const char *name, const char **names);

/* Memory that a caller keeps between calls. */
struct sr1__analysis {
    struct sr1__buf token;
    struct sr1__buf word;
};
void sr1__analysis_init(struct sr1__analysis *memory);
void sr1__analysis_free(struct sr1__analysis *memory);

/* Call fn for each token of valid UTF-8 text[0..n), in order. */
sr1_status sr1__analyze(const struct sr1__analyzer *a, const char *text, size_t n,
                        struct sr1__analysis *memory, sr1__token_fn fn, void *arg);

/* Append text in Unicode's caseless form to b: case folded and composed (NFC), and when
 * `compatible` also with compatibility characters replaced (NFKC). */
sr1_status sr1__text_fold(const char *text, size_t n, int compatible, struct sr1__buf *b);

#endif
