/* tensor/weights/hf_keys.c - typed and bounded members of Hugging Face JSON files. */
#include "tensor/weights/hf_keys.h"

#include <inttypes.h>

sr1_status sr1__hf_flag(const json_t *root, const char *key, const char *name,
                        int32_t *out)
{
    const json_t *v = sr1__json_given(root, key);

    if (v && !json_is_boolean(v))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' is not true or false", name, key);
    if (v)
        *out = json_is_true(v);
    return SR1_OK;
}

sr1_status sr1__hf_real(const json_t *root, const char *key, const char *name,
                        double *out)
{
    const json_t *v = sr1__json_given(root, key);

    if (v && !json_is_number(v))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' is not a number", name, key);
    if (v)
        *out = json_number_value(v);
    return SR1_OK;
}

sr1_status sr1__hf_text(const json_t *root, const char *key, const char *name,
                        const char **out)
{
    const json_t *v = sr1__json_given(root, key);

    if (v && !json_is_string(v))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' is not a text", name, key);
    if (v)
        *out = json_string_value(v);
    return SR1_OK;
}

sr1_status sr1__hf_real_check(double v, double max, const char *key, const char *name)
{
    if (!(v > 0 && v <= max))
        return sr1__fail(SR1_E_INVALID, "%s: '%s' must be above 0 and at most %g, not %g",
                         name, key, max, v);
    return SR1_OK;
}

/* ---- refusals ---- */

static int is_off(const json_t *v)
{
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_number(v) && json_number_value(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0) ||
           ((json_is_array(v) || json_is_object(v)) && json_array_size(v) == 0 &&
            json_object_size(v) == 0);
}

sr1_status sr1__hf_refuse(const char *name, const char *key, const char *what,
                          const char *remedy)
{
    return sr1__fail(SR1_E_UNSUPPORTED, "%s: '%s': %s is not supported; %s", name, key,
                     what, remedy);
}

sr1_status sr1__hf_refuse_all(const json_t *root, const struct sr1__hf_refused *rows,
                              size_t n, const char *remedy, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!is_off(json_object_get(root, rows[i].key)))
            return sr1__hf_refuse(name, rows[i].key, rows[i].what, remedy);
    return SR1_OK;
}

/* ---- sizes ---- */

int64_t *sr1__hf_size_at(void *config, const struct sr1__hf_size *row)
{
    return (int64_t *)(void *)((char *)config + row->offset);
}

sr1_status sr1__hf_sizes_read(const json_t *root, const struct sr1__hf_size *rows,
                              size_t n, const char *name, void *config)
{
    for (size_t i = 0; i < n; i++) {
        const struct sr1__hf_size *row = &rows[i];
        const json_t *v = sr1__json_given(root, row->key);

        if (!v && row->def == SR1__HF_NEEDED)
            return sr1__fail(SR1_E_PARSE, "%s: '%s' is missing", name, row->key);
        if (v && !json_is_integer(v))
            return sr1__fail(SR1_E_PARSE, "%s: '%s' is not an integer", name, row->key);
        *sr1__hf_size_at(config, row) = v ? json_integer_value(v) : row->def;
    }
    return SR1_OK;
}

sr1_status sr1__hf_sizes_check(const void *config, const struct sr1__hf_size *rows,
                               size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        int64_t v = *sr1__hf_size_at((void *)(uintptr_t)config, &rows[i]);

        if (v < rows[i].min || v > rows[i].max)
            return sr1__fail(SR1_E_INVALID,
                             "%s: '%s' must be from %" PRId64 " to %" PRId64
                             ", not %" PRId64,
                             name, rows[i].key, rows[i].min, rows[i].max, v);
    }
    return SR1_OK;
}
