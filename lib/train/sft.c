/* train/sft.c - turn a demonstration into a trajectory: its policy segments are imitated,
 * the rest is context. Text is tokenized exactly as in a rollout: each segment is encoded
 * by itself, the tags of an inserted block apart from its body; where the protocol has
 * messages, a result is one. */
#include "train/internal.h"

#include "environment/env/protocol.h"
#include "base/mem.h"
#include "base/text.h"
#include "policy/observation_tokens.h"
#include "policy/rollout_internal.h"
#include "text/tokenizer/tokenizer.h"
#include "environment/trajectory/builder.h"

#include <inttypes.h>
#include <string.h>

struct example {
    sr1_trainer *tr;
    struct sr1__trajectory_builder *b;
    int32_t turn;
    int ended; /* the policy has ended the message that is behind it */
};

static sr1_status add_policy(struct example *e, const char *text, size_t n)
{
    struct sr1__ids ids = {0};
    sr1_status st =
        sr1__tokenizer_encode(e->tr->rollout->tokenizer, text, n,
                              SR1_ENCODE_ALL_ADDED | SR1_ENCODE_CONTINUED, &ids);

    for (size_t i = 0; i < ids.n && st == SR1_OK; i++) {
        int last = i + 1 == ids.n;

        st = sr1__trajectory_builder_policy(e->b, ids.v[i], 0.0f, e->turn,
                                            last ? text : "", last ? n : 0);
    }
    sr1__ids_free(&ids);
    return st;
}

static sr1_status add_environment(struct example *e, const char *text, size_t n)
{
    const sr1_tokenizer *t = e->tr->rollout->tokenizer;
    const int32_t tags = SR1_ENCODE_ALL_ADDED | SR1_ENCODE_CONTINUED;
    struct sr1__ids ids = {0};
    size_t begin = 0, len = n;
    sr1_status st;

    (void)sr1__observation_split(sr1__env_protocol(e->tr->rollout->env), text, n, &begin,
                                 &len); /* a block without tags is all body */
    st = sr1__tokenizer_encode(t, text, begin, tags, &ids);
    if (st == SR1_OK)
        st = sr1__tokenizer_encode(t, text + begin, len,
                                   SR1_ENCODE_ADDED_AS_TEXT | SR1_ENCODE_CONTINUED, &ids);
    if (st == SR1_OK)
        st = sr1__tokenizer_encode(t, text + begin + len, n - begin - len, tags, &ids);
    if (st == SR1_OK && ids.n)
        st = sr1__trajectory_builder_environment(e->b, ids.v, ids.n, e->turn, text, n,
                                                 begin, len);
    sr1__ids_free(&ids);
    e->turn++;
    return st;
}

static int has_result_tags(const struct sr1__protocol *p, const char *text)
{
    size_t begin, len;

    return sr1__observation_split(p, text, strlen(text), &begin, &len) == SR1_OK;
}

/* Is text a result that goes in as a rollout makes it? In a protocol with messages one
 * without result tags runs on in the text. */
static int is_block(const struct sr1__protocol *p, const char *text)
{
    return (p->chat || p->search_r1_compat) && has_result_tags(p, text);
}

static sr1_status fill_block(struct sr1__observation *o, const struct sr1__protocol *p,
                             const char *text)
{
    size_t n = strlen(text), begin = 0, len = 0;

    SR1__TRY(sr1__observation_split(p, text, n, &begin, &len));
    sr1__buf_add(&o->head, text, begin);
    sr1__buf_add(&o->body, text + begin, len);
    sr1__buf_add(&o->tail, text + begin + len, n - begin - len);
    return o->head.status == SR1_OK && o->body.status == SR1_OK &&
                   o->tail.status == SR1_OK
               ? SR1_OK
               : sr1__fail_nomem("inserted text");
}

static sr1_status insert_blocks(struct example *e, const struct sr1__observation *o,
                                size_t n)
{
    const sr1_rollout *r = e->tr->rollout;
    const struct sr1__protocol *p = sr1__env_protocol(r->env);
    const struct sr1__turn_delimiters *border = p->chat ? sr1__result_border(r) : NULL;
    struct sr1__observation_tokens b;
    int fits;
    sr1_status st;

    SR1__TRY(sr1__observation_tokens_make(&b, r->tokenizer, border, p, o, n, e->ended,
                                          INT64_MAX, &fits));
    st = sr1__trajectory_builder_environment(e->b, b.ids.v, b.ids.n, e->turn,
                                             sr1__buf_cstr(&b.text), b.text.len,
                                             b.body_begin, b.body_len);
    sr1__observation_tokens_free(&b);
    e->turn++;
    return st;
}

/* The results of n calls of one message, made as a rollout makes them. */
static sr1_status add_blocks(struct example *e, const struct sr1__demo_segment *segments,
                             size_t n)
{
    const struct sr1__protocol *p = sr1__env_protocol(e->tr->rollout->env);
    struct sr1__observation *o = sr1__calloc(n, sizeof(*o));
    sr1_status st = SR1_OK;

    SR1__CHECK_ALLOC(o, "inserted text");
    for (size_t i = 0; i < n; i++)
        sr1__observation_init(&o[i]);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = fill_block(&o[i], p, segments[i].text);
    if (st == SR1_OK)
        st = insert_blocks(e, o, n);
    for (size_t i = 0; i < n; i++)
        sr1__observation_free(&o[i]);
    sr1__free(o);
    return st;
}

/* Segments from i on that are results of one message; 0: segment i is no result. */
static size_t count_blocks(const struct example *e, const struct sr1__demo *d, size_t i)
{
    const struct sr1__protocol *p = sr1__env_protocol(e->tr->rollout->env);
    size_t n = 0;

    while (i + n < d->n_segments && (n == 0 || p->several) &&
           !d->segments[i + n].is_policy && is_block(p, d->segments[i + n].text))
        n++;
    return n;
}

static sr1_status add_question(struct example *e, const struct sr1__demo *d)
{
    sr1_query q = {.struct_size = sizeof(q),
                   .text = d->question,
                   .text_len = strlen(d->question),
                   .history_roles = d->history.roles,
                   .history_texts = d->history.texts,
                   .n_history = d->history.n};
    int32_t *ids = NULL;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1__rollout_prompt(e->tr->rollout, &q, &ids, &n));
    st = sr1__trajectory_builder_prompt(e->b, ids, n);
    sr1_free(ids);
    return st;
}

/* ---- conversations ---- */

/* The chat template's text of messages with its ids, or the end of that text. */
struct rendering {
    char *text;
    int32_t *ids;
    size_t len, n; /* of text, of ids */
};

static void free_rendering(struct rendering *g)
{
    sr1_free(g->text);
    sr1_free(g->ids);
}

static json_t *list_messages(const struct sr1__demo_segment *messages, size_t n)
{
    json_t *list = json_array();
    int bad = list == NULL;

    for (size_t i = 0; i < n && !bad; i++) {
        const struct sr1__demo_segment *m = &messages[i];
        json_t *one = m->message
                          ? json_incref((json_t *)(uintptr_t)m->message)
                          : json_pack("{s:s, s:s}", "role", m->role, "content", m->text);

        bad = json_array_append_new(list, one) != 0;
    }
    if (!bad)
        return list;
    json_decref(list);
    return NULL;
}

/* open: and then the policy's next message begins. */
static sr1_status render_chat(const sr1_rollout *r, const struct sr1__demo *d,
                              const struct sr1__demo_segment *messages, size_t n,
                              int open, struct rendering *out)
{
    sr1_chat_options o = {.struct_size = sizeof(o),
                          .add_generation_prompt = open,
                          .no_thinking = !r->thinking,
                          .tools = d->tools};
    json_t *list = list_messages(messages, n);
    struct sr1__buf text;
    sr1_status st;

    SR1__CHECK_ALLOC(list, "messages");
    sr1__buf_init(&text, 0);
    st = sr1__json_dump(list, 0, &text);
    if (st == SR1_OK)
        st = sr1_tokenizer_chat_json(r->tokenizer, sr1__buf_cstr(&text), text.len, &o,
                                     &out->text, &out->len, &out->ids, &out->n);
    sr1__buf_free(&text);
    json_decref(list);
    return st;
}

static sr1_status fail_of_template(void)
{
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "the chat template does not write a message behind what stands "
                     "before it; if it has thoughts, set enable_thinking: true");
}

/* Cut off the first len bytes and n ids. */
static void cut_front(struct rendering *g, size_t len, size_t n)
{
    g->len -= len;
    memmove(g->text, g->text + len, g->len + 1);
    g->n -= n;
    memmove(g->ids, g->ids + n, g->n * sizeof(*g->ids));
}

/* Keep what two conversations that differ in one message have in common behind it. */
static void keep_common_end(struct rendering *g, const struct rendering *other)
{
    size_t len = 0, n = 0;

    while (len < g->len && len < other->len &&
           g->text[g->len - 1 - len] == other->text[other->len - 1 - len])
        len++;
    while (n < g->n && n < other->n &&
           g->ids[g->n - 1 - n] == other->ids[other->n - 1 - n])
        n++;
    cut_front(g, g->len - len, g->n - n);
}

/* What a message of the policy and then messages [n] have behind the policy's text. */
static sr1_status render_behind(const sr1_rollout *r, const struct sr1__demo *d,
                                const struct sr1__demo_segment *messages, size_t n,
                                int open, struct rendering *out)
{
    static const char *const said[2] = {"This is one mark", "That is another sign"};
    struct sr1__demo_segment *all = sr1__calloc(n + 2, sizeof(*all));
    struct rendering other = {0};
    sr1_status st;

    SR1__CHECK_ALLOC(all, "messages");
    all[0] = (struct sr1__demo_segment){.role = "user", .text = "question"};
    all[1] = (struct sr1__demo_segment){.role = "assistant", .text = said[0]};
    for (size_t i = 0; i < n; i++)
        all[2 + i] = messages[i];
    st = render_chat(r, d, all, n + 2, open, out);
    all[1].text = said[1];
    if (st == SR1_OK)
        st = render_chat(r, d, all, n + 2, open, &other);
    if (st == SR1_OK)
        keep_common_end(out, &other);
    free_rendering(&other);
    sr1__free(all);
    return st;
}

/* What messages [begin, end) add to a conversation behind a message of the policy, whose
 * end is its own, and the opening of its next one. They follow a question and a message
 * that stand for all before: templates write earlier messages in other ways when they go
 * on (Qwen3's forgets thoughts), and here a conversation only grows. */
static sr1_status render_context(const sr1_rollout *r, const struct sr1__demo *d,
                                 size_t begin, size_t end, struct rendering *out)
{
    struct rendering closing = {0};
    sr1_status st = render_behind(r, d, NULL, 0, 0, &closing);

    if (st == SR1_OK)
        st = render_behind(r, d, d->segments + begin, end - begin, 1, out);
    if (st == SR1_OK &&
        (out->len < closing.len || out->n < closing.n ||
         memcmp(out->text, closing.text, closing.len) != 0 ||
         memcmp(out->ids, closing.ids, closing.n * sizeof(*out->ids)) != 0))
        st = fail_of_template();
    if (st == SR1_OK)
        cut_front(out, closing.len, closing.n);
    free_rendering(&closing);
    return st;
}

/* The text of message i of the policy behind a question, with what ends it. Ids are
 * another matter: the first line ends of a message may be one token with that of its
 * heading. */
static sr1_status render_message(const sr1_rollout *r, const struct sr1__demo *d,
                                 size_t i, struct rendering *out)
{
    struct sr1__demo_segment both[2] = {{.role = "user", .text = "question"},
                                        d->segments[i]};
    struct rendering before = {0};
    sr1_status st = render_chat(r, d, both, 1, 1, &before);

    if (st == SR1_OK)
        st = render_chat(r, d, both, 2, 0, out);
    if (st == SR1_OK &&
        (out->len < before.len || memcmp(out->text, before.text, before.len) != 0))
        st = fail_of_template();
    if (st == SR1_OK)
        cut_front(out, before.len, out->n);
    free_rendering(&before);
    return st;
}

static sr1_status add_opening(struct example *e, const struct sr1__demo *d, size_t n)
{
    struct rendering g = {0};
    sr1_status st = render_chat(e->tr->rollout, d, d->segments, n, 1, &g);

    if (st == SR1_OK)
        st = sr1__trajectory_builder_prompt(e->b, g.ids, g.n);
    free_rendering(&g);
    return st;
}

/* Do messages [begin, end) have result tags in their own texts? */
static int has_block(const struct sr1__protocol *p, const struct sr1__demo *d,
                     size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (has_result_tags(p, d->segments[i].text))
            return 1;
    return 0;
}

/* Messages between two of the policy, with the words of the template around them. Tags
 * around each of several results are the template's. */
static sr1_status add_context(struct example *e, const struct sr1__demo *d, size_t begin,
                              size_t end)
{
    const struct sr1__protocol *p = sr1__env_protocol(e->tr->rollout->env);
    struct rendering g = {0};
    size_t body_begin, body_len;
    int one = end - begin == 1 || has_block(p, d, begin, end);
    sr1_status st = render_context(e->tr->rollout, d, begin, end, &g);

    if (st == SR1_OK && one &&
        sr1__observation_split(p, g.text, g.len, &body_begin, &body_len) == SR1_OK)
        st = add_environment(e, g.text, g.len);
    else if (st == SR1_OK)
        st = sr1__trajectory_builder_environment(e->b, g.ids, g.n, e->turn++, g.text,
                                                 g.len, 0, g.len);
    free_rendering(&g);
    return st;
}

static sr1_status require_written(const struct rendering *g, const json_t *part,
                                  const char *member)
{
    const char *s = json_string_value(part);
    size_t begin = 0, n = json_string_length(part);

    if (s)
        sr1__strip(s, &begin, &n);
    return n == 0 || memmem(g->text, g->len, s + begin, n)
               ? SR1_OK
               : sr1__fail(SR1_E_UNSUPPORTED,
                           "the chat template does not write '%s'; put it into 'content' "
                           "as the policy is to say it",
                           member);
}

/* A template that does not know a member of a message leaves it out, silently. */
static sr1_status check_parts_written(const json_t *message, const struct rendering *g)
{
    const json_t *calls = json_object_get(message, "tool_calls");

    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        const json_t *function = json_object_get(call, "function");

        SR1__TRY(require_written(g, json_object_get(function ? function : call, "name"),
                                 "tool_calls"));
    }
    return require_written(g, json_object_get(message, "reasoning_content"),
                           "reasoning_content");
}

static sr1_status add_message(struct example *e, const struct sr1__demo *d, size_t i)
{
    struct rendering g = {0};
    sr1_status st = render_message(e->tr->rollout, d, i, &g);

    if (st == SR1_OK)
        st = check_parts_written(d->segments[i].message, &g);
    if (st == SR1_OK)
        st = add_policy(e, g.text, g.len);
    free_rendering(&g);
    return st;
}

/* Add each message of the policy after the messages before it; a first message is
 * context, whatever its role. */
static sr1_status add_chat(struct example *e, const struct sr1__demo *d)
{
    size_t done = 0;

    for (size_t i = 1; i < d->n_segments; i++) {
        if (!d->segments[i].is_policy)
            continue;
        SR1__TRY(done == 0 ? add_opening(e, d, i) : add_context(e, d, done, i));
        SR1__TRY(add_message(e, d, i));
        done = i + 1;
    }
    return done > 0 ? SR1_OK
                    : sr1__fail(
                          SR1_E_PARSE,
                          "nothing to learn: only the first message is the policy's, and "
                          "a first message is context; begin with one of the user");
}

/* The first words of the policy, without the opening of a thought that the prompt has. */
static const char *skip_opening(const struct example *e, const char *text)
{
    static const char open[] = "<think>";

    if (!sr1__chat_opens_thought(e->tr->rollout->tokenizer) ||
        strncmp(text, open, sizeof(open) - 1) != 0)
        return text;
    text += sizeof(open) - 1;
    return *text == '\n' ? text + 1 : text;
}

/* A message of calls, where it may hold several: what ends it is the policy's. */
static sr1_status add_calls(struct example *e, const char *text)
{
    const sr1_rollout *r = e->tr->rollout;
    const char *close = r->border.close;
    size_t n = strlen(text), end = r->border.end_len;
    struct sr1__buf whole;
    sr1_status st;

    sr1__buf_init(&whole, 0);
    sr1__buf_add(&whole, text, n);
    if (n < end || memcmp(text + n - end, close, end) != 0)
        sr1__buf_add(&whole, close, end);
    st = sr1__buf_status(&whole, "a demonstration");
    if (st == SR1_OK)
        st = add_policy(e, sr1__buf_cstr(&whole), whole.len);
    sr1__buf_free(&whole);
    e->ended = 1;
    return st;
}

/* The policy's text d->segments[i]. */
static sr1_status add_said(struct example *e, const struct sr1__demo *d, size_t i,
                           const char *text)
{
    int answered = i + 1 < d->n_segments && !d->segments[i + 1].is_policy;

    e->ended = 0;
    return answered && sr1__env_calls_of_message(e->tr->rollout->env) > 1
               ? add_calls(e, text)
               : add_policy(e, text, strlen(text));
}

static sr1_status add_policy_segment(struct example *e, const struct sr1__demo *d,
                                     size_t i)
{
    const char *text = d->segments[i].text;

    return add_said(e, d, i, i == 0 ? skip_opening(e, text) : text);
}

static sr1_status add_segments(struct example *e, const struct sr1__demo *d)
{
    SR1__TRY(add_question(e, d));
    for (size_t i = 0; i < d->n_segments;) {
        const struct sr1__demo_segment *s = &d->segments[i];
        size_t blocks = count_blocks(e, d, i);

        if (blocks)
            SR1__TRY(add_blocks(e, s, blocks));
        else
            SR1__TRY(s->is_policy ? add_policy_segment(e, d, i)
                                  : add_environment(e, s->text, strlen(s->text)));
        i += blocks ? blocks : 1;
    }
    return SR1_OK;
}

static sr1_status check_length(const struct example *e, const sr1_trajectory *t)
{
    size_t n = sr1_trajectory_token_count(t);
    int64_t max = e->tr->rollout->limits.max_context;

    if ((int64_t)n <= max)
        return SR1_OK;
    return sr1__fail(SR1_E_LIMIT,
                     "the demonstration has %zu tokens, the model reads at most %" PRId64
                     "; shorten it, or leave such demonstrations out with "
                     "filter_overlong_prompts",
                     n, max);
}

static sr1_status mark_thought(const struct example *e)
{
    struct sr1__trajectory_context c = {
        .temperature = 1.0, .top_p = 1.0, .weights_version = -1, .begins_in_thought = 1};

    return sr1__chat_opens_thought(e->tr->rollout->tokenizer)
               ? sr1__trajectory_builder_context(e->b, &c)
               : SR1_OK;
}

static sr1_status build_example(struct example *e, const struct sr1__demo *d,
                                sr1_trajectory **out)
{
    sr1_trajectory *t = NULL;
    sr1_status st;

    SR1__TRY(
        sr1__trajectory_builder_new(&e->b, d->question, strlen(d->question), NULL, 0));
    st = mark_thought(e);
    if (st == SR1_OK)
        st = d->is_chat ? add_chat(e, d) : add_segments(e, d);
    if (st != SR1_OK) {
        sr1__trajectory_builder_free(e->b);
        return st;
    }
    SR1__TRY(sr1__trajectory_builder_finish(e->b, SR1_STOP_ANSWER, "", 0, &t));
    st = check_length(e, t);
    if (st == SR1_OK)
        st = sr1_trajectory_set_advantage(t, 1.0);
    if (st != SR1_OK)
        sr1_trajectory_free(t);
    else
        *out = t;
    return st;
}

sr1_status sr1__sft_example(sr1_trainer *tr, int64_t i, sr1_trajectory **out)
{
    struct example e = {.tr = tr};
    struct sr1__demo d;
    sr1_status st;

    SR1__TRY(sr1__demos_read(tr->demos, i, &d));
    st = build_example(&e, &d, out);
    sr1__demo_clear(&d);
    return sr1__demos_context(tr->demos, i, st);
}
