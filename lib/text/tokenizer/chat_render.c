/* text/tokenizer/chat_render.c - the rules of the chat templates, message by message:
 *
 *     <|im_start|>ROLE\n CONTENT <|im_end|>\n
 *
 * with the system message or its default first, tools described in it, tool results
 * gathered into one user message, and (Qwen3) thoughts before the last question
 * forgotten. */
#include "text/tokenizer/chat.h"

#include <string.h>

static const char think_open[] = "<think>", think_close[] = "</think>";

void sr1__rendered_init(struct sr1__rendered *r)
{
    memset(r, 0, sizeof *r);
    sr1__buf_init(&r->text, SR1__TEXT_MAX);
}

void sr1__rendered_free(struct sr1__rendered *r)
{
    sr1__buf_free(&r->text);
    sr1__spans_free(&r->own);
    sr1__rendered_init(r);
}

/* Note that text[begin..end) is the template's own. */
static void note_own(struct sr1__rendered *r, size_t begin, size_t end)
{
    if (r->status == SR1_OK && r->text.status == SR1_OK)
        r->status = sr1__spans_add(&r->own, begin, end);
}

static void put_own_text(struct sr1__rendered *r, const char *text)
{
    size_t begin = r->text.len;

    sr1__buf_str(&r->text, text);
    note_own(r, begin, r->text.len);
}

static void put_content_text(struct sr1__rendered *r, struct sr1__str text)
{
    sr1__buf_add(&r->text, text.s, text.n);
}

/* ---- message i ---- */

int sr1__chat_role(const struct sr1__conversation *c, size_t i)
{
    int role = sr1__role_find(c->messages->roles[i]);

    return role == SR1__ROLE_DEVELOPER && !c->developer ? SR1__ROLE_SYSTEM : role;
}

static struct sr1__str content_at(const struct sr1__conversation *c, size_t i)
{
    return (struct sr1__str){c->messages->texts[i], c->messages->sizes[i]};
}

/* What a message given as JSON has beside its text; NULL: nothing. */
static const json_t *chat_member_at(const struct sr1__conversation *c, size_t i,
                                    const char *key)
{
    return c->list ? json_object_get(json_array_get(c->list, i), key) : NULL;
}

/* Its thought, s NULL: none. */
static struct sr1__str reasoning_at(const struct sr1__conversation *c, size_t i)
{
    const json_t *thought = chat_member_at(c, i, "reasoning_content");
    struct sr1__str text = {NULL, 0};

    if (json_is_string(thought))
        (void)sr1__chat_json_text(json_string_value(thought), json_string_length(thought),
                                  &text);
    return text;
}

/* A non-empty array, or NULL. */
static const json_t *tool_calls_at(const struct sr1__conversation *c, size_t i)
{
    const json_t *calls = chat_member_at(c, i, "tool_calls");

    return json_array_size(calls) ? calls : NULL;
}

/* Its content is null or absent, not "". */
static int says_nothing(const struct sr1__conversation *c, size_t i)
{
    return c->list && !json_is_string(chat_member_at(c, i, "content"));
}

/* A message's whole content, with what of it is the caller's own words. */
static void put_whole(struct sr1__rendered *r, const struct sr1__conversation *c,
                      size_t i)
{
    const struct sr1__spans *own = &c->messages->own[i];
    size_t at = r->text.len;

    put_content_text(r, content_at(c, i));
    for (size_t k = 0; k < own->n; k++)
        note_own(r, at + own->v[2 * k], at + own->v[2 * k + 1]);
}

/* ---- the parts of a prompt ---- */

static void put_json(struct sr1__rendered *r, const json_t *j)
{
    sr1_status status = sr1__chat_json_python(j, &r->text);

    r->status = r->status == SR1_OK ? status : r->status;
}

static struct sr1__str strip_newlines(struct sr1__str s, int left, int right)
{
    while (left && s.n && *s.s == '\n') {
        s.s++;
        s.n--;
    }
    while (right && s.n && s.s[s.n - 1] == '\n')
        s.n--;
    return s;
}

/* Where `mark` stands in s: the first time, or the last; NULL: nowhere. */
static const char *find_in_slice(struct sr1__str s, const char *mark, int last)
{
    size_t n = strlen(mark);
    const char *found = NULL;

    for (size_t i = 0; i + n <= s.n; i++) {
        const char *p = memmem(s.s + i, s.n - i, mark, n);

        if (!p || !last)
            return p ? p : found;
        found = p;
        i = (size_t)(p - s.s);
    }
    return found;
}

/* Part an assistant's content at its think block:
 * reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')
 * content = content.split('</think>')[-1].lstrip('\n') */
static void part_thought(struct sr1__str *content, struct sr1__str *reasoning)
{
    const char *end = content->s + content->n;
    const char *first = find_in_slice(*content, think_close, 0), *last, *open;

    if (!first)
        return;
    last = find_in_slice(*content, think_close, 1) + strlen(think_close);
    *reasoning =
        strip_newlines((struct sr1__str){content->s, (size_t)(first - content->s)}, 0, 1);
    open = find_in_slice(*reasoning, think_open, 1);
    if (open) {
        open += strlen(think_open);
        reasoning->n -= (size_t)(open - reasoning->s);
        reasoning->s = open;
    }
    *reasoning = strip_newlines(*reasoning, 1, 0);
    *content = strip_newlines((struct sr1__str){last, (size_t)(end - last)}, 1, 0);
}

/* The last message that is a question of the user, not a tool's answer, nor without text;
 * the last message when there is none. */
static size_t last_question(const struct sr1__conversation *c)
{
    for (size_t i = c->messages->n; i-- > 0;) {
        struct sr1__str content = content_at(c, i);

        if (sr1__chat_role(c, i) == SR1__ROLE_USER && !says_nothing(c, i) &&
            !(sr1__str_starts_with(content, "<tool_response>") &&
              sr1__str_ends_with(content, "</tool_response>")))
            return i;
    }
    return c->messages->n - 1;
}

static void open_message(struct sr1__rendered *r, int role)
{
    put_own_text(r, "<|im_start|>");
    put_own_text(r, sr1__role_names[role]);
}

static void put_tool_call(struct sr1__rendered *r, const struct sr1__chat_family *f,
                          const json_t *call)
{
    const json_t *function = json_object_get(call, "function"), *name, *arguments;
    struct sr1__str text;

    call = function ? function : call;
    name = json_object_get(call, "name");
    arguments = json_object_get(call, "arguments");
    put_own_text(r, "<tool_call>\n{\"name\": \"");
    (void)sr1__chat_json_text(json_string_value(name), json_string_length(name), &text);
    put_content_text(r, text);
    put_own_text(r, "\", \"arguments\": ");
    if (!f->qwen2_calls && json_is_string(arguments) &&
        sr1__chat_json_text(json_string_value(arguments), json_string_length(arguments),
                            &text))
        put_content_text(r, text);
    else
        put_json(r, arguments);
    put_own_text(r, "}\n</tool_call>");
}

/* before_first: whether the first call stands on a line of its own. */
static void put_tool_calls(struct sr1__rendered *r, const struct sr1__chat_family *f,
                           const json_t *calls, int before_first)
{
    const json_t *call;
    size_t i;

    json_array_foreach(calls, i, call)
    {
        if (i || before_first)
            put_own_text(r, "\n");
        put_tool_call(r, f, call);
    }
}

/* thought: 1 shows the think block, even an empty one. */
static void put_assistant(struct sr1__rendered *r, const struct sr1__chat_family *f,
                          const json_t *calls, struct sr1__str content,
                          struct sr1__str reasoning, int thought)
{
    int has_content = content.n != 0; /* judged before its line ends are stripped */

    open_message(r, SR1__ROLE_ASSISTANT);
    if (thought) {
        put_own_text(r, "\n<think>\n");
        put_content_text(r, strip_newlines(reasoning, 1, 1));
        put_own_text(r, "\n</think>\n\n");
        content = strip_newlines(content, 1, 0);
    } else if (has_content || !calls || !f->qwen2_calls) {
        put_own_text(r, "\n");
    }
    put_content_text(r, content);
    put_tool_calls(r, f, calls, has_content || f->qwen2_calls);
    put_own_text(r, "<|im_end|>\n");
}

static void put_tool_result(struct sr1__rendered *r, const struct sr1__conversation *c,
                            size_t i)
{
    if (i == 0 || sr1__chat_role(c, i - 1) != SR1__ROLE_TOOL)
        open_message(r, SR1__ROLE_USER);
    put_own_text(r, "\n<tool_response>\n");
    put_content_text(r, content_at(c, i));
    put_own_text(r, "\n</tool_response>");
    if (i + 1 == c->messages->n || sr1__chat_role(c, i + 1) != SR1__ROLE_TOOL)
        put_own_text(r, "<|im_end|>\n");
}

static void put_plain(struct sr1__rendered *r, const struct sr1__conversation *c,
                      size_t i)
{
    open_message(r, sr1__chat_role(c, i));
    put_own_text(r, "\n");
    put_whole(r, c, i);
    put_own_text(r, "<|im_end|>\n");
}

static void put_tools(struct sr1__rendered *r, const json_t *tools)
{
    const json_t *tool;
    size_t i;

    put_own_text(r,
                 "# Tools\n\nYou may call one or more functions to assist with the user "
                 "query.\n\nYou are provided with function signatures within "
                 "<tools></tools> XML tags:\n<tools>");
    json_array_foreach(tools, i, tool)
    {
        put_own_text(r, "\n");
        put_json(r, tool);
    }
    put_own_text(
        r, "\n</tools>\n\nFor each function call, return a json object with function "
           "name and arguments within <tool_call></tool_call> XML tags:\n"
           "<tool_call>\n{\"name\": <function-name>, \"arguments\": "
           "<args-json-object>}\n</tool_call>");
}

/* The first message when it is the system's, else the default; then the tools. */
static void put_system(struct sr1__rendered *r, const sr1_tokenizer *t,
                       const struct sr1__conversation *c)
{
    int given = sr1__chat_role(c, 0) == SR1__ROLE_SYSTEM;

    if (!given && !t->default_system && !c->tools)
        return;
    open_message(r, SR1__ROLE_SYSTEM);
    put_own_text(r, "\n");
    if (given)
        put_whole(r, c, 0);
    else if (t->default_system)
        put_own_text(r, t->default_system);
    if (c->tools) {
        put_own_text(r, given || t->default_system ? "\n\n" : "");
        put_tools(r, c->tools);
    }
    put_own_text(r, "<|im_end|>\n");
}

static void render_message(struct sr1__rendered *r, const sr1_tokenizer *t,
                           const struct sr1__conversation *c, size_t i, size_t question)
{
    const struct sr1__chat_family *f = t->family;
    struct sr1__str content = content_at(c, i), reasoning = reasoning_at(c, i);
    int role = sr1__chat_role(c, i), thought;

    if (role == SR1__ROLE_SYSTEM && i == 0)
        return; /* put_system */
    if (role == SR1__ROLE_TOOL && f->tools) {
        put_tool_result(r, c, i);
    } else if (role == SR1__ROLE_ASSISTANT && (f->thinks || f->tools)) {
        if (f->thinks && !reasoning.s)
            part_thought(&content, &reasoning);
        thought = f->thinks == 2 ||
                  (f->thinks && i > question && (i + 1 == c->messages->n || reasoning.n));
        put_assistant(r, f, tool_calls_at(c, i), content, reasoning, thought);
    } else {
        put_plain(r, c, i);
    }
}

static sr1_status check_renderable(const sr1_tokenizer *t,
                                   const struct sr1__conversation *c)
{
    const struct sr1__chat_family *f = t->family;

    if (c->messages->n == 0)
        return sr1__fail(SR1_E_INVALID, "chat: no messages");
    SR1__TRY(sr1__chat_check_family(t));
    if (t->role_id[SR1_TOKEN_IM_START] < 0 || t->role_id[SR1_TOKEN_IM_END] < 0)
        return sr1__fail(SR1_E_STATE, "chat: the tokenizer has no <|im_start|> and "
                                      "<|im_end|>; ChatML cannot be formed");
    if (c->tools && !f->tools)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "chat: the template (%s) has no place for tools", f->name);
    for (size_t i = 0; i < c->messages->n; i++)
        if (tool_calls_at(c, i) && !f->tools)
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "chat: message %zu: the template (%s) has no tool calls", i,
                             f->name);
    return SR1_OK;
}

sr1_status sr1__chat_render(const sr1_tokenizer *t, const struct sr1__conversation *c,
                            struct sr1__rendered *out)
{
    size_t question;

    if (!t->family && t->program && c->messages->n) {
        SR1__TRY(sr1__chat_check_family(t));
        return sr1__chat_program_render(t, c, out);
    }
    SR1__TRY(check_renderable(t, c));
    question = last_question(c);
    put_system(out, t, c);
    for (size_t i = 0; i < c->messages->n; i++)
        render_message(out, t, c, i, question);
    if (c->add_generation_prompt) {
        open_message(out, SR1__ROLE_ASSISTANT);
        put_own_text(out, "\n");
        if (t->family->opens_thought)
            put_own_text(out, "<think>\n");
        else if (c->no_thinking && t->family->empty_think)
            put_own_text(out, "<think>\n\n</think>\n\n");
    }
    if (out->status != SR1_OK)
        return sr1__fail(out->status, "chat: text could not be formed");
    return sr1__buf_status(&out->text, "chat");
}
