/* reward/conversation.c - the rewards of multi-turn GRPO (Zeng et al. 2025, "Turn-Level
 * Credit Assignment"), over the messages of a conversation: each piece of the policy is a
 * message, the block behind it what came back.
 *
 * A tag pair in a message reaches from the first opening tag to the first closing tag
 * behind it. Comparisons are on lower-case text, as Python's str.lower gives it. */
#include "reward/conversation.h"

#include "env/text.h"
#include "env/turns.h"
#include "reward/chars.h"
#include "reward/truths.h"
#include "search/engine.h"

#include <string.h>

#define EXECUTION 0.2
#define IN_RESULTS 0.5
#define PRESENT 0.5
#define SHAPE 0.2 /* of mt_format and of xml */

/* ---- tags in a message ---- */

/* Where a stands in s, NULL: nowhere. */
static const char *find(const char *s, size_t n, const char *a)
{
    return memmem(s, n, a, strlen(a));
}

static size_t count(const char *s, size_t n, const char *tag)
{
    const char *end = s + n, *at;
    size_t k = 0;

    for (; (at = find(s, (size_t)(end - s), tag)) != NULL; k++)
        s = at + strlen(tag);
    return k;
}

/* The stripped content of the pair of a role; its s is NULL when there is none. */
static struct sr1__text field(const struct sr1__protocol *p, const struct sr1__turn *m,
                              int role)
{
    const char *open = p->tags[SR1__TAG_OPEN(role)];
    const char *end = m->said + m->said_len, *close;
    struct sr1__text none = {NULL, 0}, found;
    size_t begin = 0;

    found.s = find(m->said, m->said_len, open);
    if (found.s == NULL)
        return none;
    found.s += strlen(open);
    close = find(found.s, (size_t)(end - found.s), p->tags[SR1__TAG_CLOSE(role)]);
    if (close == NULL)
        return none;
    found.n = (size_t)(close - found.s);
    sr1__strip(found.s, &begin, &found.n);
    found.s += begin;
    return found;
}

/* ---- lower case ---- */

static sr1_status lower(struct sr1__text text, int strip, struct sr1__buf *out)
{
    struct sr1__chars c = {NULL, 0};
    sr1_status status;
    size_t begin = 0;

    sr1__buf_init(out, 0);
    if (strip)
        sr1__strip(text.s, &begin, &text.n);
    status = sr1__chars_decode(&c, text.s + begin, text.n);
    if (status == SR1_OK)
        status = sr1__chars_lower(&c);
    if (status == SR1_OK) {
        sr1__chars_encode(c.cp, c.n, out);
        status = sr1__buf_status(out, "text in lower case");
    }
    sr1__chars_free(&c);
    if (status != SR1_OK)
        sr1__buf_free(out);
    return status;
}

static int holds(const struct sr1__buf *text, const struct sr1__buf *part)
{
    return part->len == 0 ||
           memmem(sr1__buf_cstr(text), text->len, part->data, part->len) != NULL;
}

static int same(const struct sr1__buf *a, const struct sr1__buf *b)
{
    return a->len == b->len && holds(a, b);
}

/* Does any gold answer fit the text? whole: the same when both are stripped; else it is
 * part of it. */
static sr1_status any_truth(const sr1_trajectory *t, struct sr1__text text, int whole,
                            int *fits)
{
    size_t n = sr1_trajectory_ground_truth_count(t), i;
    struct sr1__buf have, want;
    sr1_status status = SR1_OK;

    *fits = 0;
    SR1__TRY(lower(text, whole, &have));
    for (i = 0; status == SR1_OK && !*fits && i < n; i++) {
        struct sr1__text truth = {NULL, 0};

        truth.s = sr1_trajectory_ground_truth(t, i, &truth.n);
        status = lower(truth, whole, &want);
        if (status != SR1_OK)
            break;
        *fits = whole ? same(&have, &want) : holds(&have, &want);
        sr1__buf_free(&want);
    }
    sr1__buf_free(&have);
    return status;
}

static sr1_status need_truths(const sr1_trajectory *t, size_t i)
{
    if (sr1_trajectory_ground_truth_count(t) > 0)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "trajectory %zu has no gold answer to be compared with", i);
}

/* ---- was the tool carried out? ---- */

/* Nothing is known of what was asked in this turn: that says nothing of the policy. */
static int is_unknown(const sr1_trajectory *t, int32_t turn)
{
    size_t n = sr1_trajectory_search_count(t), i;

    for (i = 0; i < n; i++) {
        sr1_search_event e = {sizeof e};

        if (sr1_trajectory_search(t, i, &e) == SR1_OK && e.turn == turn)
            return sr1__search_is_failure(e.status);
    }
    return 0;
}

static int is_attempt(const struct sr1__protocol *p, const sr1_trajectory *t,
                      const struct sr1__turn *m)
{
    return m->answered && field(p, m, SR1__ROLE_ACTION).s != NULL &&
           !is_unknown(t, m->turn);
}

static int is_success(const struct sr1__turn *m)
{
    static const char error[] = "Error:";
    size_t n = sizeof error - 1;

    return m->result != NULL && !(m->result_len >= n && memcmp(m->result, error, n) == 0);
}

sr1_status sr1__score_tool_execution(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out)
{
    const struct sr1__reward_context *c = self;
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__turn m = {0};
        size_t attempts = 0, successes = 0;

        while (sr1__turn_next(c->protocol, t[i], &m)) {
            if (!is_attempt(c->protocol, t[i], &m))
                continue;
            attempts++;
            successes += (size_t)is_success(&m);
        }
        out[i] = attempts == 0 ? 0 : EXECUTION * ((double)successes / (double)attempts);
    }
    return SR1_OK;
}

sr1_status sr1__turns_tool_execution(void *self, const sr1_trajectory *t, double *out)
{
    const struct sr1__reward_context *c = self;
    struct sr1__turn m = {0};

    while (sr1__turn_next(c->protocol, t, &m))
        out[m.turn] = is_attempt(c->protocol, t, &m) && is_success(&m);
    return SR1_OK;
}

/* ---- is the answer in the first result? ---- */

/* Finds the first result; 0 when there is none. */
static int first_result(const struct sr1__protocol *p, const sr1_trajectory *t,
                        struct sr1__turn *m)
{
    memset(m, 0, sizeof *m);
    while (sr1__turn_next(p, t, m))
        if (m->result != NULL)
            return 1;
    return 0;
}

sr1_status sr1__score_answer_in_results(void *self, const sr1_trajectory *const *t,
                                        size_t n, double *out)
{
    const struct sr1__reward_context *c = self;
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__turn m;
        int found = 0;

        SR1__TRY(need_truths(t[i], i));
        if (first_result(c->protocol, t[i], &m)) {
            struct sr1__text result = {m.result, m.result_len};

            SR1__TRY(any_truth(t[i], result, 0, &found));
        }
        out[i] = found ? IN_RESULTS : 0;
    }
    return SR1_OK;
}

sr1_status sr1__turns_answer_in_results(void *self, const sr1_trajectory *t, double *out)
{
    const struct sr1__reward_context *c = self;
    struct sr1__turn m;
    double score;

    SR1__TRY(sr1__score_answer_in_results(self, &t, 1, &score));
    if (score > 0 && first_result(c->protocol, t, &m))
        out[m.turn] = 1;
    return SR1_OK;
}

/* ---- the last answer ---- */

/* Of the last message that has one; its s is NULL when none has. */
static struct sr1__text last_answer(const struct sr1__protocol *p,
                                    const sr1_trajectory *t)
{
    struct sr1__text last = {NULL, 0}, one;
    struct sr1__turn m = {0};

    while (sr1__turn_next(p, t, &m)) {
        one = field(p, &m, SR1__ROLE_ANSWER);
        if (one.s != NULL)
            last = one;
    }
    return last;
}

static sr1_status score_last(const struct sr1__reward_context *c,
                             const sr1_trajectory *const *t, size_t n, int whole,
                             double worth, double *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__text answer = last_answer(c->protocol, t[i]);
        int fits = 0;

        SR1__TRY(need_truths(t[i], i));
        if (answer.s != NULL)
            SR1__TRY(any_truth(t[i], answer, whole, &fits));
        out[i] = fits ? worth : 0;
    }
    return SR1_OK;
}

sr1_status sr1__score_answer_present(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out)
{
    return score_last(self, t, n, 0, PRESENT, out);
}

sr1_status sr1__score_mt_exact_match(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out)
{
    return score_last(self, t, n, 1, 1.0, out);
}

/* ---- the shape of messages ---- */

static const int roles[3] = {SR1__ROLE_THINK, SR1__ROLE_ACTION, SR1__ROLE_ANSWER};

static size_t count_tag(const struct sr1__protocol *p, const struct sr1__turn *m, int tag)
{
    return count(m->said, m->said_len, p->tags[tag]);
}

static int has_tags(const struct sr1__protocol *p, const struct sr1__turn *m, int role)
{
    return count_tag(p, m, SR1__TAG_OPEN(role)) > 0 ||
           count_tag(p, m, SR1__TAG_CLOSE(role)) > 0;
}

static int starts(struct sr1__text s, const char *with)
{
    return s.n >= strlen(with) && memcmp(s.s, with, strlen(with)) == 0;
}

static int ends(struct sr1__text s, const char *with)
{
    size_t n = strlen(with);

    return s.n >= n && memcmp(s.s + s.n - n, with, n) == 0;
}

/* 0.4 for thinking and for acting or answering, half each, if any pair is whole; 0.2
 * always (the reference's check of white space cannot fail); 0.2 for a message that
 * begins with thinking; 0.2 for one that ends with an action or an answer. */
static double format_of(const struct sr1__protocol *p, const struct sr1__turn *m)
{
    struct sr1__text text = {m->said, m->said_len};
    int acts = has_tags(p, m, SR1__ROLE_ACTION) || has_tags(p, m, SR1__ROLE_ANSWER);
    int present = has_tags(p, m, SR1__ROLE_THINK) + acts;
    int any = 0, k;
    size_t begin = 0;
    double score = 0;

    for (k = 0; k < 3; k++)
        any |= field(p, m, roles[k]).s != NULL;
    sr1__strip(text.s, &begin, &text.n);
    text.s += begin;
    if (any)
        score += 0.4 * (present / 2.0);
    score += 0.2;
    if (starts(text, p->tags[SR1__TAG_OPEN(SR1__ROLE_THINK)]))
        score += 0.2;
    if (ends(text, p->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)]) ||
        ends(text, p->tags[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)]))
        score += 0.2;
    return score;
}

/* 1 for each tag that is there once, less for each one too many, over the pairs used. */
static double xml_of(const struct sr1__protocol *p, const struct sr1__turn *m)
{
    double score = 0;
    int used = 0, k;

    for (k = 0; k < 3; k++) {
        double open = (double)count_tag(p, m, SR1__TAG_OPEN(roles[k]));
        double close = (double)count_tag(p, m, SR1__TAG_CLOSE(roles[k]));

        if (open == 0 && close == 0)
            continue;
        used++;
        score += 1 - (open > 1 ? open - 1 : 1 - open);
        score += 1 - (close > 1 ? close - 1 : 1 - close);
    }
    return used == 0 ? 0 : score / (2 * used);
}

/* SHAPE times the mean over all messages; 0 without messages. */
static void score_messages(
    const struct sr1__reward_context *c, const sr1_trajectory *const *t, size_t n,
    double (*one)(const struct sr1__protocol *p, const struct sr1__turn *m), double *out)
{
    size_t i, messages;

    for (i = 0; i < n; i++) {
        struct sr1__turn m = {0};
        double sum = 0;

        for (messages = 0; sr1__turn_next(c->protocol, t[i], &m); messages++)
            sum += one(c->protocol, &m);
        out[i] = messages == 0 ? 0 : SHAPE * (sum / (double)messages);
    }
}

sr1_status sr1__score_mt_format(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    score_messages(self, t, n, format_of, out);
    return SR1_OK;
}

sr1_status sr1__score_xml(void *self, const sr1_trajectory *const *t, size_t n,
                          double *out)
{
    size_t i;

    score_messages(self, t, n, xml_of, out);
    for (i = 0; i < n; i++)
        out[i] = out[i] > 0 ? out[i] : 0;
    return SR1_OK;
}
