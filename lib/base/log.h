/* base/log.h - send messages to the sink set by sr1_log_set; without a sink they are
 * dropped. */
#ifndef SR1__BASE_LOG_H
#define SR1__BASE_LOG_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

void sr1__log(int32_t level, const char *fmt, ...) SR1__PRINTF(2, 3);

#ifdef __cplusplus
}
#else
#include <stdatomic.h>

/* Return 1 when text differs from the text of the last call, so that a repeated failure
 * is logged once. *last is 0 at first. From any thread. */
int sr1__log_is_news(atomic_ullong *last, const char *text);
#endif

#endif
