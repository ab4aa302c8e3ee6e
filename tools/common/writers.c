/* writers.c - see writers.h. */
#include "common/writers.h"

sr1_status style_open(sr1_critique_style **out, const sr1_config *c)
{
    const char *critique = NULL, *solve = NULL;
    sr1_status st = sr1_config_get_str(c, "critique_template", &critique);

    if (st == SR1_OK)
        st = sr1_config_get_str(c, "solve_template", &solve);
    return st == SR1_OK ? sr1_critique_style_open(out, critique, solve) : st;
}

sr1_status count_tests(sr1_config *c)
{
    int32_t set = 0;
    sr1_status st = sr1_config_is_set(c, "execution_score", &set);

    return st == SR1_OK && !set ? sr1_config_set(c, "execution_score", "pass_rate") : st;
}
