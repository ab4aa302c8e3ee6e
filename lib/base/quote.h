/* base/quote.h - words of a shell: quoted where a command is printed to be copied, and
 * not expanded where a path came from elsewhere. The tools compile it too. */
#ifndef SR1__BASE_QUOTE_H
#define SR1__BASE_QUOTE_H

#include <stddef.h>

/* Enough for a path whose every character needs quotes. */
#define SR1__QUOTED_SIZE (4 * 4096 + 3)

/* The word as a shell reads it back: itself where that is so, else in quotes. */
void sr1__quote_word(const char *word, char *out, size_t size);

/* The '~' or '$' that begins a name of the path: a shell would have expanded it. 0: there
 * is none. */
char sr1__unexpanded_sign(const char *path);

#endif
