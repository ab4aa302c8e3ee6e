/* tokenizer/train_count.c - counts the distinct pieces of the training texts. */
#include "tokenizer/train.h"

#include "tokenizer/nfc.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

#define WEIGHT_MAX ((int64_t)1 << 31)

void sr1__pieces_init(struct sr1__pieces *p)
{
    memset(p, 0, sizeof *p);
    sr1__buf_init(&p->pool, UINT32_MAX);
}

void sr1__pieces_free(struct sr1__pieces *p)
{
    sr1__buf_free(&p->pool);
    sr1__free(p->v);
    sr1__free(p->slots);
    sr1__pieces_init(p);
}

static uint32_t *slot_of(const struct sr1__pieces *p, const char *s, size_t n)
{
    uint32_t i = (uint32_t)sr1__hash64(s, n, 0) & p->mask;

    for (; p->slots[i]; i = (i + 1) & p->mask) {
        const struct sr1__piece *known = &p->v[p->slots[i] - 1];

        if (known->n == n && memcmp(p->pool.data + known->at, s, n) == 0)
            break;
    }
    return &p->slots[i];
}

/* Twice the room; slots stay at most half full. */
static sr1_status grow(struct sr1__pieces *p)
{
    uint32_t cap = p->cap ? 2 * p->cap : 4096;
    struct sr1__piece *v = sr1__realloc(p->v, cap, sizeof *v);
    uint32_t *slots = v ? sr1__calloc(2 * (size_t)cap, sizeof *slots) : NULL;

    p->v = v ? v : p->v;
    if (!slots)
        return sr1__fail_nomem("counting pieces");
    sr1__free(p->slots);
    p->slots = slots;
    p->cap = cap;
    p->mask = 2 * cap - 1;
    for (uint32_t i = 0; i < p->n; i++)
        *slot_of(p, p->pool.data + p->v[i].at, p->v[i].n) = i + 1;
    return SR1_OK;
}

static sr1_status count_piece(struct sr1__pieces *p, const char *s, size_t n,
                              int64_t weight)
{
    uint32_t *slot;

    if (p->n == p->cap)
        SR1__TRY(grow(p));
    slot = slot_of(p, s, n);
    if (!*slot) {
        p->v[p->n] = (struct sr1__piece){(uint32_t)p->pool.len, (uint32_t)n, 0};
        sr1__buf_add(&p->pool, s, n);
        SR1__TRY(sr1__buf_status(&p->pool, "counting pieces"));
        *slot = ++p->n;
    }
    p->v[*slot - 1].count += weight;
    return SR1_OK;
}

/* A stretch of text without added tokens. */
static sr1_status count_plain(struct sr1__pieces *p, struct sr1__split *split,
                              const char *s, size_t n, int64_t weight)
{
    struct sr1__buf normal;
    sr1_status status;

    sr1__buf_init(&normal, 0);
    status = sr1__nfc(s, n, &normal);
    sr1__split_text(split, sr1__buf_cstr(&normal), normal.len);
    while (status == SR1_OK) {
        const char *piece;
        size_t len;

        status = sr1__split_next(split, &piece, &len);
        if (status != SR1_OK || len == 0)
            break;
        status = count_piece(p, piece, len, weight);
    }
    sr1__buf_free(&normal);
    return status;
}

static sr1_status count_text(struct sr1__pieces *p, struct sr1__split *split,
                             const struct sr1__added *added, const char *s, size_t n,
                             int64_t weight)
{
    struct sr1__added_match m = {0};
    struct sr1__buf repaired;
    size_t from = 0;
    sr1_status status = sr1__utf8_checked(&s, &n, &repaired);

    while (status == SR1_OK && sr1__added_find(added, s, n, from, &m)) {
        status = count_plain(p, split, s + from, m.at - from, weight);
        from = m.at + m.n;
    }
    if (status == SR1_OK)
        status = count_plain(p, split, s + from, n - from, weight);
    sr1__buf_free(&repaired);
    return status;
}

static sr1_status count_all(struct sr1__pieces *p, struct sr1__split *split,
                            const struct sr1__corpus *c, const struct sr1__added *added)
{
    for (size_t i = 0; i < c->n; i++) {
        int64_t weight = c->weights ? c->weights[i] : 1;
        size_t n = c->sizes ? c->sizes[i] : c->texts[i] ? strlen(c->texts[i]) : 0;

        if ((!c->texts[i] && n) || weight < 0 || weight > WEIGHT_MAX || n > SR1__TEXT_MAX)
            return sr1__fail(SR1_E_INVALID,
                             "tokenizer training: text %zu: weight or size out of range",
                             i);
        if (weight && n)
            SR1__TRY(count_text(p, split, added, c->texts[i], n, weight));
    }
    return SR1_OK;
}

sr1_status sr1__pieces_count(struct sr1__pieces *p, const struct sr1__corpus *corpus,
                             const struct sr1__added *added)
{
    struct sr1__pattern *pattern = NULL;
    struct sr1__split split;
    sr1_status status;

    SR1__TRY(sr1__pattern_new(&pattern, sr1__pattern_qwen, strlen(sr1__pattern_qwen),
                              "tokenizer training"));
    status = sr1__split_begin(&split, pattern);
    if (status == SR1_OK)
        status = count_all(p, &split, corpus, added);
    sr1__split_end(&split);
    sr1__pattern_free(pattern);
    return status;
}
