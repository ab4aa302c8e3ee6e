/* policy/background_rollout.h - sr1_rollout_generate by the servers on a thread of its
 * own, while its caller updates the weights. */
#ifndef SR1__POLICY_BACKGROUND_ROLLOUT_H
#define SR1__POLICY_BACKGROUND_ROLLOUT_H

#include "policy/rollout.h"

struct sr1__background_rollout;

/* Begin n groups of o->group_size trajectories with the servers' present weights, which
 * the caller does not replace before it is over. queries is borrowed until
 * sr1__background_rollout_free; of *o group_size and seed hold. The rollout generates
 * meanwhile if it is asked to; its environment cannot be replaced. */
sr1_status sr1__background_rollout_begin(struct sr1__background_rollout **out,
                                         sr1_rollout *r, const sr1_query *queries,
                                         size_t n, const sr1_rollout_options *o);
/* Wait until sr1__now() is `until`, or it is over: then 1, else 0. *done, may be NULL:
 * trajectories made so far. */
int sr1__background_rollout_wait(struct sr1__background_rollout *b, double until,
                                 int64_t *done);
/* Once it is over: its trajectories into out[n * group_size], and what it counted as the
 * rollout's last generation; *seconds: that it took. */
sr1_status sr1__background_rollout_take(struct sr1__background_rollout *b,
                                        sr1_trajectory **out, double *seconds);
/* Of one that is over: did its generation fail? */
int sr1__background_rollout_has_failed(const struct sr1__background_rollout *b);
/* Have it end soon. */
void sr1__background_rollout_cancel(struct sr1__background_rollout *b);
/* Cancel what is under way, with all other requests to its servers, and wait for it. One
 * that is over cancels nothing. NULL is fine. */
void sr1__background_rollout_free(struct sr1__background_rollout *b);

#endif
