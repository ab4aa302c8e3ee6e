/* remote.c - see remote.h. */
#include "common/remote.h"

#include <searchr1/ext/remote.h>

#include <inttypes.h>
#include <stdio.h>

void remote_note(const char *program, const sr1_rollout *rollout)
{
    sr1_remote_report r = {.struct_size = sizeof(r)};

    if (sr1_rollout_remote_get(rollout, &r) != SR1_OK || r.answers == 0)
        return;
    fprintf(
        stderr,
        "%s: %" PRId64 " answers of the server: %" PRId64 " with token ids, %" PRId64
        " with tokens' texts, %" PRId64 " encoded anew; %" PRId64
        " whose text alone has other ids; %" PRId64 " to a prompt it read otherwise\n",
        program, r.answers, r.exact, r.spelled, r.encoded, r.drifted, r.prompts_differ);
}
