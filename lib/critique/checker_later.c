/* Stands in for checkers until they are merged. */
#include "base/error.h"

#include <searchr1/code.h>

sr1_checker *sr1_checker_retain(sr1_checker *c)
{
    return c;
}
void sr1_checker_free(sr1_checker *c)
{
    (void)c;
}
sr1_status sr1_checker_submit(sr1_checker *c, const sr1_problem *p, int32_t f,
                              const char *t, size_t n, sr1_check **o)
{
    (void)c, (void)p, (void)f, (void)t, (void)n, (void)o;
    return sr1__fail(SR1_E_UNSUPPORTED, "checkers are to come");
}
sr1_status sr1_check_wait(sr1_check *c, double s)
{
    (void)c, (void)s;
    return SR1_OK;
}
void sr1_check_free(sr1_check *c)
{
    (void)c;
}
sr1_status sr1_check_report_get(const sr1_check *c, sr1_check_report *r)
{
    (void)c, (void)r;
    return sr1__fail(SR1_E_STATE, "checkers are to come");
}
const char *sr1_run_verdict_name(int32_t v)
{
    static const char *const n[] = {"passed", "wrong",  "runtime error",  "timeout",
                                    "memory", "output", "infrastructure", "cancelled"};
    return v >= 0 && v < 8 ? n[v] : "?";
}
