/* tensor/torch/math.cpp - element-wise operations; their names are in the tables of
 * tensor/torch/shim_ops.h. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/detach.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/log.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/round.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>

using namespace sr1;

extern "C" {

#define UNARY(name, at_name)                                                             \
    sr1_status sr1__shim_##name(sr1_tensor **out, sr1_tensor *a)                         \
    {                                                                                    \
        borrow x(a);                                                                     \
        return make(out, [&] { return at::at_name(*x); });                               \
    }
SR1__SHIM_UNARY(UNARY)

#define BINARY(name, at_name)                                                            \
    sr1_status sr1__shim_##name(sr1_tensor **out, sr1_tensor *a, sr1_tensor *b)          \
    {                                                                                    \
        borrow x(a), y(b);                                                               \
        return make(out, [&] { return at::at_name(*x, *y); });                           \
    }
SR1__SHIM_BINARY(BINARY)

#define SCALAR(name, at_name)                                                            \
    sr1_status sr1__shim_##name(sr1_tensor **out, sr1_tensor *a, double v)               \
    {                                                                                    \
        borrow x(a);                                                                     \
        return make(out, [&] { return at::at_name(*x, v); });                            \
    }
SR1__SHIM_SCALAR(SCALAR)

sr1_status sr1__shim_where(sr1_tensor **out, sr1_tensor *cond, sr1_tensor *a,
                           sr1_tensor *b)
{
    borrow c(cond), x(a), y(b);

    return make(out, [&] { return at::where(*c, *x, *y); });
}

} /* extern "C" */
