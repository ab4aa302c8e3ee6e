/* config/choices.c - the tables of config/choices.h. */
#include "config/choices.h"

#include "config/config.h"

#include <string.h>

static const struct sr1__environment_choice environments[] = {
    {.name = "search", .acts = 1, .has_engine = 1, .needs_engine = 1},
    {.name = "tools", .acts = 1, .has_engine = 1, .takes_tools = 1},
    {.name = "rooms", .acts = 1, .has_goal = 1, .names_worlds = 1},
    {.name = "critique",
     .acts = 1,
     .judged_by_tests = 1,
     .revises = 1,
     .protocol = "ctrl"},
    {.name = "program", .acts = 1, .of_user = 1},
    {.name = "none"},
};

static const char by_query[] = "to search by a query between <search> and </search>";
static const char by_function[] =
    "to call functions by JSON between <tool_call> and </tool_call>";

static const struct sr1__protocol_choice protocols[] = {
    {"search-r1", by_query, "search", NULL},
    {"search-r1-compat", by_query, "search", NULL},
    {"mt-grpo", "to call tools by JSON between <tool> and </tool>", "tools", NULL},
    {"hermes", by_function, "tools", NULL},
    {"qwen3-coder", "to call functions by tags between <tool_call> and </tool_call>",
     "tools", NULL},
    {"llama3", "to call functions by a JSON object", "tools", NULL},
    {"rlvcr", "to act in a world between <action> and </action>", "rooms", NULL},
    {"ctrl", NULL, "critique", "protocol ctrl goes with environment critique (or none)"},
    {"chat", NULL, NULL,
     "protocol chat has no tags to act by; it needs environment none "
     "(a chat with searches or tools is protocol search-r1 or hermes)"},
};

/* What a stage, or a way of sending weights, does otherwise. */
enum { IMITATES = 1, SENDS_WEIGHTS = 1, SENDS_ADAPTERS = 2, SENDS_TENSORS = 4 };

struct flagged_choice {
    const char *name;
    int flags;
};

static const struct flagged_choice stages[] = {{"rl", 0}, {"sft", IMITATES}, {0}};
static const struct flagged_choice backends[] = {{"none", 0},
                                                 {"disk", SENDS_WEIGHTS},
                                                 {"lora", SENDS_WEIGHTS | SENDS_ADAPTERS},
                                                 {"nccl", SENDS_WEIGHTS | SENDS_TENSORS},
                                                 {0}};

const struct sr1__environment_choice *sr1__environment_choice(const sr1_config *c)
{
    for (size_t i = 0; i < sizeof(environments) / sizeof(environments[0]); i++)
        if (sr1__config_is(c, "environment", environments[i].name))
            return &environments[i];
    return NULL;
}

const struct sr1__protocol_choice *sr1__protocol_choice(const sr1_config *c)
{
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
        if (strcmp(sr1__config_protocol(c), protocols[i].name) == 0)
            return &protocols[i];
    return NULL;
}

static int has_flag(const sr1_config *c, const char *key,
                    const struct flagged_choice *rows, int flag)
{
    while (rows->name && !sr1__config_is(c, key, rows->name))
        rows++;
    return (rows->flags & flag) != 0;
}

static int backend_has(const sr1_config *c, int flag)
{
    return has_flag(c, "weight_sync_backend", backends, flag);
}

int sr1__config_imitates(const sr1_config *c)
{
    return has_flag(c, "stage", stages, IMITATES);
}

int sr1__config_sends_weights(const sr1_config *c)
{
    return *sr1__config_str(c, "openai_sync_url") || backend_has(c, SENDS_WEIGHTS);
}

int sr1__config_sends_adapters(const sr1_config *c)
{
    return backend_has(c, SENDS_ADAPTERS);
}

int sr1__config_sends_tensors(const sr1_config *c)
{
    return backend_has(c, SENDS_TENSORS);
}
