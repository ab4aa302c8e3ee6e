/* retrieval/net/openai_completion.c - parse the body of an answer of /completions or
 * /chat/completions.
 *
 * Read of choices[0], by endpoint:
 *
 *     /completions       text, logprobs {tokens, token_logprobs}
 *     /chat/completions  message {content}, logprobs {content: [{token, bytes, logprob}]}
 *
 * and of both finish_reason, beside choices usage {prompt_tokens, completion_tokens}.
 *
 * vLLM adds token_ids, prompt_token_ids (of a chat beside choices), stop_reason, tokens
 * of logprobs as "token_id:17", and message {reasoning or reasoning_content}, which its
 * parsers of thoughts took out of the text; SGLang adds matched_stop.
 *
 * Ids are used only if every token has one. */
#include "retrieval/net/openai_wire.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

#include <math.h>
#include <string.h>

#define LOG_PROB_MOST 1e-3 /* rounding may bring a log-prob of 0 above it */

void sr1__openai_completion_clear(struct sr1__openai_completion *a)
{
    sr1__free(a->message);
    sr1__free(a->text);
    sr1__free(a->stop_text);
    sr1__free(a->prompt_ids);
    sr1__free(a->ids);
    sr1__free(a->log_probs);
    sr1__free(a->token_bytes);
    sr1__free((void *)a->tokens);
    sr1__free(a->token_sizes);
    memset(a, 0, sizeof(*a));
}

/* ---- text ---- */

static sr1_status build_completion_text(struct sr1__openai_completion *a,
                                        const json_t *content, const json_t *thoughts)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    if (json_string_length(thoughts) > 0) {
        sr1__buf_str(&b, "<think>");
        sr1__buf_add(&b, json_string_value(thoughts), json_string_length(thoughts));
        sr1__buf_str(&b, "</think>");
    }
    sr1__buf_add(&b, json_string_value(content), json_string_length(content));
    a->text_len = b.len;
    a->text = sr1__buf_take(&b);
    if (a->text)
        return SR1_OK;
    sr1__buf_free(&b);
    return sr1__fail_nomem("text of an answer");
}

static sr1_status read_chat_text(struct sr1__openai_completion *a, const json_t *choice)
{
    const json_t *message = json_object_get(choice, "message");
    const json_t *content = json_object_get(message, "content");
    const json_t *thoughts = json_object_get(message, "reasoning_content");

    if (!json_is_string(thoughts))
        thoughts = json_object_get(message, "reasoning");
    if (!json_is_object(message) ||
        (content && !json_is_string(content) && !json_is_null(content)))
        return sr1__fail(SR1_E_PARSE, "answer: choices[0].message has no text 'content'");
    return build_completion_text(a, content, thoughts);
}

static sr1_status read_plain_text(struct sr1__openai_completion *a, const json_t *choice)
{
    const json_t *text = json_object_get(choice, "text");

    if (!json_is_string(text))
        return sr1__fail(SR1_E_PARSE, "answer: choices[0] has no text 'text'");
    return build_completion_text(a, text, NULL);
}

static int ends_with_stop(const struct sr1__openai_completion *a, const char *end)
{
    return *end && sr1__str_ends_with((struct sr1__str){a->text, a->text_len}, end);
}

/* The stop text that ended the answer: the one the server names, else the one that the
 * text ends with. */
static sr1_status read_stop(struct sr1__openai_completion *a, const json_t *choice,
                            const sr1_openai_request *q)
{
    const json_t *reason = json_object_get(choice, "stop_reason");
    const char *stop = NULL;

    if (!json_is_string(reason))
        reason = json_object_get(choice, "matched_stop");
    if (a->finish != SR1_OPENAI_FINISH_STOP)
        return SR1_OK;
    for (size_t i = 0; i < q->n_stop && !stop; i++)
        if (json_is_string(reason) ? strcmp(q->stop[i], json_string_value(reason)) == 0
                                   : ends_with_stop(a, q->stop[i]))
            stop = q->stop[i];
    if (!stop)
        return SR1_OK;
    a->stop_kept = ends_with_stop(a, stop);
    a->stop_text = sr1__strdup(stop);
    return a->stop_text ? SR1_OK : sr1__fail_nomem("text of an answer");
}

/* If a server aborts a request (it loads new weights, or one of its processes was
 * killed), the partial text is not an answer of the model. */
static sr1_status read_finish(struct sr1__openai_completion *a, const json_t *choice)
{
    static const char *const words[] = {"stop", "length"}, *const given_up[] = {"abort",
                                                                                "error"};
    const char *said = json_string_value(json_object_get(choice, "finish_reason"));

    a->finish = SR1_OPENAI_FINISH_OTHER;
    for (int32_t i = 0; said && i < 2; i++) {
        if (strcmp(said, words[i]) == 0)
            a->finish = i;
        if (strcmp(said, given_up[i]) == 0)
            return sr1__fail(SR1_E_NETWORK,
                             "answer: the server gave up (finish_reason %s)", said);
    }
    return SR1_OK;
}

/* ---- ids ---- */

/* A list of ids; *out NULL where there is none. */
static sr1_status read_ids(int32_t **out, size_t *n, const json_t *list, const char *name)
{
    size_t count = json_array_size(list);
    int32_t *ids;

    if (!list || json_is_null(list))
        return SR1_OK;
    if (!json_is_array(list))
        return sr1__fail(SR1_E_PARSE, "answer: '%s' is no list", name);
    SR1__CALLOC(ids, count + 1, "ids of an answer");
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;

        if (id < 0 || id > INT32_MAX) {
            sr1__free(ids);
            return sr1__fail(SR1_E_PARSE, "answer: %s[%zu] is no id", name, i);
        }
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *n = count;
    return SR1_OK;
}

static sr1_status read_prompt_ids(struct sr1__openai_completion *a, const json_t *all,
                                  const json_t *choice)
{
    const json_t *ids = json_object_get(choice, "prompt_token_ids");

    if (!json_is_array(ids))
        ids = json_object_get(all, "prompt_token_ids");
    return read_ids(&a->prompt_ids, &a->n_prompt_ids, ids, "prompt_token_ids");
}

/* ---- tokens and their log-probs ---- */

/* The data of token i, from either endpoint. */
struct logprob_token {
    const json_t *text;
    const json_t *bytes; /* NULL: not given */
    const json_t *log_prob;
};

struct logprob_list {
    const json_t *texts, *log_probs; /* /completions */
    const json_t *entries;           /* /chat/completions; NULL: the others */
    size_t n;
};

static struct logprob_token token_at(const struct logprob_list *l, size_t i)
{
    const json_t *e = json_array_get(l->entries, i);

    if (l->entries)
        return (struct logprob_token){json_object_get(e, "token"),
                                      json_object_get(e, "bytes"),
                                      json_object_get(e, "logprob")};
    return (struct logprob_token){json_array_get(l->texts, i), NULL,
                                  json_array_get(l->log_probs, i)};
}

/* 0 where there are none. */
static int find_logprob_tokens(struct logprob_list *l, const json_t *choice)
{
    const json_t *logprobs = json_object_get(choice, "logprobs");

    *l = (struct logprob_list){.entries = json_object_get(logprobs, "content")};
    if (json_is_array(l->entries)) {
        l->n = json_array_size(l->entries);
        return 1;
    }
    l->entries = NULL;
    l->texts = json_object_get(logprobs, "tokens");
    l->log_probs = json_object_get(logprobs, "token_logprobs");
    l->n = json_array_size(l->log_probs);
    return json_is_array(l->log_probs) && json_array_size(l->texts) == l->n;
}

/* The id in "token_id:17"; -1: another text. */
static int32_t spelled_id(const json_t *text)
{
    static const char word[] = "token_id:";
    const char *s = json_string_value(text);
    int64_t id;

    if (!s || strncmp(s, word, sizeof(word) - 1) != 0 ||
        !sr1__parse_int(s + sizeof(word) - 1, strlen(s) - sizeof(word) + 1, &id))
        return -1;
    return id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
}

/* A token's bytes: they need not be whole characters, which its text would have to be. */
static int append_token_bytes(struct sr1__buf *b, const struct logprob_token *t)
{
    if (!json_is_array(t->bytes)) {
        sr1__buf_add(b, json_string_value(t->text), json_string_length(t->text));
        return 1;
    }
    for (size_t i = 0; i < json_array_size(t->bytes); i++) {
        const json_t *v = json_array_get(t->bytes, i);

        if (!json_is_integer(v) || json_integer_value(v) < 0 ||
            json_integer_value(v) > 255)
            return 0;
        sr1__buf_char(b, (char)(unsigned char)json_integer_value(v));
    }
    return 1;
}

static sr1_status read_logprob_token(struct sr1__openai_completion *a,
                                     const struct logprob_list *l, size_t i,
                                     struct sr1__buf *bytes)
{
    struct logprob_token t = token_at(l, i);
    size_t begin = bytes->len;
    double v = json_number_value(t.log_prob);

    if (!json_is_string(t.text) || !json_is_number(t.log_prob) || !isfinite(v) ||
        v > LOG_PROB_MOST || !append_token_bytes(bytes, &t))
        return sr1__fail(SR1_E_PARSE, "answer: token %zu has no text and log-prob", i);
    a->log_probs[i] = v < 0.0 ? (float)v : 0.0f;
    a->token_sizes[i] = bytes->len - begin;
    a->ids[i] = spelled_id(t.text);
    return SR1_OK;
}

static sr1_status read_each_token(struct sr1__openai_completion *a,
                                  const struct logprob_list *l)
{
    const char *at;
    struct sr1__buf bytes;
    sr1_status st = SR1_OK;

    sr1__buf_init(&bytes, 0);
    for (size_t i = 0; st == SR1_OK && i < l->n; i++)
        st = read_logprob_token(a, l, i, &bytes);
    if (st == SR1_OK)
        st = sr1__buf_status(&bytes, "tokens of an answer");
    if (st == SR1_OK && !(a->token_bytes = sr1__buf_take(&bytes)))
        st = sr1__fail_nomem("tokens of an answer");
    sr1__buf_free(&bytes);
    SR1__TRY(st);
    at = a->token_bytes;
    for (size_t i = 0; i < l->n; at += a->token_sizes[i++])
        a->tokens[i] = at;
    return SR1_OK;
}

/* Tokens with their log-probs; ids where all of them are spelled. */
static sr1_status read_logprob_tokens(struct sr1__openai_completion *a,
                                      const json_t *choice)
{
    struct logprob_list l;
    int spelled = 1;

    if (!find_logprob_tokens(&l, choice) || l.n == 0)
        return SR1_OK;
    a->ids = sr1__calloc(l.n, sizeof(*a->ids));
    a->log_probs = sr1__calloc(l.n, sizeof(*a->log_probs));
    a->tokens = sr1__calloc(l.n, sizeof(char *));
    a->token_sizes = sr1__calloc(l.n, sizeof(*a->token_sizes));
    SR1__CHECK_ALLOC(a->ids && a->log_probs && a->tokens && a->token_sizes,
                     "tokens of an answer");
    a->n_tokens = l.n;
    SR1__TRY(read_each_token(a, &l));
    for (size_t i = 0; i < l.n; i++)
        spelled &= a->ids[i] >= 0;
    if (!spelled) {
        sr1__free(a->ids);
        a->ids = NULL;
        return SR1_OK;
    }
    sr1__free((void *)a->tokens); /* "token_id:17" is no text */
    a->tokens = NULL;
    return SR1_OK;
}

/* token_ids, which win over spelled ones. */
static sr1_status read_token_ids(struct sr1__openai_completion *a, const json_t *choice)
{
    int32_t *ids = NULL;
    size_t n = 0;

    SR1__TRY(read_ids(&ids, &n, json_object_get(choice, "token_ids"), "token_ids"));
    if (!ids)
        return SR1_OK;
    if (a->n_tokens > 0 && a->n_tokens != n) {
        sr1__free(ids);
        return sr1__fail(SR1_E_PARSE, "answer: %zu token_ids for %zu log-probs", n,
                         a->n_tokens);
    }
    sr1__free(a->ids);
    a->ids = ids;
    a->n_tokens = n;
    return SR1_OK;
}

/* ---- all of it ---- */

static int64_t read_usage_count(const json_t *usage, const char *key)
{
    const json_t *v = json_object_get(usage, key);

    return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : -1;
}

static sr1_status read_choice(struct sr1__openai_completion *a, const json_t *all,
                              const sr1_openai_request *q)
{
    const json_t *choice = json_array_get(json_object_get(all, "choices"), 0);
    const json_t *usage = json_object_get(all, "usage");

    if (!json_is_object(choice))
        return sr1__fail(SR1_E_PARSE, "answer: it has no 'choices'");
    SR1__TRY(read_finish(a, choice));
    SR1__TRY(q->n_messages ? read_chat_text(a, choice) : read_plain_text(a, choice));
    SR1__TRY(read_stop(a, choice, q));
    SR1__TRY(read_logprob_tokens(a, choice));
    SR1__TRY(read_token_ids(a, choice));
    SR1__TRY(read_prompt_ids(a, all, choice));
    a->prompt_tokens = read_usage_count(usage, "prompt_tokens");
    a->completion_tokens = read_usage_count(usage, "completion_tokens");
    return SR1_OK;
}

sr1_status sr1__openai_completion_read(struct sr1__openai_completion *out,
                                       const char *body, size_t n,
                                       const sr1_openai_request *q)
{
    struct sr1__openai_completion a = {0};
    json_t *all = NULL;
    sr1_status st;

    SR1__TRY(sr1__json_parse_loose(&all, body, n, "answer"));
    st = read_choice(&a, all, q);
    json_decref(all);
    if (st != SR1_OK) {
        sr1__openai_completion_clear(&a);
        return st;
    }
    *out = a;
    return SR1_OK;
}

/* ---- the models ---- */

sr1_status sr1__openai_read_models(struct sr1__openai_models *out, const char *body,
                                   size_t n, const char *model)
{
    struct sr1__openai_models m = {0};
    json_t *all = NULL;
    const json_t *list;
    sr1_status st = SR1_OK;

    SR1__TRY(sr1__json_parse_loose(&all, body, n, "models"));
    list = json_object_get(all, "data");
    m.n = json_array_size(list);
    if (!json_is_array(list))
        st = sr1__fail(SR1_E_PARSE, "models: it has no list 'data'");
    for (size_t i = 0; st == SR1_OK && i < m.n; i++) {
        const json_t *one = json_array_get(list, i);
        const char *id = json_string_value(json_object_get(one, "id"));
        const json_t *context = json_object_get(one, "max_model_len");

        if (id && (m.n == 1 || strcmp(id, model) == 0) && json_is_integer(context))
            m.context = json_integer_value(context);
        if (id && m.n == 1 && !(m.only = sr1__strdup(id)))
            st = sr1__fail_nomem("models");
    }
    json_decref(all);
    if (st == SR1_OK)
        *out = m;
    return st;
}
