/* language.h - tests of what must not depend on the language of the host. */
#ifndef SR1_TESTS_LANGUAGE_H
#define SR1_TESTS_LANGUAGE_H

#include "files.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* A language whose numbers have commas, where one can be had here; else 0. */
static inline int speak_german(void)
{
    char command[1024];

    snprintf(command, sizeof(command),
             "localedef -i de_DE -f UTF-8 --no-archive '%s' >/dev/null 2>&1",
             scratch_path("de_DE.UTF-8"));
    (void)!system(command);
    setenv("LOCPATH", scratch_path(""), 1);
    return setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
}

static inline void speak_plainly(void)
{
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
}

#endif
