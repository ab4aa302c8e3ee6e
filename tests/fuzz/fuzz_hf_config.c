/* fuzz_hf_config.c - a config.json that is accepted describes a model that can be built.
 */
#include "fuzz.h"

#include "tensor/weights/hf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__hf_config c;

    if (sr1__hf_config_parse(&c, (const char *)data, size, "config.json") != SR1_OK)
        return 0;
    FUZZ_CHECK(sr1__hf_config_check(&c, "config.json") == SR1_OK);
    FUZZ_CHECK(c.n_heads % c.n_kv_heads == 0 && c.head_dim % 2 == 0);
    FUZZ_CHECK(c.n_eos >= 0 && c.n_eos <= SR1__MAX_EOS);
    FUZZ_CHECK(c.pad_id < c.vocab_size && c.bos_id < c.vocab_size);
    return 0;
}
