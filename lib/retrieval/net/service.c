/* retrieval/net/service.c - the API key of a service behind HTTP, and the service's error
 * texts. */
#include "retrieval/net/service.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define SAID_MAX 200 /* bytes of a server's own words that are shown */

/* ---- the key ---- */

sr1_status sr1__service_key(char **out, const char *key_env)
{
    const char *value;

    *out = NULL;
    if (key_env == NULL || *key_env == '\0')
        return SR1_OK;
    value = getenv(key_env);
    if (value == NULL || *value == '\0')
        return sr1__fail(SR1_E_CONFIG,
                         "the key is looked for in the environment variable %.100s, "
                         "which is not set",
                         key_env);
    if (strpbrk(value, "\r\n") != NULL)
        return sr1__fail(SR1_E_CONFIG,
                         "the key in the environment variable %.100s has a line break",
                         key_env);
    *out = sr1__strdup(value);
    return *out != NULL ? SR1_OK : sr1__fail_nomem("key");
}

sr1_status sr1__service_header(char **out, const char *before, const char *key)
{
    size_t n = strlen(before);
    char *header = sr1__calloc(n + strlen(key) + 1, 1);

    SR1__CHECK_ALLOC(header, "key");
    memcpy(header, before, n);
    memcpy(header + n, key, strlen(key));
    *out = header;
    return SR1_OK;
}

sr1_status sr1__service_bearer(char **out, const char *key)
{
    return sr1__service_header(out, "Authorization: Bearer ", key);
}

sr1_status sr1__service_basic(char **out, const char *login)
{
    struct sr1__buf b;
    sr1_status st;

    sr1__buf_init(&b, 0);
    sr1__buf_room(&b, (strlen(login) + 2) / 3 * 4); /* no copy is left behind */
    sr1__buf_base64(&b, login, strlen(login));
    st = sr1__buf_status(&b, "key");
    if (st == SR1_OK)
        st = sr1__service_header(out, "Authorization: Basic ", sr1__buf_cstr(&b));
    if (b.len > 0)
        explicit_bzero(b.data, b.len);
    sr1__buf_free(&b);
    return st;
}

void sr1__service_wipe(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    sr1__free(secret);
}

/* ---- failures ---- */

/* The words of an error in the shapes servers use: {"error": text}, {"error": {"message",
 * "detail" or "reason": text}}, {"message": text}, {"detail": text or [{"msg": text}]},
 * {"status": {"error": text}}; or NULL. *place: the object in which they stand. */
static const char *find_words(const json_t *o, const json_t **place)
{
    static const char *const names[] = {"error", "message", "detail",
                                        "msg",   "reason",  "status"};

    if (json_is_array(o))
        return find_words(json_array_get(o, 0), place);
    if (!json_is_object(o))
        return NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *v = json_object_get(o, names[i]);
        const char *inner =
            json_is_string(v) ? json_string_value(v) : find_words(v, place);

        if (inner != NULL && json_is_string(v))
            *place = o;
        if (inner != NULL)
            return inner;
    }
    return NULL;
}

/* Append a server's words as one printable line, every occurrence of the key as ***. */
static void append_masked_words(struct sr1__buf *b, const char *words, const char *key)
{
    size_t key_len = key != NULL ? strlen(key) : 0;
    size_t begin = b->len;

    for (const char *p = words; *p != '\0' && b->len < begin + SAID_MAX; p++) {
        if (key_len > 0 && strncmp(p, key, key_len) == 0) {
            sr1__buf_str(b, "***");
            p += key_len - 1;
        } else {
            sr1__buf_char(b, (unsigned char)*p < 0x20 ? ' ' : *p);
        }
    }
    if (b->status == SR1_OK && b->len > begin) {
        b->len = begin + sr1__utf8_complete(b->data + begin, b->len - begin);
        b->data[b->len] = '\0';
    }
}

/* " (body.query)" of {"loc": ["body", "query"]}: which member FastAPI means. */
static void write_location(struct sr1__buf *b, const json_t *loc)
{
    const json_t *part;
    size_t i;

    json_array_foreach((json_t *)loc, i, part)
    {
        sr1__buf_str(b, i == 0 ? " (" : ".");
        if (json_is_string(part))
            sr1__buf_str(b, json_string_value(part));
        else
            sr1__buf_fmt(b, "%lld", (long long)json_integer_value(part));
    }
    if (json_array_size(loc) > 0)
        sr1__buf_char(b, ')');
}

/* Append the server's text about its failure. */
static void add_explanation(struct sr1__buf *text, const json_t *said, const char *key)
{
    const json_t *place = NULL;
    const char *words = find_words(said, &place);
    struct sr1__buf all;

    if (words == NULL)
        return;
    sr1__buf_init(&all, 0);
    sr1__buf_str(&all, words);
    write_location(&all, json_object_get(place, "loc"));
    sr1__buf_str(text, ": ");
    append_masked_words(text, sr1__buf_cstr(&all), key);
    sr1__buf_free(&all);
}

void sr1__service_explain(const char *key, const struct sr1__http_response *r,
                          struct sr1__buf *text)
{
    json_t *said = NULL;

    sr1__buf_str(text, r->message);
    if (r->code == 0 || r->body.len == 0 ||
        sr1__json_parse_loose(&said, r->body.data, r->body.len, "answer") != SR1_OK)
        return;
    add_explanation(text, said, key);
    json_decref(said);
}

sr1_status sr1__service_fail(const char *key, const struct sr1__http_response *r)
{
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__service_explain(key, r, &text);
    st = sr1__buf_status(&text, "answer");
    if (st == SR1_OK)
        st = sr1__fail(r->status, "%s", sr1__buf_cstr(&text));
    sr1__buf_free(&text);
    return st;
}
