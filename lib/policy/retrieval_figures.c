/* policy/retrieval_figures.c - see retrieval_figures.h. */
#include "policy/retrieval_figures.h"

#include "environment/env/env.h"
#include "policy/rollout_internal.h"
#include "signal/reward/search_scores.h"

#include <math.h>

static sr1_status figure_hit(const sr1_rollout *r, const sr1_trajectory *t, double *out)
{
    const struct sr1__ground_truths truths = {.trajectory = t,
                                              .n = sr1_trajectory_ground_truth_count(t)};
    int found = 0;

    if (truths.n == 0)
        return SR1_OK;
    SR1__TRY(sr1__answer_was_retrieved(sr1__env_protocol(r->env), t, &truths, &found));
    *out = found;
    return SR1_OK;
}

/* Nobody asked for the figure: a column of another form under this name is none. */
static sr1_status figure_recall(const sr1_rollout *r, const sr1_trajectory *t,
                                double *out)
{
    sr1_status st = sr1__trajectory_recall(t, r->gold_ids_field, out);

    return st == SR1_E_PARSE || st == SR1_E_LIMIT ? SR1_OK : st;
}

sr1_status sr1__retrieval_figures(const sr1_rollout *r, int no_search,
                                  const sr1_trajectory *t,
                                  struct sr1__retrieval_figures *out)
{
    *out = (struct sr1__retrieval_figures){NAN, NAN};
    if (!r->search || no_search)
        return SR1_OK;
    SR1__TRY(figure_hit(r, t, &out->hit_rate));
    return figure_recall(r, t, &out->recall);
}
