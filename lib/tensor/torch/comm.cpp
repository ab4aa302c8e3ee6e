/* tensor/torch/comm.cpp - torch's c10d for C: the store and collectives of any backend.
 */
#include "tensor/torch/comm_guard.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/exception.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

using namespace sr1;

namespace
{

/* One line: c10d's texts have several, of which the mismatch of two collectives needs
 * more than the first. */
sr1_status report_comm(sr1_status code, const char *text)
{
    std::string line(text, strnlen(text, 900));

    std::replace(line.begin(), line.end(), '\n', ' ');
    return sr1__fail(code, "%s", line.c_str());
}

/* ProcessGroupWrapper's barrier before each collective: a rank is late or gone, as its
 * helper's connections report. Ranks at different collectives are told otherwise. */
bool is_failed_barrier(const c10::Error &e)
{
    const char *text = e.what_without_backtrace();

    return strstr(text, "monitoredBarrier") ||
           strstr(text, "Monitored Barrier encountered error");
}

std::chrono::milliseconds limit_of(int64_t limit_ms)
{
    return std::chrono::milliseconds(limit_ms);
}

/* A collective that f begins on these tensors. */
template <class F>
sr1_status begin_work(struct sr1__work **out, std::vector<at::Tensor> tensors, F &&f)
{
    return guard_comm([&] {
        auto work = f(tensors);

        *out = new sr1__work{std::move(work), std::move(tensors)};
    });
}

} // namespace

namespace sr1
{

sr1_status caught_comm() noexcept
{
    try {
        throw;
    } catch (const c10d::TimeoutError &e) {
        return report_comm(SR1_E_TIMEOUT, e.what_without_backtrace());
    } catch (const c10::DistError &e) {
        return report_comm(SR1_E_NETWORK, e.what_without_backtrace());
    } catch (const c10::Error &e) {
        return report_comm(is_failed_barrier(e) ? SR1_E_NETWORK : SR1_E_INVALID,
                           e.what_without_backtrace());
    } catch (const std::bad_alloc &) {
        return sr1__fail_nomem("process group");
    } catch (const std::exception &e) { /* gloo::IoException is one */
        return report_comm(SR1_E_NETWORK, e.what());
    } catch (...) {
        return sr1__fail(SR1_E_INTERNAL, "unknown exception in the process group");
    }
}

} // namespace sr1

extern "C" {

void sr1__comm_quiet(void)
{
    if (!std::getenv("TORCH_CPP_LOG_LEVEL"))
        FLAGS_caffe2_log_level = 4; /* above FATAL, which is 3 */
}

/* ---- store ---- */

sr1_status sr1__store_tcp(struct sr1__store **out, const char *host, uint16_t port,
                          int hosts, int32_t world_size, int64_t connect_ms,
                          int64_t limit_ms)
{
    return guard_comm([&] {
        c10d::TCPStoreOptions o;

        o.port = port;
        o.isServer = hosts != 0;
        o.numWorkers = world_size;
        o.waitWorkers = false;
        o.timeout = limit_of(connect_ms);
        auto store = c10::make_intrusive<c10d::TCPStore>(host, o);

        store->setTimeout(limit_of(limit_ms));
        *out = new sr1__store{std::move(store)};
    });
}

sr1_status sr1__store_prefix(struct sr1__store **out, struct sr1__store *of,
                             const char *prefix)
{
    return guard_comm([&] {
        *out = new sr1__store{c10::make_intrusive<c10d::PrefixStore>(prefix, of->of)};
    });
}

void sr1__store_free(struct sr1__store *s)
{
    (void)guard_comm([&] { delete s; });
}

sr1_status sr1__store_set(struct sr1__store *s, const char *key, const void *bytes,
                          size_t n)
{
    const uint8_t *begin = static_cast<const uint8_t *>(bytes);

    return guard_comm([&] { s->of->set(key, std::vector<uint8_t>(begin, begin + n)); });
}

sr1_status sr1__store_get(struct sr1__store *s, const char *key, void *out, size_t size,
                          size_t *n)
{
    return guard_comm([&] {
        std::vector<uint8_t> bytes = s->of->get(key);

        std::copy_n(bytes.begin(), std::min(bytes.size(), size),
                    static_cast<uint8_t *>(out));
        *n = bytes.size();
    });
}

sr1_status sr1__store_has(struct sr1__store *s, const char *const *keys, size_t n,
                          int *yes)
{
    return guard_comm(
        [&] { *yes = s->of->check(std::vector<std::string>(keys, keys + n)); });
}

sr1_status sr1__store_delete(struct sr1__store *s, const char *key)
{
    return guard_comm([&] { s->of->deleteKey(key); });
}

/* ---- process groups ---- */

void sr1__pg_free(struct sr1__process_group *g)
{
    (void)guard_comm([&] { delete g; });
}

void sr1__pg_abandon(struct sr1__process_group *g)
{
    if (g)
        (void)g->of.release();
    delete g;
}

sr1_status sr1__pg_all_reduce(struct sr1__work **out, struct sr1__process_group *g,
                              sr1_tensor *data, int64_t limit_ms)
{
    return begin_work(out, {*borrow(data)}, [&](std::vector<at::Tensor> &t) {
        c10d::AllreduceOptions o;

        o.timeout = limit_of(limit_ms);
        return g->of->allreduce(t, o);
    });
}

sr1_status sr1__pg_broadcast(struct sr1__work **out, struct sr1__process_group *g,
                             sr1_tensor *data, int32_t root, int64_t limit_ms)
{
    return begin_work(out, {*borrow(data)}, [&](std::vector<at::Tensor> &t) {
        c10d::BroadcastOptions o;

        o.rootRank = root;
        o.timeout = limit_of(limit_ms);
        return g->of->broadcast(t, o);
    });
}

sr1_status sr1__pg_all_gather(struct sr1__work **out, struct sr1__process_group *g,
                              sr1_tensor *to, sr1_tensor *from, int64_t limit_ms)
{
    return begin_work(out, {*borrow(to), *borrow(from)}, [&](std::vector<at::Tensor> &t) {
        c10d::AllgatherOptions o;

        o.timeout = limit_of(limit_ms);
        return g->of->_allgather_base(t[0], t[1], o);
    });
}

sr1_status sr1__pg_reduce_scatter(struct sr1__work **out, struct sr1__process_group *g,
                                  sr1_tensor *to, sr1_tensor *from, int64_t limit_ms)
{
    return begin_work(out, {*borrow(to), *borrow(from)}, [&](std::vector<at::Tensor> &t) {
        c10d::ReduceScatterOptions o;

        o.timeout = limit_of(limit_ms);
        return g->of->_reduce_scatter_base(t[0], t[1], o);
    });
}

sr1_status sr1__pg_all_to_all(struct sr1__work **out, struct sr1__process_group *g,
                              sr1_tensor *to, sr1_tensor *from, int64_t limit_ms)
{
    return begin_work(out, {*borrow(to), *borrow(from)}, [&](std::vector<at::Tensor> &t) {
        c10d::AllToAllOptions o;
        std::vector<int64_t> equal;

        o.timeout = limit_of(limit_ms);
        return g->of->alltoall_base(t[0], t[1], equal, equal, o);
    });
}

int sr1__work_is_done(struct sr1__work *w)
{
    bool done = true; /* what it throws, sr1__work_finish throws again and reports */

    (void)guard_comm([&] { done = w->of->isCompleted(); });
    return done;
}

sr1_status sr1__work_finish(struct sr1__work *w)
{
    sr1_status st = guard_comm([&] { w->of->wait(); });

    (void)guard_comm([&] { delete w; });
    return st;
}

void sr1__work_abandon(struct sr1__work *w)
{
    (void)guard_comm([&] { delete w; });
}

} /* extern "C" */
