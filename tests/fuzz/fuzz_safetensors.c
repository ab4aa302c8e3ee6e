/* fuzz_safetensors.c - in a file that opens, every tensor lies inside the file, has the
 * size its shape says, and is found by its name. */
#include "fuzz.h"

#include "tensor/weights/safetensors.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* The bytes as a file that costs no disk. */
static void write_file(int fd, const uint8_t *data, size_t size)
{
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void check_tensor(const struct sr1__weights *w, const struct sr1__weight *t,
                         size_t size)
{
    const unsigned char *bytes = t->data;
    uint64_t n = sr1__weight_dtype_size(t->dtype);
    unsigned sum = 0;

    for (int32_t d = 0; d < t->n_dims; d++)
        n *= (uint64_t)t->shape[d];
    FUZZ_CHECK(n == t->n_bytes && n <= size);
    for (uint64_t i = 0; i < n; i++)
        sum += bytes[i];
    FUZZ_CHECK(sum <= 255 * n);
    FUZZ_CHECK(sr1__weights_find(w, t->name) == t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    struct sr1__weights *w = NULL;

    if (fd < 0) {
        fd = memfd_create("fuzz.safetensors", 0);
        FUZZ_CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    write_file(fd, data, size);
    if (sr1__weights_open(&w, path) == SR1_OK)
        for (size_t i = 0; i < sr1__weights_count(w); i++)
            check_tensor(w, sr1__weights_at(w, i), size);
    sr1__weights_close(w);
    return 0;
}
