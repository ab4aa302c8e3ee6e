/* dist/launch.h - which process of how many this one is, as its launcher says in the
 * environment.
 *
 *     torchrun    RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
 *                 TORCHELASTIC_RESTART_COUNT TORCHELASTIC_USE_AGENT_STORE; a shell loop
 *                 sets the same
 *     Open MPI    OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE ..._LOCAL_RANK ..._LOCAL_SIZE
 *     PMI         PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS (MPICH, Intel MPI)
 *     Slurm       SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID, in a step of srun only
 *     PMI         without the local ones
 *     PMIx        PMIX_RANK, with PMIX_SIZE where the launcher gives it
 *
 * The first that says a rank wins. Without any, the world is one process. */
#ifndef SR1__DIST_LAUNCH_H
#define SR1__DIST_LAUNCH_H

#include "base/error.h"

#define SR1__HOST_MAX 256
#define SR1__WORLD_MAX 65536

struct sr1__launch {
    int32_t rank, world_size;
    int32_t local_rank, local_world_size; /* of those on this machine */
    char master_addr[SR1__HOST_MAX];      /* of the store's server */
    uint16_t master_port;
    int64_t attempt;      /* restarts so far, by torchrun */
    int32_t agent_store;  /* the launcher hosts the store: rank 0 does not */
    const char *launcher; /* "torchrun", "Open MPI", ...; "" for one process; static */
};

/* A variable's value, NULL where it is not set. */
typedef const char *(*sr1__environment_fn)(void *user, const char *name);

/* Read the launcher's variables; `get` NULL: those of the process. SR1_E_CONFIG names a
 * variable that is missing or no number within its bounds. */
sr1_status sr1__launch_read(struct sr1__launch *out, sr1__environment_fn get, void *user);

/* The world's size alone, of which a rank need not be known: WORLD_SIZE will do. 1 where
 * no variable tells. */
sr1_status sr1__launch_world_size(int32_t *out);

#endif
