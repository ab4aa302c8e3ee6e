/* fuzz_thinking.c - steps read from any bytes: places lie within the text, and the action
 * is the one that a rollout would carry out. */
#include "fuzz.h"

#include "environment/env/protocol.h"

#include <searchr1/ext/thinking.h>

#include <string.h>

static void inside(size_t begin, size_t len, size_t size)
{
    FUZZ_CHECK(begin <= size && len <= size - begin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sr1_thinking_step s = {.struct_size = sizeof s};
    const char *text = (const char *)data;
    struct sr1__text_range content = {0, 0};
    int32_t event = sr1__protocol_first_event(sr1__protocol_find("rlvcr"), text, size,
                                              SR1__ACTION_MAX, &content, NULL);

    FUZZ_CHECK(sr1_thinking_parse(text, size, &s) == SR1_OK);
    inside(s.level_begin, s.level_len, size);
    inside(s.think_begin, s.think_len, size);
    inside(s.action_begin, s.action_len, size);
    FUZZ_CHECK(s.prefix_len <= size);
    FUZZ_CHECK(s.level >= 0 && s.level <= SR1_THINKING_LEVELS);
    FUZZ_CHECK((s.level == 0) == ((s.fallbacks & SR1_THINKING_LEVEL_UNKNOWN) != 0));
    if (event == SR1__EVENT_ACTION)
        FUZZ_CHECK(s.action_begin == content.begin && s.action_len == content.len &&
                   s.prefix_len <= s.action_begin && s.prefix_len >= strlen("<action>") &&
                   memcmp(text + s.prefix_len - strlen("<action>"), "<action>",
                          strlen("<action>")) == 0);
    return 0;
}
