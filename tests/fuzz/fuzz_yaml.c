/* fuzz_yaml.c - what is read from YAML prints as JSON and reads back equal. */
#include "fuzz.h"

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *j = NULL, *again = NULL;
    struct sr1__buf b;

    if (sr1__yaml_parse(&j, (const char *)data, size, "fuzz") != SR1_OK)
        return 0;
    sr1__buf_init(&b, 0);
    FUZZ_CHECK(sr1__json_dump(j, 0, &b) == SR1_OK);
    FUZZ_CHECK(sr1__json_parse(&again, b.data, b.len, "dump") == SR1_OK);
    FUZZ_CHECK(json_equal(j, again));
    sr1__buf_free(&b);
    json_decref(again);
    json_decref(j);
    return 0;
}
