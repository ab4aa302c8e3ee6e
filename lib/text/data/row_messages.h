/* text/data/row_messages.h - conversations in rows: lists of {"role", "content"}, as chat
 * completions and their fine-tuning files have them. */
#ifndef SR1__DATA_ROW_MESSAGES_H
#define SR1__DATA_ROW_MESSAGES_H

#include "base/json.h"
#include "base/messages.h"

/* The name of a role that message `index` may have ("user", "assistant", in the first
 * place "system", which is that of "developer" too), static; NULL for any other. */
const char *sr1__message_role(const char *role, size_t index);

/* The first n messages of a list. SR1_E_PARSE names `field` and the message: not an
 * object, another role, no text as content, a NUL in it, or tool calls. SR1_E_LIMIT for
 * more than SR1_TRAJECTORY_MAX_HISTORY. Texts are borrowed from the list. */
sr1_status sr1__messages_read(struct sr1__messages *out, const json_t *list, size_t n,
                              const char *field);

/* Index of the user's last message; SR1_E_PARSE where the list has none. */
sr1_status sr1__messages_question(const json_t *list, const char *field, size_t *index);

#endif
