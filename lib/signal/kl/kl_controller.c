/* signal/kl/kl_controller.c - the coefficient of the KL penalty, fixed or proportional
 * (Ziegler et al. 2019; verl's AdaptiveKLController):
 *
 *     coef <- coef (1 + clip(kl / target - 1, -0.2, 0.2) n / horizon) */
#include "base/struct.h"

#include <searchr1/ext/kl.h>

#include <math.h>

#define LARGEST_ERROR 0.2

static sr1_status check_kl_controller(const sr1_kl_controller *c, double current,
                                      int64_t n)
{
    if (!isfinite(current))
        return sr1__fail(SR1_E_NUMERIC, "KL controller: the KL is not finite (%g)",
                         current);
    if (!isfinite(c->coef) || c->coef < 0 || n < 0)
        return sr1__fail(SR1_E_INVALID, "KL controller: coef %g or n %lld is below 0",
                         c->coef, (long long)n);
    if (!isfinite(c->horizon) || c->horizon < 0)
        return sr1__fail(SR1_E_INVALID, "KL controller: horizon %g is not at least 0",
                         c->horizon);
    if (c->horizon == 0)
        return SR1_OK;
    if (!isfinite(c->target) || c->target <= 0)
        return sr1__fail(SR1_E_INVALID, "KL controller: target %g is not above 0",
                         c->target);
    if (LARGEST_ERROR * (double)n >= c->horizon)
        return sr1__fail(SR1_E_INVALID,
                         "KL controller: %lld samples against a horizon of %g could turn "
                         "the coefficient negative; raise the horizon",
                         (long long)n, c->horizon);
    return SR1_OK;
}

static double compute_kl_update_factor(const sr1_kl_controller *c, double current,
                                       int64_t n)
{
    double error = fmin(fmax(current / c->target - 1, -LARGEST_ERROR), LARGEST_ERROR);

    return c->horizon == 0 ? 1 : 1 + error * (double)n / c->horizon;
}

sr1_status sr1_kl_controller_update(sr1_kl_controller *c, double current, int64_t n)
{
    sr1_kl_controller next = {0};

    if (c == NULL)
        return sr1__fail(SR1_E_INVALID, "KL controller: NULL");
    SR1__TRY(sr1__struct_take(&next, sizeof next, c,
                              SR1__STRUCT_END(sr1_kl_controller, last_kl),
                              "KL controller"));
    SR1__TRY(check_kl_controller(&next, current, n));
    next.coef *= compute_kl_update_factor(&next, current, n);
    if (!isfinite(next.coef))
        return sr1__fail(SR1_E_NUMERIC, "KL controller: the coefficient overflowed");
    next.updates++;
    next.last_kl = current;
    return sr1__struct_give(c, &next, sizeof next, "KL controller");
}
