/* sr1_search/models.c - sr1-search-models: the program with libtorch (see light.c). */
#include "sr1_search/commands.h"

#include "common/policy.h"

#include <searchr1/search.h>

void before_models(char **argv)
{
    policy_passive_waiting(argv);
}

sr1_status open_config_engine(sr1_search **out, const struct request *r)
{
    return sr1_search_open(out, r->loaded);
}
