/* base/struct.c - copy min(caller's struct_size, ours) bytes in either direction. */
#include "base/struct.h"

#include <string.h>

/* Without regard to alignment: in an array the distance is the caller's. */
static size_t read_struct_size(const void *given)
{
    size_t size = 0;

    if (given)
        memcpy(&size, given, sizeof size);
    return size;
}

static sr1_status not_set(const char *what)
{
    return sr1__fail(SR1_E_INVALID, "%s: struct_size is not set", what);
}

sr1_status sr1__struct_take(void *to, size_t size, const void *from, size_t least,
                            const char *what)
{
    size_t have = read_struct_size(from);

    if (from && have < least)
        return not_set(what);
    if (from)
        memcpy(to, from, have < size ? have : size);
    memcpy(to, &size, sizeof size);
    return SR1_OK;
}

sr1_status sr1__struct_check(const void *out, const char *what)
{
    if (!out)
        return sr1__fail(SR1_E_INVALID, "%s: NULL", what);
    return read_struct_size(out) > sizeof(size_t) ? SR1_OK : not_set(what);
}

sr1_status sr1__struct_give(void *out, const void *from, size_t size, const char *what)
{
    size_t have = read_struct_size(out);
    size_t head = sizeof have;

    SR1__TRY(sr1__struct_check(out, what));
    if (have > size)
        have = size;
    memcpy((char *)out + head, (const char *)from + head, have - head);
    return SR1_OK;
}

void sr1__struct_init(void *to, const void *defaults, size_t size)
{
    if (!to)
        return;
    memcpy(to, defaults, size);
    memcpy(to, &size, sizeof size);
}
