/* encoder/scorer.h - vectors of a dense index on a device of libtorch. */
#ifndef SR1__ENCODER_SCORER_H
#define SR1__ENCODER_SCORER_H

#include "search/scorer.h"

/* What lib/search is offered when this module is loaded. */
extern const struct sr1__scorer_ops sr1__scorer_torch;

#endif
