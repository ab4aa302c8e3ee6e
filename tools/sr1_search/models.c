/* sr1_search/models.c - sr1-search-models: the program with libtorch (see light.c). */
#include "sr1_search/commands.h"

#include "common/policy.h"

void before_models(char **argv)
{
    policy_passive_waiting(argv);
}
