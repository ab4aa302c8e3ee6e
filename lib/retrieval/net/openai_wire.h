/* retrieval/net/openai_wire.h - write request bodies and parse answer bodies of OpenAI's
 * API. */
#ifndef SR1__NET_OPENAI_WIRE_H
#define SR1__NET_OPENAI_WIRE_H

#include "base/buf.h"

#include <searchr1/ext/openai.h>

/* The parts of a request's body that do not come from the request. */
struct sr1__openai_style {
    const char *model;
    int32_t dialect;    /* SR1_OPENAI_DIALECT_PLAIN or _VLLM */
    int32_t completion; /* chat: max_tokens is called max_completion_tokens */
};

/* Append the body of a request that was checked. */
sr1_status sr1__openai_request_write(struct sr1__buf *b, const sr1_openai_request *q,
                                     const struct sr1__openai_style *style);

/* One completion; owns all it points to. */
struct sr1__openai_completion {
    sr1_status status;
    int32_t http_code;
    int32_t is_none; /* its body says nothing, and it may be asked for again */
    int32_t finish;
    int32_t stop_kept;
    char *message; /* NULL: none */
    char *text;
    size_t text_len;
    char *stop_text; /* NULL: not known */
    int32_t *prompt_ids;
    size_t n_prompt_ids;
    int32_t *ids;
    float *log_probs;
    char *token_bytes; /* all texts, one after the other */
    const char **tokens;
    size_t *token_sizes;
    size_t n_tokens;
    int64_t prompt_tokens, completion_tokens; /* -1: not said */
};

/* Read the body of an answer to a request: of /chat/completions where it has messages,
 * else of /completions. *out is filled on success only. SR1_E_PARSE: the body is not an
 * answer; SR1_E_NETWORK: the server reports that it gave up. */
sr1_status sr1__openai_completion_read(struct sr1__openai_completion *out,
                                       const char *body, size_t n,
                                       const sr1_openai_request *q);
/* NULL members are fine. */
void sr1__openai_completion_clear(struct sr1__openai_completion *a);

/* The list of /models. */
struct sr1__openai_models {
    size_t n;
    char *only;      /* the name, where there is one only */
    int64_t context; /* max_model_len of the model asked for; 0: not said */
};

/* model "": the only one. SR1_E_PARSE: not such a list. Free with sr1__free(out->only).
 */
sr1_status sr1__openai_read_models(struct sr1__openai_models *out, const char *body,
                                   size_t n, const char *model);

#endif
