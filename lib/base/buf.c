/* base/buf.c - growable bytes: capacity doubles up to the stated maximum. */
#include "base/buf.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

void sr1__buf_init(struct sr1__buf *b, size_t max)
{
    memset(b, 0, sizeof *b);
    b->max = max ? max : SR1__BUF_DEFAULT_MAX;
}

void sr1__buf_free(struct sr1__buf *b)
{
    size_t max = b->max;

    sr1__free(b->data);
    sr1__buf_init(b, max);
}

void sr1__buf_clear(struct sr1__buf *b)
{
    b->len = 0;
    b->status = SR1_OK;
    if (b->data)
        b->data[0] = '\0';
}

/* Room for n more bytes and the NUL; 0 when the buffer has failed. */
static int reserve_bytes(struct sr1__buf *b, size_t n)
{
    size_t need, cap;
    char *data;

    if (b->status != SR1_OK)
        return 0;
    if (n > b->max || b->len > b->max - n) {
        b->status = SR1_E_LIMIT;
        return 0;
    }
    need = b->len + n + 1;
    if (need <= b->cap)
        return 1;
    cap = b->cap > SIZE_MAX / 2 ? need : 2 * b->cap;
    cap = cap < need ? need : cap;
    cap = cap < 64 ? 64 : cap;
    data = sr1__realloc(b->data, cap, 1);
    if (!data) {
        b->status = SR1_E_NOMEM;
        return 0;
    }
    b->data = data;
    b->cap = cap;
    return 1;
}

void sr1__buf_add(struct sr1__buf *b, const void *bytes, size_t n)
{
    if (!reserve_bytes(b, n))
        return;
    if (n)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void sr1__buf_room(struct sr1__buf *b, size_t n)
{
    (void)reserve_bytes(b, n);
}

void sr1__buf_str(struct sr1__buf *b, const char *s)
{
    sr1__buf_add(b, s, strlen(s));
}

void sr1__buf_char(struct sr1__buf *b, char c)
{
    sr1__buf_add(b, &c, 1);
}

void sr1__buf_utf8(struct sr1__buf *b, const char *s, size_t n)
{
    if (sr1__utf8_valid(s, n)) {
        sr1__buf_add(b, s, n);
        return;
    }
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int width = sr1__utf8_next(s + i, n - i, &cp);

        if (width > 0)
            sr1__buf_add(b, s + i, (size_t)width);
        else
            sr1__buf_str(b, "\xEF\xBF\xBD");
        i += width > 0 ? (size_t)width : 1;
    }
}

void sr1__buf_fmt(struct sr1__buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->status = b->status == SR1_OK ? SR1_E_INVALID : b->status;
        return;
    }
    if (!reserve_bytes(b, (size_t)n))
        return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

/* The low `bytes` bytes of v, lowest first. */
static void add_le(struct sr1__buf *b, uint64_t v, size_t bytes)
{
    unsigned char le[8];

    for (size_t i = 0; i < bytes; i++)
        le[i] = (unsigned char)(v >> (8 * i));
    sr1__buf_add(b, le, bytes);
}

void sr1__buf_base64(struct sr1__buf *b, const void *bytes, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;

    for (size_t i = 0; i < n && b->status == SR1_OK; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)p[i] << 16;

        v |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        v |= left > 2 ? (uint32_t)p[i + 2] : 0;
        sr1__buf_char(b, digits[v >> 18]);
        sr1__buf_char(b, digits[v >> 12 & 63]);
        sr1__buf_char(b, left > 1 ? digits[v >> 6 & 63] : '=');
        sr1__buf_char(b, left > 2 ? digits[v & 63] : '=');
    }
}

void sr1__buf_u8(struct sr1__buf *b, uint8_t v)
{
    add_le(b, v, 1);
}

void sr1__buf_u32(struct sr1__buf *b, uint32_t v)
{
    add_le(b, v, 4);
}

void sr1__buf_u64(struct sr1__buf *b, uint64_t v)
{
    add_le(b, v, 8);
}

void sr1__buf_f32(struct sr1__buf *b, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    add_le(b, bits, 4);
}

void sr1__buf_f64(struct sr1__buf *b, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    add_le(b, bits, 8);
}

sr1_status sr1__buf_status(const struct sr1__buf *b, const char *what)
{
    switch (b->status) {
    case SR1_OK:
        return SR1_OK;
    case SR1_E_LIMIT:
        return sr1__fail(SR1_E_LIMIT, "%s: longer than %zu bytes", what, b->max);
    case SR1_E_NOMEM:
        return sr1__fail_nomem(what);
    default:
        return sr1__fail(b->status, "%s: text could not be formed", what);
    }
}

char *sr1__buf_take(struct sr1__buf *b)
{
    char *data;

    sr1__buf_add(b, "", 0);
    if (b->status != SR1_OK)
        return NULL;
    data = b->data;
    b->data = NULL;
    sr1__buf_free(b);
    return data;
}

sr1_status sr1__buf_finish(struct sr1__buf *b, const char *what, char **out)
{
    char *data = sr1__buf_take(b);
    sr1_status status = sr1__buf_status(b, what);

    sr1__buf_free(b);
    if (data != NULL)
        *out = data;
    return status;
}

const char *sr1__buf_cstr(const struct sr1__buf *b)
{
    return b->data ? b->data : "";
}

void sr1__reader_init(struct sr1__reader *r, const void *bytes, size_t n)
{
    r->p = bytes;
    r->left = n;
    r->failed = 0;
}

const void *sr1__read_bytes(struct sr1__reader *r, size_t n)
{
    const unsigned char *p = r->p;

    if (r->failed || n > r->left) {
        r->failed = 1;
        return NULL;
    }
    if (n)
        r->p += n;
    r->left -= n;
    return p ? (const void *)p : "";
}

static uint64_t read_le(struct sr1__reader *r, size_t bytes)
{
    const unsigned char *p = sr1__read_bytes(r, bytes);
    uint64_t v = 0;

    for (size_t i = 0; p && i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t sr1__read_u8(struct sr1__reader *r)
{
    return (uint8_t)read_le(r, 1);
}

uint32_t sr1__read_u32(struct sr1__reader *r)
{
    return (uint32_t)read_le(r, 4);
}

uint64_t sr1__read_u64(struct sr1__reader *r)
{
    return read_le(r, 8);
}

float sr1__read_f32(struct sr1__reader *r)
{
    uint32_t bits = sr1__read_u32(r);
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

double sr1__read_f64(struct sr1__reader *r)
{
    uint64_t bits = sr1__read_u64(r);
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}
