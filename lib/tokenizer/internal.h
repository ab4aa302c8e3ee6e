/* tokenizer/internal.h - a tokenizer as its own files see it. */
#ifndef SR1__TOKENIZER_INTERNAL_H
#define SR1__TOKENIZER_INTERNAL_H

#include "tokenizer/added.h"
#include "tokenizer/pattern.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"

#include <stdatomic.h>

#define SR1__TEXT_MAX (((size_t)1 << 28) - 1)
#define SR1__STOP_IDS_MAX 16
#define SR1__TOKEN_ROLES 6

struct sr1__chat_family;

struct sr1_tokenizer {
    atomic_int references;
    struct sr1__vocab vocab;
    struct sr1__merges merges;
    uint32_t byte_id[256];
    struct sr1__pattern *pattern;
    int nfc;
    int ignore_merges;
    /* Added tokens looked for in the text as given, and in its normal form. */
    struct sr1__added added;
    struct sr1__added added_normalised;
    int32_t role_id[SR1__TOKEN_ROLES];
    int32_t stop_ids[SR1__STOP_IDS_MAX];
    size_t n_stop_ids;
    const struct sr1__chat_family *family;
    char *default_system; /* of the chat template; NULL: none */
    char *folder;         /* opened from; NULL: a file or memory */
};

/* The memory of one encoding, reused from piece to piece. */
struct sr1__encoder {
    const sr1_tokenizer *t;
    struct sr1__split split;
    struct sr1__buf normal;
    struct sr1__merge_room *room; /* for long pieces */
    size_t room_n;
    uint64_t *queue;
    struct sr1__seen *seen; /* pieces of this text met before; NULL: not kept */
    struct sr1__ids *out;
};

sr1_status sr1__encoder_begin(struct sr1__encoder *e, const sr1_tokenizer *t,
                              struct sr1__ids *out);
void sr1__encoder_end(struct sr1__encoder *e);
/* Text without added tokens (valid UTF-8). */
sr1_status sr1__encode_plain(struct sr1__encoder *e, const char *text, size_t n);
/* Text with added tokens by mode (valid UTF-8). */
sr1_status sr1__encode_mixed(struct sr1__encoder *e, const char *text, size_t n,
                             int32_t mode);
/* One piece of the split (bpe.c). */
sr1_status sr1__merge_piece(struct sr1__encoder *e, const char *piece, size_t n);

/* Whether all of text is UTF-8; if not, *repaired holds it repaired. */
sr1_status sr1__utf8_checked(const char **text, size_t *n, struct sr1__buf *repaired);

/* tokenizer_config.json and its companions in a folder (folder.c). */
sr1_status sr1__tokenizer_read_folder(sr1_tokenizer *t, const char *folder);
/* Sets family and default_system by the template's text (NULL: none). */
sr1_status sr1__chat_recognise(sr1_tokenizer *t, const char *chat_template);

#endif
