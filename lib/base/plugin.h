/* base/plugin.h - open a library of this project that is loaded on demand. */
#ifndef SR1__BASE_PLUGIN_H
#define SR1__BASE_PLUGIN_H

#include "base/error.h"

/* Look for `library` beside the object that holds this code (library or tool, installed
 * or in a build folder, where it lies in `folder`, "retrieval/faiss"), then where the
 * loader looks, and give the table that it exports as `table`. Stays loaded.
 * SR1_E_UNSUPPORTED with the loader's words. */
sr1_status sr1__plugin_table(const void **out, const char *library, const char *folder,
                             const char *table);

#endif
