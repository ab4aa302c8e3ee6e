/* critique/conversation.h - conversations that own their texts, asked of a writer as one
 * batch. */
#ifndef SR1__CRITIQUE_CONVERSATION_H
#define SR1__CRITIQUE_CONVERSATION_H

#include "base/error.h"

#include <searchr1/critique.h>

struct sr1__asking {
    sr1_conversation *c; /* [n] */
    char **texts;        /* [n * SR1_REVISION_MESSAGES], owned */
    size_t *sizes;       /* likewise */
    size_t n;
};

/* n empty conversations. Free in any case. */
sr1_status sr1__asking_init(struct sr1__asking *a, size_t n);
void sr1__asking_free(struct sr1__asking *a);

/* Conversation i asks one thing: text is taken over. */
void sr1__asking_prompt(struct sr1__asking *a, size_t i, char *text, const char *id,
                        int32_t sample);
/* Conversation i asks for the revision of an answer (NULL: the problem's). */
sr1_status sr1__asking_revision(struct sr1__asking *a, size_t i,
                                const sr1_critique_style *style,
                                const sr1_problem *problem, const char *answer,
                                size_t len, const char *critique, size_t critique_len,
                                int32_t sample);

#endif
