/* signal/reward/source_rewards.h - which rewards score the rows of which data source: the
 * key data_source_rewards. */
#ifndef SR1__REWARD_SOURCE_REWARDS_H
#define SR1__REWARD_SOURCE_REWARDS_H

#include "base/error.h"
#include "base/str.h"

struct sr1__source_reward {
    struct sr1__str source;
    int begins; /* all sources that begin so (a * behind it), not it alone */
    struct sr1__str reward;
};

struct sr1__source_rewards {
    char *text; /* of which the rows are parts */
    struct sr1__source_reward *rows;
    size_t n, cap; /* n 0: every reward scores every row */
};

/* Read "SOURCE=REWARD+REWARD,SOURCE*=REWARD"; NULL and "" have no rows. SR1_E_CONFIG.
 * Free with sr1__source_rewards_free, also after a failure. */
sr1_status sr1__source_rewards_read(struct sr1__source_rewards *out, const char *text);
void sr1__source_rewards_free(struct sr1__source_rewards *s);

/* *applies: does that reward score the rows of a data source? The entry of the source
 * itself counts, else that of its longest beginning; a reward that no entry names scores
 * every row. SR1_E_CONFIG: no entry is for the source. */
sr1_status sr1__source_rewards_apply(const struct sr1__source_rewards *s,
                                     const char *source, const char *reward,
                                     int *applies);

#endif
