/* text/tokenizer/chat_family.c - find the rules that a chat template follows. The
 * templates themselves are programs (Jinja); the families' are recognised as a whole by
 * the hash of their normal form (chat_form.c), any other is run (chat_program.c). */
#include "text/tokenizer/chat.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define QWEN "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

static const struct sr1__chat_family families[] = {
    {.name = "qwen3", .thinks = 1, .empty_think = 1, .tools = 1},
    {.name = "qwen3-thinking", .thinks = 1, .opens_thought = 1, .tools = 1},
    {.name = "qwen3-training", .thinks = 2, .empty_think = 1, .tools = 1},
    {.name = "qwen3-instruct", .tools = 1},
    {.name = "qwen2.5", .default_system = QWEN, .tools = 1, .qwen2_calls = 1},
    {.name = "chatml-think", .empty_think = 1, .developer = 1},
    {.name = "chatml", .developer = 1},
};

#define N_FAMILIES (sizeof families / sizeof families[0])

/* Templates in use, by sr1__hash64 of their normal form; tests/fixtures/chat_templates
 * holds their texts. */
static const struct {
    uint64_t hash;
    const char *family;
} known[] = {
    {0x6e18c9e445ad196d, "qwen3"},          /* Qwen3, from July 2025 on */
    {0xc7d0288ffdd29986, "qwen3"},          /* Qwen3, April 2025 */
    {0x0342c463ed5ce06f, "qwen3-thinking"}, /* Qwen3-*-Thinking-2507 */
    {0xefcbdef3000a3341, "qwen3-training"}, /* TRL's for Qwen3 */
    {0x16cb41d47d03906f, "qwen3-instruct"}, /* Qwen3-*-Instruct-2507 */
    {0x70d4ce2cf1c51384, "qwen3-instruct"}, /* TRL's for it */
    {0x28279512b04b70f8, "qwen2.5"},        /* Qwen2.5, Base and Instruct */
    {0xd1d289d773ad0eef, "qwen2.5"},        /* TRL's for it */
    {0x39e6d8c6042b2b43, "chatml"},         /* Qwen1.5, Qwen2 */
    {0xe7bc40de7862bb62, "chatml"},         /* TRL's setup_chat_format */
    {0x2672e4af74614bc3, "chatml-think"},   /* sr1_tokenizer_train */
};

#define N_KNOWN (sizeof known / sizeof known[0])

static const struct sr1__chat_family *find_family(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    return NULL;
}

static const struct sr1__chat_family *find_known(uint64_t hash)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (known[i].hash == hash)
            return find_family(known[i].family);
    return NULL;
}

/* The characters of a Jinja string up to `end`: \n and \\ and quotes after a backslash.
 */
static char *unquote_jinja_string(const char *from, const char *end)
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

static sr1_status hash_template(const char *text, struct sr1__str system, uint64_t *hash,
                                int *whole)
{
    struct sr1__buf form;
    sr1_status status;

    sr1__buf_init(&form, SR1__TEXT_MAX);
    *whole = sr1__chat_form(text, system, &form);
    status = sr1__buf_status(&form, "chat template");
    if (status == SR1_OK)
        *hash = sr1__hash64(sr1__buf_cstr(&form), form.len, 0);
    sr1__buf_free(&form);
    return status;
}

static void replace_system(sr1_tokenizer *t, char *text)
{
    sr1__free(t->default_system);
    t->default_system = text;
}

sr1_status sr1__chat_recognise(sr1_tokenizer *t, const char *chat_template)
{
    const char *end = NULL, *begin;
    struct sr1__str system = {"", 0};
    int whole = 0;

    t->family = NULL;
    t->template_hash = 0;
    replace_system(t, NULL);
    sr1__chat_program_release(t->program);
    t->program = NULL;
    if (!chat_template)
        return SR1_OK;
    begin = default_system(chat_template, &end);
    if (begin)
        system = (struct sr1__str){begin, (size_t)(end - begin)};
    SR1__TRY(hash_template(chat_template, system, &t->template_hash, &whole));
    t->family = whole ? find_known(t->template_hash) : NULL;
    if (!t->family)
        return sr1__chat_program_load(t, chat_template);
    if (!begin)
        return SR1_OK;
    t->default_system = unquote_jinja_string(begin, end);
    return t->default_system ? SR1_OK : sr1__fail_nomem("chat template");
}

const char *sr1_tokenizer_chat_family(const sr1_tokenizer *t)
{
    if (t && t->family)
        return t->family->name;
    return t && t->program && !sr1__chat_program_fault(t->program) ? "template"
                                                                   : "unknown";
}

const char *sr1_tokenizer_chat_family_name(size_t i)
{
    return i < N_FAMILIES ? families[i].name : NULL;
}

sr1_status sr1_tokenizer_set_chat_family(sr1_tokenizer *t, const char *name)
{
    const struct sr1__chat_family *f = name ? find_family(name) : NULL;
    char *system = NULL;

    if (!t)
        return sr1__fail(SR1_E_INVALID, "chat family: tokenizer is NULL");
    if (!f)
        return sr1__fail_unknown("chat family", name ? name : "NULL",
                                 sr1_tokenizer_chat_family_name);
    if (f->default_system && !(system = sr1__strdup(f->default_system)))
        return sr1__fail_nomem("chat family");
    t->family = f;
    replace_system(t, system);
    return SR1_OK;
}

const char *sr1_tokenizer_chat_template_name(const sr1_tokenizer *t, size_t i)
{
    return t && i < t->chat_templates.n ? t->chat_templates.v[i].name : NULL;
}

static sr1_status fail_no_template(const sr1_tokenizer *t, const char *name)
{
    struct sr1__buf names;
    sr1_status status;

    sr1__buf_init(&names, 0);
    for (size_t i = 0; i < t->chat_templates.n; i++)
        sr1__buf_fmt(&names, "%s%s", i ? ", " : "", t->chat_templates.v[i].name);
    status = sr1__buf_status(&names, "chat templates");
    if (status == SR1_OK)
        status = sr1__fail(SR1_E_NOT_FOUND,
                           "the tokenizer has no chat template '%s'; it has: %s", name,
                           names.len ? sr1__buf_cstr(&names) : "none");
    sr1__buf_free(&names);
    return status;
}

sr1_status sr1_tokenizer_set_chat_template(sr1_tokenizer *t, const char *name)
{
    const char *text;

    SR1__REQUIRE(t && name, "chat template: tokenizer and name");
    text = sr1__chat_templates_find(&t->chat_templates, name);
    return text ? sr1__chat_recognise(t, text) : fail_no_template(t, name);
}

sr1_status sr1__tokenizer_with_family(sr1_tokenizer **out, sr1_tokenizer *t,
                                      const char *name)
{
    sr1_tokenizer *view;

    SR1__TRY(sr1__tokenizer_view(&view, t));
    SR1__RETURN_NEW(out, view, sr1_tokenizer_set_chat_family(view, name),
                    sr1_tokenizer_free);
}

sr1_status sr1__tokenizer_with_template(sr1_tokenizer **out, sr1_tokenizer *t,
                                        const char *name)
{
    sr1_tokenizer *view;

    SR1__TRY(sr1__tokenizer_view(&view, t));
    SR1__RETURN_NEW(out, view, sr1_tokenizer_set_chat_template(view, name),
                    sr1_tokenizer_free);
}

int sr1__chat_begins_in_thought(const sr1_tokenizer *t, int no_thinking)
{
    if (t->family)
        return t->family->opens_thought;
    return t->program && sr1__chat_program_opens_thought(t->program, no_thinking);
}

int sr1__chat_writes_developer(const sr1_tokenizer *t)
{
    if (t->family)
        return t->family->developer;
    return t->program && sr1__chat_program_writes_developer(t->program);
}

int sr1__chat_opens_thought(const sr1_tokenizer *t)
{
    return sr1__chat_begins_in_thought(t, 0);
}

int32_t sr1__chat_end_id(const sr1_tokenizer *t)
{
    return !t->family && t->program ? sr1__chat_program_end_id(t->program)
                                    : t->role_id[SR1_TOKEN_IM_END];
}

sr1_status sr1__chat_check_family(const sr1_tokenizer *t)
{
    const char *fault = t->program ? sr1__chat_program_fault(t->program) : NULL;
    char names[160];

    if (t->family || (t->program && !fault))
        return SR1_OK;
    if (!fault && t->chat_templates.n)
        return sr1__context(fail_no_template(t, "default"),
                            "chat: choose one with the key chat_template_name");
    sr1__list_names(names, sizeof names, sr1_tokenizer_chat_family_name);
    if (!fault)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "chat: the tokenizer has no chat template; choose the rules "
                         "with the key chat_template: %s",
                         names);
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "chat: the tokenizer's chat template (its hash is %016" PRIx64
                     ") cannot be run: %s; if it writes what a known one does, say which "
                     "with the key chat_template: %s",
                     t->template_hash, fault, names);
}
