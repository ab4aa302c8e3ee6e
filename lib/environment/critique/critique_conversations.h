/* environment/critique/critique_conversations.h - conversations that own their texts,
 * sent to a generator as one batch. */
#ifndef SR1__CRITIQUE_CRITIQUE_CONVERSATIONS_H
#define SR1__CRITIQUE_CRITIQUE_CONVERSATIONS_H

#include "base/error.h"

#include <searchr1/ext/critique.h>

struct sr1__conversations {
    sr1_conversation *c; /* [n] */
    char **texts;        /* [n * SR1_REVISION_MESSAGES], owned */
    size_t *sizes;       /* likewise */
    size_t n;
};

/* n empty conversations. Free in any case. */
sr1_status sr1__conversations_init(struct sr1__conversations *a, size_t n);
void sr1__conversations_free(struct sr1__conversations *a);

/* Make conversation i a single user message; takes ownership of text. */
void sr1__conversations_set_prompt(struct sr1__conversations *a, size_t i, char *text,
                                   const char *id, int32_t sample);
/* Make conversation i the request for the revision of an answer (NULL: the problem's). */
sr1_status sr1__conversations_set_revision(struct sr1__conversations *a, size_t i,
                                           const sr1_critique_style *style,
                                           const sr1_problem *problem, const char *answer,
                                           size_t len, const char *critique,
                                           size_t critique_len, int32_t sample);

#endif
