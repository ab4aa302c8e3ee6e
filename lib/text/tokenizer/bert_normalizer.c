/* text/tokenizer/bert_normalizer.c - BERT's normalizer: control characters removed and
 * white space made plain; spaces around Han; decomposed and without marks; lower case.
 * ASCII is processed in one pass, other text span by span. */
#include "text/tokenizer/bert_normalizer.h"

#include "base/utf8.h"
#include "text/tokenizer/nfc.h"
#include "text/tokenizer/unicode.h"

/* Spaces and Han of one character that is not ASCII; what is removed adds nothing. */
static void clean_char(uint32_t parts, uint32_t cp, struct sr1__buf *out)
{
    int han = (parts & SR1__BERT_HAN) && sr1__char_is_han(cp);

    if (parts & SR1__BERT_CLEAN) {
        if (cp == 0xfffd || sr1__char_is_bert_removed(cp))
            return;
        cp = sr1__char_is_space(cp) ? ' ' : cp;
    }
    if (han)
        sr1__buf_char(out, ' ');
    sr1__put_char(out, cp);
    if (han)
        sr1__buf_char(out, ' ');
}

/* Buffers of one run. */
struct room {
    struct sr1__buf clean;
    struct sr1__buf form;
};

/* A stretch without ASCII: cleaned, decomposed, without marks, in lower case. */
static sr1_status normalize_non_ascii_run(uint32_t parts, const char *text, size_t n,
                                          struct room *room, struct sr1__buf *out)
{
    struct sr1__buf *from = &room->clean;
    int strip = (parts & SR1__BERT_STRIP_MARKS) != 0;

    sr1__buf_clear(&room->clean);
    sr1__buf_clear(&room->form);
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;

        i += (size_t)sr1__utf8_next(text + i, n - i, &cp);
        clean_char(parts, cp, from);
    }
    SR1__TRY(sr1__buf_status(from, "text in normal form"));
    if (strip) {
        SR1__TRY(sr1__normal_form(SR1__NFD, sr1__buf_cstr(from), from->len, &room->form));
        from = &room->form;
    }
    for (size_t i = 0; i < from->len;) {
        uint32_t cp = 0;

        i += (size_t)sr1__utf8_next(from->data + i, from->len - i, &cp);
        if (strip && sr1__char_is_bert_mark(cp))
            continue;
        if (parts & SR1__BERT_LOWER)
            sr1__put_lower(out, cp);
        else
            sr1__put_char(out, cp);
    }
    return SR1_OK;
}

/* ASCII up to the first other character; returns how many bytes it was. */
static size_t normalize_ascii_run(uint32_t parts, const char *text, size_t n,
                                  struct sr1__buf *out)
{
    int clean = (parts & SR1__BERT_CLEAN) != 0, lower = (parts & SR1__BERT_LOWER) != 0;
    size_t i = 0;
    char *to;

    sr1__buf_room(out, n);
    if (out->status != SR1_OK)
        return n;
    to = out->data + out->len;
    for (; i < n && (unsigned char)text[i] < 0x80; i++) {
        char c = text[i];

        if (clean && (c < ' ' || c == 0x7f)) {
            if (c != '\t' && c != '\n' && c != '\r')
                continue;
            c = ' ';
        }
        *to++ = lower && c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    out->len = (size_t)(to - out->data);
    *to = '\0';
    return i;
}

/* ASCII characters neither affect their neighbours nor depend on them. */
sr1_status sr1__bert_normalize(uint32_t parts, const char *text, size_t n,
                               struct sr1__buf *out)
{
    struct room room;
    sr1_status status = SR1_OK;

    sr1__buf_init(&room.clean, 0);
    sr1__buf_init(&room.form, 0);
    for (size_t i = 0, end; i < n && status == SR1_OK; i = end) {
        i += normalize_ascii_run(parts, text + i, n - i, out);
        for (end = i; end < n && (unsigned char)text[end] >= 0x80;)
            end++;
        if (end > i)
            status = normalize_non_ascii_run(parts, text + i, end - i, &room, out);
    }
    sr1__buf_free(&room.clean);
    sr1__buf_free(&room.form);
    return status == SR1_OK ? sr1__buf_status(out, "text in normal form") : status;
}
