/* environment/sandbox/bubblewrap.h - the arguments of bubblewrap in the form of its
 * option --args: each word with its NUL. */
#ifndef SR1__SANDBOX_BUBBLEWRAP_H
#define SR1__SANDBOX_BUBBLEWRAP_H

#include "base/buf.h"
#include "environment/sandbox/job.h"

/* The program of a namespace's first process (init/init.c): its path and its bytes. */
#define SR1__BWRAP_INIT "/.init"
extern const unsigned char sr1__bwrap_init[];
extern const size_t sr1__bwrap_init_bytes;

/* The jail (jail.h): the system as programs are to see it, under /tree. Descriptor 4
 * takes bubblewrap's report, 5 holds the bytes of init. */
void sr1__bwrap_jail(struct sr1__buf *b, const sr1_sandbox_options *o);

struct sr1__bwrap_program {
    const sr1_sandbox_options *options;
    const struct sr1__sandbox_job *job;
    int in_jail;   /* /tree is there, and no network */
    int with_proc; /* mount /proc anew */
    int filtered;  /* descriptor 6 holds a filter of system calls */
};

/* One program: descriptor 5 takes bubblewrap's report, 7 holds /tmp/main.py, from 8 on
 * lie further files; without a jail, behind them, the bytes of init. */
void sr1__bwrap_run(struct sr1__buf *b, const struct sr1__bwrap_program *p);

/* The environment of programs: SR1__BWRAP_ENVIRONMENT words NAME=VALUE. */
#define SR1__BWRAP_ENVIRONMENT 6
extern const char *const sr1__program_environment[SR1__BWRAP_ENVIRONMENT];

#endif
