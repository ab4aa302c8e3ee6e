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
    int alone;           /* encoded as a text of its own, not as one that continues */
    struct sr1__buf cut; /* owns text once it was cut */
};

static void body_free(struct observation_body *b)
{
    sr1__ids_free(&b->ids);
    sr1__buf_free(&b->cut);
}

static sr1_status body_begin(struct observation_body *b, const sr1_tokenizer *t,
                             const struct sr1__observation *o)
{
    *b = (struct observation_body){
        .t = t, .text = sr1__buf_cstr(&o->body), .len = o->body.len};
    sr1__buf_init(&b->cut, 0);
    return sr1__tokenizer_encode(
        t, b->text, b->len, SR1_ENCODE_ADDED_AS_TEXT | SR1_ENCODE_CONTINUED, &b->ids);
}

/* Shorten the body to at most `room` tokens, ending on a whole character. */
static sr1_status truncate_body(struct observation_body *b, size_t room)
{
    static const char incomplete[] = "\xEF\xBF\xBD";
    struct sr1__buf *cut = &b->cut;
    size_t n = room;

    for (;; n--) {
        sr1__buf_clear(cut);
        SR1__TRY(b->alone ? sr1__tokenizer_decode(b->t, b->ids.v, n, 0, cut)
                          : sr1__tokenizer_spell(b->t, b->ids.v, n, 0, cut));
        if (n == 0 || room - n >= 4 || cut->len < 3 ||
            memcmp(cut->data + cut->len - 3, incomplete, 3) != 0)
            break;
    }
    b->ids.n = n;
    b->text = sr1__buf_cstr(cut);
    b->len = cut->len;
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
    return sr1__tokenizer_encode(t, sr1__buf_cstr(tag), tag->len,
                                 SR1_ENCODE_ALL_ADDED | SR1_ENCODE_CONTINUED, ids);
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
        st = sr1__ids_append(&b->ids, body->ids.v, body->ids.n);
    if (st == SR1_OK)
        st = sr1__ids_append(&b->ids, tail.v, tail.n);
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
    return sr1__tokenizer_encode_own(all->t, all->text, all->len, own, 2, 0, &all->ids);
}

/* Of a block that was cut, all behind the head counts as outside text. */
static sr1_status make_search_r1_tokens(struct sr1__observation_tokens *b,
                                        const sr1_tokenizer *t,
                                        const struct sr1__observation *o, int64_t room,
                                        int *fits)
{
    struct observation_body all = {.t = t, .alone = 1};
    struct sr1__buf text;
    int cut = 0;
    sr1_status st;

    sr1__buf_init(&all.cut, 0);
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
        st = sr1__ids_append(&b->ids, all.ids.v, all.ids.n);
    }
    body_free(&all);
    sr1__buf_free(&text);
    return st;
}

/* ---- as a message ---- */

/* Observations that stand in one message. */
struct message_parts {
    const struct sr1__turn_delimiters *border;
    const char *between;
    const struct sr1__observation *o; /* [n] */
    struct observation_body *bodies;  /* [n] */
    size_t n;
    size_t *own; /* [4 * n] where the protocol's own words begin and end: heads, tails */
    int ended;
};

static void message_parts_free(struct message_parts *m)
{
    for (size_t k = 0; m->bodies && k < m->n; k++)
        body_free(&m->bodies[k]);
    sr1__free(m->bodies);
    sr1__free(m->own);
}

static sr1_status message_parts_init(struct message_parts *m, const sr1_tokenizer *t)
{
    m->bodies = sr1__calloc(m->n, sizeof(*m->bodies));
    m->own = sr1__calloc(4 * m->n, sizeof(*m->own));
    if (!m->bodies || !m->own)
        return sr1__fail_nomem("inserted text");
    for (size_t k = 0; k < m->n; k++)
        SR1__TRY(body_begin(&m->bodies[k], t, &m->o[k]));
    return SR1_OK;
}

/* The blocks one after the other, the template's words around them. A tail reaches to the
 * head of the next block, and the last one to the end. */
static void append_blocks(struct sr1__observation_tokens *b,
                          const struct message_parts *m)
{
    size_t first = 0;

    sr1__buf_str(&b->text, m->border->close);
    for (size_t k = 0; k < m->n; k++) {
        size_t *own = m->own + 4 * k;

        own[0] = k == 0 ? 0 : b->text.len;
        append_block_text(b, &m->o[k], &m->bodies[k]);
        first = k == 0 ? b->body_begin : first;
        own[1] = b->body_begin;
        own[2] = own[1] + b->body_len;
        sr1__buf_str(&b->text, k + 1 < m->n ? m->between : m->border->open);
        own[3] = b->text.len;
    }
    b->body_len = b->body_begin + b->body_len - first;
    b->body_begin = first;
}

/* Without the end of the policy's message, which the policy has sampled itself. */
static void drop_message_end(struct sr1__observation_tokens *b,
                             const struct sr1__turn_delimiters *border)
{
    b->ids.n -= border->n_end;
    memmove(b->ids.v, b->ids.v + border->n_end, b->ids.n * sizeof *b->ids.v);
    b->text.len -= border->end_len;
    memmove(b->text.data, b->text.data + border->end_len, b->text.len + 1);
    b->body_begin -= border->end_len;
}

static sr1_status build_message_tokens(struct sr1__observation_tokens *b,
                                       const struct message_parts *m)
{
    sr1__buf_clear(&b->text);
    b->ids.n = 0;
    append_blocks(b, m);
    SR1__TRY(sr1__buf_status(&b->text, "inserted text"));
    SR1__TRY(sr1__tokenizer_encode_own(m->bodies[0].t, sr1__buf_cstr(&b->text),
                                       b->text.len, m->own, 2 * m->n, 1, &b->ids));
    if (m->ended)
        drop_message_end(b, m->border);
    return SR1_OK;
}

static struct observation_body *find_longest_body(const struct message_parts *m)
{
    struct observation_body *longest = &m->bodies[0];

    for (size_t k = 1; k < m->n; k++)
        if (m->bodies[k].ids.n > longest->ids.n)
            longest = &m->bodies[k];
    return longest;
}

/* Take `over` tokens off the longest body, or so many that it is the longest no more. */
static sr1_status shorten_longest_body(const struct message_parts *m, size_t over)
{
    struct observation_body *longest = find_longest_body(m);
    size_t second = 0, most;

    for (size_t k = 0; k < m->n; k++)
        if (&m->bodies[k] != longest && m->bodies[k].ids.n > second)
            second = m->bodies[k].ids.n;
    most = second > 0 && second < longest->ids.n ? longest->ids.n - second
           : second > 0                          ? (over + m->n - 1) / m->n
                                                 : longest->ids.n;
    over = over < most ? over : most;
    return truncate_body(longest, over < longest->ids.n ? longest->ids.n - over : 0);
}

/* Tokens may merge at a body's end, so the rest is counted again after truncation. */
static sr1_status fit_message(struct sr1__observation_tokens *b,
                              const struct message_parts *m, int64_t room, int *fits)
{
    for (;;) {
        int64_t over;

        SR1__TRY(build_message_tokens(b, m));
        over = (int64_t)b->ids.n - room;
        *fits = over <= 0;
        if (*fits || find_longest_body(m)->len == 0)
            return SR1_OK;
        SR1__TRY(shorten_longest_body(m, (size_t)over));
    }
}

static sr1_status make_message_tokens(struct sr1__observation_tokens *b,
                                      const sr1_tokenizer *t, struct message_parts *m,
                                      int64_t room, int *fits)
{
    sr1_status st = message_parts_init(m, t);

    if (st == SR1_OK)
        st = fit_message(b, m, room, fits);
    message_parts_free(m);
    return st;
}

static sr1_status make_running_tokens(struct sr1__observation_tokens *b,
                                      const sr1_tokenizer *t,
                                      const struct sr1__observation *o, int64_t room,
                                      int *fits)
{
    struct observation_body body;
    sr1_status st = body_begin(&body, t, o);

    if (st == SR1_OK)
        st = make_inline_tokens(b, o, &body, room, fits);
    body_free(&body);
    return st;
}

sr1_status sr1__observation_tokens_make(struct sr1__observation_tokens *b,
                                        const sr1_tokenizer *t,
                                        const struct sr1__turn_delimiters *border,
                                        const struct sr1__protocol *p,
                                        const struct sr1__observation *o, size_t n,
                                        int ended, int64_t room, int *fits)
{
    struct message_parts m = {.border = border,
                              .between = p->between ? p->between : "",
                              .o = o,
                              .n = n,
                              .ended = ended};
    sr1_status st;

    memset(b, 0, sizeof(*b));
    sr1__buf_init(&b->text, 0);
    if (p->search_r1_compat)
        st = make_search_r1_tokens(b, t, o, room, fits);
    else if (border)
        st = make_message_tokens(b, t, &m, room, fits);
    else
        st = make_running_tokens(b, t, o, room, fits);
    if (st == SR1_OK)
        st = sr1__buf_status(&b->text, "inserted text");
    if (st != SR1_OK || !*fits)
        sr1__observation_tokens_free(b);
    return st;
}
