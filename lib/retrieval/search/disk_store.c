/* retrieval/search/disk_store.c - an append-only file of records, with an index in
 * memory.
 *
 *     record  = header payload
 *     header  = magic u32, payload length u32, key hash u64, time i64,
 *               payload hash u64, hash of the header so far u64     (little endian)
 *     payload = key length u32, key, value
 *
 * Every process reads what the others append when it next looks. Writers hold a lock on a
 * file beside it. When the file would grow beyond its bound, the newest records that fill
 * half of it are written to a new file that takes its place; the others notice by its
 * inode. A record that was cut short by a dead writer is cut off by the next one; other
 * damage is stepped over in search of the next whole header, and a payload is checked
 * when it is read. */
#include "retrieval/search/disk_store.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x63315253u /* "SR1c" */
#define HEADER ((size_t)40)
#define WINDOW ((size_t)1 << 16)

struct store_record {
    uint64_t key_hash;
    uint64_t offset; /* of the header */
    int64_t time;
    uint64_t payload_hash;
    uint32_t length; /* of the payload */
};

struct sr1__disk_store {
    pthread_mutex_t lock;
    char *path;
    int lock_fd;
    int fd;
    ino_t inode;
    uint64_t max_bytes;
    uint64_t scanned;           /* bytes of the file the index knows */
    int failing;                /* a warning said that answers are not kept */
    struct store_record *slots; /* open addressing; offset UINT64_MAX: free */
    size_t n_slots;             /* a power of two */
    size_t used;
    uint64_t salt; /* of places in slots: hashes in the file cannot choose them */
};

/* ---- the index ---- */

static struct store_record *find_record_slot(const struct sr1__disk_store *s,
                                             struct store_record *slots, size_t n,
                                             uint64_t key_hash)
{
    size_t at = (size_t)sr1__hash64(&key_hash, sizeof(key_hash), s->salt) & (n - 1);

    while (slots[at].offset != UINT64_MAX && slots[at].key_hash != key_hash)
        at = (at + 1) & (n - 1);
    return &slots[at];
}

static struct store_record *new_slots(size_t n)
{
    struct store_record *slots = sr1__calloc(n, sizeof(*slots));

    for (size_t i = 0; slots != NULL && i < n; i++)
        slots[i].offset = UINT64_MAX;
    return slots;
}

static int grow_record_slots(struct sr1__disk_store *s)
{
    size_t n = s->n_slots * 2;
    struct store_record *slots = new_slots(n);

    if (slots == NULL)
        return 0;
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].offset != UINT64_MAX)
            *find_record_slot(s, slots, n, s->slots[i].key_hash) = s->slots[i];
    sr1__free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    return 1;
}

/* When memory is short, the record is not indexed and will not be found. */
static void index_record(struct sr1__disk_store *s, const struct store_record *r)
{
    struct store_record *slot;

    if (4 * (s->used + 1) > 3 * s->n_slots && !grow_record_slots(s))
        return;
    slot = find_record_slot(s, s->slots, s->n_slots, r->key_hash);
    s->used += slot->offset == UINT64_MAX;
    *slot = *r;
}

static void forget_all(struct sr1__disk_store *s)
{
    for (size_t i = 0; i < s->n_slots; i++)
        s->slots[i].offset = UINT64_MAX;
    s->used = 0;
    s->scanned = 0;
}

/* ---- records ---- */

static int read_record_header(const unsigned char *bytes, uint64_t offset,
                              struct store_record *r)
{
    struct sr1__reader in;
    uint32_t magic;

    sr1__reader_init(&in, bytes, HEADER);
    magic = sr1__read_u32(&in);
    r->length = sr1__read_u32(&in);
    r->key_hash = sr1__read_u64(&in);
    r->time = (int64_t)sr1__read_u64(&in);
    r->payload_hash = sr1__read_u64(&in);
    r->offset = offset;
    return magic == MAGIC && sr1__read_u64(&in) == sr1__hash64(bytes, HEADER - 8, MAGIC);
}

static void write_record(struct sr1__buf *b, uint64_t key_hash, const void *key,
                         size_t key_len, const void *value, size_t value_len,
                         int64_t time)
{
    struct sr1__buf payload;

    sr1__buf_init(&payload, 0);
    sr1__buf_u32(&payload, (uint32_t)key_len);
    sr1__buf_add(&payload, key, key_len);
    sr1__buf_add(&payload, value, value_len);
    if (payload.status == SR1_OK) {
        sr1__buf_u32(b, MAGIC);
        sr1__buf_u32(b, (uint32_t)payload.len);
        sr1__buf_u64(b, key_hash);
        sr1__buf_u64(b, (uint64_t)time);
        sr1__buf_u64(b, sr1__hash64(payload.data, payload.len, MAGIC));
        if (b->status == SR1_OK)
            sr1__buf_u64(b, sr1__hash64(b->data, b->len, MAGIC));
        sr1__buf_add(b, payload.data, payload.len);
    }
    if (payload.status != SR1_OK)
        b->status = payload.status;
    sr1__buf_free(&payload);
}

/* Read exactly n bytes. A file that ends before them was cut meanwhile. */
static sr1_status read_store_at(const struct sr1__disk_store *s, void *bytes, size_t n,
                                uint64_t offset)
{
    char *p = bytes;

    while (n > 0) {
        ssize_t k = pread(s->fd, p, n, (off_t)offset);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return sr1__fail_errno("read", s->path);
        if (k == 0)
            return sr1__fail(SR1_E_IO, "%s was cut short meanwhile", s->path);
        p += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return SR1_OK;
}

/* ---- following the file ---- */

/* Find the next whole header after `from`: *at is its offset, or where the search can go
 * on when the file has grown. */
static sr1_status find_next_record(const struct sr1__disk_store *s, uint64_t from,
                                   uint64_t size, uint64_t *at)
{
    unsigned char *window = sr1__malloc(WINDOW);
    sr1_status status = window != NULL ? SR1_OK : sr1__fail_nomem("search cache");
    int found = 0;

    *at = from + 1;
    while (status == SR1_OK && !found && *at + HEADER <= size) {
        size_t n = size - *at < WINDOW ? (size_t)(size - *at) : WINDOW;
        struct store_record r;
        size_t i = 0;

        status = read_store_at(s, window, n, *at);
        while (status == SR1_OK && !found && i + HEADER <= n) {
            found = read_record_header(window + i, *at + i, &r);
            i += !found;
        }
        *at += i;
    }
    sr1__free(window);
    return status;
}

/* Index what lies behind s->scanned. Stops before a record that is not whole. A failure
 * to read is no damage: what lies behind may be whole. */
static sr1_status scan_records(struct sr1__disk_store *s, uint64_t size)
{
    unsigned char header[HEADER];
    struct store_record r;

    while (s->scanned + HEADER <= size) {
        uint64_t next;

        SR1__TRY(read_store_at(s, header, HEADER, s->scanned));
        if (!read_record_header(header, s->scanned, &r)) {
            SR1__TRY(find_next_record(s, s->scanned, size, &next));
            s->scanned = next;
            continue;
        }
        if (s->scanned + HEADER + r.length > size)
            return SR1_OK;
        index_record(s, &r);
        s->scanned += HEADER + r.length;
    }
    return SR1_OK;
}

static sr1_status reopen_store(struct sr1__disk_store *s)
{
    struct stat st;
    int fd = open(s->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

    if (fd < 0)
        return sr1__fail_errno("open", s->path);
    if (fstat(fd, &st) != 0) {
        close(fd);
        return sr1__fail_errno("look at", s->path);
    }
    if (s->fd >= 0)
        close(s->fd);
    s->fd = fd;
    s->inode = st.st_ino;
    forget_all(s);
    return SR1_OK;
}

/* A file without a record is one only where it may be the beginning of the first: it is
 * cut and appended to, and a file of another kind is not ours to change. */
static sr1_status check_is_store(const struct sr1__disk_store *s, uint64_t size)
{
    unsigned char found[sizeof(uint32_t)] = {0};
    size_t n = size < sizeof(found) ? (size_t)size : sizeof(found);
    struct sr1__buf magic;
    int same;

    if (s->used > 0 || size == 0)
        return SR1_OK;
    SR1__TRY(read_store_at(s, found, n, 0));
    sr1__buf_init(&magic, 0);
    sr1__buf_u32(&magic, MAGIC);
    SR1__TRY(sr1__buf_status(&magic, "search cache"));
    same = memcmp(magic.data, found, n) == 0;
    sr1__buf_free(&magic);
    return same ? SR1_OK
                : sr1__fail(SR1_E_CORRUPT,
                            "%s is no cache of answers; choose another folder", s->path);
}

/* See what others have done to the file. Gives its size. */
static sr1_status refresh_store(struct sr1__disk_store *s, uint64_t *size)
{
    struct stat st;

    if (s->fd < 0 || stat(s->path, &st) != 0 || st.st_ino != s->inode ||
        (uint64_t)st.st_size < s->scanned)
        SR1__TRY(reopen_store(s));
    if (fstat(s->fd, &st) != 0)
        return sr1__fail_errno("look at", s->path);
    *size = (uint64_t)st.st_size;
    SR1__TRY(scan_records(s, *size));
    return check_is_store(s, *size);
}

/* ---- writing ---- */

static int newest_first(const void *a, const void *b)
{
    const struct store_record *x = a, *y = b;

    if (x->time != y->time)
        return x->time > y->time ? -1 : 1;
    return x->offset > y->offset ? -1 : x->offset < y->offset;
}

/* A record that cannot be read is left behind. */
static sr1_status copy_records(const struct sr1__disk_store *s,
                               const struct store_record *records, size_t n,
                               struct sr1__file_writer *w)
{
    uint64_t room = s->max_bytes / 2;
    sr1_status status = SR1_OK;

    for (size_t i = 0; status == SR1_OK && i < n; i++) {
        size_t size = HEADER + records[i].length;
        char *bytes = size <= room ? sr1__malloc(size) : NULL;

        if (bytes == NULL)
            break;
        if (read_store_at(s, bytes, size, records[i].offset) == SR1_OK)
            status = sr1__file_writer_add(w, bytes, size);
        sr1__free(bytes);
        room -= size;
    }
    return status;
}

/* Put a file with the newest records in the place of this one. */
static sr1_status compact_store(struct sr1__disk_store *s)
{
    struct store_record *records = sr1__calloc(s->used + 1, sizeof(*records));
    struct sr1__file_writer *w = NULL;
    size_t n = 0;
    sr1_status status;

    if (records == NULL)
        return sr1__fail_nomem("search cache");
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].offset != UINT64_MAX)
            records[n++] = s->slots[i];
    qsort(records, n, sizeof(*records), newest_first);
    status = sr1__file_writer_open(&w, s->path);
    if (status == SR1_OK) {
        status = copy_records(s, records, n, w);
        if (status == SR1_OK)
            status = sr1__file_writer_commit(w);
        else
            sr1__file_writer_abort(w);
    }
    sr1__free(records);
    return status;
}

static sr1_status write_store(const struct sr1__disk_store *s, const char *bytes,
                              size_t n)
{
    while (n > 0) {
        ssize_t k = write(s->fd, bytes, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return sr1__fail_errno("write", s->path);
        bytes += k;
        n -= (size_t)k;
    }
    return SR1_OK;
}

/* Cut off what is not whole. */
static sr1_status cut_store(const struct sr1__disk_store *s)
{
    return ftruncate(s->fd, (off_t)s->scanned) == 0 ? SR1_OK
                                                    : sr1__fail_errno("cut", s->path);
}

/* With the lock on the folder held. */
static sr1_status append_record(struct sr1__disk_store *s, const struct sr1__buf *record)
{
    struct sr1__error written;
    uint64_t size = 0;
    sr1_status status;

    SR1__TRY(refresh_store(s, &size));
    if (size + record->len > s->max_bytes) {
        SR1__TRY(compact_store(s));
        SR1__TRY(refresh_store(s, &size));
    }
    if (s->scanned < size)
        SR1__TRY(cut_store(s));
    status = write_store(s, record->data, record->len);
    if (status == SR1_OK)
        return refresh_store(s, &size);
    sr1__error_save(&written, status);
    (void)cut_store(s); /* the next writer cuts it off too */
    return sr1__error_raise(&written);
}

static sr1_status append_locked(struct sr1__disk_store *s, const struct sr1__buf *record)
{
    sr1_status status;

    while (flock(s->lock_fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return sr1__fail_errno("lock", s->path);
    status = append_record(s, record);
    (void)flock(s->lock_fd, LOCK_UN);
    return status;
}

void sr1__disk_store_put(struct sr1__disk_store *s, const void *key, size_t key_len,
                         const void *value, size_t value_len, int64_t time)
{
    struct sr1__buf record;
    uint64_t hash = sr1__hash64(key, key_len, 0);
    int begins_to_fail = 0;

    sr1__buf_init(&record, 0);
    write_record(&record, hash, key, key_len, value, value_len, time);
    if (record.status == SR1_OK && record.len <= s->max_bytes / 4) {
        pthread_mutex_lock(&s->lock);
        if (append_locked(s, &record) == SR1_OK)
            s->failing = 0;
        else
            begins_to_fail = !s->failing++;
        pthread_mutex_unlock(&s->lock);
    }
    if (begins_to_fail)
        sr1__log(SR1_LOG_WARN, "search cache: answers are not kept: %.300s",
                 sr1_last_error());
    sr1__buf_free(&record);
}

/* ---- reading ---- */

/* The record's value when it is whole and of this key. */
static int read_record_value(const struct sr1__disk_store *s,
                             const struct store_record *r, const void *key,
                             size_t key_len, struct sr1__buf *value)
{
    char *payload = sr1__malloc((size_t)r->length + 1);
    struct sr1__reader in;
    const void *stored;
    int ok;

    if (payload == NULL)
        return 0;
    ok = read_store_at(s, payload, r->length, r->offset + HEADER) == SR1_OK &&
         sr1__hash64(payload, r->length, MAGIC) == r->payload_hash;
    sr1__reader_init(&in, payload, ok ? r->length : 0);
    stored = sr1__read_u32(&in) == key_len ? sr1__read_bytes(&in, key_len) : NULL;
    ok = ok && stored != NULL && memcmp(stored, key, key_len) == 0;
    if (ok)
        sr1__buf_add(value, in.p, in.left);
    sr1__free(payload);
    return ok && value->status == SR1_OK;
}

int32_t sr1__disk_store_get(struct sr1__disk_store *s, const void *key, size_t key_len,
                            struct sr1__buf *value, int64_t *time)
{
    uint64_t hash = sr1__hash64(key, key_len, 0);
    uint64_t size;
    int ok = 0;

    pthread_mutex_lock(&s->lock);
    if (refresh_store(s, &size) == SR1_OK) {
        const struct store_record *r = find_record_slot(s, s->slots, s->n_slots, hash);

        ok = r->offset != UINT64_MAX && read_record_value(s, r, key, key_len, value);
        if (ok)
            *time = r->time;
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

/* ---- the handle ---- */

static sr1_status set_up_store(struct sr1__disk_store *s, const char *folder)
{
    char *lock_path;
    uint64_t size;

    SR1__TRY(sr1__dir_make(folder));
    s->path = sr1__path_join(folder, "answers");
    lock_path = sr1__path_join(folder, "lock");
    if (getrandom(&s->salt, sizeof(s->salt), 0) != (ssize_t)sizeof(s->salt))
        s->salt = (uint64_t)(uintptr_t)s; /* where the system put it is chance too */
    s->n_slots = 1024;
    s->slots = new_slots(s->n_slots);
    if (s->path == NULL || lock_path == NULL || s->slots == NULL) {
        sr1__free(lock_path);
        return sr1__fail_nomem("search cache");
    }
    s->lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (s->lock_fd < 0) {
        sr1_status status = sr1__fail_errno("open", lock_path);

        sr1__free(lock_path);
        return status;
    }
    sr1__free(lock_path);
    return refresh_store(s, &size);
}

sr1_status sr1__disk_store_open(struct sr1__disk_store **out, const char *folder,
                                uint64_t max_bytes)
{
    struct sr1__disk_store *s = sr1__calloc(1, sizeof(*s));
    sr1_status status;

    if (s == NULL)
        return sr1__fail_nomem("search cache");
    pthread_mutex_init(&s->lock, NULL);
    s->fd = s->lock_fd = -1;
    s->max_bytes = max_bytes;
    status = set_up_store(s, folder);
    if (status != SR1_OK) {
        sr1__disk_store_close(s);
        return status;
    }
    *out = s;
    return SR1_OK;
}

void sr1__disk_store_close(struct sr1__disk_store *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        close(s->fd);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_mutex_destroy(&s->lock);
    sr1__free(s->slots);
    sr1__free(s->path);
    sr1__free(s);
}
