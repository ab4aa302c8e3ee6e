/* unit/advantage/estimate.h - an estimator's advantages without a report. */
#ifndef SR1_TESTS_ESTIMATE_H
#define SR1_TESTS_ESTIMATE_H

#include <searchr1/ext/estimators.h>

/* each: [n] of the trajectories; tokens: [T] of the policy tokens, or NULL. */
static inline sr1_status estimate(const char *name, const sr1_advantage_batch *batch,
                                  const sr1_advantage_options *options, double *each,
                                  float *tokens)
{
    sr1_advantage_outputs out = {
        .struct_size = sizeof out, .advantages = each, .token_advantages = tokens};

    return sr1_advantage_estimate(name, batch, options, &out, NULL);
}

#endif
