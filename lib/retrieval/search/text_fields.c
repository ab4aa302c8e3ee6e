/* retrieval/search/text_fields.c - see text_fields.h. */
#include "retrieval/search/text_fields.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "retrieval/search/json_hit.h"

#include <string.h>

/* ---- names ---- */

static sr1_status add_field_name(struct sr1__text_fields *f, const char *name, size_t n)
{
    size_t named = strcspn(name, "^,");

    named = named < n ? named : n;
    if (named == 0 || !sr1__utf8_valid(name, n))
        return sr1__fail(SR1_E_INVALID, "fields: a name is empty or no UTF-8");
    if (f->n == SR1__TEXT_FIELDS_MAX)
        return sr1__fail(SR1_E_INVALID, "fields: there are more than %d",
                         SR1__TEXT_FIELDS_MAX);
    f->searched[f->n] = sr1__strndup(name, n);
    f->named[f->n] = sr1__strndup(name, named);
    f->n++;
    SR1__CHECK_ALLOC(f->searched[f->n - 1] && f->named[f->n - 1], "fields");
    return SR1_OK;
}

sr1_status sr1__text_fields_read(struct sr1__text_fields *f, const char *names)
{
    *f = (struct sr1__text_fields){0};
    for (;;) {
        size_t blanks = strspn(names, " ");
        size_t n = strcspn(names += blanks, ",");
        size_t len = n;

        while (len > 0 && names[len - 1] == ' ')
            len--;
        SR1__TRY(add_field_name(f, names, len));
        if (names[n] == '\0')
            return SR1_OK;
        names += n + 1;
    }
}

void sr1__text_fields_free(struct sr1__text_fields *f)
{
    for (size_t i = 0; i < f->n; i++) {
        sr1__free(f->searched[i]);
        sr1__free(f->named[i]);
    }
    f->n = 0;
}

static json_t *list_field_names(char *const *names, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_string(names[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *sr1__text_fields_list(const struct sr1__text_fields *f)
{
    return list_field_names(f->named, f->n);
}

json_t *sr1__text_fields_list_searched(const struct sr1__text_fields *f)
{
    return list_field_names(f->searched, f->n);
}

/* ---- texts ---- */

static void append_line(struct sr1__buf *b, const json_t *text, int *found)
{
    if (!json_is_string(text))
        return;
    if (*found)
        sr1__buf_char(b, '\n');
    sr1__json_add_text(b, text);
    *found = 1;
}

int sr1__text_fields_append(const struct sr1__text_fields *f, const json_t *document,
                            struct sr1__buf *b)
{
    int found = 0;

    for (size_t i = 0; i < f->n; i++) {
        const json_t *v = json_object_get(document, f->named[i]);
        const json_t *item;
        size_t k;

        v = v != NULL ? v : sr1__json_at(document, f->named[i]);
        append_line(b, v, &found);
        json_array_foreach((json_t *)v, k, item) append_line(b, item, &found);
    }
    return found;
}
