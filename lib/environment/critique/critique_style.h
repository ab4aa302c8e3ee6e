/* environment/critique/critique_style.h - templates of the prompts (see
 * searchr1/ext/critique.h). */
#ifndef SR1__CRITIQUE_CRITIQUE_STYLE_H
#define SR1__CRITIQUE_CRITIQUE_STYLE_H

#include "text/data/prompt_template.h"

#include <searchr1/ext/critique.h>

#include <stdatomic.h>

/* Places of a critique's template: problem, answer, hint. */
enum { SR1__PLACE_HINT = 2, SR1__CRITIQUE_PLACES = 3 };

struct sr1_critique_style {
    atomic_int references;
    struct sr1__prompt_template *critique; /* NULL: built-in */
    struct sr1__prompt_template *solve;    /* likewise */
};

#endif
