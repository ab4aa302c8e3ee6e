/* retrieval/net/openai_request.c - write the body of a request to /completions or
 * /chat/completions.
 *
 * For vLLM servers also: return_token_ids and return_tokens_as_token_ids (token ids),
 * include_stop_str_in_output (keeps the stop text), and every sampling parameter
 * explicitly, because the server takes missing ones from the model's
 * generation_config.json (of Qwen top_k 20, top_p, a repetition penalty). */
#include "retrieval/net/openai_wire.h"

#include "base/json.h"

#include <string.h>

/* 1 when the member could not be added. */
static int set_json_member(json_t *o, const char *key, json_t *value)
{
    return json_object_set_new(o, key, value) != 0;
}

static json_t *make_messages_json(const sr1_openai_request *q)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < q->n_messages; i++) {
        size_t n = q->content_sizes ? q->content_sizes[i] : strlen(q->contents[i]);
        json_t *m = json_object();
        int bad = !m ||
                  set_json_member(m, "role",
                                  sr1__json_text(q->roles[i], strlen(q->roles[i]))) ||
                  set_json_member(m, "content", sr1__json_text(q->contents[i], n));

        if (json_array_append_new(list, m) != 0 || bad) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int cuts_top_p(const sr1_openai_request *q)
{
    return q->top_p > 0.0 && q->top_p < 1.0;
}

static int add_sampling(json_t *o, const sr1_openai_request *q)
{
    int bad = set_json_member(o, "temperature", sr1__json_number(q->temperature));

    if (cuts_top_p(q))
        bad |= set_json_member(o, "top_p", json_real(q->top_p));
    if (q->seed > 0)
        bad |= set_json_member(o, "seed", json_integer(q->seed));
    if (q->n_stop > 0)
        bad |= set_json_member(o, "stop", sr1__json_texts(q->stop, q->n_stop));
    return bad;
}

/* vLLM's log-probs count the most likely tokens beside the one drawn; some servers give
 * none at all for 0. */
static int add_log_probs(json_t *o, const sr1_openai_request *q)
{
    if (!q->log_probs)
        return 0;
    return set_json_member(o, "logprobs", q->n_messages ? json_true() : json_integer(1));
}

/* The server's own defaults are not ours. */
static int add_distribution(json_t *o, const sr1_openai_request *q)
{
    int bad = set_json_member(o, "top_k", json_integer(q->top_k > 0 ? q->top_k : -1));

    if (!cuts_top_p(q))
        bad |= set_json_member(o, "top_p", json_real(1.0));
    bad |= set_json_member(o, "min_p", json_real(0.0));
    return bad | set_json_member(o, "repetition_penalty", json_real(1.0));
}

static int add_vllm(json_t *o, const sr1_openai_request *q)
{
    int bad =
        set_json_member(o, "return_token_ids", json_true()) | add_distribution(o, q);

    if (q->log_probs)
        bad |= set_json_member(o, "return_tokens_as_token_ids", json_true());
    if (q->n_stop > 0)
        bad |= set_json_member(o, "include_stop_str_in_output", json_true());
    if (q->prompt)
        bad |= set_json_member(o, "add_special_tokens", json_false());
    if (q->n_messages && q->no_thinking)
        bad |= set_json_member(o, "chat_template_kwargs",
                               json_pack("{s:b}", "enable_thinking", 0));
    return bad;
}

static int fill_request_json(json_t *o, const sr1_openai_request *q,
                             const struct sr1__openai_style *style)
{
    const char *most =
        q->n_messages && style->completion ? "max_completion_tokens" : "max_tokens";
    int bad =
        set_json_member(o, "model", sr1__json_text(style->model, strlen(style->model)));

    bad |= set_json_member(o, most, json_integer(q->max_tokens));
    bad |= add_sampling(o, q);
    bad |= add_log_probs(o, q);
    if (q->n_messages)
        bad |= set_json_member(o, "messages", make_messages_json(q));
    else if (q->prompt)
        bad |= set_json_member(o, "prompt", sr1__json_text(q->prompt, q->prompt_len));
    if (style->dialect == SR1_OPENAI_DIALECT_VLLM)
        bad |= add_vllm(o, q);
    return bad;
}

/* Ids go in as text: as JSON values each would take memory of its own. */
static void append_prompt_ids(struct sr1__buf *b, const int32_t *ids, size_t n)
{
    sr1__buf_str(b, "\"prompt\":[");
    for (size_t i = 0; i < n; i++)
        sr1__buf_fmt(b, "%s%d", i ? "," : "", (int)ids[i]);
    sr1__buf_str(b, "],");
}

sr1_status sr1__openai_request_write(struct sr1__buf *b, const sr1_openai_request *q,
                                     const struct sr1__openai_style *style)
{
    json_t *o = json_object();
    struct sr1__buf rest;
    sr1_status st;

    if (!o || fill_request_json(o, q, style)) {
        json_decref(o);
        return sr1__fail_nomem("request");
    }
    sr1__buf_init(&rest, 0);
    st = sr1__json_dump(o, 0, &rest);
    json_decref(o);
    if (st == SR1_OK) {
        sr1__buf_char(b, '{');
        if (q->prompt_ids)
            append_prompt_ids(b, q->prompt_ids, q->n_prompt_ids);
        sr1__buf_add(b, rest.data + 1, rest.len - 1);
        st = sr1__buf_status(b, "request");
    }
    sr1__buf_free(&rest);
    return st;
}
