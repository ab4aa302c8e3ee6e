/* text/tokenizer/chat_json.c - JSON printed as Python prints it: ", " and ": " between
 * values, only quotes, backslashes and control characters escaped, shortest numbers. */
#include "text/tokenizer/chat.h"

#include "text/jinja/jinja_value.h"

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
    char real[40];
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
        sr1__jinja_real_text(json_real_value(j), real);
        sr1__buf_str(out, real);
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
