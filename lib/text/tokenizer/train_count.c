/* text/tokenizer/train_count.c - counts the distinct pieces of the training texts. */
#include "text/tokenizer/train.h"

#include "text/tokenizer/nfc.h"

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
    sr1__hash_index_free(&p->by_bytes);
    sr1__pieces_init(p);
}

/* The piece with these bytes, added when it is new. */
static sr1_status get_piece(struct sr1__pieces *p, const char *s, size_t n,
                            struct sr1__piece **out)
{
    struct sr1__hash_probe at = {sr1__hash64(s, n, 0)};

    while (sr1__hash_index_next(&p->by_bytes, &at)) {
        *out = &p->v[at.item];
        if ((*out)->n == n && memcmp(p->pool.data + (*out)->at, s, n) == 0)
            return SR1_OK;
    }
    SR1__RESERVE(p->v, p->cap, p->n + 1, "counting pieces");
    *out = &p->v[p->n];
    **out = (struct sr1__piece){(uint32_t)p->pool.len, (uint32_t)n, 0};
    sr1__buf_add(&p->pool, s, n);
    SR1__TRY(sr1__buf_status(&p->pool, "counting pieces"));
    return sr1__hash_index_add(&p->by_bytes, at.hash, p->n++);
}

static sr1_status count_piece(struct sr1__pieces *p, const char *s, size_t n,
                              int64_t weight)
{
    struct sr1__piece *piece = NULL;

    SR1__TRY(get_piece(p, s, n, &piece));
    piece->count += weight;
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

static sr1_status count_corpus_pieces(struct sr1__pieces *p, struct sr1__split *split,
                                      const struct sr1__corpus *c,
                                      const struct sr1__added *added)
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
        status = count_corpus_pieces(p, &split, corpus, added);
    sr1__split_end(&split);
    sr1__pattern_free(pattern);
    return status;
}
