/* Losses of the program's own, by name beside the built-in ones: their slopes are those
 * of the whole loss, with its KL term and importance weights. */
#include <searchr1/ext/loss.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, SR1_OK)
#define REFUSED(call, status, part)                                                      \
    do {                                                                                 \
        assert_int_equal(call, status);                                                  \
        if (!strstr(sr1_last_error(), part))                                             \
            fail_msg("'%s' is not in: %s", part, sr1_last_error());                      \
    } while (0)

#define N 5
static float now[N] = {-1, -2, -0.5F, -3, -1.5F}, old[N] = {-1.1F, -1.9F, -0.6F, -3, -1},
             advantages[N] = {1, -1, 0.5F, 2, -0.5F},
             reference[N] = {-1, -1.5F, -1, -3, -2},
             rollout[N] = {-1.2F, -1.9F, -0.5F, -3, -1.1F};
static int64_t begin[] = {0, 2, 5};

static sr1_loss_batch whole(void)
{
    return (sr1_loss_batch){.struct_size = sizeof(sr1_loss_batch),
                            .n = N,
                            .new_log_probs = now,
                            .old_log_probs = old,
                            .ref_log_probs = reference,
                            .advantages = advantages,
                            .rollout_log_probs = rollout,
                            .n_seqs = 2,
                            .seq_begin = begin};
}

/* The square of what is missing to the advantage, as no built-in loss has it. */
static sr1_status square(void *self, const sr1_loss_batch *b, const sr1_loss_options *o,
                         const sr1_loss_terms *out)
{
    for (size_t i = 0; i < b->n; i++) {
        double d = (double)b->new_log_probs[i] - (double)b->advantages[i];

        assert_true(out->values[i] == 0 && out->slopes[i] == 0 && out->bounds[i] == 0);
        out->values[i] = o->clip_low * d * d;
        out->slopes[i] = 2 * o->clip_low * d;
    }
    if (self)
        *(double *)self > 0 ? (void)(out->slopes[3] = NAN) : (void)(out->bounds[3] = 4);
    return SR1_OK;
}

/* GSPO's ratio without its clip: one slope for all tokens of a sequence. */
static sr1_status sequence(void *self, const sr1_loss_batch *b, const sr1_loss_options *o,
                           const sr1_loss_terms *out)
{
    (void)self;
    (void)o;
    for (size_t s = 0; s < b->n_seqs; s++) {
        size_t from = (size_t)b->seq_begin[s], to = (size_t)b->seq_begin[s + 1];
        double d = 0, value = 0;

        for (size_t i = from; i < to; i++)
            d += ((double)b->new_log_probs[i] - (double)b->old_log_probs[i]) /
                 (double)(to - from);
        for (size_t i = from; i < to; i++)
            value += out->values[i] = -exp(d) * (double)b->advantages[i];
        for (size_t i = from; i < to; i++)
            out->slopes[i] = value / (double)(to - from);
    }
    return SR1_OK;
}

static double loss_at(const char *name, const sr1_loss_options *o, float *gradient)
{
    sr1_loss_report r = {.struct_size = sizeof r};
    sr1_loss_batch b = whole();

    OK(sr1_loss_compute(name, &b, o, gradient, NULL, &r));
    return r.loss;
}

/* Central differences of the whole loss. */
static void check_gradient(const char *name, const sr1_loss_options *o)
{
    float gradient[N];

    (void)loss_at(name, o, gradient);
    for (int i = 0; i < N; i++) {
        float kept = now[i];
        double up, down, step = 1.0 / 64;

        now[i] = kept + (float)step;
        up = loss_at(name, o, NULL);
        now[i] = kept - (float)step;
        down = loss_at(name, o, NULL);
        now[i] = kept;
        if (fabs((up - down) / (2 * step) - (double)gradient[i]) > 1e-4)
            fail_msg("%s, token %d: %g, not %g", name, i, (double)gradient[i],
                     (up - down) / (2 * step));
    }
}

static void slopes_are_those_of_the_whole_loss(void **state)
{
    const sr1_loss_options numbers = {.struct_size = sizeof numbers, .clip_low = 0.25};
    sr1_loss_ops ops = {.struct_size = sizeof ops,
                        .name = "square",
                        .compute = square,
                        .options = "clip_low",
                        .defaults = &numbers,
                        .aggregation = "token-sum"};
    sr1_loss_options o = {.struct_size = sizeof o};
    sr1_loss_info info = {.struct_size = sizeof info};
    size_t n = 0;

    (void)state;
    while (sr1_loss_name(n))
        n++;
    OK(sr1_loss_register(&ops, NULL));
    assert_string_equal(sr1_loss_name(n), "square");
    OK(sr1_loss_describe(n, &info));
    assert_string_equal(info.aggregation, "token-sum");
    OK(sr1_loss_options_init(&o, "square"));
    assert_true(o.clip_low == 0.25 && o.beta == 0);
    check_gradient("square", NULL);
    o.beta = 0.3;
    check_gradient("square", &o);
    o.correction = "token_truncate";
    o.correction_high = 1.05;
    check_gradient("square", &o);
    ops.name = "sequence";
    ops.compute = sequence;
    ops.needs = SR1_LOSS_NEEDS_SEQUENCES;
    OK(sr1_loss_register(&ops, NULL));
    check_gradient("sequence", NULL);
}

static void what_is_wrong_is_named(void **state)
{
    static double not_finite = 1, no_bound = -1;
    sr1_loss_ops ops = {.struct_size = sizeof ops, .name = "ppo", .compute = square};
    sr1_loss_batch b = whole();
    float gradient[N] = {7};

    (void)state;
    REFUSED(sr1_loss_register(&ops, NULL), SR1_E_INVALID, "'ppo' is taken");
    ops.name = "nll"; /* one that is no choice of the key */
    REFUSED(sr1_loss_register(&ops, NULL), SR1_E_INVALID, "'nll' is taken");
    ops.name = "not finite";
    REFUSED(sr1_loss_register(&ops, NULL), SR1_E_INVALID, "begins with a letter");
    ops.name = "not_finite";
    ops.aggregation = "median";
    REFUSED(sr1_loss_register(&ops, NULL), SR1_E_NOT_FOUND, "median");
    ops.aggregation = NULL;
    ops.needs = 8;
    REFUSED(sr1_loss_register(&ops, NULL), SR1_E_INVALID, "0x8");
    ops.needs = 0;
    OK(sr1_loss_register(&ops, &not_finite));
    REFUSED(sr1_loss_register(&ops, &not_finite), SR1_E_INVALID, "is taken");
    REFUSED(sr1_loss_compute("not_finite", &b, NULL, gradient, NULL, NULL), SR1_E_NUMERIC,
            "loss 'not_finite': token 3 of 5");
    ops.name = "no_bound";
    OK(sr1_loss_register(&ops, &no_bound));
    REFUSED(sr1_loss_compute("no_bound", &b, NULL, gradient, NULL, NULL), SR1_E_INVALID,
            "4 is no SR1_LOSS_BOUND_*");
    assert_true(gradient[0] == 7);
    ops.compute = NULL;
    REFUSED(sr1_loss_register(&ops, NULL), SR1_E_INVALID, "compute");
    REFUSED(sr1_loss_register(NULL, NULL), SR1_E_INVALID, "NULL");
    b.n = 0; /* no token is no call */
    b.seq_begin = NULL;
    OK(sr1_loss_compute("not_finite", &b, NULL, gradient, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_are_those_of_the_whole_loss),
        cmocka_unit_test(what_is_wrong_is_named),
    };

    return cmocka_run_group_tests_name("registered losses", tests, NULL, NULL);
}
