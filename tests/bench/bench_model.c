/* A model folder with random weights and a tokenizer that gives each byte one token and
 * ends no text, so that every rollout has the length it is asked for. 0.6b-8 has 8 layers
 * of the 28.
 * usage: bench_model FOLDER tiny|60m|0.6b|0.6b-8|4b fp32|bf16|fp16 [normal|fan_in] */
#include <searchr1/searchr1.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/tokenizer.h>

#include <stdio.h>
#include <string.h>

#define COMMON                                                                           \
    "{\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3ForCausalLM\"], "            \
    "\"rms_norm_eps\": 1e-6, \"rope_theta\": 1000000.0, \"hidden_act\": \"silu\", "      \
    "\"tie_word_embeddings\": true, \"attention_bias\": false, "

static const struct {
    const char *name;
    const char *config;
} shapes[] = {
    {"tiny", COMMON "\"hidden_size\": 256, \"num_hidden_layers\": 4, "
                    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                    "\"head_dim\": 64, \"intermediate_size\": 768, "
                    "\"vocab_size\": 1024, \"max_position_embeddings\": 16384}"},
    {"60m", COMMON "\"hidden_size\": 512, \"num_hidden_layers\": 8, "
                   "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
                   "\"head_dim\": 64, \"intermediate_size\": 1536, "
                   "\"vocab_size\": 65536, \"max_position_embeddings\": 16384}"},
    {"0.6b", COMMON "\"hidden_size\": 1024, \"num_hidden_layers\": 28, "
                    "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, "
                    "\"head_dim\": 128, \"intermediate_size\": 3072, "
                    "\"vocab_size\": 151936, \"max_position_embeddings\": 40960}"},
    {"4b", COMMON "\"hidden_size\": 2560, \"num_hidden_layers\": 36, "
                  "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
                  "\"head_dim\": 128, \"intermediate_size\": 9728, "
                  "\"vocab_size\": 151936, \"max_position_embeddings\": 40960}"},
    {"0.6b-8", COMMON "\"hidden_size\": 1024, \"num_hidden_layers\": 8, "
                      "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, "
                      "\"head_dim\": 128, \"intermediate_size\": 3072, "
                      "\"vocab_size\": 151936, \"max_position_embeddings\": 40960}"},
};

static const char *shape(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return shapes[i].config;
    return NULL;
}

/* As trained, a vocabulary names the token that ends a text; this one shall not. */
static sr1_status write_tokenizer(const char *folder)
{
    static const char *const text[] = {"a"};
    static const char config[] = "{\"eos_token\": null, \"pad_token\": "
                                 "\"<|endoftext|>\", \"tokenizer_class\": "
                                 "\"PreTrainedTokenizerFast\"}\n";
    sr1_tokenizer_train_options o = {
        .struct_size = sizeof o, .vocab_size = 259, .added_tokens = text};
    char path[4096];
    FILE *f;
    size_t written;

    if (sr1_tokenizer_train(text, NULL, NULL, 1, &o, folder) != SR1_OK)
        return SR1_E_IO;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    f = fopen(path, "w");
    if (!f)
        return sr1_set_error(SR1_E_IO, path);
    written = fwrite(config, 1, sizeof config - 1, f);
    return fclose(f) == 0 && written == sizeof config - 1 ? SR1_OK
                                                          : sr1_set_error(SR1_E_IO, path);
}

int main(int argc, char **argv)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu"};
    sr1_model *m = NULL;
    sr1_status st;

    if (argc < 4 || argc > 5 || !shape(argv[2])) {
        fprintf(stderr,
                "usage: bench_model FOLDER tiny|60m|0.6b|0.6b-8|4b fp32|bf16|fp16 "
                "[normal|fan_in]\n");
        return 2;
    }
    o.dtype = argv[3];
    o.init = argc > 4 ? argv[4] : NULL;
    st = sr1_model_new_random(&m, shape(argv[2]), 1, &o);
    if (st == SR1_OK)
        st = sr1_model_save(m, argv[1]);
    if (st == SR1_OK)
        st = write_tokenizer(argv[1]);
    if (st != SR1_OK)
        fprintf(stderr, "bench_model: %s\n", sr1_last_error());
    sr1_model_free(m);
    return st != SR1_OK;
}
