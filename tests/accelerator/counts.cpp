/* counts.cpp - what the simulated accelerator was asked to do. */
#include "simulation.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace
{

std::mutex lock; /* of all below */
accelerator_counts counts;
std::map<std::string, int64_t> by_name;

int64_t fail_in; /* kernels until the one that fails; 0: none */
int64_t lose_in; /* kernels until the device is gone; 0: it stays */
bool gone;
thread_local int deep; /* kernels of this thread under way, one inside the other */

bool tracing;
std::string traced;

/* Counts a kernel; true: it is the one that fails. */
bool begins_failing(const std::string &name)
{
    std::lock_guard<std::mutex> hold(lock);

    if (!sim::is_capturing()) {
        counts.kernels++;
        by_name[name]++;
    }
    gone = gone || (lose_in > 0 && --lose_in == 0);
    return fail_in > 0 && --fail_in == 0;
}

} // namespace

namespace sim
{

void require_device()
{
    std::lock_guard<std::mutex> hold(lock);

    if (gone)
        throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 719,
                                    "sim error: the device is lost");
}

kernel::kernel(const std::string &name)
{
    if (deep == 0 && begins_failing(name))
        throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700,
                                    "sim error: the kernel " + name + " was let fail");
    require_device();
    deep++;
}

kernel::~kernel()
{
    deep--;
}

int depth()
{
    return deep;
}

void trace(const std::string &name, const std::vector<at::Tensor> &tensors)
{
    std::string line = name;

    if (!tracing || deep > 1)
        return;
    for (const at::Tensor &t : tensors) {
        if (!t.defined() || !t.is_privateuseone())
            continue;
        line += " " + name_of(t.data_ptr()) + c10::str(t.sizes(), "/", t.strides());
    }
    std::lock_guard<std::mutex> hold(lock);
    traced += line + "\n";
}

void count_wait()
{
    std::lock_guard<std::mutex> hold(lock);

    counts.waits++;
}

void count_capture()
{
    std::lock_guard<std::mutex> hold(lock);

    counts.captures++;
}

void count_to_host(size_t bytes, bool waits)
{
    std::lock_guard<std::mutex> hold(lock);

    if (deep > 0)
        return;
    counts.to_host++;
    counts.waits += waits;
    counts.to_host_bytes += (int64_t)bytes;
    counts.to_host_largest = std::max(counts.to_host_largest, (int64_t)bytes);
}

void count_to_device(size_t bytes, bool waits)
{
    std::lock_guard<std::mutex> hold(lock);

    if (deep > 0)
        return;
    counts.to_device++;
    counts.waits += waits;
    counts.to_device_bytes += (int64_t)bytes;
}

} // namespace sim

extern "C" {

void accelerator_read(struct accelerator_counts *out)
{
    std::lock_guard<std::mutex> hold(lock);

    *out = counts;
    sim::read_memory_counts(out);
}

void accelerator_reset(void)
{
    std::lock_guard<std::mutex> hold(lock);

    counts = {};
    by_name.clear();
    sim::reset_memory_counts();
}

void accelerator_fail_kernel(int64_t n)
{
    std::lock_guard<std::mutex> hold(lock);

    fail_in = n;
}

void accelerator_lose(int64_t n)
{
    std::lock_guard<std::mutex> hold(lock);

    lose_in = n;
    gone = gone && n > 0;
}

void accelerator_trace(int on)
{
    std::lock_guard<std::mutex> hold(lock);

    if (on)
        traced.clear();
    tracing = on != 0;
    sim::number_blocks();
}

const char *accelerator_traced(void)
{
    return traced.c_str();
}

void accelerator_print(FILE *out)
{
    std::lock_guard<std::mutex> hold(lock);

    for (const auto &row : by_name)
        fprintf(out, "%6lld %s\n", (long long)row.second, row.first.c_str());
}

} /* extern "C" */
