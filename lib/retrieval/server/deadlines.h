/* retrieval/server/deadlines.h - deadlines of connections: a connection that misses its
 * deadline is closed. libmicrohttpd's own time-out restarts with every byte. */
#ifndef SR1__SERVER_DEADLINES_H
#define SR1__SERVER_DEADLINES_H

#include "base/error.h"

struct sr1__deadlines; /* with a thread of their own */
struct sr1__deadline;  /* of one connection */

sr1_status sr1__deadlines_open(struct sr1__deadlines **out);
/* When no connection is left. NULL is fine. */
void sr1__deadlines_close(struct sr1__deadlines *d);

/* fd stays open until it is removed. NULL: no memory, and then it has none. */
struct sr1__deadline *sr1__deadline_add(struct sr1__deadlines *d, int fd);
/* In so many seconds from now; 0: never. The one before is forgotten. NULL is fine. */
void sr1__deadline_set(struct sr1__deadline *l, double seconds);
void sr1__deadline_remove(struct sr1__deadline *l);

#endif
