/* tensor/torch/comm_guard.h - c10d's objects behind the handles of comm.h, and exceptions
 * of c10d as statuses. C++ only. */
#ifndef SR1__TORCH_COMM_GUARD_H
#define SR1__TORCH_COMM_GUARD_H

#include "tensor/torch/comm.h"
#include "tensor/torch/torch_guard.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

struct sr1__store {
    c10::intrusive_ptr<c10d::Store> of;
};

struct sr1__process_group {
    c10::intrusive_ptr<c10d::Backend> of;
};

struct sr1__work {
    c10::intrusive_ptr<c10d::Work> of;
    std::vector<at::Tensor> held;
};

namespace sr1
{

/* Status and text for the exception of c10d or of its transport being handled. */
sr1_status caught_comm() noexcept;

/* As guard(), for calls of c10d. */
template <class F> inline sr1_status guard_comm(F &&f) noexcept
{
    entry e;

    try {
        f();
        return SR1_OK;
    } catch (...) {
        return caught_comm();
    }
}

} // namespace sr1

#endif
