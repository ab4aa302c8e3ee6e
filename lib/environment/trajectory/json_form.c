/* environment/trajectory/json_form.c - strings of any bytes in JSON, and typed members.
 */
#include "environment/trajectory/json_form.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/row_text.h"

#include <string.h>

static json_t *hex_json(const char *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = sr1__malloc(2 * len + 1);
    json_t *j;

    if (!hex)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        hex[2 * i] = digits[(unsigned char)data[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)data[i] & 15];
    }
    j = json_pack("{s:s%}", "hex", hex, 2 * len);
    sr1__free(hex);
    return j;
}

json_t *sr1__form_text_new(const char *data, size_t len)
{
    return sr1__utf8_valid(data, len) ? json_stringn_nocheck(data, len)
                                      : hex_json(data, len);
}

static int read_hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* The bytes that hex stands for, as a string that is not checked for UTF-8. */
static sr1_status from_hex(const json_t *hex, json_t **out)
{
    const char *s = json_string_value(hex);
    size_t n = json_string_length(hex);
    char *bytes = sr1__malloc(n / 2);
    int bad = n % 2 != 0;

    SR1__CHECK_ALLOC(bytes, "text in hex");
    for (size_t i = 0; !bad && i < n / 2; i++) {
        int high = read_hex_digit(s[2 * i]), low = read_hex_digit(s[2 * i + 1]);

        bad = high < 0 || low < 0;
        bytes[i] = (char)(bad ? 0 : high << 4 | low);
    }
    *out = bad ? NULL : json_stringn_nocheck(bytes, n / 2);
    sr1__free(bytes);
    if (bad)
        return sr1__fail(SR1_E_PARSE, "'hex' is not pairs of digits 0-9 a-f");
    return *out ? SR1_OK : sr1__fail_nomem("text in hex");
}

static const json_t *hex_of(const json_t *j)
{
    const json_t *hex = json_object_get(j, "hex");

    return json_object_size(j) == 1 && json_is_string(hex) ? hex : NULL;
}

static sr1_status unhex_object(json_t *o)
{
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
        json_t *child = json_object_iter_value(it);
        json_t *bytes = NULL;

        if (!hex_of(child)) {
            SR1__TRY(sr1__json_form_decode_hex(child));
            continue;
        }
        SR1__TRY(from_hex(hex_of(child), &bytes));
        json_object_iter_set_new(o, it, bytes);
    }
    return SR1_OK;
}

static sr1_status unhex_array(json_t *a)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        json_t *child = json_array_get(a, i);
        json_t *bytes = NULL;

        if (!hex_of(child)) {
            SR1__TRY(sr1__json_form_decode_hex(child));
            continue;
        }
        SR1__TRY(from_hex(hex_of(child), &bytes));
        json_array_set_new(a, i, bytes);
    }
    return SR1_OK;
}

/* The recursion is as deep as the text nests, which the parser has bounded. */
sr1_status sr1__json_form_decode_hex(json_t *j)
{
    if (json_is_object(j))
        return unhex_object(j);
    return json_is_array(j) ? unhex_array(j) : SR1_OK;
}

sr1_status sr1__form_get_text(const json_t *o, const char *key, struct sr1__str *out)
{
    const char *s;

    SR1__TRY(sr1__json_get_str(o, key, &s));
    out->s = s;
    out->n = json_string_length(json_object_get(o, key));
    return SR1_OK;
}

sr1_status sr1__form_get_name(const json_t *o, const char *key, const char **out)
{
    struct sr1__str t;

    SR1__TRY(sr1__form_get_text(o, key, &t));
    if (strlen(t.s) != t.n)
        return sr1__fail(SR1_E_PARSE, "'%s' holds a NUL", key);
    *out = t.s;
    return SR1_OK;
}

sr1_status sr1__form_get_i32(const json_t *o, const char *key, int32_t *out)
{
    int64_t v;

    SR1__TRY(sr1__json_get_int(o, key, &v));
    if (v < INT32_MIN || v > INT32_MAX)
        return sr1__fail(SR1_E_PARSE, "'%s' does not fit in 32 bits", key);
    *out = (int32_t)v;
    return SR1_OK;
}

sr1_status sr1__form_get_size(const json_t *o, const char *key, size_t *out)
{
    int64_t v;

    SR1__TRY(sr1__json_get_int(o, key, &v));
    if (v < 0)
        return sr1__fail(SR1_E_PARSE, "'%s' is below 0", key);
    *out = (size_t)v;
    return SR1_OK;
}

sr1_status sr1__form_get_array(const json_t *o, const char *key, const json_t **out)
{
    const json_t *a = json_object_get(o, key);

    if (!json_is_array(a))
        return sr1__fail(SR1_E_PARSE, "'%s' is missing or not a list", key);
    *out = a;
    return SR1_OK;
}

sr1_status sr1__form_read_row(const json_t *o, struct sr1__trajectory_builder *b)
{
    struct sr1__str text;
    struct sr1__row_text *row = NULL;

    if (!json_object_get(o, "row"))
        return SR1_OK;
    SR1__TRY(sr1__form_get_text(o, "row", &text));
    SR1__TRY(sr1__row_text_new(&row, text.s, text.n));
    sr1__trajectory_builder_row(b, row);
    sr1__row_text_free(row);
    return SR1_OK;
}
