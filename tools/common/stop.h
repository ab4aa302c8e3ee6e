/* stop.h - signals that ask a tool to end. */
#ifndef SR1_TOOLS_STOP_H
#define SR1_TOOLS_STOP_H

/* Call the handler for SIGINT, SIGTERM, SIGHUP and SIGUSR1: for the first of each only,
 * so that a second ends the process at once. What was ignored when the tool was started
 * (nohup, a shell's "&") stays ignored. */
void stop_catch(void (*handler)(int number));

/* stop_catch with a handler that notes it, for work that looks up now and then. */
void stop_note(void);
/* Was it asked for? */
int stop_asked(void);

#endif
