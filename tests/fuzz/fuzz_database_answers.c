/* fuzz_database_answers.c - what OpenSearch and Qdrant answer to a search.
 *
 * The first byte chooses the reader: _msearch, points/query/batch, or the description of
 * a collection; the second bounds the hits; the rest is the body. */
#include "answer.h"
#include "base/error.h"
#include "retrieval/search/msearch.h"
#include "retrieval/search/point_query.h"

#define N 3

static sr1_status read_searches(const char *text, size_t size, sr1_search_sink *sink)
{
    struct sr1__msearch_item items[N];
    struct sr1__text_fields fields;
    sr1_status status;

    FUZZ_CHECK(sr1__text_fields_read(&fields, "title^2,contents,body.text") == SR1_OK);
    status = sr1__msearch_read(text, size, &fields, N, items, sink);
    for (size_t i = 0; status == SR1_OK && i < N; i++) {
        FUZZ_CHECK(memchr(items[i].message, '\0', sizeof(items[i].message)) != NULL);
        FUZZ_CHECK(items[i].code == 0 || (items[i].code >= 200 && items[i].code < 600));
        if (items[i].code != 200)
            FUZZ_CHECK(sr1__query_result_hit_count(sink->answers[i]) == 0);
    }
    sr1__text_fields_free(&fields);
    return status;
}

static sr1_status read_nearest_points(const char *text, size_t size, int which,
                                      sr1_search_sink *sink)
{
    struct sr1__point_query q = {.vector = (char[]){""},
                                 .id_field =
                                     which & 1 ? (char[]){"doc.id"} : (char[]){""},
                                 .by_distance = which & 2};
    sr1_status status;

    FUZZ_CHECK(sr1__text_fields_read(&q.fields, "title,contents") == SR1_OK);
    status = sr1__points_read(text, size, &q, N, sink);
    sr1__text_fields_free(&q.fields);
    return status;
}

static sr1_status read_collection(const char *text, size_t size, int which)
{
    struct sr1__point_vectors v = {0};
    sr1_status status =
        sr1__points_read_collection(text, size, which & 1 ? "dense" : "", &v);

    FUZZ_CHECK(memchr(v.names, '\0', sizeof(v.names)) != NULL);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__query_result *answers[N] = {NULL};
    struct sr1_search_sink sink = {answers, N, 1};
    const char *text = (const char *)data + 2;
    sr1_status status;

    if (size < 2)
        return 0;
    sink.top_k = 1 + data[1] % 8;
    for (int i = 0; i < N; i++)
        FUZZ_CHECK(sr1__query_result_new(&answers[i]) == SR1_OK);
    if (data[0] % 3 == 0)
        status = read_searches(text, size - 2, &sink);
    else if (data[0] % 3 == 1)
        status = read_nearest_points(text, size - 2, data[0] / 3, &sink);
    else
        status = read_collection(text, size - 2, data[0] / 3);
    FUZZ_CHECK(status == SR1_OK || sr1_last_error()[0] != '\0');
    for (int i = 0; i < N; i++) {
        if (status == SR1_E_PARSE)
            FUZZ_CHECK(sr1__query_result_hit_count(answers[i]) == 0);
        check_answer(answers[i], sink.top_k, 0);
        sr1__query_result_free(answers[i]);
    }
    return 0;
}
