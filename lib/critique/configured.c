/* critique/configured.c - the problems a configuration names: files, separated by commas.
 */
#include "critique/configured.h"

#include "base/error.h"
#include "base/mem.h"

#define MOST_FILES 64

sr1_status sr1__problems_configured(sr1_problems **out, const sr1_config *c)
{
    char **names = NULL;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1__config_list(c, "code_problems", &names, &n));
    if (n == 0)
        st = sr1__fail(SR1_E_CONFIG,
                       "code_problems is empty; name the file of problems with "
                       "their tests (JSON lines)");
    else if (n > MOST_FILES)
        st = sr1__fail(SR1_E_CONFIG, "code_problems: at most %d files", MOST_FILES);
    else
        st = sr1_problems_load(out, (const char *const *)names, n, NULL);
    sr1__free(names);
    return sr1__context(st, "code_problems");
}
