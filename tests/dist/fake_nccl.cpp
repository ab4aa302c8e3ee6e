/* fake_nccl.cpp - stands for libsearchr1_nccl.so: a backend of c10d's over Gloo on the
 * CPU, behind the table of tensor/torch/nccl_table.h. It adds up from the last rank to
 * the first, so that sums tell who added them, and counts its collectives. */
#include "dist/fake_nccl.h"

#include "tensor/torch/comm_guard.h"

#include <ATen/ops/empty_like.h>

#include <cstdio>
#include <cstdlib>

int fake_nccl_groups, fake_nccl_calls;

namespace
{

struct done_work : c10d::Work {
    done_work()
    {
        finish();
    }
};

c10::intrusive_ptr<c10d::Work> done()
{
    fake_nccl_calls++;
    return c10::make_intrusive<done_work>();
}

class fake_nccl : public c10d::Backend
{
  public:
    explicit fake_nccl(c10::intrusive_ptr<c10d::Backend> of)
        : c10d::Backend(of->getRank(), of->getSize()), of_(std::move(of))
    {
    }

    const std::string getBackendName() const override
    {
        return "fake";
    }

    void setSequenceNumberForGroup() override
    {
    }

    uint64_t getSequenceNumberForGroup() override
    {
        return (uint64_t)fake_nccl_calls;
    }

    c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor &to, at::Tensor &from,
                                                 std::vector<int64_t> &to_sizes,
                                                 std::vector<int64_t> &from_sizes,
                                                 const c10d::AllToAllOptions &o) override
    {
        of_->alltoall_base(to, from, to_sizes, from_sizes, o)->wait();
        return done();
    }

    c10::intrusive_ptr<c10d::Work>
    _allgather_base(at::Tensor &to, at::Tensor &from,
                    const c10d::AllgatherOptions &o) override
    {
        of_->_allgather_base(to, from, o)->wait();
        return done();
    }

    c10::intrusive_ptr<c10d::Work>
    _reduce_scatter_base(at::Tensor &to, at::Tensor &from,
                         const c10d::ReduceScatterOptions &) override
    {
        std::vector<int64_t> equal;
        at::Tensor got = at::empty_like(from);
        int64_t part = to.numel();

        of_->alltoall_base(got, from, equal, equal, c10d::AllToAllOptions())->wait();
        to.copy_(got.narrow(0, (getSize() - 1) * part, part));
        for (int r = getSize() - 2; r >= 0; r--)
            to.add_(got.narrow(0, r * part, part));
        return done();
    }

    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor> &t,
                                             const c10d::AllreduceOptions &o) override
    {
        of_->allreduce(t, o)->wait();
        return done();
    }

  private:
    c10::intrusive_ptr<c10d::Backend> of_;
};

sr1_status open_fake(struct sr1__process_group **out, struct sr1__store *store,
                     int32_t rank, int32_t size, sr1__device device, int64_t limit_ms,
                     struct sr1__nccl_error *error)
{
    struct sr1__process_group *gloo = nullptr;
    sr1_status st = device == SR1__CPU ? SR1_OK : SR1_E_CONFIG;

    if (std::getenv("FAKE_NCCL_FAILS")) {
        snprintf(error->text, sizeof error->text, "no such wire\nframe #0: nowhere");
        return SR1_E_DEVICE;
    }
    if (st == SR1_OK)
        st = sr1__pg_gloo(&gloo, store, rank, size, nullptr, limit_ms);
    if (st != SR1_OK)
        return st;
    *out = new sr1__process_group{c10::make_intrusive<fake_nccl>(gloo->of)};
    sr1__pg_free(gloo);
    fake_nccl_groups++;
    return SR1_OK;
}

} // namespace

extern "C" __attribute__((visibility("default"))) struct sr1__nccl_table sr1__nccl_table;
struct sr1__nccl_table sr1__nccl_table = {sizeof(struct sr1__nccl_table),
                                          SR1__NCCL_VERSION, open_fake};
