/* tensor/weights/safetensors_write.c - writing safetensors files, whole or in shards.
 *
 * Bytes are requested tensor by tensor, so no copy of the model is made. A file's header
 * is padded with spaces to a multiple of 8, which aligns the data. */
#include "tensor/weights/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

/* A tensor on its way into a file. */
struct weight_item {
    const struct sr1__weight_out *t;
    size_t i; /* its row in the caller's table */
    uint64_t n_bytes;
    size_t shard;
};

struct weights_save {
    const char *folder;
    const char *single; /* the name of the file where there is one */
    struct weight_item
        *items; /* those of one shard are neighbours, in the file's order */
    size_t n;
    size_t n_shards;
    const struct sr1__weight_note *note; /* NULL: none */
    struct sr1__weight_part part;        /* parts 0: all files are written here */
    sr1__weight_bytes_fn bytes;
    void *arg;
};

static sr1_status item_size(struct weight_item *it)
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
static int compare_file_order(const void *a, const void *b)
{
    const struct weight_item *x = a;
    const struct weight_item *y = b;
    size_t sx = sr1__weight_dtype_size(x->t->dtype);
    size_t sy = sr1__weight_dtype_size(y->t->dtype);

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (sx != sy)
        return sx > sy ? -1 : 1;
    return strcmp(x->t->name, y->t->name);
}

/* Does a part begin here, `before` of all bytes standing before? */
static int opens_part(const struct weights_save *s, uint64_t before, uint64_t all,
                      size_t shard)
{
    uint64_t most = all / SR1__WEIGHT_PART;
    size_t parts = s->part.parts < most ? s->part.parts : (size_t)most;

    return parts > shard + 1 &&
           (double)before >= (double)all * (double)(shard + 1) / (double)parts;
}

static uint64_t add_sizes(const struct weights_save *s,
                          const struct sr1__weight_out *tensors)
{
    uint64_t all = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct weight_item it = {.t = &tensors[i]};

        if (item_size(&it) == SR1_OK)
            all += it.n_bytes;
    }
    return all;
}

/* Deal the tensors out; a shard closes when the next would not fit. */
static sr1_status plan_shards(struct weights_save *s,
                              const struct sr1__weight_out *tensors, uint64_t max_bytes)
{
    uint64_t used = 0, before = 0, all = s->part.parts ? add_sizes(s, tensors) : 0;
    size_t shard = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct weight_item *it = &s->items[i];

        it->t = &tensors[i];
        it->i = i;
        SR1__TRY(item_size(it));
        shard += (size_t)opens_part(s, before, all, shard);
        before += it->n_bytes;
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
        qsort(s->items, s->n, sizeof *s->items, compare_file_order);
    return SR1_OK;
}

static void shard_name(const struct weights_save *s, size_t shard, char name[64])
{
    if (s->n_shards == 1)
        snprintf(name, 64, "%s", s->single);
    else
        snprintf(name, 64, "model-%05zu-of-%05zu.safetensors", shard + 1, s->n_shards);
}

/* NULL: no memory. */
static json_t *entry_json(const struct weight_item *it, uint64_t begin)
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

/* NULL: no memory. */
static json_t *metadata_json(const struct sr1__weight_note *note)
{
    return note ? json_pack("{s:{s:s, s:s}}", "__metadata__", "format", "pt", note->name,
                            note->value)
                : json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
}

/* Length, JSON and padding of items [it, it + n). */
static sr1_status header_text(struct sr1__buf *b, const struct sr1__weight_note *note,
                              const struct weight_item *it, size_t n)
{
    json_t *root = metadata_json(note);
    struct sr1__buf text;
    uint64_t begin = 0;
    sr1_status status = root ? SR1_OK : sr1__fail_nomem("safetensors header");

    for (size_t i = 0; i < n && status == SR1_OK; i++) {
        const char *key = it[i].t->name;

        if (!sr1__utf8_valid(key, strlen(key)))
            status = sr1__fail(SR1_E_INVALID, "a tensor to save has a name that is not "
                                              "UTF-8");
        else if (json_object_get(root, key))
            status = sr1__fail(SR1_E_INVALID, "two tensors to save have one name");
        else if (json_object_set_new(root, key, entry_json(&it[i], begin)) != 0)
            status = sr1__fail_nomem("safetensors header");
        begin += it[i].n_bytes;
    }
    sr1__buf_init(&text, 0);
    if (status == SR1_OK)
        status = sr1__json_dump(root, 0, &text);
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

static sr1_status write_items(struct sr1__file_writer *w, const struct weights_save *s,
                              const struct weight_item *it, size_t n)
{
    struct sr1__buf header;
    sr1_status status;

    sr1__buf_init(&header, 0);
    status = header_text(&header, s->note, it, n);
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

static sr1_status write_shard(const struct weights_save *s, size_t shard,
                              const struct weight_item *it, size_t n)
{
    char name[64];
    char *path;
    struct sr1__file_writer *w = NULL;
    sr1_status status;

    shard_name(s, shard, name);
    path = sr1__path_join(s->folder, name);
    SR1__CHECK_ALLOC(path, "file name");
    status =
        sr1__file_clean(path); /* of a write that was killed: as large as the shard */
    if (status == SR1_OK)
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

static sr1_status write_shard_index(const struct weights_save *s)
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

static sr1_status write_all_shards(const struct weights_save *s)
{
    size_t first = 0;

    SR1__TRY(sr1__dir_make(s->folder));
    for (size_t shard = 0; shard < s->n_shards; shard++) {
        size_t end = first;

        while (end < s->n && s->items[end].shard == shard)
            end++;
        if (s->part.parts == 0 || s->part.part == shard)
            SR1__TRY(write_shard(s, shard, s->items + first, end - first));
        first = end;
    }
    return SR1_OK;
}

static sr1_status write_model(const struct weights_save *s)
{
    SR1__TRY(write_all_shards(s));
    if (s->part.part > 0)
        return SR1_OK;
    if (s->n_shards == 1)
        return sr1__file_remove(s->folder, INDEX);
    SR1__TRY(write_shard_index(s));
    return sr1__file_remove(s->folder, SINGLE);
}

static sr1_status save_tensors(struct weights_save *s,
                               const struct sr1__weight_out *tensors,
                               uint64_t max_shard_bytes,
                               sr1_status (*write)(const struct weights_save *s))
{
    sr1_status status;

    SR1__CALLOC(s->items, s->n + 1, "table of tensors");
    status = plan_shards(s, tensors, max_shard_bytes);
    if (status == SR1_OK)
        status = write(s);
    sr1__free(s->items);
    return status;
}

sr1_status sr1__weights_save(const char *folder, const struct sr1__weight_out *tensors,
                             size_t n, uint64_t max_shard_bytes,
                             sr1__weight_bytes_fn bytes, void *arg)
{
    struct weights_save s = {
        .folder = folder, .single = SINGLE, .n = n, .bytes = bytes, .arg = arg};

    return save_tensors(&s, tensors, max_shard_bytes, write_model);
}

sr1_status sr1__weights_save_part(const char *folder,
                                  const struct sr1__weight_out *tensors, size_t n,
                                  struct sr1__weight_part part,
                                  sr1__weight_bytes_fn bytes, void *arg)
{
    struct weights_save s = {.folder = folder,
                             .single = SINGLE,
                             .n = n,
                             .part = part,
                             .bytes = bytes,
                             .arg = arg};

    return save_tensors(&s, tensors, 0, write_model);
}

sr1_status sr1__weights_save_file(const char *folder, const char *file,
                                  const struct sr1__weight_note *note,
                                  const struct sr1__weight_out *tensors, size_t n,
                                  sr1__weight_bytes_fn bytes, void *arg)
{
    struct weights_save s = {.folder = folder,
                             .single = file,
                             .n = n,
                             .note = note,
                             .bytes = bytes,
                             .arg = arg};

    return save_tensors(&s, tensors, 0, write_all_shards);
}
