/* tensor/torch/shim.h - the C face of libtorch: one entry, one ATen expression.
 *
 * A tensor handle is a counted reference. Every entry returns a status (SR1_OK or a code
 * of searchr1/base.h with this thread's text set: SR1_E_NOMEM and SR1_E_DEVICE_NOMEM for
 * memory, SR1_E_INVALID for what ATen refuses) and writes *out only on success; the
 * caller releases it with sr1__shim_release. No exception leaves. Policy lives in
 * lib/tensor/ops. */
#ifndef SR1__TORCH_SHIM_H
#define SR1__TORCH_SHIM_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_tensor sr1_tensor;   /* opaque: a reference to ATen's tensor */
typedef struct sr1__event sr1__event;   /* opaque: a moment in a device's work */
typedef struct sr1__stream sr1__stream; /* opaque: work of a device, in its order */

/* Element types. */
enum {
    SR1__F32 = 0,
    SR1__BF16 = 1,
    SR1__F16 = 2,
    SR1__I64 = 3,
    SR1__I32 = 4,
    SR1__U8 = 5,
    SR1__BOOL = 6,
    SR1__F64 = 7,
    SR1__I8 = 8,
    SR1__DTYPES = 9
};

/* 0: the CPU; 1 + i: CUDA device i; 65 + i: device i of the backend that another library
 * gave torch under a name of its own. */
typedef int32_t sr1__device;
enum { SR1__CPU = 0, SR1__CUDA = 1, SR1__NAMED = 65 };

const char *sr1__torch_dtype_name(int32_t dtype); /* "fp32", "bf16", ... */
size_t sr1__torch_dtype_size(int32_t dtype);      /* bytes, 0 for an unknown one */
/* "fp32", "bf16", "fp16" or their long forms ("float32", ...). */
sr1_status sr1__torch_dtype_parse(const char *name, int32_t *out);

/* "cpu", "cuda", "cuda:1" or "auto" (CUDA when it can be used, else the CPU). Loads the
 * CUDA half of libtorch when asked for it: SR1_E_DEVICE says what is missing. Another
 * name is known where a library that was loaded before registered a backend under it. */
sr1_status sr1__device_resolve(const char *name, sr1__device *out);
/* "cpu", "cuda:0", ... Static. */
const char *sr1__device_name(sr1__device device);
/* Tests: look for libtorch_cuda.so in this folder (NULL: beside libtorch_cpu). */
void sr1__device_library_dir(const char *dir);
/* Return unused memory of the device's caching allocator to it; does nothing on the
 * CPU. */
sr1_status sr1__device_release(sr1__device device);
/* Bytes in use and highest since the last reset, of the device's allocator; zeros on the
 * CPU. */
sr1_status sr1__device_memory(sr1__device device, int64_t *now, int64_t *peak);
/* Free bytes on a device; for the CPU the machine's total memory. */
sr1_status sr1__device_room(sr1__device device, uint64_t *out);

/* Threads of one operation that the calling thread begins; 0 keeps what it has. */
sr1_status sr1__torch_threads(int32_t n);
int32_t sr1__torch_threads_get(void);
/* The same for some work: returns what was set before, to be given back by another call.
 */
int32_t sr1__torch_threads_swap(int32_t n);
/* Of the process, from the first hold to the release of the last: libtorch takes kernels
 * whose results do not depend on the order of their threads, and an operation that has
 * none fails by name. Before CUDA is first used it also sets CUBLAS_WORKSPACE_CONFIG,
 * unless the user has. */
sr1_status sr1__torch_determinism_hold(void);
void sr1__torch_determinism_release(void);
int32_t sr1__torch_determinism_get(void);
const char *sr1__torch_version(void);
/* *out: 1 unless this process lets products of fp32 be rounded to TF32 or bf16. */
sr1_status sr1__torch_full_products(int *out);

#include "tensor/torch/shim_ops.h"

#ifdef __cplusplus
}
#endif
#endif
