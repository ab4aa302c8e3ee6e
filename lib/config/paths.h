/* config/paths.h - resolve relative paths of a configuration, and find the files of a run
 * whose folder was moved. */
#ifndef SR1__CONFIG_PATHS_H
#define SR1__CONFIG_PATHS_H

#include "config/keys.h"

/* Is its value a list of paths? */
int sr1__config_is_path_list(const struct config_key *key);

/* Make a relative path from a file relative to the folder of that file. Keys that are not
 * paths, and words that replace a path, stay unchanged. */
sr1_status sr1__config_path_beside(const struct config_key *key, const char *folder,
                                   struct config_value *v);

/* Make every path absolute, from the working folder; symbolic links are not resolved. */
sr1_status sr1__config_paths_absolute(sr1_config *c);
/* The same of one key, which need not be a path. */
sr1_status sr1__config_path_absolute(sr1_config *c, const char *key);

/* The paths of a run whose folder was at key `out` and is now at run. A path that no
 * longer exists is looked for at the same position relative to the new folder, and
 * replaced when it exists there. */
sr1_status sr1__config_paths_moved(sr1_config *c, const char *run);

#endif
