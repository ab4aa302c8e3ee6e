/* tensor/torch/gloo.cpp - the process group of Gloo, and c10d's check of collectives,
 * which talks by Gloo. The only file that needs Gloo's headers, which the wheel lacks:
 * gloo_forward.h stands for them. */
#define USE_C10D_GLOO 1
#include "tensor/torch/comm_guard.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <cstring>

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "gloo_forward.h was written for torch 2.11: compare it with what "
              "ProcessGroupGloo.hpp of this version needs of Gloo");

using namespace sr1;

namespace
{

/* GLOO_SOCKET_IFNAME names interfaces with commas; one connection needs the first. */
std::shared_ptr<::gloo::transport::Device> make_device(const char *address)
{
    const char *names = std::getenv("GLOO_SOCKET_IFNAME");

    if (names && *names)
        return c10d::ProcessGroupGloo::createDeviceForInterface(
            std::string(names, strcspn(names, ",")));
    if (address)
        return c10d::ProcessGroupGloo::createDeviceForHostname(address);
    return c10d::ProcessGroupGloo::createDefaultDevice();
}

} // namespace

extern "C" {

sr1_status sr1__pg_gloo(struct sr1__process_group **out, struct sr1__store *store,
                        int32_t rank, int32_t size, const char *address, int64_t limit_ms)
{
    return guard_comm([&] {
        auto o =
            c10d::ProcessGroupGloo::Options::create(std::chrono::milliseconds(limit_ms));

        o->devices.push_back(make_device(address));
        *out = new sr1__process_group{
            c10::make_intrusive<c10d::ProcessGroupGloo>(store->of, rank, size, o)};
    });
}

sr1_status sr1__pg_checked(struct sr1__process_group **out,
                           struct sr1__process_group *group,
                           struct sr1__process_group *helper)
{
    return guard_comm([&] {
        *out = new sr1__process_group{
            c10::make_intrusive<c10d::ProcessGroupWrapper>(group->of, helper->of)};
    });
}

} /* extern "C" */
