/* environment/mcp/mcp_result.c - the result of tools/call as a text: its texts one after
 * the other, and a note for what is none. */
#include "environment/mcp/mcp.h"

#include "base/error.h"

#include <string.h>

static void append_resource(const json_t *item, struct sr1__buf *text)
{
    const json_t *resource = json_object_get(item, "resource");
    const json_t *body = json_object_get(resource, "text");
    const char *uri = json_string_value(json_object_get(resource, "uri"));

    if (json_is_string(body))
        sr1__buf_add(text, json_string_value(body), json_string_length(body));
    else
        sr1__buf_fmt(text, "[resource %.256s]", uri ? uri : "");
}

static void append_link(const json_t *item, struct sr1__buf *text)
{
    const char *uri = json_string_value(json_object_get(item, "uri"));

    sr1__buf_fmt(text, "[link %.256s]", uri ? uri : "");
}

/* "[image image/png]": the policy reads texts only. */
static void append_media(const json_t *item, struct sr1__buf *text)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *media = json_string_value(json_object_get(item, "mimeType"));

    sr1__buf_fmt(text, "[%.32s %.64s]", type ? type : "", media ? media : "");
}

static void append_plain_text(const json_t *item, struct sr1__buf *text)
{
    const json_t *body = json_object_get(item, "text");

    if (json_is_string(body))
        sr1__buf_add(text, json_string_value(body), json_string_length(body));
}

static const struct {
    const char *type;
    void (*append)(const json_t *item, struct sr1__buf *text);
} kinds[] = {
    {"text", append_plain_text},
    {"resource", append_resource},
    {"resource_link", append_link},
};

static void append_item(const json_t *item, struct sr1__buf *text)
{
    const char *type = json_string_value(json_object_get(item, "type"));

    for (size_t i = 0; type && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].type, type) == 0) {
            kinds[i].append(item, text);
            return;
        }
    append_media(item, text);
}

sr1_status sr1__mcp_result_text(const json_t *result, struct sr1__buf *text, int *failed)
{
    const json_t *content = json_object_get(result, "content");
    const json_t *structured = json_object_get(result, "structuredContent");
    size_t n = json_array_size(content);

    if (!json_is_object(result) || (!json_is_array(content) && !structured))
        return sr1__fail(SR1_E_PARSE, "the result of a call has no list 'content'");
    for (size_t i = 0; i < n; i++) {
        sr1__buf_str(text, i > 0 ? "\n" : "");
        append_item(json_array_get(content, i), text);
    }
    if (n == 0 && structured)
        SR1__TRY(sr1__json_dump(structured, 0, text));
    *failed = json_is_true(json_object_get(result, "isError"));
    return sr1__buf_status(text, "the result of a call");
}
