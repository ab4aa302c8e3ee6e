/* text/tokenizer/nfc.c - Unicode's normal forms over utf8proc's tables.
 *
 * The text is split before every character that no earlier one can change (most letters),
 * so only the short runs that contain marks are decomposed, ordered and composed. The
 * marks of a run are ordered by a stable merge sort: a hostile run of a million marks
 * costs n log n.
 *
 * The reference's tables are of Unicode 9: later marks (nfc_table.h) are neither
 * reordered nor composed there, so they are left alone here. */
#include "text/tokenizer/nfc.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/nfc_table.h"
#include "text/tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

/* Characters that neither move nor compose. U+11A7 is one below the Hangul finals: some
 * versions of utf8proc lose it after a syllable. */
static int stands_still(uint32_t cp)
{
    size_t low = 0, high = sizeof newer_marks / sizeof newer_marks[0];

    if (cp < newer_marks[0][0] || cp == 0x11a7)
        return cp == 0x11a7;
    while (low < high) {
        size_t mid = (low + high) / 2;

        if (cp < newer_marks[mid][0])
            high = mid;
        else if (cp > newer_marks[mid][1])
            low = mid + 1;
        else
            return 1;
    }
    return 0;
}

/* stands_still for the decomposing forms, plus characters that the reference does not
 * decompose. */
static int stands_apart(uint32_t cp)
{
    return stands_still(cp) || sr1__char_is_older_form(cp);
}

/* Characters that are normal in form C by themselves and never change because of an
 * earlier character. */
static int starts_run(uint32_t cp)
{
    return cp < 0x300 || (cp >= 0x3400 && cp <= 0x4dbf) ||
           (cp >= 0x4e00 && cp <= 0x9fff) || (cp >= 0xac00 && cp <= 0xd7a3) ||
           (cp >= 0x3041 && cp <= 0x3096) || (cp >= 0x30a1 && cp <= 0x30fa) ||
           (cp >= 0x2010 && cp <= 0x2027) || (cp >= 0x0400 && cp <= 0x0482) ||
           (cp >= 0xff01 && cp <= 0xff60);
}

/* The same for every form. */
static int starts_any_run(uint32_t cp)
{
    return cp < 0x80 || (cp >= 0x3400 && cp <= 0x4dbf) || (cp >= 0x4e00 && cp <= 0x9fff);
}

enum {
    CANONICAL = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE,
    COMPATIBLE = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    COMPOSE = UTF8PROC_COMPOSE | UTF8PROC_STABLE
};

/* The differences between the forms, by enum sr1__form. */
struct normal_form_steps {
    int decompose; /* options of utf8proc's decomposition */
    int compose;   /* options of its composition; 0: none */
    int (*starts_run)(uint32_t cp);
    int (*stands_still)(uint32_t cp);
};

static const struct normal_form_steps forms[] = {
    [SR1__NFC] = {CANONICAL, COMPOSE, starts_run, stands_still},
    [SR1__NFD] = {CANONICAL, 0, starts_any_run, stands_apart},
    [SR1__NFKC] = {COMPATIBLE, COMPOSE, starts_any_run, stands_apart},
    [SR1__NFKD] = {COMPATIBLE, 0, starts_any_run, stands_apart},
};

int sr1__nfc_quick(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp = (unsigned char)text[i];

        if (cp < 0xcc) { /* below U+0300 */
            i++;
            continue;
        }
        i += (size_t)sr1__utf8_next(text + i, n - i, &cp);
        if (!starts_run(cp))
            return 0;
    }
    return 1;
}

/* One run under work: code points, room for sorting. */
struct normal_run {
    const struct normal_form_steps *form;
    utf8proc_int32_t *cp;
    utf8proc_int32_t *tmp;
    size_t cap;
};

static unsigned combining_class(utf8proc_int32_t cp)
{
    return (unsigned)utf8proc_get_property(cp)->combining_class;
}

/* Stable merge sort of marks by combining class; bottom up. */
static void sort_marks(utf8proc_int32_t *v, utf8proc_int32_t *tmp, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t a = 0; a + width < n; a += 2 * width) {
            size_t mid = a + width, end = mid + width < n ? mid + width : n;
            size_t i = a, j = mid, k = a;

            while (i < mid && j < end)
                tmp[k++] =
                    combining_class(v[j]) < combining_class(v[i]) ? v[j++] : v[i++];
            while (i < mid)
                tmp[k++] = v[i++];
            memcpy(v + a, tmp + a, (k - a) * sizeof *v);
        }
    }
}

static void order_marks(struct normal_run *r, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;

        while (end < n && combining_class(r->cp[end]) != 0)
            end++;
        sort_marks(r->cp + i, r->tmp, end - i);
        i = end + 1;
    }
}

static sr1_status reserve_normal_run(struct normal_run *r, size_t n)
{
    utf8proc_int32_t *cp, *tmp;

    if (n <= r->cap)
        return SR1_OK;
    cp = sr1__realloc(r->cp, n, 2 * sizeof *cp);
    r->cp = cp ? cp : r->cp;
    tmp = cp ? sr1__realloc(r->tmp, n, 2 * sizeof *tmp) : NULL;
    r->tmp = tmp ? tmp : r->tmp;
    SR1__CHECK_ALLOC(cp && tmp, "text in normal form");
    r->cap = 2 * n;
    return SR1_OK;
}

/* Decompose, order, compose one run and append it. A decomposition has at most six code
 * points for each byte of its character: 18 for U+FDFA. */
static sr1_status normalise_run(struct normal_run *r, const char *text, size_t n,
                                struct sr1__buf *out)
{
    utf8proc_ssize_t count = 0;
    char utf8[4];

    SR1__TRY(reserve_normal_run(r, 6 * n));
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int boundclass = 0;

        i += (size_t)sr1__utf8_next(text + i, n - i, &cp);
        count += utf8proc_decompose_char((utf8proc_int32_t)cp, r->cp + count,
                                         (utf8proc_ssize_t)r->cap - count,
                                         r->form->decompose, &boundclass);
    }
    order_marks(r, (size_t)count);
    if (r->form->compose)
        count = utf8proc_normalize_utf32(r->cp, count, r->form->compose);
    for (utf8proc_ssize_t i = 0; i < count; i++)
        sr1__buf_add(out, utf8, (size_t)sr1__utf8_put((uint32_t)r->cp[i], utf8));
    return SR1_OK;
}

/* The bytes of text[0..n) up to where the next run starts, the first character included.
 */
static size_t run_length(const struct normal_form_steps *f, const char *text, size_t n)
{
    uint32_t cp = 0;
    size_t i = (size_t)sr1__utf8_next(text, n, &cp);

    if (f->stands_still(cp))
        return i;
    while (i < n) {
        int len = sr1__utf8_next(text + i, n - i, &cp);

        if (f->starts_run(cp) || f->stands_still(cp))
            break;
        i += (size_t)len;
    }
    return i;
}

/* Bytes at the start of text that are normal and that nothing behind changes: up to the
 * last character that starts a run before one that does not. */
static size_t settled_length(const struct normal_form_steps *f, const char *text,
                             size_t n)
{
    size_t last = 0;

    for (size_t i = 0; i < n;) {
        uint32_t cp = (unsigned char)text[i];
        int len = cp < 0x80 ? 1 : sr1__utf8_next(text + i, n - i, &cp);

        if (!f->starts_run(cp))
            return last;
        last = i;
        i += (size_t)len;
    }
    return n;
}

/* Whether the run is one character that needs no work. */
static int is_single_stable_char(const struct normal_form_steps *f, const char *text,
                                 size_t n)
{
    uint32_t cp = 0;

    return (size_t)sr1__utf8_next(text, n, &cp) == n && f->stands_still(cp);
}

sr1_status sr1__normal_form(enum sr1__form form, const char *text, size_t n,
                            struct sr1__buf *out)
{
    const struct normal_form_steps *f = &forms[form];
    struct normal_run r = {.form = f};
    sr1_status status = SR1_OK;

    for (size_t i = 0; i < n && status == SR1_OK;) {
        size_t len = settled_length(f, text + i, n - i);

        sr1__buf_add(out, text + i, len);
        i += len;
        if (i == n)
            break;
        len = run_length(f, text + i, n - i);
        if (is_single_stable_char(f, text + i, len))
            sr1__buf_add(out, text + i, len);
        else
            status = normalise_run(&r, text + i, len, out);
        i += len;
    }
    if (status == SR1_OK)
        status = sr1__buf_status(out, "text in normal form");
    sr1__free(r.cp);
    sr1__free(r.tmp);
    return status;
}

sr1_status sr1__nfc(const char *text, size_t n, struct sr1__buf *out)
{
    return sr1__normal_form(SR1__NFC, text, n, out);
}
