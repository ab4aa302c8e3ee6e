/* tensor/torch/leave.cpp - a process may exit while other threads compute.
 *
 * exit() runs the destructors of libtorch on one thread; a thread that is inside libtorch
 * at that time, or enters it later, would read destroyed objects. exit therefore first
 * waits for running calls, and a thread that starts a new call blocks until the process
 * ends. */
#include "tensor/torch/torch_guard.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace
{

/* An operation of a large model may take longer; then exit goes on as it would have. */
const std::chrono::seconds patience(10);

std::atomic<int> entries{0}; /* under way, on all threads */
std::atomic<bool> leaving{false};
thread_local int depth;   /* entries of this thread, one inside the other */
thread_local bool leaves; /* this is the thread that exits: it may free what it has */

void wait_for_entries()
{
    auto until = std::chrono::steady_clock::now() + patience;

    leaves = true;
    leaving = true;
    while (entries > 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

[[noreturn]] void stand_still()
{
    for (;;)
        std::this_thread::sleep_for(std::chrono::hours(1));
}

} // namespace

namespace sr1
{

void watch_exit() noexcept
{
    std::atexit(wait_for_entries);
}

entry::entry() noexcept
{
    static std::once_flag watched;

    if (depth++ > 0)
        return;
    std::call_once(watched, watch_exit);
    entries++;
    if (leaving && !leaves) {
        entries--;
        stand_still();
    }
}

entry::~entry()
{
    if (--depth == 0)
        entries--;
}

} // namespace sr1
