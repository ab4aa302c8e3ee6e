/* environment/env/callback.c - turn the failure of a caller's function into an error that
 * names it.
 */
#include "environment/env/callback.h"

#include <string.h>

void sr1__callback_begin(struct sr1__error *before)
{
    sr1__error_save(before, SR1_OK);
}

static int is_library_status(sr1_status status)
{
    return status < 0 && strcmp(sr1_status_name(status), "SR1_E_?") != 0;
}

sr1_status sr1__callback_end(const struct sr1__error *before, sr1_status status,
                             const char *kind, const char *name)
{
    if (status == SR1_OK)
        return SR1_OK;
    if (sr1__error_since(before)[0] == '\0')
        return sr1__fail(
            is_library_status(status) ? status : SR1_E_CALLBACK,
            "%s '%s': its function failed with status %d and gave no reason; "
            "call sr1_set_error before returning a failure",
            kind, name, (int)status);
    return sr1__context(is_library_status(status) ? status : SR1_E_CALLBACK, "%s '%s'",
                        kind, name);
}
