/* text/tokenizer/load_pieces.c - WordPiece and Unigram in tokenizer.json: vocabularies
 * whose tokens are text, entered into a trie. */
#include "text/tokenizer/tokenizer_load.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

#define PIECE_MAX_DEFAULT 100u
#define UNKNOWN_PENALTY 10.0 /* below the lowest score */

/* Powers of ten, each the nearest double. */
#define POWER_MAX 40
static const double powers[POWER_MAX + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
    1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27,
    1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40};

sr1_status sr1__load_pre_tokenizers(struct sr1__load *l, const json_t *o)
{
    return sr1__pre_tokenizers_load(&l->t->cuts, o, l->name);
}

/* A token of the model, at the roots where it may stand: WordPiece's prefix (NULL: there
 * is none of that) also marks those that continue a word. */
static sr1_status add_piece_token(struct sr1__load *l, struct sr1__str text, uint32_t id,
                                  const struct sr1__buf *prefix)
{
    sr1_tokenizer *t = l->t;

    SR1__TRY(sr1__context(sr1__vocab_add(&t->vocab, id, text.s, text.n, SR1__TOKEN_MODEL),
                          "%s: model.vocab", l->name));
    if (text.n)
        SR1__TRY(sr1__context(
            sr1__trie_add(&t->trie, SR1__TRIE_ROOT, text.s, text.n, (int32_t)id),
            "%s: model.vocab", l->name));
    if (!prefix || text.n <= prefix->len ||
        memcmp(text.s, sr1__buf_cstr(prefix), prefix->len) != 0)
        return SR1_OK;
    return sr1__trie_add(&t->trie, SR1__TRIE_SECOND_ROOT, text.s + prefix->len,
                         text.n - prefix->len, (int32_t)id);
}

static sr1_status load_wordpiece_vocab(struct sr1__load *l, struct sr1__str vocab,
                                       const struct sr1__buf *prefix)
{
    struct sr1__scan s;
    struct sr1__str key, value, text;
    int more;
    uint32_t id;

    SR1__TRY(sr1__scan_open(&s, vocab, '{', l->name, "model.vocab"));
    for (;;) {
        SR1__TRY(sr1__scan_next(&s, &key, &value, &more));
        if (!more)
            return SR1_OK;
        SR1__TRY(sr1__scan_uint(value, SR1__TOKEN_ID_MAX, l->name, &id));
        SR1__TRY(sr1__load_string(l, key, &text));
        SR1__TRY(add_piece_token(l, text, id, prefix));
    }
}

/* A string member into out; `otherwise` where there is none. */
static sr1_status read_string_or_default(struct sr1__load *l, struct sr1__str value,
                                         const char *otherwise, struct sr1__buf *out)
{
    struct sr1__str text = {otherwise, strlen(otherwise)};

    if (value.s)
        SR1__TRY(sr1__load_string(l, value, &text));
    sr1__buf_add(out, text.s, text.n);
    return sr1__buf_status(out, "model");
}

static sr1_status load_words(struct sr1__load *l, struct sr1__str vocab,
                             struct sr1__str unknown, struct sr1__str prefix)
{
    struct sr1__buf mark;
    sr1_status status;

    sr1__buf_init(&mark, 0);
    status = read_string_or_default(l, prefix, "##", &mark);
    if (status == SR1_OK)
        status = load_wordpiece_vocab(l, vocab, &mark);
    sr1__buf_clear(&l->left);
    if (status == SR1_OK)
        status = read_string_or_default(l, unknown, "[UNK]", &l->left);
    sr1__buf_free(&mark);
    return status;
}

sr1_status sr1__load_wordpiece(struct sr1__load *l, const struct sr1__str *model)
{
    struct sr1__str vocab = {0}, unknown = {0}, prefix = {0}, longest = {0};
    const struct sr1__wanted w[] = {
        {"vocab", &vocab},
        {"unk_token", &unknown},
        {"continuing_subword_prefix", &prefix},
        {"max_input_chars_per_word", &longest},
    };
    uint32_t most = PIECE_MAX_DEFAULT;

    SR1__TRY(sr1__load_members(l, *model, "model", w, sizeof w / sizeof w[0]));
    if (!vocab.s)
        return sr1__fail(SR1_E_PARSE, "%s: model needs 'vocab'", l->name);
    if (longest.s)
        SR1__TRY(sr1__scan_uint(longest, UINT32_MAX - 1, l->name, &most));
    l->t->piece_max = most;
    SR1__TRY(load_words(l, vocab, unknown, prefix));
    l->t->unknown = sr1__vocab_find(&l->t->vocab, sr1__buf_cstr(&l->left), l->left.len);
    if (l->t->unknown == SR1__NO_TOKEN || !l->t->trie.edges)
        return sr1__fail(SR1_E_PARSE, "%s: unk_token '%s' is not in model.vocab", l->name,
                         sr1__buf_cstr(&l->left));
    return SR1_OK;
}

/* The digits of a number as one integer, those beyond 64 bits left out, and the power of
 * ten that goes with them; returns where they end. */
static size_t read_score_digits(struct sr1__str text, uint64_t *digits, int64_t *power)
{
    size_t i = text.s[0] == '-';
    int fraction = 0, full = 0;

    *digits = 0;
    *power = 0;
    for (; i < text.n && (text.s[i] | 32) != 'e'; i++) {
        unsigned digit = (unsigned)(text.s[i] - '0');

        if (text.s[i] == '.') {
            fraction = 1;
            continue;
        }
        full |= *digits > (UINT64_MAX - digit) / 10;
        *digits = full ? *digits : *digits * 10 + digit;
        *power += full ? !fraction : -fraction;
    }
    return i;
}

/* A score as the reference reads it: all digits as one integer, then one product with or
 * quotient by a power of ten. That is not always the nearest double, and sums of scores
 * that differ by such a rounding are told apart. 0: not a number. */
static int read_piece_score(struct sr1__str text, double *score)
{
    uint64_t digits;
    int64_t power, written = 0;
    size_t i;

    if (!sr1__parse_real(text.s, text.n, score) || text.s[0] == '+')
        return 0;
    i = read_score_digits(text, &digits, &power);
    if (i < text.n && (!sr1__parse_int(text.s + i + 1, text.n - i - 1, &written) ||
                       written < -POWER_MAX || written > POWER_MAX))
        return 1;
    power += written;
    if (power < -POWER_MAX || power > POWER_MAX)
        return 1;
    *score = power < 0 ? (double)digits / powers[-power] : (double)digits * powers[power];
    if (text.s[0] == '-')
        *score = -*score;
    return 1;
}

/* ["token", score]. */
static sr1_status load_scored(struct sr1__load *l, struct sr1__str entry, uint32_t id)
{
    struct sr1__str part[3], text;
    struct sr1__scan s;
    double score;
    int more = 1;

    SR1__TRY(sr1__scan_open(&s, entry, '[', l->name, "an entry of model.vocab"));
    for (int i = 0; i < 3 && more; i++) {
        SR1__TRY(sr1__scan_next(&s, NULL, &part[i], &more));
        if (more != (i < 2))
            return sr1__fail(SR1_E_PARSE,
                             "%s: model.vocab: entry %u is not a token and its score",
                             l->name, id);
    }
    if (!read_piece_score(part[1], &score))
        return sr1__fail(SR1_E_PARSE, "%s: model.vocab: the score of entry %u is '%.*s'",
                         l->name, id, (int)(part[1].n < 40 ? part[1].n : 40), part[1].s);
    SR1__TRY(sr1__load_string(l, part[0], &text));
    l->t->scores[id] = score;
    if (id == 0 || score < l->t->unknown_score)
        l->t->unknown_score = score;
    return add_piece_token(l, text, id, NULL);
}

static sr1_status load_scores(struct sr1__load *l, struct sr1__str vocab)
{
    struct sr1__scan s;
    struct sr1__str entry;
    uint32_t room = 0;
    int more;

    SR1__TRY(sr1__scan_open(&s, vocab, '[', l->name, "model.vocab"));
    for (uint32_t id = 0;; id++) {
        SR1__TRY(sr1__scan_next(&s, NULL, &entry, &more));
        if (!more)
            break;
        SR1__RESERVE(l->t->scores, room, id + 1, "vocabulary");
        SR1__TRY(load_scored(l, entry, id));
    }
    l->t->unknown_score -= UNKNOWN_PENALTY;
    return l->t->trie.edges
               ? SR1_OK
               : sr1__fail(SR1_E_PARSE, "%s: model.vocab has no token", l->name);
}

/* As many as there are. */
void sr1__find_byte_tokens(sr1_tokenizer *t)
{
    char text[8];

    for (unsigned b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", b);
        t->byte_id[b] = sr1__vocab_find(&t->vocab, text, strlen(text));
    }
}

sr1_status sr1__load_unigram(struct sr1__load *l, const struct sr1__str *model)
{
    struct sr1__str vocab = {0}, unknown = {0}, fallback = {0};
    const struct sr1__wanted w[] = {
        {"vocab", &vocab}, {"unk_id", &unknown}, {"byte_fallback", &fallback}};

    SR1__TRY(sr1__load_members(l, *model, "model", w, sizeof w / sizeof w[0]));
    if (!vocab.s)
        return sr1__fail(SR1_E_PARSE, "%s: model needs 'vocab'", l->name);
    SR1__TRY(load_scores(l, vocab));
    l->t->byte_fallback = sr1__str_is(fallback, "true");
    sr1__find_byte_tokens(l->t);
    if (!unknown.s || sr1__str_is(unknown, "null"))
        return SR1_OK;
    SR1__TRY(sr1__scan_uint(unknown, SR1__TOKEN_ID_MAX, l->name, &l->t->unknown));
    return l->t->unknown < l->t->vocab.n
               ? SR1_OK
               : sr1__fail(SR1_E_PARSE, "%s: unk_id %u is not in model.vocab", l->name,
                           l->t->unknown);
}
