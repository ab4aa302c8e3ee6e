/* retrieval/search/encoding.c - see encoding.h. */
#include "retrieval/search/encoding.h"

#include "base/json.h"
#include "base/log.h"

#include <string.h>

/* What is compared, and what a difference leads to. */
enum difference { TOLD, REFUSED, REFUSED_UNLESS_ALLOWED };

static const struct {
    const char *key;
    enum difference leads_to;
    const char *what;
} compared[] = {
    {"pooling", REFUSED, "pool otherwise"},
    {"normalize", REFUSED, "are of another length (normalize)"},
    {"weights", REFUSED_UNLESS_ALLOWED, "are of an encoder with other weights"},
    {"prefix", TOLD, "are of texts with another prefix"},
};

static sr1_status parse_encoding(json_t **out, const char *text)
{
    return sr1__json_parse(out, text, strlen(text), "encoding of an embedder");
}

sr1_status sr1__encoding_of_documents(const char *encoding, struct sr1__buf *out)
{
    json_t *e = NULL;
    sr1_status status;

    if (*encoding == '\0')
        return SR1_OK;
    SR1__TRY(parse_encoding(&e, encoding));
    json_object_del(e, "query");
    status = sr1__json_dump(e, 0, out);
    json_decref(e);
    return status;
}

static void append_value(struct sr1__buf *b, const json_t *side, const char *key)
{
    const json_t *v = json_object_get(side, key);

    if (json_is_string(v))
        sr1__buf_fmt(b, "'%.60s'", json_string_value(v));
    else
        sr1__buf_fmt(b, "%lld", (long long)json_integer_value(v));
}

static sr1_status refuse_difference(const char *text, enum difference leads_to)
{
    return sr1__fail(SR1_E_INVALID,
                     "%s; open the embedder as the index was made, or build the index "
                     "again%s",
                     text,
                     leads_to == REFUSED ? ""
                                         : "; if the two were trained to go together, "
                                           "allow it (search_other_weights)");
}

/* The text of the error or message. */
static sr1_status tell_difference(size_t row, const json_t *of_index,
                                  const json_t *of_embedder, const char *name,
                                  int allowed)
{
    enum difference leads_to = compared[row].leads_to;
    int refused = leads_to == REFUSED || (leads_to == REFUSED_UNLESS_ALLOWED && !allowed);
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "vectors of embedder '%.200s' %s: %s ", name, compared[row].what,
                 compared[row].key);
    append_value(&b, of_embedder, compared[row].key);
    sr1__buf_str(&b, ", the index was made with ");
    append_value(&b, of_index, compared[row].key);
    status = sr1__buf_status(&b, "encoding of an embedder");
    if (status == SR1_OK && refused)
        status = refuse_difference(b.data, leads_to);
    else if (status == SR1_OK && leads_to == TOLD)
        sr1__log(SR1_LOG_WARN,
                 "%s; hits are right only if the two were trained to go together",
                 b.data);
    sr1__buf_free(&b);
    return status;
}

static sr1_status compare_sides(const json_t *of_index, const json_t *of_embedder,
                                const char *name, int allowed)
{
    for (size_t i = 0; i < sizeof(compared) / sizeof(compared[0]); i++) {
        const json_t *a = json_object_get(of_index, compared[i].key);
        const json_t *b = json_object_get(of_embedder, compared[i].key);

        if (a != NULL && b != NULL && !json_equal(a, b))
            SR1__TRY(tell_difference(i, of_index, of_embedder, name, allowed));
    }
    return SR1_OK;
}

sr1_status sr1__encoding_check(const char *of_index, const char *of_embedder,
                               const char *name, int other_weights)
{
    json_t *a = NULL;
    json_t *b = NULL;
    sr1_status status;

    if (*of_index == '\0' || *of_embedder == '\0')
        return SR1_OK;
    status = parse_encoding(&a, of_index);
    if (status == SR1_OK)
        status = parse_encoding(&b, of_embedder);
    if (status == SR1_OK)
        status = compare_sides(json_object_get(a, "query"), json_object_get(b, "query"),
                               name, other_weights);
    json_decref(a);
    json_decref(b);
    return status;
}
