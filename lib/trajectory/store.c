/* trajectory/store.c - trajectories beyond a number of bytes lie encoded in a file.
 *
 * The file has no name from the moment it is open, so the system takes it back when the
 * process ends, however it ends. Records are only appended: a failed write leaves what
 * was there. An update writes the record again; clear gives all space back. */
#include "trajectory/store.h"

#include "base/file.h"
#include "base/mem.h"
#include "trajectory/trajectory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    sr1_trajectory *t; /* NULL: on disk */
    size_t memory;     /* of t */
    uint64_t offset;   /* of the record */
    size_t size;
    size_t packed;
    size_t policy;
    uint64_t group;
};

struct sr1__trajectory_store {
    struct entry *entries;
    size_t count;
    size_t cap;
    size_t n_spilled;
    int64_t memory;
    int64_t max_bytes;
    char *folder; /* NULL: memory is not bounded */
    int fd;       /* -1 until needed */
    uint64_t end; /* of the records */
};

sr1_status sr1__trajectory_store_new(struct sr1__trajectory_store **out,
                                     int64_t max_bytes, const char *folder)
{
    struct sr1__trajectory_store *s;

    if (max_bytes < 0)
        return sr1__fail(SR1_E_INVALID, "trajectory_memory: %lld is below 0",
                         (long long)max_bytes);
    s = sr1__calloc(1, sizeof *s);
    if (!s)
        return sr1__fail_nomem("trajectory store");
    s->fd = -1;
    s->max_bytes = max_bytes;
    s->folder = folder ? sr1__strdup(folder) : NULL;
    if (folder && !s->folder) {
        sr1__free(s);
        return sr1__fail_nomem("trajectory store");
    }
    *out = s;
    return SR1_OK;
}

static void drop_all(struct sr1__trajectory_store *s)
{
    for (size_t i = 0; i < s->count; i++)
        sr1_trajectory_free(s->entries[i].t);
    s->count = 0;
    s->n_spilled = 0;
    s->memory = 0;
    s->end = 0;
}

void sr1__trajectory_store_free(struct sr1__trajectory_store *s)
{
    if (!s)
        return;
    drop_all(s);
    if (s->fd >= 0)
        close(s->fd);
    sr1__free(s->entries);
    sr1__free(s->folder);
    sr1__free(s);
}

/* ---- the file ---- */

/* Not every file system can make a file without a name; then it loses its name at once.
 */
static int open_nameless(const char *folder)
{
    char *path;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    path = sr1__path_join(folder, "trajectories-XXXXXX");
    if (!path) {
        errno = ENOMEM;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    sr1__free(path);
    return fd;
}

static sr1_status need_file(struct sr1__trajectory_store *s)
{
    if (s->fd >= 0)
        return SR1_OK;
    s->fd = open_nameless(s->folder);
    if (s->fd < 0)
        return sr1__fail_errno("make a file for trajectories in", s->folder);
    return SR1_OK;
}

static sr1_status write_at(const struct sr1__trajectory_store *s, const char *bytes,
                           size_t n, uint64_t offset)
{
    while (n > 0) {
        ssize_t done = pwrite(s->fd, bytes, n, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return sr1__fail_errno("write trajectories in", s->folder);
        bytes += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return SR1_OK;
}

static sr1_status read_at(const struct sr1__trajectory_store *s, char *bytes, size_t n,
                          uint64_t offset)
{
    while (n > 0) {
        ssize_t done = pread(s->fd, bytes, n, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sr1__fail_errno("read trajectories in", s->folder);
        if (done == 0)
            return sr1__fail(SR1_E_CORRUPT, "trajectories in %s: the file ends early",
                             s->folder);
        bytes += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return SR1_OK;
}

/* ---- entries ---- */

static sr1_status spill(struct sr1__trajectory_store *s, const sr1_trajectory *t,
                        struct entry *e)
{
    void *bytes = NULL;
    size_t n = 0;
    sr1_status status;

    SR1__TRY(need_file(s));
    SR1__TRY(sr1_trajectory_encode(t, &bytes, &n));
    status = write_at(s, bytes, n, s->end);
    sr1_free(bytes);
    SR1__TRY(status);
    e->offset = s->end;
    e->size = n;
    s->end += n;
    return SR1_OK;
}

/* The entry for t, kept in memory if the bytes of the others leave room. */
static sr1_status make_entry(struct sr1__trajectory_store *s, sr1_trajectory *t,
                             int64_t others, struct entry *out)
{
    struct entry e = {0};

    e.packed = sr1__trajectory_packed_length(t);
    e.policy = sr1__trajectory_trainable(t);
    e.group = sr1_trajectory_group_key(t);
    e.memory = sr1__trajectory_memory(t);
    if (s->folder && (int64_t)e.memory > s->max_bytes - others) {
        SR1__TRY(spill(s, t, &e));
        e.memory = 0;
    } else {
        e.t = sr1_trajectory_retain(t);
    }
    *out = e;
    return SR1_OK;
}

static sr1_status room_for_entry(struct sr1__trajectory_store *s)
{
    size_t cap = s->cap ? 2 * s->cap : 16;
    struct entry *p;

    if (s->count < s->cap)
        return SR1_OK;
    p = sr1__realloc(s->entries, cap, sizeof *p);
    if (!p)
        return sr1__fail_nomem("trajectory store");
    s->entries = p;
    s->cap = cap;
    return SR1_OK;
}

static sr1_status check_index(const struct sr1__trajectory_store *s, size_t i)
{
    if (i >= s->count)
        return sr1__fail(SR1_E_INVALID, "trajectory %zu: out of range, there are %zu", i,
                         s->count);
    return SR1_OK;
}

sr1_status sr1__trajectory_store_add(struct sr1__trajectory_store *s, sr1_trajectory *t)
{
    struct entry *e;

    SR1__TRY(room_for_entry(s));
    e = &s->entries[s->count];
    SR1__TRY(make_entry(s, t, s->memory, e));
    s->count++;
    s->memory += (int64_t)e->memory;
    s->n_spilled += e->t == NULL;
    return SR1_OK;
}

sr1_status sr1__trajectory_store_update(struct sr1__trajectory_store *s, size_t i,
                                        sr1_trajectory *t)
{
    struct entry *e, old;

    SR1__TRY(check_index(s, i));
    e = &s->entries[i];
    old = *e;
    SR1__TRY(make_entry(s, t, s->memory - (int64_t)old.memory, e));
    s->memory += (int64_t)e->memory - (int64_t)old.memory;
    s->n_spilled = s->n_spilled + (e->t == NULL) - (old.t == NULL);
    sr1_trajectory_free(old.t);
    return SR1_OK;
}

static sr1_status read_back(const struct sr1__trajectory_store *s, const struct entry *e,
                            sr1_trajectory **out)
{
    char *bytes = sr1__malloc(e->size);
    sr1_status status;

    if (!bytes)
        return sr1__fail_nomem("trajectory record");
    status = read_at(s, bytes, e->size, e->offset);
    if (status == SR1_OK)
        status = sr1_trajectory_decode(out, bytes, e->size);
    sr1__free(bytes);
    return status;
}

sr1_status sr1__trajectory_store_get(struct sr1__trajectory_store *s, size_t i,
                                     sr1_trajectory **out)
{
    SR1__TRY(check_index(s, i));
    if (!s->entries[i].t)
        return sr1__context(read_back(s, &s->entries[i], out), "trajectory %zu", i);
    *out = sr1_trajectory_retain(s->entries[i].t);
    return SR1_OK;
}

void sr1__trajectory_store_lengths(const struct sr1__trajectory_store *s, size_t i,
                                   size_t *packed, size_t *policy)
{
    *packed = s->entries[i].packed;
    *policy = s->entries[i].policy;
}

uint64_t sr1__trajectory_store_group(const struct sr1__trajectory_store *s, size_t i)
{
    return s->entries[i].group;
}

size_t sr1__trajectory_store_count(const struct sr1__trajectory_store *s)
{
    return s->count;
}

size_t sr1__trajectory_store_spilled(const struct sr1__trajectory_store *s)
{
    return s->n_spilled;
}

int64_t sr1__trajectory_store_memory(const struct sr1__trajectory_store *s)
{
    return s->memory;
}

sr1_status sr1__trajectory_store_clear(struct sr1__trajectory_store *s)
{
    drop_all(s);
    if (s->fd >= 0 && ftruncate(s->fd, 0) != 0)
        return sr1__fail_errno("empty the file for trajectories in", s->folder);
    return SR1_OK;
}
