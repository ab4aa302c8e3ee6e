/* The model folders of tests/golden/model, each with what transformers computes of it. */
#ifndef SR1__TEST_GOLDEN_MODEL_NAMES_H
#define SR1__TEST_GOLDEN_MODEL_NAMES_H

static const char *const golden_names[] = {"qwen3-tied",           "qwen3-untied-wide",
                                           "qwen3-group8-sharded", "qwen3-bias",
                                           "qwen3-bf16",           "qwen3-fp16",
                                           "qwen3-yarn",           "qwen2-tied",
                                           "qwen2-yarn-mscale",    "qwen2-untied-bf16",
                                           "llama-scaled",         "llama-linear-bias",
                                           "mistral-window-bf16",  "smollm3",
                                           "smollm3-window",       "mistral-window",
                                           "qwen3-window",         "qwen3-moe",
                                           "qwen3-moe-sparse",     "gemma3",
                                           "gemma3-bf16"};
#define GOLDEN_COUNT (sizeof golden_names / sizeof golden_names[0])

#endif
