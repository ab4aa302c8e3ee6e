/* text/tokenizer/precompiled_charsmap.c - the map is a double-array trie over bytes (of
 * Darts-clone), whose values are offsets into texts that end at NUL:
 *
 *     uint32 LE bytes of the trie; the trie, uint32 LE units; the texts
 *
 * A unit: bits 0-7 the label, with bit 31 clear; bit 8 whether a value hangs below; bit 9
 * and 10-31 the offset to the children, in steps of 256 if bit 9 is set. A value: bits
 * 0-30.
 *
 * The reference takes one grapheme cluster at a time. A cluster of fewer than six bytes
 * that begins with a key is replaced whole by the text of its shortest key; of any other
 * each character is looked up alone. Every index into the trie is checked when it is
 * used: a damaged map finds nothing. */
#include "text/tokenizer/precompiled_charsmap.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

#define CLUSTER_MAX 6 /* bytes from which on a cluster is taken apart */

struct sr1__precompiled_charsmap {
    struct sr1__buf bytes; /* all of it */
    uint32_t *units;
    size_t n_units;
    const char *texts; /* valid UTF-8 */
    size_t n_texts;
    const char *ascii[128]; /* text of a key that is one ASCII character; NULL: none */
};

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Whether text was base64 with its padding. */
static int base64_decode(const char *text, size_t n, struct sr1__buf *out)
{
    size_t padding = n && text[n - 1] == '=' ? 1 + (n > 1 && text[n - 2] == '=') : 0;
    uint32_t held = 0;

    if (n % 4 != 0)
        return 0;
    for (size_t i = 0; i < n - padding; i++) {
        int value = base64_value(text[i]);

        if (value < 0)
            return 0;
        held = held << 6 | (uint32_t)value;
        if (i % 4 > 0)
            sr1__buf_char(out, (char)(held >> (6 - 2 * (i % 4))));
    }
    return 1;
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 512u) >> 6);
}

/* The text of the shortest key that key[0..n) begins with; NULL: there is none. */
static const char *find_shortest_key(const struct sr1__precompiled_charsmap *m,
                                     const char *key, size_t n)
{
    size_t at = m->n_units ? offset_of(m->units[0]) : 0;

    for (size_t i = 0; i < n && key[i]; i++) {
        unsigned char byte = (unsigned char)key[i];
        uint32_t unit, text;

        at ^= byte;
        if (at >= m->n_units || (m->units[at] & 0x800000ffu) != byte)
            return NULL;
        unit = m->units[at];
        at ^= offset_of(unit);
        if (!(unit & 256u))
            continue;
        text = at < m->n_units ? m->units[at] & 0x7fffffffu : UINT32_MAX;
        /* A text ends at NUL; the buffer has one behind the last. */
        return text <= m->n_texts && ((unsigned char)m->texts[text] & 0xc0) != 0x80
                   ? m->texts + text
                   : NULL;
    }
    return NULL;
}

static sr1_status read_map(struct sr1__precompiled_charsmap *m, const char *name)
{
    struct sr1__reader r;
    uint32_t trie_bytes;

    sr1__reader_init(&r, sr1__buf_cstr(&m->bytes), m->bytes.len);
    trie_bytes = sr1__read_u32(&r);
    if (r.failed || trie_bytes > r.left)
        return sr1__fail(SR1_E_PARSE, "%s: precompiled_charsmap is cut short", name);
    m->n_units = trie_bytes / 4;
    SR1__CALLOC(m->units, m->n_units + 1, "precompiled_charsmap");
    for (size_t i = 0; i < m->n_units; i++)
        m->units[i] = sr1__read_u32(&r);
    m->texts = (const char *)r.p;
    m->n_texts = r.left;
    if (!sr1__utf8_valid(m->texts, m->n_texts))
        return sr1__fail(SR1_E_PARSE, "%s: precompiled_charsmap: texts are not UTF-8",
                         name);
    for (int c = 1; c < 128; c++) {
        char key = (char)c;

        m->ascii[c] = find_shortest_key(m, &key, 1);
    }
    return SR1_OK;
}

sr1_status sr1__precompiled_charsmap_new(struct sr1__precompiled_charsmap **out,
                                         const char *base64, size_t n, const char *name)
{
    struct sr1__precompiled_charsmap *m = sr1__calloc(1, sizeof *m);
    sr1_status status;

    SR1__CHECK_ALLOC(m, "precompiled_charsmap");
    sr1__buf_init(&m->bytes, 0);
    if (!base64_decode(base64, n, &m->bytes))
        status = sr1__fail(SR1_E_PARSE, "%s: precompiled_charsmap is not base64", name);
    else
        status = sr1__buf_status(&m->bytes, "precompiled_charsmap");
    if (status == SR1_OK)
        status = read_map(m, name);
    if (status == SR1_OK)
        *out = m;
    else
        sr1__precompiled_charsmap_free(m);
    return status;
}

void sr1__precompiled_charsmap_free(struct sr1__precompiled_charsmap *m)
{
    if (!m)
        return;
    sr1__buf_free(&m->bytes);
    sr1__free(m->units);
    sr1__free(m);
}

/* One character or cluster by itself. */
static void append_mapped_text(const char *to, const char *text, size_t n,
                               struct sr1__buf *out)
{
    if (to)
        sr1__buf_str(out, to);
    else
        sr1__buf_add(out, text, n);
}

static void put_cluster(const struct sr1__precompiled_charsmap *m, const char *text,
                        size_t n, struct sr1__buf *out)
{
    const char *to = n < CLUSTER_MAX ? find_shortest_key(m, text, n) : NULL;
    uint32_t cp;

    if (to) {
        sr1__buf_str(out, to);
        return;
    }
    for (size_t i = 0; i < n;) {
        size_t len = (size_t)sr1__utf8_next(text + i, n - i, &cp);

        append_mapped_text(find_shortest_key(m, text + i, len), text + i, len, out);
        i += len;
    }
}

/* Whether the character at text[0] is a cluster by itself, by its bytes alone. */
static int is_ascii_cluster(const char *text, size_t n)
{
    unsigned char c = (unsigned char)text[0];

    return c < 0x80 && c != '\r' && (n == 1 || (unsigned char)text[1] < 0x80);
}

void sr1__precompiled_charsmap_apply(const struct sr1__precompiled_charsmap *m,
                                     const char *text, size_t n, struct sr1__buf *out)
{
    size_t same = 0; /* from here to i nothing changes */

    for (size_t i = 0; i < n;) {
        size_t len = 1;

        if (!is_ascii_cluster(text + i, n - i)) {
            len = sr1__grapheme_length(text + i, n - i);
            sr1__buf_add(out, text + same, i - same);
            put_cluster(m, text + i, len, out);
            same = i + len;
        } else if (m->ascii[(unsigned char)text[i]]) {
            sr1__buf_add(out, text + same, i - same);
            sr1__buf_str(out, m->ascii[(unsigned char)text[i]]);
            same = i + 1;
        }
        i += len;
    }
    sr1__buf_add(out, text + same, n - same);
}
