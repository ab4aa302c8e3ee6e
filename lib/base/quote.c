/* base/quote.c - see quote.h. */
#include "base/quote.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Letters, digits and the rest of UTF-8 too, none of which a shell reads as its own. */
static int is_plain_word(const char *word)
{
    for (const unsigned char *c = (const unsigned char *)word; *c != '\0'; c++)
        if (*c < 0x80 && !isalnum(*c) && !strchr("_-./:=@%+,", *c))
            return 0;
    return *word != '\0';
}

void sr1__quote_word(const char *word, char *out, size_t size)
{
    size_t n;

    if (is_plain_word(word)) {
        snprintf(out, size, "%s", word);
        return;
    }
    n = (size_t)snprintf(out, size, "'");
    for (const char *c = word; *c != '\0' && n < size; c++)
        n += (size_t)snprintf(out + n, size - n, *c == '\'' ? "'\\''" : "%c", *c);
    if (n < size)
        snprintf(out + n, size - n, "'");
}

char sr1__unexpanded_sign(const char *path)
{
    for (const char *c = path; *c != '\0'; c++)
        if ((*c == '~' || *c == '$') && (c == path || c[-1] == '/'))
            return *c;
    return 0;
}
