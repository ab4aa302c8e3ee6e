/* text/tokenizer/chat.c - the public calls: messages from C arrays or from JSON, rendered
 * (chat_render.c) and encoded so that an added token means itself only in the template's
 * own words, unless the caller asks for the reference's behaviour. */
#include "text/tokenizer/chat.h"
#include "text/tokenizer/chat_turn.h"

#include "base/mem.h"
#include "base/struct.h"
#include "base/utf8.h"

#include <stddef.h>
#include <string.h>

#define MESSAGES_MAX ((size_t)1 << 20)

/* The arguments of a call; pointers may be NULL. */
struct results {
    char **text;
    size_t *text_size;
    int32_t **ids;
    size_t *n_ids;
};

static sr1_status encode_between(struct sr1__text_encoder *e, const char *text,
                                 size_t from, size_t to)
{
    e->first = from == 0;
    return sr1__encode_plain(e, text + from, to - from);
}

/* Encode one stretch [own[0], own[1]) of the template's own words, `plain_from` before
 * it: text not yet encoded that ends where the first added token begins. Returns where
 * the last one ends, with the white space that it takes. */
static sr1_status encode_own(struct sr1__text_encoder *e, const char *text, size_t n,
                             const size_t *own, size_t *plain_from)
{
    struct sr1__added_match m = {0};
    size_t begin = own[0] > *plain_from ? own[0] : *plain_from;

    while (sr1__find_added(e->t, text, own[1], begin, &m)) {
        sr1__widen_added(&m, text, n, *plain_from);
        SR1__TRY(encode_between(e, text, *plain_from, m.at));
        SR1__TRY(sr1__ids_add(e->out, m.id));
        begin = *plain_from = m.at + m.n;
    }
    return SR1_OK;
}

static sr1_status encode_parts(struct sr1__text_encoder *e, const char *text, size_t n,
                               const size_t *own, size_t n_own)
{
    size_t plain_from = 0;

    for (size_t i = 0; i < n_own; i++)
        SR1__TRY(encode_own(e, text, n, own + 2 * i, &plain_from));
    return encode_between(e, text, plain_from, n);
}

sr1_status sr1__tokenizer_encode_own(const sr1_tokenizer *t, const char *text, size_t n,
                                     const size_t *own, size_t n_own, int continued,
                                     struct sr1__ids *ids)
{
    struct sr1__text_encoder e;
    size_t before = ids->n;
    sr1_status status;

    if (!sr1__utf8_valid(text, n))
        return sr1__fail(SR1_E_INVALID, "encode: the text is not UTF-8");
    status = sr1__text_encoder_begin(&e, t, ids);
    e.continued = continued;
    if (status == SR1_OK)
        status = encode_parts(&e, text, n, own, n_own);
    sr1__text_encoder_end(&e);
    if (status != SR1_OK)
        ids->n = before;
    return status;
}

static sr1_status encode_rendered(const sr1_tokenizer *t, const struct sr1__rendered *r,
                                  int recognise, struct sr1__ids *ids)
{
    struct sr1__text_encoder e;
    sr1_status status = sr1__text_encoder_begin(&e, t, ids);

    if (status == SR1_OK)
        status = recognise ? sr1__encode_mixed(&e, sr1__buf_cstr(&r->text), r->text.len,
                                               SR1_ENCODE_ALL_ADDED)
                           : encode_parts(&e, sr1__buf_cstr(&r->text), r->text.len,
                                          r->own.v, r->own.n);
    sr1__text_encoder_end(&e);
    return status;
}

static sr1_status render_and_encode(const sr1_tokenizer *t,
                                    const struct sr1__conversation *c, int recognise,
                                    const struct results *to)
{
    struct sr1__rendered r;
    struct sr1__ids ids = {0};
    size_t size;
    char *text = NULL;
    sr1_status status;

    sr1__rendered_init(&r);
    status = sr1__chat_render(t, c, &r);
    if (status == SR1_OK && to->ids)
        status = encode_rendered(t, &r, recognise, &ids);
    size = r.text.len;
    if (status == SR1_OK && to->text) {
        text = sr1__buf_take(&r.text);
        status = text ? SR1_OK : sr1__fail_nomem("chat");
    }
    if (status != SR1_OK) {
        sr1__ids_free(&ids);
    } else {
        if (to->text)
            *to->text = text;
        if (to->text_size)
            *to->text_size = size;
        if (to->ids)
            *to->ids = ids.v;
        if (to->n_ids)
            *to->n_ids = ids.n;
    }
    sr1__rendered_free(&r);
    return status;
}

void sr1_chat_options_init(sr1_chat_options *options)
{
    static const sr1_chat_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_chat_options(const sr1_chat_options *from, sr1_chat_options *to)
{
    memset(to, 0, sizeof *to);
    return sr1__struct_take(to, sizeof *to, from,
                            SR1__STRUCT_END(sr1_chat_options, add_generation_prompt),
                            "chat: options");
}

/* Tools are an array; an empty one counts as none. */
static sr1_status read_tools(const char *text, json_t **out)
{
    json_t *j = NULL;

    if (!text)
        return SR1_OK;
    SR1__TRY(sr1__chat_json_parse(&j, text, strlen(text), "chat tools"));
    if (!json_is_array(j)) {
        json_decref(j);
        return sr1__fail(SR1_E_INVALID, "chat tools: not a JSON array");
    }
    if (json_array_size(j) == 0) {
        json_decref(j);
        j = NULL;
    }
    *out = j;
    return SR1_OK;
}

static sr1_status run_chat_call(const sr1_tokenizer *t, struct sr1__conversation *c,
                                const sr1_chat_options *options, const struct results *to)
{
    json_t *tools = NULL;
    sr1_chat_options o;
    sr1_status status;

    SR1__TRY(sr1__needs_bpe(t, "chat"));
    SR1__TRY(read_chat_options(options, &o));
    SR1__TRY(read_tools(o.tools, &tools));
    c->tools = tools;
    c->add_generation_prompt = o.add_generation_prompt != 0;
    c->no_thinking = o.no_thinking != 0;
    c->developer = sr1__chat_writes_developer(t);
    status = render_and_encode(t, c, o.recognise_added != 0, to);
    json_decref(tools);
    return status;
}

static sr1_status check_role(const char *name, size_t i)
{
    if (sr1__role_find(name) >= 0)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "chat: message %zu: role '%s' is none of system, developer, user, "
                     "assistant, tool",
                     i, name ? name : "");
}

static sr1_status chat_texts(const sr1_tokenizer *t, const struct sr1__messages *messages,
                             const sr1_chat_options *options, const struct results *to)
{
    struct sr1__conversation c = {.messages = messages};

    for (size_t i = 0; i < messages->n; i++) {
        SR1__TRY(check_role(messages->roles[i], i));
        if (!sr1__utf8_valid(messages->texts[i], messages->sizes[i]))
            return sr1__fail(SR1_E_INVALID, "chat: message %zu is not UTF-8", i);
    }
    return run_chat_call(t, &c, options, to);
}

sr1_status sr1__tokenizer_chat_ids(const sr1_tokenizer *t,
                                   const struct sr1__messages *messages,
                                   const sr1_chat_options *options, int32_t **ids,
                                   size_t *n_ids)
{
    const struct results to = {.ids = ids, .n_ids = n_ids};

    return chat_texts(t, messages, options, &to);
}

sr1_status sr1_tokenizer_chat(const sr1_tokenizer *t, const char *const *roles,
                              const char *const *contents, const size_t *content_sizes,
                              size_t n, const sr1_chat_options *options, char **text,
                              size_t *text_size, int32_t **ids, size_t *n_ids)
{
    const struct results to = {text, text_size, ids, n_ids};
    struct sr1__messages m = {0};
    sr1_status status = SR1_OK;

    if (!t || !roles || !contents)
        return sr1__fail(SR1_E_INVALID, "chat: tokenizer, roles and contents are needed");
    if (n > MESSAGES_MAX)
        return sr1__fail(SR1_E_LIMIT, "chat: %zu messages are more than %zu", n,
                         MESSAGES_MAX);
    for (size_t i = 0; i < n && status == SR1_OK; i++) {
        const char *content = contents[i] ? contents[i] : "";
        size_t size = contents[i] && content_sizes ? content_sizes[i] : strlen(content);

        status = sr1__messages_add(&m, roles[i], content, size);
    }
    if (status == SR1_OK)
        status = chat_texts(t, &m, options, &to);
    sr1__messages_free(&m);
    return status;
}

static int read_message_text(const json_t *value, struct sr1__str *out)
{
    return json_is_string(value) &&
           sr1__chat_json_text(json_string_value(value), json_string_length(value), out);
}

/* A member that is a string or null: slice p NULL for null or absence. */
static sr1_status text_member(const json_t *o, const char *key, size_t i,
                              struct sr1__str *out)
{
    const json_t *value = json_object_get(o, key);

    *out = (struct sr1__str){NULL, 0};
    if (!value || json_is_null(value) || read_message_text(value, out))
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID, "chat: message %zu: '%s' must be a string", i, key);
}

static sr1_status check_tool_calls(const json_t *calls, size_t i)
{
    const json_t *call, *function;
    struct sr1__str name;
    size_t k;

    if (!json_is_array(calls))
        return sr1__fail(SR1_E_INVALID,
                         "chat: message %zu: 'tool_calls' must be an array", i);
    json_array_foreach(calls, k, call)
    {
        function = json_object_get(call, "function");
        function = function ? function : call;
        if (!read_message_text(json_object_get(function, "name"), &name) ||
            !json_object_get(function, "arguments"))
            return sr1__fail(
                SR1_E_INVALID,
                "chat: message %zu: a tool call needs 'name' and 'arguments'", i);
    }
    return SR1_OK;
}

/* The next message of a list; what it has beside its text stays in the list. */
static sr1_status read_chat_message(const json_t *o, struct sr1__messages *m)
{
    const json_t *calls = json_object_get(o, "tool_calls");
    const char *role = json_string_value(json_object_get(o, "role"));
    struct sr1__str content, reasoning;

    SR1__TRY(check_role(role, m->n));
    SR1__TRY(text_member(o, "content", m->n, &content));
    SR1__TRY(text_member(o, "reasoning_content", m->n, &reasoning));
    if (calls && !json_is_null(calls))
        SR1__TRY(check_tool_calls(calls, m->n));
    return sr1__messages_add(m, role, content.s ? content.s : "", content.n);
}

static sr1_status chat_tree(const sr1_tokenizer *t, const json_t *list,
                            const sr1_chat_options *options, const struct results *to)
{
    struct sr1__messages m = {0};
    struct sr1__conversation c = {.messages = &m, .list = list};
    sr1_status status = SR1_OK;

    if (!json_is_array(list))
        return sr1__fail(SR1_E_INVALID, "chat: messages must be a JSON array");
    for (size_t i = 0; i < json_array_size(list) && status == SR1_OK; i++)
        status = read_chat_message(json_array_get(list, i), &m);
    if (status == SR1_OK)
        status = run_chat_call(t, &c, options, to);
    sr1__messages_free(&m);
    return status;
}

sr1_status sr1_tokenizer_chat_json(const sr1_tokenizer *t, const char *messages, size_t n,
                                   const sr1_chat_options *options, char **text,
                                   size_t *text_size, int32_t **ids, size_t *n_ids)
{
    const struct results to = {text, text_size, ids, n_ids};
    json_t *list = NULL;
    sr1_status status;

    if (!t || !messages)
        return sr1__fail(SR1_E_INVALID, "chat: tokenizer and messages are needed");
    SR1__TRY(sr1__chat_json_parse(&list, messages, n, "chat messages"));
    status = chat_tree(t, list, options, &to);
    json_decref(list);
    return status;
}
