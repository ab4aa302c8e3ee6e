/* figure.h - a figure as it is printed: of what is not known, a dash and null. */
#ifndef SR1_EVAL_FIGURE_H
#define SR1_EVAL_FIGURE_H

#include <jansson.h>
#include <stddef.h>

/* A new number, or null; NULL without memory. */
json_t *figure_json(double v);
/* Print an object of figures. Returns 0, or -1 without memory. */
int figures_print(const json_t *all);
/* As format says ("%.3f"), or "-". */
void figure_text(double v, const char *format, char *out, size_t size);

#endif
