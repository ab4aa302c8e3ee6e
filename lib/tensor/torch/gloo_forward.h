/* tensor/torch/gloo_forward.h - what c10d's ProcessGroupGloo.hpp names of Gloo, whose
 * headers the wheel of torch lacks. All of it stands behind pointers there, and the code
 * that looks inside is in libtorch_cpu. gloo_headers.sh makes files of Gloo's names that
 * include this one. C++ only. */
#ifndef SR1__TORCH_GLOO_FORWARD_H
#define SR1__TORCH_GLOO_FORWARD_H

#include <chrono>
#include <string>
#include <vector>

namespace gloo
{

namespace transport
{
class Device;
class UnboundBuffer;
} // namespace transport

namespace rendezvous
{

/* The base of c10d's GlooStore, of which libtorch_cpu has the table of functions. */
class Store
{
  public:
    virtual ~Store() = default;
    virtual void set(const std::string &key, const std::vector<char> &data) = 0;
    virtual std::vector<char> get(const std::string &key) = 0;
    virtual void wait(const std::vector<std::string> &keys) = 0;
    virtual void wait(const std::vector<std::string> &keys,
                      const std::chrono::milliseconds &timeout) = 0;
};

} // namespace rendezvous

class Context
{
  public:
    void setTimeout(std::chrono::milliseconds timeout);
};

} // namespace gloo

#endif
