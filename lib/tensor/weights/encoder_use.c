/* tensor/weights/encoder_use.c - the sentence-transformers files of a folder, else a
 * table of names.
 *
 *     modules.json                        [{"type": "....Pooling", "path": "1_Pooling"}]
 *     1_Pooling/config.json               {"pooling_mode_mean_tokens": true, ...}
 *     sentence_bert_config.json           {"max_seq_length": 256, "do_lower_case": false}
 *     config_sentence_transformers.json   {"prompts": {"query": "query: "}}
 *
 * Without these files, pooling and prefixes follow from the folder's name (E5, BGE, DPR),
 * as in Search-R1's retriever. */
#include "tensor/weights/encoder_use.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tensor/weights/hf_keys.h"

#include <inttypes.h>
#include <string.h>

#define REMEDY "use a model with mean or cls pooling"

/* The first row whose name is a word of the folder's, else that of the architecture. */
static const struct style_row {
    const char *name;
    const char *query_prefix;
    const char *document_prefix;
    int32_t pooling;
    int32_t normalize;
} styles[] = {
    {"bge", "Represent this sentence for searching relevant passages: ", "",
     SR1__POOL_CLS, 1},
    {"e5", "query: ", "passage: ", SR1__POOL_MEAN, 1},
    {"dpr", "", "", SR1__POOL_CLS, 0},
    {"", "", "", SR1__POOL_MEAN, 1},
};
static const struct style_row dpr_style = {"", "", "", SR1__POOL_CLS, 0};
static const struct style_row decoder_style = {"", "", "", SR1__POOL_DECODER, 0};

static const char *const poolings[SR1__POOLINGS] = {"mean", "cls", "decoder"};

sr1_status sr1__pooling_parse(const char *name, int32_t *out)
{
    for (int32_t i = 0; i < SR1__POOLINGS; i++) {
        if (strcmp(name, poolings[i]) == 0) {
            *out = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_INVALID,
                     "pooling '%.60s' is not one of auto, mean, cls, "
                     "decoder",
                     name);
}

const char *sr1__pooling_name(int32_t pooling)
{
    return poolings[pooling];
}

/* ---- by name ---- */

/* The component of a path that ends before `end`; its length in *n. */
static const char *find_path_component(const char *path, size_t end, size_t *n)
{
    size_t begin;

    while (end > 0 && path[end - 1] == '/')
        end--;
    begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    *n = end - begin;
    return path + begin;
}

static int names_equal(const char *a, size_t n, const char *b)
{
    return strlen(b) == n && memcmp(a, b, n) == 0;
}

/* The folder's own name; in the hub's cache, models--NAME/snapshots/HASH, that of the
 * model. */
static const char *folder_name(const char *folder, size_t *n)
{
    const char *last = find_path_component(folder, strlen(folder), n);
    size_t n_parent = 0;
    const char *parent = find_path_component(folder, (size_t)(last - folder), &n_parent);

    if (names_equal(parent, n_parent, "snapshots"))
        return find_path_component(folder, (size_t)(parent - folder), n);
    return last;
}

static char fold_name_char(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int is_word_char(char c)
{
    c = fold_name_char(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Is it a word of the name, between characters that are neither letters nor digits? ""
 * is one of every name. */
static int folder_name_has(const char *name, size_t n, const char *word)
{
    size_t k = strlen(word);

    for (size_t i = 0; k > 0 && i + k <= n; i++) {
        size_t j = 0;

        while (j < k && fold_name_char(name[i + j]) == word[j])
            j++;
        if (j == k && (i == 0 || !is_word_char(name[i - 1])) &&
            (i + k == n || !is_word_char(name[i + k])))
            return 1;
    }
    return k == 0;
}

static const struct style_row *
find_style(const char *folder, const struct sr1__encoder_config *config, int has_decoder)
{
    const struct style_row *row = styles;
    size_t n = 0;
    const char *name = folder_name(folder, &n);

    if (config->arch == SR1__ENCODER_DPR)
        return &dpr_style;
    if (config->arch == SR1__ENCODER_T5 && has_decoder)
        return &decoder_style;
    while (!folder_name_has(name, n, row->name))
        row++;
    return row;
}

/* ---- sentence-transformers ---- */

/* A JSON file of the folder; NULL when it is not there. */
static sr1_status load_encoder_json(const char *folder, const char *sub, const char *file,
                                    char **path, json_t **out)
{
    char *within = sr1__path_join(sub, file);
    sr1_status status = SR1_OK;

    *path = within ? sr1__path_join(folder, within) : NULL;
    sr1__free(within);
    if (!*path)
        return sr1__fail_nomem("file name");
    if (sr1__path_exists(*path))
        status = sr1__json_load_loose(out, *path, SR1__HF_FILE_MAX);
    return status;
}

/* One file and who reads it. */
typedef sr1_status (*read_fn)(struct sr1__encoder_use *u, const char *folder,
                              const json_t *root, const char *name);

static sr1_status read_encoder_json(struct sr1__encoder_use *u, const char *folder,
                                    const char *sub, const char *file, read_fn read)
{
    char *path = NULL;
    json_t *root = NULL;
    sr1_status status = load_encoder_json(folder, sub, file, &path, &root);

    if (status == SR1_OK && root)
        status = read(u, folder, root, path);
    json_decref(root);
    sr1__free(path);
    return status;
}

static sr1_status read_pooling(struct sr1__encoder_use *u, const char *folder,
                               const json_t *root, const char *name)
{
    static const struct sr1__hf_refused others[] = {
        {"pooling_mode_max_tokens", "the maximum over tokens"},
        {"pooling_mode_mean_sqrt_len_tokens", "a sum over the root of the length"},
        {"pooling_mode_weightedmean_tokens", "a weighted mean"},
        {"pooling_mode_lasttoken", "the last token"},
    };
    const char *mode = NULL;
    int32_t prompt = 1;
    int32_t mean = 0;
    int32_t cls = 0;

    (void)folder;
    SR1__TRY(
        sr1__hf_refuse_all(root, others, sizeof others / sizeof *others, REMEDY, name));
    SR1__TRY(sr1__hf_flag(root, "pooling_mode_mean_tokens", name, &mean));
    SR1__TRY(sr1__hf_flag(root, "pooling_mode_cls_token", name, &cls));
    SR1__TRY(sr1__hf_flag(root, "include_prompt", name, &prompt));
    SR1__TRY(sr1__hf_text(root, "pooling_mode", name, &mode));
    if (!prompt)
        return sr1__hf_refuse(name, "include_prompt", "a mean without the prompt",
                              REMEDY);
    if (mode) {
        mean |= strcmp(mode, "mean") == 0;
        cls |= strcmp(mode, "cls") == 0;
    }
    if (mean == cls)
        return sr1__hf_refuse(name, mode ? "pooling_mode" : "pooling_mode_mean_tokens",
                              "this pooling", REMEDY);
    u->pooling = mean ? SR1__POOL_MEAN : SR1__POOL_CLS;
    return SR1_OK;
}

/* The path of a module: one folder beside the model. */
static int is_plain_folder(const char *path)
{
    return path && *path && path[0] != '.' && !strchr(path, '/') && strlen(path) < 256;
}

static sr1_status read_module(struct sr1__encoder_use *u, const char *folder,
                              const json_t *module, const char *name)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *path = json_string_value(json_object_get(module, "path"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    const char *kind = dot ? dot + 1 : type;

    if (!kind)
        return sr1__fail(SR1_E_PARSE, "%s: a module has no 'type'", name);
    if (strcmp(kind, "Transformer") == 0)
        return SR1_OK;
    if (strcmp(kind, "Normalize") == 0) {
        u->normalize = 1;
        return SR1_OK;
    }
    if (strcmp(kind, "Pooling") != 0)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s: module '%.100s' is not supported; "
                         "Transformer, Pooling and Normalize are",
                         name, type);
    if (!is_plain_folder(path))
        return sr1__fail(SR1_E_PARSE, "%s: the 'path' of %.100s is no folder beside it",
                         name, type);
    return read_encoder_json(u, folder, path, "config.json", read_pooling);
}

/* Only listed modules are applied: without Normalize, vectors are not normalised. */
static sr1_status read_modules(struct sr1__encoder_use *u, const char *folder,
                               const json_t *root, const char *name)
{
    const json_t *module;
    size_t i;

    if (!json_is_array(root))
        return sr1__fail(SR1_E_PARSE, "%s: not a list of modules", name);
    u->normalize = 0;
    json_array_foreach((json_t *)(uintptr_t)root, i, module)
        SR1__TRY(read_module(u, folder, module, name));
    return SR1_OK;
}

/* Tokenizers of BERT's kind lower-case texts unless do_lower_case is false; for others
 * the key has no effect. */
static int lowers_by_default(const char *tokenizer)
{
    static const char *const kinds[] = {"Bert", "DistilBert", "MPNet", "Electra"};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(tokenizer, kinds[i], strlen(kinds[i])) == 0)
            return 1;
    return 0;
}

/* sentence-transformers can lower-case texts before tokenizing. That has no effect if the
 * tokenizer lower-cases too; with a cased tokenizer the tokens would differ, so it is
 * refused. */
static sr1_status check_lower(struct sr1__encoder_use *u, const char *folder,
                              const json_t *root, const char *name)
{
    const char *tokenizer = "Bert";
    int32_t lowers;

    (void)u;
    (void)folder;
    SR1__TRY(sr1__hf_text(root, "tokenizer_class", name, &tokenizer));
    lowers = lowers_by_default(tokenizer);
    SR1__TRY(sr1__hf_flag(root, "do_lower_case", name, &lowers));
    if (!lowers)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s: sentence_bert_config.json lowers texts before a tokenizer "
                         "that minds case; that is not supported",
                         name);
    return SR1_OK;
}

static sr1_status read_length(struct sr1__encoder_use *u, const char *folder,
                              const json_t *root, const char *name)
{
    const json_t *length = sr1__json_given(root, "max_seq_length");
    int64_t n = json_integer_value(length);
    int32_t lowers = 0;

    if (length && (!json_is_integer(length) || n < 1))
        return sr1__fail(SR1_E_PARSE, "%s: 'max_seq_length' is not a number of tokens",
                         name);
    if (length && n < u->max_tokens)
        u->max_tokens = n;
    SR1__TRY(sr1__hf_flag(root, "do_lower_case", name, &lowers));
    return lowers ? read_encoder_json(u, folder, "", "tokenizer_config.json", check_lower)
                  : SR1_OK;
}

/* The file's default prompt is empty; an empty prompt leaves *out unchanged. */
static sr1_status read_prompt(const json_t *prompts, const char *key, const char *name,
                              char **out)
{
    const char *text = "";
    char *copy;

    SR1__TRY(sr1__hf_text(prompts, key, name, &text));
    if (!*text)
        return SR1_OK;
    copy = sr1__strdup(text);
    SR1__CHECK_ALLOC(copy, "prompt");
    sr1__free(*out);
    *out = copy;
    return SR1_OK;
}

static sr1_status read_prompts(struct sr1__encoder_use *u, const char *folder,
                               const json_t *root, const char *name)
{
    const json_t *prompts = sr1__json_given(root, "prompts");

    (void)folder;
    SR1__TRY(read_prompt(prompts, "query", name, &u->query_prefix));
    SR1__TRY(read_prompt(prompts, "passage", name, &u->document_prefix));
    return read_prompt(prompts, "document", name, &u->document_prefix);
}

/* ---- the whole ---- */

static sr1_status load_encoder_use(struct sr1__encoder_use *u, const char *folder,
                                   const struct sr1__encoder_config *config,
                                   int has_decoder)
{
    const struct style_row *style = find_style(folder, config, has_decoder);

    u->pooling = style->pooling;
    u->normalize = style->normalize;
    u->max_tokens = config->max_positions;
    u->query_prefix = sr1__strdup(style->query_prefix);
    u->document_prefix = sr1__strdup(style->document_prefix);
    SR1__CHECK_ALLOC(u->query_prefix && u->document_prefix, "prefix");
    SR1__TRY(read_encoder_json(u, folder, "", "modules.json", read_modules));
    SR1__TRY(read_encoder_json(u, folder, "", "sentence_bert_config.json", read_length));
    return read_encoder_json(u, folder, "", "config_sentence_transformers.json",
                             read_prompts);
}

sr1_status sr1__encoder_use_load(struct sr1__encoder_use *out, const char *folder,
                                 const struct sr1__encoder_config *config,
                                 int has_decoder)
{
    struct sr1__encoder_use u = {0};
    sr1_status status = load_encoder_use(&u, folder, config, has_decoder);

    if (status != SR1_OK) {
        sr1__encoder_use_free(&u);
        return status;
    }
    *out = u;
    return SR1_OK;
}

void sr1__encoder_use_free(struct sr1__encoder_use *u)
{
    sr1__free(u->query_prefix);
    sr1__free(u->document_prefix);
    *u = (struct sr1__encoder_use){0};
}
