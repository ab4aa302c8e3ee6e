/* The golden models of tests/golden/model. */
#ifndef SR1__TEST_GOLDEN_MODELS_H
#define SR1__TEST_GOLDEN_MODELS_H

#include "support/golden.h"
#include "support/golden_models.h"

static inline struct golden golden_open(const char *name)
{
    return golden_open_kind("model", name);
}

#endif
