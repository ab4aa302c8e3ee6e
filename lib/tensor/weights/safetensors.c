/* tensor/weights/safetensors.c - reading safetensors files and sharded folders through
 * memory maps.
 *
 * Nothing in a file is trusted: the header's length is bounded, each tensor's bytes must
 * be exactly dtype x shape and lie inside the file, and together the tensors must cover
 * the data once, without gaps, as the format's own reader demands. After that a tensor is
 * a pointer. */
#include "tensor/weights/safetensors.h"

#include "base/map_watch.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tensor/weights/other_forms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX UINT64_C(100000000) /* the bound of the format's own reader */
#define INDEX_MAX ((size_t)64 << 20)
#define SHARDS_MAX 10000
#define STORE_AS "is not supported; store it as F32, BF16 or F16"

/* Rows in the order of SR1__WEIGHT_F32, ... */
static const struct dtype_row {
    const char *tag; /* in the header */
    const char *name;
    size_t size;
} dtypes[SR1__WEIGHT_STORED] = {
    {"F32", "float32", 4}, {"BF16", "bfloat16", 2}, {"F16", "float16", 2},
    {"I64", "int64", 8},   {"I32", "int32", 4},     {"U8", "uint8", 1},
    {"BOOL", "bool", 1},
};

size_t sr1__weight_dtype_size(int32_t dtype)
{
    return dtypes[dtype].size;
}

const char *sr1__weight_dtype_name(int32_t dtype)
{
    return dtypes[dtype].name;
}

const char *sr1__weight_dtype_tag(int32_t dtype)
{
    return dtypes[dtype].tag;
}

struct file {
    char *path;
    struct sr1__map map;
};

struct sr1__weights {
    struct file *files;
    size_t n_files;
    struct sr1__weight *tensors; /* by name, once open */
    size_t n;
    size_t cap;
    json_t *metadata; /* of the first file that has any; NULL: none */
};

/* ---- one tensor of a header ---- */

/* Where a tensor is being read, for messages and bounds. */
struct tensor_place {
    const char *path;
    const char *name;
    const unsigned char *data; /* first byte after the header */
    uint64_t size;             /* bytes of data */
};

#define FAIL_AT(p, code, fmt, ...)                                                       \
    sr1__fail(code, "%s: tensor '%.200s': " fmt, (p)->path, (p)->name, __VA_ARGS__)

static sr1_status read_tensor_dtype(const struct tensor_place *p, const json_t *entry,
                                    int32_t *dtype)
{
    const char *tag = json_string_value(json_object_get(entry, "dtype"));

    if (!tag)
        return FAIL_AT(p, SR1_E_CORRUPT, "%s", "'dtype' is missing or not a string");
    for (int32_t i = 0; i < SR1__WEIGHT_STORED; i++) {
        if (strcmp(tag, dtypes[i].tag) == 0) {
            *dtype = i;
            return SR1_OK;
        }
    }
    return FAIL_AT(p, SR1_E_UNSUPPORTED, "dtype %.40s " STORE_AS, tag);
}

/* Reads the shape into t and gives its size in bytes. */
static sr1_status read_shape(const struct tensor_place *p, const json_t *entry,
                             struct sr1__weight *t, uint64_t *n_bytes)
{
    const json_t *shape = json_object_get(entry, "shape");
    uint64_t bytes = dtypes[t->dtype].size;

    if (!json_is_array(shape) || json_array_size(shape) > SR1__WEIGHT_MAX_DIMS)
        return FAIL_AT(p, SR1_E_CORRUPT, "'shape' is not a list of at most %d sizes",
                       SR1__WEIGHT_MAX_DIMS);
    t->n_dims = (int32_t)json_array_size(shape);
    for (int32_t i = 0; i < t->n_dims; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);

        t->shape[i] = json_integer_value(dim);
        if (!json_is_integer(dim) || t->shape[i] < 0)
            return FAIL_AT(p, SR1_E_CORRUPT, "shape[%d] is not a size", i);
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes))
            return FAIL_AT(p, SR1_E_CORRUPT, "%s", "the sizes in 'shape' overflow");
    }
    *n_bytes = bytes;
    return SR1_OK;
}

static sr1_status read_offsets(const struct tensor_place *p, const json_t *entry,
                               struct sr1__weight *t)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0);
    const json_t *last = json_array_get(offsets, 1);
    int64_t begin = json_integer_value(first);
    int64_t end = json_integer_value(last);

    if (json_array_size(offsets) != 2 || !json_is_integer(first) ||
        !json_is_integer(last))
        return FAIL_AT(p, SR1_E_CORRUPT, "%s", "'data_offsets' is not [begin, end]");
    if (begin < 0 || end < begin || (uint64_t)end > p->size)
        return FAIL_AT(p, SR1_E_CORRUPT,
                       "bytes %" PRId64 " to %" PRId64 " lie outside the file's %" PRIu64
                       " of data; is it cut short?",
                       begin, end, p->size);
    t->data = p->data + begin;
    t->n_bytes = (uint64_t)(end - begin);
    return SR1_OK;
}

static sr1_status read_tensor(const struct tensor_place *p, const json_t *entry,
                              struct sr1__weight *t)
{
    uint64_t n_bytes = 0;

    SR1__TRY(read_tensor_dtype(p, entry, &t->dtype));
    SR1__TRY(read_shape(p, entry, t, &n_bytes));
    SR1__TRY(read_offsets(p, entry, t));
    if (n_bytes != t->n_bytes)
        return FAIL_AT(p, SR1_E_CORRUPT,
                       "dtype and shape take %" PRIu64
                       " bytes, data_offsets give %" PRIu64,
                       n_bytes, t->n_bytes);
    if (t->dtype < SR1__WEIGHT_DTYPES && (uintptr_t)t->data % dtypes[t->dtype].size != 0)
        return FAIL_AT(p, SR1_E_UNSUPPORTED, "%s",
                       "its data is not aligned; save the file again with a current "
                       "safetensors");
    return SR1_OK;
}

/* ---- one file ---- */

static int compare_weight_data(const void *a, const void *b)
{
    const struct sr1__weight *x = a;
    const struct sr1__weight *y = b;

    if (x->data != y->data)
        return (const unsigned char *)x->data < (const unsigned char *)y->data ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

/* Tensors [t, t + n) of one file must cover its data once. */
static sr1_status check_cover(struct sr1__weight *t, size_t n,
                              const struct tensor_place *file)
{
    const unsigned char *end = file->data;

    if (n)
        qsort(t, n, sizeof *t, compare_weight_data);
    for (size_t i = 0; i < n; i++) {
        const unsigned char *begin = t[i].data;

        if (begin != end)
            return sr1__fail(SR1_E_CORRUPT, "%s: tensor '%.200s': its data %s",
                             file->path, t[i].name,
                             begin < end ? "overlaps another's" : "begins after a gap");
        end = begin + t[i].n_bytes;
    }
    if (end != file->data + file->size)
        return sr1__fail(SR1_E_CORRUPT, "%s: %" PRIu64 " bytes after the last tensor",
                         file->path, (uint64_t)(file->data + file->size - end));
    return SR1_OK;
}

static sr1_status add_tensors(struct sr1__weights *w, const json_t *header,
                              struct tensor_place *p)
{
    size_t first = w->n;
    const char *name;
    json_t *entry;

    if (!json_is_object(header))
        return sr1__fail(SR1_E_CORRUPT, "%s: the header is not a JSON object", p->path);
    /* not NULL when there is none */
    SR1__RESERVE(w->tensors, w->cap, w->n + json_object_size(header) + 1,
                 "table of tensors");
    json_object_foreach((json_t *)(uintptr_t)header, name, entry)
    {
        struct sr1__weight t = {.file = p->path};

        if (strcmp(name, "__metadata__") == 0) {
            if (!w->metadata)
                w->metadata = json_incref(entry);
            continue;
        }
        p->name = name;
        SR1__TRY(read_tensor(p, entry, &t));
        t.name = sr1__strdup(name);
        SR1__CHECK_ALLOC(t.name, "tensor name");
        w->tensors[w->n++] = t;
    }
    return check_cover(w->tensors + first, w->n - first, p);
}

static sr1_status add_weight_file(struct sr1__weights *w, const char *path,
                                  struct file *f)
{
    struct tensor_place p = {.path = path};
    struct sr1__reader r;
    uint64_t header_size;
    json_t *header = NULL;
    sr1_status status;

    SR1__TRY(sr1__map_open_watched(&f->map, path, 0));
    sr1__reader_init(&r, f->map.data, f->map.size);
    header_size = sr1__read_u64(&r);
    if (r.failed || header_size > r.left)
        return sr1__fail(SR1_E_CORRUPT,
                         "%s: cut short or not a safetensors file (%zu bytes)", path,
                         f->map.size);
    if (header_size > HEADER_MAX)
        return sr1__fail(SR1_E_LIMIT,
                         "%s: a header of %" PRIu64 " bytes; at most %" PRIu64, path,
                         header_size, HEADER_MAX);
    p.data = r.p + header_size;
    p.size = r.left - header_size;
    SR1__TRY(sr1__json_parse(&header, (const char *)r.p, (size_t)header_size, path));
    status = add_tensors(w, header, &p);
    json_decref(header);
    return status;
}

/* ---- tables ---- */

static int compare_weight_names(const void *a, const void *b)
{
    const struct sr1__weight *x = a;
    const struct sr1__weight *y = b;

    return strcmp(x->name, y->name);
}

static sr1_status sort_names(struct sr1__weights *w)
{
    if (w->n)
        qsort(w->tensors, w->n, sizeof *w->tensors, compare_weight_names);
    for (size_t i = 1; i < w->n; i++)
        if (strcmp(w->tensors[i - 1].name, w->tensors[i].name) == 0)
            return sr1__fail(SR1_E_CORRUPT, "tensor '%.200s' is both in %s and in %s",
                             w->tensors[i].name, w->tensors[i - 1].file,
                             w->tensors[i].file);
    return SR1_OK;
}

/* Takes path (freed with w, also on failure). */
static sr1_status open_one(struct sr1__weights *w, char *path)
{
    struct file *f = &w->files[w->n_files];

    SR1__CHECK_ALLOC(path, "file name");
    f->path = path;
    w->n_files++;
    return add_weight_file(w, path, f);
}

static sr1_status open_single(struct sr1__weights *w, const char *path)
{
    SR1__CALLOC(w->files, 1, "table of files");
    SR1__TRY(open_one(w, sr1__strdup(path)));
    return sort_names(w);
}

/* ---- shards ---- */

static int is_plain_name(const char *name)
{
    size_t n = strlen(name);
    const char ending[] = ".safetensors";

    return n > strlen(ending) && name[0] != '.' && !strchr(name, '/') &&
           strcmp(name + n - strlen(ending), ending) == 0;
}

static int compare_shard_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of the map, sorted, borrowed from it; *names is freed by the
 * caller with sr1__free. */
static sr1_status shard_names(const json_t *map, const char *index, const char ***names,
                              size_t *count)
{
    const char **v = sr1__calloc(json_object_size(map) + 1, sizeof *v);
    const char *key;
    json_t *value;
    size_t n = 0;
    size_t unique = 0;

    SR1__CHECK_ALLOC(v, "table of shards");
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        const char *name = json_string_value(value);

        if (!name || strlen(name) != json_string_length(value) || !is_plain_name(name)) {
            sr1__free(v);
            return sr1__fail(
                SR1_E_CORRUPT,
                "%s: tensor '%.200s': '%.200s' is not the name of a .safetensors "
                "file in the same folder",
                index, key, name ? name : "");
        }
        v[n++] = name;
    }
    if (n)
        qsort(v, n, sizeof *v, compare_shard_names);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(v[i], v[unique - 1]) != 0)
            v[unique++] = v[i];
    *names = v;
    *count = unique;
    return SR1_OK;
}

/* Every entry of the index must be in the shard it names. */
static sr1_status check_shard_index(const struct sr1__weights *w, const json_t *map,
                                    const char *index)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        const struct sr1__weight *t = sr1__weights_find(w, name);
        const char *shard = json_string_value(value);
        const char *slash = t ? strrchr(t->file, '/') : NULL;

        if (!t || strcmp(slash ? slash + 1 : t->file, shard) != 0)
            return sr1__fail(SR1_E_CORRUPT, "%s: tensor '%.200s' is not in %s", index,
                             name, shard);
    }
    return SR1_OK;
}

static sr1_status open_shards(struct sr1__weights *w, const char *folder,
                              const json_t *root, const char *index)
{
    const json_t *map = json_object_get(root, "weight_map");
    const char **names = NULL;
    size_t n = 0;
    sr1_status status;

    if (!json_is_object(map))
        return sr1__fail(SR1_E_CORRUPT, "%s: no object 'weight_map'", index);
    SR1__TRY(shard_names(map, index, &names, &n));
    status = n <= SHARDS_MAX ? SR1_OK
                             : sr1__fail(SR1_E_LIMIT, "%s: %zu shards; at most %d", index,
                                         n, SHARDS_MAX);
    if (status == SR1_OK && !(w->files = sr1__calloc(n + 1, sizeof *w->files)))
        status = sr1__fail_nomem("table of files");
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = sr1__context(open_one(w, sr1__path_join(folder, names[i])),
                              "shard of %s", index);
    sr1__free(names);
    SR1__TRY(status);
    SR1__TRY(sort_names(w));
    return check_shard_index(w, map, index);
}

static sr1_status open_shard_index(struct sr1__weights *w, const char *folder,
                                   const char *index)
{
    json_t *root = NULL;
    sr1_status status;

    SR1__TRY(sr1__json_load(&root, index, INDEX_MAX));
    status = open_shards(w, folder, root, index);
    json_decref(root);
    return status;
}

static sr1_status no_weights(const char *folder)
{
    SR1__TRY(sr1__model_form_check(folder));
    return sr1__fail(SR1_E_NOT_FOUND,
                     "%s: no model.safetensors and no model.safetensors.index.json",
                     folder);
}

static sr1_status open_weight_folder(struct sr1__weights *w, const char *folder)
{
    char *single = sr1__path_join(folder, "model.safetensors");
    char *index = sr1__path_join(folder, "model.safetensors.index.json");
    sr1_status status;

    if (!single || !index)
        status = sr1__fail_nomem("file name");
    else if (sr1__path_exists(single))
        status = open_single(w, single);
    else if (sr1__path_exists(index))
        status = open_shard_index(w, folder, index);
    else
        status = no_weights(folder);
    sr1__free(single);
    sr1__free(index);
    return status;
}

sr1_status sr1__weights_open(struct sr1__weights **out, const char *path)
{
    struct sr1__weights *w = sr1__calloc(1, sizeof *w);

    SR1__CHECK_ALLOC(w, "weights");
    SR1__RETURN_NEW(out, w,
                    sr1__path_is_dir(path) ? open_weight_folder(w, path)
                                           : open_single(w, path),
                    sr1__weights_close);
}

sr1_status sr1__weights_blame(const struct sr1__weights *w, sr1_status status)
{
    for (size_t i = 0; i < w->n_files; i++)
        status = sr1__map_blame(&w->files[i].map, status);
    return status;
}

void sr1__weights_close(struct sr1__weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n; i++)
        sr1__free((void *)(uintptr_t)w->tensors[i].name);
    for (size_t i = 0; i < w->n_files; i++) {
        sr1__map_close(&w->files[i].map);
        sr1__free(w->files[i].path);
    }
    sr1__free(w->tensors);
    sr1__free(w->files);
    json_decref(w->metadata);
    sr1__free(w);
}

size_t sr1__weights_count(const struct sr1__weights *w)
{
    return w->n;
}

const struct sr1__weight *sr1__weights_at(const struct sr1__weights *w, size_t i)
{
    return &w->tensors[i];
}

#define SAMPLE 64 /* bytes at the beginning, in the middle and at the end of a tensor */

static uint64_t hash_weight(const struct sr1__weight *t, uint64_t h)
{
    const unsigned char *p = t->data;
    uint64_t n = t->n_bytes < SAMPLE ? t->n_bytes : SAMPLE;

    h = sr1__hash64(t->name, strlen(t->name), h);
    h = sr1__hash64(&t->dtype, sizeof t->dtype, h);
    h = sr1__hash64(t->shape, (size_t)t->n_dims * sizeof *t->shape, h);
    h = sr1__hash64(p, (size_t)n, h);
    h = sr1__hash64(p + (t->n_bytes - n) / 2, (size_t)n, h);
    return sr1__hash64(p + (t->n_bytes - n), (size_t)n, h);
}

uint64_t sr1__weights_hash(const struct sr1__weights *w)
{
    uint64_t h = 0;

    for (size_t i = 0; i < sr1__weights_count(w); i++)
        h = hash_weight(sr1__weights_at(w, i), h);
    return h;
}

const char *sr1__weights_note(const struct sr1__weights *w, const char *name)
{
    return json_string_value(json_object_get(w->metadata, name));
}

const struct sr1__weight *sr1__weights_find(const struct sr1__weights *w,
                                            const char *name)
{
    struct sr1__weight key = {.name = name};

    return w->n ? bsearch(&key, w->tensors, w->n, sizeof key, compare_weight_names)
                : NULL;
}

static void shape_text(char text[128], int32_t n_dims, const int64_t *shape)
{
    size_t n = 1;

    text[0] = '[';
    for (int32_t i = 0; i < n_dims && n < 100; i++)
        n += (size_t)snprintf(text + n, 128 - n, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(text + n, 128 - n, "]");
}

/* If there are several files, the error names their folder, not one of them. */
static sr1_status fail_missing(const struct sr1__weights *w, const char *name)
{
    const char *path = w->n_files ? w->files[0].path : "weights";
    const char *slash = w->n_files > 1 ? strrchr(path, '/') : NULL;
    size_t n = slash ? (size_t)(slash - path) : strlen(path);

    return sr1__fail(SR1_E_NOT_FOUND, "%.*s: tensor '%.200s' is missing", (int)n, path,
                     name);
}

sr1_status sr1__weights_get(const struct sr1__weights *w, const char *name,
                            int32_t n_dims, const int64_t *shape,
                            const struct sr1__weight **out)
{
    return sr1__weights_get_as(w, name, n_dims, shape, "config.json says", out);
}

sr1_status sr1__weights_get_as(const struct sr1__weights *w, const char *name,
                               int32_t n_dims, const int64_t *shape, const char *says,
                               const struct sr1__weight **out)
{
    const struct sr1__weight *t = sr1__weights_find(w, name);
    char found[128];
    char wanted[128];

    if (!t)
        return fail_missing(w, name);
    if (t->dtype >= SR1__WEIGHT_DTYPES)
        return sr1__fail(SR1_E_UNSUPPORTED, "%s: tensor '%.200s': dtype %s " STORE_AS,
                         t->file, name, dtypes[t->dtype].tag);
    if (t->n_dims != n_dims ||
        memcmp(t->shape, shape, (size_t)n_dims * sizeof *shape) != 0) {
        shape_text(found, t->n_dims, t->shape);
        shape_text(wanted, n_dims, shape);
        return sr1__fail(SR1_E_CORRUPT, "%s: tensor '%.200s' has shape %s; %s %s",
                         t->file, name, found, says, wanted);
    }
    *out = t;
    return SR1_OK;
}
