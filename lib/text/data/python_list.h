/* text/data/python_list.h - a list as Python or numpy prints it, in a cell of a CSV file:
 * ['Paris', "it's", 3], ['Paris' 'Lyon']. */
#ifndef SR1__DATA_PYTHON_LIST_H
#define SR1__DATA_PYTHON_LIST_H

#include "base/json.h"

/* *out: a new list of texts and numbers; NULL: the text is no such list. The only error
 * is SR1_E_NOMEM. */
sr1_status sr1__python_list_read(const char *s, size_t n, json_t **out);

#endif
