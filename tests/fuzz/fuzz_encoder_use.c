/* fuzz_encoder_use.c - the sentence-transformers files of a folder. The input is cut at
 * NUL bytes: modules.json, 1_Pooling/config.json, sentence_bert_config.json,
 * config_sentence_transformers.json. */
#include "fuzz.h"

#include "base/file.h"
#include "tensor/weights/encoder_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"modules.json", "1_Pooling/config.json",
                                    "sentence_bert_config.json",
                                    "config_sentence_transformers.json"};

static char dir[64];

static void remove_dir(void)
{
    sr1__dir_remove(dir);
}

static void make_dir(void)
{
    char sub[96];

    snprintf(dir, sizeof dir, "/tmp/fuzz-use-XXXXXX");
    FUZZ_CHECK(mkdtemp(dir) != NULL);
    snprintf(sub, sizeof sub, "%s/1_Pooling", dir);
    FUZZ_CHECK(sr1__dir_make(sub) == SR1_OK);
    atexit(remove_dir);
}

static void put(const char *name, const uint8_t *data, size_t n)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(data, 1, n, f) == n);
    fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sr1__encoder_config c = {.arch = SR1__ENCODER_BERT,
                                          .max_positions = 512};
    struct sr1__encoder_use u;

    if (!dir[0])
        make_dir();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size;

        put(names[i], data, n);
        data += end ? n + 1 : n;
        size -= end ? n + 1 : n;
    }
    if (sr1__encoder_use_load(&u, dir, &c, 0) != SR1_OK)
        return 0;
    FUZZ_CHECK(u.pooling >= 0 && u.pooling < SR1__POOLINGS);
    FUZZ_CHECK(u.max_tokens >= 1 && u.max_tokens <= 512);
    FUZZ_CHECK(u.query_prefix && u.document_prefix);
    sr1__encoder_use_free(&u);
    return 0;
}
