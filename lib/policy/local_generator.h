/* policy/local_generator.h - a local model as a generator (see searchr1/ext/critique.h).
 */
#ifndef SR1__POLICY_LOCAL_GENERATOR_H
#define SR1__POLICY_LOCAL_GENERATOR_H

#include <searchr1/ext/critique.h>
#include <searchr1/rollout.h>

/* Over a rollout in the environment "none"; takes it over on success. */
sr1_status sr1__local_generator_new(sr1_generator **out, sr1_rollout *r,
                                    const sr1_generator_options *o);

/* The weights of a generator that is a local model; NULL for another. Borrowed. */
sr1_model *sr1__generator_model(const sr1_generator *w);

#endif
