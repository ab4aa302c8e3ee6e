/* loss/kl.c - KL of the policy from its reference as a term of the loss, by token
 * (Schulman 2020, "Approximating KL divergence"), x = new - ref.
 *
 * Only k3 keeps growing beyond its exponent's bound, in a line: a policy that far away is
 * still drawn back. */
#include "loss/loss.h"

#include <math.h>
#include <string.h>

#define VALUE_MAX 10.0 /* of low_var_kl */

static struct sr1__loss_term k1(double ref, double now)
{
    return (struct sr1__loss_term){now - ref, 1.0, SR1__BOUND_NONE};
}

static struct sr1__loss_term absolute(double ref, double now)
{
    double x = now - ref;

    return (struct sr1__loss_term){fabs(x), x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0,
                                   SR1__BOUND_NONE};
}

static struct sr1__loss_term k2(double ref, double now)
{
    double x = now - ref;

    return (struct sr1__loss_term){x * x / 2.0, x, SR1__BOUND_NONE};
}

/* exp(d) - d - 1, d = ref - new; never negative. */
static struct sr1__loss_term k3(double ref, double now)
{
    int live;
    double d = ref - now;
    double e = sr1__bounded_exp(d, &live);

    return (struct sr1__loss_term){live ? expm1(d) - d : e - d - 1.0,
                                   live ? -expm1(d) : 1.0, SR1__BOUND_NONE};
}

static struct sr1__loss_term low_var_kl(double ref, double now)
{
    int live;
    double e = sr1__bounded_exp(ref - now, &live);
    struct sr1__loss_term t = k3(ref, now);

    if (!live) /* there d is bounded too */
        t = (struct sr1__loss_term){e - log(e) - 1.0, 0.0, SR1__BOUND_NONE};
    if (t.value > VALUE_MAX)
        t = (struct sr1__loss_term){VALUE_MAX, 0.0, SR1__BOUND_NONE};
    return t;
}

static const struct {
    const char *name;
    sr1__kl_fn fn;
} kinds[] = {
    {"k1", k1}, {"kl", k1}, {"abs", absolute}, {"k2", k2},
    {"mse", k2}, {"k3", k3}, {"low_var_kl", low_var_kl},
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *sr1_loss_kl_name(size_t i)
{
    return i < N_KINDS ? kinds[i].name : NULL;
}

sr1_status sr1__kl_find(const char *name, struct sr1__kl *out)
{
    size_t n;

    if (!name)
        name = "k3";
    n = strlen(name);
    out->straight = n > 0 && name[n - 1] == '+';
    n -= (size_t)out->straight;
    for (size_t i = 0; i < N_KINDS; i++) {
        if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, name, n) == 0) {
            out->fn = kinds[i].fn;
            return SR1_OK;
        }
    }
    return sr1__loss_unknown("kl_kind", name, sr1_loss_kl_name);
}

struct sr1__loss_term sr1__kl_token(const struct sr1__kl *kl, double ref, double now)
{
    struct sr1__loss_term t = kl->fn(ref, now);

    if (kl->straight)
        t.slope = now - ref;
    return t;
}
