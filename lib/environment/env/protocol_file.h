/* environment/env/protocol_file.h - protocols that a file describes
 * (docs/formats.md#protocols). */
#ifndef SR1__ENV_PROTOCOL_FILE_H
#define SR1__ENV_PROTOCOL_FILE_H

#include "environment/env/protocol.h"

/* Is this the path of a file, not the name of a row? */
int sr1__protocol_is_file(const char *name);

/* The protocol that the file describes; NULL, with the error set. Read once while the
 * file stays the same; kept for the life of the process, at most 64 of them. From any
 * thread.
 */
const struct sr1__protocol *sr1__protocol_from_file(const char *path);

/* The same of text[0..n), for tests: *out is the caller's, sr1__protocol_file_free. */
struct sr1__protocol_file;
sr1_status sr1__protocol_file_parse(struct sr1__protocol_file **out, const char *text,
                                    size_t n, const char *name);
void sr1__protocol_file_free(struct sr1__protocol_file *f);

#endif
