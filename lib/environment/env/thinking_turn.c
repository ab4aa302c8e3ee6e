/* environment/env/thinking_turn.c - find the tokens of a message that are its level's
 * tag, its thoughts, its action.
 *
 * A token's text is the text that it completed (sr1_trajectory_text_ends). A token
 * belongs to a span if the two overlap; a token that only began a character belongs to
 * the span of that character. */
#include "environment/env/thinking_turn.h"

#include "environment/env/conversation_turns.h"

#include <string.h>

/* Where the text of the token at position i begins and ends in the generated text. */
static size_t text_begin(const sr1_trajectory *t, size_t i)
{
    size_t prompt = sr1_trajectory_prompt_count(t);

    return i > prompt ? sr1_trajectory_text_ends(t)[i - prompt - 1] : 0;
}

static size_t text_end(const sr1_trajectory *t, size_t i)
{
    return sr1_trajectory_text_ends(t)[i - sr1_trajectory_prompt_count(t)];
}

/* The tokens from `from` on whose text is of [begin, begin + n) of the generated text. */
static struct sr1__span_of_tokens locate_text_tokens(const sr1_trajectory *t, size_t from,
                                                     size_t end, size_t begin, size_t n)
{
    struct sr1__span_of_tokens s = {from, from};

    while (s.begin < end && text_begin(t, s.begin) < begin &&
           text_end(t, s.begin) <= begin)
        s.begin++;
    for (s.end = s.begin; s.end < end && text_begin(t, s.end) < begin + n;)
        s.end++;
    return s;
}

static void locate_turn_tokens(const sr1_trajectory *t, size_t text,
                               struct sr1__thinking_turn *turn)
{
    const sr1_thinking_step *s = &turn->step;
    const struct sr1__span_of_tokens *m = &turn->message;
    int closed = !(s->fallbacks & (SR1_THINKING_NO_ACTION | SR1_THINKING_ACTION_OPEN));

    turn->thoughts =
        locate_text_tokens(t, m->begin, m->end, text + s->think_begin, s->think_len);
    if (s->think_len == 0)
        turn->thoughts.end = turn->thoughts.begin;
    turn->level =
        locate_text_tokens(t, m->begin, m->end, text + s->level_begin, s->level_len);
    if (s->level_len == 0)
        turn->level.end = turn->level.begin;
    turn->behind = m->begin;
    while (turn->behind < m->end && text_begin(t, turn->behind) < text + s->prefix_len)
        turn->behind++;
    turn->behind_at =
        turn->behind < m->end ? text_begin(t, turn->behind) - text : turn->said_len;
    turn->action = locate_text_tokens(t, turn->behind, m->end, text + s->action_begin,
                                      closed ? s->action_len : 0);
    if (!closed || s->action_len == 0)
        turn->action.end = turn->action.begin;
}

/* The thought that the prompt opened: all before its closing tag. */
static void read_open_thought(struct sr1__thinking_turn *turn)
{
    static const char closing[] = "</think>";
    const char *close = memmem(turn->said, turn->said_len, closing, sizeof closing - 1);

    turn->step.think_begin = 0;
    turn->step.think_len = close ? (size_t)(close - turn->said) : turn->said_len;
    if (!close)
        turn->step.fallbacks |= SR1_THINKING_THINK_OPEN;
}

int sr1__thinking_turn_next(const sr1_trajectory *t, struct sr1__thinking_turn *turn)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    sr1_text_segment s = {.struct_size = sizeof s};

    if (!sr1__policy_segment_next(t, &turn->next, &s))
        return 0;
    turn->turn = s.turn;
    turn->said = text + s.text_begin;
    turn->said_len = s.text_len;
    turn->message.begin = s.token_begin;
    turn->message.end = s.token_begin + s.token_count;
    turn->step = (sr1_thinking_step){.struct_size = sizeof turn->step};
    if (sr1_thinking_parse(turn->said, turn->said_len, &turn->step) != SR1_OK)
        return 0;
    if (s.text_begin == 0 && sr1_trajectory_begins_in_thought(t))
        read_open_thought(turn);
    locate_turn_tokens(t, s.text_begin, turn);
    return 1;
}

int64_t sr1__thinking_tokens(const sr1_trajectory *t)
{
    struct sr1__thinking_turn turn = {0};
    int64_t n = 0;

    while (sr1__thinking_turn_next(t, &turn))
        n += (int64_t)(turn.thoughts.end - turn.thoughts.begin);
    return n;
}
