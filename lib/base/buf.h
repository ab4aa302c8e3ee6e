/* base/buf.h - a growable byte buffer with a stated maximum and a sticky status, so that
 * a run of appends is checked once at its end. data is NUL-terminated when not NULL. */
#ifndef SR1__BASE_BUF_H
#define SR1__BASE_BUF_H

#include "base/error.h"

struct sr1__buf {
    char *data; /* NULL while empty */
    size_t len;
    size_t cap;
    size_t max;        /* appends beyond are SR1_E_LIMIT */
    sr1_status status; /* first failure; later appends do nothing */
};

#define SR1__BUF_DEFAULT_MAX ((size_t)1 << 30)

void sr1__buf_init(struct sr1__buf *b, size_t max); /* max 0: SR1__BUF_DEFAULT_MAX */
void sr1__buf_free(struct sr1__buf *b);             /* leaves it empty, reusable */
void sr1__buf_clear(struct sr1__buf *b);            /* len 0, keeps memory, status OK */
void sr1__buf_add(struct sr1__buf *b, const void *bytes, size_t n);
void sr1__buf_room(struct sr1__buf *b, size_t n); /* for n more bytes; len stays */
void sr1__buf_str(struct sr1__buf *b, const char *s);
void sr1__buf_char(struct sr1__buf *b, char c);
/* s[0..n) with each byte that is not UTF-8 replaced by U+FFFD. */
void sr1__buf_utf8(struct sr1__buf *b, const char *s, size_t n);
void sr1__buf_fmt(struct sr1__buf *b, const char *fmt, ...) SR1__PRINTF(2, 3);
/* The bytes in base64 (RFC 4648, padded). */
void sr1__buf_base64(struct sr1__buf *b, const void *bytes, size_t n);
/* Fixed little-endian integers, for file formats. */
void sr1__buf_u8(struct sr1__buf *b, uint8_t v);
void sr1__buf_u32(struct sr1__buf *b, uint32_t v);
void sr1__buf_u64(struct sr1__buf *b, uint64_t v);
void sr1__buf_f32(struct sr1__buf *b, float v);
void sr1__buf_f64(struct sr1__buf *b, double v);
/* Status with text set for `what` ("trajectory record"); SR1_OK when all went well. */
sr1_status sr1__buf_status(const struct sr1__buf *b, const char *what);
/* Hand the memory over (caller frees with sr1__free) and leave the buffer empty. NULL
 * only for a failed buffer, or when even the one byte of an empty text could not be had.
 */
char *sr1__buf_take(struct sr1__buf *b);
/* The same into *out; a failed buffer is freed, its status and text as sr1__buf_status.
 */
sr1_status sr1__buf_finish(struct sr1__buf *b, const char *what, char **out);
/* data, or "" while empty. */
const char *sr1__buf_cstr(const struct sr1__buf *b);

/* Bounded reader over bytes, the counterpart of the writers above. Sticky: after reading
 * past the end every read gives 0 and failed is set. */
struct sr1__reader {
    const unsigned char *p;
    size_t left;
    int failed;
};
void sr1__reader_init(struct sr1__reader *r, const void *bytes, size_t n);
uint8_t sr1__read_u8(struct sr1__reader *r);
uint32_t sr1__read_u32(struct sr1__reader *r);
uint64_t sr1__read_u64(struct sr1__reader *r);
float sr1__read_f32(struct sr1__reader *r);
double sr1__read_f64(struct sr1__reader *r);
/* n bytes in place, or NULL (failed set). Borrowed from the bytes. */
const void *sr1__read_bytes(struct sr1__reader *r, size_t n);

#endif
