/* dist/fake_nccl.h - a table in place of libsearchr1_nccl.so's; see fake_nccl.cpp. */
#ifndef SR1_TESTS_DIST_FAKE_NCCL_H
#define SR1_TESTS_DIST_FAKE_NCCL_H

#include "tensor/torch/nccl_table.h"

#ifdef __cplusplus
extern "C" {
#endif

extern int fake_nccl_groups, fake_nccl_calls; /* of this process */
extern struct sr1__nccl_table sr1__nccl_table;

#ifdef __cplusplus
}
#endif
#endif
