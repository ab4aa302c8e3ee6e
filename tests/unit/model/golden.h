/* The golden models of tests/golden/model. */
#ifndef SR1__TEST_GOLDEN_MODELS_H
#define SR1__TEST_GOLDEN_MODELS_H

#include "support/golden.h"

static inline struct golden golden_open(const char *name)
{
    return golden_open_kind("model", name);
}

static const char *const golden_names[] = {
    "qwen3-tied", "qwen3-untied-wide", "qwen3-group8-sharded", "qwen3-bias",
    "qwen3-bf16", "qwen3-fp16",        "qwen2-tied",           "qwen2-untied-bf16"};
#define GOLDEN_COUNT (sizeof golden_names / sizeof golden_names[0])

#endif
