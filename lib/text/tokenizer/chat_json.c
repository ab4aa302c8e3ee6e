/* text/tokenizer/chat_json.c - JSON printed as Python prints it: ", " and ": " between
 * values, only quotes, backslashes and control characters escaped, shortest numbers. */
#include "text/tokenizer/chat.h"

#include "base/num.h"

#include <math.h>
#include <string.h>

void sr1__json_python_text(const char *s, size_t n, struct sr1__buf *out)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";

    sr1__buf_char(out, '"');
    for (size_t i = 0; i < n; i++) {
        const char *known = s[i] ? strchr(from, s[i]) : NULL;

        if (known) {
            sr1__buf_char(out, '\\');
            sr1__buf_char(out, to[known - from]);
        } else if ((unsigned char)s[i] < 0x20) {
            sr1__buf_fmt(out, "\\u%04x", (unsigned)s[i]);
        } else {
            sr1__buf_char(out, s[i]);
        }
    }
    sr1__buf_char(out, '"');
}

/* Python's repr: plain digits from 1e-4 to below 1e16, always with a point or an
 * exponent. Near that bound the shortest text may have the other form. */
static void put_real(double v, struct sr1__buf *out)
{
    char text[32];
    size_t first;

    sr1__format_real(v, text);
    first = 1 + (text[0] == '-');
    if (strpbrk(text, ".e") == NULL && fabs(v) >= 1e16)
        sr1__buf_fmt(out, "%.*s.%se+16", (int)first, text, text + first);
    else if (strchr(text, 'e') && fabs(v) >= 1e15 && fabs(v) < 1e16)
        sr1__buf_fmt(out, "%.0f.0", v);
    else
        sr1__buf_fmt(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* Between two values, or before the first. */
static void put_comma(int first, struct sr1__buf *out)
{
    if (!first)
        sr1__buf_str(out, ", ");
}

/* A string, or an integer that is kept as one. */
static void put_python_string(const char *s, size_t n, struct sr1__buf *out)
{
    struct sr1__str text;

    if (sr1__chat_json_text(s, n, &text))
        sr1__json_python_text(text.s, text.n, out);
    else
        sr1__buf_add(out, text.s, text.n);
}

/* jansson bounds the depth of what it parses, and so of this recursion. */
static void put_python_value(const json_t *j, struct sr1__buf *out)
{
    json_t *value;
    size_t i;
    const char *key;
    size_t key_len;
    int first = 1;

    switch (json_typeof(j)) {
    case JSON_OBJECT:
        sr1__buf_char(out, '{');
        json_object_keylen_foreach((json_t *)j, key, key_len, value)
        {
            put_comma(first, out);
            first = 0;
            put_python_string(key, key_len, out);
            sr1__buf_str(out, ": ");
            put_python_value(value, out);
        }
        sr1__buf_char(out, '}');
        break;
    case JSON_ARRAY:
        sr1__buf_char(out, '[');
        json_array_foreach(j, i, value)
        {
            put_comma(i == 0, out);
            put_python_value(value, out);
        }
        sr1__buf_char(out, ']');
        break;
    case JSON_STRING:
        put_python_string(json_string_value(j), json_string_length(j), out);
        break;
    case JSON_INTEGER:
        sr1__buf_fmt(out, "%" JSON_INTEGER_FORMAT, json_integer_value(j));
        break;
    case JSON_REAL:
        put_real(json_real_value(j), out);
        break;
    case JSON_TRUE:
        sr1__buf_str(out, "true");
        break;
    case JSON_FALSE:
        sr1__buf_str(out, "false");
        break;
    case JSON_NULL:
        sr1__buf_str(out, "null");
        break;
    }
}

sr1_status sr1__chat_json_python(const json_t *j, struct sr1__buf *out)
{
    put_python_value(j, out);
    return out->status;
}
