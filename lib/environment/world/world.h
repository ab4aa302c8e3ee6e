/* environment/world/world.h - the parts of a made-up world, shared by the files of this
 * module.
 *
 *     names.c                 syllables, the tokenizer, pools of names
 *     facts.c                 things and facts, passages, questions
 *     world_demonstrations.c  demonstrations
 *     speech.c                protocols
 *     world_write.c           the files */
#ifndef SR1__WORLD_WORLD_H
#define SR1__WORLD_WORLD_H

#include "base/buf.h"
#include "base/rng.h"

#include <searchr1/env.h>
#include <searchr1/search.h>
#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/world.h>

/* ---- protocols ---- */

#define SR1__SPEECH_MAX 16

/* How demonstrations in one protocol are written. */
struct sr1__speech {
    const char *protocol;
    const char *environment; /* that carries its actions out */
    const char *tags[8];     /* think, act, result, answer: open and close each */
    const char *call[2];     /* what stands before and after a query in an action */
    const char *broken[2];   /* the same, gone wrong; NULL: an action cannot be wrong */
    const char *phrases[SR1__SPEECH_MAX];  /* the tokenizer sees them too, up to NULL */
    const char *starters[SR1__SPEECH_MAX]; /* words that stand behind a line end */
    int32_t vocab;                         /* of the tokenizer */
};

/* NULL: "search-r1". NULL and SR1_E_NOT_FOUND for a protocol without demonstrations. */
const struct sr1__speech *sr1__speech_find(const char *protocol);

/* ---- names ---- */

#define SR1__SYLLABLES 160
#define SR1__NAME_MAX 8

enum { SR1__POOL_TRAIN, SR1__POOL_VALIDATION, SR1__POOL_TEST, SR1__POOLS };

/* Names of two syllables that are two tokens each, in random order; handed out once. */
struct sr1__pool_names {
    char (*names)[SR1__NAME_MAX];
    size_t n;
    size_t used;
};

struct sr1__names {
    char syllables[SR1__SYLLABLES][4]; /* lower case */
    struct sr1__pool_names pools[SR1__POOLS];
};

/* Draw syllables, train the tokenizer into folder/tokenizer, open it, fill the pools. */
sr1_status sr1__names_make(struct sr1__names *n, const struct sr1__speech *speech,
                           struct sr1__rng *rng, const char *folder,
                           sr1_tokenizer **tokenizer);
void sr1__names_free(struct sr1__names *n);
/* The next unused name; NULL and SR1_E_LIMIT when the pool is empty. */
const char *sr1__names_take(struct sr1__pool_names *p);

/* ---- things and facts ---- */

enum sr1__kind {
    SR1__COUNTRY,
    SR1__CITY,
    SR1__PERSON,
    SR1__COMPANY,
    SR1__HOTEL,
    SR1__BOOK,
    SR1__RIVER,
    SR1__KINDS
};

struct sr1__kind_row {
    int32_t count;      /* in a world of scale 1 */
    const char *prefix; /* of the name as written: "Song of " */
    const char *suffix; /* " Labs" */
};
extern const struct sr1__kind_row sr1__kind_table[SR1__KINDS];

/* Each kind is the subject of exactly one relation. Texts have {s} and {o}. */
struct sr1__relation {
    enum sr1__kind subject, object;
    const char *word; /* stands in every passage of the relation */
    const char *passages[2];
    const char *question;
};
extern const struct sr1__relation sr1__relations[SR1__KINDS];

/* Questions over two facts: the fact of the first's object is asked for. */
struct sr1__chain {
    enum sr1__kind first;
    const char *question;
};
#define SR1__CHAINS 5
extern const struct sr1__chain sr1__chains[SR1__CHAINS];

/* Passages that state no fact but mention two things. */
struct sr1__distractor_text {
    enum sr1__kind first, second;
    const char *text;
};
#define SR1__DISTRACTOR_TEXTS 6
extern const struct sr1__distractor_text sr1__distractor_texts[SR1__DISTRACTOR_TEXTS];

struct sr1__thing {
    enum sr1__kind kind;
    const char *name; /* borrowed from a pool */
    int32_t object;   /* the thing its fact leads to */
    int32_t passage;  /* which phrasing */
};

struct sr1__world {
    struct sr1__thing *things; /* kind by kind */
    int32_t n_things;
    int32_t begin[SR1__KINDS + 1]; /* of each kind */
    int32_t n_distractors;
    uint64_t text_seed; /* of the distracting passages */
};

/* A world of this scale with names from a pool. */
sr1_status sr1__world_make(struct sr1__world *w, double scale,
                           struct sr1__pool_names *names, struct sr1__rng *rng);
void sr1__world_free(struct sr1__world *w);

/* ---- text ---- */

/* The name as written: "Song of Bakdel". */
void sr1__text_name(struct sr1__buf *b, const struct sr1__world *w, int32_t thing);
/* The passage of thing's fact. */
void sr1__text_passage(struct sr1__buf *b, const struct sr1__world *w, int32_t thing);
/* Distracting passage i; mentions two things. *about is the second. */
void sr1__text_distractor(struct sr1__buf *b, const struct sr1__world *w, int32_t i,
                          int32_t *about);
/* Text with {s} replaced by thing's written name. */
void sr1__text_question(struct sr1__buf *b, const char *text, const struct sr1__world *w,
                        int32_t thing);

/* A question: one hop (chain < 0) about thing, or a chain that begins with it. */
struct sr1__question {
    int32_t thing;
    int32_t chain;
};
/* All questions of a world, one-hop first, each part shuffled; free with sr1__free. */
sr1_status sr1__questions(const struct sr1__world *w, struct sr1__rng *rng,
                          struct sr1__question **out, size_t *n, size_t *n_one_hop);
/* The thing that is the answer. */
int32_t sr1__question_answer(const struct sr1__world *w, const struct sr1__question *q);
const char *sr1__question_text(const struct sr1__question *q, const struct sr1__world *w);

/* ---- demonstrations ---- */

/* Worlds that demonstrations are about, with an engine over all their passages. The ids
 * of passages are "WORLD/THING" (a fact) and "WORLD/d/THING/N" (distractor N, about
 * THING). */
#define SR1__DEMO_TOP_K 2

struct sr1__demo_worlds {
    struct sr1__world *worlds;
    int32_t n;
    sr1_search *engine;
    sr1_env *env; /* answers actions with what the engine finds */
    const struct sr1__speech *speech;
    double two_hops;              /* share of questions over two facts */
    struct sr1__pool_names fresh; /* names for lists, not those of any world */
};

/* Append one JSON line: a demonstration of a stage (0..4), drawn from rng. */
sr1_status sr1__world_append_demo(struct sr1__buf *out, int32_t stage,
                                  struct sr1__rng *rng, const struct sr1__demo_worlds *d);

#endif
