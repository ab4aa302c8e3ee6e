/* base/num.c - parse and print numbers strictly. strtod and printf follow the locale's
 * decimal sign, so they are called in the "C" locale. */
#include "base/num.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT 400 /* longer than any number worth writing */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t sr1__c_locale_begin(void)
{
    pthread_once(&once, make_locale);
    return c_locale ? uselocale(c_locale) : (locale_t)0;
}

void sr1__c_locale_end(locale_t before)
{
    if (before)
        (void)uselocale(before);
}

double sr1__to_double(const char *text)
{
    pthread_once(&once, make_locale);
    return c_locale ? strtod_l(text, NULL, c_locale) : strtod(text, NULL);
}

int sr1__parse_int(const char *s, size_t n, int64_t *out)
{
    size_t i = n > 0 && (s[0] == '-' || s[0] == '+');
    int negative = i && s[0] == '-';
    int64_t v = 0;

    if (i == n)
        return 0;
    for (; i < n; i++) {
        int digit = s[i] - '0';

        if (digit < 0 || digit > 9)
            return 0;
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, negative ? -digit : digit, &v))
            return 0;
    }
    *out = v;
    return 1;
}

static size_t skip_decimal_digits(const char *s, size_t n, size_t i)
{
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

static int is_real(const char *s, size_t n)
{
    size_t start = n > 0 && (s[0] == '-' || s[0] == '+');
    size_t i = skip_decimal_digits(s, n, start);
    size_t count = i - start;

    if (i < n && s[i] == '.') {
        start = i + 1;
        i = skip_decimal_digits(s, n, start);
        count += i - start;
    }
    if (count == 0)
        return 0;
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        i += i < n && (s[i] == '-' || s[i] == '+');
        start = i;
        i = skip_decimal_digits(s, n, i);
        if (i == start)
            return 0;
    }
    return i == n;
}

int sr1__parse_real(const char *s, size_t n, double *out)
{
    char text[MAX_TEXT + 1];
    double v;

    if (n > MAX_TEXT || !is_real(s, n))
        return 0;
    memcpy(text, s, n);
    text[n] = '\0';
    v = sr1__to_double(text);
    if (!isfinite(v))
        return 0;
    *out = v;
    return 1;
}

void sr1__format_float(float v, char out[32])
{
    locale_t before = sr1__c_locale_begin();

    for (int precision = 6; precision <= 9; precision++) {
        snprintf(out, 28, "%.*g", precision, (double)v);
        if (precision == 9 || (float)sr1__to_double(out) == v)
            break;
    }
    sr1__c_locale_end(before);
    if (!strpbrk(out, ".e"))
        snprintf(out + strlen(out), 4, ".0");
}

void sr1__format_real(double v, char out[32])
{
    /* below the normal numbers fewer digits may do */
    int precision = fabs(v) < DBL_MIN ? 1 : 15;
    locale_t before = sr1__c_locale_begin();

    for (; precision <= 17; precision++) {
        snprintf(out, 32, "%.*g", precision, v);
        if (precision == 17 || sr1__to_double(out) == v)
            break;
    }
    sr1__c_locale_end(before);
}
