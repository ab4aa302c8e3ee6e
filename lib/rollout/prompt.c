/* rollout/prompt.c - from a question to the token ids the policy continues. */
#include "rollout/internal.h"

#include "base/struct.h"
#include "data/question.h"

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

const char *sr1__query_id(const sr1_query *q, char buf[SR1__QUERY_ID_MAX])
{
    if (q->id && *q->id)
        return q->id;
    snprintf(buf, SR1__QUERY_ID_MAX, "q-%016" PRIx64,
             sr1__hash64(q->text, q->text_len, 0));
    return buf;
}

int sr1__query_is_empty(const sr1_query *q)
{
    for (size_t i = 0; i < q->text_len; i++)
        if (!strchr(" \t\r\n\v\f", q->text[i]) || q->text[i] == '\0')
            return 0;
    return 1;
}

static sr1_status chat(const sr1_rollout *r, const char *user, size_t user_len,
                       int32_t **ids, size_t *n)
{
    const char *roles[2] = {"system", "user"};
    const char *contents[2] = {r->system, user};
    size_t sizes[2] = {r->system ? strlen(r->system) : 0, user_len};
    size_t skip = r->system ? 0 : 1;
    sr1_chat_options o = {.struct_size = sizeof(o),
                          .add_generation_prompt = 1,
                          .no_thinking = !r->thinking};

    return sr1_tokenizer_chat(r->tokenizer, roles + skip, contents + skip, sizes + skip,
                              2 - skip, &o, NULL, NULL, ids, n);
}

sr1_status sr1__rollout_question(const sr1_rollout *r, const sr1_query *q,
                                 struct sr1__buf *user)
{
    if (r->question)
        return sr1__question_render(r->question, q->text, q->text_len, user);
    sr1__buf_add(user, q->text, q->text_len);
    return sr1__buf_status(user, "question");
}

static sr1_status ask(const sr1_rollout *r, const sr1_query *q, int32_t **ids, size_t *n)
{
    struct sr1__buf user;
    sr1_status st;

    sr1__buf_init(&user, 0);
    st = sr1__rollout_question(r, q, &user);
    if (st == SR1_OK)
        st = chat(r, sr1__buf_cstr(&user), user.len, ids, n);
    sr1__buf_free(&user);
    return st;
}

sr1_status sr1__rollout_prompt(const sr1_rollout *r, const sr1_query *q, int32_t **ids,
                               size_t *n)
{
    int32_t *made = NULL;
    size_t n_made = 0;

    SR1__TRY(ask(r, q, &made, &n_made));
    if ((int64_t)n_made > r->limits.max_prompt) {
        sr1_free(made);
        return sr1__fail(SR1_E_LIMIT,
                         "the prompt has %zu tokens, max_prompt_tokens is %" PRId64
                         "; shorten the question or raise the key",
                         n_made, r->limits.max_prompt);
    }
    if ((int64_t)n_made > r->limits.max_context) {
        sr1_free(made);
        return sr1__fail(SR1_E_LIMIT,
                         "the prompt has %zu tokens, the model reads at most %" PRId64
                         "; shorten the question",
                         n_made, r->limits.max_context);
    }
    *ids = made;
    *n = n_made;
    return SR1_OK;
}
