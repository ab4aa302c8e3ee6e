/* environment/sandbox/sandbox_engine.h - interface of a sandbox engine: it executes
 * queued programs locally or by a service. */
#ifndef SR1__SANDBOX_SANDBOX_ENGINE_H
#define SR1__SANDBOX_SANDBOX_ENGINE_H

#include "environment/sandbox/sandbox_execution.h"

/* One kind of sandbox. */
struct sr1__engine_ops {
    const char *kind;
    /* Check and complete the options (already in general bounds), start the engine, and
     * describe it in `about`. *engine is set on success. */
    sr1_status (*open)(void **engine, sr1_sandbox *box, sr1_sandbox_options *options,
                       char about[256]);
    /* Can it run this job? Else why not. */
    sr1_status (*check)(const struct sr1__sandbox_job *job);
    /* Called once the sandbox takes runs: try it, and complete `about`. May be NULL. */
    sr1_status (*probe)(void *engine, sr1_sandbox *box, char about[256]);
    /* What runs Python here, by its path; NULL: that is not known. May be NULL. */
    const char *(*interpreter)(const void *engine);
    /* There is something to take, or something was cancelled. From any thread. */
    void (*wake)(void *engine);
    /* Every run has ended or is cancelled: return when all have ended and no thread of
     * the engine is left. */
    void (*close)(void *engine);
};

extern const struct sr1__engine_ops sr1__local_engine;
extern const struct sr1__engine_ops sr1__fusion_engine;

/* ---- for engines ---- */

/* The next run that waits and is due, begun from now on; NULL: none. */
struct sr1_execution *sr1__sandbox_take(sr1_sandbox *box);
/* When the next retry is due, as sr1__now() counts; INFINITY: there is none. */
double sr1__sandbox_due(sr1_sandbox *box);
/* End the runs that were cancelled while they waited. */
void sr1__sandbox_sweep(sr1_sandbox *box);
/* The attempt failed for reasons of the infrastructure: 1 and the run waits for another
 * one (at least so many seconds), or 0: there have been enough of them. */
int sr1__sandbox_retry(sr1_sandbox *box, struct sr1_execution *run, double wait);
/* The outcome is complete. */
void sr1__sandbox_end(sr1_sandbox *box, struct sr1_execution *run);
/* Put in place of the outcome an attempt left: the run is to be tried (again). */
void sr1__sandbox_clear(struct sr1_execution *run);
/* 1 once the last reference to the sandbox has gone. */
int sr1__sandbox_closing(sr1_sandbox *box);

/* ---- for runs ---- */

void sr1__sandbox_wake(sr1_sandbox *box);

/* ---- for other modules ---- */

/* What runs Python here, by its path; NULL: that is not known. Borrowed from box. */
const char *sr1__sandbox_interpreter(const sr1_sandbox *box);
/* Bytes that a program may take which sets no limit of its own. */
int64_t sr1__sandbox_memory(const sr1_sandbox *box);
/* Can a program here be given a socket? */
int sr1__sandbox_takes_sockets(const sr1_sandbox *box);
/* sr1_sandbox_start of a program whose standard input is a socket (copied). There is no
 * retry, because messages on the socket cannot be repeated. */
sr1_status sr1__sandbox_start_linked(sr1_sandbox *box, const sr1_program *program,
                                     int socket, sr1_execution **out);
/* Open another sandbox that runs programs as this one does, for one that stays: its
 * limits are those of the whole checker. */
sr1_status sr1__sandbox_open_beside(sr1_sandbox **out, const sr1_sandbox *box);
/* Append all options that the end of a program may depend on, where it sets none of its
 * own. */
void sr1__sandbox_limits(const sr1_sandbox *box, struct sr1__buf *out);

#endif
