/* text/tokenizer/chat_program.c - a folder's own chat template, run for each conversation
 * (text/jinja). The template's words keep which stretches of the prompt they are; texts
 * of messages stay apart from them. What a template opens a generation prompt with and
 * ends a message with is read off conversations that it renders when it is loaded. */
#include "text/tokenizer/chat.h"

#include "base/mem.h"
#include "text/jinja/jinja.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

struct sr1__chat_program {
    struct sr1__jinja *jinja;      /* NULL: it cannot be run */
    struct sr1__jinja *with_tools; /* of conversations with tools; NULL: the same */
    char *fault;                   /* why; NULL: it can */
    char *fault_with_tools; /* why conversations with tools cannot; NULL: they can */
    int64_t now;            /* one time for all prompts */
    int opens_thought[2];   /* a generation prompt ends with <think>; [no_thinking] */
    int developer;          /* it writes messages of a developer */
    int32_t end_id;
    atomic_int refs; /* of tokenizers that share it */
};

struct sr1__chat_program *sr1__chat_program_retain(struct sr1__chat_program *p)
{
    if (p)
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void sr1__chat_program_release(struct sr1__chat_program *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) > 1)
        return;
    sr1__jinja_free(p->jinja);
    sr1__jinja_free(p->with_tools);
    sr1__free(p->fault);
    sr1__free(p->fault_with_tools);
    sr1__free(p);
}

const char *sr1__chat_program_fault(const struct sr1__chat_program *p)
{
    return p->jinja ? NULL : p->fault;
}

int sr1__chat_program_opens_thought(const struct sr1__chat_program *p, int no_thinking)
{
    return p->opens_thought[no_thinking != 0];
}

int64_t sr1__chat_time(const sr1_tokenizer *t)
{
    return t && t->program ? t->program->now : 0;
}

void sr1__chat_set_time(sr1_tokenizer *t, int64_t now)
{
    if (t && t->program)
        t->program->now = now;
}

int sr1__chat_program_writes_developer(const struct sr1__chat_program *p)
{
    return p->developer;
}

int32_t sr1__chat_program_end_id(const struct sr1__chat_program *p)
{
    return p->end_id;
}

/* ---- the variables of a run ---- */

static json_t *message_from_text(const struct sr1__messages *m, size_t i,
                                 const char *role)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", m->texts[i], m->sizes[i]);
}

/* A thought has two names in templates. */
static json_t *message_from_json(const json_t *given, const char *role)
{
    json_t *copy = json_copy((json_t *)given);
    json_t *thought = json_object_get(given, "reasoning_content");
    int bad = copy && json_object_set_new(copy, "role", json_string(role)) != 0;

    if (copy && !bad && json_is_string(thought) && !json_object_get(given, "thinking"))
        bad = json_object_set(copy, "thinking", thought) != 0;
    if (!bad)
        return copy;
    json_decref(copy);
    return NULL;
}

static sr1_status list_messages(const struct sr1__conversation *c, json_t **out)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < c->messages->n; i++) {
        const char *role = sr1__role_names[sr1__chat_role(c, i)];
        json_t *m = c->list ? message_from_json(json_array_get(c->list, i), role)
                            : message_from_text(c->messages, i, role);

        if (json_array_append_new(list, m) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    SR1__CHECK_ALLOC(list, "chat");
    *out = list;
    return SR1_OK;
}

/* Roles are of the known names, and messages may hold the caller's own words. */
static sr1_status mark_messages(struct sr1__jrun *r, const struct sr1__conversation *c)
{
    const struct sr1__messages *m = c->messages;

    for (size_t i = 0; i < m->n; i++) {
        size_t role[2] = {0, strlen(sr1__role_names[sr1__chat_role(c, i)])};
        const struct sr1__spans own = {role, 1, 1};

        SR1__TRY(sr1__jrun_mark_own(r, "messages", i, "role", &own));
        if (m->own[i].n)
            SR1__TRY(sr1__jrun_mark_own(r, "messages", i, "content", &m->own[i]));
    }
    return SR1_OK;
}

static sr1_status bind_token(struct sr1__jrun *r, const sr1_tokenizer *t,
                             const char *name, int32_t role)
{
    size_t n = 0;
    const char *text =
        t->role_id[role] < 0 ? NULL : sr1__tokenizer_token_bytes(t, t->role_id[role], &n);

    return text ? sr1__jrun_bind_own(r, name, text, n) : SR1_OK;
}

static sr1_status bind_conversation(struct sr1__jrun *r, const sr1_tokenizer *t,
                                    const struct sr1__conversation *c,
                                    const json_t *messages)
{
    sr1__jinja_text_of text_of = c->list ? sr1__chat_json_text : NULL;

    SR1__TRY(bind_token(r, t, "bos_token", SR1_TOKEN_BOS));
    SR1__TRY(bind_token(r, t, "eos_token", SR1_TOKEN_EOS));
    SR1__TRY(bind_token(r, t, "pad_token", SR1_TOKEN_PAD));
    for (size_t i = 0; i < SR1__TEMPLATE_TOKENS; i++)
        if (t->template_tokens[i])
            SR1__TRY(sr1__jrun_bind_own(r, sr1__template_tokens[i], t->template_tokens[i],
                                        strlen(t->template_tokens[i])));
    if (t->more_tokens)
        SR1__TRY(
            sr1__jrun_bind_json(r, "additional_special_tokens", t->more_tokens, NULL));
    SR1__TRY(sr1__jrun_bind_json(r, "messages", messages, text_of));
    SR1__TRY(mark_messages(r, c));
    SR1__TRY(sr1__jrun_bind_json(r, "tools", c->tools, sr1__chat_json_text));
    SR1__TRY(sr1__jrun_bind_json(r, "documents", NULL, NULL));
    SR1__TRY(sr1__jrun_bind_bool(r, "add_generation_prompt", c->add_generation_prompt));
    return c->no_thinking ? sr1__jrun_bind_bool(r, "enable_thinking", 0) : SR1_OK;
}

static sr1_status pick_chat_jinja(const struct sr1__chat_program *p,
                                  const struct sr1__conversation *c,
                                  const struct sr1__jinja **out)
{
    if (c->tools && p->fault_with_tools)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the chat template 'tool_use' cannot be run: %s; choose another "
                         "with the key chat_template_name",
                         p->fault_with_tools);
    *out = c->tools && p->with_tools ? p->with_tools : p->jinja;
    return SR1_OK;
}

sr1_status sr1__chat_program_render(const sr1_tokenizer *t,
                                    const struct sr1__conversation *c,
                                    struct sr1__rendered *out)
{
    const struct sr1__jinja *jinja = NULL;
    json_t *messages = NULL;
    struct sr1__jrun *r = NULL;
    sr1_status status = pick_chat_jinja(t->program, c, &jinja);

    if (status == SR1_OK)
        status = list_messages(c, &messages);
    if (status == SR1_OK)
        status = sr1__jrun_new(&r, jinja, t->program->now);
    if (status == SR1_OK)
        status = bind_conversation(r, t, c, messages);
    if (status == SR1_OK)
        status = sr1__jrun_render(r, &out->text, &out->own);
    sr1__jrun_free(r);
    json_decref(messages);
    return status;
}

/* ---- what the template shows of itself ---- */

/* Contents that no template has in it. */
#define QUESTION "mark-of-the-question"
#define ANSWER "mark-of-the-answer"
#define INSTRUCTION "mark-of-the-developer"

/* Messages of a probe. */
struct probe {
    enum sr1__role role;
    const char *text;
};

static sr1_status render_probe(const sr1_tokenizer *t, const struct probe *probe,
                               size_t n, int prompt, int no_thinking,
                               struct sr1__rendered *out)
{
    struct sr1__messages m = {0};
    const struct sr1__conversation c = {.messages = &m,
                                        .add_generation_prompt = prompt,
                                        .no_thinking = no_thinking,
                                        .developer = 1};
    sr1_status status = SR1_OK;

    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = sr1__messages_add(&m, sr1__role_names[probe[i].role], probe[i].text,
                                   strlen(probe[i].text));
    if (status == SR1_OK)
        status = sr1__chat_program_render(t, &c, out);
    sr1__messages_free(&m);
    return status;
}

static sr1_status find_thought(const sr1_tokenizer *t, int no_thinking, int *opens)
{
    static const struct probe asked[] = {{SR1__ROLE_USER, QUESTION}};
    struct sr1__rendered r;
    sr1_status status;

    sr1__rendered_init(&r);
    status = render_probe(t, asked, 1, 1, no_thinking, &r);
    while (status == SR1_OK && r.text.len && strchr(" \n", r.text.data[r.text.len - 1]))
        r.text.data[--r.text.len] = '\0';
    *opens = status == SR1_OK &&
             sr1__str_ends_with((struct sr1__str){sr1__buf_cstr(&r.text), r.text.len},
                                "<think>");
    sr1__rendered_free(&r);
    return status;
}

/* The added token that stands behind an answer; without one the end token. */
static sr1_status find_end_id(const sr1_tokenizer *t, int32_t *id)
{
    static const struct probe answered[] = {{SR1__ROLE_USER, QUESTION},
                                            {SR1__ROLE_ASSISTANT, ANSWER},
                                            {SR1__ROLE_USER, QUESTION}};
    struct sr1__added_match m = {0};
    struct sr1__rendered r;
    const char *behind;
    sr1_status status;

    *id = t->role_id[SR1_TOKEN_EOS];
    sr1__rendered_init(&r);
    status = render_probe(t, answered, 3, 0, 0, &r);
    behind = status == SR1_OK ? strstr(sr1__buf_cstr(&r.text), ANSWER) : NULL;
    if (behind) {
        behind += strlen(ANSWER);
        if (sr1__find_added(t, behind, strlen(behind), 0, &m) && m.at == 0)
            *id = m.id;
    }
    sr1__rendered_free(&r);
    return status;
}

static sr1_status find_developer(const sr1_tokenizer *t, int *writes)
{
    static const struct probe instructed[] = {{SR1__ROLE_DEVELOPER, INSTRUCTION},
                                              {SR1__ROLE_USER, QUESTION}};
    struct sr1__rendered r;
    sr1_status status;

    sr1__rendered_init(&r);
    status = render_probe(t, instructed, 2, 0, 0, &r);
    *writes = status == SR1_OK && strstr(sr1__buf_cstr(&r.text), INSTRUCTION);
    sr1__rendered_free(&r);
    return status;
}

/* A template that cannot render these shows nothing; only memory is a failure. */
static sr1_status probe_program(const sr1_tokenizer *t)
{
    struct sr1__chat_program *p = t->program;
    sr1_status status = find_thought(t, 0, &p->opens_thought[0]);

    if (!sr1__is_memory(status))
        status = find_thought(t, 1, &p->opens_thought[1]);
    if (!sr1__is_memory(status))
        status = find_end_id(t, &p->end_id);
    if (!sr1__is_memory(status))
        status = find_developer(t, &p->developer);
    return sr1__is_memory(status) ? status : SR1_OK;
}

/* A template that cannot be run is a fault of the conversations that need it. */
static sr1_status parse_template(struct sr1__jinja **out, char **fault, const char *text)
{
    sr1_status status = sr1__jinja_parse(out, text, strlen(text));

    if (status == SR1_OK || sr1__is_memory(status))
        return status;
    *fault = sr1__strdup(sr1_last_error());
    return *fault ? SR1_OK : sr1__fail_nomem("chat template");
}

sr1_status sr1__chat_program_load(sr1_tokenizer *t, const char *chat_template)
{
    struct sr1__chat_program *p = sr1__calloc(1, sizeof *p);

    SR1__CHECK_ALLOC(p, "chat template");
    t->program = p;
    p->now = (int64_t)time(NULL);
    p->end_id = -1;
    atomic_init(&p->refs, 1);
    SR1__TRY(parse_template(&p->jinja, &p->fault, chat_template));
    return p->jinja ? probe_program(t) : SR1_OK;
}

sr1_status sr1__chat_program_add_tools(sr1_tokenizer *t, const char *chat_template)
{
    return parse_template(&t->program->with_tools, &t->program->fault_with_tools,
                          chat_template);
}
