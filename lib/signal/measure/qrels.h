/* signal/measure/qrels.h - judgements of documents, query by query. */
#ifndef SR1__MEASURE_QRELS_H
#define SR1__MEASURE_QRELS_H

#include <searchr1/ext/search_measures.h>

struct sr1__judgement {
    const char *query; /* of several lists one; of a single list it may be NULL */
    const char *document;
    int32_t grade;
    uint32_t line;
};

/* The judgements of a query, sorted by document; *n is 0 where there are none. Borrowed
 * until the judgements are freed. */
const struct sr1__judgement *sr1__qrels_of(const sr1_qrels *q, const char *query,
                                           size_t *n);

/* All of them, sorted by query and document, each query's in one piece. */
const struct sr1__judgement *sr1__qrels_all(const sr1_qrels *q, size_t *n);

/* The file they are of; borrowed. */
const char *sr1__qrels_path(const sr1_qrels *q);

#endif
