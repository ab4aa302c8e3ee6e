/* environment/env/callback.h - turn the failure of a caller's function into an error that
 * names it.
 */
#ifndef SR1__ENV_CALLBACK_H
#define SR1__ENV_CALLBACK_H

#include "base/error.h"

/* Before the call. */
void sr1__callback_begin(struct sr1__error *before);

/* After it: SR1_OK passes; a failure gets "KIND 'NAME': " before its text, or, when the
 * callback set no text, becomes SR1_E_CALLBACK saying so. A status that is none of ours
 * becomes SR1_E_CALLBACK. */
sr1_status sr1__callback_end(const struct sr1__error *before, sr1_status status,
                             const char *kind, const char *name);

#endif
