/* sr1_search/with_torch.c - before models are opened, in builds that have libtorch. */
#include "sr1_search/commands.h"

#include "common/policy.h"

void before_models(char **argv)
{
    policy_passive_waiting(argv);
}
