/* text/tokenizer/decode_tokens.c - ids to text: the bytes of each token
 * (token_decoder.c), with UTF-8 repaired; and the same piece by piece for byte-level BPE.
 */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/mem.h"

#include <string.h>

const char *sr1__tokenizer_token_bytes(const sr1_tokenizer *t, int32_t id, size_t *n)
{
    const char *spelled = id < 0 ? NULL : sr1__vocab_bytes(&t->spelled, (uint32_t)id, n);

    return id < 0 || spelled ? spelled : sr1__vocab_bytes(&t->vocab, (uint32_t)id, n);
}

static int is_text(const sr1_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->n_text_ids; i++)
        if (t->text_ids[i] == id)
            return 1;
    return 0;
}

int sr1__tokenizer_is_special(const sr1_tokenizer *t, int32_t id)
{
    return !is_text(t, id) && id >= 0 && (uint32_t)id < t->vocab.n &&
           (t->vocab.tokens[id].flags & SR1__TOKEN_SPECIAL) != 0;
}

const char *sr1__decoded_token(const sr1_tokenizer *t, int32_t id, int skip_special,
                               size_t *n)
{
    const char *shown = id < 0 ? NULL : sr1__vocab_bytes(&t->shown, (uint32_t)id, n);

    /* In its normal form a token is not known as special, as in the reference. */
    if (shown)
        return shown;
    return id < 0 || (skip_special && sr1__tokenizer_is_special(t, id))
               ? NULL
               : sr1__vocab_bytes(&t->vocab, (uint32_t)id, n);
}

/* The bytes of tokens as text, with the status of making them. */
static sr1_status repair_text(const struct sr1__buf *bytes, sr1_status status,
                              struct sr1__buf *out)
{
    SR1__TRY(status);
    sr1__utf8_repair(sr1__buf_cstr(bytes), bytes->len, 0, out, NULL);
    return sr1__buf_status(out, "decoded text");
}

/* What a token adds to a text behind others. */
static void add_spelling(const sr1_tokenizer *t, int32_t id, int skip_special,
                         struct sr1__buf *out)
{
    size_t n = 0;
    const char *bytes = sr1__tokenizer_token_bytes(t, id, &n);

    if (bytes && !(skip_special && sr1__tokenizer_is_special(t, id)))
        sr1__buf_add(out, bytes, n);
}

sr1_status sr1__tokenizer_spell(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                int skip_special, struct sr1__buf *out)
{
    struct sr1__buf bytes;
    sr1_status status;

    sr1__buf_init(&bytes, 0);
    for (size_t i = 0; i < n; i++)
        add_spelling(t, ids[i], skip_special, &bytes);
    status = repair_text(&bytes, sr1__buf_status(&bytes, "decoded text"), out);
    sr1__buf_free(&bytes);
    return status;
}

sr1_status sr1__tokenizer_decode(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                 int skip_special, struct sr1__buf *out)
{
    struct sr1__buf bytes;
    sr1_status status;

    sr1__buf_init(&bytes, 0);
    status =
        repair_text(&bytes, sr1__token_decoder_run(t, ids, n, skip_special, &bytes), out);
    sr1__buf_free(&bytes);
    return status;
}

sr1_status sr1_tokenizer_decode(const sr1_tokenizer *t, const int32_t *ids, size_t n_ids,
                                int32_t skip_special, char **text, size_t *n)
{
    struct sr1__buf out;
    sr1_status status;
    size_t len;
    char *taken;

    if (!t || (!ids && n_ids) || !text)
        return sr1__fail(SR1_E_INVALID, "decode: tokenizer, ids and text are needed");
    sr1__buf_init(&out, 0);
    status = sr1__tokenizer_decode(t, ids, n_ids, skip_special, &out);
    len = out.len;
    taken = status == SR1_OK ? sr1__buf_take(&out) : NULL;
    if (!taken) {
        sr1__buf_free(&out);
        return status == SR1_OK ? sr1__fail_nomem("decoded text") : status;
    }
    *text = taken;
    if (n)
        *n = len;
    return SR1_OK;
}

struct sr1_token_stream {
    sr1_tokenizer *t;
    int skip_special;
    struct sr1__buf held; /* bytes of a character still incomplete, then the next token */
    struct sr1__buf text; /* what the last call gave */
};

sr1_status sr1_token_stream_new(sr1_token_stream **out, sr1_tokenizer *t,
                                int32_t skip_special)
{
    sr1_token_stream *s;

    if (!out || !t)
        return sr1__fail(SR1_E_INVALID, "token stream: out and tokenizer are needed");
    SR1__TRY(sr1__needs_bpe(t, "token stream"));
    SR1__CALLOC(s, 1, "token stream");
    s->t = sr1__tokenizer_ref(t);
    s->skip_special = skip_special != 0;
    sr1__buf_init(&s->held, 0);
    sr1__buf_init(&s->text, 0);
    *out = s;
    return SR1_OK;
}

void sr1_token_stream_free(sr1_token_stream *s)
{
    if (!s)
        return;
    sr1_tokenizer_free(s->t);
    sr1__buf_free(&s->held);
    sr1__buf_free(&s->text);
    sr1__free(s);
}

/* Give the whole characters of held; the bytes of an incomplete one stay unless at the
 * end. On failure held is as it was but for the last token. */
static sr1_status emit_held_text(sr1_token_stream *s, int more, size_t before,
                                 const char **text, size_t *n)
{
    size_t used = 0;
    sr1_status status = sr1__buf_status(&s->held, "token stream");

    sr1__buf_clear(&s->text);
    if (status == SR1_OK) {
        sr1__utf8_repair(sr1__buf_cstr(&s->held), s->held.len, more, &s->text, &used);
        status = sr1__buf_status(&s->text, "token stream");
    }
    if (status != SR1_OK) {
        s->held.len = before;
        s->held.status = SR1_OK;
        return status;
    }
    if (used) {
        memmove(s->held.data, s->held.data + used, s->held.len - used);
        s->held.len -= used;
    }
    *text = sr1__buf_cstr(&s->text);
    *n = s->text.len;
    return SR1_OK;
}

sr1_status sr1_token_stream_push(sr1_token_stream *s, int32_t id, const char **text,
                                 size_t *n)
{
    size_t before;

    if (!s || !text || !n)
        return sr1__fail(SR1_E_INVALID, "token stream: stream, text and n are needed");
    before = s->held.len;
    add_spelling(s->t, id, s->skip_special, &s->held);
    return emit_held_text(s, 1, before, text, n);
}

sr1_status sr1_token_stream_finish(sr1_token_stream *s, const char **text, size_t *n)
{
    if (!s || !text || !n)
        return sr1__fail(SR1_E_INVALID, "token stream: stream, text and n are needed");
    return emit_held_text(s, 0, s->held.len, text, n);
}
