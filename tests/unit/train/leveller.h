/* train/leveller.h - a tiny policy that speaks the protocol "rlvcr": a level, thoughts or
 * none, an action. */
#ifndef SR1_TESTS_TRAIN_LEVELLER_H
#define SR1_TESTS_TRAIN_LEVELLER_H

#include "runs.h"

static const struct tiny_rule leveller[] = {
    {"", "<level>"},          {"<level>", "1"},      {"<level>", "3"},
    {"1", "</level>"},        {"3", "</level>"},     {"</level>", "<think>"},
    {"</level>", "<action>"}, {"<think>", " so"},    {"<think>", " well"},
    {" so", "</think>"},      {" well", "</think>"}, {"</think>", "<action>"},
    {"<action>", " tower"},   {"<action>", " Rome"}, {" tower", "</action>"},
    {" Rome", "</action>"}};

static inline int leveller_make(void **state)
{
    if (runs_make(state) != 0)
        return -1;
    tiny_model("leveller", leveller, sizeof leveller / sizeof *leveller, 9);
    return 0;
}

#endif
