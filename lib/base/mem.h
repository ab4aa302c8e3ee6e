/* base/mem.h - all heap memory of the C code comes from here, so that tests can make any
 * allocation fail. NULL on failure; no error text is set. */
#ifndef SR1__BASE_MEM_H
#define SR1__BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *sr1__malloc(size_t size);
void *sr1__calloc(size_t count, size_t size); /* overflow-checked, zeroed */
/* overflow-checked; keeps p on failure */
void *sr1__realloc(void *p, size_t count, size_t size);
char *sr1__strdup(const char *s);
char *sr1__strndup(const char *s, size_t n); /* always NUL-terminated copy of n bytes */
void *sr1__memdup(const void *p, size_t n);
void sr1__free(void *p);

/* Tests: make the n-th allocation from now (1 = the next) fail, once; 0 turns it off. */
void sr1__mem_fail_at(int64_t n);
/* Allocations made since the last sr1__mem_fail_at. */
int64_t sr1__mem_count(void);
/* Blocks allocated and not yet freed, process-wide; tests compare it before and after. */
int64_t sr1__mem_live(void);

#endif
