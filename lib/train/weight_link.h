/* train/weight_link.h - the policy's weights to generation servers by NCCL. */
#ifndef SR1__TRAIN_WEIGHT_LINK_H
#define SR1__TRAIN_WEIGHT_LINK_H

#include "retrieval/net/serving.h"

#include <searchr1/model.h>

struct sr1__weight_link;

/* For a model, an adapter merged into it, and so many servers; it borrows the model,
 * whose tensors stay. SR1_E_CONFIG, SR1_E_UNSUPPORTED: NCCL cannot send them. No group is
 * open yet. */
sr1_status sr1__weight_link_open(struct sr1__weight_link **out, const sr1_model *m,
                                 size_t n_servers);
/* Groups end. NULL is fine. */
void sr1__weight_link_free(struct sr1__weight_link *l);

/* The weights as they are now, which have seen so many steps. Borrowed. */
const struct sr1__serving_link *sr1__weight_link_of(struct sr1__weight_link *l,
                                                    int64_t version);

#endif
