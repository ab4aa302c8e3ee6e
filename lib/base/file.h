/* base/file.h - whole files, atomic replacement, memory maps, folders. */
#ifndef SR1__BASE_FILE_H
#define SR1__BASE_FILE_H

#include "base/buf.h"

/* Read a regular file of at most max bytes (0: SR1__BUF_DEFAULT_MAX) into *out, which is
 * initialised here; free with sr1__buf_free. */
sr1_status sr1__file_read(const char *path, size_t max, struct sr1__buf *out);

/* Replace path by these bytes: temporary file beside it, fsync, rename, fsync of the
 * folder. After a failure no temporary file is left, and the old file is unchanged unless
 * it was the last step that failed: then the new one is there, if not yet for good. The
 * new file has the mode of the old one (as root its owner and group too), and a symbolic
 * link to a file stays one: the file is replaced. A folder, pipe or device is none. */
sr1_status sr1__file_replace(const char *path, const void *bytes, size_t n);

/* The same in pieces, for big files. abort on a NULL writer does nothing. */
struct sr1__file_writer;
sr1_status sr1__file_writer_open(struct sr1__file_writer **out, const char *path);
sr1_status sr1__file_writer_add(struct sr1__file_writer *w, const void *bytes, size_t n);
uint64_t sr1__file_writer_offset(const struct sr1__file_writer *w);
sr1_status sr1__file_writer_commit(struct sr1__file_writer *w); /* frees w in any case */
void sr1__file_writer_abort(struct sr1__file_writer *w);        /* frees w */
/* Remove temporary files that killed writers of path left; running writers hold a lock on
 * theirs. A file that cannot be removed stays: the only error is SR1_E_NOMEM. */
sr1_status sr1__file_clean(const char *path);
/* Is it the name of a temporary file of some writer's? */
int sr1__file_is_temporary(const char *name);

/* Read-only map. An empty file gives data = "", size 0. */
struct sr1__map {
    const unsigned char *data;
    size_t size;
    struct sr1__map_watch *watch; /* map_watch.h; NULL: none */
};
sr1_status sr1__map_open(struct sr1__map *out, const char *path);
/* The same; *fd is the file, which the caller closes. */
sr1_status sr1__map_open_fd(struct sr1__map *out, const char *path, int *fd);
void sr1__map_close(struct sr1__map *m); /* zeroes *m; a closed map is fine */
/* n bytes of a map have been read: their pages are no longer counted as the process's,
 * and come back when they are touched. */
void sr1__map_forget(const void *data, size_t n);

/* A hash of the last bytes, 4,096 at most, before `end` of a file, and of how many come
 * before them; UINT64_MAX: before its end. */
sr1_status sr1__file_end_hash(const char *path, uint64_t end, uint64_t *hash);

sr1_status sr1__dir_make(const char *path); /* with parents; existing is fine */
/* The whole tree; missing is fine; never follows links. */
sr1_status sr1__dir_remove(const char *path);
/* Remove folder/name if it is there. */
sr1_status sr1__file_remove(const char *folder, const char *name);
/* Names in a folder, sorted, but for . and .. */
sr1_status sr1__dir_list(const char *path, char ***names, size_t *count);
void sr1__dir_list_free(char **names, size_t count); /* NULL is fine with 0 */
int sr1__path_exists(const char *path);
int sr1__path_is_dir(const char *path);
int sr1__path_same(const char *a, const char *b); /* one file or folder, by any links */
/* What a path leads to, whatever else is later put at that path; all 0: nothing. */
struct sr1__path_id {
    uint64_t device, number;
};
struct sr1__path_id sr1__path_id(const char *path);
int sr1__path_is(const char *path, struct sr1__path_id id); /* does it lead there yet? */
int sr1__dir_has(const char *folder, const char *name);     /* 0 without memory too */
/* SR1_E_INVALID where both names lead to one file: writing `to` would replace the input.
 */
sr1_status sr1__path_distinct(const char *input, const char *to);
/* "a/b" from "a" and "b"; an absolute b stays. Caller frees with sr1__free; NULL: no
 * memory. */
char *sr1__path_join(const char *a, const char *b);
/* Write a copy of a file, which replaces what is at `to`. */
sr1_status sr1__file_copy(const char *from, const char *to);
/* Give each file of a folder but temporary ones to fn, with its path there and the one
 * that it would have in the folder `to`; the first failure ends it. */
sr1_status sr1__dir_pair_files(const char *from, const char *to,
                               sr1_status (*fn)(const char *from, const char *to));
/* Make the names in a folder durable. */
sr1_status sr1__dir_sync(const char *path);
/* rename + fsync of the parent */
sr1_status sr1__rename_dir(const char *from, const char *to);
/* The same where `to` may be a folder, which goes: at each moment one of both is there
 * under that name, where the file system exchanges names (all of Linux's own do). */
sr1_status sr1__replace_dir(const char *from, const char *to);

#endif
