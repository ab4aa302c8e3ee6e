/* advantage/kl.h - k3 of one difference. */
#ifndef SR1__ADVANTAGE_KL_H
#define SR1__ADVANTAGE_KL_H

#include "base/error.h"

#define SR1__K3_LARGEST 700.0 /* exp(709.8) overflows */

/* exp(d) - 1 - d, never negative; d above 700 counts as 700. */
double sr1__k3(double d);

#endif
