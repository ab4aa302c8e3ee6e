/* train/plan_advice.c - keys with which a run that does not fit takes less of the memory
 * that it lacks, the device's or the host's, each tried on the plan itself: alone, and
 * where none suffices, several together. */
#include "train/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value of a key; NULL: halves of what it is, down to `floor`, until the run fits or
 * takes no less. The cheapest in time and results comes first. */
static const struct remedy {
    const char *key, *value;
    int64_t floor;
} remedies[] = {
    {"optimizer_offload", "false", 0}, /* of the host */
    {"reference_offload", "false", 0},
    {"gradient_checkpointing", "true", 0},
    {"micro_batch_tokens", NULL, 256},
    {"max_rows", NULL, 1},
    {"workers", "1", 0},
    {"trajectory_memory", "268435456", 0},
    {"reference_offload", "true", 0},
    {"fsdp_size", "-1", 0},
    {"reshard_after_forward", "true", 0},
    {"optimizer_offload", "true", 0},
    {"reference_dtype", "bf16", 0},
    {"reference_quantization", "int8", 0},
    {"dtype", "bf16", 0},
    {"lora_rank", "16", 0}, /* the last: advise_together */
};
#define REMEDIES (sizeof remedies / sizeof remedies[0])

/* Is the configuration already as the remedy would have it? */
static int is_taken(const sr1_config *c, const struct remedy *r)
{
    if (!r->value)
        return sr1__config_int(c, r->key) <= r->floor;
    if (strcmp(r->value, "true") == 0 || strcmp(r->value, "false") == 0)
        return sr1__config_bool(c, r->key) == (*r->value == 't');
    if (strcmp(r->key, "lora_rank") == 0)
        return sr1__config_int(c, r->key) > 0;
    if (strcmp(r->key, "workers") == 0 || strcmp(r->key, "trajectory_memory") == 0)
        return sr1__config_int(c, r->key) == strtoll(r->value, NULL, 10);
    if (strcmp(r->key, "fsdp_size") == 0)
        return sr1__config_int(c, r->key) != 1;
    return sr1__config_is(c, r->key, r->value);
}

/* The figures of c with key=value; SR1_E_CONFIG: they do not go with its other keys. */
static sr1_status figure_with(const sr1_plan *p, sr1_config *c, const char *key,
                              const char *value, struct sr1__plan_figures *f)
{
    SR1__TRY(sr1_config_set(c, key, value));
    SR1__TRY(sr1__config_validate_shape(c));
    return sr1__plan_figure(f, c, &p->shapes, p->device);
}

/* What is taken of the memories that do not suffice; 0: it fits. */
static double sum_lacking(const sr1_plan *p, const struct sr1__plan_figures *f)
{
    return (f->peak > p->memory ? f->peak : 0) +
           (sr1__plan_host_fits(p, f) ? 0 : f->host);
}

/* Is that less by enough to be worth a key? */
static int is_less(double lacking, double than)
{
    return lacking < 0.995 * than;
}

/* The largest half, quarter, ... with which the run fits, or takes least. */
static sr1_status try_halves(const sr1_plan *p, sr1_config *c, const struct remedy *r,
                             struct sr1__plan_figures *f, char value[32])
{
    int64_t n = sr1__config_int(c, r->key), best = n;
    double least = INFINITY;

    while (n > r->floor && least > 0) {
        n = n / 2 > r->floor ? n / 2 : r->floor;
        snprintf(value, 32, "%lld", (long long)n);
        SR1__TRY(figure_with(p, c, r->key, value, f));
        if (is_less(sum_lacking(p, f), least))
            best = n;
        least = fmin(least, sum_lacking(p, f));
    }
    snprintf(value, 32, "%lld", (long long)best);
    return figure_with(p, c, r->key, value, f);
}

/* Try a remedy on c, which then has it; value: what was set. */
static sr1_status try_remedy(const sr1_plan *p, sr1_config *c, const struct remedy *r,
                             struct sr1__plan_figures *f, char value[32])
{
    if (!r->value)
        return try_halves(p, c, r, f, value);
    snprintf(value, 32, "%s", r->value);
    return figure_with(p, c, r->key, value, f);
}

static struct sr1__plan_advice *add_advice(sr1_plan *p, const struct sr1__plan_figures *f)
{
    struct sr1__plan_advice *a = &p->advice[p->n_advice++];

    *a = (struct sr1__plan_advice){
        .peak = f->peak, .host = f->host, .fits = sr1__plan_fits(p, f)};
    return a;
}

/* What a remedy gives alone, where that is less. */
static sr1_status advise_alone(sr1_plan *p, const struct remedy *r)
{
    struct sr1__plan_figures f;
    sr1_config *c = NULL;
    char value[32];
    sr1_status st;

    if (is_taken(p->config, r))
        return SR1_OK;
    SR1__TRY(sr1_config_copy(&c, p->config));
    st = try_remedy(p, c, r, &f, value);
    if (st == SR1_OK && is_less(sum_lacking(p, &f), sum_lacking(p, &p->figures)))
        snprintf(add_advice(p, &f)->set, sizeof p->advice[0].set, "%s=%s", r->key, value);
    sr1_config_free(c);
    return st == SR1_E_NOMEM ? st : SR1_OK;
}

/* One remedy more on *c, kept where it helps; value: what was set last. What the run has
 * itself is none: of two values of a key one is left. */
static sr1_status take_remedy(const sr1_plan *p, sr1_config **c, const struct remedy *r,
                              struct sr1__plan_figures *now, char value[32])
{
    struct sr1__plan_figures f;
    sr1_config *with = NULL;
    char tried[32];
    sr1_status st;

    if (is_taken(*c, r) || is_taken(p->config, r))
        return SR1_OK;
    SR1__TRY(sr1_config_copy(&with, *c));
    st = try_remedy(p, with, r, &f, tried);
    if (st == SR1_OK && is_less(sum_lacking(p, &f), sum_lacking(p, now))) {
        sr1_config *old = *c;

        *now = f;
        *c = with;
        with = old;
        memcpy(value, tried, sizeof tried);
    }
    sr1_config_free(with);
    return st == SR1_E_NOMEM ? st : SR1_OK;
}

/* "key=value key=value" of those that were set; returns how many. */
static int join_pairs(char (*values)[32], char *out, size_t size)
{
    size_t at = 0;
    int n = 0;

    for (size_t i = 0; i < REMEDIES && at < size; i++)
        if (*values[i])
            at += (size_t)snprintf(out + at, size - at, "%s%s=%s", n++ ? " " : "",
                                   remedies[i].key, values[i]);
    return n;
}

/* Remedies that were taken together, and what is planned with them. */
struct combination {
    struct sr1__plan_figures figures;
    char values[REMEDIES][32]; /* "": not taken */
};

/* Remedies one after the other, beginning with the first-th, until the run fits; once
 * more from the first, because what one leaves may be another's to lower. */
static sr1_status combine_from(const sr1_plan *p, size_t first, struct combination *out)
{
    sr1_config *c = NULL;
    sr1_status st;

    *out = (struct combination){.figures = p->figures};
    SR1__TRY(sr1_config_copy(&c, p->config));
    st = take_remedy(p, &c, &remedies[first], &out->figures, out->values[first]);
    for (size_t i = 0; i < 2 * REMEDIES && st == SR1_OK; i++) {
        if (sr1__plan_fits(p, &out->figures))
            break;
        st = take_remedy(p, &c, &remedies[i % REMEDIES], &out->figures,
                         out->values[i % REMEDIES]);
    }
    sr1_config_free(c);
    return st;
}

/* Several together, where none suffices alone. An adapter saves most and excludes others,
 * so it is tried before them too. */
static sr1_status advise_together(sr1_plan *p)
{
    char set[sizeof p->advice[0].set] = "";
    struct combination all, adapter;

    SR1__TRY(combine_from(p, 0, &all));
    if (!sr1__plan_fits(p, &all.figures)) {
        SR1__TRY(combine_from(p, REMEDIES - 1, &adapter));
        if (is_less(sum_lacking(p, &adapter.figures), sum_lacking(p, &all.figures)))
            all = adapter;
    }
    if (join_pairs(all.values, set, sizeof set) > 1)
        memcpy(add_advice(p, &all.figures)->set, set, sizeof set);
    return SR1_OK;
}

sr1_status sr1__plan_advise(sr1_plan *p)
{
    int suffices = sr1__plan_fits(p, &p->figures);

    for (size_t i = 0; i < REMEDIES && !suffices; i++)
        SR1__TRY(advise_alone(p, &remedies[i]));
    for (size_t i = 0; i < p->n_advice; i++)
        suffices |= p->advice[i].fits;
    return suffices ? SR1_OK : advise_together(p);
}
