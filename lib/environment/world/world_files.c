/* environment/world/world_files.c - see world_files.h. */
#include "environment/world/world_files.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

#define WORD_WEIGHT 1000

sr1_status sr1__world_save(const char *folder, const char *name, const struct sr1__buf *b)
{
    sr1_status st = sr1__buf_status(b, name);
    char *path = sr1__path_join(folder, name);

    if (st == SR1_OK)
        st = path ? sr1__file_replace(path, sr1__buf_cstr(b), b->len)
                  : sr1__fail_nomem("path");
    sr1__free(path);
    return st;
}

sr1_status sr1__world_tokenizer(const char *folder, const struct sr1__buf *b, size_t n,
                                const sr1_tokenizer_train_options *options)
{
    char *path = sr1__path_join(folder, "tokenizer");
    const char **texts = sr1__calloc(n + 1, sizeof *texts);
    int64_t *weights = sr1__calloc(n + 1, sizeof *weights);
    sr1_status st = sr1__buf_status(b, "words");

    if (st == SR1_OK && !(path && texts && weights))
        st = sr1__fail_nomem("tokenizer");
    if (st == SR1_OK) {
        const char *at = sr1__buf_cstr(b);

        for (size_t i = 0; i < n; i++, at += strlen(at) + 1) {
            texts[i] = at;
            weights[i] = WORD_WEIGHT;
        }
        st = sr1_tokenizer_train(texts, NULL, weights, n, options, path);
    }
    sr1__free(path);
    sr1__free(texts);
    sr1__free(weights);
    return st;
}
