/* text/tokenizer/unicode.c - see unicode.h: utf8proc where it agrees with the reference,
 * tables where the reference uses another version of Unicode. */
#include "text/tokenizer/unicode.h"

#include "base/utf8.h"
#include "text/tokenizer/unicode_table.h"

#include <utf8proc.h>

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static int is_in_char_ranges(const uint32_t (*ranges)[2], size_t n, uint32_t cp)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (cp < ranges[mid][0])
            high = mid;
        else if (cp > ranges[mid][1])
            low = mid + 1;
        else
            return 1;
    }
    return 0;
}

int sr1__char_is_space(uint32_t cp)
{
    return cp == ' ' || (cp >= 9 && cp <= 13) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

int sr1__char_is_han(uint32_t cp)
{
    static const uint32_t blocks[][2] = {
        {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},  {0x20000, 0x2a6df},
        {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};

    return cp >= blocks[0][0] && is_in_char_ranges(blocks, COUNT(blocks), cp);
}

int sr1__char_is_word(uint32_t cp)
{
    return is_in_char_ranges(word_characters, COUNT(word_characters), cp);
}

int sr1__char_is_bert_removed(uint32_t cp)
{
    return (cp < ' ' || cp >= 0x7f) &&
           is_in_char_ranges(bert_removed, COUNT(bert_removed), cp);
}

int sr1__char_is_bert_mark(uint32_t cp)
{
    return cp >= 0x300 && is_in_char_ranges(bert_marks, COUNT(bert_marks), cp);
}

int sr1__char_is_bert_punctuation(uint32_t cp)
{
    return is_in_char_ranges(bert_punctuation, COUNT(bert_punctuation), cp);
}

int sr1__char_is_accent(uint32_t cp)
{
    return cp >= 0x300 && is_in_char_ranges(accents, COUNT(accents), cp);
}

int sr1__char_is_older_form(uint32_t cp)
{
    return cp >= older_forms[0][0] &&
           is_in_char_ranges(older_forms, COUNT(older_forms), cp);
}

/* Lower case of one character: returns how many code points are in out. */
static size_t lower_of(uint32_t cp, uint32_t out[2])
{
    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    if (cp == 0x130) { /* the only one that becomes two */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    for (size_t i = 0; i < COUNT(newer_lower) && cp >= newer_lower[i][0]; i++)
        if (cp <= newer_lower[i][1])
            out[0] = newer_lower[i][2] + (cp - newer_lower[i][0]);
    return 1;
}

void sr1__put_char(struct sr1__buf *out, uint32_t cp)
{
    char utf8[4];

    if (cp < 0x80)
        sr1__buf_char(out, (char)cp);
    else
        sr1__buf_add(out, utf8, (size_t)sr1__utf8_put(cp, utf8));
}

void sr1__put_lower(struct sr1__buf *out, uint32_t cp)
{
    uint32_t lower[2];
    size_t n = lower_of(cp, lower);

    for (size_t i = 0; i < n; i++)
        sr1__put_char(out, lower[i]);
}

size_t sr1__grapheme_length(const char *text, size_t n)
{
    uint32_t before = 0, cp = 0;
    utf8proc_int32_t state = 0;
    size_t i = (size_t)sr1__utf8_next(text, n, &before);

    while (i < n) {
        int len = sr1__utf8_next(text + i, n - i, &cp);

        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before,
                                             (utf8proc_int32_t)cp, &state))
            break;
        before = cp;
        i += (size_t)len;
    }
    return i;
}

size_t sr1__space_after(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint32_t cp = 0;
        int len = sr1__utf8_next(text + i, n - i, &cp);

        if (!sr1__char_is_space(cp))
            break;
        i += (size_t)len;
    }
    return i;
}

size_t sr1__space_before(const char *text, size_t n)
{
    size_t end = n;

    while (end > 0) {
        uint32_t cp = 0;
        size_t i = end - 1;

        while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80)
            i--;
        sr1__utf8_next(text + i, end - i, &cp);
        if (!sr1__char_is_space(cp))
            break;
        end = i;
    }
    return n - end;
}
