/* stop.h - signals that ask a tool to end. */
#ifndef SR1_TOOLS_STOP_H
#define SR1_TOOLS_STOP_H

/* Call the handler for SIGINT (of a person), SIGTERM (a system that shuts down), SIGHUP
 * (a terminal that goes away) and SIGUSR1 (Slurm before a job's time is over,
 * --signal=USR1@90). once: for the first of each only, so that a second ends the process
 * at once. What was ignored when the tool was started (nohup, a shell's "&") stays
 * ignored. */
void stop_catch(void (*handler)(int number), int once);

/* stop_catch with a handler that notes it, for work that looks up now and then. */
void stop_note(void);
/* Was it asked for? The signal's number, 0: no. */
int stop_asked(void);

#endif
