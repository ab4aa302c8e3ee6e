/* code/text.h - views of a model's text. */
#ifndef SR1__CODE_TEXT_H
#define SR1__CODE_TEXT_H

#include <stddef.h>

/* Where what follows the last </think> begins; 0 where there is none. */
size_t sr1__after_thinking(const char *s, size_t n);

#endif
