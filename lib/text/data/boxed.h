/* text/data/boxed.h - the answer that a solution in LaTeX has put into a box. */
#ifndef SR1__DATA_BOXED_H
#define SR1__DATA_BOXED_H

#include "base/str.h"

/* The content of the last \boxed{...}, a part of text. 0: there is none, or it is not
 * closed; else 1. */
int sr1__boxed_in_braces(struct sr1__str text, struct sr1__str *content);

/* The same as the rows of MATH write it: of "\boxed 5$" too it is what follows, up to the
 * end of the formula; and 0 where a last \boxed has neither a brace nor a space. */
int sr1__boxed(struct sr1__str text, struct sr1__str *content);

#endif
