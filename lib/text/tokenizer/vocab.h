/* text/tokenizer/vocab.h - the tokens as bytes, and the merges between them.
 *
 * Files write a byte-level token in GPT-2's byte alphabet, where each byte has a
 * printable character (0x20 is "Ġ"); here tokens are the bytes themselves. */
#ifndef SR1__TOKENIZER_VOCAB_H
#define SR1__TOKENIZER_VOCAB_H

#include "base/buf.h"

#define SR1__TOKEN_ID_MAX ((1u << 22) - 1)
#define SR1__TOKEN_LEN_MAX 65535u
#define SR1__NO_TOKEN UINT32_MAX

enum {
    SR1__TOKEN_MODEL = 1,
    SR1__TOKEN_ADDED = 2,
    SR1__TOKEN_SPECIAL = 4,
    SR1__TOKEN_UNREACHABLE = 8 /* in the vocabulary, but no text gives it */
};

struct sr1__token {
    uint32_t at; /* in the pool */
    uint16_t len;
    uint8_t flags; /* 0: no token has this id */
};

struct sr1__vocab {
    struct sr1__token *tokens; /* [n], by id */
    uint32_t n;
    uint32_t cap;
    struct sr1__buf pool;
    uint32_t *slots; /* ids of model tokens by hash of their bytes, open addressing */
    uint32_t mask;
    uint32_t used;
};

void sr1__vocab_init(struct sr1__vocab *v);
void sr1__vocab_free(struct sr1__vocab *v);
/* Adds a token under an id that is still free (SR1_E_PARSE otherwise). Model tokens are
 * found by their bytes; two with the same bytes are refused. */
sr1_status sr1__vocab_add(struct sr1__vocab *v, uint32_t id, const char *bytes, size_t n,
                          uint8_t flags);
/* Id of the model token with these bytes, or SR1__NO_TOKEN. */
uint32_t sr1__vocab_find(const struct sr1__vocab *v, const char *bytes, size_t n);
const char *sr1__vocab_bytes(const struct sr1__vocab *v, uint32_t id, size_t *n);

/* Byte alphabet: the code point that stands for a byte, and back (-1: stands for none).
 */
uint32_t sr1__byte_char(unsigned char byte);
int sr1__char_byte(uint32_t cp);
/* The bytes that text (valid UTF-8) in the byte alphabet stands for, appended to out;
 * returns 0, out unchanged, when a character is none of the alphabet. */
int sr1__alphabet_decode(const char *text, size_t n, struct sr1__buf *out);
/* The reverse: bytes written in the alphabet. */
void sr1__alphabet_encode(const char *bytes, size_t n, struct sr1__buf *out);

/* Merges: (left id, right id) -> rank and the id they make. */
struct sr1__merge {
    uint32_t left; /* SR1__NO_TOKEN: empty slot */
    uint32_t right;
    uint32_t rank;
    uint32_t id;
};

struct sr1__merges {
    struct sr1__merge *slots;
    uint32_t mask;
    uint32_t used;
};

void sr1__merges_free(struct sr1__merges *m);
/* A pair given twice keeps the later rank, as the reference does. */
sr1_status sr1__merges_add(struct sr1__merges *m, struct sr1__merge merge);

static inline uint32_t sr1__pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 17);
}

/* NULL when the pair does not merge. */
static inline const struct sr1__merge *sr1__merges_find(const struct sr1__merges *m,
                                                        uint32_t left, uint32_t right)
{
    uint32_t i = sr1__pair_hash(left, right) & m->mask;

    if (!m->slots) /* a vocabulary of single bytes has no merges */
        return NULL;
    while (m->slots[i].left != SR1__NO_TOKEN) {
        if (m->slots[i].left == left && m->slots[i].right == right)
            return &m->slots[i];
        i = (i + 1) & m->mask;
    }
    return NULL;
}

#endif
