/* retrieval/search/porter.c - M. F. Porter, "An algorithm for suffix stripping", 1980,
 * with the three departures of the author's later C program, which Lucene shares: "bli"
 * stands for "abli" in step 2, "logi" becomes "log" there, and words of one or two
 * letters stay. Each step strips or replaces the longest suffix of its table that fits.
 * Bytes of characters beyond ASCII count as consonants: a run of them has the measure
 * that one consonant has. */
#include "retrieval/search/porter.h"

#include <string.h>

struct stem_word {
    char *s;
    size_t n;
};

struct suffix_rule {
    const char *suffix;
    size_t n;
    const char *replacement;
};

#define RULE(suffix, replacement)                                                        \
    {                                                                                    \
        suffix, sizeof(suffix) - 1, replacement                                          \
    }
#define ENDS(w, suffix, stem) ends_with_suffix(w, suffix, sizeof(suffix) - 1, stem)

static int is_vowel(const struct stem_word *w, size_t i)
{
    switch (w->s[i]) {
    case 'a':
    case 'e':
    case 'i':
    case 'o':
    case 'u':
        return 1;
    case 'y':
        return i > 0 && !is_vowel(w, i - 1);
    default:
        return 0;
    }
}

/* m of s[0..n) = [C](VC)^m[V]. */
static int measure_stem(const struct stem_word *w, size_t n)
{
    int m = 0;
    int vowel_before = 0;

    for (size_t i = 0; i < n; i++) {
        int vowel = w->s[i] == 'y' ? i > 0 && !vowel_before : is_vowel(w, i);

        m += vowel_before && !vowel;
        vowel_before = vowel;
    }
    return m;
}

static int has_vowel(const struct stem_word *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is_vowel(w, i))
            return 1;
    }
    return 0;
}

static int ends_with_suffix(const struct stem_word *w, const char *suffix, size_t n,
                            size_t *stem)
{
    if (n > w->n || w->s[w->n - 1] != suffix[n - 1] ||
        memcmp(w->s + w->n - n, suffix, n) != 0)
        return 0;
    *stem = w->n - n;
    return 1;
}

/* Bytes of the last character when it stands twice and is a consonant, else 0. */
static size_t double_consonant(const struct stem_word *w)
{
    size_t width = 1;

    while (width < w->n && ((unsigned char)w->s[w->n - width] & 0xC0) == 0x80)
        width++;
    if (width > 3 || 2 * width > w->n || is_vowel(w, w->n - 1))
        return 0;
    return memcmp(w->s + w->n - width, w->s + w->n - 2 * width, width) == 0 ? width : 0;
}

/* s[0..n) ends consonant, vowel, consonant, the last not w, x or y. */
static int ends_cvc(const struct stem_word *w, size_t n)
{
    size_t last = n > 0 ? n - 1 : 0;

    while (last > 0 && ((unsigned char)w->s[last] & 0xC0) == 0x80)
        last--;
    if (last < 2 || is_vowel(w, last) || !is_vowel(w, last - 1) || is_vowel(w, last - 2))
        return 0;
    return strchr("wxy", w->s[last]) == NULL;
}

static void replace_suffix(struct stem_word *w, size_t stem, const char *with)
{
    size_t n = strlen(with);

    memcpy(w->s + stem, with, n);
    w->n = stem + n;
}

/* The first rule whose suffix fits decides; it acts when the measure before it is >
 * least. */
static void apply_rules(struct stem_word *w, const struct suffix_rule *rules, int least)
{
    size_t stem;

    for (; rules->suffix != NULL; rules++) {
        if (!ends_with_suffix(w, rules->suffix, rules->n, &stem))
            continue;
        if (measure_stem(w, stem) > least)
            replace_suffix(w, stem, rules->replacement);
        return;
    }
}

static void strip_plurals(struct stem_word *w)
{
    size_t stem;

    if (w->s[w->n - 1] != 's')
        return;
    if (ENDS(w, "sses", &stem) || ENDS(w, "ies", &stem))
        w->n -= 2;
    else if (w->n > 1 && w->s[w->n - 2] != 's')
        w->n -= 1;
}

static void past_and_progressive(struct stem_word *w)
{
    size_t stem;
    size_t width;

    if (ENDS(w, "eed", &stem)) {
        if (measure_stem(w, stem) > 0)
            w->n--;
        return;
    }
    if (!(ENDS(w, "ed", &stem) || ENDS(w, "ing", &stem)) || !has_vowel(w, stem))
        return;
    w->n = stem;
    if (ENDS(w, "at", &stem) || ENDS(w, "bl", &stem) || ENDS(w, "iz", &stem)) {
        w->s[w->n++] = 'e';
        return;
    }
    width = double_consonant(w);
    if (width > 0) {
        if (strchr("lsz", w->s[w->n - 1]) == NULL)
            w->n -= width;
    } else if (measure_stem(w, w->n) == 1 && ends_cvc(w, w->n)) {
        w->s[w->n++] = 'e';
    }
}

static void final_y(struct stem_word *w)
{
    if (w->n > 1 && w->s[w->n - 1] == 'y' && has_vowel(w, w->n - 1))
        w->s[w->n - 1] = 'i';
}

static const struct suffix_rule step2[] = {
    RULE("ational", "ate"), RULE("tional", "tion"), RULE("enci", "ence"),
    RULE("anci", "ance"),   RULE("izer", "ize"),    RULE("bli", "ble"),
    RULE("alli", "al"),     RULE("entli", "ent"),   RULE("eli", "e"),
    RULE("ousli", "ous"),   RULE("ization", "ize"), RULE("ation", "ate"),
    RULE("ator", "ate"),    RULE("alism", "al"),    RULE("iveness", "ive"),
    RULE("fulness", "ful"), RULE("ousness", "ous"), RULE("aliti", "al"),
    RULE("iviti", "ive"),   RULE("biliti", "ble"),  RULE("logi", "log"),
    {NULL, 0, NULL},
};

static const struct suffix_rule step3[] = {
    RULE("icate", "ic"), RULE("ative", ""), RULE("alize", "al"), RULE("iciti", "ic"),
    RULE("ical", "ic"),  RULE("ful", ""),   RULE("ness", ""),    {NULL, 0, NULL},
};

static const struct suffix_rule step4[] = {
    RULE("al", ""),    RULE("ance", ""), RULE("ence", ""), RULE("er", ""),
    RULE("ic", ""),    RULE("able", ""), RULE("ible", ""), RULE("ant", ""),
    RULE("ement", ""), RULE("ment", ""), RULE("ent", ""),  RULE("ou", ""),
    RULE("ism", ""),   RULE("ate", ""),  RULE("iti", ""),  RULE("ous", ""),
    RULE("ive", ""),   RULE("ize", ""),  {NULL, 0, NULL},
};

/* Step 4 with "ion", which counts the s or t before it as part of the stem. */
static void long_suffixes(struct stem_word *w)
{
    size_t stem;

    if (ENDS(w, "ion", &stem)) {
        if (stem > 0 && (w->s[stem - 1] == 's' || w->s[stem - 1] == 't') &&
            measure_stem(w, stem) > 1)
            w->n = stem;
        return;
    }
    apply_rules(w, step4, 1);
}

static void final_e_and_l(struct stem_word *w)
{
    int m = measure_stem(w, w->n);

    if (w->s[w->n - 1] == 'e' && (m > 1 || (m == 1 && !ends_cvc(w, w->n - 1))))
        w->n--;
    if (w->s[w->n - 1] == 'l' && double_consonant(w) && m > 1)
        w->n--;
}

/* Letters as UTF-16 units, as far as telling 1 and 2 from more needs. */
static int has_three_letters(const char *s, size_t n)
{
    size_t units = 0;

    for (size_t i = 0; i < n && units < 3; i++)
        units +=
            ((unsigned char)s[i] & 0xC0) != 0x80 ? 1 + ((unsigned char)s[i] >= 0xF0) : 0;
    return units >= 3;
}

size_t sr1__porter_stem(char *s, size_t n)
{
    struct stem_word w = {s, n};

    if (!has_three_letters(s, n))
        return n;
    strip_plurals(&w);
    past_and_progressive(&w);
    final_y(&w);
    apply_rules(&w, step2, 0);
    apply_rules(&w, step3, 0);
    long_suffixes(&w);
    final_e_and_l(&w);
    return w.n;
}
