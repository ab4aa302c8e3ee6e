/* text/tokenizer/encode_text.c - text to ids:
 *
 *     UTF-8 repaired -> split at added tokens -> normalised (normalizer.c) -> split at
 *     added tokens that are matched in normalised text -> split into pieces, by the
 *     pattern or by the file's pre-tokenizer (pre_tokenizer.c) -> each piece by the model
 *     (bpe.c, wordpiece.c, unigram.c)
 *
 * Pieces repeat: in a long text the ids of an earlier equal piece are copied from the
 * output itself. An earlier position is accepted if its tokens spell the piece, so no
 * text has to be stored. */
#include "text/tokenizer/tokenizer_internal.h"

#include "text/tokenizer/unicode.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"

#include <string.h>

#define SEEN_SLOTS 8192u
#define SEEN_MIN_TEXT 2048u /* shorter texts are not worth the table */
#define SEEN_PIECE_MAX 64u

struct sr1__seen {
    uint32_t tag;
    uint32_t n; /* ids; 0: empty slot */
    size_t at;  /* in the output */
};

void sr1__ids_free(struct sr1__ids *ids)
{
    sr1__free(ids->v);
    memset(ids, 0, sizeof *ids);
}

sr1_status sr1__ids_add(struct sr1__ids *ids, int32_t id)
{
    SR1__RESERVE(ids->v, ids->cap, ids->n + 1, "token ids");
    ids->v[ids->n++] = id;
    return SR1_OK;
}

sr1_status sr1__ids_append(struct sr1__ids *ids, const int32_t *v, size_t n)
{
    if (n == 0)
        return SR1_OK;
    SR1__RESERVE(ids->v, ids->cap, ids->n + n, "token ids");
    memcpy(ids->v + ids->n, v, n * sizeof *v);
    ids->n += n;
    return SR1_OK;
}

/* Bytes at p that are replaced together: the longest start of a character, at least one.
 */
static size_t bad_length(const char *p, size_t n)
{
    uint32_t cp;

    for (size_t k = n < 3 ? n : 3; k > 1; k--)
        if (sr1__utf8_next(p, k, &cp) == -1)
            return k;
    return 1;
}

void sr1__utf8_repair(const char *bytes, size_t n, int more, struct sr1__buf *out,
                      size_t *used)
{
    size_t i = 0, good = 0;
    uint32_t cp;

    while (i < n) {
        int len = sr1__utf8_next(bytes + i, n - i, &cp);

        if (len > 0) {
            i += (size_t)len;
            continue;
        }
        if (len == -1 && more)
            break;
        sr1__buf_add(out, bytes + good, i - good);
        sr1__buf_str(out, "\xef\xbf\xbd");
        i += bad_length(bytes + i, n - i);
        good = i;
    }
    sr1__buf_add(out, bytes + good, i - good);
    if (used)
        *used = i;
}

sr1_status sr1__utf8_checked(const char **text, size_t *n, struct sr1__buf *repaired)
{
    sr1__buf_init(repaired, 0);
    if (sr1__utf8_valid(*text, *n))
        return SR1_OK;
    sr1__utf8_repair(*text, *n, 0, repaired, NULL);
    SR1__TRY(sr1__buf_status(repaired, "text to encode"));
    *text = sr1__buf_cstr(repaired);
    *n = repaired->len;
    return SR1_OK;
}

sr1_status sr1__text_encoder_begin(struct sr1__text_encoder *e, const sr1_tokenizer *t,
                                   struct sr1__ids *out)
{
    memset(e, 0, sizeof *e);
    sr1__buf_init(&e->normal[0], 0);
    sr1__buf_init(&e->normal[1], 0);
    for (size_t i = 0; i < t->cuts.n; i++)
        sr1__buf_init(&e->marked[i], 0);
    e->t = t;
    e->out = out;
    for (size_t i = 0; i < t->n_splits; i++)
        SR1__TRY(sr1__split_begin(&e->splits[i], t->splits[i]));
    return SR1_OK;
}

void sr1__text_encoder_end(struct sr1__text_encoder *e)
{
    for (size_t i = 0; i < e->t->n_splits; i++)
        if (e->splits[i].data)
            sr1__split_end(&e->splits[i]);
    sr1__buf_free(&e->normal[0]);
    sr1__buf_free(&e->normal[1]);
    for (size_t i = 0; i < e->t->cuts.n; i++)
        sr1__buf_free(&e->marked[i]);
    sr1__free(e->best);
    sr1__free(e->symbols);
    sr1__free(e->room);
    sr1__free(e->queue);
    sr1__free(e->seen);
}

/* Whether these ids spell the piece. */
static int ids_spell_piece(const struct sr1__text_encoder *e, const struct sr1__seen *s,
                           const char *piece, size_t n)
{
    for (uint32_t i = 0; i < s->n; i++) {
        size_t len = 0;
        const char *bytes =
            sr1__vocab_bytes(&e->t->vocab, (uint32_t)e->out->v[s->at + i], &len);

        if (len > n || memcmp(bytes, piece, len) != 0)
            return 0;
        piece += len;
        n -= len;
    }
    return n == 0;
}

static sr1_status encode_seen_piece(struct sr1__text_encoder *e, const char *piece,
                                    size_t n)
{
    struct sr1__seen *s;
    uint64_t hash;
    size_t at = e->out->n;

    if (!e->seen || n == 1 || n > SEEN_PIECE_MAX)
        return sr1__merge_piece(e, piece, n);
    hash = sr1__hash64(piece, n, 0);
    s = &e->seen[hash % SEEN_SLOTS];
    if (s->n && s->tag == (uint32_t)(hash >> 32) && ids_spell_piece(e, s, piece, n)) {
        for (uint32_t i = 0; i < s->n; i++)
            SR1__TRY(sr1__ids_add(e->out, e->out->v[s->at + i]));
        return SR1_OK;
    }
    SR1__TRY(sr1__merge_piece(e, piece, n));
    *s = (struct sr1__seen){(uint32_t)(hash >> 32), (uint32_t)(e->out->n - at), at};
    return SR1_OK;
}

/* Cut text by the patterns from `level` on. */
static sr1_status encode_split_from(struct sr1__text_encoder *e, size_t level,
                                    const char *text, size_t n)
{
    struct sr1__split *split;

    if (level == e->t->n_splits)
        return encode_seen_piece(e, text, n);
    split = &e->splits[level];
    sr1__split_text(split, text, n);
    for (;;) {
        const char *piece;
        size_t len;

        SR1__TRY(sr1__split_next(split, &piece, &len));
        if (len == 0)
            return SR1_OK;
        SR1__TRY(encode_split_from(e, level + 1, piece, len));
    }
}

sr1_status sr1__encode_split(struct sr1__text_encoder *e, const char *text, size_t n)
{
    if (!e->seen && n >= SEEN_MIN_TEXT) {
        SR1__CALLOC(e->seen, SEEN_SLOTS, "pieces met before");
    }
    return encode_split_from(e, 0, text, n);
}

sr1_status sr1__encode_pre_tokenized(struct sr1__text_encoder *e, const char *text,
                                     size_t n)
{
    return sr1__pre_tokenize(e, 0, text, n, e->first);
}

/* Normalise text: if it changes, *text and *n then point into a buffer. */
static sr1_status normalize_text(struct sr1__text_encoder *e, const char **text,
                                 size_t *n)
{
    return sr1__normalizer_run(&e->t->normaliser, e->normal, text, n,
                               e->continued && e->first);
}

sr1_status sr1__encode_plain(struct sr1__text_encoder *e, const char *text, size_t n)
{
    SR1__TRY(normalize_text(e, &text, &n));
    return e->t->model->text(e, text, n);
}

int sr1__find_added(const sr1_tokenizer *t, const char *text, size_t n, size_t from,
                    struct sr1__added_match *m)
{
    struct sr1__added_match normal = {0};
    int found = sr1__added_find(&t->added, text, n, from, m);

    if (!sr1__added_find(&t->added_normalised, text, found ? m->at : n, from, &normal))
        return found;
    *m = normal;
    return 1;
}

typedef sr1_status encode_fn(struct sr1__text_encoder *e, const char *text, size_t n,
                             int32_t mode);

void sr1__widen_added(struct sr1__added_match *m, const char *text, size_t n, size_t from)
{
    size_t end = m->at + m->n;

    if (m->flags & SR1__ADDED_LSTRIP)
        m->at -= sr1__space_before(text + from, m->at - from);
    if (m->flags & SR1__ADDED_RSTRIP)
        end += sr1__space_after(text + end, n - end);
    m->n = end - m->at;
}

/* Cut text at the tokens of `added`, encode what lies between by `rest`. A special token
 * that is to be text still takes its place in the search, as in the reference. */
static sr1_status split_at_added(struct sr1__text_encoder *e,
                                 const struct sr1__added *added, const char *text,
                                 size_t n, int32_t mode, encode_fn *rest)
{
    struct sr1__added_match m = {0};
    size_t from = 0;
    size_t first = e->first;

    for (size_t at = 0; sr1__added_find(added, text, n, at, &m); at = m.at + m.n) {
        if ((m.flags & SR1__ADDED_SPECIAL) && mode == SR1_ENCODE_SPECIAL_AS_TEXT)
            continue;
        sr1__widen_added(&m, text, n, from);
        e->first = first > from ? first - from : 0;
        SR1__TRY(rest(e, text + from, m.at - from, mode));
        SR1__TRY(sr1__ids_add(e->out, m.id));
        from = m.at + m.n;
    }
    e->first = first > from ? first - from : 0;
    return rest(e, text + from, n - from, mode);
}

static sr1_status encode_pieces(struct sr1__text_encoder *e, const char *text, size_t n,
                                int32_t mode)
{
    (void)mode;
    return e->t->model->text(e, text, n);
}

static sr1_status encode_normal(struct sr1__text_encoder *e, const char *text, size_t n,
                                int32_t mode)
{
    if (e->first && e->t->cuts.needs_first && n)
        SR1__TRY(
            sr1__normalizer_first_char(&e->t->normaliser, e->normal, text, n, &e->first));
    SR1__TRY(normalize_text(e, &text, &n));
    return split_at_added(e, &e->t->added_normalised, text, n, mode, encode_pieces);
}

sr1_status sr1__encode_mixed(struct sr1__text_encoder *e, const char *text, size_t n,
                             int32_t mode)
{
    e->first = 1;
    e->continued = (mode & SR1_ENCODE_CONTINUED) != 0;
    mode &= ~SR1_ENCODE_CONTINUED;
    if (mode == SR1_ENCODE_ADDED_AS_TEXT)
        return sr1__encode_plain(e, text, n);
    return split_at_added(e, &e->t->added, text, n, mode, encode_normal);
}

sr1_status sr1__tokenizer_encode(const sr1_tokenizer *t, const char *text, size_t n,
                                 int32_t mode, struct sr1__ids *ids)
{
    struct sr1__text_encoder e;
    struct sr1__buf repaired;
    size_t before = ids->n;
    sr1_status status;

    if (mode < SR1_ENCODE_ALL_ADDED ||
        (mode & ~SR1_ENCODE_CONTINUED) > SR1_ENCODE_ADDED_AS_TEXT)
        return sr1__fail(SR1_E_INVALID, "encode: no mode %d; see SR1_ENCODE_...", mode);
    if (n > SR1__TEXT_MAX)
        return sr1__fail(SR1_E_LIMIT, "encode: text of %zu bytes; at most %zu", n,
                         SR1__TEXT_MAX);
    status = sr1__text_encoder_begin(&e, t, ids);
    if (status == SR1_OK)
        status = sr1__utf8_checked(&text, &n, &repaired);
    else
        sr1__buf_init(&repaired, 0);
    if (status == SR1_OK)
        status = sr1__encode_mixed(&e, text, n, mode);
    if (status != SR1_OK)
        ids->n = before;
    sr1__buf_free(&repaired);
    sr1__text_encoder_end(&e);
    return status;
}

sr1_status sr1_tokenizer_encode(const sr1_tokenizer *t, const char *text, size_t n,
                                int32_t mode, int32_t **ids, size_t *n_ids)
{
    struct sr1__ids found = {0};
    sr1_status status;

    if (!t || (!text && n) || !ids || !n_ids)
        return sr1__fail(SR1_E_INVALID,
                         "encode: tokenizer, text, ids and n_ids are needed");
    status = sr1__tokenizer_encode(t, text ? text : "", n, mode, &found);
    if (status == SR1_OK && !found.v) {
        found.v = sr1__malloc(sizeof *found.v); /* never NULL, even for no ids */
        status = found.v ? SR1_OK : sr1__fail_nomem("token ids");
    }
    if (status != SR1_OK) {
        sr1__ids_free(&found);
        return status;
    }
    *ids = found.v;
    *n_ids = found.n;
    return SR1_OK;
}
