/* base/json.h - jansson with our errors and bounds. Objects keep insertion order. */
#ifndef SR1__BASE_JSON_H
#define SR1__BASE_JSON_H

#include "base/buf.h"

#include <jansson.h>

/* The most memory that the values of a text of n bytes may fill. A text of fewer bytes
 * than SR1__JSON_UNCHECKED cannot fill as much. */
#define SR1__JSON_MEMORY_MAX(n) (((size_t)256 << 20) + 8 * (size_t)(n))
#define SR1__JSON_UNCHECKED ((size_t)1 << 20)

/* Parse text[0..n). `name` is what errors call it ("run.yaml"); NULL: a row, whose file
 * and line the caller puts in front.
 * Embedded \u0000 is allowed; depth is bounded by jansson's own limit, memory by the
 * above: SR1_E_LIMIT. *out is a new reference (json_decref). */
sr1_status sr1__json_parse(json_t **out, const char *text, size_t n, const char *name);
/* The same for text of other programs, read as Python's json reads it: of repeated names
 * the last, half a surrogate pair (which is U+FFFD here), NaN and Infinity (null), whole
 * numbers beyond 64 bits (real ones). */
sr1_status sr1__json_parse_loose(json_t **out, const char *text, size_t n,
                                 const char *name);
/* Append such a text as JSON that sr1__json_parse reads. */
void sr1__json_mend(const char *text, size_t n, struct sr1__buf *out);
/* Fails (SR1_E_PARSE) if a whole number beyond 64 bits stands in such a row: it names the
 * number and the member that has it. */
sr1_status sr1__json_refuse_big(const char *row, size_t n);
/* At least the memory that the values of a text will fill. */
size_t sr1__json_memory(const char *text, size_t n);
sr1_status sr1__json_load(json_t **out, const char *path, size_t max_bytes);
sr1_status sr1__json_load_loose(json_t **out, const char *path, size_t max_bytes);
/* Compact (indent 0) or pretty text appended to b. Non-finite numbers cannot occur in
 * json_t. */
sr1_status sr1__json_dump(const json_t *j, int indent, struct sr1__buf *b);
sr1_status sr1__json_save(const json_t *j, int indent, const char *path); /* atomic */
/* One JSON line into a file. Takes the value over; NULL: there was no memory for it. */
struct sr1__file_writer;
sr1_status sr1__json_write_line(struct sr1__file_writer *w, json_t *line);
/* A member of an object; NULL where there is none, or null. */
const json_t *sr1__json_given(const json_t *o, const char *key);
/* Typed members of an object: on absence or wrong type an error naming `key`. */
sr1_status sr1__json_get_str(const json_t *o, const char *key, const char **out);
sr1_status sr1__json_get_int(const json_t *o, const char *key, int64_t *out);
sr1_status sr1__json_get_num(const json_t *o, const char *key, double *out);
/* The member at a path of names with dots between: "a.b" is b of a. NULL: there is none.
 */
const json_t *sr1__json_at(const json_t *o, const char *path);
/* A new string of text[0..n), in which bytes that are not UTF-8, which JSON cannot hold,
 * become U+FFFD. NULL without memory. */
json_t *sr1__json_text(const char *text, size_t n);
/* A new list of n such strings. */
json_t *sr1__json_texts(const char *const *texts, size_t n);
/* Append the text of a JSON string for what takes C strings: NUL becomes U+FFFD. */
void sr1__json_add_text(struct sr1__buf *b, const json_t *string);
/* A new json real or integer for v; null for NaN and infinities. */
json_t *sr1__json_number(double v);

/* YAML (one document; anchors, tags and merge keys refused) to the json_t of the same
 * shape. Plain scalars by YAML 1.2 core schema: null, true/false, integers, floats, else
 * strings. */
sr1_status sr1__yaml_parse(json_t **out, const char *text, size_t n, const char *name);
/* The same, and lines (an object, borrowed) is given the line of each key of the
 * outermost mapping. lines may be NULL. */
sr1_status sr1__yaml_parse_lines(json_t **out, json_t *lines, const char *text, size_t n,
                                 const char *name);

#endif
