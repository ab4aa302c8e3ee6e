/* critique/style.h - how models are asked (see searchr1/critique.h). */
#ifndef SR1__CRITIQUE_STYLE_H
#define SR1__CRITIQUE_STYLE_H

#include "data/template.h"

#include <searchr1/critique.h>

#include <stdatomic.h>

struct sr1_critique_style {
    atomic_int references;
    struct sr1__template *critique; /* NULL: built-in */
    struct sr1__template *solve;    /* likewise */
    int32_t has_hint;               /* critique has a place for it */
};

#endif
