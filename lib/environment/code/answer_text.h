/* environment/code/answer_text.h - find the program and the judgement in a model's text.
 */
#ifndef SR1__CODE_ANSWER_TEXT_H
#define SR1__CODE_ANSWER_TEXT_H

#include <stddef.h>

/* Offset of the text after the last </think>; 0 if there is none. */
size_t sr1__after_thinking(const char *s, size_t n);

#endif
