/* environment/env/conversation_turns.c - the turns of a trajectory as a conversation. The
 * content of a block does not matter: the tags around its body make it a result. */
#include "environment/env/conversation_turns.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* The body of an inserted block with result tags; NULL for another block. */
static const char *result_of(const struct sr1__protocol *p, const char *text,
                             const sr1_text_segment *s, size_t *len)
{
    const char *tag = p->tags[SR1__TAG_OPEN(SR1__ROLE_RESULT)];
    size_t begin = s->body_begin;

    if (s->body_begin == s->text_begin ||
        memmem(text + s->text_begin, s->body_begin - s->text_begin, tag, strlen(tag)) ==
            NULL)
        return NULL;
    *len = s->body_len;
    sr1__strip(text, &begin, len);
    return text + begin;
}

int sr1__policy_segment_next(const sr1_trajectory *t, size_t *next, sr1_text_segment *s)
{
    do {
        if (sr1_trajectory_segment(t, (*next)++, s) != SR1_OK)
            return 0;
    } while (s->source != SR1_SOURCE_POLICY);
    return 1;
}

int sr1__turn_next(const struct sr1__protocol *p, const sr1_trajectory *t,
                   struct sr1__turn *turn)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    sr1_text_segment s = {sizeof s};

    if (!sr1__policy_segment_next(t, &turn->next, &s))
        return 0;
    turn->turn = s.turn;
    turn->said = text + s.text_begin;
    turn->said_len = s.text_len;
    turn->result = NULL;
    turn->result_len = 0;
    turn->answered = sr1_trajectory_segment(t, turn->next, &s) == SR1_OK &&
                     s.source == SR1_SOURCE_ENVIRONMENT;
    if (turn->answered)
        turn->result = result_of(p, text, &s, &turn->result_len);
    return 1;
}

size_t sr1__turn_actions(const sr1_trajectory *t, int32_t turn)
{
    sr1_action_event e = {sizeof e};
    size_t n = 0;

    for (size_t i = 0; sr1_trajectory_search(t, i, &e) == SR1_OK; i++)
        n += e.turn == turn;
    return n;
}

sr1_status sr1__protocol_split_results(const struct sr1__protocol *p,
                                       struct sr1__str block, struct sr1__str *parts,
                                       size_t max, size_t *n)
{
    struct sr1__str rest = block;
    struct sr1__buf words;
    const char *at;
    size_t k = 0;
    sr1_status st;

    sr1__buf_init(&words, 0);
    sr1__buf_fmt(&words, "%s%s%s%s%s", p->tags[SR1__TAG_CLOSE(SR1__ROLE_RESULT)],
                 p->around, p->between, p->around,
                 p->tags[SR1__TAG_OPEN(SR1__ROLE_RESULT)]);
    st = sr1__buf_status(&words, "words between results");
    for (; st == SR1_OK; k++) {
        at = memmem(rest.s, rest.n, words.data, words.len);
        if (k < max)
            parts[k] = (struct sr1__str){rest.s, at ? (size_t)(at - rest.s) : rest.n};
        if (!at)
            break;
        rest.n -= (size_t)(at - rest.s) + words.len;
        rest.s = at + words.len;
    }
    *n = k + 1;
    sr1__buf_free(&words);
    return st;
}

sr1_status sr1_protocol_result_turn(const char *protocol, const sr1_trajectory *t,
                                    int32_t *turn)
{
    const struct sr1__protocol *p = sr1__protocol_find(protocol);
    struct sr1__turn at = {0};

    if (p == NULL)
        return SR1_E_NOT_FOUND;
    if (t == NULL || turn == NULL)
        return sr1__fail(SR1_E_INVALID, "result turn: trajectory or turn is NULL");
    while (sr1__turn_next(p, t, &at)) {
        if (at.result != NULL) {
            *turn = at.turn;
            return SR1_OK;
        }
    }
    *turn = -1;
    return SR1_OK;
}
