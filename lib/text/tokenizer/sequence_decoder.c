/* text/tokenizer/sequence_decoder.c - the decoders of files made from SentencePiece: each
 * token's marks become spaces, tokens of bytes characters, and the space that encoding
 * put in front goes.
 *
 * As in the reference, tokens of bytes beside one another are characters if they are
 * UTF-8 together; otherwise each of them is U+FFFD. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <string.h>

#define STEP_MAX 32 /* bytes of a text in a step */

void sr1__decoder_steps_free(struct sr1__decoder_steps *s)
{
    sr1__free(s->find);
    sr1__free(s->put);
}

/* ---- reading ---- */

static sr1_status refuse_step(const char *type, const char *name)
{
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: the decoder Sequence with %s at this place is not supported: "
                     "Replace, ByteFallback, Fuse and Strip are, in this order",
                     name, type);
}

static sr1_status load_replace_step(struct sr1__decoder_steps *s, const json_t *o,
                                    const char *name)
{
    const char *find =
        json_string_value(json_object_get(json_object_get(o, "pattern"), "String"));
    const char *put = json_string_value(json_object_get(o, "content"));

    if (!find || !*find || !put || strlen(find) > STEP_MAX || strlen(put) > STEP_MAX)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s: the decoder Replace is supported with a String pattern and "
                         "'content' of at most %d bytes only",
                         name, STEP_MAX);
    s->find = sr1__strdup(find);
    s->put = sr1__strdup(put);
    return s->find && s->put ? SR1_OK : sr1__fail_nomem("decoder");
}

static sr1_status load_byte_fallback_step(struct sr1__decoder_steps *s, const json_t *o,
                                          const char *name)
{
    (void)o;
    (void)name;
    s->bytes = 1;
    return SR1_OK;
}

static sr1_status load_fuse_step(struct sr1__decoder_steps *s, const json_t *o,
                                 const char *name)
{
    (void)s;
    (void)o;
    (void)name;
    return SR1_OK;
}

static sr1_status load_strip_step(struct sr1__decoder_steps *s, const json_t *o,
                                  const char *name)
{
    const char *content = json_string_value(json_object_get(o, "content"));
    json_int_t start = json_integer_value(json_object_get(o, "start"));
    json_int_t end = json_integer_value(json_object_get(o, "stop"));
    uint32_t cp;

    if (!content || !*content || start < 0 || end < 0 || start > 1 << 20 ||
        end > 1 << 20 || sr1__utf8_next(content, strlen(content), &cp) < 0 ||
        (size_t)sr1__utf8_next(content, strlen(content), &cp) != strlen(content))
        return sr1__fail(SR1_E_PARSE,
                         "%s: the decoder Strip needs 'content', a character, 'start' "
                         "and 'stop'",
                         name);
    memcpy(s->strip, content, strlen(content) + 1);
    s->start = (uint32_t)start;
    s->end = (uint32_t)end;
    return SR1_OK;
}

/* In the order in which they may stand; Strip needs Fuse before it. */
static const struct {
    const char *type;
    sr1_status (*load)(struct sr1__decoder_steps *s, const json_t *o, const char *name);
} steps[] = {
    {"Replace", load_replace_step},
    {"ByteFallback", load_byte_fallback_step},
    {"Fuse", load_fuse_step},
    {"Strip", load_strip_step},
};
enum { FUSE = 2, STRIP = 3, STEPS };

sr1_status sr1__decoder_steps_load(struct sr1__token_decoder *d, const json_t *o,
                                   const char *name)
{
    const json_t *list = json_object_get(o, "decoders"), *item;
    size_t i, next = 0;

    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const char *type = json_string_value(json_object_get(item, "type"));
        size_t k = next;

        while (k < STEPS && (!type || strcmp(type, steps[k].type) != 0))
            k++;
        if (k == STEPS || (k == STRIP && next != FUSE + 1))
            return refuse_step(type ? type : "a step of no type", name);
        SR1__TRY(steps[k].load(&d->steps, item, name));
        next = k + 1;
    }
    return next > FUSE ? SR1_OK : refuse_step("no Fuse", name);
}

/* ---- running ---- */

/* The byte that a token "<0x00>" to "<0xFF>" stands for; -1: it is none. */
static int byte_of_token(const char *token, size_t n)
{
    int high, low;

    if (n != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>')
        return -1;
    high = sr1__hex_digit(token[3]);
    low = sr1__hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

static void put_replaced(const struct sr1__decoder_steps *s, const char *token, size_t n,
                         struct sr1__buf *out)
{
    size_t len = s->find ? strlen(s->find) : 0;

    for (size_t i = 0; i < n;) {
        if (len && n - i >= len && memcmp(token + i, s->find, len) == 0) {
            sr1__buf_str(out, s->put);
            i += len;
        } else {
            sr1__buf_char(out, token[i++]);
        }
    }
}

/* The bytes gathered from out[at..) on. */
static void end_bytes(struct sr1__buf *out, size_t at)
{
    size_t n = out->len - at;

    if (out->status != SR1_OK || n == 0 || sr1__utf8_valid(out->data + at, n))
        return;
    out->len = at;
    for (size_t i = 0; i < n; i++)
        sr1__buf_str(out, "\xef\xbf\xbd");
}

/* out[at..) without what Strip takes away. */
static void strip_text(const struct sr1__decoder_steps *s, struct sr1__buf *out,
                       size_t at)
{
    size_t len = strlen(s->strip), n = out->len - at, from = 0;

    if (len == 0 || out->status != SR1_OK || n == 0)
        return;
    for (uint32_t i = 0; i < s->start && n - from >= len; i++) {
        if (memcmp(out->data + at + from, s->strip, len) != 0)
            break;
        from += len;
    }
    for (uint32_t i = 0; i < s->end && n - from >= len; i++) {
        if (memcmp(out->data + at + n - len, s->strip, len) != 0)
            break;
        n -= len;
    }
    memmove(out->data + at, out->data + at + from, n - from);
    out->len = at + n - from;
    out->data[out->len] = '\0';
}

sr1_status sr1__decoder_steps_run(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                  int skip_special, struct sr1__buf *out)
{
    const struct sr1__decoder_steps *s = &t->decoder.steps;
    size_t at = out->len, bytes = 0;

    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *token = sr1__decoded_token(t, ids[i], skip_special, &len);
        int byte = token && s->bytes ? byte_of_token(token, len) : -1;

        if (!token)
            continue;
        if (byte >= 0) {
            sr1__buf_char(out, (char)byte);
            bytes++;
            continue;
        }
        end_bytes(out, out->len - bytes);
        bytes = 0;
        put_replaced(s, token, len, out);
    }
    end_bytes(out, out->len - bytes);
    strip_text(s, out, at);
    return sr1__buf_status(out, "decoded text");
}

/* ---- a token alone ---- */

static sr1_status spell_token(sr1_tokenizer *t, uint32_t id, struct sr1__buf *room)
{
    const struct sr1__decoder_steps *s = &t->decoder.steps;
    size_t n = 0;
    const char *token = sr1__vocab_bytes(&t->vocab, id, &n);
    int byte = token && s->bytes ? byte_of_token(token, n) : -1;

    if (!token)
        return SR1_OK;
    sr1__buf_clear(room);
    if (byte >= 0)
        sr1__buf_char(room, (char)byte);
    else if (!sr1__token_decoder_spell(&t->decoder, token, n, room))
        put_replaced(s, token, n, room);
    SR1__TRY(sr1__buf_status(room, "vocabulary"));
    if (room->len == n && memcmp(room->data, token, n) == 0)
        return SR1_OK;
    return sr1__vocab_add(&t->spelled, id, sr1__buf_cstr(room), room->len,
                          SR1__TOKEN_ADDED);
}

sr1_status sr1__spell_tokens(sr1_tokenizer *t)
{
    struct sr1__buf room;
    sr1_status status = SR1_OK;

    sr1__buf_init(&room, 0);
    for (uint32_t id = 0; id < t->vocab.n && status == SR1_OK; id++)
        status = spell_token(t, id, &room);
    sr1__buf_free(&room);
    return status;
}
