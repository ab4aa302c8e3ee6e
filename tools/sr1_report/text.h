/* sr1_report/text.h - growing text, and JSON that is safe inside a script element. */
#ifndef SR1_TOOLS_SR1_REPORT_TEXT_H
#define SR1_TOOLS_SR1_REPORT_TEXT_H

#include <jansson.h>

#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* not NUL-terminated; NULL while empty */
    size_t len;
    size_t cap;
    int failed; /* memory ran out: what follows is missing */
};

void text_free(struct text *t);
void text_add(struct text *t, const char *bytes, size_t n);
void text_str(struct text *t, const char *s);
void text_fmt(struct text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A JSON string. Bytes that are not UTF-8 become U+FFFD. '<', '>' and '&' are written as
 * escapes, so neither an end tag nor a comment can appear in what HTML reads. */
void text_json_bytes(struct text *t, const char *s, size_t n);
void text_json_str(struct text *t, const char *s);
/* A number with so many digits; null when it is not finite. */
void text_number(struct text *t, double v, int digits);
/* Any JSON value, its strings as above. Deeper than 64 levels: null. */
void text_value(struct text *t, const json_t *v);

#endif
