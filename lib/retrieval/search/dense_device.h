/* retrieval/search/dense_device.h - the top_k vectors of a dense index, looked for on a
 * device.
 *
 * What comes back is, bit for bit, what sr1__dense_scan gives. The device scores every
 * row in fp32 and names the best top_k + margin; these are scored again by the CPU's
 * kernel, which alone decides. A row that the device did not name has a device score of
 * at most that of the last named, so that of the CPU is at most
 *
 *     last + 2 g R |q|,    g = n u / (1 - n u),  n = dim + 4,  u = 2^-24,
 *
 * R the length of the longest row: either sum is off by at most g times the sum of the
 * products' magnitudes, whatever its order (Higham, Accuracy and Stability of Numerical
 * Algorithms, 2nd ed., section 4.2), and that is at most R |q| (Cauchy, Schwarz). If the
 * k-th best of the named ones has more, nothing was missed. If not (more rows are nearly
 * alike than the margin holds), where a sum might leave the range of fp32, or where a
 * score of the device is further than that from the CPU's (it rounds otherwise), the
 * query is answered by sr1__dense_scan and counted. */
#ifndef SR1__SEARCH_DENSE_DEVICE_H
#define SR1__SEARCH_DENSE_DEVICE_H

#include "retrieval/search/dense_scan.h"
#include "retrieval/search/vector_scorer.h"

/* 0: the default. */
struct sr1__dense_device_settings {
    size_t margin; /* candidates beyond top_k */
    size_t block;  /* rows scored at once */
};

struct sr1__dense_device;

/* Memory that an index takes on a device, scoring included: an upper bound. */
uint64_t sr1__dense_device_bytes(const struct sr1__dense_meta *m);

/* ix is borrowed until it is closed. All rows are read once: SR1_E_CORRUPT names one that
 * is not finite. settings NULL: all defaults. */
sr1_status sr1__dense_device_open(struct sr1__dense_device **out,
                                  const struct sr1__dense_index *ix,
                                  struct sr1__pool *pool,
                                  const struct sr1__scorer_ops *ops, const char *device,
                                  const struct sr1__dense_device_settings *settings);
void sr1__dense_device_close(struct sr1__dense_device *d); /* NULL is fine */

/* As sr1__dense_scan. From several threads: they take turns on the device. */
sr1_status sr1__dense_device_scan(struct sr1__dense_device *d, struct sr1__pool *pool,
                                  const float *queries, size_t n, int32_t top_k,
                                  struct sr1__dense_hit *out, int32_t *found);

const char *sr1__dense_device_name(const struct sr1__dense_device *d); /* static */
/* Queries so far, and how many of them the CPU had to go through all rows for. */
void sr1__dense_device_counts(const struct sr1__dense_device *d, uint64_t *queries,
                              uint64_t *rescans);

#endif
