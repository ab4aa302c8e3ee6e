/* environment/critique/execution_feedback.h - the rules of hints, independent of the
 * source of the facts. */
#ifndef SR1__CRITIQUE_EXECUTION_FEEDBACK_H
#define SR1__CRITIQUE_EXECUTION_FEEDBACK_H

#include "base/buf.h"
#include "base/str.h"

#include <searchr1/ext/critique.h>

/* The result of running an answer, and of its first failing test if there is one. */
struct sr1__execution_facts {
    int32_t verdict; /* SR1_RUN_* */
    int64_t tests, passed;
    int32_t is_assert; /* input is a statement */
    struct sr1__str input, expected, got;
    const char *error; /* the end of stderr */
    const char *code;  /* the program */
};

void sr1__execution_feedback_append(struct sr1__buf *b,
                                    const struct sr1__execution_facts *f);

#endif
