/* In libsearchr1_cuda.so's place (test_capture_bridge.c): with STUB_VERSION a table of
 * that version, without it none. */
#include "tensor/torch/graph_capture.h"

#define API __attribute__((visibility("default")))

#ifdef STUB_VERSION
API const struct sr1__capture_table sr1__capture_table = {
    .size = sizeof(struct sr1__capture_table), .version = STUB_VERSION};
#else
API int sr1__capture_nothing;
#endif
