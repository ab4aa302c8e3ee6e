/* sr1_search/without_torch.c - models in builds without libtorch: there are none. */
#include "sr1_search/commands.h"

#include <searchr1/embed.h>

static const char reason[] =
    "this sr1-search was built without libtorch and cannot run encoders or rerankers; "
    "build it with libtorch (tools/build build)";

void before_models(char **argv)
{
    (void)argv;
}

void sr1_encoder_options_init(sr1_encoder_options *options)
{
    *options = (sr1_encoder_options){.struct_size = sizeof(*options)};
}

sr1_status sr1_embedder_open(sr1_embedder **out, const char *folder,
                             const sr1_encoder_options *options)
{
    (void)out;
    (void)folder;
    (void)options;
    return sr1_set_error(SR1_E_UNSUPPORTED, reason);
}

sr1_status sr1_reranker_open(sr1_reranker **out, const char *folder,
                             const sr1_encoder_options *options)
{
    (void)out;
    (void)folder;
    (void)options;
    return sr1_set_error(SR1_E_UNSUPPORTED, reason);
}
