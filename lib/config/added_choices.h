/* config/added_choices.h - choices of keys that a program adds: names of estimators and
 * losses of its own, and of devices. They hold for the process, and nothing removes them.
 */
#ifndef SR1__CONFIG_ADDED_CHOICES_H
#define SR1__CONFIG_ADDED_CHOICES_H

#include "base/error.h"

/* Accept `name` (copied) as a choice of `key` too. thing: what the name stands for; lives
 * as long as the process. SR1_E_INVALID: this is no name, or the key has it already. From
 * any thread. */
sr1_status sr1__added_choice(const char *key, const char *name, const void *thing);
/* What an added name of the key stands for; NULL: it was not added. */
const void *sr1__added_choice_find(const char *key, const char *name);
/* What added name i of the key stands for, in the order of adding; NULL past the last. */
const void *sr1__added_choice_at(const char *key, size_t i);
/* Can it be a name that some program adds to this key? */
int sr1__added_choice_may_be(const char *key, const char *name);
/* How a program adds to this key, for error texts; NULL: nobody can. */
const char *sr1__added_choice_how(const char *key);

#endif
