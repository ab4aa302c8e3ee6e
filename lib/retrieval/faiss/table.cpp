/* retrieval/faiss/table.cpp - the one symbol that the bridge exports, and the texts
 * for exceptions. */
#include "retrieval/faiss/guard.h"

#include <faiss/impl/FaissException.h>

#include <cstdio>
#include <new>

/* Of the OpenMP runtime, whose header belongs to one compiler. */
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int n);

namespace sr1
{

static sr1_status say(sr1__faiss_error *error, sr1_status code, const char *text)
{
    snprintf(error->text, sizeof(error->text), "%s", text);
    return code;
}

sr1_status caught(sr1__faiss_error *error) noexcept
{
    try {
        throw;
    } catch (const faiss::FaissException &e) {
        return say(error, SR1_E_INVALID, e.what());
    } catch (const std::bad_alloc &) {
        return say(error, SR1_E_NOMEM, "out of memory for a FAISS index");
    } catch (const std::exception &e) {
        return say(error, SR1_E_INTERNAL, e.what());
    } catch (...) {
        return say(error, SR1_E_INTERNAL, "unknown exception in FAISS");
    }
}

extern "C" int32_t bridge_threads(int32_t n) noexcept
{
    int32_t before = omp_get_max_threads();

    omp_set_num_threads(n);
    return before;
}

} // namespace sr1

extern "C" __attribute__((visibility("default")))
const struct sr1__faiss_table sr1__faiss_table = {sizeof(struct sr1__faiss_table),
                                                  SR1__FAISS_VERSION,
                                                  sr1::bridge_read,
                                                  sr1::bridge_release,
                                                  sr1::bridge_tune,
                                                  sr1::bridge_search,
                                                  sr1::bridge_make,
                                                  sr1::bridge_trained,
                                                  sr1::bridge_train,
                                                  sr1::bridge_add,
                                                  sr1::bridge_write,
                                                  sr1::bridge_threads};
