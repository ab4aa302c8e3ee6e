/* base/error.c - the thread's error text, status names, version. */
#include "base/error.h"

#include "base/mem.h"
#include "base/quote.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define STR_(x) #x
#define STR(x) STR_(x)

static _Thread_local char last_error[SR1__ERROR_MAX];
static _Thread_local uint64_t texts_set; /* so far */

/* A text cut by vsnprintf may end inside a character: that piece is dropped. A name in it
 * that "%.64s" cut there, or whose bytes are no UTF-8, is shown with U+FFFD. */
static void set_error_text(const char *text)
{
    char repaired[SR1__ERROR_MAX]; /* text may be of last_error */
    size_t n = strlen(text);

    n = sr1__utf8_complete(text, n < SR1__ERROR_MAX ? n : SR1__ERROR_MAX - 1);
    n = sr1__utf8_clean(text, n, repaired, sizeof repaired);
    memcpy(last_error, repaired, n + 1);
    texts_set++;
}

/* The arguments may point into last_error, hence the copy on the way. */
static void set_va(const char *fmt, va_list ap)
{
    char text[SR1__ERROR_MAX];

    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        snprintf(text, sizeof text, "an error whose text could not be formed");
    set_error_text(text);
}

sr1_status sr1__fail(sr1_status code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_va(fmt, ap);
    va_end(ap);
    return code;
}

void sr1__list_names(char *out, size_t size, const char *(*name_of)(size_t i))
{
    const char *next;
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; (next = name_of(i)) != NULL && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i > 0 ? ", " : "", next);
}

sr1_status sr1__fail_unknown(const char *thing, const char *name,
                             const char *(*name_of)(size_t i))
{
    char known[SR1__ERROR_MAX];

    sr1__list_names(known, sizeof known, name_of);
    return sr1__fail(SR1_E_NOT_FOUND, "%s '%.64s' is not known; known: %s", thing, name,
                     known);
}

sr1_status sr1__fail_nomem(const char *what)
{
    return sr1__fail(SR1_E_NOMEM, "out of memory for %s", what);
}

sr1_status sr1__fail_errno(const char *doing, const char *path)
{
    int number = errno;
    char sign = number == ENOENT ? sr1__unexpanded_sign(path) : 0;
    char buf[128];

    if (sign)
        return sr1__fail(SR1_E_IO,
                         "cannot %s %s: %s; only a shell expands %c: write the path out",
                         doing, path, strerror_r(number, buf, sizeof buf), sign);
    return sr1__fail(SR1_E_IO, "cannot %s %s: %s", doing, path,
                     strerror_r(number, buf, sizeof buf));
}

sr1_status sr1__context(sr1_status status, const char *fmt, ...)
{
    char text[2 * SR1__ERROR_MAX];
    va_list ap;
    int n;

    if (status == SR1_OK)
        return SR1_OK;
    va_start(ap, fmt);
    n = vsnprintf(text, SR1__ERROR_MAX, fmt, ap);
    va_end(ap);
    if (n < 0)
        return status;
    n = n < SR1__ERROR_MAX ? n : SR1__ERROR_MAX - 1;
    snprintf(text + n, sizeof text - (size_t)n, ": %s", last_error);
    set_error_text(text);
    return status;
}

void sr1__error_save(struct sr1__error *e, sr1_status code)
{
    e->code = code;
    e->texts = texts_set;
    memcpy(e->text, last_error, sizeof e->text);
}

void sr1__error_keep_first(struct sr1__error *e, sr1_status st)
{
    if (st != SR1_OK && e->code == SR1_OK)
        sr1__error_save(e, st);
}

sr1_status sr1__error_raise(const struct sr1__error *e)
{
    if (e->code != SR1_OK)
        set_error_text(e->text);
    return e->code;
}

const char *sr1__error_since(const struct sr1__error *e)
{
    return e->texts != texts_set ? last_error : "";
}

const char *sr1_last_error(void)
{
    return last_error;
}

#define NAME_CASE(name, code, meaning)                                                   \
    case code:                                                                           \
        return #name;
#define TEXT_CASE(name, code, meaning)                                                   \
    case code:                                                                           \
        return meaning;

const char *sr1_status_name(sr1_status status)
{
    switch (status) {
        SR1_STATUS_TABLE(NAME_CASE)
    default:
        return "SR1_E_?";
    }
}

const char *sr1_status_text(sr1_status status)
{
    switch (status) {
        SR1_STATUS_TABLE(TEXT_CASE)
    default:
        return "unknown status";
    }
}

sr1_status sr1_set_error(sr1_status status, const char *text)
{
    set_error_text(text ? text : "");
    return status;
}

const char *sr1_version(void)
{
    return STR(SR1_VERSION_MAJOR) "." STR(SR1_VERSION_MINOR) "." STR(SR1_VERSION_PATCH);
}

void sr1_free(void *memory)
{
    sr1__free(memory);
}
