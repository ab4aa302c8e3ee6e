/* text/data/prompt_template.h - prompt templates: text with placeholders {{name}}.
 *
 * Values are inserted as they are and not expanded again, so a value cannot add
 * placeholders. Spaces inside the braces are allowed. */
#ifndef SR1__DATA_PROMPT_TEMPLATE_H
#define SR1__DATA_PROMPT_TEMPLATE_H

#include "base/buf.h"
#include "base/spans.h"

struct sr1__prompt_template;

/* names: the places a text may have; any other is an error that names line and place.
 * `name` is what errors call the text. All strings are copied. */
sr1_status sr1__prompt_template_parse(struct sr1__prompt_template **out, const char *text,
                                      size_t n, const char *name,
                                      const char *const *names, size_t n_names);
/* From a file, at most 1 MiB. */
sr1_status sr1__prompt_template_load(struct sr1__prompt_template **out, const char *path,
                                     const char *const *names, size_t n_names);
/* The text of a system message, whose only place is {{tools}}: its values[0]. */
sr1_status sr1__system_template_parse(struct sr1__prompt_template **out, const char *text,
                                      const char *name);
/* Is names[place] inserted in it? */
int sr1__prompt_template_has(const struct sr1__prompt_template *t, int place);
/* Has a text that is no template this place? */
int sr1__prompt_template_names(const char *text, const char *place);
/* SR1_E_PARSE where nothing is inserted in it; place: what the text proposes. */
sr1_status sr1__prompt_template_needs_place(const struct sr1__prompt_template *t,
                                            const char *name, const char *place);
void sr1__prompt_template_free(struct sr1__prompt_template *t);

/* Append the text with values[i] (NUL-terminated) in the places of names[i]. own: NULL,
 * or receives where in out the template's own words lie. */
sr1_status sr1__prompt_template_render(const struct sr1__prompt_template *t,
                                       const char *const *values, struct sr1__buf *out,
                                       struct sr1__spans *own);

/* Text of a built-in template ("search-r1", "mt-grpo", "hermes", "rlvcr", ...),
 * NUL-terminated and static; n may be NULL. SR1_E_NOT_FOUND lists those there are. */
sr1_status sr1__prompt_template_builtin(const char *name, const char **text, size_t *n);

/* The table made from templates/<name>.txt by embed.sh. */
struct sr1__builtin_template {
    const char *name;
    const unsigned char *text; /* NUL-terminated */
    size_t n;
};
extern const struct sr1__builtin_template sr1__builtin_templates[];
extern const size_t sr1__n_builtin_templates;

#endif
