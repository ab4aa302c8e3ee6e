/* text/tokenizer/vocab.c - see vocab.h. Tables grow by doubling and stay at most 2/3
 * full. */
#include "text/tokenizer/vocab.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"

#include <string.h>

void sr1__vocab_init(struct sr1__vocab *v)
{
    memset(v, 0, sizeof *v);
    sr1__buf_init(&v->pool, 0);
}

void sr1__vocab_free(struct sr1__vocab *v)
{
    sr1__free(v->tokens);
    sr1__free(v->slots);
    sr1__buf_free(&v->pool);
    sr1__vocab_init(v);
}

const char *sr1__vocab_bytes(const struct sr1__vocab *v, uint32_t id, size_t *n)
{
    if (id >= v->n || v->tokens[id].flags == 0)
        return NULL;
    *n = v->tokens[id].len;
    return sr1__buf_cstr(&v->pool) + v->tokens[id].at;
}

/* The slot that holds these bytes, or the empty one where they belong. */
static uint32_t find_vocab_slot(const struct sr1__vocab *v, const char *bytes, size_t n)
{
    uint32_t i = (uint32_t)sr1__hash64(bytes, n, 0) & v->mask;

    for (; v->slots[i] != SR1__NO_TOKEN; i = (i + 1) & v->mask) {
        const struct sr1__token *t = &v->tokens[v->slots[i]];

        if (t->len == n && memcmp(v->pool.data + t->at, bytes, n) == 0)
            break;
    }
    return i;
}

uint32_t sr1__vocab_find(const struct sr1__vocab *v, const char *bytes, size_t n)
{
    return v->used ? v->slots[find_vocab_slot(v, bytes, n)] : SR1__NO_TOKEN;
}

static sr1_status grow_vocab_slots(struct sr1__vocab *v)
{
    uint32_t *old = v->slots, old_n = old ? v->mask + 1 : 0;
    uint32_t n = old_n ? 2 * old_n : 1024;
    uint32_t *slots = sr1__malloc((size_t)n * sizeof *slots);

    SR1__CHECK_ALLOC(slots, "vocabulary");
    memset(slots, 0xff, (size_t)n * sizeof *slots);
    v->slots = slots;
    v->mask = n - 1;
    for (uint32_t i = 0; i < old_n; i++) {
        const struct sr1__token *t;

        if (old[i] == SR1__NO_TOKEN)
            continue;
        t = &v->tokens[old[i]];
        slots[find_vocab_slot(v, v->pool.data + t->at, t->len)] = old[i];
    }
    sr1__free(old);
    return SR1_OK;
}

static sr1_status grow_tokens(struct sr1__vocab *v, uint32_t id)
{
    uint32_t before = v->cap;

    SR1__RESERVE(v->tokens, v->cap, (size_t)id + 1, "vocabulary");
    memset(v->tokens + before, 0, (v->cap - before) * sizeof *v->tokens);
    return SR1_OK;
}

sr1_status sr1__vocab_add(struct sr1__vocab *v, uint32_t id, const char *bytes, size_t n,
                          uint8_t flags)
{
    uint32_t *slot = NULL;

    if (id > SR1__TOKEN_ID_MAX)
        return sr1__fail(SR1_E_LIMIT, "token id %u is above %u", id, SR1__TOKEN_ID_MAX);
    if (n > SR1__TOKEN_LEN_MAX)
        return sr1__fail(SR1_E_LIMIT, "token %u is longer than %u bytes", id,
                         SR1__TOKEN_LEN_MAX);
    if (id < v->n && v->tokens[id].flags)
        return sr1__fail(SR1_E_PARSE, "token id %u is given twice", id);
    SR1__TRY(grow_tokens(v, id));
    if (flags & SR1__TOKEN_MODEL) {
        if (!v->slots || v->used >= (v->mask + 1) / 3 * 2)
            SR1__TRY(grow_vocab_slots(v));
        slot = &v->slots[find_vocab_slot(v, bytes, n)];
        if (*slot != SR1__NO_TOKEN)
            return sr1__fail(SR1_E_PARSE, "tokens %u and %u are the same bytes", *slot,
                             id);
    }
    v->tokens[id] = (struct sr1__token){(uint32_t)v->pool.len, (uint16_t)n, 0};
    sr1__buf_add(&v->pool, bytes, n);
    SR1__TRY(sr1__buf_status(&v->pool, "vocabulary"));
    v->tokens[id].flags = flags;
    v->n = id >= v->n ? id + 1 : v->n;
    if (slot) {
        *slot = id;
        v->used++;
    }
    return SR1_OK;
}

/* Printable bytes stand for themselves; the 68 others take 256, 257, ... in order. */
static int is_printable_byte(unsigned char b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

uint32_t sr1__byte_char(unsigned char byte)
{
    if (is_printable_byte(byte))
        return byte;
    if (byte <= 0x20)
        return 256u + byte;
    return byte == 0xad ? 256u + 67 : 256u + 33 + (byte - 0x7fu);
}

int sr1__char_byte(uint32_t cp)
{
    if (cp < 256)
        return is_printable_byte((unsigned char)cp) ? (int)cp : -1;
    if (cp <= 256 + 0x20)
        return (int)(cp - 256);
    if (cp < 256 + 67)
        return (int)(cp - 256 - 33 + 0x7f);
    return cp == 256 + 67 ? 0xad : -1;
}

int sr1__alphabet_decode(const char *text, size_t n, struct sr1__buf *out)
{
    size_t before = out->len, held = 0;
    char bytes[256];

    for (size_t i = 0; i < n;) {
        uint32_t cp = (unsigned char)text[i];
        int len = cp < 0x80 ? 1 : sr1__utf8_next(text + i, n - i, &cp);
        int byte = len > 0 ? sr1__char_byte(cp) : -1;

        if (byte < 0) {
            out->len = before;
            return 0;
        }
        bytes[held++] = (char)byte;
        i += (size_t)len;
        if (held == sizeof bytes || i == n) {
            sr1__buf_add(out, bytes, held);
            held = 0;
        }
    }
    return 1;
}

void sr1__alphabet_encode(const char *bytes, size_t n, struct sr1__buf *out)
{
    char utf8[4];

    for (size_t i = 0; i < n; i++) {
        uint32_t cp = sr1__byte_char((unsigned char)bytes[i]);

        sr1__buf_add(out, utf8, (size_t)sr1__utf8_put(cp, utf8));
    }
}

void sr1__merges_free(struct sr1__merges *m)
{
    sr1__free(m->slots);
    memset(m, 0, sizeof *m);
}

static void place_merge(struct sr1__merges *m, struct sr1__merge merge)
{
    uint32_t i = sr1__pair_hash(merge.left, merge.right) & m->mask;

    while (m->slots[i].left != SR1__NO_TOKEN)
        i = (i + 1) & m->mask;
    m->slots[i] = merge;
}

static sr1_status grow_merges(struct sr1__merges *m)
{
    struct sr1__merges bigger = {.mask = m->slots ? 2 * m->mask + 1 : 1023,
                                 .used = m->used};
    size_t bytes = ((size_t)bigger.mask + 1) * sizeof *bigger.slots;

    bigger.slots = sr1__malloc(bytes);
    SR1__CHECK_ALLOC(bigger.slots, "merges");
    memset(bigger.slots, 0xff, bytes);
    for (uint32_t i = 0; m->slots && i <= m->mask; i++)
        if (m->slots[i].left != SR1__NO_TOKEN)
            place_merge(&bigger, m->slots[i]);
    sr1__free(m->slots);
    *m = bigger;
    return SR1_OK;
}

sr1_status sr1__merges_add(struct sr1__merges *m, struct sr1__merge merge)
{
    struct sr1__merge *known;

    if (!m->slots || m->used >= (m->mask + 1) / 3 * 2)
        SR1__TRY(grow_merges(m));
    known = (struct sr1__merge *)sr1__merges_find(m, merge.left, merge.right);
    if (known) {
        *known = merge;
        return SR1_OK;
    }
    place_merge(m, merge);
    m->used++;
    return SR1_OK;
}
