/* policy.h - what tools that use a trained policy share: a configuration from a run
 * folder or a model folder, key=value words, and the waiting policy of OpenMP. */
#ifndef SR1_TOOLS_POLICY_H
#define SR1_TOOLS_POLICY_H

#include <searchr1/config.h>

/* libgomp's threads spin at barriers unless told otherwise before it is loaded: start the
 * program again with the setting made (docs/threads.md). */
void policy_passive_waiting(char **argv);

/* A configuration for the policy at path: a run folder (its config.json; the policy is
 * its model/ or, while it still trains, the newest checkpoint's) or a model folder. pairs
 * are key=value words that win over it. */
sr1_status policy_config(sr1_config **out, const char *path, const char *const *pairs,
                         size_t n);

#endif
