/* environment/critique/critique_conversations.c - conversations that own their texts. */
#include "environment/critique/critique_conversations.h"

#include "base/mem.h"

#include <string.h>

static const char *const roles[SR1_REVISION_MESSAGES] = {"user", "assistant", "user"};

sr1_status sr1__conversations_init(struct sr1__conversations *a, size_t n)
{
    size_t messages = n * SR1_REVISION_MESSAGES + 1;

    *a = (struct sr1__conversations){.n = n};
    a->c = sr1__calloc(n + 1, sizeof(*a->c));
    a->texts = sr1__calloc(messages, sizeof(*a->texts));
    a->sizes = sr1__calloc(messages, sizeof(*a->sizes));
    return a->c && a->texts && a->sizes ? SR1_OK : sr1__fail_nomem("conversations");
}

void sr1__conversations_free(struct sr1__conversations *a)
{
    for (size_t i = 0; a->texts && i < a->n * SR1_REVISION_MESSAGES; i++)
        sr1_free(a->texts[i]);
    sr1__free(a->c);
    sr1__free(a->texts);
    sr1__free(a->sizes);
    *a = (struct sr1__conversations){0};
}

static void fill_conversation(struct sr1__conversations *a, size_t i, size_t messages,
                              const char *id, int32_t sample)
{
    size_t at = i * SR1_REVISION_MESSAGES;

    for (size_t k = 0; k < messages; k++)
        a->sizes[at + k] = strlen(a->texts[at + k]);
    a->c[i] = (sr1_conversation){.struct_size = sizeof(a->c[i]),
                                 .roles = roles,
                                 .contents = (const char *const *)a->texts + at,
                                 .sizes = a->sizes + at,
                                 .n = messages,
                                 .id = id,
                                 .sample = sample};
}

void sr1__conversations_set_prompt(struct sr1__conversations *a, size_t i, char *text,
                                   const char *id, int32_t sample)
{
    a->texts[i * SR1_REVISION_MESSAGES] = text;
    fill_conversation(a, i, 1, id, sample);
}

sr1_status sr1__conversations_set_revision(struct sr1__conversations *a, size_t i,
                                           const sr1_critique_style *style,
                                           const sr1_problem *problem, const char *answer,
                                           size_t len, const char *critique,
                                           size_t critique_len, int32_t sample)
{
    SR1__TRY(sr1_critique_revision(style, problem, answer, len, critique, critique_len,
                                   a->texts + i * SR1_REVISION_MESSAGES));
    fill_conversation(a, i, SR1_REVISION_MESSAGES, NULL, sample);
    return SR1_OK;
}
