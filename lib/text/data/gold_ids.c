/* text/data/gold_ids.c - see gold_ids.h. */
#include "text/data/gold_ids.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "text/data/python_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sr1__gold_ids_free(struct sr1__gold_ids *g)
{
    for (size_t i = 0; i < g->n; i++)
        sr1__free(g->ids[i]);
    sr1__free(g->ids);
    *g = (struct sr1__gold_ids){0};
}

static sr1_status fail_gold_ids(const char *field)
{
    return sr1__fail(SR1_E_PARSE,
                     "field '%s' has no ids of documents: it must be an id, or a list of "
                     "ids, of [id, ...], or of objects with id or title; name another "
                     "with gold_ids_field",
                     field);
}

/* The member of an object that has its id; NULL: there is none. */
static const json_t *find_id_member(const json_t *object)
{
    static const char *const names[] = {"id",         "_id",    "docid",
                                        "passage_id", "psg_id", "title"};
    const json_t *v = NULL;

    for (size_t i = 0; !v && i < sizeof names / sizeof names[0]; i++)
        v = json_object_get(object, names[i]);
    return v;
}

/* Text, or a number as its text, in number[32]; NULL: neither, or text with NUL. */
static const char *read_id_text(const json_t *v, char *number)
{
    if (json_is_integer(v))
        snprintf(number, 32, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        sr1__format_real(json_real_value(v), number);
    else
        return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v)
                   ? json_string_value(v)
                   : NULL;
    return number;
}

/* An item of the list; blanks around an id do not count. */
static sr1_status add_gold_id(struct sr1__gold_ids *g, const json_t *v, const char *field)
{
    const json_t *inner = json_is_object(v)  ? find_id_member(v)
                          : json_is_array(v) ? json_array_get(v, 0)
                                             : v;
    char number[32];
    const char *text = read_id_text(inner, number);
    size_t begin = 0, n;
    char **ids;

    if (!text)
        return fail_gold_ids(field);
    n = strlen(text);
    sr1__strip(text, &begin, &n);
    if (n == 0)
        return SR1_OK;
    if (g->n == SR1__GOLD_IDS_MAX)
        return sr1__fail(SR1_E_LIMIT, "field '%s' has more than %d ids of documents",
                         field, SR1__GOLD_IDS_MAX);
    ids = sr1__realloc(g->ids, g->n + 1, sizeof *ids);
    SR1__CHECK_ALLOC(ids, "ids of documents");
    g->ids = ids;
    ids[g->n] = sr1__strndup(text + begin, n);
    SR1__CHECK_ALLOC(ids[g->n], "ids of documents");
    g->n++;
    return SR1_OK;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_gold_ids(struct sr1__gold_ids *g)
{
    size_t kept = 0;

    if (g->n > 0)
        qsort(g->ids, g->n, sizeof *g->ids, compare_ids);
    for (size_t i = 0; i < g->n; i++) {
        if (kept > 0 && strcmp(g->ids[i], g->ids[kept - 1]) == 0)
            sr1__free(g->ids[i]);
        else
            g->ids[kept++] = g->ids[i];
    }
    g->n = kept;
}

/* A cell of a CSV file may hold a list as JSON, or as Python prints one. *list stays NULL
 * where this is none. */
static sr1_status read_list_in_cell(const json_t *v, json_t **list)
{
    const char *s = json_string_value(v);
    sr1_status status = SR1_OK;

    if (s && s[0] == '[')
        status = sr1__json_parse(list, s, json_string_length(v), "list");
    if (status == SR1_E_PARSE)
        status = sr1__python_list_read(s, json_string_length(v), list);
    return status == SR1_E_NOMEM ? status : SR1_OK;
}

static sr1_status read_ids_member(struct sr1__gold_ids *out, const json_t *v,
                                  const char *field)
{
    const json_t *titles = json_object_get(v, "title");
    sr1_status status = SR1_OK;

    if (json_is_array(titles))
        v = titles;
    if (!v || json_is_null(v))
        return SR1_OK;
    if (!json_is_array(v))
        return add_gold_id(out, v, field);
    for (size_t i = 0; status == SR1_OK && i < json_array_size(v); i++)
        status = add_gold_id(out, json_array_get(v, i), field);
    return status;
}

sr1_status sr1__gold_ids_read(struct sr1__gold_ids *out, const json_t *row,
                              const char *field)
{
    const json_t *v = json_object_get(row, field);
    json_t *list = NULL;
    sr1_status status;

    if (!v)
        v = sr1__json_at(row, field);
    status = read_list_in_cell(v, &list);
    if (status == SR1_OK)
        status = read_ids_member(out, list ? list : v, field);
    json_decref(list);
    sort_gold_ids(out);
    return status;
}

size_t sr1__gold_ids_find(const struct sr1__gold_ids *g, const char *id)
{
    char **at = g->n > 0 ? bsearch(&id, g->ids, g->n, sizeof *g->ids, compare_ids) : NULL;

    return at ? (size_t)(at - g->ids) : g->n;
}
