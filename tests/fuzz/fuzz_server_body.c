/* fuzz_server_body.c - bodies of /retrieve and /rerank. What jansson reads is no invalid
 * JSON here either; a refusal is JSON; what was read is read again from its own writing.
 */
#include "fuzz.h"

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/server/wire.h"

#include <string.h>

static const struct sr1__wire_limits limits = {3, 100, 64};

static char *body_of(const void *data, size_t size)
{
    char *body = sr1__malloc(size + 1);

    FUZZ_CHECK(body != NULL);
    if (size > 0)
        memcpy(body, data, size);
    body[size] = '\0';
    return body;
}

/* {"detail": ...}, by our own reader: an echo may hold what jansson refuses. */
static void check_error(struct sr1__buf *error)
{
    struct sr1__pull s;

    FUZZ_CHECK(error->len > 0 && error->data[0] == '{');
    sr1__pull_init(&s, error->data);
    sr1__pull_skip(&s, NULL);
    sr1__pull_end(&s, error->data + error->len);
    FUZZ_CHECK(s.error == NULL);
}

static void check_refusal(const uint8_t *data, size_t size, struct sr1__buf *error)
{
    static const char invalid[] = "{\"detail\":[{\"type\":\"json_invalid\"";
    json_t *j = NULL;

    if (strncmp(error->data, invalid, strlen(invalid)) == 0 &&
        (size == 0 || memchr(data, '\0', size) == NULL) && /* jansson passes some over */
        sr1__json_parse(&j, (const char *)data, size, "fuzz") == SR1_OK)
        abort();
    check_error(error);
}

static void same_again(const struct sr1__retrieve_request *r)
{
    struct sr1__buf b;
    struct sr1__buf error;
    struct sr1__retrieve_request again;

    sr1__buf_init(&b, 0);
    sr1__buf_init(&error, 0);
    sr1__buf_fmt(&b, "{\"topk\":%d,\"return_scores\":%d,\"queries\":[", (int)r->top_k,
                 (int)r->scores);
    for (size_t i = 0; i < r->n; i++) {
        sr1__buf_str(&b, i > 0 ? "," : "");
        sr1__wire_text(&b, r->queries[i], strlen(r->queries[i]));
    }
    sr1__buf_str(&b, "]}");
    FUZZ_CHECK(sr1__wire_retrieve(&again, "/retrieve", b.data, b.len, &limits, &error) ==
               200);
    FUZZ_CHECK(again.n == r->n && again.top_k == r->top_k && again.scores == r->scores);
    for (size_t i = 0; i < r->n; i++)
        FUZZ_CHECK(strcmp(again.queries[i], r->queries[i]) == 0);
    sr1__retrieve_request_free(&again);
    sr1__buf_free(&b);
    sr1__buf_free(&error);
}

static void try_retrieve(const uint8_t *data, size_t size)
{
    char *body = body_of(data, size);
    struct sr1__retrieve_request r;
    struct sr1__buf error;

    sr1__buf_init(&error, 0);
    if (sr1__wire_retrieve(&r, "/retrieve", body, size, &limits, &error) == 200)
        same_again(&r);
    else
        check_refusal(data, size, &error);
    sr1__retrieve_request_free(&r);
    sr1__buf_free(&error);
    sr1__free(body);
}

static void try_rerank(const uint8_t *data, size_t size)
{
    char *body = body_of(data, size);
    struct sr1__rerank_request r;
    struct sr1__buf error;

    sr1__buf_init(&error, 0);
    if (sr1__wire_rerank(&r, body, size, &limits, &error) == 200) {
        size_t last = 0;

        for (size_t i = 0; i < r.n; i++) {
            FUZZ_CHECK(r.ends[i] >= last && r.ends[i] <= r.n_documents);
            last = r.ends[i];
        }
        FUZZ_CHECK(last == r.n_documents);
    } else {
        check_refusal(data, size, &error);
    }
    sr1__rerank_request_free(&r);
    sr1__buf_free(&error);
    sr1__free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_retrieve(data, size);
    try_rerank(data, size);
    return 0;
}
