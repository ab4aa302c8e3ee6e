/* base/mem.h - the allocator of all C code, so that tests can make any allocation fail.
 * Functions return NULL on failure and set no error text. */
#ifndef SR1__BASE_MEM_H
#define SR1__BASE_MEM_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

void *sr1__malloc(size_t size);
void *sr1__calloc(size_t count, size_t size); /* overflow-checked, zeroed */
/* overflow-checked; keeps p on failure */
void *sr1__realloc(void *p, size_t count, size_t size);
/* At a cache line. A block of 8 MiB or more begins at a huge page and asks the system
 * for such. Freed with sr1__free. */
void *sr1__malloc_aligned(size_t size);
char *sr1__strdup(const char *s);
char *sr1__strndup(const char *s, size_t n); /* always NUL-terminated copy of n bytes */
void *sr1__memdup(const void *p, size_t n);
void sr1__free(void *p);
/* Give freed blocks of the whole process, which the C library keeps for its next
 * allocations, back to the system, where it can (glibc); else nothing happens. Takes a
 * tenth of a second for each GB, and as long again when the memory is next used. */
void sr1__mem_trim(void);

/* Leave with SR1_E_NOMEM unless the allocations gave memory:
 *     SR1__CHECK_ALLOC(a && b, "token buffer"); */
#define SR1__CHECK_ALLOC(given, what)                                                    \
    do {                                                                                 \
        if (!(given))                                                                    \
            return sr1__fail_nomem(what);                                                \
    } while (0)

/* The end of a constructor: store the whole object in *out, or free what there is of it
 * and return the failure. */
#define SR1__RETURN_NEW(out, object, status, free_object)                                \
    do {                                                                                 \
        sr1_status sr1__new_status = (status);                                           \
        if (sr1__new_status != SR1_OK) {                                                 \
            free_object(object);                                                         \
            return sr1__new_status;                                                      \
        }                                                                                \
        *(out) = (object);                                                               \
        return SR1_OK;                                                                   \
    } while (0)

/* v: n zeroed elements. Without memory the caller returns SR1_E_NOMEM. */
#define SR1__CALLOC(v, n, what)                                                          \
    do {                                                                                 \
        (v) = sr1__calloc((n), sizeof *(v));                                             \
        SR1__CHECK_ALLOC(v, what);                                                       \
    } while (0)

/* Room for n elements in v, which has room for cap: at least doubled when it grows. On
 * failure v stays as it is, and the caller returns SR1_E_NOMEM. */
#define SR1__RESERVE(v, cap, n, what)                                                    \
    do {                                                                                 \
        if ((size_t)(cap) < (size_t)(n)) {                                               \
            size_t sr1__grown_cap = (size_t)(cap);                                       \
            void *sr1__grown = sr1__grow((v), &sr1__grown_cap, (n), sizeof *(v));        \
                                                                                         \
            SR1__CHECK_ALLOC(sr1__grown, what);                                          \
            (v) = sr1__grown;                                                            \
            (cap) = sr1__grown_cap;                                                      \
        }                                                                                \
    } while (0)

/* For SR1__RESERVE: v with room for at least n elements, and *cap says how many; NULL on
 * failure, v and *cap stay. */
void *sr1__grow(void *v, size_t *cap, size_t n, size_t size);

/* Tests: make the n-th allocation from now (1 = the next) fail, once; 0 turns it off. */
void sr1__mem_fail_at(int64_t n);
/* Allocations made since the last sr1__mem_fail_at. */
int64_t sr1__mem_count(void);
/* Blocks allocated and not yet freed, process-wide; tests compare it before and after. */
int64_t sr1__mem_live(void);

#endif
