/* text/tokenizer/train_write.c - write a learned vocabulary as Hugging Face files. */
#include "text/tokenizer/chat.h"
#include "text/tokenizer/tokenizer_files.h"
#include "text/tokenizer/train.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

/* ChatML with the empty think form; chat_family.c knows it as "chatml-think". */
static const char chat_template[] =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}"
    "{%- endif %}";

static void put_json_string(struct sr1__buf *b, const char *text)
{
    sr1__json_python_text(text, strlen(text), b);
}

/* A token in the byte alphabet, quoted. */
static sr1_status put_token(struct sr1__buf *b, const struct sr1__vocab *v, uint32_t id)
{
    struct sr1__buf text;
    size_t n = 0;
    const char *bytes = sr1__vocab_bytes(v, id, &n);
    sr1_status status;

    sr1__buf_init(&text, 0);
    sr1__alphabet_encode(bytes, n, &text);
    status = sr1__buf_status(&text, "tokenizer.json");
    sr1__json_python_text(sr1__buf_cstr(&text), text.len, b);
    sr1__buf_free(&text);
    return status;
}

static void put_added_token(struct sr1__buf *b, const char *text, uint32_t id,
                            int special, int first)
{
    sr1__buf_fmt(b, "%s\n    {\"id\": %u, \"content\": ", first ? "" : ",", id);
    put_json_string(b, text);
    sr1__buf_fmt(b,
                 ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                 "\"normalized\": false, \"special\": %s}",
                 special ? "true" : "false");
}

static void put_added(struct sr1__buf *b, const struct sr1__added_names *names,
                      uint32_t id)
{
    for (size_t i = 0; i < names->n_special; i++)
        put_added_token(b, names->special[i], id++, 1, i == 0);
    for (size_t i = 0; i < names->n_other; i++)
        put_added_token(b, names->other[i], id++, 0, i == 0 && names->n_special == 0);
}

static const char byte_level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                 "\"trim_offsets\": false, \"use_regex\": false}";

static sr1_status put_model(struct sr1__buf *b, const struct sr1__learnt *l)
{
    sr1__buf_str(b, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                    "    \"unk_token\": null,\n    \"continuing_subword_prefix\": \"\",\n"
                    "    \"end_of_word_suffix\": \"\",\n    \"fuse_unk\": false,\n"
                    "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                    "    \"vocab\": {");
    for (uint32_t id = 0; id < l->vocab.n; id++) {
        sr1__buf_str(b, id ? ",\n      " : "\n      ");
        SR1__TRY(put_token(b, &l->vocab, id));
        sr1__buf_fmt(b, ": %u", id);
    }
    sr1__buf_str(b, "\n    },\n    \"merges\": [");
    for (uint32_t i = 0; i < l->n_merges; i++) {
        sr1__buf_str(b, i ? ",\n      [" : "\n      [");
        SR1__TRY(put_token(b, &l->vocab, l->merges[i].left));
        sr1__buf_str(b, ", ");
        SR1__TRY(put_token(b, &l->vocab, l->merges[i].right));
        sr1__buf_char(b, ']');
    }
    sr1__buf_str(b, "\n    ]\n  }\n");
    return SR1_OK;
}

static sr1_status tokenizer_json(struct sr1__buf *b, const struct sr1__learnt *l,
                                 const struct sr1__added_names *names)
{
    sr1__buf_str(b, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                    "  \"padding\": null,\n  \"added_tokens\": [");
    put_added(b, names, l->vocab.n);
    sr1__buf_str(b, "\n  ],\n  \"normalizer\": {\"type\": \"NFC\"},\n"
                    "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"
                    "    {\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    put_json_string(b, sr1__pattern_qwen);
    sr1__buf_fmt(b,
                 "}, \"behavior\": \"Isolated\", \"invert\": false},\n    %s\n  ]},\n"
                 "  \"post_processor\": %s,\n  \"decoder\": %s,\n",
                 byte_level, byte_level, byte_level);
    SR1__TRY(put_model(b, l));
    sr1__buf_str(b, "}\n");
    return sr1__buf_status(b, "tokenizer.json");
}

static int is_special_name(const struct sr1__added_names *names, const char *text)
{
    for (size_t i = 0; i < names->n_special; i++)
        if (strcmp(names->special[i], text) == 0)
            return 1;
    return 0;
}

/* "key": "text" where the special token is there, else null. */
static void put_role(struct sr1__buf *b, const struct sr1__added_names *names,
                     const char *key, const char *text)
{
    sr1__buf_fmt(b, "  \"%s\": ", key);
    if (is_special_name(names, text))
        put_json_string(b, text);
    else
        sr1__buf_str(b, "null");
    sr1__buf_str(b, ",\n");
}

static sr1_status write_config_json(struct sr1__buf *b,
                                    const struct sr1__added_names *names)
{
    sr1__buf_str(b, "{\n");
    if (is_special_name(names, "<|im_start|>") && is_special_name(names, "<|im_end|>")) {
        sr1__buf_str(b, "  \"chat_template\": ");
        put_json_string(b, chat_template);
        sr1__buf_str(b, ",\n");
    }
    sr1__buf_str(b, "  \"bos_token\": null,\n");
    put_role(b, names, "eos_token", "<|im_end|>");
    put_role(b, names, "pad_token", "<|endoftext|>");
    sr1__buf_str(b, "  \"unk_token\": null,\n  \"add_prefix_space\": false,\n"
                    "  \"clean_up_tokenization_spaces\": false,\n"
                    "  \"errors\": \"replace\",\n"
                    "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
    return sr1__buf_status(b, "tokenizer_config.json");
}

static sr1_status replace_in(const char *dir, const char *name, const struct sr1__buf *b)
{
    char *path = sr1__path_join(dir, name);
    sr1_status status;

    SR1__CHECK_ALLOC(path, name);
    status = sr1__file_replace(path, sr1__buf_cstr(b), b->len);
    sr1__free(path);
    return status;
}

sr1_status sr1__learnt_write(const struct sr1__learnt *l,
                             const struct sr1__added_names *names, const char *dir)
{
    static const char *const written[] = {"tokenizer.json", "tokenizer_config.json"};
    struct sr1__buf tokenizer, config;
    sr1_status status;

    sr1__buf_init(&tokenizer, 0);
    sr1__buf_init(&config, 0);
    status = tokenizer_json(&tokenizer, l, names);
    if (status == SR1_OK)
        status = write_config_json(&config, names);
    if (status == SR1_OK)
        status = sr1__dir_make(dir);
    if (status == SR1_OK)
        status = replace_in(dir, written[0], &tokenizer);
    if (status == SR1_OK)
        status = replace_in(dir, written[1], &config);
    if (status == SR1_OK)
        status = sr1__tokenizer_files_clear(dir, written, 2);
    sr1__buf_free(&tokenizer);
    sr1__buf_free(&config);
    return status;
}
