/* rollout/asker.h - carries actions to an environment that lets one wait, so that the
 * rows of a lane which do not wait go on.
 *
 * Threads of the asker take what is queued, all of it or each its share; answers come
 * into the box of the lane that asked. A call that takes longer than the deadline is
 * given up: its rows get SR1_SEARCH_TIMEOUT, another thread takes its place, and the
 * answer, should it ever come, is thrown away. */
#ifndef SR1__ROLLOUT_ASKER_H
#define SR1__ROLLOUT_ASKER_H

#include "env/env.h"

struct sr1__asker;
struct sr1__box;

/* What came of one action. */
struct sr1__reply {
    int32_t row;
    struct sr1__observation observation; /* the receiver frees it */
};

/* deadline in seconds, 0: none. Keeps a reference to env. */
sr1_status sr1__asker_new(struct sr1__asker **out, sr1_env *env, int32_t threads,
                          double deadline);
/* After all boxes are gone. Does not wait for calls under way: their threads end when the
 * calls do, and the last one frees what they use. NULL is fine. */
void sr1__asker_free(struct sr1__asker *a);

/* A box for rows [0, rows). One thread uses a box. */
sr1_status sr1__box_new(struct sr1__box **out, struct sr1__asker *a, int32_t rows);
/* Takes back what was not begun; the answer to what was is thrown away when it comes.
 * NULL is fine. */
void sr1__box_free(struct sr1__box *b);

/* Queue actions[n] of rows[n], none of which has an action under way. Texts are copied.
 */
sr1_status sr1__box_ask(struct sr1__box *b, const int32_t *rows,
                        const struct sr1__action *actions, size_t n);
/* Move what has come to replies (room for all rows), *n of them; wait at most `seconds`
 * for the first. An environment that failed as a whole fails this call. */
sr1_status sr1__box_collect(struct sr1__box *b, double seconds,
                            struct sr1__reply *replies, size_t *n);
/* Actions without a reply yet. */
size_t sr1__box_waiting(const struct sr1__box *b);

#endif
