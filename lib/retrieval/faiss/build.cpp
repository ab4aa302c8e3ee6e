/* retrieval/faiss/build.cpp - build and write FAISS indexes. */
#include "retrieval/faiss/guard.h"

#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <faiss/IndexIVFPQ.h>
#include <faiss/IndexPQ.h>
#include <faiss/IndexScalarQuantizer.h>
#include <faiss/impl/FaissException.h>
#include <faiss/impl/io.h>
#include <faiss/index_factory.h>
#include <faiss/index_io.h>

#include <memory>

namespace sr1
{

namespace
{

struct put_writer : faiss::IOWriter {
    sr1__faiss_put put;
    void *arg;

    put_writer(sr1__faiss_put p, void *a) : put(p), arg(a)
    {
        name = "index";
    }

    size_t operator()(const void *bytes, size_t size, size_t n) override
    {
        return put(arg, bytes, size * n) == 0 ? n : 0;
    }
};

/* FAISS warns on stderr if a centroid has few points; for the caller the documentation
 * has this. */
void hush(faiss::ClusteringParameters &cp)
{
    cp.min_points_per_centroid = 1;
}

/* Is it one of those that can be read again, all of whose training is silent? */
bool prepare(faiss::Index *index)
{
    auto *ivf = dynamic_cast<faiss::IndexIVF *>(index);
    auto *ivf_pq = dynamic_cast<faiss::IndexIVFPQ *>(index);
    auto *pq = dynamic_cast<faiss::IndexPQ *>(index);

    if (auto *graph = dynamic_cast<faiss::IndexHNSW *>(index))
        return prepare(graph->storage);
    if (ivf)
        hush(ivf->cp);
    if (ivf_pq) {
        hush(ivf_pq->pq.cp);
        ivf_pq->do_polysemous_training = false; /* it is for Hamming distances */
    }
    if (pq) {
        hush(pq->pq.cp);
        pq->do_polysemous_training = false;
    }
    return ivf_pq || pq || dynamic_cast<faiss::IndexFlat *>(index) ||
           dynamic_cast<faiss::IndexIVFFlat *>(index) ||
           dynamic_cast<faiss::IndexScalarQuantizer *>(index) ||
           dynamic_cast<faiss::IndexIVFScalarQuantizer *>(index);
}

} // namespace

extern "C" sr1_status bridge_make(sr1__faiss_index **out, int32_t dim,
                                  const char *factory, int32_t metric,
                                  sr1__faiss_error *error) noexcept
{
    return guard(error, [&] {
        std::unique_ptr<faiss::Index> index(
            faiss::index_factory(dim, factory, (faiss::MetricType)metric));

        if (!prepare(index.get()))
            throw faiss::FaissException("such an index cannot be built here; use FAISS");
        *out = give(index.release());
    });
}

extern "C" int32_t bridge_trained(const sr1__faiss_index *index) noexcept
{
    return of(index)->is_trained;
}

extern "C" sr1_status bridge_train(sr1__faiss_index *index, const float *vectors,
                                   int64_t n, sr1__faiss_error *error) noexcept
{
    return guard(error, [&] { of(index)->train(n, vectors); });
}

extern "C" sr1_status bridge_add(sr1__faiss_index *index, const float *vectors, int64_t n,
                                 sr1__faiss_error *error) noexcept
{
    return guard(error, [&] { of(index)->add(n, vectors); });
}

extern "C" sr1_status bridge_write(const sr1__faiss_index *index, sr1__faiss_put put,
                                   void *arg, sr1__faiss_error *error) noexcept
{
    return guard(error, [&] {
        put_writer writer(put, arg);

        faiss::write_index(of(index), &writer);
    });
}

} // namespace sr1
