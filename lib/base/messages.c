/* base/messages.c - see messages.h. */
#include "base/messages.h"

#include "base/mem.h"

#include <string.h>

const char *const sr1__role_names[SR1__ROLES] = {"system", "user", "assistant", "tool",
                                                 "developer"};

int sr1__role_find(const char *name)
{
    for (int k = 0; name && k < SR1__ROLES; k++)
        if (strcmp(name, sr1__role_names[k]) == 0)
            return k;
    return -1;
}

void sr1__messages_free(struct sr1__messages *m)
{
    for (size_t i = 0; i < m->n; i++) {
        sr1__spans_free(&m->own[i]);
        sr1__free(m->copies[i]);
    }
    sr1__free(m->roles);
    sr1__free(m->texts);
    sr1__free(m->sizes);
    sr1__free(m->own);
    sr1__free(m->copies);
    *m = (struct sr1__messages){0};
}

/* Room for one more in each column. */
static sr1_status reserve_message(struct sr1__messages *m)
{
    size_t cap[] = {m->cap, m->cap, m->cap, m->cap};

    SR1__RESERVE(m->roles, cap[0], m->n + 1, "messages");
    SR1__RESERVE(m->texts, cap[1], m->n + 1, "messages");
    SR1__RESERVE(m->sizes, cap[2], m->n + 1, "messages");
    SR1__RESERVE(m->own, cap[3], m->n + 1, "messages");
    SR1__RESERVE(m->copies, m->cap, m->n + 1, "messages");
    return SR1_OK;
}

sr1_status sr1__messages_add(struct sr1__messages *m, const char *role, const char *text,
                             size_t size)
{
    size_t i = m->n;

    SR1__TRY(reserve_message(m));
    m->roles[i] = role;
    m->texts[i] = text;
    m->sizes[i] = size;
    m->own[i] = (struct sr1__spans){0};
    m->copies[i] = NULL;
    m->n++;
    return SR1_OK;
}

sr1_status sr1__messages_add_copy(struct sr1__messages *m, const char *role,
                                  const char *text, size_t size,
                                  const struct sr1__spans *own)
{
    size_t i = m->n;

    SR1__TRY(sr1__messages_add(m, role, NULL, size));
    m->texts[i] = m->copies[i] = sr1__strndup(text, size);
    SR1__CHECK_ALLOC(m->copies[i], "messages");
    for (size_t k = 0; own && k < own->n; k++)
        SR1__TRY(sr1__spans_add(&m->own[i], own->v[2 * k], own->v[2 * k + 1]));
    return SR1_OK;
}
