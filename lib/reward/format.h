/* reward/format.h - is a response well-formed, and where is its answer? */
#ifndef SR1__REWARD_FORMAT_H
#define SR1__REWARD_FORMAT_H

#include "env/protocol.h"
#include "reward/truths.h"

/* Plain text of a response: 1 if well-formed by the five rules of searchr1/reward.h. */
int sr1__format_of_text(const struct sr1__protocol *p, const char *text, size_t len);

/* The same of a trajectory: only the policy's tags count, inserted blocks are taken as
 * such whatever they hold, and result tags that the policy wrote itself are wrong. */
int sr1__format_of_trajectory(const struct sr1__protocol *p, const sr1_trajectory *t);

/* Is this response as its protocol has it? By the rules above; of a conversation, does
 * each message close an action or an answer; of a critique, does it judge? */
int sr1__is_well_formed(const struct sr1__protocol *p, const sr1_trajectory *t);

/* The last closed answer, stripped, outside of closed think and result blocks; 0 if there
 * is none, else 1. *open_at: the last opening tag behind it that is not closed, or len.
 */
int sr1__last_answer(const struct sr1__protocol *p, const char *text, size_t len,
                     struct sr1__slice *out, size_t *open_at);

/* The last answer that was closed within one piece of the policy, borrowed from the
 * trajectory; its s is NULL if there is none. */
struct sr1__text sr1__closed_answer(const struct sr1__protocol *p,
                                    const sr1_trajectory *t);

#endif
