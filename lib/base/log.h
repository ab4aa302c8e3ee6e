/* base/log.h - messages to the sink set by sr1_log_set; nothing without one. */
#ifndef SR1__BASE_LOG_H
#define SR1__BASE_LOG_H

#include "base/error.h"

void sr1__log(int32_t level, const char *fmt, ...) SR1__PRINTF(2, 3);

#endif
