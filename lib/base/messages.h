/* base/messages.h - a conversation, oldest message first. Roles, texts and their sizes
 * are columns, as the public calls take them. Stretches of a text may be the caller's own
 * words: in those, unlike in text from outside, added tokens such as <think> keep their
 * meaning. */
#ifndef SR1__BASE_MESSAGES_H
#define SR1__BASE_MESSAGES_H

#include "base/spans.h"

enum sr1__role {
    SR1__ROLE_SYSTEM,
    SR1__ROLE_USER,
    SR1__ROLE_ASSISTANT,
    SR1__ROLE_TOOL,
    SR1__ROLE_DEVELOPER, /* OpenAI's newer name of the system's */
    SR1__ROLES
};
extern const char *const sr1__role_names[SR1__ROLES];
/* The role of that name; -1 for NULL and for any other. */
int sr1__role_find(const char *name);

/* Zeroed it is empty. */
struct sr1__messages {
    const char **roles;     /* [n], borrowed */
    const char **texts;     /* [n], UTF-8 */
    size_t *sizes;          /* [n], bytes */
    struct sr1__spans *own; /* [n], stretches of the texts */
    char **copies;          /* [n], texts of its own; NULL: borrowed */
    size_t n, cap;
};

/* Append a message whose text is borrowed, with no own words. */
sr1_status sr1__messages_add(struct sr1__messages *m, const char *role, const char *text,
                             size_t size);
/* Append one whose text and own words (NULL: none) are copied. */
sr1_status sr1__messages_add_copy(struct sr1__messages *m, const char *role,
                                  const char *text, size_t size,
                                  const struct sr1__spans *own);
void sr1__messages_free(struct sr1__messages *m); /* leaves it empty, reusable */

#endif
