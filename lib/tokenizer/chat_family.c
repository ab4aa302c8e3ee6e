/* tokenizer/chat_family.c - tells from a chat template's text which rules it follows. The
 * templates themselves are programs (Jinja); they are recognised, not run. */
#include "tokenizer/chat.h"

#include "base/mem.h"

#include <string.h>

/* The first row that fits counts; the last fits every template, and none at all. */
static const struct sr1__chat_family families[] = {
    {.name = "qwen3",
     .has = {"enable_thinking", "reasoning_content", "<tool_response>"},
     .thinks = 1,
     .empty_think = 1,
     .tools = 1},
    {.name = "qwen3-instruct",
     .has = {"message.content is string", "<tool_response>",
             "tool_call.arguments is string"},
     .lacks = "think",
     .tools = 1},
    {.name = "qwen2.5",
     .has = {"<tool_response>", "tool_call.arguments | tojson"},
     .lacks = "think",
     .wants_default = 1,
     .tools = 1,
     .qwen2_calls = 1},
    {.name = "chatml-think",
     .has = {"<|im_start|>", "enable_thinking", "<think>\\n\\n</think>\\n\\n"},
     .lacks = "tool",
     .empty_think = 1},
    {.name = "chatml", .has = {"<|im_start|>", "<|im_end|>"}, .lacks = "think"},
    {.name = "unknown"},
};

#define N_FAMILIES (sizeof families / sizeof families[0])

static int fits(const struct sr1__chat_family *f, const char *text, int has_default)
{
    for (size_t i = 0; i < 3 && f->has[i]; i++)
        if (!strstr(text, f->has[i]))
            return 0;
    return !(f->lacks && strstr(text, f->lacks)) && (has_default || !f->wants_default);
}

/* The characters of a Jinja string up to `end`: \n and \\ and quotes after a backslash.
 */
static char *unquote(const char *from, const char *end)
{
    char *out = sr1__strndup(from, (size_t)(end - from)), *to = out;

    for (const char *p = from; out && p < end; p++) {
        int escaped = *p == '\\' && p + 1 < end;

        p += escaped;
        *to++ = escaped && *p == 'n' ? '\n' : *p;
    }
    if (out)
        *to = '\0';
    return out;
}

/* Whether a Jinja string ends within from[0..end): a quote without a backslash. */
static int string_ends(const char *from, const char *end)
{
    for (const char *p = from; p < end; p++) {
        if (*p == '\'')
            return 1;
        if (*p == '\\')
            p++;
    }
    return 0;
}

/* The default system message of a template: '<|im_start|>system\nTEXT<|im_end|>' within
 * one string. NULL when the template has none. */
static const char *default_system(const char *text, const char **end)
{
    static const char open[] = "<|im_start|>system\\n";

    for (const char *p = strstr(text, open); p; p = strstr(p, open)) {
        p += strlen(open);
        *end = strstr(p, "<|im_end|>");
        if (!*end)
            return NULL;
        if (*end > p && !string_ends(p, *end))
            return p;
    }
    return NULL;
}

sr1_status sr1__chat_recognise(sr1_tokenizer *t, const char *chat_template)
{
    const char *end = NULL;
    const char *system = chat_template ? default_system(chat_template, &end) : NULL;
    size_t row = chat_template ? 0 : N_FAMILIES - 1;

    while (!fits(&families[row], chat_template ? chat_template : "", system != NULL))
        row++;
    t->family = &families[row];
    sr1__free(t->default_system);
    t->default_system = NULL;
    if (!system || row == N_FAMILIES - 1)
        return SR1_OK;
    t->default_system = unquote(system, end);
    return t->default_system ? SR1_OK : sr1__fail_nomem("chat template");
}

const char *sr1_tokenizer_chat_family(const sr1_tokenizer *t)
{
    return t ? t->family->name : "unknown";
}
