/* fuzz_encoder_config.c - a config.json of an encoder that is accepted has sizes within
 * bounds that fit each other. */
#include "fuzz.h"

#include "tensor/weights/encoder_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__encoder_config c;

    if (sr1__encoder_config_parse(&c, (const char *)data, size, "config.json") != SR1_OK)
        return 0;
    FUZZ_CHECK(c.arch >= 0 && c.arch < SR1__ENCODER_ARCHS);
    FUZZ_CHECK(c.act >= 0 && c.act < SR1__ACTS);
    FUZZ_CHECK(c.hidden_size > 0 && c.n_heads > 0 && c.head_dim > 0);
    FUZZ_CHECK(c.vocab_size > 0 && c.n_layers > 0 && c.max_positions > 0);
    FUZZ_CHECK(c.n_heads * c.head_dim <= 1 << 20 && c.projection_dim <= 65536);
    FUZZ_CHECK(c.arch == SR1__ENCODER_T5 || c.n_heads * c.head_dim == c.hidden_size);
    FUZZ_CHECK(c.arch != SR1__ENCODER_T5 || c.max_distance > c.n_buckets / 4);
    FUZZ_CHECK(c.decoder_start >= 0 && c.decoder_start < c.vocab_size);
    return 0;
}
