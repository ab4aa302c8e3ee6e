/* text/jinja/jinja.h - chat templates: programs in the part of the Jinja language that
 * the templates of published models use, parsed once and run within bounds.
 *
 * A program sees the values it is bound to and nothing else: no file, no variable of the
 * process, no clock but the time it is given. What it prints equals what Jinja2's
 * immutable sandbox prints as transformers sets it up (trim_blocks, lstrip_blocks, loop
 * controls, the generation tag). */
#ifndef SR1__JINJA_JINJA_H
#define SR1__JINJA_JINJA_H

#include "base/buf.h"
#include "base/spans.h"
#include "base/str.h"

#include <jansson.h>

#define SR1__JINJA_TEXT_MAX ((size_t)1 << 20)   /* bytes of a template */
#define SR1__JINJA_MEMORY_MAX ((size_t)1 << 29) /* bytes of one run */
#define SR1__JINJA_STEPS_MAX 50000000           /* of one run */
#define SR1__JINJA_DEPTH_MAX 200                /* of calls and of the template */

struct sr1__jinja;
struct sr1__jrun;
struct sr1__jvalue;

/* SR1_E_PARSE, SR1_E_UNSUPPORTED or SR1_E_LIMIT name the line. Free with
 * sr1__jinja_free. */
sr1_status sr1__jinja_parse(struct sr1__jinja **out, const char *text, size_t n);
void sr1__jinja_free(struct sr1__jinja *t); /* NULL is fine */
/* Does the program read a variable of this name? */
int sr1__jinja_names(const struct sr1__jinja *t, const char *name);

/* One run of a template, which is borrowed. now: seconds since 1970, which
 * strftime_now shows as UTC. Free with sr1__jrun_free. */
sr1_status sr1__jrun_new(struct sr1__jrun **out, const struct sr1__jinja *t, int64_t now);
void sr1__jrun_free(struct sr1__jrun *r);

/* The text of a JSON string; 0 if it stands for an integer of many digits. */
typedef int (*sr1__jinja_text_of)(const char *s, size_t n, struct sr1__str *out);

/* Bind a variable; texts of JSON are borrowed until the run is freed. */
sr1_status sr1__jrun_bind_json(struct sr1__jrun *r, const char *name, const json_t *j,
                               sr1__jinja_text_of text_of);
sr1_status sr1__jrun_bind_bool(struct sr1__jrun *r, const char *name, int value);
/* Text that is the template's own, such as the name of a special token; borrowed. */
sr1_status sr1__jrun_bind_own(struct sr1__jrun *r, const char *name, const char *text,
                              size_t n);
/* Say that stretches of a text of messages[i] are the caller's own words. */
sr1_status sr1__jrun_mark_own(struct sr1__jrun *r, const char *name, size_t i,
                              const char *member, const struct sr1__spans *own);

/* Append what the program prints, and the stretches of it that are its own words. */
sr1_status sr1__jrun_render(struct sr1__jrun *r, struct sr1__buf *text,
                            struct sr1__spans *own);

#endif
