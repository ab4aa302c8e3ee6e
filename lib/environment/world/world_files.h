/* environment/world/world_files.h - helpers shared by the writers of made-up worlds. */
#ifndef SR1__WORLD_WORLD_FILES_H
#define SR1__WORLD_WORLD_FILES_H

#include "base/buf.h"

#include <searchr1/ext/tokenizer.h>

/* Put b, whose failure is the call's, in the place of folder/name. */
sr1_status sr1__world_save(const char *folder, const char *name,
                           const struct sr1__buf *b);

/* Train folder/tokenizer on n texts that lie one behind another in b, each with a NUL
 * behind it: all of one weight, so that each of their words becomes a token. */
sr1_status sr1__world_tokenizer(const char *folder, const struct sr1__buf *b, size_t n,
                                const sr1_tokenizer_train_options *options);

#endif
