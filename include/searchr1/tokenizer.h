/* searchr1/tokenizer.h - byte-level BPE tokenizers (Qwen2.5, Qwen3) and their chat
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
 *            a time. A stream serves one thread at a time. */
#ifndef SEARCHR1_TOKENIZER_H
#define SEARCHR1_TOKENIZER_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_tokenizer sr1_tokenizer;
typedef struct sr1_token_stream sr1_token_stream;

/* Open a Hugging Face folder (tokenizer.json; tokenizer_config.json, chat_template.jinja,
 * generation_config.json and config.json where they are) or a tokenizer.json alone; of
 * BERT also a folder with vocab.txt only. Byte-level BPE, WordPiece or Unigram:
 * SR1_E_UNSUPPORTED names whatever else a file asks for. Chat prompts and streams are for
 * byte-level BPE: they give SR1_E_UNSUPPORTED for the others. Since 0.1. */
SR1_API sr1_status sr1_tokenizer_open(sr1_tokenizer **out, const char *path);

/* NULL is fine. Since 0.1. */
SR1_API void sr1_tokenizer_free(sr1_tokenizer *tokenizer);

/* Copy the tokenizer's files (not the model's) from the folder it was opened from into
 * dir, which must exist. SR1_E_STATE if it was opened from a file alone. Since 0.1. */
SR1_API sr1_status sr1_tokenizer_save(const sr1_tokenizer *tokenizer, const char *dir);

/* What becomes of added tokens ("<|im_end|>", "<think>") that occur in a text. */
enum {
    SR1_ENCODE_ALL_ADDED = 0,       /* they are recognised */
    SR1_ENCODE_SPECIAL_AS_TEXT = 1, /* those marked special are plain text */
    SR1_ENCODE_ADDED_AS_TEXT = 2    /* all are plain text: for text from outside */
};

/* Encode text[0..n) (NUL bytes allowed, n below 2^28). Bytes that are not UTF-8 count as
 * U+FFFD, one for each maximal subpart, as Python's errors="replace" does. No token is
 * put in front. *ids: caller frees with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_tokenizer_encode(const sr1_tokenizer *tokenizer, const char *text,
                                        size_t n, int32_t mode, int32_t **ids,
                                        size_t *n_ids);

/* What an encoder reads: text, or with pair (NULL: none) both, with the special tokens of
 * the file's post-processor ("[CLS] a [SEP] b [SEP]", "a </s>"), cut to max_tokens as
 * transformers does with truncation=True: special tokens counted, of two texts the longer
 * one first ("longest_first"). Texts are UTF-8 and end at NUL, invalid bytes count as
 * U+FFFD; added tokens within them are recognised, as transformers does by default.
 * *ids and *type_ids [n_ids] (type_ids may be NULL: not wanted): caller frees with
 * sr1_free. SR1_E_INVALID if the special tokens alone are more than max_tokens.
 * Since 0.1. */
SR1_API sr1_status sr1_tokenizer_encode_input(const sr1_tokenizer *tokenizer,
                                              const char *text, const char *pair,
                                              size_t max_tokens, int32_t **ids,
                                              int32_t **type_ids, size_t *n_ids);

/* Text of ids; ids without a token add nothing, bytes that are not UTF-8 give U+FFFD.
 * skip_special: 1 leaves out tokens marked special. *text is UTF-8 with a NUL behind its
 * *n bytes (n may be NULL): caller frees with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_tokenizer_decode(const sr1_tokenizer *tokenizer,
                                        const int32_t *ids, size_t n_ids,
                                        int32_t skip_special, char **text, size_t *n);

/* Number of ids: the largest id + 1. Since 0.1. */
SR1_API int32_t sr1_tokenizer_vocab_size(const sr1_tokenizer *tokenizer);

/* The id of an added token by its text, or of a vocabulary entry as tokenizer.json writes
 * it; -1: there is none. Since 0.1. */
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

/* The id of a token with a role; -1: there is none. Since 0.1. */
SR1_API int32_t sr1_tokenizer_special_id(const sr1_tokenizer *tokenizer, int32_t role);

/* Ids that end a generation: eos_token, then eos_token_id of generation_config.json, or
 * without that file of config.json; each once. Borrowed until the tokenizer is freed.
 * Since 0.1. */
SR1_API const int32_t *sr1_tokenizer_stop_ids(const sr1_tokenizer *tokenizer,
                                              size_t *count);

/* Streaming decoder: ids in, whole characters out; what it gave, end to end, is what
 * sr1_tokenizer_decode gives for all the ids. Since 0.1. */
SR1_API sr1_status sr1_token_stream_new(sr1_token_stream **out, sr1_tokenizer *tokenizer,
                                        int32_t skip_special);

/* NULL is fine. Since 0.1. */
SR1_API void sr1_token_stream_free(sr1_token_stream *stream);

/* The characters that id completes (*n may be 0). Borrowed until the next call on the
 * stream. Since 0.1. */
SR1_API sr1_status sr1_token_stream_push(sr1_token_stream *stream, int32_t id,
                                         const char **text, size_t *n);

/* The end of the ids: a character still incomplete becomes U+FFFD. The stream is then
 * ready for another text. Borrowed until the next call on the stream. Since 0.1. */
SR1_API sr1_status sr1_token_stream_finish(sr1_token_stream *stream, const char **text,
                                           size_t *n);

/* How a conversation is rendered. Fill struct_size; zeros elsewhere are the defaults. */
typedef struct sr1_chat_options {
    size_t struct_size;
    int32_t add_generation_prompt; /* 1: end with the opening of an assistant message */
    int32_t no_thinking;           /* 1: enable_thinking=False, the empty think block */
    int32_t recognise_added;       /* 1: added tokens inside contents count, as in the
                                      reference; 0: contents are plain text */
    const char *tools;             /* JSON array of tool descriptions; NULL: none */
} sr1_chat_options;

/* Render n messages by the chat template's rules. roles: "system", "user", "assistant" or
 * "tool"; contents: UTF-8, lengths in content_sizes (NULL: contents end at NUL).
 * options NULL: all defaults. The results, each left out where its pointer is NULL:
 * *text (caller frees with sr1_free, NUL-terminated), *ids (caller frees with sr1_free).
 * SR1_E_INVALID names a message that cannot be rendered. Since 0.1. */
SR1_API sr1_status sr1_tokenizer_chat(const sr1_tokenizer *tokenizer,
                                      const char *const *roles,
                                      const char *const *contents,
                                      const size_t *content_sizes, size_t n,
                                      const sr1_chat_options *options, char **text,
                                      size_t *text_size, int32_t **ids, size_t *n_ids);

/* The same for a JSON array of messages with "role", "content" (a string or null) and,
 * for the assistant, "reasoning_content" and "tool_calls". Since 0.1. */
SR1_API sr1_status sr1_tokenizer_chat_json(const sr1_tokenizer *tokenizer,
                                           const char *messages, size_t n,
                                           const sr1_chat_options *options, char **text,
                                           size_t *text_size, int32_t **ids,
                                           size_t *n_ids);

/* Which rules the chat functions follow: "qwen3", "qwen3-instruct", "qwen2.5", "chatml",
 * "chatml-think", or "unknown" (no template, or one that is none of these: rendered as
 * plain ChatML). Static. Since 0.1. */
SR1_API const char *sr1_tokenizer_chat_family(const sr1_tokenizer *tokenizer);

/* Training of small vocabularies. Fill struct_size; zeros elsewhere are the defaults. */
typedef struct sr1_tokenizer_train_options {
    size_t struct_size;
    int32_t vocab_size;                /* all tokens counted; default 1024 */
    int32_t min_frequency;             /* of a pair to be merged; default 2 */
    const char *const *special_tokens; /* NULL: <|endoftext|>, <|im_start|>, <|im_end|> */
    size_t n_special_tokens;
    const char *const *added_tokens; /* not special; NULL: <tool_call>, <think>, ... */
    size_t n_added_tokens;
} sr1_tokenizer_train_options;

/* Learn a byte-level BPE vocabulary from texts (UTF-8; sizes NULL: they end at NUL;
 * weights NULL: each counts once) and write tokenizer.json and tokenizer_config.json
 * (ChatML with the empty think form) into dir, made if missing. Qwen's split and NFC.
 * Equal input gives equal files: among pairs of one count the one with the smaller ids is
 * merged. The vocabulary is smaller than asked for when no pair is left. Since 0.1. */
SR1_API sr1_status sr1_tokenizer_train(const char *const *texts, const size_t *sizes,
                                       const int64_t *weights, size_t n,
                                       const sr1_tokenizer_train_options *options,
                                       const char *dir);

#ifdef __cplusplus
}
#endif
#endif
