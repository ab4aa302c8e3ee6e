/* policy/rollout_prompt.c - from a question to the token ids the policy continues. */
#include "policy/rollout_internal.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/struct.h"
#include "text/data/dataset.h"
#include "text/data/question.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

sr1_query sr1__query_at(const sr1_query *queries, size_t i)
{
    sr1_query q = {0};

    (void)sr1__struct_take(&q, sizeof(q),
                           (const char *)queries + i * queries->struct_size, 0, "query");
    return q;
}

/* ---- history ---- */

static size_t history_size(const sr1_query *q, size_t i)
{
    return q->history_sizes ? q->history_sizes[i] : strlen(q->history_texts[i]);
}

sr1_status sr1__query_check(const sr1_query *queries, size_t i)
{
    sr1_query q = sr1__query_at(queries, i);

    for (size_t k = 0; k < q.n_answers; k++)
        if (!q.answers || !q.answers[k])
            return sr1__fail(SR1_E_INVALID, "answer %zu of %zu is NULL", k, q.n_answers);
    if (q.n_history > SR1_TRAJECTORY_MAX_HISTORY)
        return sr1__fail(SR1_E_LIMIT, "history: more than %d messages",
                         SR1_TRAJECTORY_MAX_HISTORY);
    if (q.n_history && (!q.history_roles || !q.history_texts))
        return sr1__fail(SR1_E_INVALID, "history: roles and texts are needed");
    for (size_t k = 0; k < q.n_history; k++) {
        if (!sr1__message_role(q.history_roles[k], k))
            return sr1__fail(SR1_E_INVALID,
                             "history: message %zu: role '%s' is neither user nor "
                             "assistant, nor in the first place system or developer",
                             k, q.history_roles[k] ? q.history_roles[k] : "");
        if (!q.history_texts[k])
            return sr1__fail(SR1_E_INVALID, "history: message %zu has no text", k);
    }
    if (q.copy < 0)
        return sr1__fail(SR1_E_INVALID, "copy %" PRId64 " is below 0", q.copy);
    if (q.row_len && !q.row)
        return sr1__fail(SR1_E_INVALID, "row: %zu bytes at NULL", q.row_len);
    return SR1_OK;
}

static uint64_t hash_query(const sr1_query *q)
{
    uint64_t h = sr1__hash64(q->text, q->text_len, 0);

    for (size_t i = 0; i < q->n_history; i++) {
        h = sr1__hash64(q->history_roles[i], strlen(q->history_roles[i]), h);
        h = sr1__hash64(q->history_texts[i], history_size(q, i), h);
    }
    return h;
}

const char *sr1__query_id(const sr1_query *q, char buf[SR1__QUERY_ID_MAX])
{
    if (q->id && *q->id)
        return q->id;
    snprintf(buf, SR1__QUERY_ID_MAX, "q-%016" PRIx64, hash_query(q));
    return buf;
}

uint64_t sr1__group_seed(uint64_t seed, const char *id, int64_t copy)
{
    uint64_t h = sr1__hash64(id, strlen(id), seed);

    return copy ? sr1__hash64(&copy, sizeof(copy), h) : h;
}

int sr1__query_is_empty(const sr1_query *q)
{
    for (size_t i = 0; i < q->text_len; i++)
        if (!strchr(" \t\r\n\v\f", q->text[i]) || q->text[i] == '\0')
            return 0;
    return 1;
}

/* ---- the prompt ---- */

/* One system message: the configured text, then the system message of the history. */
static sr1_status add_system_message(const sr1_rollout *r, const sr1_query *q, int given,
                                     struct sr1__messages *m)
{
    struct sr1__buf text;
    sr1_status st;

    if (!r->system && !given)
        return SR1_OK;
    sr1__buf_init(&text, 0);
    if (r->system)
        sr1__buf_str(&text, r->system);
    if (r->system && given)
        sr1__buf_str(&text, "\n\n");
    if (given)
        sr1__buf_add(&text, q->history_texts[0], history_size(q, 0));
    st = sr1__buf_status(&text, "system message");
    if (st == SR1_OK)
        st = sr1__messages_add_copy(m, "system", sr1__buf_cstr(&text), text.len,
                                    &r->system_own);
    sr1__buf_free(&text);
    return st;
}

static sr1_status render_question(const sr1_rollout *r, const sr1_query *q,
                                  struct sr1__buf *user, struct sr1__spans *own)
{
    if (r->question)
        return sr1__question_render(r->question, q->text, q->text_len, user, own);
    sr1__buf_add(user, q->text, q->text_len);
    return sr1__buf_status(user, "question");
}

static sr1_status add_user_message(const sr1_rollout *r, const sr1_query *q,
                                   struct sr1__messages *m)
{
    struct sr1__spans own = {0};
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    st = render_question(r, q, &text, &own);
    if (st == SR1_OK)
        st = sr1__messages_add_copy(m, "user", sr1__buf_cstr(&text), text.len, &own);
    sr1__spans_free(&own);
    sr1__buf_free(&text);
    return st;
}

/* Text of the configuration is trusted; history, question and tools are text from
 * outside. */
sr1_status sr1__rollout_messages(const sr1_rollout *r, const sr1_query *q,
                                 struct sr1__messages *m)
{
    size_t given =
        q->n_history &&
        sr1__role_find(sr1__message_role(q->history_roles[0], 0)) == SR1__ROLE_SYSTEM;

    SR1__TRY(add_system_message(r, q, given != 0, m));
    for (size_t i = given; i < q->n_history; i++)
        SR1__TRY(sr1__messages_add_copy(m, sr1__message_role(q->history_roles[i], i),
                                        q->history_texts[i], history_size(q, i), NULL));
    return add_user_message(r, q, m);
}

static sr1_status encode_prompt(const sr1_rollout *r, const sr1_query *q, int32_t **ids,
                                size_t *n)
{
    sr1_chat_options o = {.struct_size = sizeof(o),
                          .add_generation_prompt = 1,
                          .no_thinking = !r->thinking};
    struct sr1__messages m = {0};
    sr1_status st = sr1__rollout_messages(r, q, &m);

    if (st == SR1_OK)
        st = sr1__tokenizer_chat_ids(r->tokenizer, &m, &o, ids, n);
    sr1__messages_free(&m);
    return st;
}

/* The tokens of a prompt that are neither the question's nor its history's. */
static sr1_status count_instructions(const sr1_rollout *r, const sr1_query *q, size_t n,
                                     size_t *out)
{
    struct sr1__ids asked = {0};
    sr1_status st = sr1__tokenizer_encode(r->tokenizer, q->text, q->text_len,
                                          SR1_ENCODE_ADDED_AS_TEXT, &asked);

    for (size_t i = 0; st == SR1_OK && i < q->n_history; i++)
        st = sr1__tokenizer_encode(r->tokenizer, q->history_texts[i], history_size(q, i),
                                   SR1_ENCODE_ADDED_AS_TEXT, &asked);
    *out = asked.n < n ? n - asked.n : 0;
    sr1__ids_free(&asked);
    return st;
}

static sr1_status fail_long_prompt(const sr1_rollout *r, const sr1_query *q, size_t n)
{
    size_t around = 0;

    SR1__TRY(count_instructions(r, q, n, &around));
    if ((int64_t)around >= r->limits.max_prompt)
        return sr1__fail(SR1_E_LIMIT,
                         "the prompt has %zu tokens, %zu of them are the instructions "
                         "around the question, and max_prompt_tokens is %" PRId64
                         "; raise the key, or shorten prompt_template, question_template "
                         "or the descriptions of tools",
                         n, around, r->limits.max_prompt);
    return sr1__fail(SR1_E_LIMIT,
                     "the prompt has %zu tokens, max_prompt_tokens is %" PRId64
                     "; shorten the question or its history, raise the key, or leave "
                     "such questions out of data with filter_overlong_prompts",
                     n, r->limits.max_prompt);
}

sr1_status sr1__rollout_prompt(const sr1_rollout *r, const sr1_query *q, int32_t **ids,
                               size_t *n)
{
    int32_t *made = NULL;
    size_t n_made = 0;

    SR1__TRY(encode_prompt(r, q, &made, &n_made));
    if ((int64_t)n_made > r->limits.max_prompt) {
        sr1_free(made);
        return fail_long_prompt(r, q, n_made);
    }
    if ((int64_t)n_made >= r->limits.max_context) {
        sr1_free(made);
        return sr1__fail(SR1_E_LIMIT,
                         "the prompt has %zu tokens, the model reads at most %" PRId64
                         " with what it says; shorten the question or its history",
                         n_made, r->limits.max_context);
    }
    *ids = made;
    *n = n_made;
    return SR1_OK;
}
