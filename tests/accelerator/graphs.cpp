/* graphs.cpp - what the simulated accelerator does later: graphs that are replayed, and
 * copies to the host that arrive when an event is waited for.
 *
 * A capture computes each kernel as it comes, since the sizes of results are needed, and
 * then puts back what the kernels have written, so that it has run nothing. */
#include "simulation.h"

#include "tensor/torch/torch_guard.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstring>
#include <mutex>

/* A graph: its kernels, and the memory that they use. */
struct sr1__graph {
    std::vector<std::function<void()>> kernels;
    std::shared_ptr<sim::pool> memory;
    std::shared_ptr<sim::contents> before; /* of a capture that is open */
};

namespace
{

thread_local sr1__graph *open_graph;
thread_local bool replaying;
std::string failing; /* the call that fails */

[[noreturn]] void fail(const std::string &text)
{
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 900,
                                "sim error: " + text);
}

void let_fail(const char *call)
{
    if (failing == call)
        fail(std::string("graphs: ") + call + " was let fail");
}

template <class F> sr1_status guard(struct sr1__capture_error *error, F &&f) noexcept
{
    try {
        f();
        return SR1_OK;
    } catch (const c10::OutOfMemoryError &e) {
        snprintf(error->text, sizeof error->text, "%s", e.what_without_backtrace());
        return SR1_E_DEVICE_NOMEM;
    } catch (const c10::Error &e) {
        snprintf(error->text, sizeof error->text, "%s", e.what_without_backtrace());
    } catch (const std::exception &e) {
        snprintf(error->text, sizeof error->text, "%s", e.what());
    }
    return SR1_E_DEVICE;
}

sr1_status begin(sr1__graph **out, int32_t, sr1__graph *beside,
                 struct sr1__capture_error *error) noexcept
{
    return guard(error, [&] {
        auto g = std::make_unique<sr1__graph>();

        sim::require_device();
        let_fail("begin");
        TORCH_CHECK(!open_graph, "sim: a capture is open");
        g->memory = beside ? beside->memory : sim::make_pool();
        g->before = sim::make_contents();
        sim::enter_pool(g->memory);
        *out = open_graph = g.release();
    });
}

sr1_status end(sr1__graph *g, struct sr1__capture_error *error) noexcept
{
    return guard(error, [&] {
        TORCH_CHECK(open_graph == g, "sim: this capture is not open");
        open_graph = nullptr;
        sim::enter_pool(nullptr);
        sim::restore_contents(*g->before, g->memory);
        g->before.reset();
        let_fail("end");
        sim::count_capture();
    });
}

sr1_status replay(sr1__graph *g, struct sr1__capture_error *error) noexcept
{
    sr1_status status = guard(error, [&] {
        c10::InferenceMode kernels_of_a_device_record_nothing;
        sim::kernel one("graph");

        let_fail("replay");
        replaying = true;
        for (const auto &again : g->kernels)
            again();
    });

    replaying = false;
    return status;
}

void free_graph(sr1__graph *g)
{
    delete g;
}

/* The kernels of a table cannot be compiled. */
bool lacks_compiler(struct sr1__capture_error *error)
{
    if (failing != "compiler")
        return false;
    snprintf(error->text, sizeof error->text, "sim: no compiler");
    return true;
}

sr1_status swiglu(sr1_tensor **out, sr1_tensor *gate_up,
                  struct sr1__capture_error *error) noexcept
{
    if (lacks_compiler(error))
        return SR1_E_UNSUPPORTED;
    return guard(error, [&] {
        sr1::borrow x(gate_up);

        *out = sr1::give(sim::swiglu(*x));
    });
}

sr1_status split_heads(sr1_tensor **queries, const struct sr1__split_heads *h,
                       struct sr1__capture_error *error) noexcept
{
    if (lacks_compiler(error))
        return SR1_E_UNSUPPORTED;
    return guard(error, [&] { *queries = sr1::give(sim::split_heads(h)); });
}

/* ---- copies to the host ---- */

struct later {
    at::Tensor from, to;
    int64_t number;
};

std::mutex lock; /* of both */
std::vector<later> under_way;
int64_t launched;

} // namespace

namespace sim
{

bool is_capturing()
{
    return open_graph != nullptr;
}

bool is_replaying()
{
    return replaying;
}

bool captures_kernel()
{
    return open_graph && depth() == 1;
}

void capture(std::function<void()> again)
{
    open_graph->kernels.push_back(std::move(again));
}

void before_write(const at::Tensor &t)
{
    if (captures_kernel() && t.defined() && t.is_privateuseone())
        save_block(open_graph->before.get(), t.data_ptr());
}

at::Tensor alias_of(const at::Tensor &t)
{
    if (!t.defined() || !t.is_privateuseone())
        return t;

    c10::Storage memory(c10::Storage::use_byte_size_t(), t.storage().nbytes(),
                        c10::DataPtr(t.storage().mutable_data(), t.device()), nullptr,
                        false);
    at::Tensor a = at::detail::make_tensor<c10::TensorImpl>(std::move(memory),
                                                            t.key_set(), t.dtype());

    a.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(),
                                                   t.storage_offset());
    return a;
}

void refuse_in_capture(const char *what)
{
    if (open_graph && depth() == 0)
        fail(std::string(what) + " while a graph is captured");
}

void copy_down_later(const at::Tensor &from, const at::Tensor &to)
{
    std::lock_guard<std::mutex> hold(lock);

    TORCH_CHECK(to.is_contiguous(), "sim: the host's side must be dense");
    memset(to.data_ptr(), 0xff, to.nbytes());
    under_way.push_back({from, to, ++launched});
}

void *record_event(void *event)
{
    std::lock_guard<std::mutex> hold(lock);
    int64_t *at = event ? static_cast<int64_t *>(event) : new int64_t;

    *at = launched;
    return at;
}

void wait_for_event(void *event)
{
    std::lock_guard<std::mutex> hold(lock);
    int64_t until = *static_cast<int64_t *>(event);
    std::vector<later> left;

    refuse_in_capture("an event");
    require_device();
    count_wait();
    for (later &c : under_way) {
        if (c.number <= until)
            c.to.copy_(c.from);
        else
            left.push_back(c);
    }
    under_way = std::move(left);
}

void free_event(void *event)
{
    delete static_cast<int64_t *>(event);
}

} // namespace sim

extern "C" {

void accelerator_fail_graph(const char *call)
{
    failing = call ? call : "";
}

extern ACCELERATOR_API const struct sr1__capture_table sr1__capture_table;
const struct sr1__capture_table sr1__capture_table = {sizeof(struct sr1__capture_table),
                                                      SR1__CAPTURE_VERSION,
                                                      begin,
                                                      end,
                                                      replay,
                                                      free_graph,
                                                      swiglu,
                                                      split_heads};

} /* extern "C" */
