/* critique/configured.c - the problems a configuration names: files, separated by commas.
 */
#include "critique/configured.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

#define MOST_FILES 64

/* Cut list into names, in place; their number, or -1 when there are too many. */
static int cut(char *list, const char *names[MOST_FILES])
{
    int n = 0;

    for (char *at = list; at && *at;) {
        char *comma = strchr(at, ',');

        if (n == MOST_FILES)
            return -1;
        names[n++] = at;
        if (comma)
            *comma++ = '\0';
        at = comma;
    }
    return n;
}

sr1_status sr1__problems_configured(sr1_problems **out, const sr1_config *c)
{
    const char *names[MOST_FILES];
    char *list = sr1__strdup(sr1__config_str(c, "code_problems"));
    int n;
    sr1_status st;

    if (!list)
        return sr1__fail_nomem("names of files");
    n = cut(list, names);
    if (n == 0)
        st = sr1__fail(SR1_E_CONFIG,
                       "code_problems is empty; name the file of problems with "
                       "their tests (JSON lines)");
    else if (n < 0)
        st = sr1__fail(SR1_E_CONFIG, "code_problems: at most %d files", MOST_FILES);
    else
        st = sr1_problems_load(out, names, (size_t)n, NULL);
    sr1__free(list);
    return sr1__context(st, "code_problems");
}
