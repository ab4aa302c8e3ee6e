/* answer.h - what holds of every answer to a query, whatever a server sent. */
#ifndef SR1_FUZZ_ANSWER_H
#define SR1_FUZZ_ANSWER_H

#include "fuzz.h"
#include "retrieval/search/query_result.h"

#include <math.h>
#include <string.h>

static inline void check_answer(struct sr1__query_result *a, int32_t top_k,
                                int may_lack_id)
{
    sr1_search_hit hit = {sizeof(hit)};

    FUZZ_CHECK(sr1__query_result_close(a, "q") == SR1_OK);
    FUZZ_CHECK(sr1__query_result_hit_count(a) <= top_k);
    for (int32_t k = 0; k < sr1__query_result_hit_count(a); k++) {
        sr1__query_result_hit(a, k, &hit);
        FUZZ_CHECK(hit.id != NULL && isfinite(hit.score));
        FUZZ_CHECK(hit.id[0] != '\0' || may_lack_id);
        FUZZ_CHECK(hit.contents != NULL);
    }
    if (sr1__query_result_status(a) != SR1_ACTION_OK)
        FUZZ_CHECK(sr1__query_result_hit_count(a) == 0 &&
                   sr1__query_result_message(a)[0] != '\0');
}

#endif
