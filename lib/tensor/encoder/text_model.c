/* tensor/encoder/text_model.c - open a folder with an encoder and its tokenizer, and
 * run texts through both. */
#include "tensor/encoder/text_model.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"

#include <string.h>

#define BATCH_TOKENS 4096
#define BATCH_TOKENS_MAX (1 << 24)

/* ---- options ---- */

static const sr1_encoder_options defaults = {
    .pooling = "auto",
    .normalize = -1,
    .query_tokens = -1,
    .document_tokens = -1,
    .batch_tokens = BATCH_TOKENS,
};

void sr1_encoder_options_init(sr1_encoder_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1__encoder_options_take(sr1_encoder_options *out,
                                     const sr1_encoder_options *given,
                                     struct sr1__model_place *place)
{
    sr1_encoder_options o = defaults;

    SR1__TRY(sr1__struct_take(&o, sizeof o, given,
                              SR1__STRUCT_END(sr1_encoder_options, pooling),
                              "encoder options"));
    if (o.normalize < -1 || o.normalize > 1)
        return sr1__fail(SR1_E_INVALID, "normalize is %d, not -1, 0 or 1",
                         (int)o.normalize);
    if (o.batch_tokens < 1 || o.batch_tokens > BATCH_TOKENS_MAX)
        return sr1__fail(SR1_E_INVALID, "batch_tokens is %d, not 1 to %d",
                         (int)o.batch_tokens, BATCH_TOKENS_MAX);
    SR1__TRY(sr1__model_place(place, o.device, o.dtype, o.threads));
    *out = o;
    return SR1_OK;
}

sr1_status sr1__text_max_tokens(int32_t option, const char *name, int64_t otherwise,
                                int64_t most, size_t *out)
{
    if (option < -1 || option == 0 || option > most)
        return sr1__fail(SR1_E_INVALID,
                         "%s is %d, not 1 to the %lld that the model reads", name,
                         (int)option, (long long)most);
    if (option > 0)
        *out = (size_t)option;
    else
        *out = (size_t)(otherwise < most ? otherwise : most);
    return SR1_OK;
}

/* ---- a folder ---- */

void sr1__text_model_close(struct sr1__text_model *m)
{
    sr1__encoder_free(m->encoder);
    sr1_tokenizer_free(m->tokenizer);
    sr1__encoder_use_free(&m->use);
    *m = (struct sr1__text_model){0};
}

/* Settings of the folder, overridden by the options. A T5 whose decoder was not requested
 * is treated as an encoder without decoder. */
static sr1_status choose_use(struct sr1__encoder_use *use,
                             const struct sr1__encoder_files *f, const char *folder,
                             const sr1_encoder_options *options)
{
    int32_t pooling = SR1__POOL_DECODER;
    int asked = options->pooling && strcmp(options->pooling, "auto") != 0;
    int has_decoder = sr1__encoder_files_have_decoder(f);

    if (asked)
        SR1__TRY(sr1__pooling_parse(options->pooling, &pooling));
    SR1__TRY(sr1__encoder_use_load(use, folder, &f->config,
                                   has_decoder && pooling == SR1__POOL_DECODER));
    if (asked)
        use->pooling = pooling;
    if (options->normalize >= 0)
        use->normalize = options->normalize;
    return SR1_OK;
}

/* *hash goes on with the bytes of a file of the folder, where it is *there. */
static sr1_status hash_folder_file(const char *folder, const char *name, uint64_t *hash,
                                   int *there)
{
    char *path = sr1__path_join(folder, name);
    struct sr1__buf b;
    sr1_status status;

    SR1__CHECK_ALLOC(path, "file name");
    sr1__buf_init(&b, 0);
    *there = sr1__path_exists(path);
    status = *there ? sr1__file_read(path, 0, &b) : SR1_OK;
    if (status == SR1_OK)
        *hash = sr1__hash64(sr1__buf_cstr(&b), b.len, *hash);
    sr1__buf_free(&b);
    sr1__free(path);
    return status;
}

/* What vectors depend on, options aside. Word pieces without tokenizer.json are cut as
 * tokenizer_config.json says. */
static sr1_status hash_encoder_folder(struct sr1__text_model *m,
                                      const struct sr1__encoder_files *f,
                                      const char *folder)
{
    int there, whole;

    m->hash = sr1__weights_hash(f->weights);
    SR1__TRY(hash_folder_file(folder, "config.json", &m->hash, &there));
    SR1__TRY(hash_folder_file(folder, "tokenizer.json", &m->hash, &whole));
    SR1__TRY(hash_folder_file(folder, "vocab.txt", &m->hash, &there));
    return whole ? SR1_OK
                 : hash_folder_file(folder, "tokenizer_config.json", &m->hash, &there);
}

static sr1_status load_text_model(struct sr1__text_model *m,
                                  const struct sr1__encoder_files *f, const char *folder,
                                  const sr1_encoder_options *options,
                                  const struct sr1__model_place *place, int score)
{
    int32_t ids;

    if (!score) {
        SR1__TRY(choose_use(&m->use, f, folder, options));
        SR1__TRY(hash_encoder_folder(m, f, folder));
    }
    SR1__TRY(sr1_tokenizer_open(&m->tokenizer, folder));
    ids = sr1_tokenizer_vocab_size(m->tokenizer);
    if (ids > f->config.vocab_size)
        return sr1__fail(SR1_E_INVALID,
                         "its tokenizer has %d ids, its embedding only %lld", (int)ids,
                         (long long)f->config.vocab_size);
    return sr1__encoder_load(&m->encoder, f, score ? SR1__OUTPUT_SCORE : m->use.pooling,
                             place->dtype, place->device);
}

sr1_status sr1__text_model_open(struct sr1__text_model *out, const char *kind,
                                const char *folder, const sr1_encoder_options *options,
                                const struct sr1__model_place *place, int score)
{
    struct sr1__text_model m = {0};
    struct sr1__encoder_files f;
    sr1_status status;

    SR1__TRY(sr1__model_folder_check(kind, folder));
    SR1__TRY(sr1__context(sr1__encoder_files_open(&f, folder), "%s '%s'", kind, folder));
    status = load_text_model(&m, &f, folder, options, place, score);
    status = sr1__weights_blame(f.weights, status);
    sr1__encoder_files_close(&f);
    if (status != SR1_OK) {
        sr1__text_model_close(&m);
        return sr1__context(status, "%s '%s'", kind, folder);
    }
    *out = m;
    return SR1_OK;
}

/* ---- texts ---- */

/* The tokenizer's output for n texts. */
struct encoded {
    struct sr1__encoder_text *texts;
    int32_t **ids;
    int32_t **types;
    size_t n;
};

static void encoded_free(struct encoded *t)
{
    for (size_t i = 0; t->ids && t->types && i < t->n; i++) {
        sr1_free(t->ids[i]);
        sr1_free(t->types[i]);
    }
    sr1__free(t->ids);
    sr1__free(t->types);
    sr1__free(t->texts);
}

static sr1_status encode_text_input(const struct sr1__text_model *m,
                                    const struct sr1__text_input *in, const char *text,
                                    struct sr1__buf *line, struct encoded *t, size_t i)
{
    size_t n = 0;

    if (in->prefix && *in->prefix) {
        sr1__buf_clear(line);
        sr1__buf_str(line, in->prefix);
        sr1__buf_str(line, text);
        SR1__TRY(sr1__buf_status(line, "text"));
        text = line->data;
    }
    SR1__TRY(sr1_tokenizer_encode_input(m->tokenizer, in->before ? in->before : text,
                                        in->before ? text : NULL, in->max_tokens,
                                        &t->ids[i], &t->types[i], &n));
    t->texts[i] = (struct sr1__encoder_text){t->ids[i], t->types[i], n};
    return SR1_OK;
}

static sr1_status encode_text_inputs(const struct sr1__text_model *m,
                                     const struct sr1__text_input *in,
                                     const char *const *texts, struct encoded *t)
{
    struct sr1__buf line;
    sr1_status status = SR1_OK;

    t->texts = sr1__calloc(t->n, sizeof *t->texts);
    t->ids = sr1__calloc(t->n, sizeof *t->ids);
    t->types = sr1__calloc(t->n, sizeof *t->types);
    SR1__CHECK_ALLOC(t->texts && t->ids && t->types, "token ids");
    sr1__buf_init(&line, 0);
    for (size_t i = 0; i < t->n && status == SR1_OK; i++)
        status =
            sr1__context(encode_text_input(m, in, texts[i], &line, t, i), "text %zu", i);
    sr1__buf_free(&line);
    return status;
}

sr1_status sr1__text_model_run(const struct sr1__text_model *m,
                               const struct sr1__text_input *in, const char *const *texts,
                               size_t n, int64_t batch_tokens, float *out)
{
    struct encoded t = {.n = n};
    sr1_status status = encode_text_inputs(m, in, texts, &t);

    if (status == SR1_OK)
        status = sr1__encoder_run(m->encoder, t.texts, n, batch_tokens, out);
    encoded_free(&t);
    return status;
}
