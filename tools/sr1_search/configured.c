/* sr1_search/configured.c - the configuration of a command line: the file of --config and
 * words KEY=VALUE, as sr1-train takes them. */
#include "sr1_search/commands.h"

#include <searchr1/ext/config_names.h>

#include <string.h>

int is_pair(const char *word)
{
    size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 0 && word[n] == '=';
}

size_t count_pairs(const struct request *r, const char *const *rest, size_t n)
{
    size_t pairs = 0;

    while (r->config != NULL && pairs < n && is_pair(rest[pairs]))
        pairs++;
    return pairs;
}

/* The passages of a search in training, unless the command line says how many. */
static sr1_status take_configured_depth(struct request *r, const struct args *a)
{
    return args_is_given(a, "--top-k")
               ? SR1_OK
               : sr1_config_get_int(r->loaded, "search_top_k", &r->top_k);
}

sr1_status load_request_config(sr1_config **out, struct request *r, const struct args *a,
                               const char *const *pairs, size_t n)
{
    sr1_config *c = NULL;
    sr1_status status;

    if (r->config == NULL)
        return SR1_OK;
    before_models(r->argv);
    status = sr1_config_new(&c);
    if (status == SR1_OK)
        status = sr1_config_load(c, r->config);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = sr1_config_set_pair(c, pairs[i]);
    r->loaded = c;
    if (status == SR1_OK)
        status = take_configured_depth(r, a);
    if (status == SR1_OK)
        *out = c;
    else
        sr1_config_free(c);
    return status;
}
