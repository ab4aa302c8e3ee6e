/* tensor/model/lane_pass.h - the numbers of a pass of single tokens, on the device.
 *
 * They lie at the same addresses in each pass of as many tokens, so that the kernels that
 * read them can be captured. Ids come first: a draw puts its own there. */
#ifndef SR1__MODEL_LANE_PASS_H
#define SR1__MODEL_LANE_PASS_H

#include "tensor/ops/ops.h"

enum {
    SR1__LANE_IDS,
    SR1__LANE_POSITIONS,
    SR1__LANE_PLACES, /* in the cache */
    SR1__LANE_HIDDEN, /* where the head keeps the hidden state */
    SR1__LANE_NUMBERS
};

struct sr1__lane_pass {
    sr1__device device;
    int64_t most;      /* tokens of a pass */
    sr1_tensor *there; /* i64 [4 most + 1]; the last is nobody's. NULL until reserved */
    int64_t *here;     /* [4 most] */
};

sr1_status sr1__lane_pass_init(struct sr1__lane_pass *p, sr1__device device,
                               int64_t most);
void sr1__lane_pass_free(struct sr1__lane_pass *p); /* zeros are fine */
/* The device's memory: taken, given back. */
sr1_status sr1__lane_pass_reserve(struct sr1__lane_pass *p);
void sr1__lane_pass_reset(struct sr1__lane_pass *p);

/* One kind of number [n] of a pass of n tokens, to be filled and then uploaded. */
int64_t *sr1__lane_numbers(const struct sr1__lane_pass *p, int kind, int64_t n);
sr1_status sr1__lane_upload(struct sr1__lane_pass *p, int64_t n);
/* views[SR1__LANE_NUMBERS], [n] each. */
void sr1__lane_views(sr1_scope *s, const struct sr1__lane_pass *p, int64_t n,
                     sr1_tensor **views);
/* Index in `there` of an id that no pass reads. */
int64_t sr1__lane_nobody(const struct sr1__lane_pass *p);

#endif
