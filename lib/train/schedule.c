/* train/schedule.c - warm-up and decay of the learning rate. */
#include "train/schedule.h"

#include <math.h>
#include <string.h>

static double keep_rate(double x)
{
    (void)x;
    return 1.0;
}

static double decay_linear(double x)
{
    return 1.0 - x;
}

static double decay_cosine(double x)
{
    return 0.5 * (1.0 + cos(3.14159265358979323846 * x));
}

/* Each shape maps progress through the decay, 0..1, to a factor 1..0. */
static const struct {
    const char *name;
    double (*factor)(double);
} shapes[] = {
    {"constant", keep_rate}, {"linear", decay_linear}, {"cosine", decay_cosine}};

/* Never before the warm-up is over: the full rate is reached. */
static double find_factor(const struct sr1__schedule *s, int64_t step)
{
    double begin = fmax(s->decay_start * (double)s->total, (double)s->warmup);
    double span = (double)s->total - begin;
    double x = span > 0 ? ((double)step - begin) / span : 1.0;

    if (s->total <= 0 || (double)step <= begin)
        return 1.0;
    if (x > 1.0)
        x = 1.0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (strcmp(shapes[i].name, s->shape) == 0)
            return s->final_ratio + (1.0 - s->final_ratio) * shapes[i].factor(x);
    return 1.0;
}

int sr1__schedule_needs_total(const struct sr1__schedule *s)
{
    return strcmp(s->shape, shapes[0].name) != 0 ||
           (s->warmup == 0 && s->warmup_ratio > 0.0);
}

/* 0.29 of 100 is 29, though its product in binary lies below. */
void sr1__schedule_plan(struct sr1__schedule *s, int64_t total)
{
    s->total = total > s->first ? total - s->first : 0;
    if (s->warmup == 0)
        s->warmup = (int64_t)floor(s->warmup_ratio * (double)s->total + 1e-9);
}

int64_t sr1__schedule_steps(const struct sr1__schedule *s)
{
    return s->total + s->first;
}

double sr1__schedule_rate(const struct sr1__schedule *s, int64_t step)
{
    step -= s->first;
    if (step < s->warmup)
        return s->rate * (double)(step + 1) / (double)(s->warmup + 1);
    return s->rate * find_factor(s, step);
}
