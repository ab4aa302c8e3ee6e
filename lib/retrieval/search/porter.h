/* retrieval/search/porter.h - the Porter stemmer. */
#ifndef SR1__SEARCH_PORTER_H
#define SR1__SEARCH_PORTER_H

#include <stddef.h>

/* Stem the lower-case UTF-8 word w[0..n) in place; returns its new length (never longer).
 */
size_t sr1__porter_stem(char *w, size_t n);

#endif
