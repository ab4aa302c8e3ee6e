/* tensor/cuda/nvrtc.h - kernels from their text: compiled by NVRTC for the device at
 * hand, launched by the driver. libtorch comes with the one and has loaded the other. C++
 * only. */
#ifndef SR1__CUDA_NVRTC_H
#define SR1__CUDA_NVRTC_H

#include <c10/cuda/CUDAStream.h>

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace sr1
{

/* There is no compiler here, or it refuses the text. */
struct not_compiled : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* The kernels of a text, on the device that is the current one when it is made. Never
 * unloaded: graphs may hold them. */
class kernels
{
  public:
    kernels(const char *text, const char *name); /* throws not_compiled */
    /* On the current stream of the current device; args as the kernel takes them. */
    void launch(const std::string &name, dim3 blocks, dim3 threads, void **args) const;

  private:
    CUmodule module_;
};

} // namespace sr1

#endif
