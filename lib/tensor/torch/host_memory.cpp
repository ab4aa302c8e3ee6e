/* tensor/torch/host_memory.cpp - tensors in host memory: large ones are blocks of
 * base/pages.h, others of libtorch's allocator. */
#include "tensor/torch/torch_guard.h"

#include "base/pages.h"

#include <c10/core/CPUAllocator.h>

#include <new>

namespace
{

c10::Allocator *torch_allocator()
{
    static c10::Allocator *const a = c10::GetDefaultCPUAllocator();

    return a;
}

void free_tensor(void *p)
{
    if (!sr1__pages_free(p))
        torch_allocator()->raw_deallocate(p);
}

struct host_allocator final : c10::Allocator {
    c10::DataPtr allocate(size_t n) override
    {
        void *p = sr1__pages_alloc(n);

        if (!p) /* it says so where there is no memory */
            p = torch_allocator()->raw_allocate(n);
        return c10::DataPtr(p, p, free_tensor, c10::Device(c10::DeviceType::CPU));
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return free_tensor;
    }

    void copy_data(void *to, const void *from, std::size_t n) const override
    {
        default_copy_data(to, from, n);
    }
};

} // namespace

namespace sr1
{

void choose_host_memory() noexcept
{
    host_allocator *a = new (std::nothrow) host_allocator; /* as long as any tensor */

    if (a)
        c10::SetCPUAllocator(a);
}

} // namespace sr1
