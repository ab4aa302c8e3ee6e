/* figure.c - see figure.h. JSON has no NaN, and jansson leaves such a member out. */
#include "sr1_eval/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

json_t *figure_json(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

int figures_print(const json_t *all)
{
    char *text = json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(6));

    if (text == NULL)
        return -1;
    puts(text);
    free(text);
    return 0;
}

void figure_text(double v, const char *format, char *out, size_t size)
{
    if (isfinite(v))
        snprintf(out, size, format, v);
    else
        snprintf(out, size, "-");
}
