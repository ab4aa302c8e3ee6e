/* tokenizer/chat_render.c - the rules of the chat templates, message by message:
 *
 *     <|im_start|>ROLE\n CONTENT <|im_end|>\n
 *
 * with the system message or its default first, tools described in it, tool results
 * gathered into one user message, and (Qwen3) thoughts before the last question
 * forgotten. */
#include "tokenizer/chat.h"

#include "base/mem.h"

#include <string.h>

const char *const sr1__role_names[SR1__ROLES] = {"system", "user", "assistant", "tool"};

static const char think_open[] = "<think>", think_close[] = "</think>";

void sr1__rendered_init(struct sr1__rendered *r)
{
    memset(r, 0, sizeof *r);
    sr1__buf_init(&r->text, SR1__TEXT_MAX);
}

void sr1__rendered_free(struct sr1__rendered *r)
{
    sr1__buf_free(&r->text);
    sr1__free(r->own);
    sr1__rendered_init(r);
}

/* Note that text[begin..end) is the template's own; stretches that touch are one. */
static void note_own(struct sr1__rendered *r, size_t begin, size_t end)
{
    if (r->n_own && r->own[2 * r->n_own - 1] == begin) {
        r->own[2 * r->n_own - 1] = end;
        return;
    }
    if (r->n_own == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 32;
        size_t *own = sr1__realloc(r->own, cap, 2 * sizeof *own);

        if (!own) {
            r->status = SR1_E_NOMEM;
            return;
        }
        r->own = own;
        r->cap = cap;
    }
    r->own[2 * r->n_own] = begin;
    r->own[2 * r->n_own + 1] = end;
    r->n_own++;
}

void sr1__put_own(struct sr1__rendered *r, const char *text)
{
    size_t begin = r->text.len;

    sr1__buf_str(&r->text, text);
    if (r->status == SR1_OK && r->text.status == SR1_OK)
        note_own(r, begin, r->text.len);
}

void sr1__put_content(struct sr1__rendered *r, struct sr1__slice text)
{
    sr1__buf_add(&r->text, text.p, text.n);
}

static void put_json(struct sr1__rendered *r, const json_t *j)
{
    sr1_status status = sr1__json_python(j, &r->text);

    r->status = r->status == SR1_OK ? status : r->status;
}

static struct sr1__slice strip(struct sr1__slice s, int left, int right)
{
    while (left && s.n && *s.p == '\n') {
        s.p++;
        s.n--;
    }
    while (right && s.n && s.p[s.n - 1] == '\n')
        s.n--;
    return s;
}

/* Where `mark` stands in s: the first time, or the last; NULL: nowhere. */
static const char *find(struct sr1__slice s, const char *mark, int last)
{
    size_t n = strlen(mark);
    const char *found = NULL;

    for (size_t i = 0; i + n <= s.n; i++) {
        const char *p = memmem(s.p + i, s.n - i, mark, n);

        if (!p || !last)
            return p ? p : found;
        found = p;
        i = (size_t)(p - s.p);
    }
    return found;
}

static int starts(struct sr1__slice s, const char *with)
{
    return s.n >= strlen(with) && memcmp(s.p, with, strlen(with)) == 0;
}

static int ends(struct sr1__slice s, const char *with)
{
    size_t n = strlen(with);

    return s.n >= n && memcmp(s.p + s.n - n, with, n) == 0;
}

/* Part an assistant's content at its think block:
 * reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')
 * content = content.split('</think>')[-1].lstrip('\n') */
static void part_thought(struct sr1__slice *content, struct sr1__slice *reasoning)
{
    const char *end = content->p + content->n;
    const char *first = find(*content, think_close, 0), *last, *open;

    if (!first)
        return;
    last = find(*content, think_close, 1) + strlen(think_close);
    *reasoning =
        strip((struct sr1__slice){content->p, (size_t)(first - content->p)}, 0, 1);
    open = find(*reasoning, think_open, 1);
    if (open) {
        open += strlen(think_open);
        reasoning->n -= (size_t)(open - reasoning->p);
        reasoning->p = open;
    }
    *reasoning = strip(*reasoning, 1, 0);
    *content = strip((struct sr1__slice){last, (size_t)(end - last)}, 1, 0);
}

/* The last message that is a question of the user, not a tool's answer, nor without text;
 * the last message when there is none. */
static size_t last_question(const struct sr1__conversation *c)
{
    for (size_t i = c->n; i-- > 0;) {
        const struct sr1__message *m = &c->messages[i];

        if (m->role == SR1__ROLE_USER && !m->says_nothing &&
            !(starts(m->content, "<tool_response>") &&
              ends(m->content, "</tool_response>")))
            return i;
    }
    return c->n - 1;
}

static void open_message(struct sr1__rendered *r, int role)
{
    sr1__put_own(r, "<|im_start|>");
    sr1__put_own(r, sr1__role_names[role]);
}

static void put_tool_call(struct sr1__rendered *r, const struct sr1__chat_family *f,
                          const json_t *call)
{
    const json_t *function = json_object_get(call, "function"), *name, *arguments;

    call = function ? function : call;
    name = json_object_get(call, "name");
    arguments = json_object_get(call, "arguments");
    sr1__put_own(r, "<tool_call>\n{\"name\": \"");
    sr1__put_content(
        r, (struct sr1__slice){json_string_value(name), json_string_length(name)});
    sr1__put_own(r, "\", \"arguments\": ");
    if (json_is_string(arguments) && !f->qwen2_calls)
        sr1__put_content(r, (struct sr1__slice){json_string_value(arguments),
                                                json_string_length(arguments)});
    else
        put_json(r, arguments);
    sr1__put_own(r, "}\n</tool_call>");
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
            sr1__put_own(r, "\n");
        put_tool_call(r, f, call);
    }
}

/* thought: 1 shows the think block, even an empty one. */
static void put_assistant(struct sr1__rendered *r, const struct sr1__chat_family *f,
                          const struct sr1__message *m, struct sr1__slice content,
                          struct sr1__slice reasoning, int thought)
{
    int has_content = content.n != 0; /* judged before its line ends are stripped */

    open_message(r, SR1__ROLE_ASSISTANT);
    if (thought) {
        sr1__put_own(r, "\n<think>\n");
        sr1__put_content(r, strip(reasoning, 1, 1));
        sr1__put_own(r, "\n</think>\n\n");
        content = strip(content, 1, 0);
    } else if (has_content || !m->tool_calls || !f->qwen2_calls) {
        sr1__put_own(r, "\n");
    }
    sr1__put_content(r, content);
    put_tool_calls(r, f, m->tool_calls, has_content || f->qwen2_calls);
    sr1__put_own(r, "<|im_end|>\n");
}

static void put_tool_result(struct sr1__rendered *r, const struct sr1__conversation *c,
                            size_t i)
{
    if (i == 0 || c->messages[i - 1].role != SR1__ROLE_TOOL)
        open_message(r, SR1__ROLE_USER);
    sr1__put_own(r, "\n<tool_response>\n");
    sr1__put_content(r, c->messages[i].content);
    sr1__put_own(r, "\n</tool_response>");
    if (i + 1 == c->n || c->messages[i + 1].role != SR1__ROLE_TOOL)
        sr1__put_own(r, "<|im_end|>\n");
}

static void put_plain(struct sr1__rendered *r, const struct sr1__message *m)
{
    open_message(r, m->role);
    sr1__put_own(r, "\n");
    sr1__put_content(r, m->content);
    sr1__put_own(r, "<|im_end|>\n");
}

static void put_tools(struct sr1__rendered *r, const json_t *tools)
{
    const json_t *tool;
    size_t i;

    sr1__put_own(r,
                 "# Tools\n\nYou may call one or more functions to assist with the user "
                 "query.\n\nYou are provided with function signatures within "
                 "<tools></tools> XML tags:\n<tools>");
    json_array_foreach(tools, i, tool)
    {
        sr1__put_own(r, "\n");
        put_json(r, tool);
    }
    sr1__put_own(
        r, "\n</tools>\n\nFor each function call, return a json object with function "
           "name and arguments within <tool_call></tool_call> XML tags:\n"
           "<tool_call>\n{\"name\": <function-name>, \"arguments\": "
           "<args-json-object>}\n</tool_call>");
}

/* The first message when it is the system's, else the default; then the tools. */
static void put_system(struct sr1__rendered *r, const sr1_tokenizer *t,
                       const struct sr1__conversation *c)
{
    int given = c->messages[0].role == SR1__ROLE_SYSTEM;

    if (!given && !t->default_system && !c->tools)
        return;
    open_message(r, SR1__ROLE_SYSTEM);
    sr1__put_own(r, "\n");
    if (given)
        sr1__put_content(r, c->messages[0].content);
    else if (t->default_system)
        sr1__put_own(r, t->default_system);
    if (c->tools) {
        sr1__put_own(r, given || t->default_system ? "\n\n" : "");
        put_tools(r, c->tools);
    }
    sr1__put_own(r, "<|im_end|>\n");
}

static void put_message(struct sr1__rendered *r, const sr1_tokenizer *t,
                        const struct sr1__conversation *c, size_t i, size_t question)
{
    const struct sr1__chat_family *f = t->family;
    const struct sr1__message *m = &c->messages[i];
    struct sr1__slice content = m->content, reasoning = m->reasoning;
    int thought;

    if (m->role == SR1__ROLE_SYSTEM && i == 0)
        return; /* put_system */
    if (m->role == SR1__ROLE_TOOL && f->tools) {
        put_tool_result(r, c, i);
    } else if (m->role == SR1__ROLE_ASSISTANT && (f->thinks || f->tools)) {
        if (f->thinks && !reasoning.p)
            part_thought(&content, &reasoning);
        thought = f->thinks && i > question && (i + 1 == c->n || reasoning.n);
        put_assistant(r, f, m, content, reasoning, thought);
    } else {
        put_plain(r, m);
    }
}

static sr1_status check(const sr1_tokenizer *t, const struct sr1__conversation *c)
{
    const struct sr1__chat_family *f = t->family;

    if (c->n == 0)
        return sr1__fail(SR1_E_INVALID, "chat: no messages");
    if (t->role_id[SR1_TOKEN_IM_START] < 0 || t->role_id[SR1_TOKEN_IM_END] < 0)
        return sr1__fail(SR1_E_STATE, "chat: the tokenizer has no <|im_start|> and "
                                      "<|im_end|>; ChatML cannot be formed");
    if (c->tools && !f->tools)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "chat: the template (%s) has no place for tools", f->name);
    for (size_t i = 0; i < c->n; i++)
        if (c->messages[i].tool_calls && !f->tools)
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "chat: message %zu: the template (%s) has no tool calls", i,
                             f->name);
    return SR1_OK;
}

sr1_status sr1__chat_render(const sr1_tokenizer *t, const struct sr1__conversation *c,
                            struct sr1__rendered *out)
{
    size_t question;

    SR1__TRY(check(t, c));
    question = last_question(c);
    put_system(out, t, c);
    for (size_t i = 0; i < c->n; i++)
        put_message(out, t, c, i, question);
    if (c->add_generation_prompt) {
        open_message(out, SR1__ROLE_ASSISTANT);
        sr1__put_own(out, "\n");
        if (c->no_thinking && t->family->empty_think)
            sr1__put_own(out, "<think>\n\n</think>\n\n");
    }
    if (out->status != SR1_OK)
        return sr1__fail(out->status, "chat: text could not be formed");
    return sr1__buf_status(&out->text, "chat");
}
