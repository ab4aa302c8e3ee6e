/* retrieval/search/spool.h - bytes that wait on disk: a temporary file beside the file
 * being built.
 *
 * It has no name once it is open, so that nothing of it is left whatever happens to the
 * process. Written from front to back, then read. */
#ifndef SR1__SEARCH_SPOOL_H
#define SR1__SEARCH_SPOOL_H

#include "base/error.h"

struct sr1__spool;

/* In the folder of path; errors name path. */
sr1_status sr1__spool_open(struct sr1__spool **out, const char *path);
void sr1__spool_close(struct sr1__spool *s); /* NULL is fine */
sr1_status sr1__spool_add(struct sr1__spool *s, const void *bytes, size_t n);
uint64_t sr1__spool_size(const struct sr1__spool *s);
/* Make what was added readable; nothing may be added after. */
sr1_status sr1__spool_finish(struct sr1__spool *s);
/* Read n bytes at offset, all of them within the size. Any thread. */
sr1_status sr1__spool_read(const struct sr1__spool *s, uint64_t offset, void *out,
                           size_t n);
/* All bytes, mapped until the spool is closed. */
sr1_status sr1__spool_map(struct sr1__spool *s, const unsigned char **out);

#endif
