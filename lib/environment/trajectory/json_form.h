/* environment/trajectory/json_form.h - declarations shared by the writer and the reader
 * of the JSON form.
 *
 * A string whose bytes are not UTF-8 is written {"hex": "c0af"}. Derived members
 * (group_key, policy_tokens) are written for people and other programs; the reader does
 * not need them. */
#ifndef SR1__TRAJECTORY_JSON_FORM_H
#define SR1__TRAJECTORY_JSON_FORM_H

#include "base/json.h"
#include "base/str.h"

/* The word of a segment's source. */
#define SR1__JSON_POLICY "policy"
#define SR1__JSON_ENVIRONMENT "environment"

/* A new string, or its hex object; NULL without memory. */
json_t *sr1__form_text_new(const char *data, size_t len);

/* Replace each hex object below j by a string of its bytes. */
sr1_status sr1__json_form_decode_hex(json_t *j);

/* Typed members of an object; SR1_E_PARSE names the key. Texts are borrowed from o. */
sr1_status sr1__form_get_text(const json_t *o, const char *key, struct sr1__str *out);
sr1_status sr1__form_get_name(const json_t *o, const char *key,
                              const char **out); /* a string without NUL */
sr1_status sr1__form_get_i32(const json_t *o, const char *key, int32_t *out);
sr1_status sr1__form_get_size(const json_t *o, const char *key, size_t *out);
sr1_status sr1__form_get_array(const json_t *o, const char *key, const json_t **out);

/* The member "row", where there is one. */
struct sr1__trajectory_builder;
sr1_status sr1__form_read_row(const json_t *o, struct sr1__trajectory_builder *b);

#endif
