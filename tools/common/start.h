/* start.h - the time before main, in which libtorch's own initialisers run. */
#ifndef SR1_TOOLS_START_H
#define SR1_TOOLS_START_H

/* main has begun: an abort is one of ours from here on. */
void start_done(void);

#endif
