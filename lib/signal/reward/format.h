/* signal/reward/format.h - check whether a response is well formed, and find its answer.
 */
#ifndef SR1__REWARD_FORMAT_H
#define SR1__REWARD_FORMAT_H

#include "environment/env/protocol.h"
#include "signal/reward/ground_truths.h"

/* Plain text of a response: 1 if well-formed by the five rules of searchr1/reward.h.
 * must_close: thoughts must be closed, each once. */
int sr1__format_of_text(const struct sr1__protocol *p, const char *text, size_t len,
                        int must_close);

/* The same of a trajectory: only the policy's tags count, inserted blocks are taken as
 * such whatever they hold, and result tags that the policy wrote itself are wrong. */
int sr1__format_of_trajectory(const struct sr1__protocol *p, const sr1_trajectory *t,
                              int must_close);

/* Is this response as its protocol has it? By the rules above; of a conversation, does
 * each message close an action or an answer; of a critique, does it judge? */
int sr1__is_well_formed(const struct sr1__protocol *p, const sr1_trajectory *t,
                        int must_close);

/* The last answer that was closed within one piece of the policy, borrowed from the
 * trajectory; its s is NULL if there is none. */
struct sr1__str sr1__closed_answer(const struct sr1__protocol *p,
                                   const sr1_trajectory *t);

/* The body of the last segment of a source (SR1_SOURCE_*); its s is NULL if there is
 * none. */
struct sr1__str sr1__last_segment(const sr1_trajectory *t, int32_t source);

/* The final answer; where there is none, what the policy said last, or "". */
struct sr1__str sr1__answer_or_message(const sr1_trajectory *t);

#endif
