/* ranks.c - see ranks.h. */
#include "common/ranks.h"

#include <stdio.h>

static void on_rank_warning(void *user, int32_t level, const char *text)
{
    if (level >= SR1_LOG_WARN)
        fprintf(stderr, "rank %d: warning: %s\n", (int)sr1_ranks_rank(user), text);
}

sr1_status ranks_begin(sr1_ranks **out, sr1_config **c)
{
    sr1_config *own = NULL;
    sr1_status st = sr1_ranks_open(out, *c);

    if (st == SR1_OK)
        st = sr1_ranks_config(*out, &own);
    if (st != SR1_OK)
        return st;
    sr1_config_free(*c);
    *c = own;
    if (!ranks_is_first(*out))
        sr1_log_set(on_rank_warning, *out);
    return SR1_OK;
}

void ranks_end(sr1_ranks *ranks)
{
    if (!ranks_is_first(ranks))
        sr1_log_set(NULL, NULL);
    sr1_ranks_free(ranks);
}

const char *ranks_program(const sr1_ranks *ranks, const char *program)
{
    static char text[64];

    if (ranks_is_first(ranks))
        return program;
    snprintf(text, sizeof(text), "%s, rank %d", program, (int)sr1_ranks_rank(ranks));
    return text;
}

int ranks_is_first(const sr1_ranks *ranks)
{
    return sr1_ranks_rank(ranks) == 0;
}
