/* fuzz_faiss_file.c - the look at a FAISS index before FAISS gets it. */
#include "fuzz.h"

#include "retrieval/search/faiss_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__faiss_meta meta;

    if (sr1__faiss_check(data, size, &meta) == SR1_OK)
        FUZZ_CHECK(meta.dim >= 1 && meta.vectors >= 0 && meta.metric >= 0 &&
                   meta.metric <= 1);
    return 0;
}
