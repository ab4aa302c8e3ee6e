/* retrieval/search/id_check.h - ids that stand in several rows of a corpus, while it is
 * indexed. */
#ifndef SR1__SEARCH_ID_CHECK_H
#define SR1__SEARCH_ID_CHECK_H

#include "base/error.h"

/* Zeroed: none yet. At most 32 MiB: of a corpus above two million rows a share of the ids
 * is watched, and the count is an estimate. */
struct sr1__id_check {
    struct sr1__id_seen {
        uint64_t hash;
        uint64_t row; /* from 0 */
    } * seen;
    size_t n, capacity;
    uint64_t rows;
    unsigned thinned; /* hashes with so many low bits zero are watched */
};

/* The id of the next row, by its sr1__hash64. */
sr1_status sr1__id_check_add(struct sr1__id_check *c, uint64_t hash);
/* Warn (sr1__log) where ids came more than once; path is the corpus. Returns how many
 * rows have an id of an earlier one. */
uint64_t sr1__id_check_end(struct sr1__id_check *c, const char *path);
void sr1__id_check_free(struct sr1__id_check *c);

#endif
