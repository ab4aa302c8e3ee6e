/* environment/critique/problems_from_config.h - the problems that a configuration names,
 * and rows that ask for critiques of their solutions. */
#ifndef SR1__CRITIQUE_PROBLEMS_FROM_CONFIG_H
#define SR1__CRITIQUE_PROBLEMS_FROM_CONFIG_H

#include "config/config.h"

#include <searchr1/ext/code.h>

/* All files of the key code_problems. SR1_E_CONFIG: it is empty. */
sr1_status sr1__problems_from_config(sr1_problems **out, const sr1_config *c);

/* Check that the question contains the solution of the problem of this id. SR1_E_CONFIG:
 * it does not, so a critic would be trained without having read the solution. An id
 * without a problem, or a problem without a solution, passes here: the environment
 * refuses it. */
sr1_status sr1__critique_check_question(const sr1_problems *problems, const char *id,
                                        const char *question);

#endif
