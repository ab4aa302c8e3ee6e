/* tokenizer/normalise.h - what a file's normalizer does to a text, as a list of steps. */
#ifndef SR1__TOKENIZER_NORMALISE_H
#define SR1__TOKENIZER_NORMALISE_H

#include "base/buf.h"
#include "base/json.h"

#define SR1__STEPS_MAX 16

struct sr1__normal_step_kind;
struct sr1__charsmap;
struct sr1__pattern;

struct sr1__normal_step {
    const struct sr1__normal_step_kind *kind;
    uint32_t parts; /* BertNormalizer's, or sides to strip */
    char *find;     /* Replace: a text, or a pattern */
    struct sr1__pattern *pattern;
    char *put; /* what it is replaced by */
    struct sr1__charsmap *map;
};

struct sr1__normaliser {
    struct sr1__normal_step steps[SR1__STEPS_MAX];
    size_t n;
};

/* A file's "normalizer" (null: no step); name is the file's, for errors. What it has to
 * be freed of is in *to also on failure. */
sr1_status sr1__normaliser_load(struct sr1__normaliser *to, const json_t *o,
                                const char *name);
void sr1__normaliser_free(struct sr1__normaliser *n);

/* do_lower_case, strip_accents and tokenize_chinese_chars of tokenizer_config.json, where
 * they are, count rather than what BertNormalizer says, as in transformers. */
void sr1__normaliser_configure(struct sr1__normaliser *n, const json_t *config);

/* Take text (valid UTF-8) through all steps: *text and *n then stand in one of the two
 * buffers if anything changed. */
sr1_status sr1__normaliser_run(const struct sr1__normaliser *steps,
                               struct sr1__buf room[2], const char **text, size_t *n);

/* How many bytes the first character of text (n > 0) becomes; 0 where a step removes it,
 * but for Precompiled: in the reference the next character then has its place. */
sr1_status sr1__normalise_first(const struct sr1__normaliser *steps,
                                struct sr1__buf room[2], const char *text, size_t n,
                                size_t *first);

#endif
