/* environment/world/speech.c - the text of demonstrations, by protocol.
 *
 * A name always stands between spaces (names.c), in a quoted query too. */
#include "environment/world/world.h"

#include "base/error.h"

#include <string.h>

static const struct sr1__speech speeches[] = {
    {.protocol = "search-r1",
     .environment = "search",
     .tags = {"<think>", "</think>", "<search>", "</search>", "<information>",
              "</information>", "<answer>", "</answer>"},
     .call = {"<search>", "</search>"},
     .vocab = 900},
    {.protocol = "mt-grpo",
     .environment = "tools",
     .tags = {"<reasoning>", "</reasoning>", "<tool>", "</tool>", "<result>", "</result>",
              "<answer>", "</answer>"},
     .call = {"<tool>{\"name\": \"wiki_search\", \"args\": {\"query\": \"",
              "\"}}</tool>"},
     .broken = {"<tool>{\"name\": \"wiki_search\", \"query\": \"", "\"</tool>"},
     .phrases =
         {"{\"name\": \"wiki_search\", \"args\": {\"query\": \" x \"}}",
          "Error: the tool call is not valid JSON; write {\"name\": ..., \"args\": "
          "{...}}"},
     .starters = {"The", "People", "Long", "Slowly", "One", "Later", "A", "As", "Error",
                  "name", "args", "query", "wiki"},
     .vocab = 1000},
    {.protocol = "hermes",
     .environment = "tools",
     .tags = {"<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>",
              "</tool_response>", "<answer>", "</answer>"},
     .call = {"<tool_call>\n{\"name\": \"wiki_search\", \"arguments\": {\"query\": \"",
              "\"}}\n</tool_call>"},
     .broken = {"<tool_call>\n{\"name\": \"wiki_search\", \"query\": \"",
                "\"\n</tool_call>"},
     .phrases = {"{\"name\": \"wiki_search\", \"arguments\": {\"query\": \" x \"}}",
                 "Error: the tool call is not valid JSON; write {\"name\": ..., "
                 "\"arguments\": {...}}"},
     .starters = {"The", "People", "Long", "Slowly", "One", "Later", "A", "As", "Error",
                  "name", "arguments", "query", "wiki"},
     .vocab = 1000},
};

const struct sr1__speech *sr1__speech_find(const char *protocol)
{
    const char *name = protocol != NULL ? protocol : speeches[0].protocol;
    size_t i;

    for (i = 0; i < sizeof(speeches) / sizeof(speeches[0]); i++)
        if (strcmp(speeches[i].protocol, name) == 0)
            return &speeches[i];
    sr1__fail(SR1_E_NOT_FOUND,
              "world: there are no demonstrations in protocol '%.64s'; known: search-r1, "
              "mt-grpo, hermes",
              name);
    return NULL;
}
