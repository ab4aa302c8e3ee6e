/* retrieval/faiss/use.cpp - read and search FAISS indexes. */
#include "retrieval/faiss/guard.h"

#include <faiss/IndexHNSW.h>
#include <faiss/IndexIDMap.h>
#include <faiss/IndexIVF.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/impl/io.h>
#include <faiss/index_io.h>

#include <cstring>

namespace sr1
{

namespace
{

/* Bytes in memory; a read past their end gives what there is, which FAISS refuses. */
struct bytes_reader : faiss::IOReader {
    const char *p;
    size_t left;

    bytes_reader(const void *bytes, size_t n)
        : p(static_cast<const char *>(bytes)), left(n)
    {
        name = "index";
    }

    size_t operator()(void *to, size_t size, size_t n) override
    {
        size_t whole = size == 0 || n < left / size ? n : left / size;

        if (whole > 0)
            memcpy(to, p, size * whole);
        p += size * whole;
        left -= size * whole;
        return whole;
    }
};

/* The index behind maps and transforms. */
faiss::Index *innermost(faiss::Index *index)
{
    if (auto *map = dynamic_cast<faiss::IndexIDMap *>(index))
        return innermost(map->index);
    if (auto *transformed = dynamic_cast<faiss::IndexPreTransform *>(index))
        return innermost(transformed->index);
    return index;
}

} // namespace

extern "C" sr1_status bridge_read(sr1__faiss_index **out, const void *bytes, size_t n,
                                  sr1__faiss_error *error) noexcept
{
    return guard(error, [&] {
        bytes_reader reader(bytes, n);

        *out = give(faiss::read_index(&reader));
    });
}

extern "C" void bridge_release(sr1__faiss_index *index) noexcept
{
    delete of(index);
}

extern "C" sr1_status bridge_tune(sr1__faiss_index *index, int32_t nprobe,
                                  int32_t ef_search, sr1__faiss_error *error) noexcept
{
    return guard(error, [&] {
        faiss::Index *inner = innermost(of(index));
        auto *ivf = dynamic_cast<faiss::IndexIVF *>(inner);
        auto *graph = dynamic_cast<faiss::IndexHNSW *>(inner);

        if (ivf && nprobe > 0)
            ivf->nprobe = (size_t)nprobe;
        if (graph && ef_search > 0)
            graph->hnsw.efSearch = ef_search;
    });
}

extern "C" sr1_status bridge_search(const sr1__faiss_index *index, const float *queries,
                                    int64_t n, int64_t k, float *distances, int64_t *ids,
                                    sr1__faiss_error *error) noexcept
{
    return guard(error, [&] { of(index)->search(n, queries, k, distances, ids); });
}

} // namespace sr1
