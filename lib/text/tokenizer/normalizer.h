/* text/tokenizer/normalizer.h - a file's normalizer as a list of steps. */
#ifndef SR1__TOKENIZER_NORMALIZER_H
#define SR1__TOKENIZER_NORMALIZER_H

#include "base/buf.h"
#include "base/json.h"

#define SR1__STEPS_MAX 16

struct sr1__normalizer_step_kind;
struct sr1__precompiled_charsmap;
struct sr1__pattern;

struct sr1__normalizer_step {
    const struct sr1__normalizer_step_kind *kind;
    uint32_t parts; /* BertNormalizer's, or sides to strip */
    char *find;     /* Replace: a text, or a pattern */
    struct sr1__pattern *pattern;
    char *put; /* what it is replaced by */
    struct sr1__precompiled_charsmap *map;
};

struct sr1__normalizer {
    struct sr1__normalizer_step steps[SR1__STEPS_MAX];
    size_t n;
};

/* A file's "normalizer" (null: no step); name is the file's, for errors. On failure *to
 * must be freed too. */
sr1_status sr1__normalizer_load(struct sr1__normalizer *to, const json_t *o,
                                const char *name);
void sr1__normalizer_free(struct sr1__normalizer *n);

/* do_lower_case, strip_accents and tokenize_chinese_chars of tokenizer_config.json, if
 * present, override the settings of BertNormalizer, as in transformers. */
void sr1__normalizer_configure(struct sr1__normalizer *n, const json_t *config);

/* Take text (valid UTF-8) through all steps: *text and *n then stand in one of the two
 * buffers if anything changed. continued: steps that put something in front do not. */
sr1_status sr1__normalizer_run(const struct sr1__normalizer *steps,
                               struct sr1__buf room[2], const char **text, size_t *n,
                               int continued);

/* How many bytes the first character of text (n > 0) becomes; 0 where a step removes it,
 * but for Precompiled: in the reference the next character then has its place. */
sr1_status sr1__normalizer_first_char(const struct sr1__normalizer *steps,
                                      struct sr1__buf room[2], const char *text, size_t n,
                                      size_t *first);

#endif
