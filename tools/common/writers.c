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

sr1_status checker_open(sr1_checker **out, const sr1_config *c)
{
    sr1_sandbox *box = NULL;
    sr1_status st = sr1_sandbox_open(&box, NULL);

    (void)c;
    if (st == SR1_OK)
        st = sr1_checker_new(out, box, NULL);
    sr1_sandbox_free(box);
    return st;
}
