/* retrieval/search/word_break.c - default word boundaries of UAX #29 (rules WB1 to
 * WB999), with Lucene's additions: a run of complex-context letters (Thai, Lao, Khmer,
 * ...) is one segment, and a segment is indexed when it holds a letter, digit, kana,
 * ideograph, or pictograph, is a pair of regional indicators, or is a key cap. */
#include "retrieval/search/word_break.h"

#include "base/utf8.h"

enum word_class {
    WORD_OTHER,
    WORD_CR,
    WORD_LF,
    WORD_NEWLINE,
    WORD_EXTEND,
    WORD_ZWJ,
    WORD_FORMAT,
    WORD_WSEGSPACE,
    WORD_REGIONAL_INDICATOR,
    WORD_ALETTER,
    WORD_HEBREW_LETTER,
    WORD_NUMERIC,
    WORD_KATAKANA,
    WORD_EXTENDNUMLET,
    WORD_MIDLETTER,
    WORD_MIDNUM,
    WORD_MIDNUMLET,
    WORD_SINGLE_QUOTE,
    WORD_DOUBLE_QUOTE,
    WORD_HAN,
    WORD_HIRAGANA,
    WORD_COMPLEX,
    WORD_PICTOGRAPH,
};

struct word_range {
    uint32_t first;
    uint32_t last;
    uint32_t class;
};

#include "retrieval/search/word_break_table.h"

#define BIT(class) (1u << (class))
#define AHLETTER (BIT(WORD_ALETTER) | BIT(WORD_HEBREW_LETTER))
#define IGNORED (BIT(WORD_EXTEND) | BIT(WORD_ZWJ) | BIT(WORD_FORMAT))
#define LINE_END (BIT(WORD_CR) | BIT(WORD_LF) | BIT(WORD_NEWLINE))
#define MIDNUMLETQ (BIT(WORD_MIDNUMLET) | BIT(WORD_SINGLE_QUOTE))
#define JOINS_UNDERSCORE (AHLETTER | BIT(WORD_NUMERIC) | BIT(WORD_KATAKANA))
#define INDEXED                                                                          \
    (AHLETTER | BIT(WORD_NUMERIC) | BIT(WORD_KATAKANA) | BIT(WORD_HAN) |                 \
     BIT(WORD_HIRAGANA) | BIT(WORD_COMPLEX) | BIT(WORD_PICTOGRAPH))

#define KEY_CAP 0x20E3

static uint32_t ascii_class(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return WORD_ALETTER;
    if (c >= '0' && c <= '9')
        return WORD_NUMERIC;
    switch (c) {
    case ' ':
        return WORD_WSEGSPACE;
    case '\r':
        return WORD_CR;
    case '\n':
        return WORD_LF;
    case '\v':
    case '\f':
        return WORD_NEWLINE;
    case '_':
        return WORD_EXTENDNUMLET;
    case ':':
        return WORD_MIDLETTER;
    case ',':
    case ';':
        return WORD_MIDNUM;
    case '.':
        return WORD_MIDNUMLET;
    case '\'':
        return WORD_SINGLE_QUOTE;
    case '"':
        return WORD_DOUBLE_QUOTE;
    default:
        return WORD_OTHER;
    }
}

static uint32_t class_of(uint32_t cp)
{
    size_t low = 0;
    size_t high = sizeof(word_ranges) / sizeof(word_ranges[0]);

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (cp > word_ranges[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == sizeof(word_ranges) / sizeof(word_ranges[0]) ||
        cp < word_ranges[low].first)
        return WORD_OTHER;
    return word_ranges[low].class;
}

/* The class of the character at s[at]; *width its bytes (1 for a byte that is not UTF-8).
 */
static uint32_t class_at(const char *s, size_t n, size_t at, size_t *width, uint32_t *cp)
{
    int w;

    if ((unsigned char)s[at] < 0x80) {
        *width = 1;
        *cp = (unsigned char)s[at];
        return ascii_class((unsigned char)s[at]);
    }
    w = sr1__utf8_next(s + at, n - at, cp);
    *width = w > 0 ? (size_t)w : 1;
    if (w <= 0)
        *cp = 0xFFFD;
    return class_of(*cp);
}

/* Letters that are pictographs too: the only ones whose class hides it (WB3c). */
static int is_pictograph(uint32_t cp, uint32_t class)
{
    return class == WORD_PICTOGRAPH || cp == 0x2139 || cp == 0x24C2 ||
           (cp >= 0x1F170 && cp <= 0x1F171) || (cp >= 0x1F17E && cp <= 0x1F17F);
}

/* Class of the first character from `at` on that WB4 does not skip, as a bit; 0 at the
 * end. */
static uint32_t next_bit(const char *s, size_t n, size_t at)
{
    while (at < n) {
        size_t width;
        uint32_t cp;
        uint32_t bit = BIT(class_at(s, n, at, &width, &cp));

        if (!(bit & IGNORED))
            return bit;
        at += width;
    }
    return 0;
}

/* What is known of the text before a possible boundary. */
struct break_state {
    uint32_t raw;    /* class bit of the character just before */
    uint32_t prev;   /* of the last one that WB4 does not skip */
    uint32_t before; /* of the one before that */
    uint32_t ri_run; /* regional indicators that end here */
};

/* WB5 to WB13b and WB15, 16: does `cur` join what is before it? s[after..n) follows cur.
 */
static int is_joined(const struct break_state *st, uint32_t cur, const char *s, size_t n,
                     size_t after)
{
    uint32_t prev = st->prev;

    if (prev & AHLETTER) {
        if (cur & (AHLETTER | BIT(WORD_NUMERIC) | BIT(WORD_EXTENDNUMLET)))
            return 1;
        if (cur & (BIT(WORD_MIDLETTER) | MIDNUMLETQ) && next_bit(s, n, after) & AHLETTER)
            return 1;
    }
    if (prev & BIT(WORD_HEBREW_LETTER)) {
        if (cur & BIT(WORD_SINGLE_QUOTE))
            return 1;
        if (cur & BIT(WORD_DOUBLE_QUOTE) &&
            next_bit(s, n, after) & BIT(WORD_HEBREW_LETTER))
            return 1;
    }
    if (prev & (BIT(WORD_MIDLETTER) | MIDNUMLETQ) && st->before & AHLETTER &&
        cur & AHLETTER)
        return 1;
    if (prev & BIT(WORD_DOUBLE_QUOTE) && st->before & cur & BIT(WORD_HEBREW_LETTER))
        return 1;
    if (prev & BIT(WORD_NUMERIC)) {
        if (cur & (AHLETTER | BIT(WORD_NUMERIC) | BIT(WORD_EXTENDNUMLET)))
            return 1;
        if (cur & (BIT(WORD_MIDNUM) | MIDNUMLETQ) &&
            next_bit(s, n, after) & BIT(WORD_NUMERIC))
            return 1;
    }
    if (prev & (BIT(WORD_MIDNUM) | MIDNUMLETQ) && st->before & cur & BIT(WORD_NUMERIC))
        return 1;
    if (prev & BIT(WORD_KATAKANA) && cur & (BIT(WORD_KATAKANA) | BIT(WORD_EXTENDNUMLET)))
        return 1;
    if (prev & BIT(WORD_EXTENDNUMLET) &&
        cur & (JOINS_UNDERSCORE | BIT(WORD_EXTENDNUMLET)))
        return 1;
    if (prev & cur & BIT(WORD_COMPLEX))
        return 1;
    return prev & cur & BIT(WORD_REGIONAL_INDICATOR) && st->ri_run % 2 == 1;
}

/* WB3 to WB4, then the rest. */
static int no_break(const struct break_state *st, uint32_t cp, uint32_t class,
                    const char *s, size_t n, size_t after)
{
    uint32_t cur = BIT(class);

    if (st->raw & BIT(WORD_CR) && cur & BIT(WORD_LF))
        return 1;
    if ((st->raw | cur) & LINE_END)
        return 0;
    if (st->raw & BIT(WORD_ZWJ) && is_pictograph(cp, class))
        return 1;
    if (st->raw & cur & BIT(WORD_WSEGSPACE))
        return 1;
    if (cur & IGNORED)
        return 1;
    return is_joined(st, cur, s, n, after);
}

static void advance_break_state(struct break_state *st, uint32_t bit)
{
    st->raw = bit;
    if (bit & IGNORED && st->prev != 0)
        return;
    st->before = st->prev;
    st->prev = bit;
    st->ri_run = bit & BIT(WORD_REGIONAL_INDICATOR) ? st->ri_run + 1 : 0;
}

/* What ends a word of ASCII letters and digits for certain, whatever follows: classes
 * that no rule joins to them. */
static int is_divider(unsigned char c)
{
    return c < 0x80 && !(BIT(ascii_class(c)) &
                         (JOINS_UNDERSCORE | MIDNUMLETQ | BIT(WORD_EXTENDNUMLET) |
                          BIT(WORD_MIDLETTER) | BIT(WORD_MIDNUM)));
}

static int is_ascii_word(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Most words of most texts: letters and digits of ASCII up to a divider, or punctuation
 * with a divider behind it, which joins nothing. A space before ASCII other than a space
 * is alone too. Returns the end, or 0 when the rules must be asked. */
static size_t ascii_end(const char *s, size_t n, size_t from)
{
    size_t at = from;

    if (s[from] == ' ')
        return from + 1 == n || (s[from + 1] != ' ' && (unsigned char)s[from + 1] < 0x80)
                   ? from + 1
                   : 0;
    while (at < n && is_ascii_word((unsigned char)s[at]))
        at++;
    if (at == from)
        return 0;
    if (at == n || is_divider((unsigned char)s[at]))
        return at;
    if ((unsigned char)s[at] < 0x80 && s[at] != '_' &&
        (at + 1 == n || is_divider((unsigned char)s[at + 1])))
        return at;
    return 0;
}

static struct sr1__word_segment next_by_rules(const char *s, size_t n, size_t from)
{
    struct sr1__word_segment w = {from, from, 0};
    struct break_state st = {0};
    uint32_t seen = 0;
    size_t width;
    uint32_t cp;
    uint32_t class = class_at(s, n, from, &width, &cp);
    int key_base = cp == '#' || cp == '*';
    int key_cap = 0;

    do {
        advance_break_state(&st, BIT(class));
        seen |= BIT(class);
        key_cap |= cp == KEY_CAP;
        w.end += width;
        if (w.end == n)
            break;
        class = class_at(s, n, w.end, &width, &cp);
    } while (no_break(&st, cp, class, s, n, w.end + width));
    w.indexed = (seen & INDEXED) != 0 || st.ri_run == 2 || (key_base && key_cap);
    return w;
}

struct sr1__word_segment sr1__word_break_next(const char *s, size_t n, size_t from)
{
    size_t end = ascii_end(s, n, from);
    struct sr1__word_segment w = {from, end, s[from] != ' '};

    return end > 0 ? w : next_by_rules(s, n, from);
}
