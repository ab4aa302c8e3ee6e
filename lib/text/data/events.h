/* text/data/events.h - numbers by step for TensorBoard: files events.out.tfevents.* in a
 * folder.
 *
 * A file is a row of records (TFRecord): length, its check, bytes, their check; the
 * checks are masked CRC-32C. Each record is an Event in protocol buffers' form; the first
 * names the version, the second is a SessionLog START with the step of the first row: a
 * reader then drops the values of that step and of later ones from older files of the
 * folder, so steps that a resumed run repeats appear once. Source of the formats:
 * tensorflow/core/util/event.proto, summary.proto and lib/io/record_writer. */
#ifndef SR1__DATA_EVENTS_H
#define SR1__DATA_EVENTS_H

#include "base/json.h"

struct sr1__events;

/* Make the folder; the file of this writer begins with its first row. */
sr1_status sr1__events_open(struct sr1__events **out, const char *folder);
/* Every finite number of the row under its name, at the row's "step" (an integer). Goes
 * out in one write; after a failure the file ends where it did before. */
sr1_status sr1__events_add(struct sr1__events *w, const json_t *row);
void sr1__events_close(struct sr1__events *w); /* NULL is fine */

/* CRC-32C (Castagnoli), as in RFC 3720. */
uint32_t sr1__crc32c(const void *bytes, size_t n);

#endif
