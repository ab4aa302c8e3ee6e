/* quote.h - words of commands that are printed to be copied into a shell. */
#ifndef SR1_TOOLS_QUOTE_H
#define SR1_TOOLS_QUOTE_H

#include <stddef.h>

/* Enough for a path whose every character needs quotes. */
#define QUOTED_SIZE (4 * 4096 + 3)

/* The word as a shell reads it back: itself where that is so, else in quotes. */
void quote_word(const char *word, char *out, size_t size);

#endif
