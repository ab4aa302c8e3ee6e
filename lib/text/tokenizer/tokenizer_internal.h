/* text/tokenizer/tokenizer_internal.h - the inside of a tokenizer, for the files of this
 * module. */
#ifndef SR1__TOKENIZER_TOKENIZER_INTERNAL_H
#define SR1__TOKENIZER_TOKENIZER_INTERNAL_H

#include "text/tokenizer/added.h"
#include "text/tokenizer/chat_templates.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/trie.h"
#include "text/tokenizer/vocab.h"

#include <stdatomic.h>

#define SR1__TEXT_MAX (((size_t)1 << 28) - 1)
#define SR1__STOP_IDS_MAX 16
#define SR1__TEXT_IDS_MAX 8
#define SR1__TOKEN_ROLES 6

/* Special tokens of tokenizer_config.json that only templates ask for. */
#define SR1__TEMPLATE_TOKENS 4
extern const char *const sr1__template_tokens[SR1__TEMPLATE_TOKENS]; /* their keys */

struct sr1__chat_family;
struct sr1__chat_program;
struct sr1__tokenizer_files;
struct sr1__token_decoder_kind;
struct sr1__load;
struct sr1__str;

/* One kind of model: a row of the table in tokenizer_load.c. */
struct sr1__model {
    const char *type;
    int alphabet;  /* files write tokens in GPT-2's byte alphabet; else as text */
    int generates; /* a token's bytes are its own: texts are generated with it */
    sr1_status (*load_pre)(struct sr1__load *l, const json_t *o);
    sr1_status (*load)(struct sr1__load *l, const struct sr1__str *model);
    /* Text between added tokens, in normal form. */
    sr1_status (*text)(struct sr1__text_encoder *e, const char *text, size_t n);
    /* One piece of the pre-tokenizer's. */
    sr1_status (*piece)(struct sr1__text_encoder *e, const char *piece, size_t n);
};

/* The steps of SentencePiece's decoders, in this order, those that there are. */
struct sr1__decoder_steps {
    char *find, *put;    /* Replace, in each token; NULL: none */
    int bytes;           /* ByteFallback: tokens <0x00> to <0xFF> are bytes */
    char strip[5];       /* Strip: this character, after Fuse, */
    uint32_t start, end; /* so often at the beginning and at the end */
};

/* How tokens become text again (token_decoder.c). */
struct sr1__token_decoder {
    const struct sr1__token_decoder_kind *kind;
    struct sr1__decoder_steps steps;
    char *prefix; /* WordPiece: of tokens that continue a word */
    int cleanup;  /* WordPiece: no spaces before punctuation */
    struct sr1__metaspace metaspace;
};

/* Patterns of a byte-level BPE pre-tokenizer. */
#define SR1__SPLITS_MAX 8

struct sr1_tokenizer {
    atomic_int references;
    sr1_tokenizer *base; /* of a view, whose parts these are; NULL: its own */
    const struct sr1__model *model;
    struct sr1__vocab vocab;
    struct sr1__normalizer normaliser;
    struct sr1__pre_tokenizers cuts;
    struct sr1__token_decoder decoder;
    struct sr1__post_processor templates;
    int cut_left; /* inputs that are too long lose their beginning */
    /* BPE */
    struct sr1__merges merges;
    uint32_t byte_id[256];     /* with byte_fallback those of "<0x00>" and so on */
    struct sr1__vocab spelled; /* what tokens of text stand for, where it is not the text:
                                  spaces for marks, bytes */
    int fuse_unknown;          /* neighbours of no token are one unknown */
    struct sr1__pattern *splits[SR1__SPLITS_MAX]; /* each cuts what the last one left */
    size_t n_splits;
    int ignore_merges;
    /* WordPiece and Unigram */
    struct sr1__trie trie;
    uint32_t unknown; /* SR1__NO_TOKEN: there is none */
    size_t piece_max; /* WordPiece: characters of a piece */
    double *scores;   /* Unigram: [vocabulary of the model] */
    double unknown_score;
    int byte_fallback;
    /* Added tokens looked for in the text as given, and in its normal form. */
    struct sr1__added added;
    struct sr1__added added_normalised;
    struct sr1__vocab shown; /* added tokens that are decoded in their normal form */
    int32_t role_id[SR1__TOKEN_ROLES];
    int32_t stop_ids[SR1__STOP_IDS_MAX];
    size_t n_stop_ids;
    int32_t text_ids[SR1__TEXT_IDS_MAX]; /* special tokens that are text all the same */
    size_t n_text_ids;
    const struct sr1__chat_family *family; /* NULL: not known */
    uint64_t template_hash;                /* of the chat template; 0: there is none */
    char *template_tokens[SR1__TEMPLATE_TOKENS]; /* their texts; NULL: none */
    json_t *more_tokens;  /* additional_special_tokens, a list of texts; NULL: none */
    char *default_system; /* of the chat template; NULL: none */
    struct sr1__chat_templates chat_templates;
    struct sr1__chat_program *program;  /* a template of no family, run; NULL: none */
    struct sr1__tokenizer_files *files; /* of its folder; NULL: it was in none */
};

/* A tokenizer that shares the parts of t. Its chat rules and text_ids are its own. */
sr1_status sr1__tokenizer_view(sr1_tokenizer **out, sr1_tokenizer *t);

/* The memory of one encoding, reused from piece to piece. */
struct sr1__text_encoder {
    const sr1_tokenizer *t;
    struct sr1__split splits[SR1__SPLITS_MAX];
    struct sr1__buf normal[2];
    size_t first;  /* bytes of the next text that the first character of all became */
    int continued; /* that character is none that begins a text: nothing goes before */
    uint32_t *symbols; /* of the piece, before merges */
    size_t symbols_cap;
    struct sr1__merge_room *room; /* for long pieces */
    size_t room_n;
    uint64_t *queue;
    struct sr1__seen *seen; /* pieces of this text met before; NULL: not kept */
    struct sr1__buf marked[SR1__PRE_TOKENIZERS_MAX]; /* text of Metaspace */
    struct sr1__best_path *best;                     /* Unigram's paths */
    size_t best_n;
    struct sr1__ids *out;
};

sr1_status sr1__text_encoder_begin(struct sr1__text_encoder *e, const sr1_tokenizer *t,
                                   struct sr1__ids *out);
void sr1__text_encoder_end(struct sr1__text_encoder *e);
/* The next added token in text[from..n), be it matched as written or in its normal form:
 * text is taken for its own. Those matched as written go first, as in sr1__encode_mixed.
 */
int sr1__find_added(const sr1_tokenizer *t, const char *text, size_t n, size_t from,
                    struct sr1__added_match *m);
/* A token may take the white space beside it, within text[from..n). */
void sr1__widen_added(struct sr1__added_match *m, const char *text, size_t n,
                      size_t from);
/* Text without added tokens (valid UTF-8); e->first is the caller's. */
sr1_status sr1__encode_plain(struct sr1__text_encoder *e, const char *text, size_t n);
/* Text with added tokens by mode (valid UTF-8). */
sr1_status sr1__encode_mixed(struct sr1__text_encoder *e, const char *text, size_t n,
                             int32_t mode);
/* What the models do, by the rows of their table. */
sr1_status sr1__encode_split(struct sr1__text_encoder *e, const char *text, size_t n);
sr1_status sr1__encode_pre_tokenized(struct sr1__text_encoder *e, const char *text,
                                     size_t n);
sr1_status sr1__merge_piece(struct sr1__text_encoder *e, const char *piece, size_t n);
sr1_status sr1__merge_text_piece(struct sr1__text_encoder *e, const char *piece,
                                 size_t n);
sr1_status sr1__wordpiece_piece(struct sr1__text_encoder *e, const char *piece, size_t n);
sr1_status sr1__unigram_piece(struct sr1__text_encoder *e, const char *piece, size_t n);

/* Whether all of text is UTF-8; if not, *repaired holds it repaired. */
sr1_status sr1__utf8_checked(const char **text, size_t *n, struct sr1__buf *repaired);

/* "<0x00>" to "<0xFF>" of the vocabulary into t->byte_id. */
void sr1__find_byte_tokens(sr1_tokenizer *t);
/* Append what a token behind others adds; 0: the decoder has no rule of one token. */
int sr1__token_decoder_spell(const struct sr1__token_decoder *d, const char *token,
                             size_t n, struct sr1__buf *out);
/* Fill t->spelled as the decoder says. */
sr1_status sr1__spell_tokens(sr1_tokenizer *t);

/* A decoder Sequence (sequence_decoder.c): read, run over all tokens, freed. */
sr1_status sr1__decoder_steps_load(struct sr1__token_decoder *d, const json_t *o,
                                   const char *name);
sr1_status sr1__decoder_steps_run(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                  int skip_special, struct sr1__buf *out);
void sr1__decoder_steps_free(struct sr1__decoder_steps *s);

/* A file's "decoder" into t->decoder (token_decoder.c). */
sr1_status sr1__token_decoder_load(sr1_tokenizer *t, const json_t *o, const char *name);
/* Appends the text of ids. */
sr1_status sr1__token_decoder_run(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                  int skip_special, struct sr1__buf *out);
/* The bytes of a token that is to be decoded; NULL: it is left out. */
const char *sr1__decoded_token(const sr1_tokenizer *t, int32_t id, int skip_special,
                               size_t *n);

/* BERT's vocab.txt and the tokenizer_config.json beside it (bert_vocab.c). */
sr1_status sr1__bert_vocab_open(sr1_tokenizer **out, const char *vocab_path);

/* tokenizer_config.json and its companions among t->files; config.json and the chat
 * template also from spare, the base of an adapter's folder (NULL: none). */
sr1_status sr1__tokenizer_read_config(sr1_tokenizer *t, const char *folder,
                                      const char *spare);
/* Sets family, default_system and program by the template's text (NULL: none). */
sr1_status sr1__chat_recognise(sr1_tokenizer *t, const char *chat_template);

#endif
