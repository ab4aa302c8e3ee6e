/* tensor/torch/handle.cpp - handles, element types, and the texts for exceptions. */
#include "tensor/torch/torch_guard.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <new>
#include <stdexcept>

namespace
{

const at::ScalarType type_of[SR1__DTYPES] = {at::kFloat, at::kBFloat16, at::kHalf,
                                             at::kLong,  at::kInt,      at::kByte,
                                             at::kBool,  at::kDouble,   at::kChar};

struct dtype_row {
    const char *name;
    const char *long_name;
    size_t size;
};

const dtype_row dtype_rows[SR1__DTYPES] = {
    {"fp32", "float32", 4}, {"bf16", "bfloat16", 2}, {"fp16", "float16", 2},
    {"i64", "int64", 8},    {"i32", "int32", 4},     {"u8", "uint8", 1},
    {"bool", "bool", 1},    {"fp64", "float64", 8},  {"i8", "int8", 1}};

/* ATen's messages may carry a trace after the first lines; a sentence is enough here. */
sr1_status say(sr1_status code, const char *text)
{
    size_t n = strcspn(text, "\n");

    return sr1__fail(code, "%.*s", (int)(n < 600 ? n : 600), text);
}

c10::TensorImpl *impl(const sr1_tensor *t)
{
    return reinterpret_cast<c10::TensorImpl *>(const_cast<sr1_tensor *>(t));
}

} // namespace

namespace sr1
{

sr1_status caught() noexcept
{
    try {
        throw;
    } catch (const c10::OutOfMemoryError &e) {
        return say(SR1_E_DEVICE_NOMEM, e.what_without_backtrace());
    } catch (const c10::NotImplementedError &e) {
        return say(SR1_E_UNSUPPORTED, e.what_without_backtrace());
    } catch (const c10::AcceleratorError &e) {
        return say(SR1_E_DEVICE, e.what_without_backtrace());
    } catch (const c10::Error &e) {
        const char *text = e.what_without_backtrace();

        if (strstr(text, "DefaultCPUAllocator"))
            return say(SR1_E_NOMEM, text);
        return say(strstr(text, "CUDA error") ? SR1_E_DEVICE : SR1_E_INVALID, text);
    } catch (const failure &e) {
        return say(e.code, e.what());
    } catch (const std::bad_alloc &) {
        return sr1__fail_nomem("tensor");
    } catch (const std::exception &e) {
        return say(SR1_E_INTERNAL, e.what());
    } catch (...) {
        return sr1__fail(SR1_E_INTERNAL, "unknown exception in the tensor library");
    }
}

at::ScalarType scalar_type(int32_t dtype)
{
    if (dtype < 0 || dtype >= SR1__DTYPES)
        throw std::out_of_range("unknown element type");
    return type_of[dtype];
}

c10::Device device_of(sr1__device device)
{
    if (device == SR1__CPU)
        return c10::Device(c10::DeviceType::CPU);
    if (device < SR1__NAMED)
        return c10::Device(c10::DeviceType::CUDA, (c10::DeviceIndex)(device - SR1__CUDA));
    return c10::Device(c10::DeviceType::PrivateUse1,
                       (c10::DeviceIndex)(device - SR1__NAMED));
}

sr1__device number_of(c10::Device device)
{
    if (device.is_cpu())
        return SR1__CPU;
    return (device.is_privateuseone() ? SR1__NAMED : SR1__CUDA) +
           (device.has_index() ? device.index() : 0);
}

std::vector<at::Tensor> list_of(sr1_tensor *const *list, size_t n)
{
    std::vector<at::Tensor> v;

    v.reserve(n);
    for (size_t i = 0; i < n; i++)
        v.push_back(*borrow(list[i]));
    return v;
}

} // namespace sr1

extern "C" {

const char *sr1__torch_dtype_name(int32_t dtype)
{
    return dtype >= 0 && dtype < SR1__DTYPES ? dtype_rows[dtype].name : "?";
}

size_t sr1__torch_dtype_size(int32_t dtype)
{
    return dtype >= 0 && dtype < SR1__DTYPES ? dtype_rows[dtype].size : 0;
}

sr1_status sr1__torch_dtype_parse(const char *name, int32_t *out)
{
    for (int32_t i = 0; i <= SR1__F16; i++) {
        if (!strcmp(name, dtype_rows[i].name) || !strcmp(name, dtype_rows[i].long_name)) {
            *out = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_INVALID, "dtype '%s' is not one of fp32, bf16, fp16", name);
}

void sr1__shim_release(sr1_tensor *t)
{
    sr1::entry e;

    if (t)
        c10::raw::intrusive_ptr::decref(impl(t));
}

sr1_tensor *sr1__shim_retain(sr1_tensor *t)
{
    if (t)
        c10::raw::intrusive_ptr::incref(impl(t));
    return t;
}

int32_t sr1__shim_ndim(const sr1_tensor *t)
{
    return t ? (int32_t)impl(t)->dim() : 0;
}

const int64_t *sr1__shim_sizes(const sr1_tensor *t)
{
    return t ? impl(t)->sizes().data() : nullptr;
}

int64_t sr1__shim_numel(const sr1_tensor *t)
{
    return t ? impl(t)->numel() : 0;
}

int32_t sr1__shim_dtype(const sr1_tensor *t)
{
    at::ScalarType want = t ? impl(t)->dtype().toScalarType() : at::ScalarType::Undefined;

    for (int32_t i = 0; i < SR1__DTYPES; i++)
        if (type_of[i] == want)
            return i;
    return -1;
}

sr1__device sr1__shim_device(const sr1_tensor *t)
{
    return t ? sr1::number_of(impl(t)->device()) : SR1__CPU;
}

int sr1__shim_requires_grad(const sr1_tensor *t)
{
    return t ? (*sr1::borrow(t)).requires_grad() : 0;
}

void *sr1__shim_data(const sr1_tensor *t)
{
    if (!t || !impl(t)->device().is_cpu() || !impl(t)->is_contiguous())
        return nullptr;
    return impl(t)->mutable_data();
}

} /* extern "C" */
