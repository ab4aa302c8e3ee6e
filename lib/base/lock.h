/* base/lock.h - a lock file: one holder at a time, across threads and processes. */
#ifndef SR1__BASE_LOCK_H
#define SR1__BASE_LOCK_H

#include "base/error.h"

#define SR1__LOCK_HOLDER 160

struct sr1__lock;

/* Lock an open file without waiting: 0 when it is held, also on a file system without
 * locks, which excludes nobody; else an errno, EWOULDBLOCK while another holds it. */
int sr1__flock(int fd);

/* Lock path, which is created if it is missing. SR1_E_STATE while another process or
 * thread holds it: holder then names the process and its machine ("process 12 on host").
 * On a file system without locks the call succeeds and excludes nobody. */
sr1_status sr1__lock_take(struct sr1__lock **out, const char *path,
                          char holder[SR1__LOCK_HOLDER]);
/* SR1_E_STATE while another holds it, as above. Any number may look at the same time, and
 * nothing is written. */
sr1_status sr1__lock_look(const char *path, char holder[SR1__LOCK_HOLDER]);
/* The file stays, empty. NULL is fine. */
void sr1__lock_release(struct sr1__lock *l);

#endif
