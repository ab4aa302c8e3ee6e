/* fuzz_config.c - a configuration that loads saves to JSON that loads to the same. */
#include "fuzz.h"

#include "config/config.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *name = size % 2 ? "fuzz.json" : "fuzz.yaml";
    sr1_config *a = NULL, *b = NULL;
    char *first = NULL, *second = NULL;

    FUZZ_CHECK(sr1_config_new(&a) == SR1_OK && sr1_config_new(&b) == SR1_OK);
    if (sr1__config_load_text(a, (const char *)data, size, name) == SR1_OK &&
        sr1_config_to_json(a, &first) == SR1_OK) {
        FUZZ_CHECK(sr1__config_load_text(b, first, strlen(first), "saved.json") ==
                   SR1_OK);
        FUZZ_CHECK(sr1_config_to_json(b, &second) == SR1_OK);
        FUZZ_CHECK(strcmp(first, second) == 0);
        (void)sr1_config_validate(a);
    }
    sr1_free(first);
    sr1_free(second);
    sr1_config_free(a);
    sr1_config_free(b);
    return 0;
}
