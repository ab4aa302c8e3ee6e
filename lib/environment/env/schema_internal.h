/* environment/env/schema_internal.h - what schema.c (schemas) and schema_fits.c (values)
 * share. */
#ifndef SR1__ENV_SCHEMA_INTERNAL_H
#define SR1__ENV_SCHEMA_INTERNAL_H

#include "environment/env/schema.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct sr1__schema_type {
    const char *name;
    const char *noun; /* "must be ..." */
    unsigned kinds;   /* bit k: a value of jansson's kind k is one */
};

/* The type of that name; NULL: there is none. */
const struct sr1__schema_type *sr1__schema_type_find(const char *name);
/* The narrowest type of a value. */
const struct sr1__schema_type *sr1__schema_type_of_value(const json_t *v);

/* What a local reference ("#", "#/$defs/a") leads to; NULL: nothing. */
const json_t *sr1__schema_resolve(const json_t *root, const char *ref);

/* Compile a pattern: SR1_E_INVALID says what is wrong with it. Free *out. */
sr1_status sr1__schema_pattern(pcre2_code **out, const char *pattern, size_t n);

/* -1, 0 or 1 of two numbers, exactly. */
int sr1__schema_compare_numbers(const json_t *a, const json_t *b);

/* Append a value as JSON, a long one cut. */
void sr1__schema_append_value(const json_t *v, struct sr1__buf *b);
/* Values of a list, with commas. */
void sr1__schema_append_values(const json_t *list, struct sr1__buf *b);

#endif
