/* signal/kl/kl.h - estimates of KL(new || ref) by token: one table for the KL in the
 * loss, the KL in the reward and the public functions over arrays. */
#ifndef SR1__KL_KL_H
#define SR1__KL_KL_H

#include "base/error.h"

#include <stddef.h>

/* One estimate and its derivative by the new log-prob. */
struct sr1__kl_term {
    double value;
    double slope;
};

/* d = new - ref. */
typedef struct sr1__kl_term (*sr1__kl_fn)(double d);

/* A row of the table and the '+' behind its name. */
struct sr1__kl {
    sr1__kl_fn estimate;
    int straight;    /* the gradient of k2 */
    int slopes_at_0; /* it has a slope where both policies are one */
};

/* Name i of the table, NULL past the last. Static. */
const char *sr1__kl_name(size_t i);

/* A name, perhaps with a '+' behind it. SR1_E_NOT_FOUND lists the names. */
sr1_status sr1__kl_find(const char *name, struct sr1__kl *out);

struct sr1__kl_term sr1__kl_estimate(const struct sr1__kl *kl, double ref, double now);

/* exp(-d) + d - 1 for d above -20; below, the line that touches it at -20. */
struct sr1__kl_term sr1__kl_k3(double d);

#endif
