/* environment/sandbox/jail.h - the namespaces that the programs of a sandbox share, made
 * once.
 *
 * Most of what isolation costs is mounting a system and making a network. A jail has both
 * ready: a user and a mount namespace, made by bubblewrap, with the system read-only
 * under /tree; and network namespaces with nothing but a loopback, each for one program
 * at a time. A process that has entered them starts bubblewrap once more, which only adds
 * user, process, IPC, host name and mount namespaces for the program, in which /tree
 * becomes /.
 *
 * A network namespace keeps nothing from one program to the next: sockets end with their
 * processes, and connections do not linger (no TIME-WAIT).
 *
 * Not locked: once it is open, only the sandbox's own thread uses it. */
#ifndef SR1__SANDBOX_JAIL_H
#define SR1__SANDBOX_JAIL_H

#include "base/error.h"

#include <searchr1/ext/sandbox.h>

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
/* Make a jail with this bubblewrap, for so many programs at a time. On an error, whose
 * text gives the reason, *j has no jail. */
sr1_status sr1__jail_open(struct sr1__jail *j, const char *bwrap,
                          const sr1_sandbox_options *o, int32_t programs,
                          uint32_t drop_to);
void sr1__jail_close(struct sr1__jail *j);
int sr1__jail_is_open(const struct sr1__jail *j);

/* A network namespace for one program, to be given back, or closed where something may
 * be left in it. */
sr1_status sr1__jail_take_net(struct sr1__jail *j, int *net);
void sr1__jail_give_net(struct sr1__jail *j, int *net);

#endif
