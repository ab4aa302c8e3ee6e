/* train/plan_choose.c - micro_batch_tokens and max_rows of a configuration that leaves
 * them to the plan: the largest power of two with which the phases that depend on the key
 * fit. */
#include "train/plan.h"

#include <math.h>
#include <stdio.h>

/* Of the memory: plans are true to within 15 %, and other programs come and go. */
#define SHARE 0.9

#define IN(phase) (1u << SR1__PLAN_##phase)

/* Beyond `most` a device is busy anyway. */
static const struct chosen_key {
    const char *key;
    int64_t most, least;
    uint32_t phases; /* that depend on it */
} chosen_keys[SR1__PLAN_CHOSEN] = {
    [SR1__PLAN_MICRO_BATCH_TOKENS] = {"micro_batch_tokens", 65536, 256,
                                      IN(LOG_PROBS) | IN(UPDATE_CRITIC) |
                                          IN(ROUTER_REPLAY) | IN(UPDATE)},
    [SR1__PLAN_MAX_ROWS] = {"max_rows", 1024, 1, IN(GENERATE)},
};

const char *sr1__plan_chosen_key(size_t i)
{
    return chosen_keys[i].key;
}

static double largest_phase(const struct sr1__plan_figures *f, uint32_t phases)
{
    double most = 0;

    for (size_t k = 0; k < SR1__PLAN_PHASES; k++)
        if (phases & 1u << k)
            most = fmax(most, f->peaks[k][SR1__PLAN_DEVICE]);
    return most;
}

static sr1_status figure_value(sr1_plan *p, const struct chosen_key *k, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    SR1__TRY(sr1_config_set(p->config, k->key, text));
    return sr1__plan_figure(&p->figures, p->config, &p->shapes, p->device);
}

/* The least power of two that leaves nothing of a step for a second pass. */
static int64_t find_most(const sr1_plan *p, const struct chosen_key *k)
{
    const struct sr1__plan_step *s = &p->figures.step;
    double whole = k == &chosen_keys[SR1__PLAN_MAX_ROWS] ? s->trajectories : s->micro;
    int64_t n = k->least;

    while (n < k->most && (double)n < whole)
        n *= 2;
    return n;
}

static sr1_status choose_value(sr1_plan *p, size_t i)
{
    const struct chosen_key *k = &chosen_keys[i];
    int64_t n;

    SR1__TRY(figure_value(p, k, k->most));
    for (n = find_most(p, k); n > k->least; n /= 2) {
        SR1__TRY(figure_value(p, k, n));
        if (largest_phase(&p->figures, k->phases) <= SHARE * p->memory)
            break;
    }
    p->chosen[i] = n;
    return figure_value(p, k, n);
}

sr1_status sr1__plan_choose(sr1_plan *p)
{
    for (size_t i = 0; i < SR1__PLAN_CHOSEN; i++)
        if (sr1__config_int(p->config, chosen_keys[i].key) == 0)
            SR1__TRY(choose_value(p, i));
    return SR1_OK;
}

sr1_status sr1__plan_check_chosen(const sr1_plan *p)
{
    const struct sr1__plan_figures *f = &p->figures;

    for (size_t i = 0; i < SR1__PLAN_CHOSEN; i++) {
        const struct chosen_key *k = &chosen_keys[i];
        double peak = largest_phase(f, k->phases);

        if (p->chosen[i] > 0 && peak > SHARE * p->memory)
            return sr1__fail(
                p->device == SR1__CPU ? SR1_E_NOMEM : SR1_E_DEVICE_NOMEM,
                "%s 0: nothing fits; with %lld the run takes %.3g GB, and %.3g of the "
                "%.3g GB on %s are for it; sr1-train --plan names keys that lower that",
                k->key, (long long)p->chosen[i], peak / 1e9, SHARE * p->memory / 1e9,
                p->memory / 1e9, p->device_name);
    }
    return SR1_OK;
}
