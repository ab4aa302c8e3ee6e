/* environment/env/schema.h - the part of JSON Schema that describes the arguments of
 * tools. */
#ifndef SR1__ENV_SCHEMA_H
#define SR1__ENV_SCHEMA_H

#include "base/json.h"

/* Deepest schema. */
#define SR1__SCHEMA_DEPTH 32

/* Parse and check the schema of an object; text NULL: an object without members.
 * SR1_E_UNSUPPORTED names a keyword that is not known, or a reference that leads out of
 * the schema, SR1_E_INVALID a keyword that is wrong, SR1_E_LIMIT what is too large.
 * *out is a new reference. */
sr1_status sr1__schema_parse(json_t **out, const char *text);

/* 1 if the value is valid; else 0, with the wrong argument and the reason appended to why
 * ("argument 'k' must be at least 1"). */
int sr1__schema_fits(const json_t *schema, const json_t *value, struct sr1__buf *why);

/* Are members that properties does not name wrong? */
int sr1__schema_is_closed(const json_t *schema);

/* Is it made of others (allOf, $ref, ...)? */
int sr1__schema_is_put_together(const json_t *schema);

/* Append one line for each member: "- k (integer, at least 1, default 3): how many". */
void sr1__schema_describe(const json_t *schema, struct sr1__buf *out);

#endif
