/* signal/reward/multi_turn_scores.c - the rewards of multi-turn GRPO (Zeng et al. 2025,
 * "Turn-Level Credit Assignment"), over the messages of a conversation: each piece of the
 * policy's text is a message, and the block after it is its result.
 *
 * A tag pair in a message reaches from the first opening tag to the first closing tag
 * behind it. Comparisons are on lower-case text, as Python's str.lower gives it. */
#include "signal/reward/multi_turn_scores.h"

#include "base/text.h"
#include "environment/env/conversation_turns.h"
#include "signal/reward/chars.h"
#include "signal/reward/ground_truths.h"
#include "retrieval/search/search_engine.h"

#include <string.h>

#define EXECUTION 0.2
#define IN_RESULTS 0.5
#define PRESENT 0.5
#define SHAPE 0.2 /* of mt_format and of xml */

/* ---- tags in a message ---- */

/* Where a stands in s, NULL: nowhere. */
static const char *find_substring(const char *s, size_t n, const char *a)
{
    return memmem(s, n, a, strlen(a));
}

static size_t count_occurrences(const char *s, size_t n, const char *tag)
{
    const char *end = s + n, *at;
    size_t k = 0;

    for (; (at = find_substring(s, (size_t)(end - s), tag)) != NULL; k++)
        s = at + strlen(tag);
    return k;
}

/* The stripped content of the pair of a role; its s is NULL when there is none. */
static struct sr1__str find_pair_content(const struct sr1__protocol *p,
                                         const struct sr1__turn *m, int role)
{
    const char *open = p->tags[SR1__TAG_OPEN(role)];
    const char *end = m->said + m->said_len, *close;
    struct sr1__str none = {NULL, 0}, found;
    size_t begin = 0;

    found.s = find_substring(m->said, m->said_len, open);
    if (found.s == NULL)
        return none;
    found.s += strlen(open);
    close =
        find_substring(found.s, (size_t)(end - found.s), p->tags[SR1__TAG_CLOSE(role)]);
    if (close == NULL)
        return none;
    found.n = (size_t)(close - found.s);
    sr1__strip(found.s, &begin, &found.n);
    found.s += begin;
    return found;
}

/* ---- lower case ---- */

static sr1_status lower_case_text(struct sr1__str text, int strip, struct sr1__buf *out)
{
    struct sr1__chars c = {NULL, 0};
    sr1_status status;
    size_t begin = 0;

    sr1__buf_init(out, 0);
    if (strip)
        sr1__strip(text.s, &begin, &text.n);
    text.s += begin;
    status = sr1__compose_text(&text, out);
    if (status == SR1_OK)
        status = sr1__chars_decode(&c, text.s, text.n);
    if (status == SR1_OK)
        status = sr1__chars_lower(&c);
    if (status == SR1_OK) {
        sr1__buf_clear(out);
        sr1__chars_encode(c.cp, c.n, out);
        status = sr1__buf_status(out, "text in lower case");
    }
    sr1__chars_free(&c);
    if (status != SR1_OK)
        sr1__buf_free(out);
    return status;
}

static int buffer_contains(const struct sr1__buf *text, const struct sr1__buf *part)
{
    return part->len == 0 ||
           memmem(sr1__buf_cstr(text), text->len, part->data, part->len) != NULL;
}

static int buffers_equal(const struct sr1__buf *a, const struct sr1__buf *b)
{
    return a->len == b->len && buffer_contains(a, b);
}

/* Does any gold answer fit the text? whole: the same when both are stripped; else it is
 * part of it. */
static sr1_status match_any_ground_truth(const sr1_trajectory *t, struct sr1__str text,
                                         int whole, int *fits)
{
    size_t n = sr1_trajectory_ground_truth_count(t), i;
    struct sr1__buf have, want;
    sr1_status status = SR1_OK;

    *fits = 0;
    SR1__TRY(lower_case_text(text, whole, &have));
    for (i = 0; status == SR1_OK && !*fits && i < n; i++) {
        struct sr1__str truth = {NULL, 0};

        truth.s = sr1_trajectory_ground_truth(t, i, &truth.n);
        status = lower_case_text(truth, whole, &want);
        if (status != SR1_OK)
            break;
        *fits = whole ? buffers_equal(&have, &want) : buffer_contains(&have, &want);
        sr1__buf_free(&want);
    }
    sr1__buf_free(&have);
    return status;
}

/* ---- were the tools carried out? ---- */

/* The calls of a message that got results. */
struct turn_calls {
    size_t attempts, successes;
};

/* Is there a call in the message: between tags, or, where one reaches to the end of its
 * message, by the record of it? */
static int has_call(const struct sr1__protocol *p, const struct sr1__turn *m, size_t n)
{
    return p->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)][0]
               ? find_pair_content(p, m, SR1__ROLE_ACTION).s != NULL
               : n > 0;
}

static void count_call(struct turn_calls *c, struct sr1__str result)
{
    static const char error[] = "Error:";
    size_t begin = 0;

    c->attempts++;
    if (result.s == NULL)
        return;
    sr1__strip(result.s, &begin, &result.n);
    c->successes += result.n < sizeof error - 1 ||
                    memcmp(result.s + begin, error, sizeof error - 1) != 0;
}

/* Actions that failed for reasons outside the policy (timeout, error) are not counted.
 * results[n] are those of the turn's actions, or, where these are not n, results[0] is of
 * all of them; so it is where no action was recorded. */
static void count_turn_calls(const sr1_trajectory *t, int32_t turn,
                             const struct sr1__str *results, size_t n,
                             struct turn_calls *c)
{
    sr1_action_event e = {sizeof e};
    size_t actions = sr1__turn_actions(t, turn), k = 0;

    for (size_t i = 0; sr1_trajectory_search(t, i, &e) == SR1_OK; i++) {
        if (e.turn != turn)
            continue;
        if (!sr1__search_is_failure(e.status))
            count_call(c, results[n == actions ? k : 0]);
        k++;
    }
    if (actions == 0)
        count_call(c, results[0]);
}

static sr1_status read_turn_calls(const struct sr1__protocol *p, const sr1_trajectory *t,
                                  const struct sr1__turn *m, struct turn_calls *c)
{
    struct sr1__str results[SR1__MAX_CALLS], whole = {m->result, m->result_len};
    size_t n = 1, actions = sr1__turn_actions(t, m->turn);

    *c = (struct turn_calls){0};
    if (!m->answered || !has_call(p, m, actions))
        return SR1_OK;
    if (whole.s && p->several)
        SR1__TRY(sr1__protocol_split_results(p, whole, results, SR1__MAX_CALLS, &n));
    if (n != actions || n > SR1__MAX_CALLS || !p->several || !whole.s) {
        results[0] = whole;
        n = 1;
    }
    count_turn_calls(t, m->turn, results, n, c);
    return SR1_OK;
}

sr1_status sr1__score_tool_execution(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out)
{
    const struct sr1__reward_context *c = self;
    size_t i;

    for (i = 0; i < n; i++) {
        struct turn_calls all = {0}, calls;
        struct sr1__turn m = {0};

        while (sr1__turn_next(c->protocol, t[i], &m)) {
            SR1__TRY(read_turn_calls(c->protocol, t[i], &m, &calls));
            all.attempts += calls.attempts;
            all.successes += calls.successes;
        }
        out[i] = all.attempts == 0
                     ? 0
                     : EXECUTION * ((double)all.successes / (double)all.attempts);
    }
    return SR1_OK;
}

sr1_status sr1__turns_tool_execution(void *self, const sr1_trajectory *t, double *out)
{
    const struct sr1__reward_context *c = self;
    struct turn_calls calls;
    struct sr1__turn m = {0};

    while (sr1__turn_next(c->protocol, t, &m)) {
        SR1__TRY(read_turn_calls(c->protocol, t, &m, &calls));
        out[m.turn] = (double)calls.successes;
    }
    return SR1_OK;
}

/* ---- is the answer in the first result? ---- */

/* Finds the first result; 0 when there is none. */
static int find_first_result(const struct sr1__protocol *p, const sr1_trajectory *t,
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

        SR1__TRY(sr1__require_ground_truths(t[i], i));
        if (find_first_result(c->protocol, t[i], &m)) {
            struct sr1__str result = {m.result, m.result_len};

            SR1__TRY(match_any_ground_truth(t[i], result, 0, &found));
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
    if (score > 0 && find_first_result(c->protocol, t, &m))
        out[m.turn] = 1;
    return SR1_OK;
}

/* ---- the last answer ---- */

/* Of the last message that has one; its s is NULL when none has. */
static struct sr1__str find_last_message_answer(const struct sr1__protocol *p,
                                                const sr1_trajectory *t)
{
    struct sr1__str last = {NULL, 0}, one;
    struct sr1__turn m = {0};

    while (sr1__turn_next(p, t, &m)) {
        one = find_pair_content(p, &m, SR1__ROLE_ANSWER);
        if (one.s != NULL)
            last = one;
    }
    return last;
}

static sr1_status score_last_message_answer(const struct sr1__reward_context *c,
                                            const sr1_trajectory *const *t, size_t n,
                                            int whole, double worth, double *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__str answer = find_last_message_answer(c->protocol, t[i]);
        int fits = 0;

        SR1__TRY(sr1__require_ground_truths(t[i], i));
        if (answer.s != NULL)
            SR1__TRY(match_any_ground_truth(t[i], answer, whole, &fits));
        out[i] = fits ? worth : 0;
    }
    return SR1_OK;
}

sr1_status sr1__score_answer_present(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out)
{
    return score_last_message_answer(self, t, n, 0, PRESENT, out);
}

sr1_status sr1__score_mt_exact_match(void *self, const sr1_trajectory *const *t, size_t n,
                                     double *out)
{
    return score_last_message_answer(self, t, n, 1, 1.0, out);
}

/* ---- the shape of messages ---- */

static const int roles[3] = {SR1__ROLE_THINK, SR1__ROLE_ACTION, SR1__ROLE_ANSWER};

static size_t count_tag(const struct sr1__protocol *p, const struct sr1__turn *m, int tag)
{
    return count_occurrences(m->said, m->said_len, p->tags[tag]);
}

static int has_tags(const struct sr1__protocol *p, const struct sr1__turn *m, int role)
{
    return count_tag(p, m, SR1__TAG_OPEN(role)) > 0 ||
           count_tag(p, m, SR1__TAG_CLOSE(role)) > 0;
}

/* 0.4 for thinking and for acting or answering, half each, if any pair is whole; 0.2
 * always (the reference's check of white space cannot fail); 0.2 for a message that
 * begins with thinking; 0.2 for one that ends with an action or an answer. */
static double score_message_format(const struct sr1__protocol *p,
                                   const struct sr1__turn *m)
{
    struct sr1__str text = {m->said, m->said_len};
    int acts = has_tags(p, m, SR1__ROLE_ACTION) || has_tags(p, m, SR1__ROLE_ANSWER);
    int present = has_tags(p, m, SR1__ROLE_THINK) + acts;
    int any = 0, k;
    size_t begin = 0;
    double score = 0;

    for (k = 0; k < 3; k++)
        any |= find_pair_content(p, m, roles[k]).s != NULL;
    sr1__strip(text.s, &begin, &text.n);
    text.s += begin;
    if (any)
        score += 0.4 * (present / 2.0);
    score += 0.2;
    if (sr1__str_starts_with(text, p->tags[SR1__TAG_OPEN(SR1__ROLE_THINK)]))
        score += 0.2;
    if (sr1__str_ends_with(text, p->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)]) ||
        sr1__str_ends_with(text, p->tags[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)]))
        score += 0.2;
    return score;
}

/* 1 for each tag that is there once, less for each one too many, over the pairs used. */
static double score_message_tags(const struct sr1__protocol *p, const struct sr1__turn *m)
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
    score_messages(self, t, n, score_message_format, out);
    return SR1_OK;
}

sr1_status sr1__score_xml(void *self, const sr1_trajectory *const *t, size_t n,
                          double *out)
{
    size_t i;

    score_messages(self, t, n, score_message_tags, out);
    for (i = 0; i < n; i++)
        out[i] = out[i] > 0 ? out[i] : 0;
    return SR1_OK;
}
