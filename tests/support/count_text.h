/* support/count_text.h - how often a text is in another. */
#ifndef SR1_TESTS_COUNT_TEXT_H
#define SR1_TESTS_COUNT_TEXT_H

#include <string.h>

/* Occurrences do not overlap. */
static inline size_t count_text(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

#endif
