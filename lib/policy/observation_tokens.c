/* policy/observation_tokens.c - an observation as tokens.
 *
 * The tags are the protocol's; the body is outside text, in which no added token is
 * recognised. In running text tags and body are encoded separately, so a body is
 * truncated by dropping tokens. A message is encoded whole, as the chat template renders
 * it, so its body is truncated by its text. */
#include "policy/observation_tokens.h"

#include "base/mem.h"

#include <string.h>

void sr1__observation_tokens_free(struct sr1__observation_tokens *b)
{
    sr1__ids_free(&b->ids);
    sr1__buf_free(&b->text);
    b->body_begin = b->body_len = 0;
}

/* Outside text, or all of a block: its first n ids, and their text. */
struct observation_body {
    const sr1_tokenizer *t;
    struct sr1__ids ids;
    const char *text;
    size_t len;
    char *cut; /* owns text once it was cut */
};

static void body_free(struct observation_body *b)
{
    sr1__ids_free(&b->ids);
    sr1_free(b->cut);
}

static sr1_status body_begin(struct observation_body *b, const sr1_tokenizer *t,
                             const struct sr1__observation *o)
{
    *b = (struct observation_body){
        .t = t, .text = sr1__buf_cstr(&o->body), .len = o->body.len};
    return sr1__tokenizer_encode(t, b->text, b->len, SR1_ENCODE_ADDED_AS_TEXT, &b->ids);
}

/* Shorten the body to at most `room` tokens, ending on a whole character. */
static sr1_status truncate_body(struct observation_body *b, size_t room)
{
    static const char incomplete[] = "\xEF\xBF\xBD";
    size_t n = room, len = 0;
    char *text = NULL;

    for (;;) {
        SR1__TRY(sr1_tokenizer_decode(b->t, b->ids.v, n, 0, &text, &len));
        if (n == 0 || room - n >= 4 || len < 3 ||
            memcmp(text + len - 3, incomplete, 3) != 0)
            break;
        sr1_free(text);
        n--;
    }
    sr1_free(b->cut);
    b->ids.n = n;
    b->text = b->cut = text;
    b->len = len;
    return SR1_OK;
}

static sr1_status add_ids(struct sr1__ids *to, const struct sr1__ids *from, size_t begin)
{
    for (size_t i = begin; i < from->n; i++)
        SR1__TRY(sr1__ids_add(to, from->v[i]));
    return SR1_OK;
}

static void append_block_text(struct sr1__observation_tokens *b,
                              const struct sr1__observation *o,
                              const struct observation_body *body)
{
    sr1__buf_add(&b->text, sr1__buf_cstr(&o->head), o->head.len);
    b->body_begin = b->text.len;
    b->body_len = body->len;
    sr1__buf_add(&b->text, body->text, body->len);
    sr1__buf_add(&b->text, sr1__buf_cstr(&o->tail), o->tail.len);
}

/* ---- in running text ---- */

static sr1_status encode_tag(const sr1_tokenizer *t, const struct sr1__buf *tag,
                             struct sr1__ids *ids)
{
    return sr1__tokenizer_encode(t, sr1__buf_cstr(tag), tag->len, SR1_ENCODE_ALL_ADDED,
                                 ids);
}

static sr1_status make_inline_tokens(struct sr1__observation_tokens *b,
                                     const struct sr1__observation *o,
                                     struct observation_body *body, int64_t room,
                                     int *fits)
{
    struct sr1__ids tail = {0};
    sr1_status st = encode_tag(body->t, &o->head, &b->ids);
    int64_t tags;

    if (st == SR1_OK)
        st = encode_tag(body->t, &o->tail, &tail);
    tags = (int64_t)(b->ids.n + tail.n);
    *fits = tags <= room;
    if (st == SR1_OK && *fits && tags + (int64_t)body->ids.n > room)
        st = truncate_body(body, (size_t)(room - tags));
    if (st == SR1_OK)
        st = add_ids(&b->ids, &body->ids, 0);
    if (st == SR1_OK)
        st = add_ids(&b->ids, &tail, 0);
    append_block_text(b, o, body);
    sr1__ids_free(&tail);
    return st;
}

/* ---- in running text, in the way of Search-R1's published code ---- */

static sr1_status encode_whole(struct observation_body *all,
                               const struct sr1__observation *o,
                               const struct sr1__buf *text)
{
    size_t body_end = o->head.len + o->body.len;
    size_t own[4] = {0, o->head.len, body_end, text->len};

    SR1__TRY(sr1__buf_status(text, "inserted text"));
    all->text = sr1__buf_cstr(text);
    all->len = text->len;
    return sr1__tokenizer_encode_own(all->t, all->text, all->len, own, 2, &all->ids);
}

/* Of a block that was cut, all behind the head counts as outside text. */
static sr1_status make_search_r1_tokens(struct sr1__observation_tokens *b,
                                        const sr1_tokenizer *t,
                                        const struct sr1__observation *o, int64_t room,
                                        int *fits)
{
    struct observation_body all = {.t = t};
    struct sr1__buf text;
    int cut = 0;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__buf_add(&text, sr1__buf_cstr(&o->head), o->head.len);
    sr1__buf_add(&text, sr1__buf_cstr(&o->body), o->body.len);
    sr1__buf_add(&text, sr1__buf_cstr(&o->tail), o->tail.len);
    st = encode_whole(&all, o, &text);
    if (st == SR1_OK && (cut = (int64_t)all.ids.n > room))
        st = truncate_body(&all, room > 0 ? (size_t)room : 0);
    *fits = all.len >= o->head.len;
    if (st == SR1_OK && *fits) {
        sr1__buf_add(&b->text, all.text, all.len);
        b->body_begin = o->head.len;
        b->body_len = cut ? all.len - o->head.len : o->body.len;
        st = add_ids(&b->ids, &all.ids, 0);
    }
    body_free(&all);
    sr1__buf_free(&text);
    return st;
}

/* ---- as a message ---- */

/* Head and tail are the protocol's own words. */
static sr1_status encode_message(struct sr1__observation_tokens *b,
                                 const struct sr1__observation *o,
                                 const struct observation_body *body, size_t begin)
{
    size_t head = o->head.len, n = head + body->len + o->tail.len;
    size_t own[4] = {0, head, head + body->len, n};

    SR1__TRY(sr1__buf_status(&b->text, "inserted text"));
    return sr1__tokenizer_encode_own(body->t, sr1__buf_cstr(&b->text) + begin, n, own, 2,
                                     &b->ids);
}

static sr1_status build_message_tokens(struct sr1__observation_tokens *b,
                                       const struct sr1__turn_delimiters *border,
                                       const struct sr1__observation *o,
                                       const struct observation_body *body, int ended)
{
    size_t begin;

    sr1__buf_clear(&b->text);
    b->ids.n = 0;
    sr1__buf_str(&b->text, border->close + (ended ? border->end_len : 0));
    begin = b->text.len;
    append_block_text(b, o, body);
    SR1__TRY(add_ids(&b->ids, &border->close_ids, ended ? border->n_end : 0));
    SR1__TRY(encode_message(b, o, body, begin));
    sr1__buf_str(&b->text, border->open);
    return add_ids(&b->ids, &border->open_ids, 0);
}

/* Tokens may merge at the body's end, so the rest is counted again after truncation. */
static sr1_status make_message_tokens(struct sr1__observation_tokens *b,
                                      const struct sr1__turn_delimiters *border,
                                      const struct sr1__observation *o,
                                      struct observation_body *body, int ended,
                                      int64_t room, int *fits)
{
    for (;;) {
        int64_t over;

        SR1__TRY(build_message_tokens(b, border, o, body, ended));
        over = (int64_t)b->ids.n - room;
        *fits = over <= 0;
        if (*fits || body->len == 0)
            return SR1_OK;
        SR1__TRY(truncate_body(
            body, over < (int64_t)body->ids.n ? body->ids.n - (size_t)over : 0));
    }
}

static sr1_status make_body_tokens(struct sr1__observation_tokens *b,
                                   const sr1_tokenizer *t,
                                   const struct sr1__turn_delimiters *border,
                                   const struct sr1__observation *o, int ended,
                                   int64_t room, int *fits)
{
    struct observation_body body;
    sr1_status st = body_begin(&body, t, o);

    if (st == SR1_OK)
        st = border ? make_message_tokens(b, border, o, &body, ended, room, fits)
                    : make_inline_tokens(b, o, &body, room, fits);
    body_free(&body);
    return st;
}

sr1_status sr1__observation_tokens_make(struct sr1__observation_tokens *b,
                                        const sr1_tokenizer *t,
                                        const struct sr1__turn_delimiters *border,
                                        int search_r1_compat,
                                        const struct sr1__observation *o, int ended,
                                        int64_t room, int *fits)
{
    sr1_status st;

    memset(b, 0, sizeof(*b));
    sr1__buf_init(&b->text, 0);
    st = search_r1_compat ? make_search_r1_tokens(b, t, o, room, fits)
                          : make_body_tokens(b, t, border, o, ended, room, fits);
    if (st == SR1_OK)
        st = sr1__buf_status(&b->text, "inserted text");
    if (st != SR1_OK || !*fits)
        sr1__observation_tokens_free(b);
    return st;
}
