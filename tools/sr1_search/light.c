/* sr1_search/light.c - sr1-search without libtorch: it starts at once and stays small.
 * Where a model is needed, sr1-search-models takes over: the same program with libtorch,
 * which builds without that do not have. It lies beside this one, installed in
 * libexec/searchr1. */
#include "sr1_search/commands.h"

#include <searchr1/ext/embed.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sr1_status no_models(const char *folder)
{
    char text[512];

    snprintf(
        text, sizeof(text),
        "%.200s: encoders, rerankers and --config need sr1-search-models, "
        "which builds without libtorch do not have: build with libtorch (tools/build "
        "build)",
        folder);
    return sr1_set_error(SR1_E_UNSUPPORTED, text);
}

/* Run the other program in place of this one; returns where it is not in folder. */
static void run_models(const char *own, const char *folder, char **argv)
{
    const char *slash = strrchr(own, '/');
    char path[4096 + 256];

    if (slash == NULL)
        return;
    snprintf(path, sizeof(path), "%.*s/%s/sr1-search-models", (int)(slash - own), own,
             folder);
    execv(path, argv);
}

void before_models(char **argv)
{
    char own[4096];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

    if (n < 0)
        return;
    own[n] = '\0';
    setenv("OMP_WAIT_POLICY", "passive", 0); /* docs/api.md */
    run_models(own, ".", argv);              /* not installed */
    run_models(own, SR1_LIBEXEC, argv);
}

sr1_status open_config_engine(sr1_search **out, const struct request *r)
{
    (void)out;
    return no_models(r->config);
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
