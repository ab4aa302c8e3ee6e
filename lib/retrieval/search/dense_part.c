/* retrieval/search/dense_part.c - see dense_part.h. A record is written behind the last
 * and nothing is ever changed, so that a kill at any moment costs at most the record
 * under way. */
#include "retrieval/search/dense_part.h"

#include "base/map_watch.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SR1PART\n"
#define VERSION 1
#define FIXED 16 /* bytes of the header before the key */
#define RECORD_HEADER 24
#define SUM_AT 16 /* in it, the last */

struct part_record {
    uint64_t at; /* of its rows in the file */
    uint64_t hash;
    uint64_t end; /* rows up to its end */
};

struct sr1__dense_part {
    char *path;
    int fd;
    struct sr1__buf header;
    const struct sr1__dense_type *type;
    size_t dim;
    size_t row_bytes;
    uint64_t size; /* bytes that are whole */
    struct part_record *records;
    size_t n;
    size_t capacity;
    struct sr1__buf pending; /* the record that is made */
};

static uint64_t count_record_rows(const struct sr1__dense_part *p, size_t i)
{
    return p->records[i].end - (i > 0 ? p->records[i - 1].end : 0);
}

/* Bytes of a record of n rows, its header aside. */
static uint64_t compute_payload_bytes(const struct sr1__dense_part *p, uint64_t n)
{
    return n * (p->row_bytes + (p->type->scaled ? sizeof(float) : 0));
}

static sr1_status keep_record(struct sr1__dense_part *p, uint64_t n, uint64_t hash)
{
    if (p->n == p->capacity) {
        size_t capacity = p->capacity == 0 ? 256 : p->capacity * 2;
        struct part_record *records =
            sr1__realloc(p->records, capacity, sizeof(*records));

        if (records == NULL)
            return sr1__fail_nomem("vectors that are done");
        p->records = records;
        p->capacity = capacity;
    }
    p->records[p->n] = (struct part_record){
        p->size + RECORD_HEADER, hash, n + (p->n > 0 ? p->records[p->n - 1].end : 0)};
    p->n++;
    p->size += RECORD_HEADER + compute_payload_bytes(p, n);
    return SR1_OK;
}

/* ---- the file ---- */

static sr1_status write_part_at(const struct sr1__dense_part *p, const char *bytes,
                                size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(p->fd, bytes, n, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sr1__fail_errno("write", p->path);
        bytes += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return SR1_OK;
}

sr1_status sr1__dense_part_reset(struct sr1__dense_part *p)
{
    p->n = 0;
    p->size = 0;
    if (ftruncate(p->fd, 0) != 0)
        return sr1__fail_errno("write", p->path);
    SR1__TRY(write_part_at(p, p->header.data, p->header.len, 0));
    p->size = p->header.len;
    return SR1_OK;
}

/* A file system that knows no locks keeps nobody out; any other failure is one. */
static sr1_status lock_part(const struct sr1__dense_part *p)
{
    while (flock(p->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return SR1_OK;
        if (errno == EWOULDBLOCK)
            return sr1__fail(SR1_E_STATE,
                             "%s is in use: another process builds this index", p->path);
        if (errno != EINTR)
            return sr1__fail_errno("lock", p->path);
    }
    return SR1_OK;
}

/* Open and lock it; whoever had it may have removed it meanwhile. */
static sr1_status open_locked(struct sr1__dense_part *p)
{
    struct stat st;

    for (;;) {
        p->fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (p->fd < 0)
            return sr1__fail_errno("write", p->path);
        SR1__TRY(lock_part(p));
        if (fstat(p->fd, &st) != 0)
            return sr1__fail_errno("read", p->path);
        if (st.st_nlink > 0)
            break;
        close(p->fd);
    }
    return S_ISREG(st.st_mode) ? SR1_OK
                               : sr1__fail(SR1_E_IO, "%s is no regular file", p->path);
}

static int same_header(const struct sr1__dense_part *p, const struct sr1__map *map)
{
    return map->size >= p->header.len &&
           memcmp(map->data, p->header.data, p->header.len) == 0;
}

/* Is there a whole record at p->size? */
static int whole_record(const struct sr1__dense_part *p, const struct sr1__map *map,
                        uint64_t *n, uint64_t *hash)
{
    const unsigned char *r = map->data + p->size;
    struct index_sum sum = {0};

    if (map->size - p->size < RECORD_HEADER)
        return 0;
    *n = index_u32(r);
    *hash = index_u64(r + 8);
    if (*n == 0 || compute_payload_bytes(p, *n) > map->size - p->size - RECORD_HEADER)
        return 0;
    index_sum_add(&sum, r, SUM_AT);
    index_sum_add(&sum, r + RECORD_HEADER, (size_t)compute_payload_bytes(p, *n));
    return index_sum_end(&sum) == index_u64(r + SUM_AT);
}

static sr1_status read_records(struct sr1__dense_part *p)
{
    struct sr1__map map = {0};
    uint64_t n;
    uint64_t hash;
    sr1_status status = SR1_OK;

    SR1__TRY(sr1__map_open_watched(&map, p->path, 0));
    if (!same_header(p, &map)) {
        int foreign = memcmp(map.data, MAGIC, map.size < 8 ? map.size : 8) != 0;

        sr1__map_close(&map);
        if (foreign)
            return sr1__fail(SR1_E_STATE,
                             "%s is no part of an index: the vectors that are done would "
                             "go there; move it away, or name another index",
                             p->path);
        return sr1__dense_part_reset(p);
    }
    p->size = p->header.len;
    while (status == SR1_OK && whole_record(p, &map, &n, &hash))
        status = keep_record(p, n, hash);
    status = sr1__map_blame(&map, status);
    sr1__map_close(&map);
    if (status == SR1_OK && ftruncate(p->fd, (off_t)p->size) != 0)
        status = sr1__fail_errno("write", p->path);
    return status;
}

/* ---- open and close ---- */

static sr1_status make_part_header(struct sr1__dense_part *p, const char *key)
{
    struct sr1__buf *b = &p->header;

    sr1__buf_add(b, MAGIC, 8);
    sr1__buf_u32(b, VERSION);
    sr1__buf_u32(b, (uint32_t)strlen(key));
    sr1__buf_str(b, key);
    SR1__TRY(sr1__buf_status(b, "key of a build"));
    sr1__buf_u64(b, sr1__index_sum_of(b->data, b->len));
    return sr1__buf_status(b, "key of a build");
}

static sr1_status make_path(struct sr1__dense_part *p, const char *index_path)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s.part", index_path);
    return sr1__buf_finish(&b, "file name", &p->path);
}

sr1_status sr1__dense_part_open(struct sr1__dense_part **out, const char *index_path,
                                const char *key, const struct sr1__dense_type *type,
                                size_t dim)
{
    struct sr1__dense_part *p = sr1__calloc(1, sizeof(*p));
    sr1_status status;

    if (p == NULL)
        return sr1__fail_nomem("vectors that are done");
    p->fd = -1;
    p->type = type;
    p->dim = dim;
    p->row_bytes = sr1__dense_stride(dim) * type->size;
    sr1__buf_init(&p->header, 0);
    sr1__buf_init(&p->pending, SIZE_MAX / 2);
    status = make_part_header(p, key);
    if (status == SR1_OK)
        status = make_path(p, index_path);
    if (status == SR1_OK)
        status = open_locked(p);
    if (status == SR1_OK)
        status = read_records(p);
    if (status != SR1_OK) {
        sr1__dense_part_close(p);
        return status;
    }
    *out = p;
    return SR1_OK;
}

void sr1__dense_part_close(struct sr1__dense_part *p)
{
    if (p == NULL)
        return;
    if (p->fd >= 0)
        close(p->fd);
    sr1__buf_free(&p->header);
    sr1__buf_free(&p->pending);
    sr1__free(p->records);
    sr1__free(p->path);
    sr1__free(p);
}

void sr1__dense_part_remove(struct sr1__dense_part *p)
{
    unlink(p->path);
    sr1__dense_part_close(p);
}

size_t sr1__dense_part_records(const struct sr1__dense_part *p)
{
    return p->n;
}

uint64_t sr1__dense_part_end(const struct sr1__dense_part *p, size_t i, uint64_t *hash)
{
    *hash = p->records[i].hash;
    return p->records[i].end;
}

/* ---- records ---- */

static sr1_status encode_part_rows(struct sr1__dense_part *p, const float *v, size_t n,
                                   char *rows)
{
    uint64_t before = p->n > 0 ? p->records[p->n - 1].end : 0;
    char *scales = rows + n * p->row_bytes;

    for (size_t i = 0; i < n; i++) {
        float scale;

        SR1__TRY(sr1__context(sr1__dense_encode(p->type, v + i * p->dim, p->dim,
                                                rows + i * p->row_bytes, &scale),
                              "document %llu", (unsigned long long)(before + i)));
        if (p->type->scaled)
            memcpy(scales + i * sizeof(scale), &scale, sizeof(scale));
    }
    return SR1_OK;
}

sr1_status sr1__dense_part_add(struct sr1__dense_part *p, const float *v, size_t n,
                               uint64_t hash)
{
    struct sr1__buf *b = &p->pending;
    size_t bytes = (size_t)compute_payload_bytes(p, n);
    struct index_sum sum = {0};
    uint64_t at = p->size;

    sr1__buf_clear(b);
    sr1__buf_u32(b, (uint32_t)n);
    sr1__buf_u32(b, 0);
    sr1__buf_u64(b, hash);
    sr1__buf_u64(b, 0);
    sr1__buf_room(b, bytes);
    SR1__TRY(sr1__buf_status(b, "vectors"));
    SR1__TRY(encode_part_rows(p, v, n, b->data + RECORD_HEADER));
    index_sum_add(&sum, b->data, SUM_AT);
    index_sum_add(&sum, b->data + RECORD_HEADER, bytes);
    for (int i = 0; i < 8; i++)
        b->data[SUM_AT + i] = (char)(index_sum_end(&sum) >> (8 * i));
    SR1__TRY(write_part_at(p, b->data, RECORD_HEADER + bytes, at));
    return keep_record(p, n, hash);
}

static sr1_status put_part(struct sr1__dense_part *p, const struct sr1__map *map,
                           struct sr1__section_writer *w, enum dense_section s)
{
    for (size_t i = 0; i < p->n; i++) {
        uint64_t n = count_record_rows(p, i);
        const unsigned char *rows = map->data + p->records[i].at;

        if (s == DENSE_VECTORS)
            SR1__TRY(sr1__section_put(w, s, rows, (size_t)n * p->row_bytes));
        else
            SR1__TRY(sr1__section_put(w, s, rows + n * p->row_bytes,
                                      (size_t)n * sizeof(float)));
    }
    return SR1_OK;
}

sr1_status sr1__dense_part_copy(struct sr1__dense_part *p, struct sr1__section_writer *w)
{
    struct sr1__map map = {0};
    sr1_status status;

    SR1__TRY(sr1__map_open_watched(&map, p->path, 0));
    status = map.size >= p->size
                 ? sr1__section_begin(w, DENSE_VECTORS, DENSE_ALIGN)
                 : sr1__fail(SR1_E_IO, "%s was cut short meanwhile", p->path);
    if (status == SR1_OK)
        status = put_part(p, &map, w, DENSE_VECTORS);
    if (status == SR1_OK)
        status = sr1__section_begin(w, DENSE_SCALES, 8);
    if (status == SR1_OK && p->type->scaled)
        status = put_part(p, &map, w, DENSE_SCALES);
    status = sr1__map_blame(&map, status);
    sr1__map_close(&map);
    return status;
}
