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
