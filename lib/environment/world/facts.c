/* environment/world/facts.c - the tables that a world is made from: kinds of things,
 * relations, phrases. */
#include "environment/world/world.h"

#include "base/mem.h"

#include <string.h>

const struct sr1__kind_row sr1__kind_table[SR1__KINDS] = {
    [SR1__COUNTRY] = {40, "", ""},      [SR1__CITY] = {120, "", ""},
    [SR1__PERSON] = {240, "", ""},      [SR1__COMPANY] = {100, "", " Labs"},
    [SR1__HOTEL] = {100, "Hotel ", ""}, [SR1__BOOK] = {100, "Song of ", ""},
    [SR1__RIVER] = {60, "", ""},
};

/* A name always has a space on both sides, so that it is always the same tokens. */
const struct sr1__relation sr1__relations[SR1__KINDS] = {
    [SR1__COUNTRY] = {SR1__COUNTRY,
                      SR1__CITY,
                      "capital",
                      {"The capital of {s} is {o} .",
                       "The old capital of {s} , {o} , is large ."},
                      "What is the capital of {s} ?"},
    [SR1__CITY] = {SR1__CITY,
                   SR1__COUNTRY,
                   "country",
                   {"The city {s} lies in the country {o} .",
                    "People in {s} love their country {o} ."},
                   "In which country is {s} ?"},
    [SR1__PERSON] = {SR1__PERSON,
                     SR1__CITY,
                     "born",
                     {"The teacher {s} was born in {o} .",
                      "In spring {s} was born in {o} ."},
                     "Where was {s} born ?"},
    [SR1__COMPANY] = {SR1__COMPANY,
                      SR1__PERSON,
                      "founded",
                      {"The company {s} was founded by {o} .",
                       "Long ago {s} was founded by {o} ."},
                      "Who founded {s} ?"},
    [SR1__HOTEL] = {SR1__HOTEL,
                    SR1__CITY,
                    "stands",
                    {"The famous {s} stands in {o} .", "The house {s} stands in {o} ."},
                    "In which city is {s} ?"},
    [SR1__BOOK] = {SR1__BOOK,
                   SR1__PERSON,
                   "written",
                   {"The book {s} was written by {o} .",
                    "In winter {s} was written by {o} ."},
                   "Who wrote {s} ?"},
    [SR1__RIVER] = {SR1__RIVER,
                    SR1__CITY,
                    "flows",
                    {"The river {s} flows through {o} .",
                     "Slowly {s} flows through {o} ."},
                    "Through which city does {s} flow ?"},
};

const struct sr1__chain sr1__chains[SR1__CHAINS] = {
    {SR1__PERSON, "In which country was {s} born ?"},
    {SR1__COMPANY, "Where was the founder of {s} born ?"},
    {SR1__BOOK, "Where was the writer of {s} born ?"},
    {SR1__HOTEL, "In which country does {s} stand ?"},
    {SR1__RIVER, "In which country does {s} flow ?"},
};

const struct sr1__distractor_text sr1__distractor_texts[SR1__DISTRACTOR_TEXTS] = {
    {SR1__PERSON, SR1__PERSON, "One day {s} met {o} ."},
    {SR1__COMPANY, SR1__PERSON, "Later {s} hired {o} ."},
    {SR1__CITY, SR1__CITY, "A road links {s} and {o} ."},
    {SR1__PERSON, SR1__HOTEL, "A guest , {s} , slept at {o} ."},
    {SR1__PERSON, SR1__BOOK, "As a child {s} read {o} ."},
    {SR1__RIVER, SR1__COUNTRY, "A map shows {s} and {o} ."},
};

static int32_t scale_count(int32_t count, double scale)
{
    int32_t n = (int32_t)(count * scale + 0.5);

    return n > 1 ? n : 2;
}

static int32_t draw_thing(const struct sr1__world *w, enum sr1__kind kind,
                          struct sr1__rng *rng)
{
    int32_t n = w->begin[kind + 1] - w->begin[kind];

    return w->begin[kind] + (int32_t)sr1__rng_below(rng, (uint64_t)n);
}

sr1_status sr1__world_make(struct sr1__world *w, double scale,
                           struct sr1__pool_names *names, struct sr1__rng *rng)
{
    memset(w, 0, sizeof(*w));
    for (int k = 0; k < SR1__KINDS; k++)
        w->begin[k + 1] = w->begin[k] + scale_count(sr1__kind_table[k].count, scale);
    w->n_things = w->begin[SR1__KINDS];
    w->n_distractors = (int32_t)(0.6 * w->n_things);
    w->text_seed = sr1__rng_u64(rng);
    SR1__CALLOC(w->things, (size_t)w->n_things, "world");
    for (int k = 0; k < SR1__KINDS; k++) {
        for (int32_t i = w->begin[k]; i < w->begin[k + 1]; i++) {
            struct sr1__thing *t = &w->things[i];

            t->kind = (enum sr1__kind)k;
            t->name = sr1__names_take(names);
            if (!t->name) {
                sr1__world_free(w);
                return SR1_E_LIMIT;
            }
            t->object = draw_thing(w, sr1__relations[k].object, rng);
            t->passage = (int32_t)sr1__rng_below(rng, 2);
        }
    }
    return SR1_OK;
}

void sr1__world_free(struct sr1__world *w)
{
    sr1__free(w->things);
    w->things = NULL;
}

/* ---- text ---- */

void sr1__text_name(struct sr1__buf *b, const struct sr1__world *w, int32_t thing)
{
    const struct sr1__thing *t = &w->things[thing];

    sr1__buf_str(b, sr1__kind_table[t->kind].prefix);
    sr1__buf_str(b, t->name);
    sr1__buf_str(b, sr1__kind_table[t->kind].suffix);
}

static void append_filled_phrase(struct sr1__buf *b, const char *text,
                                 const struct sr1__world *w, int32_t s, int32_t o)
{
    for (; *text; text++) {
        if (strncmp(text, "{s}", 3) == 0) {
            sr1__text_name(b, w, s);
            text += 2;
        } else if (strncmp(text, "{o}", 3) == 0) {
            sr1__text_name(b, w, o);
            text += 2;
        } else {
            sr1__buf_char(b, *text);
        }
    }
}

void sr1__text_passage(struct sr1__buf *b, const struct sr1__world *w, int32_t thing)
{
    const struct sr1__thing *t = &w->things[thing];

    append_filled_phrase(b, sr1__relations[t->kind].passages[t->passage], w, thing,
                         t->object);
}

void sr1__text_distractor(struct sr1__buf *b, const struct sr1__world *w, int32_t i,
                          int32_t *about)
{
    const struct sr1__distractor_text *d;
    struct sr1__rng rng;
    int32_t first;

    sr1__rng_seed(&rng, w->text_seed, (uint64_t)i);
    d = &sr1__distractor_texts[sr1__rng_below(&rng, SR1__DISTRACTOR_TEXTS)];
    first = draw_thing(w, d->first, &rng);
    *about = draw_thing(w, d->second, &rng);
    append_filled_phrase(b, d->text, w, first, *about);
}

void sr1__text_question(struct sr1__buf *b, const char *text, const struct sr1__world *w,
                        int32_t thing)
{
    append_filled_phrase(b, text, w, thing, thing);
}

/* ---- questions ---- */

static void shuffle_questions(struct sr1__question *q, size_t n, struct sr1__rng *rng)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)sr1__rng_below(rng, i);
        struct sr1__question t = q[i - 1];

        q[i - 1] = q[j];
        q[j] = t;
    }
}

sr1_status sr1__questions(const struct sr1__world *w, struct sr1__rng *rng,
                          struct sr1__question **out, size_t *n, size_t *n_one_hop)
{
    size_t max = (size_t)w->n_things * 2;
    struct sr1__question *q = sr1__calloc(max, sizeof(*q));
    size_t k = 0;

    SR1__CHECK_ALLOC(q, "questions");
    for (int32_t i = 0; i < w->n_things; i++)
        q[k++] = (struct sr1__question){i, -1};
    *n_one_hop = k;
    shuffle_questions(q, k, rng);
    for (int32_t c = 0; c < SR1__CHAINS; c++)
        for (int32_t i = w->begin[sr1__chains[c].first];
             i < w->begin[sr1__chains[c].first + 1]; i++)
            q[k++] = (struct sr1__question){i, c};
    shuffle_questions(q + *n_one_hop, k - *n_one_hop, rng);
    *out = q;
    *n = k;
    return SR1_OK;
}

int32_t sr1__question_answer(const struct sr1__world *w, const struct sr1__question *q)
{
    int32_t first = w->things[q->thing].object;

    return q->chain < 0 ? first : w->things[first].object;
}

const char *sr1__question_text(const struct sr1__question *q, const struct sr1__world *w)
{
    return q->chain < 0 ? sr1__relations[w->things[q->thing].kind].question
                        : sr1__chains[q->chain].question;
}
