/* base/file.h - whole files, atomic replacement, memory maps, folders. */
#ifndef SR1__BASE_FILE_H
#define SR1__BASE_FILE_H

#include "base/buf.h"

/* Read a regular file of at most max bytes (0: SR1__BUF_DEFAULT_MAX) into *out, which is
 * initialised here; free with sr1__buf_free. */
sr1_status sr1__file_read(const char *path, size_t max, struct sr1__buf *out);

/* Replace path by these bytes: temporary file beside it, fsync, rename, fsync of the
 * folder. After any failure the old file stands and no temporary is left. */
sr1_status sr1__file_replace(const char *path, const void *bytes, size_t n);

/* The same in pieces, for big files. abort on a NULL writer does nothing. */
struct sr1__file_writer;
sr1_status sr1__file_writer_open(struct sr1__file_writer **out, const char *path);
sr1_status sr1__file_writer_add(struct sr1__file_writer *w, const void *bytes, size_t n);
uint64_t sr1__file_writer_offset(const struct sr1__file_writer *w);
sr1_status sr1__file_writer_commit(struct sr1__file_writer *w); /* frees w in any case */
void sr1__file_writer_abort(struct sr1__file_writer *w);        /* frees w */
/* Remove what writers of path left that were killed; those still at work hold a lock.
 * What cannot be removed stays: the only error is SR1_E_NOMEM. */
sr1_status sr1__file_clean(const char *path);

/* Read-only map. An empty file gives data = "", size 0. */
struct sr1__map {
    const unsigned char *data;
    size_t size;
};
sr1_status sr1__map_open(struct sr1__map *out, const char *path);
void sr1__map_close(struct sr1__map *m); /* zeroes *m; a closed map is fine */

sr1_status sr1__dir_make(const char *path); /* with parents; existing is fine */
/* The whole tree; missing is fine; never follows links. */
sr1_status sr1__dir_remove(const char *path);
/* Names in a folder, sorted, without . and ..; free each and the array with sr1__free. */
sr1_status sr1__dir_list(const char *path, char ***names, size_t *count);
int sr1__path_exists(const char *path);
int sr1__path_is_dir(const char *path);
/* "a/b" from "a" and "b"; an absolute b stays. Caller frees with sr1__free; NULL: no
 * memory. */
char *sr1__path_join(const char *a, const char *b);
/* rename + fsync of the parent */
sr1_status sr1__rename_dir(const char *from, const char *to);

#endif
