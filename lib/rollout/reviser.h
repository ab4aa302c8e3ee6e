/* rollout/reviser.h - a local model as a writer (see searchr1/critique.h). */
#ifndef SR1__ROLLOUT_REVISER_H
#define SR1__ROLLOUT_REVISER_H

#include <searchr1/critique.h>
#include <searchr1/rollout.h>

/* The frozen model that revises answers in the environment critique, as the configuration
 * names it, on as many lanes as the policy has: loaded from its folder now, so that no
 * update reaches it. */
sr1_status sr1__reviser_open(sr1_writer **out, const sr1_config *c, int32_t lanes);

/* The weights of a writer that is a local model; NULL for another. Borrowed. */
sr1_model *sr1__writer_model(const sr1_writer *w);

#endif
