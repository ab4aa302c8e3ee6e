/* environment/external/external.h - a program of the user's that answers requests in
 * batches, or a shared object that has tables of functions. */
#ifndef SR1__EXTERNAL_EXTERNAL_H
#define SR1__EXTERNAL_EXTERNAL_H

#include "base/rpc_process.h"

#include <searchr1/ext/external.h>

struct sr1__external {
    struct sr1__rpc_process *program;
    double timeout_s;
};

/* what begins the texts of errors ("reward program"). */
sr1_status sr1__external_open(struct sr1__external **out, const char *what,
                              const char *path, const sr1_external_options *options);
void sr1__external_free(struct sr1__external *x);

/* Ask for the answers to n things; takes params (NULL: there was no memory for it). *out
 * is a new reference to an array of n values, *incarnation (may be NULL) which start of
 * the program gave them. Fails as sr1__rpc_call does, with SR1_E_NETWORK for an error of
 * the program's own, and SR1_E_PARSE for an answer of another form. */
sr1_status sr1__external_ask(struct sr1__external *x, const char *method, json_t *params,
                             size_t n, json_t **out, int64_t *incarnation);
/* Tell it something, without an answer; takes params. As sr1__rpc_notify. */
sr1_status sr1__external_tell(struct sr1__external *x, const char *method, json_t *params,
                              int64_t *incarnation);
/* As sr1__rpc_start. */
sr1_status sr1__external_start(struct sr1__external *x, int64_t *incarnation);

/* Is this the name of a shared object, which is loaded and not run? */
int sr1__is_shared_object(const char *path);
/* The table, of this type, that a shared object exports by a name; it stays loaded. what
 * as above. SR1_E_IO with the loader's words; SR1_E_NOT_FOUND: there is no such name. */
sr1_status sr1__shared_table(const void **out, const char *what, const char *type,
                             const char *path, const char *name);

#endif
