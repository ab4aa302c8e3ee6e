/* sr1_search/light.c - sr1-search without libtorch: it starts at once and stays small.
 * Where a model is needed, sr1-search-models beside it takes over: the same program with
 * libtorch, which builds without that do not have. */
#include "sr1_search/commands.h"

#include <searchr1/embed.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sr1_status no_models(const char *folder)
{
    char text[512];

    snprintf(
        text, sizeof(text),
        "%.200s: encoders and rerankers need sr1-search-models beside sr1-search, "
        "which builds without libtorch do not have: build with libtorch (tools/build "
        "build)",
        folder);
    return sr1_set_error(SR1_E_UNSUPPORTED, text);
}

void before_models(char **argv)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *slash;

    if (n < 0)
        return;
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL ||
        (size_t)(slash - path) + sizeof("/sr1-search-models") > sizeof(path))
        return;
    snprintf(slash, sizeof("/sr1-search-models"), "/sr1-search-models");
    setenv("OMP_WAIT_POLICY", "passive", 0); /* docs/threads.md */
    execv(path, argv);
}

void sr1_encoder_options_init(sr1_encoder_options *options)
{
    *options = (sr1_encoder_options){.struct_size = sizeof(*options)};
}

sr1_status sr1_embedder_open(sr1_embedder **out, const char *folder,
                             const sr1_encoder_options *options)
{
    (void)out;
    (void)options;
    return no_models(folder);
}

sr1_status sr1_reranker_open(sr1_reranker **out, const char *folder,
                             const sr1_encoder_options *options)
{
    (void)out;
    (void)options;
    return no_models(folder);
}
