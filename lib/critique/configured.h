/* critique/configured.h - the problems a configuration names. */
#ifndef SR1__CRITIQUE_CONFIGURED_H
#define SR1__CRITIQUE_CONFIGURED_H

#include "config/config.h"

#include <searchr1/code.h>

/* All files of the key code_problems. SR1_E_CONFIG: it is empty. */
sr1_status sr1__problems_configured(sr1_problems **out, const sr1_config *c);

#endif
