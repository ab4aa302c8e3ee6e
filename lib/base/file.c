/* base/file.c - whole files, atomic replacement, memory maps, folders.
 *
 * A file is replaced by writing a temporary one beside it, making it durable, and
 * renaming: at every moment the path names either the old bytes or all of the new ones.
 */
#include "base/file.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/map_watch.h"
#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_BUFFER ((size_t)1 << 16)

/* Open a regular file for reading and tell its size. The file stays closed on failure. */
static sr1_status open_regular(const char *path, int *fd, size_t *size)
{
    struct stat st;
    int f;

    /* O_NONBLOCK: opening a pipe nobody writes to must not hang; regular files ignore it.
     */
    f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0)
        return sr1__fail_errno("open", path);
    if (fstat(f, &st) != 0) {
        sr1_status status = sr1__fail_errno("open", path);

        close(f);
        return status;
    }
    if (!S_ISREG(st.st_mode)) {
        close(f);
        return sr1__fail(SR1_E_IO, "cannot open %s: it is %s, not a file", path,
                         S_ISDIR(st.st_mode) ? "a folder" : "a special file");
    }
    *fd = f;
    *size = (size_t)st.st_size;
    return SR1_OK;
}

static sr1_status read_whole_file(int fd, const char *path, struct sr1__buf *b)
{
    char chunk[16384];

    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sr1__fail_errno("read", path);
        if (n == 0)
            return SR1_OK;
        sr1__buf_add(b, chunk, (size_t)n);
        SR1__TRY(sr1__buf_status(b, path));
    }
}

sr1_status sr1__file_read(const char *path, size_t max, struct sr1__buf *out)
{
    struct sr1__buf b;
    size_t size;
    int fd;
    sr1_status status;

    sr1__buf_init(out, max);
    sr1__buf_init(&b, max);
    SR1__TRY(open_regular(path, &fd, &size));
    if (size > b.max)
        status = sr1__fail(SR1_E_LIMIT, "%s: %zu bytes are more than the %zu allowed",
                           path, size, b.max);
    else
        status = read_whole_file(fd, path, &b);
    close(fd);
    if (status != SR1_OK)
        sr1__buf_free(&b);
    else
        *out = b;
    return status;
}

struct sr1__file_writer {
    char *path;
    char *target; /* path, or the file that it is a link to */
    char *folder; /* of target */
    char *temporary;
    int fd;
    uint64_t offset; /* bytes added so far, those still in pending included */
    size_t n_pending;
    char pending[WRITE_BUFFER];
};

static void free_file_writer(struct sr1__file_writer *w)
{
    sr1__free(w->temporary);
    sr1__free(w->folder);
    sr1__free(w->target);
    sr1__free(w->path);
    sr1__free(w);
}

static char *copy_parent_dir(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return sr1__strdup(".");
    return sr1__strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* A name beside path that no other writer of this or another process uses. */
static char *temporary_name(const char *path)
{
    static atomic_uint counter;
    struct sr1__buf b;
    char *name;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s.tmp-%ld-%u", path, (long)getpid(),
                 atomic_fetch_add(&counter, 1));
    name = sr1__buf_take(&b);
    sr1__buf_free(&b);
    return name;
}

/* Lock a new file, as a sign that somebody writes it. A cleaner may have come between its
 * making and its lock, and have taken it for a leftover; 0 then. */
static int lock_new(int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK; /* without locks nobody cleans either */
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

/* temporary stays NULL until there is a file of ours of that name. */
static sr1_status open_temporary(struct sr1__file_writer *w)
{
    sr1_status status = SR1_OK;

    for (;;) {
        w->temporary = temporary_name(w->target);
        SR1__CHECK_ALLOC(w->temporary, "file writer");
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0 && lock_new(w->fd))
            return SR1_OK;
        if (w->fd < 0)
            status = sr1__fail_errno("write", w->path);
        else
            close(w->fd);
        w->fd = -1;
        sr1__free(w->temporary);
        w->temporary = NULL;
        SR1__TRY(status);
    }
}

/* The file that is written in the end: a link stays, and what it leads to is replaced. */
static char *follow_link(const char *path)
{
    char real[PATH_MAX];
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
        return sr1__strdup(real);
    return sr1__strdup(path);
}

/* The new file is for those whom the old one was for. Where its group cannot be kept,
 * another one has the rights of all others, which its members had before. Where neither
 * owner nor mode can be set (FAT, shares), they mostly are what they were. */
static sr1_status keep_rights(const struct sr1__file_writer *w, const struct stat *old)
{
    mode_t mode = old->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
    struct stat now;

    if (fchown(w->fd, old->st_uid, old->st_gid) != 0)
        (void)!fchown(w->fd, (uid_t)-1, old->st_gid);
    if (fstat(w->fd, &now) != 0)
        return sr1__fail_errno("write", w->path);
    if (now.st_gid != old->st_gid)
        mode = (mode & ~(mode_t)S_IRWXG) | (mode & S_IRWXO) << 3;
    if ((now.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) == mode)
        return SR1_OK;
    return fchmod(w->fd, mode) == 0 ? SR1_OK : sr1__fail_errno("write", w->path);
}

static sr1_status begin_file(struct sr1__file_writer *w)
{
    struct stat old;
    int there;

    SR1__CHECK_ALLOC(w->path && w->target, "file writer");
    there = stat(w->target, &old) == 0;
    if (there && !S_ISREG(old.st_mode))
        return sr1__fail(SR1_E_IO, "cannot write %s: it is %s, not a file", w->path,
                         S_ISDIR(old.st_mode) ? "a folder" : "a special file");
    w->folder = copy_parent_dir(w->target);
    SR1__CHECK_ALLOC(w->folder, "file writer");
    SR1__TRY(open_temporary(w));
    return there ? keep_rights(w, &old) : SR1_OK;
}

sr1_status sr1__file_writer_open(struct sr1__file_writer **out, const char *path)
{
    struct sr1__file_writer *w = sr1__malloc(sizeof *w);

    SR1__CHECK_ALLOC(w, "file writer");
    w->fd = -1;
    w->offset = 0;
    w->n_pending = 0;
    w->temporary = w->folder = NULL;
    w->path = sr1__strdup(path);
    w->target = follow_link(path);
    SR1__RETURN_NEW(out, w, begin_file(w), sr1__file_writer_abort);
}

static sr1_status write_all_bytes(int fd, const char *path, const char *p, size_t n)
{
    return sr1__write_all(fd, p, n) == 0 ? SR1_OK : sr1__fail_errno("write", path);
}

static sr1_status flush_pending(struct sr1__file_writer *w)
{
    size_t n = w->n_pending;

    w->n_pending = 0;
    return write_all_bytes(w->fd, w->path, w->pending, n);
}

sr1_status sr1__file_writer_add(struct sr1__file_writer *w, const void *bytes, size_t n)
{
    w->offset += n;
    if (n > WRITE_BUFFER - w->n_pending)
        SR1__TRY(flush_pending(w));
    if (n >= WRITE_BUFFER)
        return write_all_bytes(w->fd, w->path, bytes, n);
    if (n)
        memcpy(w->pending + w->n_pending, bytes, n);
    w->n_pending += n;
    return SR1_OK;
}

uint64_t sr1__file_writer_offset(const struct sr1__file_writer *w)
{
    return w->offset;
}

/* Some file systems cannot sync a folder, and one that may be written but not read cannot
 * be opened for it; then there is nothing more to do. */
sr1_status sr1__dir_sync(const char *folder)
{
    sr1_status status = SR1_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == EACCES)
        return SR1_OK;
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP))
        status = sr1__fail_errno("sync folder", folder);
    if (fd >= 0)
        close(fd);
    return status;
}

sr1_status sr1__file_writer_commit(struct sr1__file_writer *w)
{
    sr1_status status = flush_pending(w);

    if (status == SR1_OK && fsync(w->fd) != 0)
        status = sr1__fail_errno("write", w->path);
    if (close(w->fd) != 0 && status == SR1_OK)
        status = sr1__fail_errno("write", w->path);
    w->fd = -1;
    if (status == SR1_OK && rename(w->temporary, w->target) != 0)
        status = sr1__fail_errno("replace", w->path);
    if (status != SR1_OK) {
        sr1__file_writer_abort(w);
        return status;
    }
    status = sr1__dir_sync(w->folder);
    free_file_writer(w);
    return status;
}

void sr1__file_writer_abort(struct sr1__file_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temporary)
        unlink(w->temporary);
    free_file_writer(w);
}

sr1_status sr1__file_replace(const char *path, const void *bytes, size_t n)
{
    struct sr1__file_writer *w = NULL;
    sr1_status status;

    SR1__TRY(sr1__file_writer_open(&w, path));
    status = sr1__file_writer_add(w, bytes, n);
    if (status != SR1_OK) {
        sr1__file_writer_abort(w);
        return status;
    }
    return sr1__file_writer_commit(w);
}

sr1_status sr1__map_open_fd(struct sr1__map *out, const char *path, int *fd)
{
    struct sr1__map m = {(const unsigned char *)"", 0, NULL};
    sr1_status status;

    SR1__TRY(open_regular(path, fd, &m.size));
    if (m.size > 0) {
        void *data = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, *fd, 0);

        if (data == MAP_FAILED) {
            status = sr1__fail_errno("map", path);
            close(*fd);
            return status;
        }
        m.data = data;
    }
    *out = m;
    return SR1_OK;
}

sr1_status sr1__map_open(struct sr1__map *out, const char *path)
{
    int fd = -1;

    SR1__TRY(sr1__map_open_fd(out, path, &fd));
    close(fd);
    return SR1_OK;
}

void sr1__map_close(struct sr1__map *m)
{
    sr1__map_unwatch(m);
    if (m->size > 0)
        munmap((void *)(uintptr_t)m->data, m->size);
    m->data = NULL;
    m->size = 0;
}

sr1_status sr1__file_end_hash(const char *path, uint64_t end, uint64_t *hash)
{
    struct sr1__map m;
    size_t n, last;

    SR1__TRY(sr1__map_open(&m, path));
    n = end < m.size ? (size_t)end : m.size;
    last = n < 4096 ? n : 4096;
    *hash = sr1__hash64(m.data + n - last, last, n);
    sr1__map_close(&m);
    return SR1_OK;
}

void sr1__map_forget(const void *data, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + n) / page * page;

    if (begin < end) /* only advice */
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

int sr1__path_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

int sr1__dir_has(const char *folder, const char *name)
{
    char *path = sr1__path_join(folder, name);
    int has = path && sr1__path_exists(path);

    sr1__free(path);
    return has;
}

int sr1__path_is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

struct sr1__path_id sr1__path_id(const char *path)
{
    struct sr1__path_id id = {0};
    struct stat st;

    if (stat(path, &st) == 0) {
        id.device = (uint64_t)st.st_dev;
        id.number = (uint64_t)st.st_ino;
    }
    return id;
}

int sr1__path_is(const char *path, struct sr1__path_id id)
{
    struct sr1__path_id now = sr1__path_id(path);

    return now.device == id.device && now.number == id.number;
}

int sr1__path_same(const char *a, const char *b)
{
    struct sr1__path_id id = sr1__path_id(a);

    return id.number != 0 && sr1__path_is(b, id);
}

sr1_status sr1__path_distinct(const char *input, const char *to)
{
    if (!sr1__path_same(input, to))
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "%s is the same file as the input %s; name another file to write",
                     to, input);
}

char *sr1__path_join(const char *a, const char *b)
{
    struct sr1__buf buf;
    char *joined;

    sr1__buf_init(&buf, 0);
    if (b[0] != '/' && a[0] != '\0') {
        sr1__buf_str(&buf, a);
        if (a[strlen(a) - 1] != '/')
            sr1__buf_char(&buf, '/');
    }
    sr1__buf_str(&buf, b);
    joined = sr1__buf_take(&buf);
    sr1__buf_free(&buf);
    return joined;
}

/* If the folder does not exist afterwards, report mkdir's errno, not the check's. */
static sr1_status make_one_dir(const char *path)
{
    int reason;

    if (mkdir(path, 0777) == 0)
        return SR1_OK;
    reason = errno;
    if (sr1__path_is_dir(path))
        return SR1_OK;
    errno = reason;
    return sr1__fail_errno("make folder", path);
}

sr1_status sr1__dir_make(const char *path)
{
    char *p = sr1__strdup(path);
    sr1_status status = SR1_OK;

    SR1__CHECK_ALLOC(p, "folder name");
    for (char *slash = p;;) {
        slash = strchr(slash + (*slash != '\0'), '/');
        if (slash)
            *slash = '\0';
        status = make_one_dir(p);
        if (status != SR1_OK)
            break;
        if (!slash)
            break;
        *slash = '/';
    }
    sr1__free(p);
    return status;
}

/* An entry that somebody else has removed meanwhile is gone, as it should be. A folder
 * that cannot be read may be empty. */
static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    if (remove(path) == 0 || errno == ENOENT)
        return 0;
    if (type == FTW_DNR)
        errno = EACCES;
    return -1;
}

sr1_status sr1__file_remove(const char *folder, const char *name)
{
    char *path = sr1__path_join(folder, name);
    sr1_status status = SR1_OK;

    SR1__CHECK_ALLOC(path, "file name");
    if (unlink(path) != 0 && errno != ENOENT)
        status = sr1__fail_errno("remove", path);
    sr1__free(path);
    return status;
}

sr1_status sr1__dir_remove(const char *path)
{
    struct stat st;
    int left = 100; /* walks that a folder ended by vanishing under them */

    while (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        if (errno != ENOENT)
            return sr1__fail_errno("remove", path);
        if (lstat(path, &st) != 0)
            return SR1_OK;
        if (--left == 0)
            return sr1__fail(SR1_E_IO, "cannot remove %s: its entries come and go", path);
    }
    return SR1_OK;
}

void sr1__dir_list_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sr1__free(names[i]);
    sr1__free(names);
}

static int compare_file_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Append one name; on failure the array is still the caller's. */
static sr1_status append_file_name(char ***names, size_t *n, size_t *cap,
                                   const char *name)
{
    SR1__RESERVE(*names, *cap, *n + 1, "folder listing");
    (*names)[*n] = sr1__strdup(name);
    SR1__CHECK_ALLOC((*names)[*n], "folder listing");
    ++*n;
    return SR1_OK;
}

sr1_status sr1__dir_list(const char *path, char ***names, size_t *count)
{
    DIR *d = opendir(path);
    char **list = NULL;
    size_t n = 0, cap = 0;
    sr1_status status = SR1_OK;
    struct dirent *e;

    if (!d)
        return sr1__fail_errno("open folder", path);
    for (errno = 0; status == SR1_OK && (e = readdir(d)) != NULL; errno = 0) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = append_file_name(&list, &n, &cap, e->d_name);
    }
    if (status == SR1_OK && errno != 0)
        status = sr1__fail_errno("read folder", path);
    closedir(d);
    if (status != SR1_OK) {
        sr1__dir_list_free(list, n);
        return status;
    }
    if (n)
        qsort(list, n, sizeof *list, compare_file_names);
    *names = list;
    *count = n;
    return SR1_OK;
}

/* Make the name of a folder durable. */
static sr1_status sync_parent_dir(const char *path)
{
    char *folder = copy_parent_dir(path);
    sr1_status status;

    SR1__CHECK_ALLOC(folder, "folder name");
    status = sr1__dir_sync(folder);
    sr1__free(folder);
    return status;
}

sr1_status sr1__rename_dir(const char *from, const char *to)
{
    return rename(from, to) == 0 ? sync_parent_dir(to)
                                 : sr1__fail_errno("rename folder to", to);
}

sr1_status sr1__replace_dir(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) != 0) {
        if (sr1__path_exists(from))
            SR1__TRY(sr1__dir_remove(to));
        return sr1__rename_dir(from, to);
    }
    SR1__TRY(sync_parent_dir(to));
    return sr1__dir_remove(from);
}

/* ---- copies ---- */

sr1_status sr1__file_copy(const char *from, const char *to)
{
    struct sr1__map map;
    sr1_status status;

    SR1__TRY(sr1__map_open_watched(&map, from, 0));
    status = sr1__map_blame(&map, sr1__file_replace(to, map.data, map.size));
    sr1__map_close(&map);
    return status;
}

sr1_status sr1__dir_pair_files(const char *from, const char *to,
                               sr1_status (*fn)(const char *from, const char *to))
{
    char **names = NULL;
    size_t n = 0;
    sr1_status status = sr1__dir_list(from, &names, &n);

    for (size_t i = 0; i < n && status == SR1_OK; i++) {
        char *a, *b;

        if (sr1__file_is_temporary(names[i]))
            continue;
        a = sr1__path_join(from, names[i]);
        b = sr1__path_join(to, names[i]);
        status = a && b ? fn(a, b) : sr1__fail_nomem("path");
        sr1__free(a);
        sr1__free(b);
    }
    sr1__dir_list_free(names, n);
    return status;
}

/* ---- leftovers ---- */

/* Remove a temporary file unless somebody has locked it. */
static void remove_unlocked(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlink(path);
    close(fd);
}

/* Behind the digits that it begins with; NULL: it begins with none. */
static const char *skip_digits(const char *text)
{
    size_t n = strspn(text, "0123456789");

    return n > 0 ? text + n : NULL;
}

/* Where the end of a temporary name begins: ".tmp-", digits of the process, '-', 's' of a
 * spool or nothing, digits; NULL: it is none. */
static const char *find_temporary_end(const char *name)
{
    const char *mark = NULL, *rest;

    for (const char *at = name; (at = strstr(at, ".tmp-")); at++)
        mark = at;
    rest = mark ? skip_digits(mark + strlen(".tmp-")) : NULL;
    if (!rest || *rest++ != '-')
        return NULL;
    rest = skip_digits(*rest == 's' ? rest + 1 : rest);
    return rest && *rest == '\0' ? mark : NULL;
}

int sr1__file_is_temporary(const char *name)
{
    return find_temporary_end(name) != NULL;
}

static int is_leftover(const char *name, const char *base)
{
    const char *end = find_temporary_end(name);

    return end && (size_t)(end - name) == strlen(base) &&
           strncmp(name, base, strlen(base)) == 0;
}

sr1_status sr1__file_clean(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *parent = copy_parent_dir(path);
    char **names = NULL;
    size_t n = 0;
    sr1_status status;

    SR1__CHECK_ALLOC(parent, "folder name");
    status = sr1__dir_list(parent, &names, &n);
    if (status != SR1_OK && status != SR1_E_NOMEM)
        status = SR1_OK; /* a folder that cannot be read: the writer will say so */
    for (size_t i = 0; status == SR1_OK && i < n; i++) {
        char *full;

        if (!is_leftover(names[i], slash ? slash + 1 : path))
            continue;
        full = sr1__path_join(parent, names[i]);
        if (full)
            remove_unlocked(full);
        else
            status = sr1__fail_nomem("file name");
        sr1__free(full);
    }
    sr1__dir_list_free(names, n);
    sr1__free(parent);
    return status;
}
