/* language.h - tests of what must not depend on the language of the host. */
#ifndef SR1_TESTS_LANGUAGE_H
#define SR1_TESTS_LANGUAGE_H

#include "files.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* Speak a language that localedef can make here; 0: it cannot. */
static inline int speak(const char *language)
{
    char command[1024], name[64];

    snprintf(name, sizeof(name), "%s.UTF-8", language);
    snprintf(command, sizeof(command),
             "localedef -i %s -f UTF-8 --no-archive '%s' >/dev/null 2>&1", language,
             scratch_path(name));
    (void)!system(command);
    setenv("LOCPATH", scratch_path(""), 1);
    return setlocale(LC_NUMERIC, name) != NULL;
}

/* A language whose numbers have commas, where one can be had here; else 0. */
static inline int speak_german(void)
{
    return speak("de_DE");
}

static inline void speak_plainly(void)
{
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
}

#endif
