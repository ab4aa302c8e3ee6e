/* signal/reward/chars.c - text as code points; lower case as Python's str.lower.
 *
 * Single mappings and categories come from utf8proc. Two rules of the Unicode standard
 * (3.13, SpecialCasing.txt) go beyond: U+0130 becomes two characters, and U+03A3 becomes
 * the final sigma behind a cased letter when none follows, case-ignorable characters
 * between them not counted. */
#include "signal/reward/chars.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "base/text.h"

#include <string.h>
#include <utf8proc.h>

sr1_status sr1__chars_decode(struct sr1__chars *out, const char *s, size_t n)
{
    uint32_t *cp = sr1__calloc(n > 0 ? n : 1, sizeof *cp);
    size_t at, count = 0;

    SR1__CHECK_ALLOC(cp, "characters of a text");
    for (at = 0; at < n; count++)
        at += sr1__char_next(s + at, n - at, &cp[count]);
    out->cp = cp;
    out->n = count;
    return SR1_OK;
}

void sr1__chars_free(struct sr1__chars *c)
{
    sr1__free(c->cp);
    c->cp = NULL;
    c->n = 0;
}

/* Other_Lowercase and Other_Uppercase beyond letters; case-ignorable punctuation. */
static const uint32_t cased_ranges[][2] = {
    {0xaa, 0xaa},       {0xba, 0xba},       {0x2160, 0x217f},   {0x24b6, 0x24e9},
    {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189},
};
static const uint32_t ignorable_ranges[][2] = {
    {0x27, 0x27},     {0x2e, 0x2e},     {0x3a, 0x3a},     {0xb7, 0xb7},
    {0x387, 0x387},   {0x55f, 0x55f},   {0x5f4, 0x5f4},   {0x2018, 0x2019},
    {0x2024, 0x2024}, {0x2027, 0x2027}, {0xfe13, 0xfe13}, {0xfe52, 0xfe52},
    {0xfe55, 0xfe55}, {0xff07, 0xff07}, {0xff0e, 0xff0e}, {0xff1a, 0xff1a},
};

static int is_in_ranges(const uint32_t (*ranges)[2], size_t n, uint32_t cp)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (cp >= ranges[i][0] && cp <= ranges[i][1])
            return 1;
    return 0;
}

static utf8proc_category_t char_category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

static int is_cased(uint32_t cp)
{
    utf8proc_category_t c = char_category(cp);

    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL ||
           c == UTF8PROC_CATEGORY_LT ||
           is_in_ranges(cased_ranges, sizeof cased_ranges / sizeof cased_ranges[0], cp);
}

static int is_ignorable(uint32_t cp)
{
    utf8proc_category_t c = char_category(cp);

    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME ||
           c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_LM ||
           c == UTF8PROC_CATEGORY_SK ||
           is_in_ranges(ignorable_ranges,
                        sizeof ignorable_ranges / sizeof ignorable_ranges[0], cp);
}

static int is_final_sigma(const struct sr1__chars *c, size_t at)
{
    size_t i = at;

    while (i > 0 && is_ignorable(c->cp[i - 1]))
        i--;
    if (i == 0 || !is_cased(c->cp[i - 1]))
        return 0;
    i = at + 1;
    while (i < c->n && is_ignorable(c->cp[i]))
        i++;
    return i == c->n || !is_cased(c->cp[i]);
}

static uint32_t lower_one(const struct sr1__chars *c, size_t at)
{
    uint32_t cp = c->cp[at];

    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    if (cp == 0x3a3)
        return is_final_sigma(c, at) ? 0x3c2 : 0x3c3;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

sr1_status sr1__chars_lower(struct sr1__chars *c)
{
    struct sr1__chars low = {NULL, 0};
    size_t i, extra = 0;

    for (i = 0; i < c->n; i++)
        extra += c->cp[i] == 0x130;
    SR1__CALLOC(low.cp, c->n + extra + 1, "characters of a text");
    for (i = 0; i < c->n; i++) {
        if (c->cp[i] == 0x130) {
            low.cp[low.n++] = 'i';
            low.cp[low.n++] = 0x307;
        } else {
            low.cp[low.n++] = lower_one(c, i);
        }
    }
    sr1__chars_free(c);
    *c = low;
    return SR1_OK;
}

void sr1__chars_drop_space(struct sr1__chars *c)
{
    size_t i, n = 0;

    for (i = 0; i < c->n; i++)
        if (!sr1__is_space(c->cp[i]))
            c->cp[n++] = c->cp[i];
    c->n = n;
}

int sr1__is_alnum(uint32_t cp)
{
    utf8proc_category_t c = char_category(cp);

    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
           (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

/* Digits of Unicode (Numeric_Type) that are no decimal digits. */
static const uint32_t digit_ranges[][2] = {
    {0xb2, 0xb3},       {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247c},   {0x2488, 0x2490},   {0x24ea, 0x24ea},   {0x24f5, 0x24fd},
    {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},   {0x278a, 0x2792},
    {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a},
};

int sr1__is_digit(uint32_t cp)
{
    return char_category(cp) == UTF8PROC_CATEGORY_ND ||
           is_in_ranges(digit_ranges, sizeof digit_ranges / sizeof digit_ranges[0], cp);
}

int sr1__is_mark(uint32_t cp)
{
    utf8proc_category_t c = char_category(cp);

    return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

void sr1__chars_encode(const uint32_t *cp, size_t n, struct sr1__buf *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        char utf8[4];

        sr1__buf_add(out, utf8, (size_t)sr1__utf8_put(cp[i], utf8));
    }
}

int sr1__chars_equal(const struct sr1__chars *a, const struct sr1__chars *b)
{
    return a->n == b->n && memcmp(a->cp, b->cp, a->n * sizeof *a->cp) == 0;
}
