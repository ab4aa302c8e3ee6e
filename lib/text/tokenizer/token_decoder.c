/* text/tokenizer/token_decoder.c - the kinds of decoders, rows of the table at the end:
 * tokens to text. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/mem.h"

#include <string.h>

#define PREFIX_MAX 64

struct sr1__token_decoder_kind {
    const char *type;
    int alphabet; /* for tokens that are bytes, or for those that are text */
    sr1_status (*load)(struct sr1__token_decoder *d, const json_t *o, const char *name);
    /* Appends what a token adds; `begun`: one stood before it. */
    void (*token)(const struct sr1__token_decoder *d, const char *token, size_t n,
                  int begun, struct sr1__buf *out);
    /* In place of it: appends the text of all. */
    sr1_status (*all)(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                      int skip_special, struct sr1__buf *out);
};

static sr1_status load_plain_decoder(struct sr1__token_decoder *d, const json_t *o,
                                     const char *name)
{
    (void)d;
    (void)o;
    (void)name;
    return SR1_OK;
}

static void put_token_bytes(const struct sr1__token_decoder *d, const char *token,
                            size_t n, int begun, struct sr1__buf *out)
{
    (void)d;
    (void)begun;
    sr1__buf_add(out, token, n);
}

/* Without a decoder tokens are separated by spaces. */
static void put_apart(const struct sr1__token_decoder *d, const char *token, size_t n,
                      int begun, struct sr1__buf *out)
{
    (void)d;
    if (begun)
        sr1__buf_char(out, ' ');
    sr1__buf_add(out, token, n);
}

static sr1_status load_wordpiece(struct sr1__token_decoder *d, const json_t *o,
                                 const char *name)
{
    const char *prefix = json_string_value(json_object_get(o, "prefix"));

    prefix = prefix ? prefix : "##";
    if (strlen(prefix) > PREFIX_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: decoder: a prefix of more than %d bytes", name,
                         PREFIX_MAX);
    d->cleanup = !json_is_false(json_object_get(o, "cleanup"));
    d->prefix = sr1__strdup(prefix);
    return d->prefix ? SR1_OK : sr1__fail_nomem("decoder");
}

/* Replace each `from` in text[at..) by `to`, which is not longer. */
static void replace_with_shorter(struct sr1__buf *text, size_t at, const char *from,
                                 const char *to)
{
    size_t n_from = strlen(from), n_to = strlen(to), put = at;

    if (text->len - at < n_from)
        return;
    for (size_t i = at; i < text->len;) {
        if (text->len - i >= n_from && memcmp(text->data + i, from, n_from) == 0) {
            memcpy(text->data + put, to, n_to);
            put += n_to;
            i += n_from;
        } else {
            text->data[put++] = text->data[i++];
        }
    }
    text->len = put;
    text->data[put] = '\0';
}

/* Spaces that the cut at punctuation made; within the token that ends at the text's end.
 */
static void clean_up(struct sr1__buf *text, size_t at)
{
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        replace_with_shorter(text, at, rules[i][0], rules[i][1]);
}

static void put_wordpiece(const struct sr1__token_decoder *d, const char *token, size_t n,
                          int begun, struct sr1__buf *out)
{
    size_t at = out->len, prefix = strlen(d->prefix);

    if (begun && n >= prefix && memcmp(token, d->prefix, prefix) == 0)
        sr1__buf_add(out, token + prefix, n - prefix);
    else
        put_apart(d, token, n, begun, out);
    if (d->cleanup && out->status == SR1_OK)
        clean_up(out, at);
}

static sr1_status load_metaspace_decoder(struct sr1__token_decoder *d, const json_t *o,
                                         const char *name)
{
    return sr1__metaspace_load(&d->metaspace, o, name);
}

/* Marks are spaces; those of the first token are what the cut put in front. */
static void put_metaspace(const struct sr1__token_decoder *d, const char *token, size_t n,
                          int begun, struct sr1__buf *out)
{
    const char *mark = d->metaspace.mark;
    size_t len = strlen(mark);
    int drop = !begun && d->metaspace.prepend != SR1__PREPEND_NEVER;

    for (size_t i = 0; i < n;) {
        if (n - i < len || memcmp(token + i, mark, len) != 0) {
            sr1__buf_char(out, token[i++]);
            continue;
        }
        if (!drop)
            sr1__buf_char(out, ' ');
        i += len;
    }
}

static const struct sr1__token_decoder_kind kinds[] = {
    {"ByteLevel", 1, load_plain_decoder, put_token_bytes},
    {"null", 0, load_plain_decoder, put_apart},
    {"WordPiece", 0, load_wordpiece, put_wordpiece},
    {"Metaspace", 0, load_metaspace_decoder, put_metaspace},
    {"Sequence", 0, sr1__decoder_steps_load, NULL, sr1__decoder_steps_run},
};

sr1_status sr1__token_decoder_load(sr1_tokenizer *t, const json_t *o, const char *name)
{
    const char *type = json_string_value(json_object_get(o, "type"));

    type = json_is_null(o) ? "null" : type ? type : "";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].type, type) != 0 || kinds[i].alphabet != t->model->alphabet)
            continue;
        t->decoder.kind = &kinds[i];
        return kinds[i].load(&t->decoder, o, name);
    }
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: the decoder '%s' is not supported with the model %s", name,
                     type, t->model->type);
}

int sr1__token_decoder_spell(const struct sr1__token_decoder *d, const char *token,
                             size_t n, struct sr1__buf *out)
{
    if (!d->kind->token)
        return 0;
    d->kind->token(d, token, n, 1, out);
    return 1;
}

sr1_status sr1__token_decoder_run(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                  int skip_special, struct sr1__buf *out)
{
    int begun = 0;

    if (t->decoder.kind->all)
        return t->decoder.kind->all(t, ids, n, skip_special, out);
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *token = sr1__decoded_token(t, ids[i], skip_special, &len);

        if (!token)
            continue;
        t->decoder.kind->token(&t->decoder, token, len, begun, out);
        begun = 1;
    }
    return sr1__buf_status(out, "decoded text");
}
