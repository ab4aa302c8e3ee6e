/* quote.h - words of commands that are printed to be copied into a shell. The function is
 * that of lib/base/quote.c, which is compiled into the tools: they include none of the
 * library's own headers. */
#ifndef SR1_TOOLS_QUOTE_H
#define SR1_TOOLS_QUOTE_H

#include <stddef.h>

/* Enough for a path whose every character needs quotes. */
#define QUOTED_SIZE (4 * 4096 + 3)

/* The word as a shell reads it back: itself where that is so, else in quotes. */
void sr1__quote_word(const char *word, char *out, size_t size);

#endif
