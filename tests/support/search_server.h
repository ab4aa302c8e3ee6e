/* search_server.h - tests of engines that ask a server: what they compare, and the end.
 */
#ifndef SR1_TESTS_SEARCH_SERVER_H
#define SR1_TESTS_SEARCH_SERVER_H

#include "support/http_server.h"

#include <searchr1/search.h>

static inline void end(sr1_search_results *found, sr1_search *engine, struct server *s)
{
    sr1_search_results_free(found);
    sr1_search_free(engine);
    server_stop(s);
}

static inline void expect_hit(const sr1_search_results *found, size_t query, int32_t k,
                              const char *id, const char *contents, double score)
{
    sr1_search_hit hit = {sizeof(hit)};

    assert_int_equal(sr1_search_results_hit(found, query, k, &hit), SR1_OK);
    assert_string_equal(hit.id, id);
    assert_string_equal(hit.contents, contents);
    assert_true(hit.score == score);
}

#endif
