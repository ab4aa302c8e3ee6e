/* environment/sandbox/launch_plan.c - launch a program under bubblewrap, or with limits
 * only.
 *
 *     (in the jail, where there is one)
 *     bwrap                new namespaces, mounts, no capabilities, system calls filtered
 *       init (pid 1)       limits on processes and file size, then "started"
 *         python3 main.py
 *
 * init (init/init.c) is the namespace's first process: when the program ends, init ends,
 * and the kernel kills every process that the program left behind. bubblewrap waits for
 * init, so the end of bubblewrap means that no process is left, and its resource usage is
 * that of all of them.
 *
 * Code, input and files are passed in memory: nothing is written to a disk. */
#include "environment/sandbox/launch_plan.h"

#include "base/file.h"
#include "base/mem.h"
#include "environment/sandbox/bubblewrap.h"
#include "environment/sandbox/filter.h"
#include "environment/sandbox/spawn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The user of programs if this process is root, because RLIMIT_NPROC does not bind root.
 */
#define NOBODY 65534U
#define OPEN_FILES 512
#define MIB ((int64_t)1 << 20)

/* ---- finding the parts ---- */

static const char *first_executable(const char *const *paths)
{
    for (; *paths != NULL; paths++)
        if (access(*paths, X_OK) == 0)
            return *paths;
    return NULL;
}

sr1_status sr1__launch_plan_init(struct sr1__launch_plan *p, const sr1_sandbox_options *o)
{
    static const char *const bwraps[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", NULL};
    static const char *const pythons[] = {"/usr/bin/python3", "/usr/local/bin/python3",
                                          "/bin/python3", NULL};
    const char *given[] = {o->interpreter, NULL};
    const char *isolation = o->isolation != NULL ? o->isolation : "";

    memset(p, 0, sizeof *p);
    sr1__buf_init(&p->filter, 0);
    sr1__jail_init(&p->jail);
    p->o = o;
    p->with_proc = 1;
    p->isolated = strcmp(isolation, "none") != 0;
    if (p->isolated && strcmp(isolation, "bubblewrap") != 0)
        return sr1__fail(SR1_E_INVALID,
                         "sandbox: isolation is '%.40s'; it must be bubblewrap or none",
                         isolation);
    p->python = first_executable(o->interpreter != NULL ? given : pythons);
    if (p->python == NULL || *p->python != '/')
        return sr1__fail(
            SR1_E_UNSUPPORTED,
            "sandbox: no interpreter %s: install python3, or name one by its "
            "absolute path",
            o->interpreter != NULL ? o->interpreter : "/usr/bin/python3");
    if (!p->isolated)
        return SR1_OK;
    if ((p->bwrap = first_executable(bwraps)) == NULL)
        return sr1__fail(
            SR1_E_UNSUPPORTED,
            "sandbox: programs cannot be isolated: there is no /usr/bin/bwrap; "
            "install the package bubblewrap, or set isolation to none for "
            "programs that you trust");
    return sr1__filter_make(&p->filter);
}

void sr1__launch_plan_free(struct sr1__launch_plan *p)
{
    sr1__buf_free(&p->filter);
    sr1__jail_close(&p->jail);
}

static sr1_status give_input(struct sr1__spawn *s, const struct sr1__sandbox_job *job)
{
    return job->socket >= 0 ? sr1__spawn_give_copy(s, job->socket)
                            : sr1__spawn_give_bytes(s, job->input.data, job->input.n);
}

/* ---- isolated ---- */

/* Descriptors 0 to 7, those of further files, and init, in this order. */
static sr1_status open_isolated(const struct sr1__launch_plan *p,
                                const struct sr1__sandbox_job *job, struct sr1__spawn *s,
                                struct sr1__process_tree *l)
{
    struct sr1__buf args;
    sr1_status st;

    SR1__TRY(give_input(s, job));
    SR1__TRY(sr1__spawn_listen(s, &l->out));
    SR1__TRY(sr1__spawn_listen(s, &l->note));
    SR1__TRY(sr1__spawn_listen(s, &l->err));
    sr1__buf_init(&args, 0);
    sr1__bwrap_run(&args,
                   &(struct sr1__bwrap_program){p->o, job, sr1__jail_is_open(&p->jail),
                                                p->with_proc, p->filter.len > 0});
    st = sr1__buf_status(&args, "bubblewrap's arguments");
    if (st == SR1_OK)
        st = sr1__spawn_give_bytes(s, args.data, args.len);
    sr1__buf_free(&args);
    SR1__TRY(st);
    SR1__TRY(sr1__spawn_listen(s, &l->info));
    SR1__TRY(sr1__spawn_give_bytes(s, p->filter.data, p->filter.len));
    SR1__TRY(sr1__spawn_give_bytes(s, job->code.data, job->code.n));
    for (size_t i = 0; i < job->n_files; i++)
        SR1__TRY(
            sr1__spawn_give_bytes(s, job->files[i].bytes.data, job->files[i].bytes.n));
    return sr1__jail_is_open(&p->jail)
               ? SR1_OK
               : sr1__spawn_give_bytes(s, sr1__bwrap_init, sr1__bwrap_init_bytes);
}

/* argv of n_fixed + the job's arguments + NULL; NULL: no memory. */
static const char **make_argv(const char *const *fixed, size_t n_fixed,
                              const struct sr1__sandbox_job *job)
{
    const char **argv = sr1__calloc(n_fixed + job->n_args + 1, sizeof(*argv));

    if (argv == NULL)
        return NULL;
    memcpy(argv, fixed, n_fixed * sizeof *fixed);
    for (size_t i = 0; i < job->n_args; i++)
        argv[n_fixed + i] = job->args[i];
    return argv;
}

static sr1_status spawn_program(struct sr1__spawn *s, const char **argv,
                                struct sr1__process_tree *l)
{
    SR1__CHECK_ALLOC(argv, "a program's arguments");
    s->argv = (char *const *)argv;
    return sr1__spawn(s, &l->pid, &l->pidfd);
}

static uint32_t user_of_programs(void)
{
    return geteuid() == 0 ? NOBODY : 0;
}

sr1_status sr1__launch_plan_enclose(struct sr1__launch_plan *p, int32_t programs)
{
    return sr1__jail_open(&p->jail, p->bwrap, p->o, programs, user_of_programs());
}

static sr1_status enter_jail(struct sr1__launch_plan *p, struct sr1__spawn *s,
                             struct sr1__process_tree *l)
{
    const struct sr1__jail *j = &p->jail;

    if (!sr1__jail_is_open(j))
        return SR1_OK;
    SR1__TRY(sr1__jail_take_net(&p->jail, &l->net));
    s->spaces[s->n_spaces++] = j->user;
    s->spaces[s->n_spaces++] = j->mount;
    s->spaces[s->n_spaces++] = l->net;
    return SR1_OK;
}

static sr1_status launch_isolated(struct sr1__launch_plan *p,
                                  const struct sr1__sandbox_job *job,
                                  struct sr1__spawn *s, struct sr1__process_tree *l)
{
    static const char *const no_environment[] = {NULL};
    char processes[16], bytes[24];
    const char *fixed[] = {p->bwrap,  "--args", "4",       "--",     SR1__BWRAP_INIT,
                           processes, bytes,    p->python, "main.py"};
    const char **argv;
    sr1_status st;

    (void)snprintf(processes, sizeof processes, "%d", job->limits.processes + 1);
    (void)snprintf(bytes, sizeof bytes, "%" PRId64, p->o->file_mib * MIB);
    SR1__TRY(open_isolated(p, job, s, l));
    SR1__TRY(enter_jail(p, s, l));
    s->path = p->bwrap;
    s->envp = (char *const *)no_environment;
    s->drop_to = user_of_programs();
    s->file_bytes = SR1__SPAWN_NO_LIMIT;
    argv = make_argv(fixed, sizeof fixed / sizeof *fixed, job);
    st = spawn_program(s, argv, l);
    sr1__free(argv);
    return st;
}

/* ---- without isolation ---- */

static sr1_status write_file(const char *folder, const char *name,
                             const struct sr1__job_bytes *bytes)
{
    char *path = sr1__path_join(folder, name);
    char *end = path != NULL ? strrchr(path, '/') : NULL;
    sr1_status st;

    SR1__CHECK_ALLOC(end, "a program's file");
    *end = '\0';
    st = sr1__dir_make(path);
    *end = '/';
    if (st == SR1_OK) {
        FILE *f = fopen(path, "wxe");
        int bad = f == NULL || fwrite(bytes->data, 1, bytes->n, f) != bytes->n;

        if (f != NULL)
            bad |= fclose(f) != 0;
        if (bad)
            st = sr1__fail_errno("write", path);
    }
    sr1__free(path);
    return st;
}

static sr1_status make_folder(const struct sr1__sandbox_job *job,
                              struct sr1__process_tree *l)
{
    const char *under = getenv("TMPDIR");

    l->folder = sr1__path_join(under != NULL && *under == '/' ? under : "/tmp",
                               "searchr1-run-XXXXXX");
    SR1__CHECK_ALLOC(l->folder, "a program's folder");
    if (mkdtemp(l->folder) == NULL) {
        sr1__free(l->folder);
        l->folder = NULL;
        return sr1__fail_errno("make", "a folder for a program");
    }
    SR1__TRY(write_file(l->folder, "main.py", &job->code));
    for (size_t i = 0; i < job->n_files; i++)
        SR1__TRY(write_file(l->folder, job->files[i].path, &job->files[i].bytes));
    return SR1_OK;
}

static sr1_status start_bare(const struct sr1__launch_plan *p,
                             const struct sr1__sandbox_job *job, struct sr1__spawn *s,
                             struct sr1__process_tree *l)
{
    const char *fixed[] = {p->python, "main.py"};
    const char *envp[SR1__BWRAP_ENVIRONMENT + 2] = {NULL};
    struct sr1__buf home;
    const char **argv;
    sr1_status st;

    sr1__buf_init(&home, 0);
    sr1__buf_fmt(&home, "HOME=%s", l->folder);
    st = sr1__buf_status(&home, "environment of a program");
    memcpy(envp, sr1__program_environment, sizeof sr1__program_environment);
    envp[SR1__BWRAP_ENVIRONMENT] = home.data;
    s->path = p->python;
    s->folder = l->folder;
    s->envp = (char *const *)envp;
    s->file_bytes = p->o->file_mib * MIB;
    argv = make_argv(fixed, 2, job);
    if (st == SR1_OK)
        st = spawn_program(s, argv, l);
    sr1__free(argv);
    sr1__buf_free(&home);
    return st;
}

static sr1_status launch_bare(const struct sr1__launch_plan *p,
                              const struct sr1__sandbox_job *job, struct sr1__spawn *s,
                              struct sr1__process_tree *l)
{
    SR1__TRY(make_folder(job, l));
    SR1__TRY(give_input(s, job));
    SR1__TRY(sr1__spawn_listen(s, &l->out));
    SR1__TRY(sr1__spawn_listen(s, &l->err));
    return start_bare(p, job, s, l);
}

sr1_status sr1__launch_plan_launch(struct sr1__launch_plan *p,
                                   const struct sr1__sandbox_job *job,
                                   struct sr1__process_tree *out)
{
    struct sr1__process_tree l;
    struct sr1__spawn s;
    sr1_status st;

    sr1__process_tree_init(&l);
    memset(&s, 0, sizeof s);
    s.memory_bytes = job->limits.memory_mib * MIB;
    s.cpu_s = (int64_t)ceil(job->limits.cpu_s);
    s.files = OPEN_FILES;
    st = p->isolated ? launch_isolated(p, job, &s, &l) : launch_bare(p, job, &s, &l);
    sr1__spawn_close(&s);
    if (st != SR1_OK) {
        sr1__launch_plan_end(p, &l);
        return st;
    }
    *out = l;
    return SR1_OK;
}

void sr1__launch_plan_end(struct sr1__launch_plan *p, struct sr1__process_tree *l)
{
    if (!l->forced)
        sr1__jail_give_net(&p->jail, &l->net);
    sr1__process_tree_free(l);
}
