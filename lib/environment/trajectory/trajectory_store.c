/* environment/trajectory/trajectory_store.c - a store of trajectories; beyond a number of
 * bytes they are encoded in a file.
 *
 * The file is unlinked as soon as it is open, so the system frees it when the process
 * ends, however it ends. Records are only appended: a failed write leaves earlier records
 * intact. */
#include "environment/trajectory/trajectory_store.h"

#include <searchr1/ext/trajectory_details.h>

#include "base/file.h"
#include "base/io.h"
#include "base/mem.h"
#include "environment/trajectory/trajectory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct store_entry {
    sr1_trajectory *t; /* NULL: on disk */
    size_t memory;     /* of t */
    uint64_t offset;   /* of the record */
    size_t size;
    size_t packed;
    size_t policy;
    size_t prompt;
    int32_t zero_advantage;
    uint64_t group;
};

struct sr1__trajectory_store {
    struct store_entry *entries;
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
    SR1__CALLOC(s, 1, "trajectory store");
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

void sr1__trajectory_store_free(struct sr1__trajectory_store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        sr1_trajectory_free(s->entries[i].t);
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

static sr1_status read_file_at(const struct sr1__trajectory_store *s, char *bytes,
                               size_t n, uint64_t offset)
{
    ssize_t done = sr1__pread_all(s->fd, bytes, n, offset);

    if (done < 0)
        return sr1__fail_errno("read trajectories in", s->folder);
    if ((size_t)done < n)
        return sr1__fail(SR1_E_CORRUPT, "trajectories in %s: the file ends early",
                         s->folder);
    return SR1_OK;
}

/* ---- entries ---- */

static sr1_status spill_trajectory(struct sr1__trajectory_store *s,
                                   const sr1_trajectory *t, struct store_entry *e)
{
    void *bytes = NULL;
    size_t n = 0;
    sr1_status status;

    SR1__TRY(need_file(s));
    SR1__TRY(sr1_trajectory_encode(t, &bytes, &n));
    status = sr1__pwrite_all(s->fd, bytes, n, s->end) == 0
                 ? SR1_OK
                 : sr1__fail_errno("write trajectories in", s->folder);
    sr1_free(bytes);
    SR1__TRY(status);
    e->offset = s->end;
    e->size = n;
    s->end += n;
    return SR1_OK;
}

/* Bytes that t adds to those held; a group's row is held once. */
static size_t memory_beside(const struct sr1__trajectory_store *s,
                            const sr1_trajectory *t)
{
    const sr1_trajectory *before = s->count ? s->entries[s->count - 1].t : NULL;

    return sr1__trajectory_memory(t) - sr1__trajectory_shared_memory(t, before);
}

/* The entry for t, kept in memory if the bytes of the others leave room. */
static sr1_status make_entry(struct sr1__trajectory_store *s, sr1_trajectory *t,
                             struct store_entry *out)
{
    struct store_entry e = {0};

    e.packed = sr1__trajectory_packed_length(t);
    e.policy = sr1__trajectory_trainable(t);
    e.prompt = sr1_trajectory_prompt_count(t);
    e.zero_advantage = sr1__trajectory_has_zero_advantage(t);
    e.group = sr1_trajectory_group_key(t);
    e.memory = memory_beside(s, t);
    if (s->folder && (int64_t)e.memory > s->max_bytes - s->memory) {
        SR1__TRY(spill_trajectory(s, t, &e));
        e.memory = 0;
    } else {
        e.t = sr1_trajectory_retain(t);
    }
    *out = e;
    return SR1_OK;
}

static sr1_status check_store_index(const struct sr1__trajectory_store *s, size_t i)
{
    if (i >= s->count)
        return sr1__fail(SR1_E_INVALID, "trajectory %zu: out of range, there are %zu", i,
                         s->count);
    return SR1_OK;
}

sr1_status sr1__trajectory_store_add(struct sr1__trajectory_store *s, sr1_trajectory *t)
{
    struct store_entry *e;

    SR1__RESERVE(s->entries, s->cap, s->count + 1, "trajectory store");
    e = &s->entries[s->count];
    SR1__TRY(make_entry(s, t, e));
    s->count++;
    s->memory += (int64_t)e->memory;
    s->n_spilled += e->t == NULL;
    return SR1_OK;
}

static sr1_status read_back(const struct sr1__trajectory_store *s,
                            const struct store_entry *e, sr1_trajectory **out)
{
    char *bytes = sr1__malloc(e->size);
    sr1_status status;

    SR1__CHECK_ALLOC(bytes, "trajectory record");
    status = read_file_at(s, bytes, e->size, e->offset);
    if (status == SR1_OK)
        status = sr1_trajectory_decode(out, bytes, e->size);
    sr1__free(bytes);
    return status;
}

sr1_status sr1__trajectory_store_get(struct sr1__trajectory_store *s, size_t i,
                                     sr1_trajectory **out)
{
    SR1__TRY(check_store_index(s, i));
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

size_t sr1__trajectory_store_prompt(const struct sr1__trajectory_store *s, size_t i)
{
    return s->entries[i].prompt;
}

int32_t sr1__trajectory_store_zero_advantage(const struct sr1__trajectory_store *s,
                                             size_t i)
{
    return s->entries[i].zero_advantage;
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
