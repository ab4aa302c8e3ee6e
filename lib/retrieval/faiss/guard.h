/* retrieval/faiss/guard.h - a wrapper around every entry of the bridge that turns
 * exceptions into statuses. C++ only. */
#ifndef SR1__FAISS_GUARD_H
#define SR1__FAISS_GUARD_H

#include "retrieval/faiss/bridge.h"

#include <faiss/Index.h>

namespace sr1
{

/* Status and text for the exception being handled. */
sr1_status caught(sr1__faiss_error *error) noexcept;

template <class F> inline sr1_status guard(sr1__faiss_error *error, F &&f) noexcept
{
    try {
        f();
        return SR1_OK;
    } catch (...) {
        return caught(error);
    }
}

/* A handle is the index itself. */
inline faiss::Index *of(sr1__faiss_index *h)
{
    return reinterpret_cast<faiss::Index *>(h);
}

inline const faiss::Index *of(const sr1__faiss_index *h)
{
    return reinterpret_cast<const faiss::Index *>(h);
}

inline sr1__faiss_index *give(faiss::Index *index)
{
    return reinterpret_cast<sr1__faiss_index *>(index);
}

/* The entries of the table. */
extern "C" {
sr1_status bridge_read(sr1__faiss_index **out, const void *bytes, size_t n,
                       sr1__faiss_error *error) noexcept;
void bridge_release(sr1__faiss_index *index) noexcept;
sr1_status bridge_tune(sr1__faiss_index *index, int32_t nprobe, int32_t ef_search,
                       sr1__faiss_error *error) noexcept;
sr1_status bridge_search(const sr1__faiss_index *index, const float *queries, int64_t n,
                         int64_t k, float *distances, int64_t *ids,
                         sr1__faiss_error *error) noexcept;
sr1_status bridge_make(sr1__faiss_index **out, int32_t dim, const char *factory,
                       int32_t metric, sr1__faiss_error *error) noexcept;
int32_t bridge_trained(const sr1__faiss_index *index) noexcept;
sr1_status bridge_train(sr1__faiss_index *index, const float *vectors, int64_t n,
                        sr1__faiss_error *error) noexcept;
sr1_status bridge_add(sr1__faiss_index *index, const float *vectors, int64_t n,
                      sr1__faiss_error *error) noexcept;
sr1_status bridge_write(const sr1__faiss_index *index, sr1__faiss_put put, void *arg,
                        sr1__faiss_error *error) noexcept;
int32_t bridge_threads(int32_t n) noexcept;
}

} // namespace sr1

#endif
