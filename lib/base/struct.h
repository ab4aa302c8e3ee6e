/* base/struct.h - read and fill public structs that grow, up to the size that the caller
 * knows.
 *
 * Option, vtable and result structs begin with `size_t struct_size`, which the caller
 * sets to its own sizeof, and are only ever appended to. A caller built against an older
 * header passes a smaller size than ours, one against a newer header a larger one. */
#ifndef SR1__BASE_STRUCT_H
#define SR1__BASE_STRUCT_H

#include "base/error.h"

/* Bytes up to the end of a field. It does not move when fields are appended. */
#define SR1__STRUCT_END(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* *to (size bytes) holds the defaults: overwrite them with the fields of the caller's
 * *from. from NULL: the defaults stay. to->struct_size becomes size. `least` is the end
 * of the last field that has no default, or of the first field: a smaller struct_size was
 * never set, SR1_E_INVALID. `what` names the struct. */
sr1_status sr1__struct_take(void *to, size_t size, const void *from, size_t least,
                            const char *what);

/* Can *out be filled? SR1_E_INVALID when it is NULL or its struct_size was never set. For
 * calls that must know before they begin. */
sr1_status sr1__struct_check(const void *out, const char *what);

/* Fill the caller's *out from *from (size bytes) as far as out->struct_size says; that
 * stays as it is. Errors as above. */
sr1_status sr1__struct_give(void *out, const void *from, size_t size, const char *what);

/* For init functions: *to (size bytes) becomes the defaults, and its struct_size size. An
 * init function cannot know how much room its caller has, so a struct that grows brings a
 * new version of it (docs/api.md). to NULL is fine. */
void sr1__struct_init(void *to, const void *defaults, size_t size);

#endif
