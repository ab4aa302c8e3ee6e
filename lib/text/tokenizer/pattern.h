/* text/tokenizer/pattern.h - the split of text into pieces before merging, by a regular
 * expression as tokenizer.json has it. */
#ifndef SR1__TOKENIZER_PATTERN_H
#define SR1__TOKENIZER_PATTERN_H

#include "base/error.h"

/* GPT-2's pattern, which a ByteLevel pre-tokenizer with use_regex uses. */
extern const char sr1__pattern_gpt2[];
/* Qwen2's and Qwen3's. */
extern const char sr1__pattern_qwen[];

struct sr1__pattern;

/* Constructs whose meaning differs between the reference's engine and PCRE2 are refused
 * by name (SR1_E_UNSUPPORTED). */
sr1_status sr1__pattern_new(struct sr1__pattern **out, const char *regex, size_t n,
                            const char *name);
void sr1__pattern_free(struct sr1__pattern *p);

/* One pass over a text (valid UTF-8, not changed meanwhile). Passes of several threads
 * may share a pattern. */
struct sr1__split {
    const struct sr1__pattern *pattern;
    const char *text;
    size_t n;
    size_t at;    /* end of the last piece */
    size_t match; /* a match found but not yet given: [match, match_end) */
    size_t match_end;
    void *data;
};

sr1_status sr1__split_begin(struct sr1__split *s, const struct sr1__pattern *p);
void sr1__split_text(struct sr1__split *s, const char *text, size_t n);
/* The next match or gap between matches, never empty; *n 0 at the end of the text. */
sr1_status sr1__split_next(struct sr1__split *s, const char **piece, size_t *n);
/* Whether the piece just given was a match, not a gap. */
int sr1__split_at_match(const struct sr1__split *s);
void sr1__split_end(struct sr1__split *s);

/* Whether the pattern matches the empty text. */
sr1_status sr1__pattern_matches_empty(const struct sr1__pattern *p, int *matches);

#endif
