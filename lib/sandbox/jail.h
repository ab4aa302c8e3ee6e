/* sandbox/jail.h - what the programs of a sandbox have in common, made once.
 *
 * Most of what isolation costs is mounting a system and making a network. A jail has both
 * ready: a user and a mount namespace, made by bubblewrap, with the system read-only
 * under /tree; and network namespaces with nothing but a loopback, each for one program
 * at a time. A process that has entered them starts bubblewrap once more: what is left to
 * it is user, process, IPC, host name and mount namespaces of the program's own, in which
 * /tree becomes /.
 *
 * Between programs a network namespace keeps nothing a program could meet: sockets end
 * with their processes, and connections do not linger (no TIME-WAIT).
 *
 * Not locked: the sandbox's own thread alone uses it, once it is open. */
#ifndef SR1__SANDBOX_JAIL_H
#define SR1__SANDBOX_JAIL_H

#include "base/error.h"

#include <searchr1/sandbox.h>

#include <stddef.h>
#include <stdint.h>

#define SR1__JAIL_NETS 64 /* at most kept for the next programs */

struct sr1__jail {
    int user; /* of these namespaces; -1: there is no jail */
    int mount;
    int nets[SR1__JAIL_NETS];
    size_t n_nets;
    size_t keep; /* so many; more than that are closed */
    int once;    /* 1: what lingers cannot be helped here, so each serves one program */
    uint32_t drop_to; /* as in struct sr1__spawn */
};

/* No jail. */
void sr1__jail_init(struct sr1__jail *j);
/* Make it with this bubblewrap, for so many programs at a time. An error says why there
 * can be none; j has none then. */
sr1_status sr1__jail_open(struct sr1__jail *j, const char *bwrap,
                          const sr1_sandbox_options *o, int32_t programs,
                          uint32_t drop_to);
void sr1__jail_close(struct sr1__jail *j);

/* A network namespace for one program, to be given back, or closed where something may
 * be left in it. */
sr1_status sr1__jail_take_net(struct sr1__jail *j, int *net);
void sr1__jail_give_net(struct sr1__jail *j, int *net);

#endif
