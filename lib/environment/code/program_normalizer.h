/* environment/code/program_normalizer.h - find programs that are equal except for names
 * and layout. */
#ifndef SR1__CODE_PROGRAM_NORMALIZER_H
#define SR1__CODE_PROGRAM_NORMALIZER_H

#include "base/buf.h"

/* A Python process that computes normal forms of programs (normalise.py). It starts with
 * the first request, and again after it died; if it cannot be started, programs are
 * compared by their text. Any number of threads. */
struct sr1__code_normaliser;

/* interpreter: a path, or a name that is looked up; "": none. */
sr1_status sr1__code_normaliser_new(struct sr1__code_normaliser **out,
                                    const char *interpreter);
void sr1__code_normaliser_free(struct sr1__code_normaliser *n); /* NULL is fine */

/* Append the key of the program code[0..len): "=" and the digest of its normal form, or
 * "x" and the text. Two programs get equal keys only when they behave alike, whatever
 * code runs after them in their namespace. */
void sr1__code_normalise(struct sr1__code_normaliser *n, const char *code, size_t len,
                         struct sr1__buf *out);

#endif
