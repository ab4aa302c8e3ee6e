/* fuzz_jinja.c - whatever a template holds, a run of it ends within its bounds, and what
 * it prints as its own lies within the text. */
#include "fuzz.h"

#include "base/json.h"
#include "text/jinja/jinja.h"

#include <string.h>

static const char messages[] = "[{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
                               "\"user\", \"content\": \"<a> "
                               "\\u00e9\"}, {\"role\": \"assistant\", \"content\": null, "
                               "\"tool_calls\": [{\"name\": "
                               "\"f\", \"arguments\": {\"a\": [1, 2.5, true]}}]}]";

static void run_template(const struct sr1__jinja *t, const json_t *list)
{
    struct sr1__jrun *r = NULL;
    struct sr1__spans own = {0};
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    FUZZ_CHECK(sr1__jrun_new(&r, t, 0) == SR1_OK);
    if (sr1__jrun_bind_json(r, "messages", list, NULL) == SR1_OK &&
        sr1__jrun_render(r, &text, &own) == SR1_OK)
        for (size_t i = 0; i < own.n; i++)
            FUZZ_CHECK(own.v[2 * i] < own.v[2 * i + 1] && own.v[2 * i + 1] <= text.len);
    sr1__jrun_free(r);
    sr1__spans_free(&own);
    sr1__buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__jinja *t = NULL;
    json_t *list = NULL;

    FUZZ_CHECK(sr1__json_parse(&list, messages, strlen(messages), "m") == SR1_OK);
    if (sr1__jinja_parse(&t, (const char *)data, size) == SR1_OK)
        run_template(t, list);
    sr1__jinja_free(t);
    json_decref(list);
    return 0;
}
