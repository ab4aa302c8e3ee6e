/* tensor/ops/rope.c - tables of rotary positions. Frequencies and the factor of cos and
 * sin are those of transformers' modeling_rope_utils, rounded to fp32 where it rounds;
 * YaRN is that of Peng et al., arXiv 2309.00071. */
#include "tensor/ops/rope.h"

#include "base/mem.h"

#include <math.h>

#define ROPE_FIRST 1024
#define ROPE_LIMIT ((int64_t)1 << 24)
#define PI 3.14159265358979323846

void sr1__rope_init(struct sr1__rope *r, const struct sr1__rope_config *config,
                    int32_t dim, sr1__device device)
{
    *r = (struct sr1__rope){.config = *config, .dim = dim, .device = device};
}

void sr1__rope_free(struct sr1__rope *r)
{
    sr1__tensor_free(r->cos);
    sr1__tensor_free(r->sin);
    r->cos = NULL;
    r->sin = NULL;
    r->n = 0;
}

/* ---- frequencies, one function for each type ---- */

/* A pair of dimensions, i of dim / 2: its power of theta and what that makes. */
struct rope_pair {
    int32_t i, dim;
    float power; /* theta^(2i/D) */
    float freq;  /* 1 / power */
};

static float keep_frequency(const struct sr1__rope_config *c, struct rope_pair p)
{
    (void)c;
    return p.freq;
}

static float scale_linear(const struct sr1__rope_config *c, struct rope_pair p)
{
    return p.freq / (float)c->factor;
}

static float scale_llama3(const struct sr1__rope_config *c, struct rope_pair p)
{
    float context = (float)c->original_max_positions;
    float low = (float)c->low_freq_factor;
    float wavelength = (float)(2 * PI) / p.freq;
    float smooth;

    if (wavelength > (float)(c->original_max_positions / c->low_freq_factor))
        return p.freq / (float)c->factor;
    if (wavelength < (float)(c->original_max_positions / c->high_freq_factor))
        return p.freq;
    smooth =
        (context / wavelength - low) / (float)(c->high_freq_factor - c->low_freq_factor);
    return (1 - smooth) * p.freq / (float)c->factor + smooth * p.freq;
}

/* The pair, as a number of dimensions, that turns so often over the first context. */
static double dims_of_turns(const struct sr1__rope_config *c, double turns, int32_t dim)
{
    return dim * log(c->original_max_positions / (turns * 2 * PI)) / (2 * log(c->theta));
}

static float scale_yarn(const struct sr1__rope_config *c, struct rope_pair p)
{
    double low = dims_of_turns(c, c->beta_fast, p.dim);
    double high = dims_of_turns(c, c->beta_slow, p.dim);
    float ramp, kept;

    low = fmax(c->whole_dims ? floor(low) : low, 0);
    high = fmin(c->whole_dims ? ceil(high) : high, p.dim - 1);
    if (low == high)
        high += 0.001;
    ramp = ((float)p.i - (float)low) / (float)(high - low);
    kept = 1 - fminf(fmaxf(ramp, 0), 1);
    return 1 / ((float)c->factor * p.power) * (1 - kept) + p.freq * kept;
}

static float (*const scale_frequency[SR1__ROPE_TYPES])(const struct sr1__rope_config *,
                                                       struct rope_pair) = {
    [SR1__ROPE_DEFAULT] = keep_frequency,
    [SR1__ROPE_LINEAR] = scale_linear,
    [SR1__ROPE_LLAMA3] = scale_llama3,
    [SR1__ROPE_YARN] = scale_yarn,
};

/* YaRN's temperature of attention for contexts so many times as long. */
static double attention_scale(double factor, double mscale)
{
    return 0.1 * mscale * log(factor) + 1;
}

/* Factor of cos and sin. */
static double length_factor(const struct sr1__rope_config *c)
{
    if (c->type != SR1__ROPE_YARN)
        return 1;
    if (c->attention_factor > 0)
        return c->attention_factor;
    if (c->mscale > 0 && c->mscale_all_dim > 0)
        return attention_scale(c->factor, c->mscale) /
               attention_scale(c->factor, c->mscale_all_dim);
    return attention_scale(c->factor, 1);
}

/* Angles position * frequency: the frequency and the product are fp32. */
static void compute_angles(float *angle, int64_t n, int32_t dim,
                           const struct sr1__rope_config *c)
{
    int32_t half = dim / 2;

    for (int32_t i = 0; i < half; i++) {
        float power = powf((float)c->theta, (float)(2 * i) / (float)dim);
        struct rope_pair pair = {i, dim, power, 1.0f / power};
        float freq = scale_frequency[c->type](c, pair);

        for (int64_t p = 0; p < n; p++) {
            angle[p * dim + i] = (float)p * freq;
            angle[p * dim + half + i] = (float)p * freq;
        }
    }
}

/* ---- tables ---- */

static void make_rotary_tables(struct sr1__rope *r, sr1_scope *s, const float *angle,
                               int64_t n)
{
    double factor = length_factor(&r->config);
    sr1_tensor *cos = t_from_f32(s, angle, T_SHAPE(n, r->dim));
    sr1_tensor *sin = t_sin(s, cos);

    cos = t_cos(s, cos);
    if (factor != 1) {
        cos = t_mul_scalar(s, cos, factor);
        sin = t_mul_scalar(s, sin, factor);
    }
    cos = t_hold(s, cos);
    sin = t_hold(s, sin);
    if (sr1__scope_status(s) != SR1_OK) {
        sr1__tensor_free(cos);
        sr1__tensor_free(sin);
        return;
    }
    sr1__rope_free(r);
    r->cos = cos;
    r->sin = sin;
    r->n = n;
}

sr1_status sr1__rope_reserve(struct sr1__rope *r, int64_t n)
{
    int64_t want = r->n ? r->n : ROPE_FIRST;
    float *angle;
    sr1_scope *s;

    if (n <= r->n)
        return SR1_OK;
    if (n > ROPE_LIMIT)
        return sr1__fail(SR1_E_LIMIT, "position %lld is beyond %lld", (long long)n - 1,
                         (long long)ROPE_LIMIT);
    while (want < n)
        want *= 2;
    angle = sr1__realloc(NULL, (size_t)want * (size_t)r->dim, sizeof *angle);
    SR1__CHECK_ALLOC(angle, "rotary table");
    compute_angles(angle, want, r->dim, &r->config);
    s = sr1__scope_open(r->device, "rotary table");
    sr1__scope_no_grad(s);
    make_rotary_tables(r, s, angle, want);
    sr1__free(angle);
    return sr1__scope_close(s);
}
