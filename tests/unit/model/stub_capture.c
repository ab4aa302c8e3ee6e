/* In libsearchr1_cuda.so's place (test_capture_bridge.c): with STUB_VERSION a table of
 * that version, without it none. It takes a while to load, as the real one does. */
#include "tensor/torch/graph_capture.h"

#include <time.h>

#define API __attribute__((visibility("default")))

__attribute__((constructor)) static void load_slowly(void)
{
    const struct timespec t = {0, 200 * 1000 * 1000};

    nanosleep(&t, NULL);
}

#ifdef STUB_VERSION
static sr1_status fail_split_heads(sr1_tensor **queries, const struct sr1__split_heads *h,
                                   struct sr1__capture_error *error)
{
    (void)queries, (void)h, (void)error;
    return SR1_E_DEVICE;
}

API const struct sr1__capture_table sr1__capture_table = {
    .size = sizeof(struct sr1__capture_table),
    .version = STUB_VERSION,
    .split_heads = fail_split_heads};
#else
API int sr1__capture_nothing;
#endif
