/* text/data/jsonl.h - records appended to a file, one JSON object a line.
 *
 * Each record is written by one write call, so a reader or a crash sees whole lines.
 * Opening the file again removes a line torn by an earlier crash; a whole record without
 * its line end gets one. */
#ifndef SR1__DATA_JSONL_H
#define SR1__DATA_JSONL_H

#include "base/json.h"

struct sr1__jsonl;

/* Create the file, or open it to append. */
sr1_status sr1__jsonl_open(struct sr1__jsonl **out, const char *path);
/* After a failure (full disk) the file ends where it did before. */
sr1_status sr1__jsonl_add(struct sr1__jsonl *w, const json_t *record);
/* Bytes in the file now, all of them whole lines: a place to return to. */
uint64_t sr1__jsonl_size(const struct sr1__jsonl *w);
/* Drop everything after size, which must not be past the end. */
sr1_status sr1__jsonl_truncate(struct sr1__jsonl *w, uint64_t size);
/* Make all lines durable. */
sr1_status sr1__jsonl_sync(struct sr1__jsonl *w);
void sr1__jsonl_close(struct sr1__jsonl *w);

#endif
