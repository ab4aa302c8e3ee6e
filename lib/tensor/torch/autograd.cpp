/* tensor/torch/autograd.cpp - leaves, gradients, grad mode, a node whose backward is
 * C, and libtorch's threads for C loops. */
#include "tensor/torch/torch_guard.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>

using namespace sr1;

namespace
{

using torch::autograd::Node;
using torch::autograd::variable_list;
using user_data = std::unique_ptr<void, void (*)(void *)>;

/* The engine makes its queues, one a device, at the first backward pass. */
std::atomic<bool> ran_backward{false};

/* Calls fn with the gradients of its outputs. The C side sets its own grad mode. */
struct c_node : Node {
    sr1__shim_backward_fn fn;
    user_data self;
    size_t n_in;

    c_node(sr1__shim_backward_fn f, user_data u, size_t n)
        : fn(f), self(std::move(u)), n_in(n)
    {
    }

    variable_list apply(variable_list &&grads) override
    {
        std::vector<sr1_tensor *> given(grads.size());
        std::vector<sr1_tensor *> made(n_in, nullptr);
        variable_list out(n_in);

        if (!self)
            throw std::logic_error("backward a second time through a freed graph");
        for (size_t i = 0; i < grads.size(); i++)
            given[i] = give(grads[i]);
        sr1_status status =
            fn(self.get(), given.data(), given.size(), made.data(), made.size());
        for (sr1_tensor *g : given)
            sr1__shim_release(g);
        for (size_t i = 0; i < n_in; i++)
            if (made[i]) {
                out[i] = *borrow(made[i]);
                sr1__shim_release(made[i]);
            }
        if (status != SR1_OK)
            throw failure(status, sr1_last_error());
        return out;
    }

    void release_variables() override
    {
        self.reset();
    }
};

} // namespace

extern "C" {

sr1_status sr1__shim_require_grad(sr1_tensor *leaf, int on)
{
    borrow x(leaf);

    return guard([&] { x->requires_grad_(on != 0); });
}

sr1_status sr1__shim_backward(sr1_tensor *y, sr1_tensor *grad_or_null)
{
    borrow x(y), g(grad_or_null);

    ran_backward = true;
    return guard([&] { x->backward(*g); });
}

int sr1__shim_ran_backward(void)
{
    return ran_backward;
}

sr1_status sr1__shim_grad(sr1_tensor **out, sr1_tensor *leaf)
{
    borrow x(leaf);

    return make(out, [&] { return x->grad(); });
}

sr1_status sr1__shim_clear_grad(sr1_tensor *leaf)
{
    borrow x(leaf);

    return guard([&] { x->mutable_grad().reset(); });
}

int sr1__shim_grad_mode(int on)
{
    bool was = c10::GradMode::is_enabled();

    c10::GradMode::set_enabled(on != 0);
    return was;
}

void *sr1__shim_inference_enter(void)
{
    return new (std::nothrow) c10::InferenceMode(true);
}

void sr1__shim_inference_leave(void *guard)
{
    delete static_cast<c10::InferenceMode *>(guard);
}

sr1_status sr1__shim_with_backward(sr1_tensor **out, sr1_tensor *const *y, size_t n_out,
                                   sr1_tensor *const *inputs, size_t n_in,
                                   sr1__shim_backward_fn fn, void *self,
                                   void (*free_self)(void *))
{
    user_data owned(self, free_self);

    return guard([&] {
        variable_list in = list_of(inputs, n_in);
        variable_list values;

        for (size_t i = 0; i < n_out; i++)
            values.push_back(borrow(y[i])->detach());
        if (c10::GradMode::is_enabled() &&
            torch::autograd::any_variable_requires_grad(in)) {
            std::shared_ptr<Node> node(new c_node(fn, std::move(owned), n_in),
                                       torch::autograd::deleteNode);

            node->set_next_edges(torch::autograd::collect_next_edges(in));
            for (at::Tensor &v : values)
                torch::autograd::create_gradient_edge(v, node);
        }
        for (size_t i = 0; i < n_out; i++)
            out[i] = give(std::move(values[i]));
    });
}

sr1_status sr1__shim_parallel(int64_t n, int64_t grain,
                              void (*fn)(void *arg, int64_t begin, int64_t end),
                              void *arg)
{
    return guard([&] {
        at::parallel_for(0, n, grain,
                         [&](int64_t begin, int64_t end) { fn(arg, begin, end); });
    });
}

} /* extern "C" */
