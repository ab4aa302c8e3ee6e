/* base/num.h - convert numbers to text and back, independent of the process's locale. */
#ifndef SR1__BASE_NUM_H
#define SR1__BASE_NUM_H

#include <locale.h>
#include <stddef.h>
#include <stdint.h>

/* The whole of s[0..n) as a decimal integer with optional sign; 0 when it is not one or
 * does not fit in 64 bits, else 1. */
int sr1__parse_int(const char *s, size_t n, int64_t *out);
/* The whole of s[0..n) as [+-]digits[.digits][e[+-]digits]; 0 when it is not one or is
 * not finite, else 1. No spaces, hexadecimal, inf or nan. */
int sr1__parse_real(const char *s, size_t n, double *out);
/* The value of a hexadecimal digit of either case; -1: it is none. */
static inline int sr1__hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline int64_t sr1__min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t sr1__max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Around calls of libraries that read or print numbers as the locale does: the calling
 * thread has the "C" locale from begin until end gets what begin returned. */
locale_t sr1__c_locale_begin(void);
void sr1__c_locale_end(locale_t before);
/* strtod with a decimal point: the number at the beginning of the text, infinite if it is
 * too large. */
double sr1__to_double(const char *text);
/* Shortest text that reads back as v ("0.1", "1e-05"); always NUL-terminated. */
void sr1__format_real(double v, char out[32]);
/* The shortest text that reads back as the same float, with a point or an exponent: a
 * real to JSON, whose -0.0 stays one. v is finite. */
void sr1__format_float(float v, char out[32]);

#endif
