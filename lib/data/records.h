/* data/records.h - where the records of records.c keep what a row has. */
#ifndef SR1__DATA_RECORDS_H
#define SR1__DATA_RECORDS_H

#include "base/json.h"

/* The gold answers in "reward_model"; NULL where there are none. Borrowed. */
const json_t *sr1__record_target(const json_t *row);

#endif
