/* test_launch.c - variables of launchers, as their documentation has them, and values
 * that nobody should believe. */
#include "support/tiny.h"

#include "dist/launch.h"

#include <stdio.h>
#include <string.h>

/* NAME=VALUE with '|' between them. */
static const char *look_up(void *user, const char *name)
{
    static char values[8][600];
    static unsigned next;
    const char *at = user;
    size_t n = strlen(name);

    while (at && *at) {
        size_t whole = strcspn(at, "|");

        if (whole > n && strncmp(at, name, n) == 0 && at[n] == '=') {
            char *value = values[next++ % 8];

            snprintf(value, sizeof values[0], "%.*s", (int)(whole - n - 1), at + n + 1);
            return value;
        }
        at += whole + (at[whole] == '|');
    }
    return NULL;
}

static struct sr1__launch read_environment(const char *variables)
{
    struct sr1__launch l;

    OK(sr1__launch_read(&l, look_up, (void *)(uintptr_t)variables));
    return l;
}

static const struct {
    const char *variables, *launcher;
    int32_t rank, size, local_rank, local_size;
    const char *host;
    int port;
} good[] = {
    {"", "", 0, 1, 0, 1, "", 0},
    {"MASTER_ADDR=h|MASTER_PORT=7", "", 0, 1, 0, 1, "", 0},
    {"RANK=0|WORLD_SIZE=1|LOCAL_RANK=0|MASTER_PORT=nonsense", "torchrun", 0, 1, 0, 1, "",
     0},
    {"RANK=5|WORLD_SIZE=8|LOCAL_RANK=1|LOCAL_WORLD_SIZE=4|MASTER_ADDR=n0|MASTER_PORT="
     "1234",
     "torchrun", 5, 8, 1, 4, "n0", 1234},
    /* a shell loop sets the least */
    {"RANK=1|WORLD_SIZE=2", "torchrun", 1, 2, 1, 2, "127.0.0.1", 29500},
    {"OMPI_COMM_WORLD_RANK=1|OMPI_COMM_WORLD_SIZE=2|OMPI_COMM_WORLD_LOCAL_RANK=1|"
     "OMPI_COMM_WORLD_LOCAL_SIZE=2|PMIX_RANK=1",
     "Open MPI", 1, 2, 1, 2, "127.0.0.1", 29500},
    {"OMPI_COMM_WORLD_RANK=3|OMPI_COMM_WORLD_SIZE=4|OMPI_COMM_WORLD_LOCAL_RANK=1|"
     "OMPI_COMM_WORLD_LOCAL_SIZE=2|MASTER_ADDR=fe80::1",
     "Open MPI", 3, 4, 1, 2, "fe80::1", 29500},
    {"PMI_RANK=2|PMI_SIZE=3|MPI_LOCALRANKID=2|MPI_LOCALNRANKS=3", "PMI", 2, 3, 2, 3,
     "127.0.0.1", 29500},
    {"SLURM_JOB_ID=31|SLURM_STEP_ID=0|SLURM_PROCID=5|SLURM_STEP_NUM_TASKS=8|"
     "SLURM_LOCALID=1|SLURM_STEP_NUM_NODES=2|SLURM_STEP_NODELIST=gpu[007-008,011],x",
     "Slurm", 5, 8, 1, 4, "gpu007", 15031},
    {"SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=2|SLURM_STEP_NUM_NODES=2|"
     "SLURM_STEP_NODELIST=a-1.b,c",
     "Slurm", 0, 2, 0, 1, "a-1.b", 29500},
    /* more on this node than on others */
    {"SLURM_STEP_ID=0|SLURM_PROCID=6|SLURM_NTASKS=8|SLURM_LOCALID=6|SLURM_STEP_NUM_NODES="
     "2|SLURM_STEP_NODELIST=a,b",
     "Slurm", 6, 8, 6, 7, "a", 29500},
    /* srun's plugin of PMI: Slurm knows the places */
    {"PMI_RANK=9|PMI_SIZE=16|SLURM_STEP_ID=0|SLURM_PROCID=9|SLURM_NTASKS=16|SLURM_"
     "LOCALID="
     "1|SLURM_STEP_NUM_NODES=2|SLURM_STEP_NODELIST=n[1-2]",
     "Slurm", 9, 16, 1, 8, "n1", 29500},
    /* Hydra's proxies, started by srun, one a node */
    {"PMI_RANK=3|PMI_SIZE=4|MPI_LOCALRANKID=1|MPI_LOCALNRANKS=2|SLURM_STEP_ID=0|"
     "SLURM_PROCID=1|SLURM_NTASKS=2|MASTER_ADDR=n1",
     "PMI", 3, 4, 1, 2, "n1", 29500},
    {"PMI_RANK=1|PMI_SIZE=2", "PMI", 1, 2, 1, 2, "127.0.0.1", 29500},
    {"SLURM_STEP_ID=0|SLURM_PROCID=1|SLURM_NTASKS=2|SLURM_LOCALID=1", "Slurm", 1, 2, 1, 2,
     "127.0.0.1", 29500},
    /* a batch script, which is no step: nobody else was started */
    {"SLURM_JOB_ID=31|SLURM_PROCID=0|SLURM_NTASKS=8", "", 0, 1, 0, 1, "", 0},
    /* torchrun below srun: its own variables win */
    {"RANK=1|WORLD_SIZE=2|SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=1", "torchrun", 1,
     2, 1, 2, "127.0.0.1", 29500},
};

static void test_launchers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct sr1__launch l = read_environment(good[i].variables);

        if (strcmp(l.launcher, good[i].launcher) != 0 || l.rank != good[i].rank ||
            l.world_size != good[i].size || l.local_rank != good[i].local_rank ||
            l.local_world_size != good[i].local_size ||
            strcmp(l.master_addr, good[i].host) != 0 || l.master_port != good[i].port)
            fail_msg("%s: %s, rank %d of %d, local %d of %d, %s:%d", good[i].variables,
                     l.launcher, l.rank, l.world_size, l.local_rank, l.local_world_size,
                     l.master_addr, l.master_port);
    }
}

static void test_restarts(void **state)
{
    struct sr1__launch l;

    (void)state;
    l = read_environment("RANK=0|WORLD_SIZE=2");
    assert_int_equal(l.attempt, 0);
    assert_false(l.agent_store);
    l = read_environment("RANK=0|WORLD_SIZE=2|TORCHELASTIC_RESTART_COUNT=3|"
                         "TORCHELASTIC_USE_AGENT_STORE=True");
    assert_int_equal(l.attempt, 3);
    assert_true(l.agent_store);
    l = read_environment("RANK=0|WORLD_SIZE=2|TORCHELASTIC_USE_AGENT_STORE=False");
    assert_false(l.agent_store);
}

/* Each is refused with the name of the variable. */
static const struct {
    const char *variables, *names;
} hostile[] = {
    {"RANK=0", "no WORLD_SIZE"},
    {"WORLD_SIZE=2", "no RANK"},
    {"RANK=2|WORLD_SIZE=2", "RANK is '2'"},
    {"RANK=-1|WORLD_SIZE=2", "RANK is '-1'"},
    {"RANK=0x1|WORLD_SIZE=2", "RANK is '0x1'"},
    {"RANK= 1|WORLD_SIZE=2", "RANK is ' 1'"},
    {"RANK=0|WORLD_SIZE=0", "WORLD_SIZE is '0'"},
    {"RANK=0|WORLD_SIZE=99999999999999999999", "WORLD_SIZE is '9999"},
    {"RANK=0|WORLD_SIZE=65537", "WORLD_SIZE is '65537'"},
    {"RANK=0|WORLD_SIZE=2|LOCAL_RANK=2", "LOCAL_RANK is '2'"},
    {"RANK=0|WORLD_SIZE=4|LOCAL_RANK=2|LOCAL_WORLD_SIZE=2", "LOCAL_RANK is '2'"},
    {"RANK=0|WORLD_SIZE=2|LOCAL_WORLD_SIZE=3", "LOCAL_WORLD_SIZE is '3'"},
    {"RANK=0|WORLD_SIZE=2|MASTER_PORT=0", "MASTER_PORT is '0'"},
    {"RANK=0|WORLD_SIZE=2|MASTER_PORT=65536", "MASTER_PORT is '65536'"},
    {"RANK=0|WORLD_SIZE=2|MASTER_ADDR=a b", "MASTER_ADDR is 'a b'"},
    {"RANK=0|WORLD_SIZE=2|MASTER_ADDR=$(id)", "MASTER_ADDR is '$(id)'"},
    {"RANK=0|WORLD_SIZE=2|TORCHELASTIC_RESTART_COUNT=-1", "TORCHELASTIC_RESTART_COUNT"},
    {"RANK=0|WORLD_SIZE=2|TORCHELASTIC_USE_AGENT_STORE=yes",
     "TORCHELASTIC_USE_AGENT_STORE"},
    {"RANK=0|WORLD_SIZE=4|LOCAL_WORLD_SIZE=2", "no MASTER_ADDR"},
    {"OMPI_COMM_WORLD_RANK=1|OMPI_COMM_WORLD_SIZE=2|OMPI_COMM_WORLD_LOCAL_SIZE=1",
     "no MASTER_ADDR"},
    {"OMPI_COMM_WORLD_RANK=1", "no OMPI_COMM_WORLD_SIZE"},
    {"SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=2|SLURM_STEP_NUM_NODES=2",
     "no MASTER_ADDR"},
    {"SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=2|SLURM_STEP_NUM_NODES=2|"
     "SLURM_STEP_NODELIST=n[x]",
     "SLURM_STEP_NODELIST"},
    {"SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=2|SLURM_STEP_NUM_NODES=2|"
     "SLURM_STEP_NODELIST=;rm",
     "SLURM_STEP_NODELIST"},
    {"SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=2|SLURM_STEP_NUM_NODES=2|"
     "SLURM_STEP_NODELIST=n[1-2]-ib",
     "SLURM_STEP_NODELIST"},
    {"SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=2|SLURM_STEP_NUM_NODES=2|"
     "SLURM_STEP_NODELIST=rack[1-2]node[1-4]",
     "SLURM_STEP_NODELIST"},
};

static void test_hostile_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct sr1__launch l = {.rank = 77};

        REFUSED(sr1__launch_read(&l, look_up, (void *)(uintptr_t)hostile[i].variables),
                SR1_E_CONFIG, hostile[i].names);
        assert_int_equal(l.rank, 77); /* nothing was written */
    }
}

static void test_long_host(void **state)
{
    char variables[600];
    struct sr1__launch l;

    (void)state;
    snprintf(variables, sizeof variables, "RANK=0|WORLD_SIZE=2|MASTER_ADDR=%0400d", 1);
    REFUSED(sr1__launch_read(&l, look_up, variables), SR1_E_CONFIG, "MASTER_ADDR");
    snprintf(variables, sizeof variables,
             "SLURM_STEP_ID=0|SLURM_PROCID=0|SLURM_NTASKS=2|SLURM_STEP_NUM_NODES=2|"
             "SLURM_STEP_NODELIST=n[%0400d-2]",
             1);
    REFUSED(sr1__launch_read(&l, look_up, variables), SR1_E_CONFIG,
            "SLURM_STEP_NODELIST");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_hostile_values),
        cmocka_unit_test(test_long_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
