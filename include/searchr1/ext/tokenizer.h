/* searchr1/ext/tokenizer.h - BPE tokenizers (Qwen, Llama, Gemma) and their chat
 * prompts; WordPiece (BERT, E5, BGE, MiniLM, DPR) and Unigram (T5, XLM-R) tokenizers of
 * text encoders.
 *
 * Reads and writes Hugging Face folders; ids, decoded text and chat prompts equal those
 * of the reference implementation.
 *
 * Ownership: free a tokenizer with sr1_tokenizer_free, a stream with
 *            sr1_token_stream_free; a stream keeps its own reference to its tokenizer.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   a tokenizer never changes once open: any number of threads may use one at
 *            a time. A stream serves one thread at a time.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_TOKENIZER_H
#define SEARCHR1_EXT_TOKENIZER_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_tokenizer sr1_tokenizer;
typedef struct sr1_token_stream sr1_token_stream;
typedef struct sr1_rollout sr1_rollout; /* searchr1/rollout.h */

/* Open a Hugging Face folder (tokenizer.json; tokenizer_config.json, chat_template.jinja,
 * generation_config.json and config.json where they exist), a tokenizer.json alone, or a
 * folder of BERT with vocab.txt only. The model may be BPE (of bytes or of text),
 * WordPiece or Unigram; SR1_E_UNSUPPORTED names anything else that a file asks for. Chat
 * prompts and streams work for BPE only, else they are SR1_E_UNSUPPORTED. What the folder
 * of a LoRA adapter lacks (the tokenizer, the chat template, generation_config.json,
 * config.json) is that of its base. Caller frees with sr1_tokenizer_free. */
SR1_API sr1_status sr1_tokenizer_open(sr1_tokenizer **out, const char *path);

/* Free a tokenizer. NULL is fine. */
SR1_API void sr1_tokenizer_free(sr1_tokenizer *tokenizer);

/* Write the tokenizer's files, without the model's, into dir, which must exist: as they
 * were in its folder when it was opened. Tokenizer files in dir that its folder did not
 * have (chat_template.jinja, vocab.json, generation_config.json, ...) are removed.
 * SR1_E_STATE: the tokenizer was opened from a file alone. */
SR1_API sr1_status sr1_tokenizer_save(const sr1_tokenizer *tokenizer, const char *dir);

/* What becomes of added tokens ("<|im_end|>", "<think>") that occur in a text. */
enum {
    SR1_ENCODE_ALL_ADDED = 0,       /* they are recognised */
    SR1_ENCODE_SPECIAL_AS_TEXT = 1, /* those marked special are plain text */
    SR1_ENCODE_ADDED_AS_TEXT = 2,   /* all are plain text: for text from outside */
    /* Added to one of these: the text continues another, so nothing is put in front of
     * it, as tokenizers made from SentencePiece put a space. */
    SR1_ENCODE_CONTINUED = 4
};

/* Encode text [n] (NUL bytes allowed, n below 2^28) with mode SR1_ENCODE_* into *ids
 * [*n_ids]. Bytes that are not UTF-8 count as U+FFFD, one for each maximal subpart, as
 * with Python's errors="replace". No special token is added. Caller frees *ids with
 * sr1_free. */
SR1_API sr1_status sr1_tokenizer_encode(const sr1_tokenizer *tokenizer, const char *text,
                                        size_t n, int32_t mode, int32_t **ids,
                                        size_t *n_ids);

/* Encode the input of an encoder: text, or text and pair (NULL: none), with the special
 * tokens of the file's post-processor ("[CLS] a [SEP] b [SEP]", "a </s>"), cut to
 * max_tokens, special tokens included, as transformers does with truncation=True: of two
 * texts the longer one is cut first. Texts are NUL-terminated UTF-8; bytes that are not
 * UTF-8 count as U+FFFD; added tokens within them are recognised. Caller frees *ids and
 * *type_ids [*n_ids] with sr1_free; type_ids may be NULL. SR1_E_INVALID: the special
 * tokens alone exceed max_tokens. */
SR1_API sr1_status sr1_tokenizer_encode_input(const sr1_tokenizer *tokenizer,
                                              const char *text, const char *pair,
                                              size_t max_tokens, int32_t **ids,
                                              int32_t **type_ids, size_t *n_ids);

/* Decode ids [n_ids]. Ids without a token add nothing; bytes that are not UTF-8 become
 * U+FFFD. skip_special 1 leaves out special tokens. *text is NUL-terminated UTF-8 of *n
 * bytes (n may be NULL); caller frees it with sr1_free. */
SR1_API sr1_status sr1_tokenizer_decode(const sr1_tokenizer *tokenizer,
                                        const int32_t *ids, size_t n_ids,
                                        int32_t skip_special, char **text, size_t *n);

/* Return the number of ids: the largest id + 1. */
SR1_API int32_t sr1_tokenizer_vocab_size(const sr1_tokenizer *tokenizer);

/* Return the id of an added token by its text, or of a vocabulary entry as tokenizer.json
 * writes it; -1 if there is none. */
SR1_API int32_t sr1_tokenizer_token_to_id(const sr1_tokenizer *tokenizer,
                                          const char *token);

/* Tokens with a role. */
enum {
    SR1_TOKEN_EOS = 0, /* tokenizer_config's eos_token, else the first of the stop ids */
    SR1_TOKEN_PAD = 1, /* tokenizer_config's pad_token, else <|endoftext|>, [PAD] or
                          <pad>, else eos */
    SR1_TOKEN_BOS = 2,
    SR1_TOKEN_IM_START = 3,
    SR1_TOKEN_IM_END = 4,
    SR1_TOKEN_ENDOFTEXT = 5
};

/* Return the id of the token with this role, SR1_TOKEN_*; -1 if there is none. */
SR1_API int32_t sr1_tokenizer_special_id(const sr1_tokenizer *tokenizer, int32_t role);

/* Return the ids that end a generation, int32 [*count], each once: eos_token, then
 * eos_token_id of generation_config.json or, without that file, of config.json. Borrowed
 * until the tokenizer is freed. */
SR1_API const int32_t *sr1_tokenizer_stop_ids(const sr1_tokenizer *tokenizer,
                                              size_t *count);

/* Make a streaming decoder, which takes ids and gives whole characters. Its texts in
 * sequence are the text that sr1_tokenizer_decode gives for all the ids; but of a BPE of
 * text a space in front stays, and bytes beside one another that are not UTF-8 together
 * become characters where some of them are. The tokenizer is
 * retained. Caller frees with sr1_token_stream_free. */
SR1_API sr1_status sr1_token_stream_new(sr1_token_stream **out, sr1_tokenizer *tokenizer,
                                        int32_t skip_special);

/* Free a stream. NULL is fine. */
SR1_API void sr1_token_stream_free(sr1_token_stream *stream);

/* Add an id and get the characters that it completes; *n may be 0. *text is borrowed
 * until the next call on the stream. */
SR1_API sr1_status sr1_token_stream_push(sr1_token_stream *stream, int32_t id,
                                         const char **text, size_t *n);

/* End the text: a character that is still incomplete becomes U+FFFD. The stream is then
 * ready for another text. *text is NUL-terminated UTF-8 of *n bytes, "" where nothing
 * was held, and borrowed until the next call on the stream. */
SR1_API sr1_status sr1_token_stream_finish(sr1_token_stream *stream, const char **text,
                                           size_t *n);

/* How a conversation is rendered. Fill struct_size; zeros elsewhere are the defaults. */
typedef struct sr1_chat_options {
    size_t struct_size;            /* set by sr1_chat_options_init */
    int32_t add_generation_prompt; /* 1: end with the opening of an assistant message */
    int32_t no_thinking;           /* 1: enable_thinking=False, the empty think block */
    int32_t recognise_added;       /* 1: added tokens inside contents count, as in the
                                      reference; 0: contents are plain text */
    const char *tools;             /* JSON array of tool descriptions; NULL: none */
} sr1_chat_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_chat_options_init(sr1_chat_options *options);

/* Render n messages by the rules of the chat template, or by running it where it is none
 * that the library knows. roles are "system", "developer", "user", "assistant" or "tool";
 * a developer's message is written as the system's by a template that would leave it out.
 * contents are UTF-8 with lengths in content_sizes (NULL: each
 * ends at its NUL). options may be NULL. *text (NUL-terminated) and *ids [*n_ids] receive
 * the prompt; each result pointer may be NULL. Caller frees *text and *ids with sr1_free.
 * SR1_E_INVALID names a message that cannot be rendered. SR1_E_UNSUPPORTED: there is no
 * template, it cannot be run, or it has no place for tools or their calls. SR1_E_LIMIT:
 * too many messages. */
SR1_API sr1_status sr1_tokenizer_chat(const sr1_tokenizer *tokenizer,
                                      const char *const *roles,
                                      const char *const *contents,
                                      const size_t *content_sizes, size_t n,
                                      const sr1_chat_options *options, char **text,
                                      size_t *text_size, int32_t **ids, size_t *n_ids);

/* Render messages as sr1_tokenizer_chat from a JSON array of objects with "role",
 * "content" (a string or null) and, for the assistant, "reasoning_content" and
 * "tool_calls". */
SR1_API sr1_status sr1_tokenizer_chat_json(const sr1_tokenizer *tokenizer,
                                           const char *messages, size_t n,
                                           const sr1_chat_options *options, char **text,
                                           size_t *text_size, int32_t **ids,
                                           size_t *n_ids);

/* Return the family of rules that the chat functions follow, one of
 * sr1_tokenizer_chat_family_name; "template" when the folder's own template is run, for
 * it is none of a family; "unknown" when there is no template or it cannot be run. Then
 * the chat functions fail until sr1_tokenizer_set_chat_family is called. Static. */
SR1_API const char *sr1_tokenizer_chat_family(const sr1_tokenizer *tokenizer);

/* Return the name of family i, NULL past the last: "qwen3", "qwen3-thinking" (2507: the
 * prompt opens the thought), "qwen3-training" (TRL's: every thought is kept),
 * "qwen3-instruct", "qwen2.5", "chatml-think", "chatml". Static. */
SR1_API const char *sr1_tokenizer_chat_family_name(size_t i);

/* Follow the rules of a family, whatever the template is. No other thread may use the
 * tokenizer meanwhile. SR1_E_NOT_FOUND lists the names. */
SR1_API sr1_status sr1_tokenizer_set_chat_family(sr1_tokenizer *tokenizer,
                                                 const char *name);

/* Return the name of chat template i of the tokenizer's folder, NULL past the last:
 * "default" (chat_template.jinja), then those of additional_chat_templates, or of a list
 * in tokenizer_config.json. Borrowed until the tokenizer is freed. */
SR1_API const char *sr1_tokenizer_chat_template_name(const sr1_tokenizer *tokenizer,
                                                     size_t i);

/* Write conversations by one of these templates. Until this is called it is "default",
 * and with tools "tool_use" where the folder has it, as in transformers. No other thread
 * may use the tokenizer meanwhile. SR1_E_NOT_FOUND lists the names. */
SR1_API sr1_status sr1_tokenizer_set_chat_template(sr1_tokenizer *tokenizer,
                                                   const char *name);

/* Training of small vocabularies. Fill struct_size; zeros elsewhere are the defaults. */
typedef struct sr1_tokenizer_train_options {
    size_t struct_size;                /* set by sr1_tokenizer_train_options_init */
    int32_t vocab_size;                /* all tokens counted; default 1024 */
    int32_t min_frequency;             /* of a pair to be merged; default 2 */
    const char *const *special_tokens; /* NULL: <|endoftext|>, <|im_start|>, <|im_end|> */
    size_t n_special_tokens;
    const char *const *added_tokens; /* not special; NULL: <tool_call>, <think>, ... */
    size_t n_added_tokens;
} sr1_tokenizer_train_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_tokenizer_train_options_init(sr1_tokenizer_train_options *options);

/* Learn a byte-level BPE vocabulary (Qwen's split and NFC) from n texts and write
 * tokenizer.json and tokenizer_config.json (ChatML with the empty think form) into dir,
 * which is made if it is missing. Texts are UTF-8; sizes NULL: each ends at its NUL;
 * weights NULL: each text counts once. Equal input gives equal files: among pairs of
 * equal count the one with the smaller ids is merged. When no pair is left, the
 * vocabulary is smaller than asked for. options may be NULL. */
SR1_API sr1_status sr1_tokenizer_train(const char *const *texts, const size_t *sizes,
                                       const int64_t *weights, size_t n,
                                       const sr1_tokenizer_train_options *options,
                                       const char *dir);

/* ---- of a rollout ---- */

/* Return the tokenizer of a rollout. Borrowed until the rollout is freed. */
SR1_API sr1_tokenizer *sr1_rollout_tokenizer(sr1_rollout *rollout);

#ifdef __cplusplus
}
#endif
#endif
