/* base/map_watch.h - maps of files that somebody may change while they are in use.
 *
 * Reading a map beyond the end of a file that was cut raises SIGBUS, which ends a
 * process. With a watched map the process goes on: missing pages read as zeros, and the
 * map is marked as torn. A reader of a watched map calls sr1__map_check afterwards,
 * before it uses the data it read.
 *
 * The first watched map installs a handler for SIGBUS. A signal that does not concern a
 * watched map goes to the handler that was installed before, or to the default action. A
 * handler that the program installs later must pass on signals in the same way.
 * (libwayland and systemd's journal protect their maps like this.) */
#ifndef SR1__BASE_MAP_WATCH_H
#define SR1__BASE_MAP_WATCH_H

#include "base/file.h"

/* sr1__map_open, watched. `seal` bytes at the end of the file differ whenever anything in
 * it does; 0: there is nothing of the kind, and a new time of change counts as a change.
 */
sr1_status sr1__map_open_watched(struct sr1__map *out, const char *path, size_t seal);

/* Check that the file has the bytes it had at opening; SR1_E_CORRUPT: it was changed in
 * place. A map that is not watched is fine. */
sr1_status sr1__map_check(const struct sr1__map *m);

/* Return the error of sr1__map_check when it fails, because a changed file explains every
 * other error; else status. */
sr1_status sr1__map_blame(const struct sr1__map *m, sr1_status status);

/* For sr1__map_close. */
void sr1__map_unwatch(struct sr1__map *m);

#endif
