/* dist/server_group.h - this process and the workers of one generation server as the
 * ranks of an NCCL communicator: rank 0 broadcasts weights.
 *
 * NCCL's own interface is used, not torch's process group: its ranks find one another by
 * a unique id, which the server is told in a request, and torch's own keys in a store are
 * not needed. No call waits longer than it is told. A group after an error is good for
 * nothing but sr1__server_group_close. Calls on one group come from one thread at a time;
 * other groups do not wait for it. */
#ifndef SR1__DIST_SERVER_GROUP_H
#define SR1__DIST_SERVER_GROUP_H

#include "tensor/torch/nccl_calls.h"
#include "tensor/torch/shim.h"

#include <stdatomic.h>

struct sr1__server_group;

/* How long a call waits: SR1_E_TIMEOUT once it is sr1__now() later than the deadline,
 * SR1_E_CANCELLED once the flag is not 0. */
struct sr1__group_wait {
    double deadline;
    const atomic_int *given_up;
};

/* The name of a new group. */
sr1_status sr1__server_group_id(struct sr1__nccl_id *out);
/* Join it as rank 0 of size, for tensors on `device`, while the other ranks join it too.
 * They begin with a sum of one fp32 number, as vLLM's communicator does. */
sr1_status sr1__server_group_open(struct sr1__server_group **out, sr1__device device,
                                  const struct sr1__nccl_id *id, int32_t size,
                                  const struct sr1__group_wait *wait);
/* Broadcast a dense tensor (fp32, bf16, fp16) to the others, once what was launched on
 * its device before is done. When it returns they have it. */
sr1_status sr1__server_group_send(struct sr1__server_group *g, sr1_tensor *t,
                                  const struct sr1__group_wait *wait);
/* Ends what is under way. NULL is fine. */
void sr1__server_group_close(struct sr1__server_group *g);

#endif
