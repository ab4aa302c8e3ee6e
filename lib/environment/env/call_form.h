/* environment/env/call_form.h - how the call of a tool is written, as a table. */
#ifndef SR1__ENV_CALL_FORM_H
#define SR1__ENV_CALL_FORM_H

#include "base/json.h"

struct sr1__call_form {
    const char *name;
    const char *wrong; /* "is not valid JSON": what a call is that cannot be read */
    /* How a call is written, with one %s for the member that has the arguments. */
    const char *example;
    /* The call as an object with "name" and the member `arguments`. SR1_E_PARSE: it is
     * not one. *out is a new reference. */
    sr1_status (*parse)(const char *text, size_t len, const char *arguments,
                        json_t **out);
    int32_t untyped; /* arguments are texts: the tool's schema says what they are */
};

/* The row of that name; NULL: "json". NULL, with the error set, if there is none. */
const struct sr1__call_form *sr1__call_form_find(const char *name);

/* JSON value i of several that stand one after the other, blanks, ';' or ',' between
 * them, or in a list: where it begins, and *n its length. Of text that is not such, value
 * 0 is all of it. *n 0: there is no value i. */
size_t sr1__json_values_split(const char *text, size_t len, size_t i, size_t *n);

/* An object's members that are texts become the JSON that they are, where the schema of
 * an object says that a member is no string. schema NULL: wherever they are JSON. */
sr1_status sr1__call_form_type_arguments(json_t *args, const json_t *schema);

#endif
