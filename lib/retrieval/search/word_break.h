/* retrieval/search/word_break.h - word boundaries of Unicode text (UAX #29), as a search
 * index wants them. */
#ifndef SR1__SEARCH_WORD_BREAK_H
#define SR1__SEARCH_WORD_BREAK_H

#include <stddef.h>
#include <stdint.h>

struct sr1__word_segment {
    size_t start; /* bytes s[start .. end) */
    size_t end;
    int indexed; /* holds a letter, digit, ideograph, kana, or pictograph */
};

/* The segment of valid UTF-8 s[0..n) that begins at `from` (< n). Segments follow each
 * other without a gap; those with indexed 0 are spaces and punctuation. */
struct sr1__word_segment sr1__word_break_next(const char *s, size_t n, size_t from);

#endif
