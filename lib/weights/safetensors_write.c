/* weights/safetensors_write.c - writing safetensors files, whole or in shards.
 *
 * Bytes are asked for tensor by tensor, so that no copy of the model is made. A file's
 * header is padded with spaces to a multiple of 8, which aligns the data. */
#include "weights/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

/* A tensor on its way into a file. */
struct item {
    const struct sr1__weight_out *t;
    size_t i; /* its row in the caller's table */
    uint64_t n_bytes;
    size_t shard;
};

struct save {
    const char *folder;
    struct item *items; /* those of one shard are neighbours, in the file's order */
    size_t n;
    size_t n_shards;
    sr1__weight_bytes_fn bytes;
    void *arg;
};

static sr1_status item_size(struct item *it)
{
    const struct sr1__weight_out *t = it->t;
    int ok = t->dtype >= 0 && t->dtype < SR1__WEIGHT_DTYPES && t->n_dims >= 0 &&
             t->n_dims <= SR1__WEIGHT_MAX_DIMS;

    it->n_bytes = ok ? sr1__weight_dtype_size(t->dtype) : 0;
    for (int32_t d = 0; ok && d < t->n_dims; d++)
        ok = t->shape[d] >= 0 &&
             !__builtin_mul_overflow(it->n_bytes, (uint64_t)t->shape[d], &it->n_bytes);
    if (!ok || it->n_bytes > INT64_MAX)
        return sr1__fail(SR1_E_INVALID,
                         "tensor '%.200s': dtype or shape cannot be stored", t->name);
    return SR1_OK;
}

/* Shards in order, wider types first, then by name. */
static int file_order(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;
    size_t sx = sr1__weight_dtype_size(x->t->dtype);
    size_t sy = sr1__weight_dtype_size(y->t->dtype);

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (sx != sy)
        return sx > sy ? -1 : 1;
    return strcmp(x->t->name, y->t->name);
}

/* Deal the tensors out; a shard closes when the next would not fit. */
static sr1_status plan(struct save *s, const struct sr1__weight_out *tensors,
                       uint64_t max_bytes)
{
    uint64_t used = 0;
    size_t shard = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct item *it = &s->items[i];

        it->t = &tensors[i];
        it->i = i;
        SR1__TRY(item_size(it));
        if (max_bytes && used && it->n_bytes > max_bytes - used) {
            shard++;
            used = 0;
        }
        it->shard = shard;
        /* One tensor larger than a shard fills one of its own. */
        used = max_bytes && it->n_bytes > max_bytes ? max_bytes : used + it->n_bytes;
    }
    s->n_shards = shard + 1;
    if (s->n)
        qsort(s->items, s->n, sizeof *s->items, file_order);
    return SR1_OK;
}

static void shard_name(const struct save *s, size_t shard, char name[64])
{
    if (s->n_shards == 1)
        snprintf(name, 64, SINGLE);
    else
        snprintf(name, 64, "model-%05zu-of-%05zu.safetensors", shard + 1, s->n_shards);
}

/* NULL: no memory. */
static json_t *entry_json(const struct item *it, uint64_t begin)
{
    json_t *shape = json_array();

    for (int32_t d = 0; d < it->t->n_dims; d++) {
        if (json_array_append_new(shape, json_integer(it->t->shape[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", sr1__weight_dtype_tag(it->t->dtype),
                     "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + it->n_bytes));
}

/* Length, JSON and padding of items [it, it + n). */
static sr1_status header_text(struct sr1__buf *b, const struct item *it, size_t n)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    struct sr1__buf text;
    uint64_t begin = 0;
    int bad = !root;
    sr1_status status;

    for (size_t i = 0; i < n && !bad; i++) {
        bad = json_object_set_new(root, it[i].t->name, entry_json(&it[i], begin)) != 0;
        begin += it[i].n_bytes;
    }
    if (!bad && json_object_size(root) != n + 1)
        bad = 2;
    sr1__buf_init(&text, 0);
    status = bad == 2 ? sr1__fail(SR1_E_INVALID, "two tensors to save have one name")
             : bad ? sr1__fail(SR1_E_INVALID, "a tensor to save has a name that is not "
                                              "UTF-8, or memory ran out")
                   : sr1__json_dump(root, 0, &text);
    json_decref(root);
    if (status == SR1_OK) {
        while (text.len % 8 != 0 && text.status == SR1_OK)
            sr1__buf_char(&text, ' ');
        sr1__buf_u64(b, text.len);
        sr1__buf_add(b, sr1__buf_cstr(&text), text.len);
        status = sr1__buf_status(text.status != SR1_OK ? &text : b, "safetensors header");
    }
    sr1__buf_free(&text);
    return status;
}

static sr1_status write_items(struct sr1__file_writer *w, const struct save *s,
                              const struct item *it, size_t n)
{
    struct sr1__buf header;
    sr1_status status;

    sr1__buf_init(&header, 0);
    status = header_text(&header, it, n);
    if (status == SR1_OK)
        status = sr1__file_writer_add(w, header.data, header.len);
    sr1__buf_free(&header);
    for (size_t i = 0; i < n && status == SR1_OK; i++) {
        const void *bytes = NULL;

        status = s->bytes(s->arg, it[i].i, &bytes);
        if (status == SR1_OK)
            status = sr1__file_writer_add(w, bytes, (size_t)it[i].n_bytes);
        status = sr1__context(status, "tensor '%.200s'", it[i].t->name);
    }
    return status;
}

static sr1_status write_shard(const struct save *s, size_t shard, const struct item *it,
                              size_t n)
{
    char name[64];
    char *path;
    struct sr1__file_writer *w = NULL;
    sr1_status status;

    shard_name(s, shard, name);
    path = sr1__path_join(s->folder, name);
    if (!path)
        return sr1__fail_nomem("file name");
    status = sr1__file_writer_open(&w, path);
    sr1__free(path);
    SR1__TRY(status);
    status = write_items(w, s, it, n);
    if (status != SR1_OK) {
        sr1__file_writer_abort(w);
        return status;
    }
    return sr1__file_writer_commit(w);
}

static sr1_status write_index(const struct save *s)
{
    json_t *map = json_object();
    json_t *root;
    uint64_t total = 0;
    char name[64];
    char *path;
    int bad = !map;
    sr1_status status;

    for (size_t i = 0; i < s->n && !bad; i++) {
        shard_name(s, s->items[i].shard, name);
        bad = json_object_set_new(map, s->items[i].t->name, json_string(name)) != 0;
        total += s->items[i].n_bytes;
    }
    root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total,
                     "weight_map", map);
    path = sr1__path_join(s->folder, INDEX);
    status = bad || !root || !path ? sr1__fail_nomem("index of shards")
                                   : sr1__json_save(root, 2, path);
    sr1__free(path);
    json_decref(root);
    return status;
}

static sr1_status remove_stale(const char *folder, const char *name)
{
    char *path = sr1__path_join(folder, name);
    sr1_status status = SR1_OK;

    if (!path)
        return sr1__fail_nomem("file name");
    if (unlink(path) != 0 && errno != ENOENT)
        status = sr1__fail_errno("remove", path);
    sr1__free(path);
    return status;
}

static sr1_status write_all(const struct save *s)
{
    size_t first = 0;

    SR1__TRY(sr1__dir_make(s->folder));
    for (size_t shard = 0; shard < s->n_shards; shard++) {
        size_t end = first;

        while (end < s->n && s->items[end].shard == shard)
            end++;
        SR1__TRY(write_shard(s, shard, s->items + first, end - first));
        first = end;
    }
    if (s->n_shards == 1)
        return remove_stale(s->folder, INDEX);
    SR1__TRY(write_index(s));
    return remove_stale(s->folder, SINGLE);
}

sr1_status sr1__weights_save(const char *folder, const struct sr1__weight_out *tensors,
                             size_t n, uint64_t max_shard_bytes,
                             sr1__weight_bytes_fn bytes, void *arg)
{
    struct save s = {.folder = folder, .n = n, .bytes = bytes, .arg = arg};
    sr1_status status;

    s.items = sr1__calloc(n + 1, sizeof *s.items);
    if (!s.items)
        return sr1__fail_nomem("table of tensors");
    status = plan(&s, tensors, max_shard_bytes);
    if (status == SR1_OK)
        status = write_all(&s);
    sr1__free(s.items);
    return status;
}
