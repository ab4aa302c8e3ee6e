/* Every loss and aggregation of the tables against torch's autograd in double, of
 * formulas and of the code of TRL and verl; whole, in shards and with padding. */
#include "vectors.h"

#include "signal/loss/loss.h"

/* One batch of the vectors, and what a call made of it. */
struct case_ {
    float now[MAX], old[MAX], ref[MAX], adv[MAX], weight[MAX], rollout[MAX], entropy[MAX];
    int64_t begin[MAX], groups[MAX];
    sr1_loss_batch b;
    sr1_loss_options o;
    float gradient[MAX], of_entropy[MAX];
    uint8_t chosen[MAX];
    sr1_loss_report r;
};

#define REAL(field)                                                                      \
    {                                                                                    \
#field, offsetof(sr1_loss_options, field)                                        \
    }

static const struct {
    const char *key;
    size_t at;
} option_fields[] = {
    REAL(clip_low),       REAL(clip_high),       REAL(beta),
    REAL(dual_clip),      REAL(ratio_cap),       REAL(tau_positive),
    REAL(tau_negative),   REAL(k_positive),      REAL(lambda_positive),
    REAL(k_negative),     REAL(lambda_negative), REAL(entropy_coef),
    REAL(correction_low), REAL(correction_high), REAL(off_policy_delta),
    REAL(clip_cov_ratio), REAL(clip_cov_lb),     REAL(clip_cov_ub),
    REAL(kl_cov_ratio),   REAL(ppo_kl_coef),     REAL(dro_beta),
};

static void read_options(const json_t *row, sr1_loss_options *o)
{
    const json_t *given = json_object_get(row, "options");
    size_t known = 3; /* the texts and kl_weighted */

    *o = (sr1_loss_options){.struct_size = sizeof *o};
    o->kl_kind = json_string_value(json_object_get(given, "kl_kind"));
    o->correction = json_string_value(json_object_get(given, "correction"));
    o->kl_weighted = (int32_t)number(given, "kl_weighted");
    known -= !o->correction;
    for (size_t i = 0; i < sizeof option_fields / sizeof *option_fields; i++) {
        if (!json_object_get(given, option_fields[i].key))
            continue;
        *(double *)(void *)((char *)o + option_fields[i].at) =
            number(given, option_fields[i].key);
        known++;
    }
    assert_int_equal(known, json_object_size(given));
}

/* The batch points into c's own arrays. */
static void attach(struct case_ *c, size_t n, size_t n_seqs)
{
    c->b = (sr1_loss_batch){.struct_size = sizeof c->b,
                            .n = n,
                            .new_log_probs = c->now,
                            .old_log_probs = c->old,
                            .ref_log_probs = c->ref,
                            .advantages = c->adv,
                            .weights = c->weight,
                            .rollout_log_probs = c->rollout,
                            .entropies = c->entropy,
                            .n_seqs = n_seqs,
                            .seq_begin = c->begin,
                            .chosen = c->chosen};
}

/* All but the weights. */
static void read_batch(const json_t *row, struct case_ *c)
{
    *c = (struct case_){0};
    attach(c, floats(row, "new", c->now), integers(row, "seq_begin", c->begin) - 1);
    floats(row, "old", c->old);
    floats(row, "ref", c->ref);
    floats(row, "advantage", c->adv);
    floats(row, "rollout", c->rollout);
    floats(row, "entropy", c->entropy);
    read_options(row, &c->o);
    c->r.struct_size = sizeof c->r;
}

static void read_case(const json_t *row, struct case_ *c)
{
    read_batch(row, c);
    floats(row, "weight", c->weight);
    integers(row, "groups", c->groups);
    if (json_object_get(row, "chosen")) {
        float chosen[MAX];

        floats(row, "chosen", chosen);
        for (size_t i = 0; i < c->b.n; i++)
            c->chosen[i] = chosen[i] > 0;
    }
}

static void call(struct case_ *c, const char *name)
{
    if (sr1_loss_compute(name, &c->b, &c->o, c->gradient, c->of_entropy, &c->r))
        fail_msg("%s: %s", name, sr1_last_error());
}

#define FIGURE(field)                                                                    \
    {                                                                                    \
#field, offsetof(sr1_loss_report, field)                                         \
    }

static const struct {
    const char *key;
    size_t at;
    int is_max;
} figures[] = {
    FIGURE(loss),
    FIGURE(policy_loss),
    FIGURE(kl),
    FIGURE(entropy),
    FIGURE(clip_fraction),
    FIGURE(clip_low_fraction),
    FIGURE(clip_high_fraction),
    FIGURE(dual_clip_fraction),
    FIGURE(approx_kl),
    FIGURE(ratio_mean),
    FIGURE(importance_mean),
    FIGURE(importance_square),
    FIGURE(importance_cut),
    FIGURE(off_policy_cut),
    FIGURE(weight),
    {"ratio_max", offsetof(sr1_loss_report, ratio_max), 1},
    {"log_ratio_max", offsetof(sr1_loss_report, log_ratio_max), 1},
    {"importance_max", offsetof(sr1_loss_report, importance_max), 1},
};

#define N_FIGURES (sizeof figures / sizeof *figures)

static double figure(const sr1_loss_report *r, size_t i)
{
    return *(const double *)(const void *)((const char *)r + figures[i].at);
}

/* Relative where it is large. */
static void like(const char *name, const char *what, double got, double want,
                 double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fmax(fabs(want), 1e-3)))
        fail_msg("%s: %s is %.12g, not %.12g", name, what, got, want);
}

static void check_case(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "loss"));
    const json_t *want = json_object_get(row, "report");
    float gradient[MAX], of_entropy[MAX];
    struct case_ c;

    read_case(row, &c);
    floats(row, "gradient", gradient);
    floats(row, "entropy_gradient", of_entropy);
    call(&c, name);
    assert_int_equal(json_object_size(want), N_FIGURES);
    for (size_t i = 0; i < N_FIGURES; i++)
        like(name, figures[i].key, figure(&c.r, i), number(want, figures[i].key), 1e-9);
    assert_int_equal(c.r.tokens, c.b.n);
    for (size_t i = 0; i < c.b.n; i++) {
        like(name, "gradient", c.gradient[i], gradient[i], 1e-6);
        like(name, "entropy gradient", c.of_entropy[i], of_entropy[i], 1e-6);
    }
}

static void every_loss_equals_torch(void **state)
{
    (void)state;
    assert_int_equal(each_row("losses.jsonl", "loss", check_case), 192);
}

/* ---- the code of TRL and verl ---- */

static size_t find_figure(const char *key)
{
    for (size_t i = 0; i < N_FIGURES; i++)
        if (strcmp(figures[i].key, key) == 0)
            return i;
    fail_msg("no figure '%s'", key);
    return 0;
}

/* Of a row that trains on the tokens of high entropy alone. */
static void read_threshold(const json_t *row, struct case_ *c)
{
    const json_t *quantile = json_object_get(row, "top_entropy_quantile");

    if (quantile)
        assert_int_equal(sr1_loss_entropy_threshold(c->entropy, c->b.n,
                                                    json_number_value(quantile),
                                                    &c->o.entropy_threshold),
                         SR1_OK);
}

/* Of a row with a rejection the tokens that are left; the others have no gradient. */
static void take_kept(const json_t *row, struct case_ *c, float gradient[MAX])
{
    float *const arrays[] = {c->now,     c->old,     c->ref,  c->adv,
                             c->rollout, c->entropy, gradient};
    size_t n = 0, at = 0;
    uint8_t keep[MAX];

    if (!json_object_get(row, "rejection"))
        return;
    assert_int_equal(
        sr1_loss_reject(&c->b, json_string_value(json_object_get(row, "rejection")),
                        json_string_value(json_object_get(row, "thresholds")), keep,
                        NULL),
        SR1_OK);
    for (size_t s = 0; s < c->b.n_seqs; s++) {
        for (; at < (size_t)c->begin[s + 1]; at++) {
            assert_true(keep[at] || gradient[at] == 0);
            for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
                arrays[k][n] = arrays[k][at];
            n += keep[at];
        }
        c->begin[s + 1] = (int64_t)n;
    }
    c->b.n = n;
}

/* Weights of float32 are what limits the likeness; verl adds 1e-8 to its counts. */
static void check_peer(const json_t *row)
{
    const char *by = json_string_value(json_object_get(row, "by")), *key;
    json_t *want = json_object_get(row, "report"), *value;
    sr1_loss_maps m = {.struct_size = sizeof m, .length = number(row, "length")};
    float gradient[MAX];
    struct case_ c;

    read_batch(row, &c);
    floats(row, "gradient", gradient);
    take_kept(row, &c, gradient);
    m.n_seqs = c.b.n_seqs;
    m.seq_begin = c.begin;
    assert_int_equal(
        sr1_loss_weights(json_string_value(json_object_get(row, "aggregation")), &m,
                         c.weight),
        SR1_OK);
    read_threshold(row, &c);
    assert_int_equal(sr1_loss_choose(json_string_value(json_object_get(row, "loss")),
                                     &c.b, &c.o, 1, c.chosen),
                     SR1_OK);
    call(&c, json_string_value(json_object_get(row, "loss")));
    json_object_foreach(want, key, value)
    {
        if (!(fabs(figure(&c.r, find_figure(key)) - json_number_value(value)) <=
              1e-6 * fmax(1.0, fabs(json_number_value(value)))))
            fail_msg("%s, %s: %s is %.12g, not %.12g", by,
                     json_string_value(json_object_get(row, "aggregation")), key,
                     figure(&c.r, find_figure(key)), json_number_value(value));
    }
    for (size_t i = 0; i < c.b.n; i++)
        like(by, "gradient", c.gradient[i], gradient[i], 1e-6);
}

static void losses_are_those_of_trl_and_verl(void **state)
{
    (void)state;
    assert_int_equal(each_row("peer_losses.jsonl", "loss", check_peer), 258);
}

static void check_threshold(const json_t *row)
{
    float entropies[MAX];
    size_t n = floats(row, "entropy", entropies);
    double got, want = number(row, "threshold");

    assert_int_equal(sr1_loss_entropy_threshold(
                         entropies, n, number(row, "top_entropy_quantile"), &got),
                     SR1_OK);
    near(got, want, 1e-6);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(entropies[i] >= got, entropies[i] >= want);
}

static void thresholds_are_torchs_quantiles(void **state)
{
    static const float bad[2] = {1, NAN};
    double got = 9;

    (void)state;
    assert_int_equal(each_row("peer_losses.jsonl", "threshold", check_threshold), 20);
    assert_int_equal(sr1_loss_entropy_threshold(NULL, 0, 0.2, &got), SR1_OK);
    assert_true(got == 0);
    got = 9;
    assert_int_equal(sr1_loss_entropy_threshold(bad, 1, 1.5, &got), SR1_E_INVALID);
    assert_int_equal(sr1_loss_entropy_threshold(bad, 2, 0.2, &got), SR1_E_NUMERIC);
    assert_int_equal(sr1_loss_entropy_threshold(bad, 1, 0.2, NULL), SR1_E_INVALID);
    assert_true(got == 9);
}

/* Of those that may be drawn clip_cov draws its share, by the seed. */
static void draws_are_a_share_by_the_seed(void **state)
{
    sr1_loss_options o = {.struct_size = sizeof o};
    struct case_ c = {0};
    uint8_t again[MAX], other[MAX];
    int differ = 0;

    (void)state;
    attach(&c, MAX, 0);
    c.b.seq_begin = NULL;
    for (size_t i = 0; i < MAX; i++) { /* a half with covariances of about 1 */
        c.now[i] = c.old[i] = i % 2 ? -1.0f : -3.0f;
        c.adv[i] = i % 4 < 2 ? (i % 2 ? 1.0f : -1.0f) : 0.0f;
    }
    assert_int_equal(sr1_loss_options_init(&o, "clip_cov"), SR1_OK);
    o.clip_cov_lb = 0.5;
    for (uint64_t seed = 0; seed < 8; seed++) {
        size_t drawn = 0;

        o.clip_cov_ratio = seed < 4 ? 0.1 : 1e-6; /* six of 64; at least one */
        assert_int_equal(sr1_loss_choose("clip_cov", &c.b, &o, seed, c.chosen), SR1_OK);
        assert_int_equal(sr1_loss_choose("clip_cov", &c.b, &o, seed, again), SR1_OK);
        assert_int_equal(sr1_loss_choose("clip_cov", &c.b, &o, seed + 100, other),
                         SR1_OK);
        assert_memory_equal(c.chosen, again, MAX);
        differ += memcmp(c.chosen, other, MAX) != 0;
        for (size_t i = 0; i < MAX; i++) {
            drawn += c.chosen[i];
            assert_true(!c.chosen[i] || c.adv[i] != 0);
        }
        assert_int_equal(drawn, seed < 4 ? 6 : 1);
    }
    assert_true(differ >= 6);
    o.clip_cov_ratio = 1; /* there are 32 */
    assert_int_equal(sr1_loss_choose("clip_cov", &c.b, &o, 5, c.chosen), SR1_OK);
    for (size_t i = 0; i < MAX; i++)
        assert_int_equal(c.chosen[i], c.adv[i] != 0);
    assert_int_equal(sr1_loss_choose("grpo", &c.b, NULL, 5, c.chosen), SR1_OK);
    for (size_t i = 0; i < MAX; i++)
        assert_int_equal(c.chosen[i], 0);
    o.clip_cov_ratio = 0;
    assert_int_equal(sr1_loss_choose("clip_cov", &c.b, &o, 5, c.chosen), SR1_E_INVALID);
    assert_int_equal(sr1_loss_choose("none", &c.b, NULL, 5, c.chosen), SR1_E_NOT_FOUND);
    assert_int_equal(sr1_loss_choose("kl_cov", &c.b, NULL, 5, NULL), SR1_E_INVALID);
}

/* ---- parts ---- */

/* Sequences [from, to) of the whole. */
static void take_part(const struct case_ *whole, size_t from, size_t to,
                      struct case_ *part)
{
    size_t at = (size_t)whole->begin[from];

    *part = *whole;
    part->b.n = (size_t)whole->begin[to] - at;
    part->b.n_seqs = to - from;
    for (size_t s = from; s <= to; s++)
        part->begin[s - from] = whole->begin[s] - whole->begin[from];
    part->b.seq_begin = part->begin;
    part->b.new_log_probs = whole->now + at;
    part->b.old_log_probs = whole->old + at;
    part->b.ref_log_probs = whole->ref + at;
    part->b.advantages = whole->adv + at;
    part->b.weights = whole->weight + at;
    part->b.rollout_log_probs = whole->rollout + at;
    part->b.entropies = whole->entropy + at;
    part->b.chosen = whole->chosen + at;
    part->r = (sr1_loss_report){.struct_size = sizeof part->r};
}

/* k shards of whole sequences: the sums and the gradient are those of the whole. */
static void check_shards(const char *name, struct case_ *whole, size_t k)
{
    sr1_loss_report sum = {.struct_size = sizeof sum};
    struct case_ part;
    size_t n = whole->b.n_seqs;

    for (size_t i = 0; i < k; i++) {
        size_t from = n * i / k, to = n * (i + 1) / k;

        take_part(whole, from, to, &part);
        call(&part, name);
        sr1__loss_report_add(&sum, &part.r);
        if (part.b.n)
            assert_memory_equal(part.gradient, whole->gradient + whole->begin[from],
                                part.b.n * sizeof(float));
    }
    for (size_t i = 0; i < N_FIGURES; i++)
        like(name, figures[i].key, figure(&sum, i), figure(&whole->r, i), 1e-12);
    assert_int_equal(sum.tokens, whole->r.tokens);
}

static void shards_of(const json_t *row)
{
    static const size_t shards[] = {1, 2, 3, 8};
    struct case_ c;

    read_case(row, &c);
    call(&c, json_string_value(json_object_get(row, "loss")));
    for (size_t i = 0; i < 4; i++)
        check_shards(json_string_value(json_object_get(row, "loss")), &c, shards[i]);
}

static void parts_add_up_for_every_loss(void **state)
{
    (void)state;
    assert_int_equal(each_row("losses.jsonl", "loss", shards_of), 192);
}

/* Weight 0: a padding row changes nothing and gets no gradient. */
static void padding_of(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "loss"));
    struct case_ c, padded;
    size_t n;

    read_case(row, &c);
    call(&c, name);
    padded = c;
    n = c.b.n;
    attach(&padded, n + 3, c.b.n_seqs + 1);
    padded.begin[c.b.n_seqs + 1] = (int64_t)n + 3;
    for (size_t i = n; i < n + 3; i++) {
        padded.now[i] = padded.old[i] = padded.ref[i] = padded.rollout[i] = -1.0f;
        padded.adv[i] = 1.0f;
        padded.weight[i] = 0.0f;
    }
    call(&padded, name);
    assert_memory_equal(padded.gradient, c.gradient, n * sizeof(float));
    for (size_t i = n; i < n + 3; i++)
        assert_true(padded.gradient[i] == 0.0f);
    for (size_t i = 0; i < N_FIGURES; i++)
        if (!figures[i].is_max)
            like(name, figures[i].key, figure(&padded.r, i), figure(&c.r, i), 1e-12);
}

static void padding_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(each_row("losses.jsonl", "loss", padding_of), 192);
}

/* ---- weights ---- */

static void check_weights(const json_t *row)
{
    const char *mode = json_string_value(json_object_get(row, "aggregation"));
    struct case_ c;
    uint64_t groups[MAX];
    float got[MAX];
    sr1_loss_maps m = {.struct_size = sizeof m, .length = number(row, "length")};

    read_case(row, &c);
    for (size_t s = 0; s < c.b.n_seqs; s++)
        groups[s] = (uint64_t)c.groups[s];
    m.n_seqs = c.b.n_seqs;
    m.seq_begin = c.begin;
    m.groups = groups;
    assert_int_equal(sr1_loss_weights(mode, &m, got), SR1_OK);
    for (size_t i = 0; i < c.b.n; i++)
        like(mode, "weight", got[i], c.weight[i], 1e-7);
}

static void every_aggregation_equals_numpy(void **state)
{
    (void)state;
    assert_int_equal(each_row("losses.jsonl", "loss", check_weights), 192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loss_equals_torch),
        cmocka_unit_test(losses_are_those_of_trl_and_verl),
        cmocka_unit_test(thresholds_are_torchs_quantiles),
        cmocka_unit_test(draws_are_a_share_by_the_seed),
        cmocka_unit_test(parts_add_up_for_every_loss),
        cmocka_unit_test(padding_changes_nothing),
        cmocka_unit_test(every_aggregation_equals_numpy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
