/* train/entropy.c - the weight of the entropy bonus, and who moves it:
 *
 *     fixed      entropy_coef
 *     adaptive   c of this step, 0 while the entropy is above entropy_target; then
 *                c + delta where it was below, c - delta where it was above, within
 *                [entropy_coef_min, entropy_coef_max] (He et al. 2025, Skywork-OR1, 5.3;
 *                TRL's use_adaptive_entropy)
 *
 * The entropy is that of the step's rollout, per policy token. */
#include "train/internal.h"

#include <math.h>

void sr1__entropy_read(struct sr1__entropy *e, const sr1_config *c)
{
    *e = (struct sr1__entropy){
        .adaptive = sr1__config_is(c, "entropy_controller", "adaptive"),
        .by_token = sr1__config_is(c, "entropy_aggregation", "token-mean"),
        .target = sr1__config_real(c, "entropy_target"),
        .delta = sr1__config_real(c, "entropy_coef_delta"),
        .least = sr1__config_real(c, "entropy_coef_min"),
        .most = sr1__config_real(c, "entropy_coef_max"),
        .coef = sr1__config_real(c, "entropy_coef"),
    };
}

void sr1__entropy_begin(struct sr1__entropy *e, double entropy)
{
    e->now = e->adaptive && entropy > e->target ? 0.0 : e->coef;
}

void sr1__entropy_end(struct sr1__entropy *e, double entropy)
{
    double moved = e->coef + (entropy < e->target ? e->delta : -e->delta);

    if (e->adaptive)
        e->coef = fmin(fmax(moved, e->least), e->most);
}
