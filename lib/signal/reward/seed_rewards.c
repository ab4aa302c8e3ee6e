/* signal/reward/seed_rewards.c - the seed's two rewards: format by five rules, answer by
 * equality and the similarity ratio of texts without white space, in lower case. */
#include "signal/reward/seed_rewards.h"

#include <searchr1/ext/text_metrics.h>

#include "base/buf.h"
#include "base/struct.h"
#include "environment/env/protocol.h"
#include "base/text.h"
#include "signal/reward/chars.h"
#include "signal/reward/format.h"
#include "signal/reward/similarity.h"

#include <math.h>
#include <string.h>

/* "No content found", the words the seed rewards by themselves. */
#define NO_CONTENT                                                                       \
    "\xe6\x9c\xaa\xe6\x89\xbe\xe5\x88\xb0\xe7\x9b\xb8\xe5\x85\xb3\xe5\x86\x85\xe5\xae"   \
    "\xb9"

static const sr1_reward_scales defaults = {.struct_size = sizeof(defaults),
                                           .format_reward = 0.5,
                                           .format_penalty = -1.0,
                                           .answer_reward = 1.0,
                                           .exact_match_bonus = 2.0,
                                           .no_content_reward = 0.5,
                                           .similarity_threshold = 0.5,
                                           .no_content_text = NO_CONTENT,
                                           .structure_format_score = 0.2,
                                           .final_format_score = 0.1,
                                           .repetition_n_grams = 3,
                                           .repetition_max_penalty = -1.0,
                                           .search_price = 0.1};

void sr1_reward_scales_init(sr1_reward_scales *scales)
{
    sr1__struct_init(scales, &defaults, sizeof(defaults));
}

sr1_status sr1__scales_read(sr1_reward_scales *out, const sr1_reward_scales *given)
{
    *out = defaults;
    SR1__TRY(sr1__struct_take(out, sizeof *out, given,
                              SR1__STRUCT_END(sr1_reward_scales, format_reward),
                              "reward scales"));
    if (!isfinite(out->format_reward) || !isfinite(out->format_penalty) ||
        !isfinite(out->answer_reward) || !isfinite(out->exact_match_bonus) ||
        !isfinite(out->no_content_reward) || !isfinite(out->similarity_threshold) ||
        !isfinite(out->structure_format_score) || !isfinite(out->final_format_score) ||
        !isfinite(out->retrieval_score) || !isfinite(out->repetition_max_penalty) ||
        !isfinite(out->search_price))
        return sr1__fail(SR1_E_NUMERIC, "reward scales: a number is not finite");
    if (out->repetition_n_grams < 0 || out->repetition_max_penalty > 0)
        return sr1__fail(SR1_E_INVALID,
                         "reward scales: repetition_n_grams is %lld, "
                         "repetition_max_penalty is %g; they must be at least 0, and at "
                         "most 0",
                         (long long)out->repetition_n_grams, out->repetition_max_penalty);
    if (out->search_price < 0)
        return sr1__fail(SR1_E_INVALID,
                         "reward scales: search_price is %g; it must be at least 0, and "
                         "search_cost takes it off",
                         out->search_price);
    if (out->no_content_text == NULL)
        out->no_content_text = NO_CONTENT;
    return SR1_OK;
}

/* ---- answer ---- */

/* text without its closed think blocks, and stripped if there were any; *b holds the
 * memory then. */
static sr1_status without_thoughts(const struct sr1__protocol *p, struct sr1__str *text,
                                   struct sr1__buf *b)
{
    size_t begin = 0, at = 0, think = 0;
    struct sr1__tag t;
    int open = 0;

    while (sr1__protocol_next_tag(p, text->s, text->n, at, &t)) {
        if (!open && t.tag == SR1__TAG_OPEN(SR1__ROLE_THINK)) {
            open = 1;
            think = t.begin;
        } else if (open && t.tag == SR1__TAG_CLOSE(SR1__ROLE_THINK)) {
            open = 0;
            sr1__buf_add(b, text->s + begin, think - begin);
            begin = t.end;
        }
        at = t.end;
    }
    if (begin == 0)
        return SR1_OK;
    sr1__buf_add(b, text->s + begin, text->n - begin);
    text->s = sr1__buf_cstr(b);
    text->n = b->len;
    begin = 0;
    sr1__strip(text->s, &begin, &text->n);
    text->s += begin;
    return sr1__buf_status(b, "answer");
}

static sr1_status fold_text(struct sr1__str text, struct sr1__chars *out)
{
    SR1__TRY(sr1__chars_decode(out, text.s, text.n));
    sr1__chars_drop_space(out);
    return sr1__chars_lower(out);
}

/* Folded texts: does their ratio reach the threshold? */
static sr1_status reaches_similarity(const struct sr1__chars *a,
                                     const struct sr1__chars *b, double threshold,
                                     int *out)
{
    size_t least = a->n < b->n ? a->n : b->n;
    double ratio;

    if (sr1__chars_equal(a, b)) {
        *out = 1.0 >= threshold;
        return SR1_OK;
    }
    *out = 0;
    if (a->n > SR1_SIMILARITY_MAX || b->n > SR1_SIMILARITY_MAX)
        return SR1_OK;
    if (2.0 * (double)least / (double)(a->n + b->n) < threshold)
        return SR1_OK; /* the ratio cannot be larger than this */
    SR1__TRY(sr1__similarity_ratio(a, b, &ratio));
    *out = ratio >= threshold;
    return SR1_OK;
}

/* The answer has no think blocks any more. */
static sr1_status score_similar(struct sr1__str answer, struct sr1__str truth,
                                const sr1_reward_scales *scales, double *out)
{
    struct sr1__chars a = {NULL, 0}, t = {NULL, 0};
    int similar = 0;
    sr1_status status = fold_text(answer, &a);

    if (status == SR1_OK)
        status = fold_text(truth, &t);
    if (status == SR1_OK && a.n > 0)
        status = reaches_similarity(&a, &t, scales->similarity_threshold, &similar);
    if (status == SR1_OK)
        *out = similar ? scales->answer_reward : 0;
    sr1__chars_free(&a);
    sr1__chars_free(&t);
    return status;
}

static sr1_status score_plain(struct sr1__str answer, struct sr1__str truth,
                              const sr1_reward_scales *scales, double *out)
{
    struct sr1__str nothing = {scales->no_content_text, strlen(scales->no_content_text)};

    if (answer.n == 0)
        *out = 0;
    else if (sr1__str_equal(answer, truth))
        *out = scales->exact_match_bonus;
    else if (sr1__str_equal(answer, nothing))
        *out = scales->no_content_reward;
    else
        return score_similar(answer, truth, scales, out);
    return SR1_OK;
}

sr1_status sr1__score_answer(struct sr1__str answer, struct sr1__str truth,
                             const void *arg, double *out)
{
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    status = without_thoughts(sr1__protocol_find(NULL), &answer, &b);
    if (status == SR1_OK)
        status = score_plain(answer, truth, arg, out);
    sr1__buf_free(&b);
    return status;
}

/* ---- public ---- */

sr1_status sr1_reward_check_format(const char *text, size_t len,
                                   const sr1_reward_scales *scales, double *out)
{
    sr1_reward_scales s;

    SR1__TRY(sr1__scales_read(&s, scales));
    if ((text == NULL && len > 0) || out == NULL)
        return sr1__fail(SR1_E_INVALID, "check format: text or out is NULL");
    text = text != NULL ? text : "";
    *out = sr1__format_of_text(sr1__protocol_find(NULL), text, len, s.closed_thoughts)
               ? s.format_reward
               : s.format_penalty;
    return SR1_OK;
}

sr1_status sr1_reward_check_answer(const char *answer, size_t len,
                                   const char *const *truths, size_t n_truths,
                                   const sr1_reward_scales *scales, double *out)
{
    struct sr1__ground_truths t = {NULL, truths, n_truths};
    struct sr1__str text = {answer, len};
    sr1_reward_scales s;

    SR1__TRY(sr1__scales_read(&s, scales));
    SR1__TRY(sr1__check_score_arguments(answer, len, &t, out));
    return sr1__best_score(sr1__score_answer, text, &t, &s, out);
}

sr1_status sr1_reward_total(const char *text, size_t len, const char *const *truths,
                            size_t n_truths, const sr1_reward_scales *scales, double *out)
{
    double format, answer;
    size_t begin, n;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "total reward: out is NULL");
    SR1__TRY(sr1_reward_check_format(text, len, scales, &format));
    SR1__TRY(sr1_reward_find_answer(text, len, &begin, &n, NULL));
    SR1__TRY(sr1_reward_check_answer(n > 0 ? text + begin : "", n, truths, n_truths,
                                     scales, &answer));
    *out = format + answer;
    return SR1_OK;
}
