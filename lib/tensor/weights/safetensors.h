/* tensor/weights/safetensors.h - named tensors in safetensors files, read through a
 * memory map and written as a stream. Plain C: nothing here knows the tensor library.
 *
 * A file is  u64 header length | JSON header | tensor bytes; the header maps each name to
 * {dtype, shape, data_offsets}. A folder holds model.safetensors, or shards and their
 * model.safetensors.index.json. */
#ifndef SR1__WEIGHTS_SAFETENSORS_H
#define SR1__WEIGHTS_SAFETENSORS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Element types of weights, numbered as in tensor/torch/shim.h. */
enum {
    SR1__WEIGHT_F32 = 0,
    SR1__WEIGHT_BF16 = 1,
    SR1__WEIGHT_F16 = 2,
    SR1__WEIGHT_DTYPES = 3,
    /* Not weights: buffers that lie in files beside them ("position_ids"). */
    SR1__WEIGHT_I64 = 3,
    SR1__WEIGHT_I32 = 4,
    SR1__WEIGHT_U8 = 5,
    SR1__WEIGHT_BOOL = 6,
    SR1__WEIGHT_STORED = 7
};

size_t sr1__weight_dtype_size(int32_t dtype);      /* bytes an element: 4, 2, 2, ... */
const char *sr1__weight_dtype_name(int32_t dtype); /* "float32", "bfloat16", ... */
const char *
sr1__weight_dtype_tag(int32_t dtype); /* "F32", "BF16", "F16": in file headers */

#define SR1__WEIGHT_MAX_DIMS 4

/* One tensor of an open file: row-major, little-endian, aligned to its element size. */
struct sr1__weight {
    const char *name;
    const char *file; /* the file it lies in, for messages */
    int32_t dtype;    /* SR1__WEIGHT_F32, ... */
    int32_t n_dims;
    int64_t shape[SR1__WEIGHT_MAX_DIMS];
    uint64_t n_bytes;
    const void *data; /* in the map, read-only */
};

/* The tensors of one model. Everything borrowed from it lives until sr1__weights_close.
 * Reading is thread safe. */
struct sr1__weights;

/* Open a file, or a folder by model.safetensors or else its index. Every header is
 * checked whole: sizes, overlaps, gaps, dtypes; errors name file and tensor.
 * SR1_E_NOT_FOUND when the folder has neither. */
sr1_status sr1__weights_open(struct sr1__weights **out, const char *path);
void sr1__weights_close(struct sr1__weights *w); /* NULL is fine */
/* The status of reading tensors: SR1_E_CORRUPT if a file was changed in place meanwhile
 * (sr1__map_blame), because the tensors may then be wrong. */
sr1_status sr1__weights_blame(const struct sr1__weights *w, sr1_status status);

size_t sr1__weights_count(const struct sr1__weights *w);
/* i < count, in order of name. */
const struct sr1__weight *sr1__weights_at(const struct sr1__weights *w, size_t i);
/* NULL when there is none. */
const struct sr1__weight *sr1__weights_find(const struct sr1__weights *w,
                                            const char *name);
/* The weight of this name and shape; errors name the file and what was found or expected.
 */
sr1_status sr1__weights_get(const struct sr1__weights *w, const char *name,
                            int32_t n_dims, const int64_t *shape,
                            const struct sr1__weight **out);
/* The same where something other than config.json determines the shape: "X says". */
sr1_status sr1__weights_get_as(const struct sr1__weights *w, const char *name,
                               int32_t n_dims, const int64_t *shape, const char *says,
                               const struct sr1__weight **out);

/* A hash of the names, types and shapes of all tensors and of some bytes of each, taken
 * in a moment: another model, or one trained further, has another one; weights that
 * differ in other bytes only have the same. */
uint64_t sr1__weights_hash(const struct sr1__weights *w);
/* A text of the first file's metadata, NULL if it is not there. */
const char *sr1__weights_note(const struct sr1__weights *w, const char *name);

/* What to write: one row a tensor. */
struct sr1__weight_out {
    const char *name;
    int32_t dtype;
    int32_t n_dims;
    int64_t shape[SR1__WEIGHT_MAX_DIMS];
};

/* Give the bytes of tensor i (row-major); they are used before the next call. The order
 * of calls is the file's, not the table's. */
typedef sr1_status (*sr1__weight_bytes_fn)(void *arg, size_t i, const void **bytes);

/* Write model.safetensors into folder (made if missing), or, when the tensors take more
 * than max_shard_bytes (0: no bound), model-00001-of-0000N.safetensors and the index.
 * Shards fill in the table's order; inside a file wider types come first, then names in
 * order, so equal tensors give equal bytes. Each file is replaced atomically and the file
 * that selects them last; a stale index or single file beside it is removed. Where a
 * crash must not leave a mixture of old and new shards, write a new folder and rename it.
 */
sr1_status sr1__weights_save(const char *folder, const struct sr1__weight_out *tensors,
                             size_t n, uint64_t max_shard_bytes,
                             sr1__weight_bytes_fn bytes, void *arg);
/* The same by several processes at once: of at most `parts` files of about equal size,
 * model-0000K-of-0000N.safetensors, this call writes the one numbered `part` from 0 on,
 * where there is one, and that of part 0 the index too. A model of one file is
 * model.safetensors. A file has SR1__WEIGHT_PART bytes or more. All calls have to have
 * succeeded before the folder is read. */
#define SR1__WEIGHT_PART ((uint64_t)16 << 20)
struct sr1__weight_part {
    size_t part, parts;
};
sr1_status sr1__weights_save_part(const char *folder,
                                  const struct sr1__weight_out *tensors, size_t n,
                                  struct sr1__weight_part part,
                                  sr1__weight_bytes_fn bytes, void *arg);
/* A text for the metadata of a file. */
struct sr1__weight_note {
    const char *name, *value;
};

/* The same into one file, of this name and with a note (NULL: none); whatever else is in
 * the folder stays. */
sr1_status sr1__weights_save_file(const char *folder, const char *file,
                                  const struct sr1__weight_note *note,
                                  const struct sr1__weight_out *tensors, size_t n,
                                  sr1__weight_bytes_fn bytes, void *arg);

#endif
