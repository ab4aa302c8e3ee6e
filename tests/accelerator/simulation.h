/* simulation.h - between the parts of the simulated accelerator. C++ only. */
#ifndef SR1_TESTS_SIMULATION_H
#define SR1_TESTS_SIMULATION_H

#include "accelerator.h"

#include <c10/core/Allocator.h>

#include <string>

namespace sim
{

constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

/* The device's memory (memory.cpp). */
c10::Allocator *memory();

/* Where a kernel finds what the device knows by this address; host addresses are
 * themselves. */
void *reach(const void *address);

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

void count_to_host(size_t bytes);
void count_to_device(size_t bytes, bool waits);
void reset_memory_counts();
void read_memory_counts(accelerator_counts *out);

} // namespace sim

#endif
