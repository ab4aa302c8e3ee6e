/* tensor/model/route_log.h - the experts that tokens went through, kept from a pass for
 * later ones (router replay): those weigh the same experts by their own probabilities,
 * whatever their routers would choose.
 *
 * Any number of threads may use one at a time. */
#ifndef SR1__MODEL_ROUTE_LOG_H
#define SR1__MODEL_ROUTE_LOG_H

#include "tensor/weights/hf_config.h"

struct sr1__route_log;

/* An empty one, for models of this configuration. Free with sr1__route_log_free. */
sr1_status sr1__route_log_new(struct sr1__route_log **out,
                              const struct sr1__hf_config *config);
void sr1__route_log_free(struct sr1__route_log *log); /* NULL is fine */

/* The place of the token with this key; a new one where it has none yet. */
sr1_status sr1__route_log_place(struct sr1__route_log *log, uint64_t key, int64_t *place);

/* What a pass goes by, or keeps: the places of its tokens [N] in a log. Both borrowed. */
struct sr1__routes {
    struct sr1__route_log *log;
    const int64_t *places;
    /* 0: goes by what is kept. Else the number of a pass that keeps what it chooses;
     * where several have a token, as of a prompt, the smallest number decides, whichever
     * comes first. */
    uint32_t recording;
};

/* chosen [n, experts of a token], of the tokens at routes->places, in this layer: kept,
 * or it becomes what was kept; of a token that had none yet it stays, and is kept. */
void sr1__route_log_apply(const struct sr1__routes *routes, size_t n, int32_t layer,
                          int64_t *chosen);

/* Passes that keep what they choose begin anew, with numbers from 1 on. */
void sr1__route_log_restart(struct sr1__route_log *log);

#endif
