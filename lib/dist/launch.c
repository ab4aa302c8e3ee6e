/* dist/launch.c - the variables of launchers; see launch.h. Nothing of them is trusted:
 * a rank is below its world's size, a port is one, a host is a name or an address. */
#include "dist/launch.h"

#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 29500 /* torch's */

struct launch_source {
    sr1__environment_fn get;
    void *user;
};

/* The variables of one launcher; NULL where it has none. */
struct launcher_row {
    const char *name;
    const char *within; /* counts only where this is set too; NULL: always */
    const char *rank, *size, *other_size, *local_rank, *local_size;
    const char *nodes; /* where more than one node says so */
};

static const struct launcher_row launchers[] = {
    {"torchrun", NULL, "RANK", "WORLD_SIZE", NULL, "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     NULL},
    {"Open MPI", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL,
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    /* Hydra's, whose proxies inherit Slurm's variables; without its local ones it may be
     * srun's plugin. */
    {"PMI", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS", NULL},
    /* A batch script has Slurm's variables too, and nobody started its other tasks. */
    {"Slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
     "SLURM_LOCALID", NULL, "SLURM_STEP_NUM_NODES"},
    {"PMI", NULL, "PMI_RANK", "PMI_SIZE", NULL, NULL, NULL, NULL},
    {"PMIx", NULL, "PMIX_RANK", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS", NULL, NULL, NULL},
};
#define LAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))

static const char *get_from_process(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

static const char *find_variable(const struct launch_source *s, const char *name)
{
    const char *value = name ? s->get(s->user, name) : NULL;

    return value && *value ? value : NULL;
}

/* At most 40 bytes of a value, for messages: it may be anything. */
static sr1_status refuse_variable(const char *name, const char *value, const char *want)
{
    return sr1__fail(SR1_E_CONFIG, "the environment's %s is '%.40s': %s", name, value,
                     want);
}

static sr1_status read_number(const struct launch_source *s, const char *name,
                              int64_t least, int64_t most, int64_t *out)
{
    const char *value = find_variable(s, name);
    char want[96];

    if (!value)
        return SR1_OK;
    if (sr1__parse_int(value, strnlen(value, 64), out) && *out >= least && *out <= most)
        return SR1_OK;
    snprintf(want, sizeof(want), "it must be a number from %" PRId64 " to %" PRId64,
             least, most);
    return refuse_variable(name, value, want);
}

static sr1_status require_variable(const struct launch_source *s, const char *name,
                                   const char *beside)
{
    if (find_variable(s, name))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "the environment has %s and no %s; a launcher sets both, "
                     "distributed_backend=none ignores them",
                     beside, name);
}

/* ---- rank and size ---- */

static sr1_status read_ranks(const struct launch_source *s,
                             const struct launcher_row *row, struct sr1__launch *l)
{
    const char *size_name =
        !find_variable(s, row->size) && find_variable(s, row->other_size)
            ? row->other_size
            : row->size;
    int64_t rank = 0, size = 1, nodes = 1, local_rank = -1, local_size = 0;

    SR1__TRY(require_variable(s, size_name, row->rank));
    SR1__TRY(read_number(s, size_name, 1, SR1__WORLD_MAX, &size));
    SR1__TRY(read_number(s, row->rank, 0, size - 1, &rank));
    SR1__TRY(read_number(s, row->local_size, 1, size, &local_size));
    SR1__TRY(read_number(s, row->nodes, 1, SR1__WORLD_MAX, &nodes));
    SR1__TRY(read_number(s, row->local_rank, 0, (local_size ? local_size : size) - 1,
                         &local_rank));
    if (local_size == 0) /* as if tasks were spread evenly */
        local_size = nodes < size ? (size + nodes - 1) / nodes : 1;
    if (local_rank >= local_size)
        local_size = local_rank + 1;
    l->rank = (int32_t)rank;
    l->world_size = (int32_t)size;
    l->local_rank = (int32_t)(local_rank >= 0 ? local_rank : rank);
    l->local_world_size = (int32_t)local_size;
    l->launcher = row->name;
    return SR1_OK;
}

/* ---- the store ---- */

static int is_host(const char *s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:%";
    size_t n = strnlen(s, SR1__HOST_MAX);

    return n > 0 && n < SR1__HOST_MAX && strspn(s, allowed) == n;
}

/* The first host of a Slurm list: "node[003-007,9],other" -> "node003". */
static sr1_status read_first_host(const char *list, char out[SR1__HOST_MAX])
{
    size_t n = strcspn(list, "[,"), digits = 0;
    const char *first = list + n + 1, *end = strchr(list, ']');
    int simple = list[n] != '[';

    if (list[n] == '[')
        digits = strspn(first, "0123456789");
    if (digits && end) /* "node[1-2]-ib" goes on behind it */
        simple = end[1] == '\0' || end[1] == ',';
    if (n + digits >= SR1__HOST_MAX || !simple)
        return refuse_variable("SLURM_STEP_NODELIST", list,
                               "its first host cannot be read; set MASTER_ADDR");
    memcpy(out, list, n);
    memcpy(out + n, first, digits);
    out[n + digits] = '\0';
    return SR1_OK;
}

static sr1_status choose_host(const struct launch_source *s,
                              const struct launcher_row *row, struct sr1__launch *l)
{
    const char *given = find_variable(s, "MASTER_ADDR");
    const char *list = find_variable(s, "SLURM_STEP_NODELIST");
    int64_t nodes = 1;

    SR1__TRY(read_number(s, row->nodes, 1, SR1__WORLD_MAX, &nodes));
    snprintf(l->master_addr, sizeof(l->master_addr), "127.0.0.1");
    if (given && !is_host(given))
        return refuse_variable("MASTER_ADDR", given, "it must be a host or an address");
    if (given)
        snprintf(l->master_addr, sizeof(l->master_addr), "%s", given);
    else if (row->nodes && nodes > 1 && list)
        SR1__TRY(read_first_host(list, l->master_addr));
    else if (l->local_world_size < l->world_size || nodes > 1)
        return sr1__fail(SR1_E_CONFIG,
                         "%s started processes on several machines and the environment "
                         "has no MASTER_ADDR; name the machine of rank 0 in it "
                         "(mpirun -x MASTER_ADDR=HOST)",
                         row->name);
    if (!is_host(l->master_addr))
        return refuse_variable("SLURM_STEP_NODELIST", list,
                               "its first host cannot be read; set MASTER_ADDR");
    return SR1_OK;
}

/* Ranks of two jobs on a machine would meet at one port: Slurm's job number chooses. */
static sr1_status choose_port(const struct launch_source *s, struct sr1__launch *l)
{
    int64_t job = 0, port = DEFAULT_PORT;

    if (find_variable(s, "SLURM_STEP_ID") && find_variable(s, "SLURM_JOB_ID")) {
        SR1__TRY(read_number(s, "SLURM_JOB_ID", 0, INT64_MAX, &job));
        port = 15000 + job % 15000;
    }
    SR1__TRY(read_number(s, "MASTER_PORT", 1, 65535, &port));
    l->master_port = (uint16_t)port;
    return SR1_OK;
}

static sr1_status read_store(const struct launch_source *s,
                             const struct launcher_row *row, struct sr1__launch *l)
{
    const char *agent = find_variable(s, "TORCHELASTIC_USE_AGENT_STORE");

    SR1__TRY(choose_host(s, row, l));
    SR1__TRY(choose_port(s, l));
    SR1__TRY(read_number(s, "TORCHELASTIC_RESTART_COUNT", 0, 1000000000, &l->attempt));
    if (agent && strcmp(agent, "True") != 0 && strcmp(agent, "False") != 0)
        return refuse_variable("TORCHELASTIC_USE_AGENT_STORE", agent,
                               "it must be True or False");
    l->agent_store = agent && strcmp(agent, "True") == 0;
    return SR1_OK;
}

/* ---- all of it ---- */

static const struct launcher_row *find_launcher(const struct launch_source *s)
{
    for (size_t i = 0; i < LAUNCHERS; i++) {
        const struct launcher_row *row = &launchers[i];

        if (find_variable(s, row->rank) &&
            (!row->within || find_variable(s, row->within)))
            return row;
    }
    return NULL;
}

sr1_status sr1__launch_read(struct sr1__launch *out, sr1__environment_fn get, void *user)
{
    struct launch_source s = {get ? get : get_from_process, user};
    struct sr1__launch l = {.world_size = 1, .local_world_size = 1, .launcher = ""};
    const struct launcher_row *row = find_launcher(&s);

    if (!row && find_variable(&s, "WORLD_SIZE"))
        SR1__TRY(require_variable(&s, "RANK", "WORLD_SIZE"));
    if (row)
        SR1__TRY(read_ranks(&s, row, &l));
    if (row && l.world_size > 1)
        SR1__TRY(read_store(&s, row, &l));
    *out = l;
    return SR1_OK;
}
