/* signal/reward/similarity.h - the ratio of Python's difflib.SequenceMatcher. */
#ifndef SR1__REWARD_SIMILARITY_H
#define SR1__REWARD_SIMILARITY_H

#include "signal/reward/chars.h"

/* Both at most SR1_SIMILARITY_MAX characters. */
sr1_status sr1__similarity_ratio(const struct sr1__chars *a, const struct sr1__chars *b,
                                 double *out);

#endif
