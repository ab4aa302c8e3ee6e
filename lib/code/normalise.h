/* code/normalise.h - which programs are the same but for names and layout. */
#ifndef SR1__CODE_NORMALISE_H
#define SR1__CODE_NORMALISE_H

#include "base/buf.h"

/* A process of an interpreter that reads programs (normalise.py). It starts with the
 * first question, and again when it was lost; where it cannot be had, texts stand for
 * themselves. Any number of threads. */
struct sr1__code_normaliser;

/* interpreter: a path, or a name that is looked up; "": none. */
sr1_status sr1__code_normaliser_new(struct sr1__code_normaliser **out,
                                    const char *interpreter);
void sr1__code_normaliser_free(struct sr1__code_normaliser *n); /* NULL is fine */

/* Append what stands for the program code[0..len): "=" and the digest of its normal form,
 * or "x" and the text. What is appended for two programs is the same only if they do the
 * same, whatever runs after them in their name space. */
void sr1__code_normalise(struct sr1__code_normaliser *n, const char *code, size_t len,
                         struct sr1__buf *out);

#endif
