/* shared_parts.c - a search engine and an environment as tables of a shared object. */
#include <searchr1/env.h>
#include <searchr1/search.h>

#include <string.h>

static sr1_status find_echo(void *self, const char *const *queries, size_t n,
                            int32_t top_k, sr1_search_sink *sink)
{
    sr1_status st = SR1_OK;

    (void)self;
    (void)top_k;
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_search_sink_hit(sink, i, "echo", queries[i], 1);
    return st;
}

static sr1_status act_echo(void *self, const sr1_env_action *const *actions, size_t n,
                           sr1_env_sink *sink)
{
    sr1_status st = SR1_OK;

    (void)self;
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_env_sink_text(sink, i, actions[i]->text, actions[i]->len);
    return st;
}

const sr1_search_ops search_engine = {
    .struct_size = sizeof(sr1_search_ops), .name = "echo", .search = find_echo};
const sr1_env_ops environment = {
    .struct_size = sizeof(sr1_env_ops), .name = "echo", .act = act_echo};
