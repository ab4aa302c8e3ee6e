/* text/jinja/jinja_list_filters.h - the filters of lists, as rows. */
#ifndef SR1__JINJA_LIST_FILTERS_H
#define SR1__JINJA_LIST_FILTERS_H

#include "text/jinja/jinja_value.h"

extern const struct sr1__jfunction sr1__jinja_list_filters[];

#endif
