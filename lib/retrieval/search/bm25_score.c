/* retrieval/search/bm25_score.c - the formula (bm25.h) and its bounds. */
#include "retrieval/search/bm25.h"

#include <math.h>

void sr1__bm25_norm_init(struct sr1__bm25_norm *norm, const struct sr1__index_meta *meta,
                         double k1, double b)
{
    double average =
        meta->total_terms > 0 ? (double)meta->total_terms / (double)meta->documents : 1.0;

    for (int code = 0; code < 256; code++) {
        norm->k[code] =
            k1 * (1.0 - b + b * (double)sr1__length_decode((uint8_t)code) / average);
        for (int tf = 1; tf <= SR1__BM25_TF_ROWS; tf++)
            norm->saturation[tf - 1][code] = (float)(1.0 / (1.0 + norm->k[code] / tf));
    }
}

double sr1__bm25_weight(uint64_t documents, uint32_t df, uint32_t qtf)
{
    double idf = log1p(((double)documents - df + 0.5) / (df + 0.5));

    return SR1__BM25_UNIT * qtf * idf;
}

int64_t sr1__bm25_bound(const struct sr1__bm25_norm *norm, double weight,
                        const struct sr1__impacts *impacts)
{
    int64_t one = sr1__bm25_score(norm, weight, 1, impacts->length1);
    int64_t more = 0;

    if (impacts->tf2 == 255)
        more = (int64_t)weight + 1;
    else if (impacts->tf2 > 0)
        more = sr1__bm25_score(norm, weight, impacts->tf2, impacts->length2);
    return one > more ? one : more;
}
