/* tensor/torch/foreach.cpp - one operation over many tensors: norms and the
 * optimizer. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/stack.h>

#include <algorithm>

using namespace sr1;

extern "C" {

sr1_status sr1__shim_norms(sr1_tensor *const *list, size_t n, double *out)
{
    return guard([&] {
        at::Tensor norms =
            at::stack(at::_foreach_norm(list_of(list, n), 2, at::kFloat)).to(at::kCPU);

        std::copy_n(norms.const_data_ptr<float>(), n, out);
    });
}

sr1_status sr1__shim_scale_all_(sr1_tensor *const *list, size_t n, double v)
{
    return guard([&] { at::_foreach_mul_(list_of(list, n), v); });
}

sr1_status sr1__shim_adamw_(sr1_tensor *const *params, sr1_tensor *const *grads,
                            sr1_tensor *const *exp_avg, sr1_tensor *const *exp_avg_sq,
                            sr1_tensor *const *step, size_t n, double lr, double beta1,
                            double beta2, double weight_decay, double eps)
{
    return guard([&] {
        at::_fused_adamw_(list_of(params, n), list_of(grads, n), list_of(exp_avg, n),
                          list_of(exp_avg_sq, n), {}, list_of(step, n), lr, beta1, beta2,
                          weight_decay, eps, false, false);
    });
}

} /* extern "C" */
