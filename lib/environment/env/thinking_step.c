/* environment/env/thinking_step.c - parse steps that state their thinking level:
 *
 *     <level>n</level><think>...</think><action>...</action>
 *
 * Level 1 may leave out the thoughts. A malformed step is read as far as possible, and
 * its mistakes are reported. Source: the specification of RLVCR, "Error Handling". */
#include "base/struct.h"

#include <searchr1/ext/thinking.h>

#include "environment/env/protocol.h"
#include "base/text.h"

#include <string.h>

static const struct {
    const char *name, *text;
} levels[SR1_THINKING_LEVELS] = {
    {"instinctive", "Act at once, without thinking."},
    {"situational", "Check the current state, then act."},
    {"experienced", "Check the current state and the goal, learn from the steps so far, "
                    "then act."},
    {"strategic", "Analyze the goal, the current state and the possible actions, judge "
                  "where each of them leads, then act."},
};

sr1_status sr1_thinking_level(int32_t level, const char **name, const char **text)
{
    if (level < 1 || level > SR1_THINKING_LEVELS)
        return sr1__fail(SR1_E_INVALID, "thinking level %d; levels are 1 to %d",
                         (int)level, SR1_THINKING_LEVELS);
    if (name != NULL)
        *name = levels[level - 1].name;
    if (text != NULL)
        *text = levels[level - 1].text;
    return SR1_OK;
}

#define NONE ((size_t)-1)

/* Where tag begins in text[from..end), or NONE. */
static size_t find_tag_before(const char *text, size_t from, size_t end, const char *tag)
{
    const char *at =
        from < end ? memmem(text + from, end - from, tag, strlen(tag)) : NULL;

    return at != NULL ? (size_t)(at - text) : NONE;
}

/* The action's content; *end is the end of the text before its tag. */
static void parse_thinking_action(const char *text, size_t len, sr1_thinking_step *s,
                                  size_t *end)
{
    const struct sr1__protocol *p = sr1__protocol_of_levels();
    const char *open = p->tags[SR1__TAG_OPEN(SR1__ROLE_ACTION)];
    struct sr1__text_range content = {0, 0};
    size_t at = find_tag_before(text, 0, len, open);
    int32_t event =
        sr1__protocol_first_event(p, text, len, SR1__ACTION_MAX, &content, NULL);

    *end = s->prefix_len = len;
    if (event == SR1__EVENT_ANSWER || at == NONE) {
        s->fallbacks |= SR1_THINKING_NO_ACTION;
        return;
    }
    if (event == SR1__EVENT_NONE) {
        s->fallbacks |= SR1_THINKING_ACTION_OPEN;
        content.begin = at + strlen(open);
        content.len = len - content.begin;
        sr1__strip(text, &content.begin, &content.len);
    }
    *end = at;
    s->prefix_len = at + strlen(open);
    s->action_begin = content.begin;
    s->action_len = content.len;
}

/* The text between two tags in text[0..end), up to end if it is not closed. *begin is
 * NONE without the first tag. Returns whether it is closed. */
static int find_tag_content(const char *text, size_t end, const char *open,
                            const char *close, size_t *begin, size_t *n)
{
    size_t at = find_tag_before(text, 0, end, open), stop;

    *begin = NONE;
    *n = 0;
    if (at == NONE)
        return 0;
    *begin = at + strlen(open);
    stop = find_tag_before(text, *begin, end, close);
    *n = (stop != NONE ? stop : end) - *begin;
    sr1__strip(text, begin, n);
    return stop != NONE;
}

static void parse_thoughts(const char *text, size_t end, sr1_thinking_step *s)
{
    size_t begin, n;
    int closed = find_tag_content(text, end, "<think>", "</think>", &begin, &n);

    if (begin == NONE)
        return;
    s->think_begin = begin;
    s->think_len = n;
    if (!closed)
        s->fallbacks |= SR1_THINKING_THINK_OPEN;
}

/* The number at the beginning of text[0..n), 0 for none from 1 to 4. whole: nothing may
 * follow it. */
static int32_t parse_level_number(const char *text, size_t n, int whole)
{
    int32_t level = n > 0 ? text[0] - '0' : 0;
    int goes_on = n > 1 && (whole || (text[1] >= '0' && text[1] <= '9'));

    return level >= 1 && level <= SR1_THINKING_LEVELS && !goes_on ? level : 0;
}

static void parse_level(const char *text, size_t end, sr1_thinking_step *s)
{
    size_t begin, n;
    int closed = find_tag_content(text, end, "<level>", "</level>", &begin, &n);

    if (begin == NONE) {
        s->level = s->think_len == 0 && !(s->fallbacks & SR1_THINKING_NO_ACTION);
        s->fallbacks |=
            s->level ? SR1_THINKING_LEVEL_GUESSED : SR1_THINKING_LEVEL_UNKNOWN;
        return;
    }
    s->level = parse_level_number(text + begin, n, closed);
    if (s->level == 0)
        s->fallbacks |= SR1_THINKING_LEVEL_UNKNOWN;
    else if (!closed)
        s->fallbacks |= SR1_THINKING_LEVEL_OPEN;
    s->level_begin = find_tag_before(text, 0, end, "<level>");
    s->level_len =
        closed ? find_tag_before(text, begin, end, "</level>") + strlen("</level>")
               : begin + (s->level > 0);
    s->level_len -= s->level_begin;
}

sr1_status sr1_thinking_parse(const char *text, size_t len, sr1_thinking_step *out)
{
    sr1_thinking_step s = {0};
    size_t end;

    SR1__TRY(sr1__struct_check(out, "thinking step"));
    if (text == NULL && len > 0)
        return sr1__fail(SR1_E_INVALID, "thinking step: text is NULL");
    text = text != NULL ? text : "";
    parse_thinking_action(text, len, &s, &end);
    parse_thoughts(text, end, &s);
    parse_level(text, end, &s);
    return sr1__struct_give(out, &s, sizeof s, "thinking step");
}
