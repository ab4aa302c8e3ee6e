/* environment/env/search_r1_compat.c - truncate and parse one whole turn as Search-R1's
 * published code does (Jin et al. 2025, arXiv 2503.09516). The action is the first match
 * of
 *
 *     <(search|answer)>(.*?)</\1>        . is any character
 *
 * in the text that is kept. */
#include "environment/env/protocol.h"

#include "base/text.h"

#include <string.h>

static const char *find_tag_text(const char *text, size_t len, const char *tag)
{
    return memmem(text, len, tag, strlen(tag));
}

size_t sr1__search_r1_truncate(const struct sr1__protocol *p, const char *text,
                               size_t len)
{
    static const int role[2] = {SR1__ROLE_ACTION, SR1__ROLE_ANSWER};
    int k;

    for (k = 0; k < 2; k++) {
        const char *tag = p->tags[SR1__TAG_CLOSE(role[k])];
        const char *at = find_tag_text(text, len, tag);

        if (at != NULL)
            return (size_t)(at - text) + strlen(tag);
    }
    return len;
}

/* The first pair of that role; 0 without one. *from: where it opens. */
static int find_first_pair(const struct sr1__protocol *p, int role, const char *text,
                           size_t len, size_t *from, struct sr1__text_range *content)
{
    const char *opening = p->tags[SR1__TAG_OPEN(role)];
    const char *closing = p->tags[SR1__TAG_CLOSE(role)];
    const char *open = find_tag_text(text, len, opening), *close;

    if (open == NULL)
        return 0;
    *from = (size_t)(open - text);
    content->begin = *from + strlen(opening);
    close = find_tag_text(text + content->begin, len - content->begin, closing);
    content->len = close != NULL ? (size_t)(close - text) - content->begin : 0;
    return close != NULL;
}

int sr1__search_r1_event(const struct sr1__protocol *p, const char *text, size_t len,
                         struct sr1__text_range *content, size_t *end)
{
    struct sr1__text_range search = {0, 0}, answer = {0, 0}, found;
    size_t from[2] = {0, 0};
    int searched = find_first_pair(p, SR1__ROLE_ACTION, text, len, &from[0], &search);
    int answered = find_first_pair(p, SR1__ROLE_ANSWER, text, len, &from[1], &answer);
    int acts = searched && (!answered || from[0] < from[1]);
    int role = acts ? SR1__ROLE_ACTION : SR1__ROLE_ANSWER;

    if (!searched && !answered)
        return SR1__EVENT_NONE;
    found = acts ? search : answer;
    if (end != NULL)
        *end = found.begin + found.len + strlen(p->tags[SR1__TAG_CLOSE(role)]);
    sr1__strip(text, &found.begin, &found.len);
    if (content != NULL)
        *content = found;
    return acts ? SR1__EVENT_ACTION : SR1__EVENT_ANSWER;
}
