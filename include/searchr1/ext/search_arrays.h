/* searchr1/ext/search_arrays.h - search results as arrays, for callers to whom a call
 * costs more than a hit: bindings of other languages.
 *
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   as of the results: they may be read from several threads.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_SEARCH_ARRAYS_H
#define SEARCHR1_EXT_SEARCH_ARRAYS_H

#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All strings and arrays are borrowed until the results are freed. Hits of query i are
 * those from ends[i - 1] (0 for the first) to ends[i], best first. */
typedef struct sr1_search_table {
    size_t struct_size;            /* set by the caller */
    size_t queries;                /* asked */
    size_t hits;                   /* of all of them */
    size_t documents;              /* that the hits are of */
    const int32_t *status;         /* [queries] SR1_ACTION_* */
    const size_t *ends;            /* [queries] */
    const double *scores;          /* [hits] */
    const uint32_t *hit_documents; /* [hits] index of its document */
    const char *const *ids;        /* [documents] as of sr1_search_hit */
    const char *const *contents;   /* [documents] */
    const char *const *rows;       /* [documents] NULL where there is none */
} sr1_search_table;

/* Fill *out (struct_size set) with all results as arrays, which the first call makes. A
 * document of a local index that several hits share occurs once. Borrowed until the
 * results are freed. */
SR1_API sr1_status sr1_search_results_table(sr1_search_results *results,
                                            sr1_search_table *out);

#ifdef __cplusplus
}
#endif

#endif
