/* simulation.h - between the parts of the simulated accelerator. C++ only. */
#ifndef SR1_TESTS_SIMULATION_H
#define SR1_TESTS_SIMULATION_H

#include "accelerator.h"
#include "tensor/torch/graph_capture.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sim
{

constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

/* The device's memory (memory.cpp). */
c10::Allocator *memory();

/* Where a kernel finds what the device knows by this address; host addresses are
 * themselves. */
void *reach(const void *address);

/* Throws what CUDA throws where the device is gone (counts.cpp). */
void require_device();

/* One kernel under way on this thread (counts.cpp). Throws what CUDA throws where this
 * one is to fail. What happens inside, on the host, is not counted. */
class kernel
{
  public:
    explicit kernel(const std::string &name);
    ~kernel();
    kernel(const kernel &) = delete;
    kernel &operator=(const kernel &) = delete;
};

/* Memory that a graph keeps: what this thread allocates while it is entered, reused once
 * it is freed, given back with the pool. */
struct pool;
std::shared_ptr<pool> make_pool();
void enter_pool(std::shared_ptr<pool> p); /* null: leave */

/* Contents of blocks from before a capture wrote into them. */
struct contents;
std::shared_ptr<contents> make_contents();
void save_block(contents *c, const void *address);
/* Puts them back; what lies in the pool becomes NaN. */
void restore_contents(const contents &c, const std::shared_ptr<pool> &p);

/* The address, or the number of a block allocated since the trace began. */
std::string name_of(const void *address);
void number_blocks();

/* Writes a kernel down while a trace is on (counts.cpp). */
void trace(const std::string &name, const std::vector<at::Tensor> &tensors);

/* Kernels of this thread under way, one inside the other (counts.cpp). */
int depth();

/* Captures of this thread (graphs.cpp). In the outermost kernel of one, what runs the
 * kernel again is added to the graph. */
bool is_capturing();
bool captures_kernel();
void capture(std::function<void()> again);
void before_write(const at::Tensor &t); /* by a kernel */
void refuse_in_capture(const char *what);
/* A graph is being replayed by this thread: what its kernels take for a moment is in the
 * graph's memory on a device. */
bool is_replaying();
/* The same elements, kept alive by nobody. */
at::Tensor alias_of(const at::Tensor &t);

/* Copies to the host and events (graphs.cpp). */
void copy_down_later(const at::Tensor &from, const at::Tensor &to);
void *record_event(void *event);
void wait_for_event(void *event);
void free_event(void *event);

void count_wait();
void count_capture();
void count_to_host(size_t bytes, bool waits);
void count_to_device(size_t bytes, bool waits);
void reset_memory_counts();
void read_memory_counts(accelerator_counts *out);

/* The kernels of a table (tensor/torch/graph_capture.h), each as one (backend.cpp). */
at::Tensor swiglu(const at::Tensor &gate_up);
at::Tensor split_heads(const struct sr1__split_heads *h);

} // namespace sim

#endif
