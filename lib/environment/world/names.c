/* environment/world/names.c - names that a model cannot know.
 *
 * The tokenizer is trained on the world's phrases without any name, plus each syllable
 * alone in both its forms (" Bak", "del"), so every name is two tokens in every world. */
#include "environment/world/world.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static const char consonants[] = "bdfgklmnprstvz";
static const char vowels[] = "aeiou";

#define SYLLABLE_WEIGHT 400
#define PHRASE_WEIGHT 1000

static int has_syllable(const struct sr1__names *n, size_t count, const char *s)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(n->syllables[i], s) == 0)
            return 1;
    return 0;
}

static void draw_syllables(struct sr1__names *n, struct sr1__rng *rng)
{
    for (size_t i = 0; i < SR1__SYLLABLES;) {
        char *s = n->syllables[i];

        s[0] = consonants[sr1__rng_below(rng, sizeof(consonants) - 1)];
        s[1] = vowels[sr1__rng_below(rng, sizeof(vowels) - 1)];
        s[2] = consonants[sr1__rng_below(rng, sizeof(consonants) - 1)];
        s[3] = '\0';
        i += !has_syllable(n, i, s);
    }
}

static void make_name(char out[SR1__NAME_MAX], const char *first, const char *second)
{
    snprintf(out, SR1__NAME_MAX, "%s%s", first, second);
    out[0] = (char)(out[0] - 'a' + 'A');
}

/* ---- the tokenizer ---- */

/* Words as in running text: each phrase begins with a space and is a text of its own,
 * because a line end would be merged with the full stop before it. */
struct phrases {
    struct sr1__buf text; /* NUL between phrases */
    size_t n;
};

/* One phrase, its places for names cut out. */
static void add_phrase(struct phrases *p, const char *text)
{
    sr1__buf_char(&p->text, ' ');
    for (; *text; text++) {
        if (strncmp(text, "{s}", 3) == 0 || strncmp(text, "{o}", 3) == 0)
            text += 2;
        else
            sr1__buf_char(&p->text, *text);
    }
    sr1__buf_char(&p->text, '\0');
    p->n++;
}

static void all_phrases(struct phrases *p, const struct sr1__speech *speech)
{
    static const char *const others[] = {
        "Find:",       "Next:",      "Done.", "Guess.", "Repeat the list.",
        "Look it up.", "then {s} ;", "Labs",  "Hotel",  "Song of"};
    int32_t i;

    for (i = 0; i < SR1__KINDS; i++) {
        const struct sr1__relation *r = &sr1__relations[i];

        add_phrase(p, r->passages[0]);
        add_phrase(p, r->passages[1]);
        add_phrase(p, r->question);
        add_phrase(p, r->word);
    }
    for (i = 0; i < SR1__CHAINS; i++)
        add_phrase(p, sr1__chains[i].question);
    for (i = 0; i < SR1__DISTRACTOR_TEXTS; i++)
        add_phrase(p, sr1__distractor_texts[i].text);
    for (i = 0; i < (int32_t)(sizeof(others) / sizeof(others[0])); i++)
        add_phrase(p, others[i]);
    for (i = 0; i < SR1__SPEECH_MAX && speech->phrases[i] != NULL; i++)
        add_phrase(p, speech->phrases[i]);
}

/* The first word of a question follows a line end, not a space. */
static const char *const starters[] = {"user", "assistant", "In",     "Where", "What",
                                       "Who",  "Through",   "Repeat", "Look"};
#define STARTERS (sizeof(starters) / sizeof(starters[0]))
#define MAX_TEXTS (2 * SR1__SYLLABLES + STARTERS + SR1__SPEECH_MAX + 128)

struct training_texts {
    const char *texts[MAX_TEXTS];
    int64_t weights[MAX_TEXTS];
    size_t n;
    char forms[2 * SR1__SYLLABLES][8];
};

static void add_training_text(struct training_texts *t, const char *text, int64_t weight)
{
    t->texts[t->n] = text;
    t->weights[t->n++] = weight;
}

static void gather_texts(struct training_texts *t, const struct sr1__names *n,
                         const struct phrases *p, const struct sr1__speech *speech)
{
    const char *phrase = sr1__buf_cstr(&p->text);

    for (int32_t i = 0; i < SR1__SYLLABLES; i++) {
        const char *s = n->syllables[i];

        snprintf(t->forms[2 * i], sizeof(t->forms[0]), " %c%s", s[0] - 'a' + 'A', s + 1);
        snprintf(t->forms[2 * i + 1], sizeof(t->forms[0]), "%s", s);
        add_training_text(t, t->forms[2 * i], SYLLABLE_WEIGHT);
        add_training_text(t, t->forms[2 * i + 1], SYLLABLE_WEIGHT);
    }
    for (size_t i = 0; i < STARTERS; i++)
        add_training_text(t, starters[i], PHRASE_WEIGHT);
    for (size_t i = 0; i < SR1__SPEECH_MAX && speech->starters[i] != NULL; i++)
        add_training_text(t, speech->starters[i], PHRASE_WEIGHT);
    for (size_t i = 0; i < p->n && t->n < MAX_TEXTS; i++) {
        add_training_text(t, phrase, PHRASE_WEIGHT);
        phrase += strlen(phrase) + 1;
    }
}

static sr1_status train_tokenizer(const struct sr1__names *n,
                                  const struct sr1__speech *speech, const char *folder)
{
    sr1_tokenizer_train_options o = {.struct_size = sizeof(o),
                                     .vocab_size = speech->vocab,
                                     .added_tokens = speech->tags,
                                     .n_added_tokens =
                                         sizeof(speech->tags) / sizeof(speech->tags[0])};
    struct training_texts *t = sr1__calloc(1, sizeof(*t));
    struct phrases p = {.n = 0};
    sr1_status st = t ? SR1_OK : sr1__fail_nomem("texts");

    sr1__buf_init(&p.text, 0);
    all_phrases(&p, speech);
    if (st == SR1_OK)
        st = sr1__buf_status(&p.text, "phrases");
    if (st == SR1_OK) {
        gather_texts(t, n, &p, speech);
        st = sr1_tokenizer_train(t->texts, NULL, t->weights, t->n, &o, folder);
    }
    sr1__buf_free(&p.text);
    sr1__free(t);
    return st;
}

/* ---- pools ---- */

static sr1_status is_two_tokens(const sr1_tokenizer *t, const char *name, int *yes)
{
    char text[SR1__NAME_MAX + 1];
    int32_t *ids = NULL;
    size_t n = 0;

    snprintf(text, sizeof(text), " %s", name);
    SR1__TRY(
        sr1_tokenizer_encode(t, text, strlen(text), SR1_ENCODE_ADDED_AS_TEXT, &ids, &n));
    sr1_free(ids);
    *yes = n == 2;
    return SR1_OK;
}

static sr1_status pool_add(struct sr1__pool_names *p, const char *name)
{
    memcpy(p->names[p->n++], name, SR1__NAME_MAX);
    return SR1_OK;
}

/* One name in ten for validation, one for the test, the rest for training. */
static sr1_status fill_pools(struct sr1__names *n, const sr1_tokenizer *t,
                             struct sr1__rng *rng)
{
    static const int pool_of[10] = {SR1__POOL_VALIDATION, SR1__POOL_TEST};
    int64_t total = SR1__SYLLABLES * SR1__SYLLABLES, taken = 0;
    int64_t *order = sr1__calloc((size_t)total, sizeof(*order));

    SR1__CHECK_ALLOC(order, "names");
    for (int64_t i = 0; i < total; i++)
        order[i] = i;
    sr1__rng_shuffle(rng, order, (size_t)total);
    for (int64_t i = 0; i < total; i++) {
        char name[SR1__NAME_MAX] = {0};
        int fits = 0;
        sr1_status st;

        make_name(name, n->syllables[order[i] / SR1__SYLLABLES],
                  n->syllables[order[i] % SR1__SYLLABLES]);
        st = is_two_tokens(t, name, &fits);
        if (st == SR1_OK && fits)
            st = pool_add(
                &n->pools[taken % 10 < 2 ? pool_of[taken % 10] : SR1__POOL_TRAIN], name);
        taken += fits;
        if (st != SR1_OK) {
            sr1__free(order);
            return st;
        }
    }
    sr1__free(order);
    return SR1_OK;
}

sr1_status sr1__names_make(struct sr1__names *n, const struct sr1__speech *speech,
                           struct sr1__rng *rng, const char *folder,
                           sr1_tokenizer **tokenizer)
{
    char *path = sr1__path_join(folder, "tokenizer");
    sr1_tokenizer *t = NULL;
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    memset(n, 0, sizeof(*n));
    draw_syllables(n, rng);
    for (int i = 0; i < SR1__POOLS; i++) {
        n->pools[i].names = sr1__calloc(SR1__SYLLABLES * SR1__SYLLABLES, SR1__NAME_MAX);
        if (!n->pools[i].names && st == SR1_OK)
            st = sr1__fail_nomem("names");
    }
    if (st == SR1_OK)
        st = train_tokenizer(n, speech, path);
    if (st == SR1_OK)
        st = sr1_tokenizer_open(&t, path);
    if (st == SR1_OK)
        st = fill_pools(n, t, rng);
    sr1__free(path);
    if (st != SR1_OK) {
        sr1_tokenizer_free(t);
        sr1__names_free(n);
        return st;
    }
    *tokenizer = t;
    return SR1_OK;
}

void sr1__names_free(struct sr1__names *n)
{
    for (int i = 0; i < SR1__POOLS; i++) {
        sr1__free(n->pools[i].names);
        n->pools[i].names = NULL;
    }
}

const char *sr1__names_take(struct sr1__pool_names *p)
{
    if (p->used == p->n) {
        sr1__fail(SR1_E_LIMIT,
                  "the %zu names there are do not suffice; ask for smaller or "
                  "fewer worlds",
                  p->n);
        return NULL;
    }
    return p->names[p->used++];
}
