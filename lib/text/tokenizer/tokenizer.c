/* text/tokenizer/tokenizer.c - the handle: references, look-ups, opening and saving. */
#include "text/tokenizer/tokenizer_files.h"
#include "text/tokenizer/chat.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "config/model_folder.h"

#include <stddef.h>
#include <string.h>

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
    sr1__vocab_free(&t->spelled);
    sr1__decoder_steps_free(&t->decoder.steps);
    sr1__normalizer_free(&t->normaliser);
    sr1__free(t->decoder.prefix);
    sr1__trie_free(&t->trie);
    sr1__free(t->scores);
    sr1__merges_free(&t->merges);
    for (size_t i = 0; i < t->n_splits; i++)
        sr1__pattern_free(t->splits[i]);
    sr1__added_free(&t->added);
    sr1__added_free(&t->added_normalised);
    for (size_t i = 0; i < SR1__TEMPLATE_TOKENS; i++)
        sr1__free(t->template_tokens[i]);
    json_decref(t->more_tokens);
    sr1__chat_templates_free(&t->chat_templates);
    sr1__tokenizer_files_free(t->files);
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
    sr1__chat_program_release(t->program);
    sr1__free(t);
}

sr1_status sr1__tokenizer_view(sr1_tokenizer **out, sr1_tokenizer *t)
{
    const size_t parts = offsetof(sr1_tokenizer, model);
    char *system = t->default_system ? sr1__strdup(t->default_system) : NULL;
    sr1_tokenizer *view = sr1__calloc(1, sizeof *view);

    if (!view || (t->default_system && !system)) {
        sr1__free(system);
        sr1__free(view);
        return sr1__fail_nomem("tokenizer");
    }
    memcpy((char *)view + parts, (const char *)t + parts, sizeof *view - parts);
    atomic_init(&view->references, 1);
    view->base = sr1__tokenizer_ref(t);
    view->program = sr1__chat_program_retain(t->program);
    view->default_system = system;
    *out = view;
    return SR1_OK;
}

int32_t sr1_tokenizer_vocab_size(const sr1_tokenizer *t)
{
    return t ? (int32_t)t->vocab.n : 0;
}

sr1_status sr1__needs_bpe(const sr1_tokenizer *t, const char *what)
{
    return t->model->generates
               ? SR1_OK
               : sr1__fail(SR1_E_UNSUPPORTED,
                           "%s: needs a BPE tokenizer (Qwen, Llama, Gemma); this one is "
                           "%s, which encodes and decodes whole texts only",
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

    if (!t->model->alphabet)
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

/* One more of the texts is in text_ids, if it is a special token. */
static sr1_status add_text_id(sr1_tokenizer *t, const char *text)
{
    int32_t id = sr1_tokenizer_token_to_id(t, text);

    if (!sr1__tokenizer_is_special(t, id))
        return SR1_OK;
    if (t->n_text_ids == SR1__TEXT_IDS_MAX)
        return sr1__fail(SR1_E_LIMIT, "tokenizer: more than %d special tokens are text",
                         SR1__TEXT_IDS_MAX);
    t->text_ids[t->n_text_ids++] = id;
    return SR1_OK;
}

sr1_status sr1__tokenizer_with_text(sr1_tokenizer **out, sr1_tokenizer *t,
                                    const char *const *texts, size_t n)
{
    sr1_tokenizer *view;
    sr1_status status;

    SR1__TRY(sr1__tokenizer_view(&view, t));
    status = SR1_OK;
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = add_text_id(view, texts[i]);
    SR1__RETURN_NEW(out, view, status, sr1_tokenizer_free);
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
    struct sr1__buf bytes;
    sr1_status status;

    SR1__TRY(sr1__file_read(path, SR1__TOKENIZER_FILE_MAX, &bytes));
    status = sr1__tokenizer_parse(out, sr1__buf_cstr(&bytes), bytes.len, path);
    sr1__buf_free(&bytes);
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

/* The other files that a folder's tokenizer can be read from; the first existing one is
 * used. */
static const struct {
    const char *name;
    sr1_status (*open)(sr1_tokenizer **out, const char *path);
} sources[] = {
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
        "that holds it (key 'tokenizer'; of sr1-data, --tokenizer)",
        folder);
}

/* From the bytes that are kept, so that they are what was read. */
static sr1_status parse_kept(sr1_tokenizer **out, const struct sr1__buf *kept,
                             const char *folder)
{
    char *path = sr1__path_join(folder, "tokenizer.json");
    sr1_status status =
        path ? sr1__tokenizer_parse(out, sr1__buf_cstr(kept), kept->len, path)
             : sr1__fail_nomem("tokenizer");

    sr1__free(path);
    return status;
}

static sr1_status open_tokenizer_files(sr1_tokenizer **out, const char *folder,
                                       const char *spare)
{
    struct sr1__tokenizer_files *files = NULL;
    const struct sr1__buf *kept;
    sr1_status status;

    SR1__TRY(sr1__tokenizer_files_read(&files, folder, spare));
    kept = sr1__tokenizer_files_find(files, "tokenizer.json");
    status = kept ? parse_kept(out, kept, folder) : open_source(out, folder);
    if (status != SR1_OK) {
        sr1__tokenizer_files_free(files);
        return status;
    }
    (*out)->files = files;
    return sr1__tokenizer_read_config(*out, folder, spare);
}

static sr1_status open_tokenizer_folder(sr1_tokenizer **out, const char *folder,
                                        const char *base)
{
    char *spare = NULL;
    sr1_status status;

    SR1__TRY(sr1__model_spare_folder(&spare, folder, base));
    status = open_tokenizer_files(out, folder, spare);
    sr1__free(spare);
    return status;
}

sr1_status sr1__tokenizer_open_on(sr1_tokenizer **out, const char *path, const char *base)
{
    sr1_tokenizer *t = NULL;
    sr1_status status = sr1__path_is_dir(path) ? open_tokenizer_folder(&t, path, base)
                                               : open_tokenizer_json(&t, path);

    SR1__RETURN_NEW(out, t, status, sr1_tokenizer_free);
}

sr1_status sr1_tokenizer_open(sr1_tokenizer **out, const char *path)
{
    if (!out || !path)
        return sr1__fail(SR1_E_INVALID, "tokenizer: out and path are needed");
    return sr1__tokenizer_open_on(out, path, NULL);
}

static void add_to_hash(const struct sr1__buf *bytes, uint64_t *hash)
{
    if (bytes)
        *hash = sr1__hash64(sr1__buf_cstr(bytes), bytes->len, *hash + 1);
}

void sr1__tokenizer_hash_files(const sr1_tokenizer *t, int more, uint64_t *hash)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        SR1__CHAT_TEMPLATE_FILE};
    const struct sr1__buf *text;

    if (!t->files)
        return;
    for (size_t i = 0; !more && i < sizeof names / sizeof names[0]; i++)
        add_to_hash(sr1__tokenizer_files_find(t->files, names[i]), hash);
    if (!more)
        return;
    add_to_hash(sr1__tokenizer_files_find(t->files, "generation_config.json"), hash);
    for (size_t i = 0; sr1__tokenizer_files_template(t->files, i, &text); i++)
        add_to_hash(text, hash);
}

sr1_status sr1__tokenizer_check_saved(const sr1_tokenizer *t)
{
    return t->files ? SR1_OK
                    : sr1__fail(
                          SR1_E_STATE,
                          "the tokenizer was opened from its file alone; open the folder "
                          "that the file is in, whose other files are saved too");
}

sr1_status sr1_tokenizer_save(const sr1_tokenizer *t, const char *dir)
{
    if (!t || !dir)
        return sr1__fail(SR1_E_INVALID, "tokenizer: a tokenizer and a folder are needed");
    SR1__TRY(sr1__tokenizer_check_saved(t));
    return sr1__tokenizer_files_write(t->files, dir);
}
