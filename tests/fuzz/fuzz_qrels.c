/* fuzz_qrels.c - a file of judgements that reads has queries with grades in range, and
 * the best ranking of each is measured as the best. */
#include "fuzz.h"

#include "signal/measure/ranking.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The documents of a grade above 0, best first by one swap after another. */
static void measure_best(const struct sr1__judgement *judged, size_t n)
{
    const char *ids[64];
    struct sr1__ranking r;
    size_t relevant = 0;

    for (int32_t grade = SR1_QRELS_GRADE_MAX, below; grade > 0; grade = below) {
        below = 0;
        for (size_t i = 0; i < n; i++) {
            if (judged[i].grade == grade && relevant < 64)
                ids[relevant++] = judged[i].document;
            if (judged[i].grade < grade && judged[i].grade > below)
                below = judged[i].grade;
        }
    }
    FUZZ_CHECK(sr1__ranking_measure(&r, judged, n, ids, relevant, 64) == SR1_OK);
    FUZZ_CHECK(r.ndcg > 1 - 1e-9 || relevant == 0);
    FUZZ_CHECK(r.ndcg < 1 + 1e-9 && r.recall <= 1 && r.success == (relevant > 0));
}

static void check_judgements(const sr1_qrels *q)
{
    size_t n = 0, of = 0, queries = 0;
    const struct sr1__judgement *all = sr1__qrels_all(q, &n);

    FUZZ_CHECK(n > 0 && n == sr1_qrels_count(q));
    for (size_t i = 0; i < n; i += of, queries++) {
        FUZZ_CHECK(sr1__qrels_of(q, all[i].query, &of) == &all[i] && of > 0);
        for (size_t k = i; k < i + of; k++)
            FUZZ_CHECK(sr1_qrels_grade(q, all[k].query, all[k].document) ==
                           all[k].grade &&
                       all[k].grade >= 0 && all[k].grade <= SR1_QRELS_GRADE_MAX);
        if (of <= 64)
            measure_best(&all[i], of);
    }
    FUZZ_CHECK(queries == sr1_qrels_query_count(q));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/sr1-fuzz-qrels-XXXXXX";
    int fd = mkstemp(path);
    sr1_qrels *q = NULL;

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
    if (sr1_qrels_open(&q, path) == SR1_OK)
        check_judgements(q);
    sr1_qrels_free(q);
    unlink(path);
    return 0;
}
