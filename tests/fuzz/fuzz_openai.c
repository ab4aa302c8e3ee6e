/* fuzz_openai.c - answers of servers that speak OpenAI's API, as either endpoint's and as
 * a list of models. What was read is whole: texts end, tokens lie within their bytes. */
#include "base/mem.h"
#include "fuzz.h"
#include "retrieval/net/openai_wire.h"

static void check(const struct sr1__openai_completion *a)
{
    size_t bytes = 0;

    FUZZ_CHECK(a->text[a->text_len] == '\0');
    for (size_t i = 0; a->tokens && i < a->n_tokens; i++) {
        FUZZ_CHECK(a->tokens[i] == a->token_bytes + bytes);
        bytes += a->token_sizes[i];
    }
    for (size_t i = 0; a->ids && i < a->n_tokens; i++)
        FUZZ_CHECK(a->ids[i] >= 0 && (!a->log_probs || a->log_probs[i] <= 0.0f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const stops[] = {"</search>", "</answer>"};
    sr1_openai_request q = {.stop = stops, .n_stop = 2};
    struct sr1__openai_models m = {0};

    for (q.n_messages = 0; q.n_messages < 2; q.n_messages++) {
        struct sr1__openai_completion a;

        if (sr1__openai_completion_read(&a, (const char *)data, size, &q) != SR1_OK)
            continue;
        check(&a);
        sr1__openai_completion_clear(&a);
    }
    if (sr1__openai_read_models(&m, (const char *)data, size, "m") == SR1_OK)
        sr1__free(m.only);
    return 0;
}
