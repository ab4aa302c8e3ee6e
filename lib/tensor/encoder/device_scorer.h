/* tensor/encoder/device_scorer.h - vectors of a dense index on a device of libtorch. */
#ifndef SR1__ENCODER_DEVICE_SCORER_H
#define SR1__ENCODER_DEVICE_SCORER_H

#include "retrieval/search/vector_scorer.h"

/* The table of functions that is registered with lib/retrieval/search when this module is
 * loaded. */
extern const struct sr1__scorer_ops sr1__scorer_torch;

#endif
