/* policy.h - shared by the tools that use a trained policy: a configuration from a run
 * folder or a model folder, key=value arguments, and the waiting policy of OpenMP. */
#ifndef SR1_TOOLS_POLICY_H
#define SR1_TOOLS_POLICY_H

#include <searchr1/config.h>
#include <searchr1/data.h>

/* libgomp's threads spin at barriers unless told otherwise before it is loaded: start the
 * program again with the setting made (docs/api.md). */
void policy_passive_waiting(char **argv);

/* A configuration for the policy at path: a run folder (its config.json; the policy is
 * its model/ or, while it still trains, the newest checkpoint's), a model in one, or any
 * other model folder. pairs are key=value words that win over it. */
sr1_status policy_config(sr1_config **out, const char *path, const char *const *pairs,
                         size_t n);

/* The files and folders that a configuration names, at most POLICY_PATHS; borrowed from
 * it. Returns how many there are. */
#define POLICY_PATHS 64
size_t policy_paths(const sr1_config *c, const char **paths);

/* Keys of sampling among key=value words do nothing unless it samples: say so. */
void policy_warn_of_sampling(int sample, const char *const *pairs, size_t n);

/* Open a file of questions with the fields that the configuration names. */
sr1_status policy_questions(sr1_dataset **out, const sr1_config *c, const char *path);

#endif
