/* tokenizer/load_pieces.c - WordPiece and Unigram in tokenizer.json: vocabularies whose
 * tokens are text, entered into a trie. */
#include "tokenizer/load.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

#define PIECE_MAX_DEFAULT 100u
#define UNKNOWN_PENALTY 10.0 /* below the lowest score */

sr1_status sr1__load_cuts(struct sr1__load *l, const json_t *o)
{
    return sr1__cuts_load(&l->t->cuts, o, l->name);
}

/* A token of the model, at the roots where it may stand: WordPiece's prefix (NULL: there
 * is none of that) also marks those that continue a word. */
static sr1_status add_token(struct sr1__load *l, struct sr1__slice text, uint32_t id,
                            const struct sr1__buf *prefix)
{
    sr1_tokenizer *t = l->t;

    SR1__TRY(sr1__context(
        sr1__vocab_add(&t->vocab, id, text.p, text.n, SR1__TOKEN_MODEL),
        "%s: model.vocab", l->name));
    if (text.n)
        SR1__TRY(sr1__trie_add(&t->trie, SR1__TRIE_ROOT, text.p, text.n, (int32_t)id));
    if (!prefix || text.n <= prefix->len ||
        memcmp(text.p, sr1__buf_cstr(prefix), prefix->len) != 0)
        return SR1_OK;
    return sr1__trie_add(&t->trie, SR1__TRIE_SECOND_ROOT, text.p + prefix->len,
                         text.n - prefix->len, (int32_t)id);
}

static sr1_status load_vocab(struct sr1__load *l, struct sr1__slice vocab,
                             const struct sr1__buf *prefix)
{
    struct sr1__scan s;
    struct sr1__slice key, value, text;
    int more;
    uint32_t id;

    SR1__TRY(sr1__scan_open(&s, vocab, '{', l->name, "model.vocab"));
    for (;;) {
        SR1__TRY(sr1__scan_next(&s, &key, &value, &more));
        if (!more)
            return SR1_OK;
        SR1__TRY(sr1__scan_uint(value, SR1__TOKEN_ID_MAX, l->name, &id));
        SR1__TRY(sr1__load_string(l, key, &text));
        SR1__TRY(add_token(l, text, id, prefix));
    }
}

/* A string member into out; `otherwise` where there is none. */
static sr1_status copy_text(struct sr1__load *l, struct sr1__slice value,
                            const char *otherwise, struct sr1__buf *out)
{
    struct sr1__slice text = {otherwise, strlen(otherwise)};

    if (value.p)
        SR1__TRY(sr1__load_string(l, value, &text));
    sr1__buf_add(out, text.p, text.n);
    return sr1__buf_status(out, "model");
}

static sr1_status load_words(struct sr1__load *l, struct sr1__slice vocab,
                             struct sr1__slice unknown, struct sr1__slice prefix)
{
    struct sr1__buf mark;
    sr1_status status;

    sr1__buf_init(&mark, 0);
    status = copy_text(l, prefix, "##", &mark);
    if (status == SR1_OK)
        status = load_vocab(l, vocab, &mark);
    sr1__buf_clear(&l->left);
    if (status == SR1_OK)
        status = copy_text(l, unknown, "[UNK]", &l->left);
    sr1__buf_free(&mark);
    return status;
}

sr1_status sr1__load_wordpiece(struct sr1__load *l, const struct sr1__slice *model)
{
    struct sr1__slice vocab = {0}, unknown = {0}, prefix = {0}, longest = {0};
    const struct sr1__wanted w[] = {
        {"vocab", &vocab},
        {"unk_token", &unknown},
        {"continuing_subword_prefix", &prefix},
        {"max_input_chars_per_word", &longest},
    };
    uint32_t most = PIECE_MAX_DEFAULT;

    SR1__TRY(sr1__load_members(l, *model, "model", w, sizeof w / sizeof w[0]));
    if (!vocab.p)
        return sr1__fail(SR1_E_PARSE, "%s: model needs 'vocab'", l->name);
    if (longest.p)
        SR1__TRY(sr1__scan_uint(longest, UINT32_MAX - 1, l->name, &most));
    l->t->piece_max = most;
    SR1__TRY(load_words(l, vocab, unknown, prefix));
    l->t->unknown =
        sr1__vocab_find(&l->t->vocab, sr1__buf_cstr(&l->left), l->left.len);
    if (l->t->unknown == SR1__NO_TOKEN || !l->t->trie.edges)
        return sr1__fail(SR1_E_PARSE, "%s: unk_token '%s' is not in model.vocab", l->name,
                         sr1__buf_cstr(&l->left));
    return SR1_OK;
}

/* ["token", score]. */
static sr1_status load_scored(struct sr1__load *l, struct sr1__slice entry, uint32_t id)
{
    struct sr1__slice part[3], text;
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
    if (!sr1__parse_real(part[1].p, part[1].n, &score))
        return sr1__fail(SR1_E_PARSE, "%s: model.vocab: the score of entry %u is '%.*s'",
                         l->name, id, (int)(part[1].n < 40 ? part[1].n : 40), part[1].p);
    SR1__TRY(sr1__load_string(l, part[0], &text));
    l->t->scores[id] = score;
    if (id == 0 || score < l->t->unknown_score)
        l->t->unknown_score = score;
    return add_token(l, text, id, NULL);
}

static sr1_status load_scores(struct sr1__load *l, struct sr1__slice vocab)
{
    struct sr1__scan s;
    struct sr1__slice entry;
    uint32_t room = 0;
    int more;

    SR1__TRY(sr1__scan_open(&s, vocab, '[', l->name, "model.vocab"));
    for (uint32_t id = 0;; id++) {
        SR1__TRY(sr1__scan_next(&s, NULL, &entry, &more));
        if (!more)
            break;
        if (id == room) {
            double *scores = sr1__realloc(l->t->scores, room = 2 * room + 1024,
                                          sizeof *scores);

            if (!scores)
                return sr1__fail_nomem("vocabulary");
            l->t->scores = scores;
        }
        SR1__TRY(load_scored(l, entry, id));
    }
    l->t->unknown_score -= UNKNOWN_PENALTY;
    return l->t->trie.edges ? SR1_OK
                            : sr1__fail(SR1_E_PARSE, "%s: model.vocab has no token",
                                        l->name);
}

/* Byte tokens "<0x00>" to "<0xFF>", as many as there are. */
static void find_byte_tokens(sr1_tokenizer *t)
{
    char text[8];

    for (unsigned b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", b);
        t->byte_id[b] = sr1__vocab_find(&t->vocab, text, strlen(text));
    }
}

sr1_status sr1__load_unigram(struct sr1__load *l, const struct sr1__slice *model)
{
    struct sr1__slice vocab = {0}, unknown = {0}, fallback = {0};
    const struct sr1__wanted w[] = {
        {"vocab", &vocab}, {"unk_id", &unknown}, {"byte_fallback", &fallback}};

    SR1__TRY(sr1__load_members(l, *model, "model", w, sizeof w / sizeof w[0]));
    if (!vocab.p)
        return sr1__fail(SR1_E_PARSE, "%s: model needs 'vocab'", l->name);
    SR1__TRY(load_scores(l, vocab));
    l->t->byte_fallback = sr1__slice_is(fallback, "true");
    find_byte_tokens(l->t);
    if (!unknown.p || sr1__slice_is(unknown, "null"))
        return SR1_OK;
    SR1__TRY(sr1__scan_uint(unknown, SR1__TOKEN_ID_MAX, l->name, &l->t->unknown));
    return l->t->unknown < l->t->vocab.n
               ? SR1_OK
               : sr1__fail(SR1_E_PARSE, "%s: unk_id %u is not in model.vocab", l->name,
                           l->t->unknown);
}
