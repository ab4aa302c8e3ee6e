/* signal/measure/ranking.c - recall, success, reciprocal rank and nDCG of one ranking;
 * the formulas, which are trec_eval's, stand in searchr1/ext/search_measures.h. */
#include "signal/measure/ranking.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_documents(const void *a, const void *b)
{
    const struct sr1__judgement *x = a, *y = b;

    return strcmp(x->document, y->document);
}

static int compare_grades_down(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x < y) - (x > y);
}

/* grade / log2(rank + 1), rank from 1 on. */
static double discounted_gain(int32_t grade, size_t rank)
{
    return grade / log2((double)rank + 1);
}

/* DCG of the best order; grades [n] are sorted here. */
static double ideal_gain(int32_t *grades, size_t n, size_t top_k)
{
    double sum = 0;

    qsort(grades, n, sizeof(*grades), compare_grades_down);
    for (size_t i = 0; i < n && i < top_k; i++)
        sum += discounted_gain(grades[i], i + 1);
    return sum;
}

/* The grade of a document that was not seen before, which is then seen; else 0. */
static int32_t take_grade(const struct sr1__judgement *judged, size_t n, char *seen,
                          const char *id)
{
    struct sr1__judgement key = {.document = id};
    const struct sr1__judgement *at =
        bsearch(&key, judged, n, sizeof(*judged), compare_documents);

    if (!at || seen[at - judged])
        return 0;
    seen[at - judged] = 1;
    return at->grade;
}

sr1_status sr1__ranking_measure(struct sr1__ranking *out,
                                const struct sr1__judgement *judged, size_t n_judged,
                                const char *const *ids, size_t n, int32_t top_k)
{
    size_t depth = (size_t)top_k, relevant = 0, found = 0;
    struct sr1__ranking r = {0};
    int32_t *grades;
    char *seen;
    double ideal;

    SR1__CALLOC(grades, n_judged, "grades");
    seen = sr1__calloc(n_judged, 1);
    if (!seen) {
        sr1__free(grades);
        return sr1__fail_nomem("grades");
    }
    for (size_t i = 0; i < n_judged; i++) {
        grades[i] = judged[i].grade;
        relevant += grades[i] > 0;
    }
    for (size_t i = 0; i < n && i < depth; i++) {
        int32_t grade = take_grade(judged, n_judged, seen, ids[i]);

        if (grade > 0 && found++ == 0)
            r.reciprocal_rank = 1.0 / (double)(i + 1);
        r.ndcg += discounted_gain(grade, i + 1);
    }
    ideal = ideal_gain(grades, n_judged, depth);
    r.success = found > 0;
    r.recall = relevant > 0 ? (double)found / (double)relevant : 0;
    r.ndcg = ideal > 0 ? r.ndcg / ideal : 0;
    *out = r;
    sr1__free(grades);
    sr1__free(seen);
    return SR1_OK;
}
