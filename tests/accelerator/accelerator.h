/* accelerator.h - what tests ask of the simulated accelerator.
 *
 * A shared object that gives libtorch a device named "sim" as soon as it is loaded. The
 * host may not touch the device's memory: each block lies on pages without access, so
 * that any read or write that is not a kernel or a copy ends the process. Kernels compute
 * on the CPU, on copies. Fresh memory is full of NaN. A copy to the host that does not
 * wait arrives when an event behind it is waited for; until then the host has NaN.
 * Kernels can be captured as graphs, whose memory stays theirs; a capture runs nothing.
 */
#ifndef SR1_TESTS_ACCELERATOR_H
#define SR1_TESTS_ACCELERATOR_H

#include <stdint.h>
#include <stdio.h>

#define ACCELERATOR_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

struct accelerator_counts {
    int64_t kernels;         /* launched: operations, copies within the device, graphs */
    int64_t to_host;         /* copies from the device; each waits for it */
    int64_t to_host_bytes;   /* of all of them */
    int64_t to_host_largest; /* bytes of the largest */
    int64_t to_device;       /* copies to the device */
    int64_t to_device_bytes;
    int64_t waits; /* copies, both ways, that end before the call does, and events */
    int64_t allocations;
    int64_t live_bytes; /* allocated now */
    int64_t peak_bytes; /* highest since the last reset */
    int64_t captures;   /* graphs captured */
    int64_t releases;   /* times that freed blocks were given back to the system */
};

/* Counts since the last reset. */
ACCELERATOR_API void accelerator_read(struct accelerator_counts *out);
/* All counts to 0, the peak to what is live. */
ACCELERATOR_API void accelerator_reset(void);
/* Allocations that would pass this many bytes fail as CUDA's do; 0: none fails. */
ACCELERATOR_API void accelerator_limit(int64_t bytes);
/* The n-th kernel from now fails as a CUDA kernel does, once; 0: none. */
ACCELERATOR_API void accelerator_fail_kernel(int64_t n);
/* The n-th kernel from now fails, and from then on all kernels, copies, allocations,
 * waits and graphs, as on a device that is gone; 0: it is there again, with what it held.
 */
ACCELERATOR_API void accelerator_lose(int64_t n);
/* Address of the block that was allocated last and is alive; NULL: there is none. */
ACCELERATOR_API const void *accelerator_newest(void);
/* Kernels since the last reset by name, a line each: "12 aten::mm". */
ACCELERATOR_API void accelerator_print(FILE *out);

/* "begin", "end" or "replay" of a graph, or the "compiler" of the other kernels of a
 * table (tensor/torch/graph_capture.h), fails from now on; NULL: none does. */
ACCELERATOR_API void accelerator_fail_graph(const char *call);
/* 1: write down each kernel with the addresses, shapes and strides of its tensors, those
 * of blocks allocated from now on as the number of the block; 0: stop. */
ACCELERATOR_API void accelerator_trace(int on);
/* What was written since; valid until the next call of either. */
ACCELERATOR_API const char *accelerator_traced(void);

#ifdef __cplusplus
}
#endif
#endif
