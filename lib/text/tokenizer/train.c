/* text/tokenizer/train.c - sr1_tokenizer_train: options, then count, learn and write. */
#include "text/tokenizer/train.h"

#include "base/struct.h"
#include "base/utf8.h"

#include <stddef.h>
#include <string.h>

#define DEFAULT_VOCAB 1024
#define DEFAULT_MIN_COUNT 2

static const char *const default_special[] = {"<|endoftext|>", "<|im_start|>",
                                              "<|im_end|>"};
static const char *const default_other[] = {"<tool_call>",     "</tool_call>",
                                            "<tool_response>", "</tool_response>",
                                            "<think>",         "</think>"};

static sr1_status add_names(struct sr1__added *a, const char *const *names, size_t n,
                            int special)
{
    for (size_t i = 0; i < n; i++) {
        if (!names[i] || !names[i][0] || !sr1__utf8_valid(names[i], strlen(names[i])))
            return sr1__fail(SR1_E_INVALID,
                             "tokenizer training: an added token is empty or not UTF-8");
        SR1__TRY(sr1__added_insert(a, names[i], strlen(names[i]), (int32_t)i, special));
    }
    return SR1_OK;
}

void sr1_tokenizer_train_options_init(sr1_tokenizer_train_options *options)
{
    static const sr1_tokenizer_train_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_tokenizer_train_options(const sr1_tokenizer_train_options *from,
                                               sr1_tokenizer_train_options *o)
{
    memset(o, 0, sizeof *o);
    SR1__TRY(sr1__struct_take(o, sizeof *o, from,
                              SR1__STRUCT_END(sr1_tokenizer_train_options, vocab_size),
                              "tokenizer training: options"));
    o->vocab_size = o->vocab_size ? o->vocab_size : DEFAULT_VOCAB;
    o->min_frequency = o->min_frequency ? o->min_frequency : DEFAULT_MIN_COUNT;
    if (!o->special_tokens) {
        o->special_tokens = default_special;
        o->n_special_tokens = sizeof default_special / sizeof default_special[0];
    }
    if (!o->added_tokens) {
        o->added_tokens = default_other;
        o->n_added_tokens = sizeof default_other / sizeof default_other[0];
    }
    return SR1_OK;
}

/* Bounds of the options; *model_size is what the byte-level vocabulary may hold. */
static sr1_status check_tokenizer_train_options(const sr1_tokenizer_train_options *o,
                                                uint32_t *model_size)
{
    size_t added = o->n_special_tokens + o->n_added_tokens;

    if (o->vocab_size < 0 || (uint32_t)o->vocab_size > SR1__TOKEN_ID_MAX ||
        added > SR1__TOKEN_ID_MAX || (size_t)o->vocab_size < 256 + added)
        return sr1__fail(SR1_E_INVALID,
                         "tokenizer training: vocab_size %d: must hold 256 bytes and %zu "
                         "added tokens, and be at most %u",
                         o->vocab_size, added, SR1__TOKEN_ID_MAX);
    if (o->min_frequency < 1)
        return sr1__fail(SR1_E_INVALID, "tokenizer training: min_frequency %d is below 1",
                         o->min_frequency);
    *model_size = (uint32_t)((size_t)o->vocab_size - added);
    return SR1_OK;
}

sr1_status sr1_tokenizer_train(const char *const *texts, const size_t *sizes,
                               const int64_t *weights, size_t n,
                               const sr1_tokenizer_train_options *options,
                               const char *dir)
{
    const struct sr1__corpus corpus = {texts, sizes, weights, n};
    struct sr1__pieces pieces;
    struct sr1__learnt learnt;
    struct sr1__added added = {0};
    sr1_tokenizer_train_options o;
    uint32_t model_size = 0;
    sr1_status status;

    if ((!texts && n) || !dir)
        return sr1__fail(SR1_E_INVALID, "tokenizer training: texts and dir are needed");
    SR1__TRY(read_tokenizer_train_options(options, &o));
    SR1__TRY(check_tokenizer_train_options(&o, &model_size));
    sr1__pieces_init(&pieces);
    sr1__learnt_init(&learnt);
    status = add_names(&added, o.special_tokens, o.n_special_tokens, 1);
    if (status == SR1_OK)
        status = add_names(&added, o.added_tokens, o.n_added_tokens, 0);
    if (status == SR1_OK)
        status = sr1__pieces_count(&pieces, &corpus, &added);
    if (status == SR1_OK)
        status = sr1__learn(&learnt, &pieces, model_size, o.min_frequency);
    if (status == SR1_OK)
        status = sr1__learnt_write(
            &learnt,
            &(struct sr1__added_names){o.special_tokens, o.n_special_tokens,
                                       o.added_tokens, o.n_added_tokens},
            dir);
    sr1__learnt_free(&learnt);
    sr1__pieces_free(&pieces);
    sr1__added_free(&added);
    return status;
}
