/* text/tokenizer/tokenizer.c - the handle: references, look-ups, opening and saving. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define FILE_MAX ((size_t)256 << 20)

/* A tokenizer's files, as Hugging Face folders name them. */
static const char *const file_names[] = {"tokenizer.json",      "tokenizer_config.json",
                                         "chat_template.jinja", "special_tokens_map.json",
                                         "added_tokens.json",   "vocab.json",
                                         "merges.txt",          "generation_config.json",
                                         "vocab.txt",           "spiece.model"};

sr1_tokenizer *sr1__tokenizer_ref(sr1_tokenizer *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
    return t;
}

static void free_parts(sr1_tokenizer *t)
{
    sr1__vocab_free(&t->vocab);
    sr1__vocab_free(&t->shown);
    sr1__normalizer_free(&t->normaliser);
    sr1__free(t->decoder.prefix);
    sr1__trie_free(&t->trie);
    sr1__free(t->scores);
    sr1__merges_free(&t->merges);
    sr1__pattern_free(t->pattern);
    sr1__added_free(&t->added);
    sr1__added_free(&t->added_normalised);
    sr1__free(t->folder);
}

void sr1_tokenizer_free(sr1_tokenizer *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) > 1)
        return;
    if (t->base)
        sr1_tokenizer_free(t->base);
    else
        free_parts(t);
    sr1__free(t->default_system);
    sr1__free(t);
}

int32_t sr1_tokenizer_vocab_size(const sr1_tokenizer *t)
{
    return t ? (int32_t)t->vocab.n : 0;
}

sr1_status sr1__needs_byte_level(const sr1_tokenizer *t, const char *what)
{
    return t->model->byte_level
               ? SR1_OK
               : sr1__fail(SR1_E_UNSUPPORTED,
                           "%s: needs a byte-level BPE tokenizer (Qwen2.5, Qwen3); this "
                           "one is %s, which encodes and decodes whole texts only",
                           what, t->model->type);
}

static int32_t found_id(uint32_t id)
{
    return id == SR1__NO_TOKEN ? -1 : (int32_t)id;
}

/* A vocabulary entry as tokenizer.json writes it; entries longer than any real one is are
 * not looked for. */
static int32_t model_id(const sr1_tokenizer *t, const char *token, size_t n)
{
    char bytes[2048];
    size_t len = 0;

    if (!t->model->byte_level)
        return found_id(sr1__vocab_find(&t->vocab, token, n));
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int took = sr1__utf8_next(token + i, n - i, &cp);
        int byte = took > 0 ? sr1__char_byte(cp) : -1;

        if (byte < 0 || len == sizeof bytes)
            return -1;
        bytes[len++] = (char)byte;
        i += (size_t)took;
    }
    return found_id(sr1__vocab_find(&t->vocab, bytes, len));
}

int32_t sr1_tokenizer_token_to_id(const sr1_tokenizer *t, const char *token)
{
    int32_t id;
    size_t n;

    if (!t || !token)
        return -1;
    n = strlen(token);
    id = sr1__added_exact(&t->added, token, n);
    if (id < 0)
        id = sr1__added_exact(&t->added_normalised, token, n);
    return id < 0 ? model_id(t, token, n) : id;
}

int32_t sr1_tokenizer_special_id(const sr1_tokenizer *t, int32_t role)
{
    return t && role >= 0 && role < SR1__TOKEN_ROLES ? t->role_id[role] : -1;
}

const int32_t *sr1_tokenizer_stop_ids(const sr1_tokenizer *t, size_t *count)
{
    if (count)
        *count = t ? t->n_stop_ids : 0;
    return t ? t->stop_ids : NULL;
}

int sr1__tokenizer_stops(const sr1_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->n_stop_ids; i++)
        if (t->stop_ids[i] == id)
            return 1;
    return 0;
}

static sr1_status open_tokenizer_json(sr1_tokenizer **out, const char *path)
{
    struct sr1__map map = {0};
    sr1_status status;

    SR1__TRY(sr1__map_open(&map, path));
    if (map.size > FILE_MAX)
        status = sr1__fail(SR1_E_LIMIT, "%s: larger than %zu MiB", path, FILE_MAX >> 20);
    else
        status = sr1__tokenizer_parse(out, (const char *)map.data, map.size, path);
    sr1__map_close(&map);
    return status;
}

/* SentencePiece's own file: its vocabulary is there, how Hugging Face uses it is not. */
static sr1_status refuse_sentencepiece(sr1_tokenizer **out, const char *path)
{
    (void)out;
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s is SentencePiece's own format; write tokenizer.json beside it: "
                     "python3 -c 'from transformers import AutoTokenizer as A; "
                     "A.from_pretrained(\"FOLDER\").save_pretrained(\"FOLDER\")'",
                     path);
}

/* The files that a folder's tokenizer can be read from; the first existing one is used.
 */
static const struct {
    const char *name;
    sr1_status (*open)(sr1_tokenizer **out, const char *path);
} sources[] = {
    {"tokenizer.json", open_tokenizer_json},
    {"vocab.txt", sr1__bert_vocab_open},
    {"spiece.model", refuse_sentencepiece},
    {"sentencepiece.bpe.model", refuse_sentencepiece},
    {"tokenizer.model", refuse_sentencepiece},
};

static sr1_status open_source(sr1_tokenizer **out, const char *folder)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        char *path = sr1__path_join(folder, sources[i].name);
        int there = path && sr1__path_exists(path);
        sr1_status status = path ? SR1_OK : sr1__fail_nomem("tokenizer");

        if (there)
            status = sources[i].open(out, path);
        sr1__free(path);
        if (there || status != SR1_OK)
            return status;
    }
    return sr1__fail(
        SR1_E_NOT_FOUND,
        "%s holds no tokenizer.json; copy the model's there, or name a folder "
        "that holds it (key 'tokenizer', option --tokenizer)",
        folder);
}

static sr1_status open_tokenizer_folder(sr1_tokenizer **out, const char *folder)
{
    SR1__TRY(open_source(out, folder));
    return sr1__tokenizer_read_config(*out, folder);
}

sr1_status sr1_tokenizer_open(sr1_tokenizer **out, const char *path)
{
    sr1_tokenizer *t = NULL;
    int is_dir;
    sr1_status status;

    if (!out || !path)
        return sr1__fail(SR1_E_INVALID, "tokenizer: out and path are needed");
    is_dir = sr1__path_is_dir(path);
    status = is_dir ? open_tokenizer_folder(&t, path) : open_tokenizer_json(&t, path);
    if (status == SR1_OK && is_dir) {
        t->folder = sr1__strdup(path);
        status = t->folder ? SR1_OK : sr1__fail_nomem("tokenizer");
    }
    SR1__RETURN_NEW(out, t, status, sr1_tokenizer_free);
}

/* Copy one file where it is there. */
static sr1_status copy_tokenizer_file(const char *from_dir, const char *to_dir,
                                      const char *name)
{
    char *from = sr1__path_join(from_dir, name), *to = sr1__path_join(to_dir, name);
    struct sr1__buf bytes;
    sr1_status status = SR1_OK;

    sr1__buf_init(&bytes, 0);
    if (!from || !to)
        status = sr1__fail_nomem("saving the tokenizer");
    else if (sr1__path_exists(from))
        status = sr1__file_read(from, FILE_MAX, &bytes);
    if (status == SR1_OK && sr1__path_exists(from))
        status = sr1__file_replace(to, sr1__buf_cstr(&bytes), bytes.len);
    sr1__buf_free(&bytes);
    sr1__free(from);
    sr1__free(to);
    return status;
}

sr1_status sr1_tokenizer_save(const sr1_tokenizer *t, const char *dir)
{
    if (!t || !dir)
        return sr1__fail(SR1_E_INVALID, "tokenizer: a tokenizer and a folder are needed");
    if (!t->folder)
        return sr1__fail(SR1_E_STATE, "this tokenizer was not opened from a folder");
    for (size_t i = 0; i < sizeof file_names / sizeof file_names[0]; i++)
        SR1__TRY(copy_tokenizer_file(t->folder, dir, file_names[i]));
    return SR1_OK;
}
