/* searchr1/ext/ranks.h - several processes that evaluate, or make demonstrations, as one
 * job. A launcher (torchrun, mpirun, srun, a shell loop) starts the same program several
 * times and tells each process its number, the rank, in the environment (docs/scale.md).
 *
 * Ownership: free with sr1_ranks_free.
 * Errors:    outputs are untouched on failure. Once a rank is gone or late every call
 *            fails; free the handle and end the process.
 * Threads:   one at a time.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_RANKS_H
#define SEARCHR1_EXT_RANKS_H

#include <searchr1/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_ranks sr1_ranks;

/* Meet the other processes of the job, as the launcher's variables and the keys
 * distributed_* say; without such variables, or with distributed_backend none, the job is
 * this process. SR1_E_CONFIG: a variable is missing or wrong. SR1_E_STATE: the
 * configuration (copied) differs; the text names the keys and the rank. SR1_E_TIMEOUT
 * names the ranks that did not come. Caller frees with sr1_ranks_free. */
SR1_API sr1_status sr1_ranks_open(sr1_ranks **out, const sr1_config *config);

/* Leave the job. NULL is fine. */
SR1_API void sr1_ranks_free(sr1_ranks *ranks);

/* Return this process's number, from 0; 0 for NULL. */
SR1_API int32_t sr1_ranks_rank(const sr1_ranks *ranks);

/* Return how many processes there are; 1 for NULL. */
SR1_API int32_t sr1_ranks_size(const sr1_ranks *ranks);

/* Return the configuration as this process computes by it: its part of the machine's
 * processors (key threads), its GPU (key device). Caller frees with sr1_config_free. */
SR1_API sr1_status sr1_ranks_config(const sr1_ranks *ranks, sr1_config **out);

/* Exchange how far each process came and return the status of all: SR1_OK if every
 * rank's is, else that of one of them, whose text names the rank. Every rank calls it, so
 * that one that cannot open its files ends the others. */
SR1_API sr1_status sr1_ranks_agree(sr1_ranks *ranks, sr1_status status);

#ifdef __cplusplus
}
#endif
#endif
