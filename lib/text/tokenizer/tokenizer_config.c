/* text/tokenizer/tokenizer_config.c - read the files beside tokenizer.json:
 * tokenizer_config.json (tokens with a role, chat template), chat_template.jinja, and the
 * ids that end a generation. */
#include "text/tokenizer/tokenizer_files.h"
#include "text/tokenizer/tokenizer_internal.h"
#include "text/tokenizer/chat.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <string.h>

#define CONFIG_MAX ((size_t)16 << 20)

/* transformers writes int(1e30) where no length is known. *out NULL when the folder has
 * no such file. */
static sr1_status load_json(const char *folder, const char *name, json_t **out)
{
    char *path = sr1__path_join(folder, name);
    sr1_status status = SR1_OK;

    SR1__CHECK_ALLOC(path, name);
    if (sr1__path_exists(path))
        status = sr1__json_load_loose(out, path, CONFIG_MAX);
    sr1__free(path);
    return status;
}

/* The same of a file that is kept. */
static sr1_status parse_kept_json(const sr1_tokenizer *t, const char *name, json_t **out)
{
    const struct sr1__buf *kept = sr1__tokenizer_files_find(t->files, name);

    if (kept && kept->len > CONFIG_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s has %zu bytes, at most %zu are read", name,
                         kept->len, CONFIG_MAX);
    return kept ? sr1__json_parse_loose(out, sr1__buf_cstr(kept), kept->len, name)
                : SR1_OK;
}

/* "eos_token" is a string or an object with "content". */
static sr1_status role_from_config(sr1_tokenizer *t, const json_t *config,
                                   const char *key, int32_t role)
{
    const json_t *value = json_object_get(config, key);
    const char *text;

    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (!value || json_is_null(value))
        return SR1_OK;
    text = json_string_value(value);
    t->role_id[role] = text ? sr1_tokenizer_token_to_id(t, text) : -1;
    if (t->role_id[role] < 0)
        return sr1__fail(
            SR1_E_PARSE,
            "tokenizer_config.json: %s '%s' is not a token of tokenizer.json; copy both "
            "files from one model",
            key, text ? text : "?");
    return SR1_OK;
}

const char *const sr1__template_tokens[SR1__TEMPLATE_TOKENS] = {
    "unk_token", "sep_token", "cls_token", "mask_token"};

/* The text of a token, which may be an object; NULL: none. */
static const json_t *token_text(const json_t *value)
{
    const json_t *content =
        json_is_object(value) ? json_object_get(value, "content") : value;

    return json_is_string(content) ? content : NULL;
}

/* What only templates ask for: the library does not need to know such a token. */
static sr1_status keep_template_tokens(sr1_tokenizer *t, const json_t *config)
{
    const json_t *list = json_object_get(config, "additional_special_tokens"), *item;
    size_t i;

    for (i = 0; i < SR1__TEMPLATE_TOKENS; i++) {
        const json_t *text = token_text(json_object_get(config, sr1__template_tokens[i]));

        t->template_tokens[i] = text ? sr1__strdup(json_string_value(text)) : NULL;
        SR1__CHECK_ALLOC(!text || t->template_tokens[i], "tokenizer");
    }
    if (!json_is_array(list))
        return SR1_OK;
    t->more_tokens = json_array();
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const json_t *text = token_text(item);

        if (text && json_array_append(t->more_tokens, (json_t *)(uintptr_t)text) != 0)
            return sr1__fail_nomem("tokenizer");
    }
    return t->more_tokens ? SR1_OK : sr1__fail_nomem("tokenizer");
}

/* The reference would add tokens that only tokenizer_config.json knows: refuse them. */
static sr1_status check_added(const sr1_tokenizer *t, const json_t *config)
{
    json_t *list = json_object_get(config, "added_tokens_decoder"), *o;
    const char *key;

    json_object_foreach(list, key, o)
    {
        const char *text = json_string_value(json_object_get(o, "content"));
        int32_t id = text ? sr1_tokenizer_token_to_id(t, text) : -1;
        struct sr1__buf number;
        int same;

        sr1__buf_init(&number, 0);
        sr1__buf_fmt(&number, "%d", id);
        same = id >= 0 && strcmp(sr1__buf_cstr(&number), key) == 0;
        if (number.status != SR1_OK)
            return sr1__buf_status(&number, "tokenizer_config.json");
        sr1__buf_free(&number);
        if (!same)
            return sr1__fail(SR1_E_PARSE,
                             "tokenizer_config.json: added token %s ('%s') is not in "
                             "tokenizer.json; copy both files from one model",
                             key, text ? text : "?");
    }
    return SR1_OK;
}

static void add_stop(sr1_tokenizer *t, json_int_t id)
{
    if (id < 0 || id >= t->vocab.n || t->n_stop_ids == SR1__STOP_IDS_MAX)
        return;
    for (size_t i = 0; i < t->n_stop_ids; i++)
        if (t->stop_ids[i] == id)
            return;
    t->stop_ids[t->n_stop_ids++] = (int32_t)id;
}

/* eos_token_id: a number or a list of them. */
static void add_stops(sr1_tokenizer *t, const json_t *config)
{
    const json_t *eos = json_object_get(config, "eos_token_id"), *item;
    size_t i;

    if (json_is_integer(eos))
        add_stop(t, json_integer_value(eos));
    json_array_foreach(eos, i, item) if (json_is_integer(item))
        add_stop(t, json_integer_value(item));
}

static sr1_status read_stops(sr1_tokenizer *t, const char *folder, const char *spare)
{
    json_t *config = NULL;

    SR1__TRY(parse_kept_json(t, "generation_config.json", &config));
    if (!config)
        SR1__TRY(load_json(folder, "config.json", &config));
    if (!config && spare)
        SR1__TRY(load_json(spare, "config.json", &config));
    if (t->role_id[SR1_TOKEN_EOS] >= 0)
        add_stop(t, t->role_id[SR1_TOKEN_EOS]);
    add_stops(t, config);
    json_decref(config);
    if (t->role_id[SR1_TOKEN_EOS] < 0 && t->n_stop_ids)
        t->role_id[SR1_TOKEN_EOS] = t->stop_ids[0];
    return SR1_OK;
}

/* Keep the templates of the base, as files of their own. */
static sr1_status borrow_templates(sr1_tokenizer *t, const char *spare)
{
    struct sr1__chat_templates theirs = {0};
    char *path = sr1__path_join(spare, SR1__CHAT_TEMPLATE_FILE);
    json_t *config = NULL;
    const char *text = NULL;
    struct sr1__buf file;
    sr1_status status = path ? SR1_OK : sr1__fail_nomem("chat template");

    sr1__buf_init(&file, 0);
    if (status == SR1_OK)
        status = sr1__tokenizer_files_read_templates(t->files, spare);
    if (status == SR1_OK && sr1__path_exists(path)) {
        status = sr1__file_read(path, SR1__CHAT_TEMPLATE_MAX, &file);
        text = sr1__buf_cstr(&file);
    } else if (status == SR1_OK && !sr1__tokenizer_files_templates(t->files)) {
        status = load_json(spare, "tokenizer_config.json", &config);
        if (status == SR1_OK)
            status = sr1__chat_templates_read(&theirs, t->files, config);
        text = sr1__chat_templates_find(&theirs, "default");
    }
    if (status == SR1_OK && text)
        status = sr1__tokenizer_files_add(t->files, SR1__CHAT_TEMPLATE_FILE, text);
    sr1__chat_templates_free(&theirs);
    json_decref(config);
    sr1__buf_free(&file);
    sr1__free(path);
    return status;
}

/* As in transformers: "default", and for conversations with tools "tool_use" where the
 * folder has it, also beside one whose rules are known. */
static sr1_status use_templates(sr1_tokenizer *t)
{
    const char *whole = sr1__chat_templates_find(&t->chat_templates, "default");
    const char *tools = sr1__chat_templates_find(&t->chat_templates, "tool_use");

    SR1__TRY(sr1__chat_recognise(t, whole));
    if (!tools || !whole)
        return SR1_OK;
    if (!t->program)
        SR1__TRY(sr1__chat_program_load(t, whole));
    t->family = NULL;
    return sr1__chat_program_add_tools(t, tools);
}

static sr1_status read_templates(sr1_tokenizer *t, const char *spare,
                                 const json_t *config)
{
    const struct sr1__buf *file =
        sr1__tokenizer_files_find(t->files, SR1__CHAT_TEMPLATE_FILE);

    if (file && file->len > SR1__CHAT_TEMPLATE_MAX)
        return sr1__fail(SR1_E_LIMIT,
                         SR1__CHAT_TEMPLATE_FILE " has %zu bytes, at most %zu are read",
                         file->len, SR1__CHAT_TEMPLATE_MAX);
    SR1__TRY(sr1__chat_templates_read(&t->chat_templates, t->files, config));
    if (t->chat_templates.n == 0 && spare) {
        SR1__TRY(borrow_templates(t, spare));
        SR1__TRY(sr1__chat_templates_read(&t->chat_templates, t->files, config));
    }
    return use_templates(t);
}

/* Further settings of the configuration about encoding. */
static void use_input_keys(sr1_tokenizer *t, const json_t *config)
{
    const char *side = json_string_value(json_object_get(config, "truncation_side"));

    t->cut_left = side && strcmp(side, "left") == 0;
    sr1__normalizer_configure(&t->normaliser, config);
}

/* Without a pad_token: the names that Qwen, BERT and T5 give it, then the end token. */
static void choose_pad(sr1_tokenizer *t)
{
    static const char *const names[] = {"<|endoftext|>", "[PAD]", "<pad>"};
    int32_t *pad = &t->role_id[SR1_TOKEN_PAD];

    for (size_t i = 0; *pad < 0 && i < sizeof names / sizeof names[0]; i++)
        *pad = sr1_tokenizer_token_to_id(t, names[i]);
    if (*pad < 0)
        *pad = t->role_id[SR1_TOKEN_EOS];
}

static sr1_status use_config(sr1_tokenizer *t, const char *folder, const char *spare,
                             const json_t *config)
{
    SR1__TRY(role_from_config(t, config, "eos_token", SR1_TOKEN_EOS));
    SR1__TRY(role_from_config(t, config, "pad_token", SR1_TOKEN_PAD));
    SR1__TRY(role_from_config(t, config, "bos_token", SR1_TOKEN_BOS));
    SR1__TRY(keep_template_tokens(t, config));
    SR1__TRY(check_added(t, config));
    use_input_keys(t, config);
    SR1__TRY(read_stops(t, folder, spare));
    choose_pad(t);
    return read_templates(t, spare, config);
}

sr1_status sr1__tokenizer_read_config(sr1_tokenizer *t, const char *folder,
                                      const char *spare)
{
    json_t *config = NULL;
    sr1_status status = parse_kept_json(t, "tokenizer_config.json", &config);

    if (status == SR1_OK)
        status = use_config(t, folder, spare, config);
    json_decref(config);
    return sr1__context(status, "%s", folder);
}
