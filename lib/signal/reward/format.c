/* signal/reward/format.c - check whether a response is well formed, and find its
 * answer.
 *
 * An automaton over the tags; between them only white space matters, and only behind the
 * answer:
 *
 *     (<search> </search> <information> </information>)* <answer> </answer>
 *
 * A think block may stand anywhere outside of results and is skipped with its content.
 * A think tag without its other half is text, or, when thoughts must be closed, wrong. */
#include "signal/reward/format.h"

#include "base/text.h"
#include "environment/env/conversation_turns.h"

#include <searchr1/ext/code.h>
#include <searchr1/ext/text_metrics.h>

enum format_mode {
    BAD, /* first: what the table below does not name leads here */
    TEXT,
    IN_ACTION,
    ACTED, /* a result must follow */
    IN_RESULT,
    IN_ANSWER,
    ANSWERED,
    MODE_COUNT
};

static const unsigned char next_mode[MODE_COUNT][SR1__TAG_COUNT] = {
    [TEXT] = {[SR1__TAG_OPEN(SR1__ROLE_ACTION)] = IN_ACTION,
              [SR1__TAG_OPEN(SR1__ROLE_ANSWER)] = IN_ANSWER},
    [IN_ACTION] = {[SR1__TAG_CLOSE(SR1__ROLE_ACTION)] = ACTED},
    [ACTED] = {[SR1__TAG_OPEN(SR1__ROLE_RESULT)] = IN_RESULT},
    [IN_RESULT] = {[SR1__TAG_CLOSE(SR1__ROLE_RESULT)] = TEXT},
    [IN_ANSWER] = {[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)] = ANSWERED},
};

struct format_checker {
    const struct sr1__protocol *protocol;
    unsigned char mode;
    int thinking;
    int must_close;  /* think tags come in pairs */
    size_t closings; /* closing think tags that are still to come */
};

/* Is this tag half of a pair? Then it is text. */
static int is_stray(const struct format_checker *c, int tag)
{
    if (c->must_close || c->thinking || c->mode == IN_RESULT)
        return 0;
    return tag == SR1__TAG_CLOSE(SR1__ROLE_THINK) ||
           (tag == SR1__TAG_OPEN(SR1__ROLE_THINK) && c->closings == 0);
}

static void check_tag(struct format_checker *c, int tag)
{
    if (tag == SR1__TAG_CLOSE(SR1__ROLE_THINK))
        c->closings--;
    if (is_stray(c, tag)) {
        c->mode = c->mode == ANSWERED ? BAD : c->mode; /* text behind the answer */
        return;
    }
    if (c->thinking) {
        c->thinking = tag != SR1__TAG_CLOSE(SR1__ROLE_THINK);
        return;
    }
    if (c->mode == IN_RESULT && tag != SR1__TAG_CLOSE(SR1__ROLE_RESULT))
        return; /* what was retrieved is inert */
    if (tag == SR1__TAG_OPEN(SR1__ROLE_THINK))
        c->thinking = c->mode != BAD;
    else
        c->mode = next_mode[c->mode][tag];
}

/* Text without tags. */
static void check_text_between_tags(struct format_checker *c, const char *s, size_t n)
{
    size_t begin = 0;

    if (c->thinking || c->mode != ANSWERED)
        return;
    sr1__strip(s, &begin, &n);
    if (n > 0)
        c->mode = BAD;
}

static int is_result_tag(int tag)
{
    return tag == SR1__TAG_OPEN(SR1__ROLE_RESULT) ||
           tag == SR1__TAG_CLOSE(SR1__ROLE_RESULT);
}

/* by_policy: result tags are not allowed. */
static void check_piece(struct format_checker *c, const char *s, size_t n, int by_policy)
{
    struct sr1__tag t;
    size_t at;

    for (at = 0; sr1__protocol_next_tag(c->protocol, s, n, at, &t); at = t.end) {
        check_text_between_tags(c, s + at, t.begin - at);
        if (by_policy && is_result_tag(t.tag))
            c->mode = BAD;
        else
            check_tag(c, t.tag);
    }
    check_text_between_tags(c, s + at, n - at);
}

static int is_well_formed(const struct format_checker *c)
{
    return c->mode == ANSWERED && !c->thinking;
}

static void count_closings(struct format_checker *c, const char *s, size_t n,
                           int by_policy)
{
    struct sr1__tag t;
    size_t at;

    (void)by_policy;
    for (at = 0; sr1__protocol_next_tag(c->protocol, s, n, at, &t); at = t.end)
        c->closings += t.tag == SR1__TAG_CLOSE(SR1__ROLE_THINK);
}

int sr1__format_of_text(const struct sr1__protocol *p, const char *text, size_t len,
                        int must_close)
{
    struct format_checker c = {.protocol = p, .mode = TEXT, .must_close = must_close};

    count_closings(&c, text, len, 0);
    check_piece(&c, text, len, 0);
    return is_well_formed(&c);
}

typedef void (*piece_fn)(struct format_checker *c, const char *s, size_t n,
                         int by_policy);

/* Process each piece of a trajectory: the policy's text, and the tags of inserted blocks,
 * whose bodies are skipped. */
static void each_piece(struct format_checker *c, const sr1_trajectory *t, piece_fn take)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    size_t n = sr1_trajectory_segment_count(t), i;
    sr1_text_segment s = {sizeof s};

    for (i = 0; i < n && sr1_trajectory_segment(t, i, &s) == SR1_OK; i++) {
        size_t body_end = s.body_begin + s.body_len;

        if (s.source == SR1_SOURCE_POLICY) {
            take(c, text + s.text_begin, s.text_len, 1);
            continue;
        }
        take(c, text + s.text_begin, s.body_begin - s.text_begin, 0);
        take(c, text + body_end, s.text_begin + s.text_len - body_end, 0);
    }
}

int sr1__format_of_trajectory(const struct sr1__protocol *p, const sr1_trajectory *t,
                              int must_close)
{
    struct format_checker c = {.protocol = p, .mode = TEXT, .must_close = must_close};

    each_piece(&c, t, count_closings);
    c.thinking = sr1_trajectory_begins_in_thought(t) && (c.must_close || c.closings > 0);
    each_piece(&c, t, check_piece);
    return is_well_formed(&c);
}

/* Does this message of the policy do what one must? */
static int is_message(const struct sr1__protocol *p, const char *text, size_t len)
{
    struct sr1__text_range answer;

    if (p->answers)
        return sr1__protocol_message_answer(p, text, len, &answer);
    if (p->message)
        return sr1_critique_judgement(text, len) != SR1_JUDGEMENT_NONE;
    return sr1__protocol_first_event(p, text, len, SR1__ACTION_MAX, NULL, NULL) !=
           SR1__EVENT_NONE;
}

int sr1__is_well_formed(const struct sr1__protocol *p, const sr1_trajectory *t,
                        int must_close)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    sr1_text_segment s = {sizeof s};
    size_t next = 0, messages = 0;

    if (!p->chat)
        return sr1__format_of_trajectory(p, t, must_close);
    for (; sr1__policy_segment_next(t, &next, &s); messages++)
        if (!is_message(p, text + s.text_begin, s.text_len))
            return 0;
    return messages > 0;
}

/* ---- the answer ---- */

/* Walks over the tags outside of closed think and result blocks. */
struct walker {
    const struct sr1__protocol *protocol;
    const char *text;
    size_t len, at;
    int unclosed[SR1__TAG_COUNT]; /* this opening tag is not closed behind `at` */
};

/* Where the block ends that the opening tag t begins; t's own end if it is never closed.
 */
static size_t block_end(struct walker *w, const struct sr1__tag *t)
{
    struct sr1__tag close;
    size_t at;

    if (w->unclosed[t->tag])
        return t->end;
    for (at = t->end; sr1__protocol_next_tag(w->protocol, w->text, w->len, at, &close);
         at = close.end)
        if (close.tag == t->tag + 1)
            return close.end;
    w->unclosed[t->tag] = 1;
    return t->end;
}

/* The next tag of an answer; 0 at the end, else 1. */
static int next_answer_tag(struct walker *w, struct sr1__tag *t)
{
    while (sr1__protocol_next_tag(w->protocol, w->text, w->len, w->at, t)) {
        w->at = t->end;
        if (t->tag == SR1__TAG_OPEN(SR1__ROLE_ANSWER) ||
            t->tag == SR1__TAG_CLOSE(SR1__ROLE_ANSWER))
            return 1;
        if (t->tag == SR1__TAG_OPEN(SR1__ROLE_THINK) ||
            t->tag == SR1__TAG_OPEN(SR1__ROLE_RESULT))
            w->at = block_end(w, t);
    }
    return 0;
}

/* The last closed answer, stripped, outside of closed think and result blocks; 0 if there
 * is none, else 1. *open_at: the last opening tag behind it that is not closed, or len.
 */
static int find_last_answer(const struct sr1__protocol *p, const char *text, size_t len,
                            struct sr1__text_range *out, size_t *open_at)
{
    struct walker w = {p, text, len, 0, {0}};
    size_t begin = 0;
    int open = 0, found = 0;
    struct sr1__tag t;

    *open_at = len;
    while (next_answer_tag(&w, &t)) {
        if (t.tag == SR1__TAG_OPEN(SR1__ROLE_ANSWER)) {
            begin = open ? begin : t.end;
            open = 1;
            *open_at = t.begin;
        } else if (open) {
            open = 0;
            found = 1;
            *open_at = len;
            out->begin = begin;
            out->len = t.begin - begin;
            sr1__strip(text, &out->begin, &out->len);
        }
    }
    return found;
}

sr1_status sr1_reward_find_answer(const char *text, size_t len, size_t *begin, size_t *n,
                                  int32_t *closed)
{
    const struct sr1__protocol *p = sr1__protocol_find(NULL);
    struct sr1__text_range found = {0, 0};
    size_t open_at;
    int is_closed;

    if ((text == NULL && len > 0) || begin == NULL || n == NULL)
        return sr1__fail(SR1_E_INVALID, "find answer: an argument is NULL");
    text = text != NULL ? text : "";
    is_closed = find_last_answer(p, text, len, &found, &open_at);
    if (!is_closed && open_at < len &&
        sr1__protocol_partial_answer(p, text + open_at, len - open_at, &found))
        found.begin += open_at;
    *begin = found.begin;
    *n = found.len;
    if (closed != NULL)
        *closed = is_closed;
    return SR1_OK;
}

struct sr1__str sr1__closed_answer(const struct sr1__protocol *p, const sr1_trajectory *t)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    struct sr1__str answer = {NULL, 0};
    size_t i = sr1_trajectory_segment_count(t);

    while (i-- > 0) {
        sr1_text_segment s = {sizeof s};
        struct sr1__text_range found;
        size_t open_at;

        if (sr1_trajectory_segment(t, i, &s) != SR1_OK || s.source != SR1_SOURCE_POLICY)
            continue;
        if (p->answers
                ? sr1__protocol_message_answer(p, text + s.text_begin, s.text_len, &found)
                : find_last_answer(p, text + s.text_begin, s.text_len, &found,
                                   &open_at)) {
            answer.s = text + s.text_begin + found.begin;
            answer.n = found.len;
            return answer;
        }
    }
    return answer;
}

struct sr1__str sr1__last_segment(const sr1_trajectory *t, int32_t source)
{
    sr1_text_segment s = {.struct_size = sizeof(s)};

    for (size_t i = sr1_trajectory_segment_count(t); i-- > 0;)
        if (sr1_trajectory_segment(t, i, &s) == SR1_OK && s.source == source)
            return (struct sr1__str){
                sr1_trajectory_generated_text(t, NULL) + s.body_begin, s.body_len};
    return (struct sr1__str){NULL, 0};
}

struct sr1__str sr1__answer_or_message(const sr1_trajectory *t)
{
    struct sr1__str text;

    text.s = sr1_trajectory_final_answer(t, &text.n);
    if (text.n == 0)
        text = sr1__last_segment(t, SR1_SOURCE_POLICY);
    return text.s ? text : sr1__str_of("");
}
