/* signal/reward/match.c - Search-R1's comparisons (scripts of SQuAD): equal, contained,
 * or common words, after
 *
 *     lower case -> ASCII punctuation deleted -> words a, an, the replaced by a space
 *     -> words joined by single spaces
 *
 * Words are bounded as by \b of Python's re: letters and digits. */
#include "signal/reward/match.h"

#include "base/mem.h"
#include "base/text.h"
#include "signal/reward/chars.h"

#include <searchr1/reward.h>
#include <searchr1/ext/text_metrics.h>

#include <stdlib.h>
#include <string.h>

static int is_punctuation(uint32_t cp)
{
    return cp < 0x80 && cp != 0 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)cp);
}

static void drop_punctuation(struct sr1__chars *c)
{
    size_t i, n = 0;

    for (i = 0; i < c->n; i++)
        if (!is_punctuation(c->cp[i]))
            c->cp[n++] = c->cp[i];
    c->n = n;
}

static int is_article(const uint32_t *cp, size_t n)
{
    return (n == 1 && cp[0] == 'a') || (n == 2 && cp[0] == 'a' && cp[1] == 'n') ||
           (n == 3 && cp[0] == 't' && cp[1] == 'h' && cp[2] == 'e');
}

static void blank_articles(struct sr1__chars *c)
{
    size_t begin, end, i;

    for (begin = 0; begin < c->n; begin = end + 1) {
        for (end = begin; end < c->n && sr1__is_alnum(c->cp[end]);)
            end++;
        if (is_article(c->cp + begin, end - begin))
            for (i = begin; i < end; i++)
                c->cp[i] = ' ';
    }
}

static void put_words(const struct sr1__chars *c, struct sr1__buf *out)
{
    size_t begin, end, first = out->len;

    for (begin = 0; begin < c->n; begin = end + 1) {
        for (end = begin; end < c->n && !sr1__is_space(c->cp[end]);)
            end++;
        if (end == begin)
            continue;
        if (out->len > first)
            sr1__buf_char(out, ' ');
        sr1__chars_encode(c->cp + begin, end - begin, out);
    }
}

/* Append the normalised text. */
static sr1_status normalize_answer(struct sr1__str text, struct sr1__buf *out)
{
    struct sr1__chars c = {NULL, 0};
    sr1_status status = sr1__chars_decode(&c, text.s, text.n);

    if (status == SR1_OK)
        status = sr1__chars_lower(&c);
    if (status == SR1_OK) {
        drop_punctuation(&c);
        blank_articles(&c);
        put_words(&c, out);
        status = sr1__buf_status(out, "normalised text");
    }
    sr1__chars_free(&c);
    return status;
}

/* Both texts normalised, for one comparison. */
struct normalized_pair {
    struct sr1__buf answer, truth;
};

static void pair_free(struct normalized_pair *p)
{
    sr1__buf_free(&p->answer);
    sr1__buf_free(&p->truth);
}

static sr1_status pair_make(struct normalized_pair *p, struct sr1__str answer,
                            struct sr1__str truth)
{
    sr1_status status;

    sr1__buf_init(&p->answer, 0);
    sr1__buf_init(&p->truth, 0);
    status = normalize_answer(answer, &p->answer);
    if (status == SR1_OK)
        status = normalize_answer(truth, &p->truth);
    if (status != SR1_OK)
        pair_free(p);
    return status;
}

static int text_contains(const struct sr1__buf *hay, const struct sr1__buf *needle)
{
    return needle->len == 0 ||
           memmem(sr1__buf_cstr(hay), hay->len, needle->data, needle->len) != NULL;
}

sr1_status sr1__score_exact(struct sr1__str answer, struct sr1__str truth,
                            const void *arg, double *out)
{
    struct normalized_pair p;

    (void)arg;
    SR1__TRY(pair_make(&p, answer, truth));
    *out = p.answer.len == p.truth.len && text_contains(&p.answer, &p.truth);
    pair_free(&p);
    return SR1_OK;
}

sr1_status sr1__score_sub(struct sr1__str answer, struct sr1__str truth, const void *arg,
                          double *out)
{
    struct normalized_pair p;

    (void)arg;
    SR1__TRY(pair_make(&p, answer, truth));
    *out = text_contains(&p.answer, &p.truth);
    pair_free(&p);
    return SR1_OK;
}

/* ---- common words ---- */

struct words {
    struct sr1__str *w; /* sorted; borrowed from the text */
    size_t n;
};

static int compare_words(const struct sr1__str *a, const struct sr1__str *b)
{
    int order = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);

    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static int compare_words_for_sort(const void *a, const void *b)
{
    return compare_words(a, b);
}

/* text is normalised: words are joined by single spaces. */
static sr1_status split_into_words(const struct sr1__buf *text, struct words *out)
{
    const char *at = sr1__buf_cstr(text), *end = at + text->len;

    out->n = 0;
    SR1__CALLOC(out->w, text->len / 2 + 1, "words of a text");
    while (at < end) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        const char *stop = space != NULL ? space : end;

        out->w[out->n].s = at;
        out->w[out->n++].n = (size_t)(stop - at);
        at = stop + 1;
    }
    qsort(out->w, out->n, sizeof *out->w, compare_words_for_sort);
    return SR1_OK;
}

/* Words in both, each as often as in both. */
static size_t count_common_words(const struct words *a, const struct words *b)
{
    size_t i = 0, j = 0, common = 0;

    while (i < a->n && j < b->n) {
        int order = compare_words(&a->w[i], &b->w[j]);

        common += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return common;
}

sr1_status sr1__score_f1(struct sr1__str answer, struct sr1__str truth, const void *arg,
                         double *out)
{
    struct words a = {NULL, 0}, t = {NULL, 0};
    struct normalized_pair p;
    sr1_status status;

    (void)arg;
    SR1__TRY(pair_make(&p, answer, truth));
    status = split_into_words(&p.answer, &a);
    if (status == SR1_OK)
        status = split_into_words(&p.truth, &t);
    if (status == SR1_OK)
        *out = a.n == 0 || t.n == 0
                   ? a.n == t.n
                   : sr1__f_measure(count_common_words(&a, &t), a.n, t.n);
    sr1__free(a.w);
    sr1__free(t.w);
    pair_free(&p);
    return status;
}

/* ---- a text that may hold an answer ---- */

/* normalize_answer of the text in Unicode's normal form C; out is emptied first. */
static sr1_status normalize_composed(struct sr1__str text, struct sr1__buf *out)
{
    struct sr1__buf composed;
    sr1_status status;

    sr1__buf_init(&composed, 0);
    sr1__buf_clear(out);
    status = sr1__compose_text(&text, &composed);
    if (status == SR1_OK)
        status = normalize_answer(text, out);
    sr1__buf_free(&composed);
    return status;
}

sr1_status sr1__holds_answer(struct sr1__str text, const struct sr1__ground_truths *t,
                             int *out)
{
    struct sr1__buf all, truth;
    int found = 0;
    sr1_status status;

    sr1__buf_init(&all, 0);
    sr1__buf_init(&truth, 0);
    status = normalize_composed(text, &all);
    for (size_t i = 0; status == SR1_OK && !found && i < t->n; i++) {
        status = normalize_composed(sr1__ground_truth_at(t, i), &truth);
        found = status == SR1_OK && truth.len > 0 && text_contains(&all, &truth);
    }
    if (status == SR1_OK)
        *out = found;
    sr1__buf_free(&all);
    sr1__buf_free(&truth);
    return status;
}

/* ---- public ---- */

static sr1_status score_best_match(sr1__score_fn score, const char *answer, size_t len,
                                   const char *const *truths, size_t n_truths,
                                   double *out)
{
    struct sr1__ground_truths t = {NULL, truths, n_truths};
    struct sr1__str text = {answer, len};

    SR1__TRY(sr1__check_score_arguments(answer, len, &t, out));
    return sr1__best_score(score, text, &t, NULL, out);
}

sr1_status sr1_reward_exact_match(const char *answer, size_t len,
                                  const char *const *truths, size_t n_truths, double *out)
{
    return score_best_match(sr1__score_exact, answer, len, truths, n_truths, out);
}

sr1_status sr1_reward_sub_match(const char *answer, size_t len, const char *const *truths,
                                size_t n_truths, double *out)
{
    return score_best_match(sr1__score_sub, answer, len, truths, n_truths, out);
}

sr1_status sr1_reward_f1(const char *answer, size_t len, const char *const *truths,
                         size_t n_truths, double *out)
{
    return score_best_match(sr1__score_f1, answer, len, truths, n_truths, out);
}

sr1_status sr1_reward_normalize(const char *text, size_t len, char **out, size_t *out_len)
{
    struct sr1__str given = {text, len};
    struct sr1__buf b;
    sr1_status status;

    if ((text == NULL && len > 0) || out == NULL || out_len == NULL)
        return sr1__fail(SR1_E_INVALID, "normalise: an argument is NULL");
    sr1__buf_init(&b, 0);
    status = normalize_answer(given, &b);
    if (status == SR1_OK) {
        size_t n = b.len;
        char *made = sr1__buf_take(&b);

        SR1__CHECK_ALLOC(made, "normalised text");
        *out = made;
        *out_len = n;
    }
    sr1__buf_free(&b);
    return status;
}
