/* fuzz_search_answers.c - what servers of others answer to a search.
 *
 * The first byte chooses the reader: a web provider, or past them /retrieve for one or
 * two queries; the second bounds the hits; the rest is the body. */
#include "base/error.h"
#include "answer.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/disk_cache.h"
#include "retrieval/search/retrieve.h"
#include "retrieval/search/web_providers.h"

#define N_PROVIDERS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__query_result *answers[2] = {NULL, NULL};
    struct sr1_search_sink sink = {answers, 2, 1};
    const struct sr1__web_provider *p;
    const char *text = (const char *)data + 2;
    struct sr1__buf kept = {0};
    sr1_status status;

    if (size < 2)
        return 0;
    sink.top_k = 1 + data[1] % 8;
    p = sr1__web_provider_at(data[0] % (N_PROVIDERS + 3));
    kept.data = (char *)(uintptr_t)text;
    kept.len = size - 2;
    for (int i = 0; i < 2; i++)
        FUZZ_CHECK(sr1__query_result_new(&answers[i]) == SR1_OK);
    if (p != NULL)
        status = sr1__web_read(p, text, size - 2, 0, &sink);
    else if (data[0] % (N_PROVIDERS + 3) == N_PROVIDERS + 2)
        status = sr1__disk_result_read(&kept, &sink, 0);
    else
        status = sr1__retrieve_read(text, size - 2, 0,
                                    1 + data[0] % (N_PROVIDERS + 3) % 2, &sink);
    FUZZ_CHECK(status == SR1_OK || sr1_last_error()[0] != '\0');
    for (int i = 0; i < 2; i++) {
        if (status == SR1_E_PARSE || status == SR1_E_CORRUPT)
            FUZZ_CHECK(sr1__query_result_hit_count(answers[i]) == 0);
        check_answer(answers[i], sink.top_k,
                     data[0] % (N_PROVIDERS + 3) == N_PROVIDERS + 2);
        sr1__query_result_free(answers[i]);
    }
    return 0;
}
