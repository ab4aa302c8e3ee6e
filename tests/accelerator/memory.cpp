/* memory.cpp - memory of the simulated accelerator.
 *
 * A block is an anonymous file mapped twice: at the address that libtorch knows, without
 * access, and where kernels reach it. Freed blocks are kept for the next of their size,
 * those of a graph's pool for the pool alone. */
#include "simulation.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <map>
#include <mutex>

namespace sim
{

struct pool {
    std::multimap<size_t, char *> unused; /* blocks that stay, by mapped bytes */

    ~pool();
};

struct contents {
    std::map<char *, std::vector<char>> of; /* by the address that libtorch knows */
};

} // namespace sim

namespace
{

struct block {
    char *inside; /* where kernels reach it */
    size_t mapped;
    size_t bytes; /* asked for */
    int64_t number;
    std::weak_ptr<sim::pool> pool; /* that it goes back to */
};

std::mutex lock;                /* of all below */
std::map<char *, block> blocks; /* by the address that libtorch knows */
std::multimap<size_t, std::pair<char *, block>> unused; /* by mapped bytes */
size_t unused_bytes;
char *newest;
size_t limit;
size_t live;
size_t peak;
int64_t allocations;
int64_t releases;     /* that were asked for */
int64_t first_number; /* of the blocks that are numbered */
int64_t next_number;
thread_local std::shared_ptr<sim::pool> entered;

size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return bytes ? (bytes + page - 1) / page * page : page;
}

char *map_pages(int file, size_t bytes, int access)
{
    void *p = mmap(nullptr, bytes, access, MAP_SHARED, file, 0);

    TORCH_CHECK_WITH(OutOfMemoryError, p != MAP_FAILED, "sim out of memory: no pages");
    return static_cast<char *>(p);
}

constexpr size_t unused_most = (size_t)64 << 20;

/* A block of this many bytes that was freed; NULL: there is none. */
char *take_unused(size_t mapped, block *out)
{
    auto it = unused.find(mapped);
    char *outside;

    if (it == unused.end())
        return nullptr;
    outside = it->second.first;
    *out = it->second.second;
    unused_bytes -= mapped;
    unused.erase(it);
    return outside;
}

char *map_new(size_t mapped, block *out)
{
    int file = memfd_create("sim", MFD_CLOEXEC);
    char *outside;

    TORCH_CHECK(file >= 0 && ftruncate(file, (off_t)mapped) == 0, "sim: no file");
    outside = map_pages(file, mapped, PROT_NONE);
    out->mapped = mapped;
    out->inside = map_pages(file, mapped, PROT_READ | PROT_WRITE);
    close(file);
    return outside;
}

char *make_block(size_t bytes)
{
    block b{nullptr, whole_pages(bytes), bytes, 0, {}};
    char *outside = take_unused(b.mapped, &b);

    if (!outside)
        outside = map_new(b.mapped, &b);
    b.bytes = bytes;
    b.pool = entered;
    blocks[outside] = b;
    return outside;
}

/* One that the entered pool has already; NULL: there is none. */
char *reuse_block(size_t bytes)
{
    char *outside = nullptr;

    if (!entered)
        return nullptr;
    auto it = entered->unused.find(whole_pages(bytes));
    if (it == entered->unused.end())
        return nullptr;
    outside = it->second;
    entered->unused.erase(it);
    return outside;
}

void *allocate_block(size_t bytes)
{
    std::lock_guard<std::mutex> hold(lock);

    newest = reuse_block(bytes);
    if (!newest) {
        TORCH_CHECK_WITH(OutOfMemoryError, !limit || live + bytes <= limit,
                         "sim out of memory. Tried to allocate ", bytes, " bytes; ", live,
                         " of ", limit, " are in use");
        newest = make_block(bytes);
        live += bytes;
        peak = std::max(peak, live);
    }
    block &b = blocks[newest];
    memset(b.inside, 0xff, bytes); /* NaN in every type of floats */
    b.number = next_number++;
    allocations += !sim::is_replaying();
    return newest;
}

void unmap_block(char *outside, const block &b)
{
    munmap(outside, b.mapped);
    munmap(b.inside, b.mapped);
}

void give_up_block(std::map<char *, block>::iterator it)
{
    live -= it->second.bytes;
    it->second.pool.reset();
    if (unused_bytes + it->second.mapped <= unused_most) {
        unused_bytes += it->second.mapped;
        unused.emplace(it->second.mapped, *it);
    } else {
        unmap_block(it->first, it->second);
    }
    blocks.erase(it);
}

void free_block(void *address)
{
    std::lock_guard<std::mutex> hold(lock);
    auto it = blocks.find(static_cast<char *>(address));

    if (it == blocks.end())
        return;
    newest = newest == it->first ? nullptr : newest;
    if (auto p = it->second.pool.lock())
        p->unused.emplace(it->second.mapped, it->first);
    else
        give_up_block(it);
}

/* Back to the system. */
void drop_unused()
{
    std::lock_guard<std::mutex> hold(lock);

    for (const auto &u : unused)
        unmap_block(u.second.first, u.second.second);
    unused.clear();
    unused_bytes = 0;
}

struct allocator final : c10::DeviceAllocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        sim::require_device();
        void *p = allocate_block(bytes);

        return {p, p, free_block, c10::Device(sim::device_type, 0)};
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return free_block;
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        sim::kernel k("copy_data");

        memcpy(sim::reach(to), sim::reach(from), bytes);
    }
    bool initialized() override
    {
        return true;
    }
    void emptyCache(c10::MempoolId_t) override
    {
        drop_unused();
        std::lock_guard<std::mutex> hold(lock);
        releases++;
    }
    void recordStream(const c10::DataPtr &, c10::Stream) override
    {
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override
    {
        std::lock_guard<std::mutex> hold(lock);
        c10::CachingDeviceAllocator::DeviceStats stats;

        stats.allocated_bytes[0].current = (int64_t)live;
        stats.allocated_bytes[0].peak = (int64_t)peak;
        return stats;
    }
    void resetAccumulatedStats(c10::DeviceIndex) override
    {
    }
    void resetPeakStats(c10::DeviceIndex) override
    {
        std::lock_guard<std::mutex> hold(lock);

        peak = live;
    }
    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override
    {
        std::lock_guard<std::mutex> hold(lock);
        size_t all = limit ? limit : (size_t)1 << 40;

        return {all > live ? all - live : 0, all};
    }
};

} // namespace

namespace sim
{

c10::Allocator *memory()
{
    static allocator *all = new allocator; /* outlives all tensors */

    return all;
}

void *reach(const void *address)
{
    std::lock_guard<std::mutex> hold(lock);
    char *p = static_cast<char *>(const_cast<void *>(address));
    auto it = blocks.upper_bound(p);

    if (it == blocks.begin())
        return p;
    --it;
    return p < it->first + it->second.mapped ? it->second.inside + (p - it->first) : p;
}

/* What is still in use goes its own way when it is freed. */
pool::~pool()
{
    std::lock_guard<std::mutex> hold(lock);

    for (const auto &u : unused)
        give_up_block(blocks.find(u.second));
}

std::shared_ptr<pool> make_pool()
{
    return std::make_shared<pool>();
}

void enter_pool(std::shared_ptr<pool> p)
{
    entered = std::move(p);
}

std::shared_ptr<contents> make_contents()
{
    return std::make_shared<contents>();
}

void save_block(contents *c, const void *address)
{
    std::lock_guard<std::mutex> hold(lock);
    char *p = static_cast<char *>(const_cast<void *>(address));
    auto it = blocks.upper_bound(p);

    if (it == blocks.begin()) /* of no elements */
        return;
    --it;
    if (!it->second.pool.lock() && !c->of.count(it->first))
        c->of[it->first].assign(it->second.inside, it->second.inside + it->second.bytes);
}

void restore_contents(const contents &c, const std::shared_ptr<pool> &p)
{
    std::lock_guard<std::mutex> hold(lock);

    for (auto &b : blocks) {
        auto was = c.of.find(b.first);

        if (b.second.pool.lock() == p)
            memset(b.second.inside, 0xff, b.second.bytes);
        else if (was != c.of.end())
            memcpy(b.second.inside, was->second.data(), b.second.bytes);
    }
}

void number_blocks()
{
    std::lock_guard<std::mutex> hold(lock);

    first_number = next_number;
}

std::string name_of(const void *address)
{
    std::lock_guard<std::mutex> hold(lock);
    char *p = static_cast<char *>(const_cast<void *>(address));
    auto it = blocks.upper_bound(p);

    if (it == blocks.begin())
        return "?";
    --it;
    return it->second.number < first_number
               ? c10::str((const void *)p)
               : c10::str("#", it->second.number - first_number, "+", p - it->first);
}

void reset_memory_counts()
{
    std::lock_guard<std::mutex> hold(lock);

    allocations = 0;
    releases = 0;
    peak = live;
}

void read_memory_counts(accelerator_counts *out)
{
    std::lock_guard<std::mutex> hold(lock);

    out->allocations = allocations;
    out->releases = releases;
    out->live_bytes = (int64_t)live;
    out->peak_bytes = (int64_t)peak;
}

} // namespace sim

extern "C" {

void accelerator_limit(int64_t bytes)
{
    std::lock_guard<std::mutex> hold(lock);

    limit = (size_t)bytes;
}

const void *accelerator_newest(void)
{
    std::lock_guard<std::mutex> hold(lock);

    return newest;
}

} /* extern "C" */
