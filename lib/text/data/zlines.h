/* text/data/zlines.h - append lines of text to a file of zstd frames.
 *
 * Lines are gathered and written a frame at a time, each in one write; frames are
 * independent, so the file can be cut back to the end of any frame, and `zstdcat` reads
 * the file. Reading is public: sr1_lines_open in searchr1/data.h. */
#ifndef SR1__DATA_ZLINES_H
#define SR1__DATA_ZLINES_H

#include "base/buf.h"

struct sr1__zlines;

/* Create the file, or open it to append. */
sr1_status sr1__zlines_open(struct sr1__zlines **out, const char *path);
/* Add a line, whose end is added; it is written with the next frame. */
sr1_status sr1__zlines_add(struct sr1__zlines *w, const char *line, size_t n);
/* Write the added lines as a frame. After a failure (full disk) the file ends where it
 * did before, and those lines are lost. */
sr1_status sr1__zlines_flush(struct sr1__zlines *w);
/* Bytes in the file now, all of them whole frames. */
uint64_t sr1__zlines_size(const struct sr1__zlines *w);
/* Drop everything after size, an earlier sr1__zlines_size. */
sr1_status sr1__zlines_truncate(struct sr1__zlines *w, uint64_t size);
/* Cut off a frame at the end that is not whole: it was torn when the machine went down.
 */
sr1_status sr1__zlines_mend(struct sr1__zlines *w);
/* Make all frames durable. */
sr1_status sr1__zlines_sync(struct sr1__zlines *w);
void sr1__zlines_close(struct sr1__zlines *w); /* what was not flushed is dropped */

#endif
