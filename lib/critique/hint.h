/* critique/hint.h - the rules of hints, apart from where the facts come from. */
#ifndef SR1__CRITIQUE_HINT_H
#define SR1__CRITIQUE_HINT_H

#include "base/buf.h"

#include <searchr1/critique.h>

struct sr1__fact_text {
    const char *s;
    size_t n;
};

/* What is known of an answer that was run; of its first failing test where there is one.
 */
struct sr1__run_facts {
    int32_t verdict; /* SR1_RUN_* */
    int64_t tests, passed;
    int32_t is_assert; /* input is a statement */
    struct sr1__fact_text input, expected, got;
    const char *error; /* the end of stderr */
    const char *code;  /* the program */
};

void sr1__hint_say(struct sr1__buf *b, const struct sr1__run_facts *f);

#endif
