/* tensor/torch/storage.cpp - memory of tensors that comes and goes while they stay. */
#include "tensor/torch/torch_guard.h"

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <stdexcept>

using namespace sr1;

namespace
{

/* Memory of n bytes in place of what the tensor has. */
void replace_memory(at::Tensor &t, size_t n)
{
    c10::StorageImpl *s = t.storage().unsafeGetStorageImpl();
    c10::Allocator *a = s->allocator();

    if (!a || t.storage_offset() != 0 || !t.is_non_overlapping_and_dense())
        throw std::logic_error("memory that is not this tensor's own cannot be dropped");
    s->set_data_ptr_noswap(a->allocate(n));
    s->set_nbytes(n);
}

} // namespace

extern "C" {

sr1_status sr1__shim_alias(sr1_tensor **out, sr1_tensor *a)
{
    borrow x(a);

    return make(out, [&] { return x->variable_data(); });
}

sr1_status sr1__shim_drop_memory(sr1_tensor *a)
{
    borrow x(a);

    return guard([&] { replace_memory(*x, 0); });
}

sr1_status sr1__shim_make_memory(sr1_tensor *a)
{
    borrow x(a);

    return guard([&] {
        if (x->storage().nbytes() == 0)
            replace_memory(*x, x->nbytes());
    });
}

} /* extern "C" */
