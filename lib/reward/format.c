/* reward/format.c - is a response well-formed, and where is its answer?
 *
 * An automaton over the tags; between them only white space matters, and only behind the
 * answer:
 *
 *     (<search> </search> <information> </information>)* <answer> </answer>
 *
 * A think block may stand anywhere outside of results and is skipped with its content. */
#include "reward/format.h"

#include "base/text.h"

#include <searchr1/code.h>
#include <searchr1/reward.h>

#include <string.h>

enum mode {
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

struct checker {
    const struct sr1__protocol *protocol;
    unsigned char mode;
    int thinking;
};

static void take_tag(struct checker *c, int tag)
{
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
static void take_text(struct checker *c, const char *s, size_t n)
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
static void take_piece(struct checker *c, const char *s, size_t n, int by_policy)
{
    struct sr1__tag t;
    size_t at;

    for (at = 0; sr1__protocol_next_tag(c->protocol, s, n, at, &t); at = t.end) {
        take_text(c, s + at, t.begin - at);
        if (by_policy && is_result_tag(t.tag))
            c->mode = BAD;
        else
            take_tag(c, t.tag);
    }
    take_text(c, s + at, n - at);
}

static int is_well_formed(const struct checker *c)
{
    return c->mode == ANSWERED && !c->thinking;
}

int sr1__format_of_text(const struct sr1__protocol *p, const char *text, size_t len)
{
    struct checker c = {p, TEXT, 0};

    take_piece(&c, text, len, 0);
    return is_well_formed(&c);
}

/* An inserted block counts by its frame; its body is skipped. */
static void take_block(struct checker *c, const char *text, const sr1_text_segment *s)
{
    size_t body_end = s->body_begin + s->body_len;

    take_piece(c, text + s->text_begin, s->body_begin - s->text_begin, 0);
    take_piece(c, text + body_end, s->text_begin + s->text_len - body_end, 0);
}

int sr1__format_of_trajectory(const struct sr1__protocol *p, const sr1_trajectory *t)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    size_t n = sr1_trajectory_segment_count(t), i;
    struct checker c = {p, TEXT, 0};

    for (i = 0; i < n; i++) {
        sr1_text_segment s = {sizeof s};

        if (sr1_trajectory_segment(t, i, &s) != SR1_OK)
            return 0;
        if (s.source == SR1_SOURCE_POLICY)
            take_piece(&c, text + s.text_begin, s.text_len, 1);
        else
            take_block(&c, text, &s);
    }
    return is_well_formed(&c);
}

/* Does this message of the policy do what one must? */
static int is_message(const struct sr1__protocol *p, const char *text, size_t len)
{
    if (p->message)
        return sr1_critique_judgement(text, len) != SR1_JUDGEMENT_NONE;
    return sr1__protocol_first_event(p, text, len, SR1__SCANNER_MAX_CONTENT, NULL,
                                     NULL) != SR1__EVENT_NONE;
}

int sr1__is_well_formed(const struct sr1__protocol *p, const sr1_trajectory *t)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    size_t n = sr1_trajectory_segment_count(t), messages = 0;

    if (!p->chat)
        return sr1__format_of_trajectory(p, t);
    for (size_t i = 0; i < n; i++) {
        sr1_text_segment s = {sizeof s};

        if (sr1_trajectory_segment(t, i, &s) != SR1_OK ||
            s.source != SR1_SOURCE_POLICY)
            continue;
        if (!is_message(p, text + s.text_begin, s.text_len))
            return 0;
        messages++;
    }
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

int sr1__last_answer(const struct sr1__protocol *p, const char *text, size_t len,
                     struct sr1__slice *out, size_t *open_at)
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
    struct sr1__slice found = {0, 0};
    size_t open_at;
    int is_closed;

    if ((text == NULL && len > 0) || begin == NULL || n == NULL)
        return sr1__fail(SR1_E_INVALID, "find answer: an argument is NULL");
    text = text != NULL ? text : "";
    is_closed = sr1__last_answer(p, text, len, &found, &open_at);
    if (!is_closed && open_at < len &&
        sr1__protocol_partial_answer(p, text + open_at, len - open_at, &found))
        found.begin += open_at;
    *begin = found.begin;
    *n = found.len;
    if (closed != NULL)
        *closed = is_closed;
    return SR1_OK;
}

struct sr1__text sr1__closed_answer(const struct sr1__protocol *p,
                                    const sr1_trajectory *t)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    struct sr1__text answer = {NULL, 0};
    size_t i = sr1_trajectory_segment_count(t);

    while (i-- > 0) {
        sr1_text_segment s = {sizeof s};
        struct sr1__slice found;
        size_t open_at;

        if (sr1_trajectory_segment(t, i, &s) != SR1_OK || s.source != SR1_SOURCE_POLICY)
            continue;
        if (sr1__last_answer(p, text + s.text_begin, s.text_len, &found, &open_at)) {
            answer.s = text + s.text_begin + found.begin;
            answer.n = found.len;
            return answer;
        }
    }
    return answer;
}
