/* retrieval/search/caller_status.c - see caller_status.h. */
#include "retrieval/search/caller_status.h"

/* Does it say more than that the function failed? */
static int says_more(sr1_status status)
{
    return status == SR1_E_TIMEOUT || status == SR1_E_CANCELLED ||
           status == SR1_E_NOMEM || status == SR1_E_CONFIG;
}

sr1_status sr1__caller_status(const struct sr1__error *before, sr1_status status,
                              const char *kind, const char *name)
{
    const char *text = sr1__error_since(before);

    if (status == SR1_OK)
        return SR1_OK;
    return sr1__fail(says_more(status) ? status : SR1_E_CALLBACK,
                     "%s '%s' failed with %s (%d)%s%s", kind, name,
                     sr1_status_name(status), (int)status, text[0] != '\0' ? ": " : "",
                     text);
}
