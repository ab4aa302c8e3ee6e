/* signal/reward/textmetrics.c - BLEU and ROUGE of an answer against gold answers.
 *
 *     BLEU     = BP * exp(mean_n log p_n), n = 1..4;  BP = min(1, exp(1 - ref / len))
 *     ROUGE-n  = F of common n-grams;  ROUGE-L = F of the longest common subsequence
 *
 * Tokens are compared by a 64-bit hash. */
#include "base/mem.h"
#include "base/rng.h"
#include "signal/reward/chars.h"
#include "signal/reward/ground_truths.h"

#include <searchr1/ext/text_metrics.h>

#include <math.h>
#include <stdlib.h>

#define MAX_ORDER 4
#define MAX_LCS_TOKENS 4096

struct tokens {
    uint64_t *id;
    size_t n;
};

/* Han, Kana: written without spaces, so each is a token. */
static int is_ideograph(uint32_t cp)
{
    return (cp >= 0x3041 && cp <= 0x30ff) || (cp >= 0x31f0 && cp <= 0x31ff) ||
           (cp >= 0x3400 && cp <= 0x4dbf) || (cp >= 0x4e00 && cp <= 0x9fff) ||
           (cp >= 0xf900 && cp <= 0xfaff) || (cp >= 0xff66 && cp <= 0xff9f) ||
           (cp >= 0x20000 && cp <= 0x323af);
}

static int is_word_part(uint32_t cp)
{
    return (sr1__is_alnum(cp) || sr1__is_mark(cp)) && !is_ideograph(cp);
}

static void cut_tokens(const struct sr1__chars *c, struct tokens *out)
{
    size_t begin = 0, end;

    while (begin < c->n) {
        for (end = begin; end < c->n && is_word_part(c->cp[end]);)
            end++;
        if (end == begin && is_ideograph(c->cp[begin]) && sr1__is_alnum(c->cp[begin]))
            end++;
        if (end > begin)
            out->id[out->n++] =
                sr1__hash64(c->cp + begin, (end - begin) * sizeof *c->cp, 0);
        begin = end > begin ? end : begin + 1;
    }
}

static sr1_status tokenize_text(struct sr1__str text, struct tokens *out)
{
    struct sr1__chars c = {NULL, 0};
    sr1_status status = sr1__chars_decode(&c, text.s, text.n);

    out->n = 0;
    out->id = NULL;
    if (status == SR1_OK)
        status = sr1__chars_lower(&c);
    if (status == SR1_OK) {
        out->id = sr1__calloc(c.n + 1, sizeof *out->id);
        status = out->id != NULL ? SR1_OK : sr1__fail_nomem("tokens of a text");
    }
    if (status == SR1_OK)
        cut_tokens(&c, out);
    sr1__chars_free(&c);
    return status;
}

static int compare_token_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The n-grams of t, sorted. */
static sr1_status make_ngrams(const struct tokens *t, size_t order, struct tokens *out)
{
    size_t i;

    out->n = t->n >= order ? t->n - order + 1 : 0;
    SR1__CALLOC(out->id, out->n + 1, "n-grams");
    for (i = 0; i < out->n; i++)
        out->id[i] = sr1__hash64(t->id + i, order * sizeof *t->id, order);
    qsort(out->id, out->n, sizeof *out->id, compare_token_ids);
    return SR1_OK;
}

/* Elements in both sorted lists, each as often as in both. */
static size_t count_common_tokens(const struct tokens *a, const struct tokens *b)
{
    size_t i = 0, j = 0, common = 0;

    while (i < a->n && j < b->n) {
        uint64_t x = a->id[i], y = b->id[j];

        common += x == y;
        i += x <= y;
        j += x >= y;
    }
    return common;
}

/* ---- ROUGE ---- */

/* How two token lists are compared. */
typedef sr1_status (*compare_fn)(const struct tokens *answer, const struct tokens *truth,
                                 size_t order, double *out);

static sr1_status compare_rouge_n(const struct tokens *answer, const struct tokens *truth,
                                  size_t order, double *out)
{
    struct tokens a = {NULL, 0}, t = {NULL, 0};
    sr1_status status = make_ngrams(answer, order, &a);

    if (status == SR1_OK)
        status = make_ngrams(truth, order, &t);
    if (status == SR1_OK)
        *out = sr1__f_measure(count_common_tokens(&a, &t), a.n, t.n);
    sr1__free(a.id);
    sr1__free(t.id);
    return status;
}

/* Longest common subsequence; row[t->n + 1] is zeroed. */
static size_t longest_common_subsequence(const struct tokens *a, const struct tokens *t,
                                         uint32_t *row)
{
    size_t i, j;

    for (i = 0; i < a->n; i++) {
        uint32_t diagonal = 0;

        for (j = 0; j < t->n; j++) {
            uint32_t above = row[j + 1];

            if (a->id[i] == t->id[j])
                row[j + 1] = diagonal + 1;
            else if (row[j] > above)
                row[j + 1] = row[j];
            diagonal = above;
        }
    }
    return row[t->n];
}

static sr1_status compare_rouge_l(const struct tokens *answer, const struct tokens *truth,
                                  size_t order, double *out)
{
    uint32_t *row;

    (void)order;
    if (answer->n > MAX_LCS_TOKENS || truth->n > MAX_LCS_TOKENS)
        return sr1__fail(SR1_E_LIMIT, "ROUGE-L: a text has over %d tokens",
                         MAX_LCS_TOKENS);
    SR1__CALLOC(row, truth->n + 1, "ROUGE-L");
    *out = sr1__f_measure(longest_common_subsequence(answer, truth, row), answer->n,
                          truth->n);
    sr1__free(row);
    return SR1_OK;
}

struct comparison {
    compare_fn compare;
    size_t order;
};

/* sr1__score_fn; arg: a const struct comparison *. */
static sr1_status score_tokens(struct sr1__str answer, struct sr1__str truth,
                               const void *arg, double *out)
{
    const struct comparison *c = arg;
    struct tokens a = {NULL, 0}, t = {NULL, 0};
    sr1_status status = tokenize_text(answer, &a);

    if (status == SR1_OK)
        status = tokenize_text(truth, &t);
    if (status == SR1_OK)
        status = c->compare(&a, &t, c->order, out);
    sr1__free(a.id);
    sr1__free(t.id);
    return status;
}

static sr1_status score_best_tokens(const struct comparison *c, const char *answer,
                                    size_t len, const char *const *truths,
                                    size_t n_truths, double *out)
{
    struct sr1__ground_truths t = {NULL, truths, n_truths};
    struct sr1__str text = {answer, len};

    SR1__TRY(sr1__check_score_arguments(answer, len, &t, out));
    return sr1__best_score(score_tokens, text, &t, c, out);
}

sr1_status sr1_metric_rouge_n(const char *answer, size_t len, const char *const *truths,
                              size_t n_truths, int32_t n, double *out)
{
    struct comparison c = {compare_rouge_n, (size_t)n};

    if (n < 1 || n > MAX_ORDER)
        return sr1__fail(SR1_E_INVALID, "ROUGE-n: n must be 1 to %d, got %d", MAX_ORDER,
                         (int)n);
    return score_best_tokens(&c, answer, len, truths, n_truths, out);
}

sr1_status sr1_metric_rouge_l(const char *answer, size_t len, const char *const *truths,
                              size_t n_truths, double *out)
{
    struct comparison c = {compare_rouge_l, 0};

    return score_best_tokens(&c, answer, len, truths, n_truths, out);
}

/* ---- BLEU ---- */

/* What BLEU is computed from. */
struct bleu {
    size_t matched[MAX_ORDER]; /* n-grams of the answer that are in a gold answer */
    size_t total[MAX_ORDER];   /* n-grams of the answer */
    size_t len, ref_len; /* tokens of the answer, of the gold answer closest in length */
};

/* Where the first element of the sorted list stands that is not below x. */
static size_t find_first_not_below(const struct tokens *t, uint64_t x)
{
    size_t begin = 0, end = t->n;

    while (begin < end) {
        size_t mid = begin + (end - begin) / 2;

        if (t->id[mid] < x)
            begin = mid + 1;
        else
            end = mid;
    }
    return begin;
}

/* How often x is in the sorted list. */
static size_t count_sorted_value(const struct tokens *t, uint64_t x)
{
    return (x == UINT64_MAX ? t->n : find_first_not_below(t, x + 1)) -
           find_first_not_below(t, x);
}

/* Raise allowed[i], a count for the i-th n-gram of a, to what one gold answer has. */
static sr1_status raise_allowed_counts(const struct tokens *a, const struct tokens *truth,
                                       size_t order, size_t *allowed)
{
    struct tokens t = {NULL, 0};
    size_t i;

    SR1__TRY(make_ngrams(truth, order, &t));
    for (i = 0; i < a->n; i++) {
        size_t n = count_sorted_value(&t, a->id[i]);

        allowed[i] = n > allowed[i] ? n : allowed[i];
    }
    sr1__free(t.id);
    return SR1_OK;
}

/* n-grams of a, sorted, each counted at most as often as allowed. */
static size_t count_allowed(const struct tokens *a, const size_t *allowed)
{
    size_t i, seen = 0, matched = 0;

    for (i = 0; i < a->n; i++) {
        seen = i > 0 && a->id[i] == a->id[i - 1] ? seen + 1 : 1;
        matched += seen <= allowed[i];
    }
    return matched;
}

static sr1_status count_order(const struct tokens *answer, const struct tokens *truths,
                              size_t n, size_t order, struct bleu *b)
{
    struct tokens a = {NULL, 0};
    size_t *allowed = NULL, i;
    sr1_status status = make_ngrams(answer, order, &a);

    if (status == SR1_OK) {
        allowed = sr1__calloc(a.n + 1, sizeof *allowed);
        status = allowed != NULL ? SR1_OK : sr1__fail_nomem("BLEU");
    }
    for (i = 0; status == SR1_OK && i < n; i++)
        status = raise_allowed_counts(&a, &truths[i], order, allowed);
    if (status == SR1_OK) {
        b->total[order - 1] = a.n;
        b->matched[order - 1] = count_allowed(&a, allowed);
    }
    sr1__free(allowed);
    sr1__free(a.id);
    return status;
}

/* The length closest to len; of two equally close the shorter. */
static size_t closest_length(const struct tokens *truths, size_t n, size_t len)
{
    size_t best = truths[0].n, i;

    for (i = 1; i < n; i++) {
        size_t is = truths[i].n;
        size_t far = is > len ? is - len : len - is;
        size_t best_far = best > len ? best - len : len - best;

        if (far < best_far || (far == best_far && is < best))
            best = is;
    }
    return best;
}

static double bleu_score(const struct bleu *b)
{
    double log_sum = 0, smooth = 1;
    size_t order;

    if (b->matched[0] == 0)
        return 0;
    for (order = 0; order < MAX_ORDER && b->total[order] > 0; order++) {
        double total = (double)b->total[order];

        if (b->matched[order] == 0)
            smooth *= 2;
        log_sum += log(b->matched[order] > 0 ? (double)b->matched[order] / total
                                             : 1 / (smooth * total));
    }
    if (b->len < b->ref_len)
        return exp(log_sum / (double)order + 1 - (double)b->ref_len / (double)b->len);
    return exp(log_sum / (double)order);
}

static sr1_status bleu_of_tokens(const struct tokens *answer, const struct tokens *truths,
                                 size_t n, double *out)
{
    struct bleu b = {{0}, {0}, answer->n, closest_length(truths, n, answer->n)};
    size_t order;

    for (order = 1; order <= MAX_ORDER; order++)
        SR1__TRY(count_order(answer, truths, n, order, &b));
    *out = bleu_score(&b);
    return SR1_OK;
}

sr1_status sr1_metric_bleu(const char *answer, size_t len, const char *const *truths,
                           size_t n_truths, double *out)
{
    struct sr1__ground_truths given = {NULL, truths, n_truths};
    struct sr1__str text = {answer, len};
    struct tokens a = {NULL, 0}, *t;
    sr1_status status;
    size_t i;

    SR1__TRY(sr1__check_score_arguments(answer, len, &given, out));
    SR1__CALLOC(t, n_truths, "BLEU");
    status = tokenize_text(text, &a);
    for (i = 0; status == SR1_OK && i < n_truths; i++)
        status = tokenize_text(sr1__ground_truth_at(&given, i), &t[i]);
    if (status == SR1_OK)
        status = bleu_of_tokens(&a, t, n_truths, out);
    for (i = 0; i < n_truths; i++)
        sr1__free(t[i].id);
    sr1__free(t);
    sr1__free(a.id);
    return status;
}
