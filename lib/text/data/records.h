/* text/data/records.h - read ground truths and question from records in Search-R1's
 * published format (records.c). */
#ifndef SR1__DATA_RECORDS_H
#define SR1__DATA_RECORDS_H

#include "base/json.h"

/* The ground truths in "reward_model"; NULL if there are none. Borrowed. */
const json_t *sr1__record_target(const json_t *row);

#endif
