/* policy/suite_results.h - the results of a set of questions on disk: a first line with
 * what must be the same for the work to be gone on with, then a line a question. */
#ifndef SR1__POLICY_SUITE_RESULTS_H
#define SR1__POLICY_SUITE_RESULTS_H

#include "base/json.h"
#include "dist/dist.h"
#include "policy/suite_scores.h"

struct sr1__suite_results;

/* Read those of a set in a folder (NULL: none are kept, and *out becomes NULL), which the
 * first rank has. *time becomes the time that prompts showed then (base of strftime_now),
 * and stays where nothing is there. All ranks make the same calls. */
sr1_status sr1__suite_results_open(struct sr1__suite_results **out, struct sr1__dist *d,
                                   const char *folder, const char *set, int64_t *time);

/* Fill set->rows with what is there, and go on writing. settings is borrowed.
 * SR1_E_STATE: the file has others. Nothing where w is NULL. */
sr1_status sr1__suite_results_begin(struct sr1__suite_results *w,
                                    struct sr1__suite_set *set, const json_t *settings,
                                    int32_t samples);

/* Append question i. answers: [samples] texts as JSON, borrowed. Nothing where w is NULL.
 */
sr1_status sr1__suite_results_add(struct sr1__suite_results *w, int64_t i, const char *id,
                                  const struct sr1__suite_row *row, json_t *answers);

void sr1__suite_results_close(struct sr1__suite_results *w);

#endif
