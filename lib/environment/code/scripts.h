/* environment/code/scripts.h - the library's own Python programs, as text. */
#ifndef SR1__CODE_SCRIPTS_H
#define SR1__CODE_SCRIPTS_H

extern const char sr1__answer_py[];
extern const char sr1__driver_py[];
extern const char sr1__judge_py[];
extern const char sr1__normalise_py[];

#endif
