/* tensor/torch/inplace.cpp - operations that change their first operand. */
#include "tensor/torch/torch_guard.h"

#include <ATen/ops/bmm.h>

using namespace sr1;

extern "C" {

sr1_status sr1__shim_copy_(sr1_tensor *a, sr1_tensor *from)
{
    borrow x(a), y(from);

    return guard([&] { x->copy_(*y); });
}

sr1_status sr1__shim_add_(sr1_tensor *a, sr1_tensor *b, double scale_of_b)
{
    borrow x(a), y(b);

    return guard([&] { x->add_(*y, scale_of_b); });
}

sr1_status sr1__shim_sub_(sr1_tensor *a, sr1_tensor *b)
{
    borrow x(a), y(b);

    return guard([&] { x->sub_(*y); });
}

sr1_status sr1__shim_mul_(sr1_tensor *a, sr1_tensor *b)
{
    borrow x(a), y(b);

    return guard([&] { x->mul_(*y); });
}

sr1_status sr1__shim_mul_scalar_(sr1_tensor *a, double v)
{
    borrow x(a);

    return guard([&] { x->mul_(v); });
}

sr1_status sr1__shim_exp_(sr1_tensor *a)
{
    borrow x(a);

    return guard([&] { x->exp_(); });
}

sr1_status sr1__shim_fill_(sr1_tensor *a, double v)
{
    borrow x(a);

    return guard([&] { x->fill_(v); });
}

sr1_status sr1__shim_index_copy_(sr1_tensor *a, sr1_tensor *index, sr1_tensor *rows)
{
    borrow x(a), i(index), r(rows);

    return guard([&] { x->index_copy_(0, *i, *r); });
}

sr1_status sr1__shim_scatter_add_(sr1_tensor *a, sr1_tensor *index, sr1_tensor *v)
{
    borrow x(a), i(index), y(v);

    return guard([&] { x->scatter_add_(-1, *i, *y); });
}

sr1_status sr1__shim_addmm_(sr1_tensor *out, sr1_tensor *a, sr1_tensor *b, double beta,
                            double alpha)
{
    borrow x(out), y(a), z(b);

    return guard([&] { x->addmm_(*y, *z, beta, alpha); });
}

sr1_status sr1__shim_bmm_to(sr1_tensor *out, sr1_tensor *a, sr1_tensor *b)
{
    borrow x(out), y(a), z(b);

    return guard([&] { at::bmm_out(*x, *y, *z); });
}

sr1_status sr1__shim_addcmul_(sr1_tensor *a, sr1_tensor *b, sr1_tensor *c)
{
    borrow x(a), y(b), z(c);

    return guard([&] { x->addcmul_(*y, *z); });
}

} /* extern "C" */
