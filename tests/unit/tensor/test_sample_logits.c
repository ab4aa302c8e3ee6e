/* Tokens drawn where the logits lie are those of sr1__sample_row: same id for the same
 * uniform, but where the uniform lies on the border between two tokens. */
#include "check.h"
#include "support/device.h"
#include "tensor/ops/sample_logits.h"

#define QWEN_VOCAB 151936

static sr1__device device;

static const struct sr1__sampling settings[] = {
    {0, 0, 1.0},      {1.0, 0, 1.0},  {0.7, 0, 1.0},    {1.0, 0, 0.9},  {0.7, 20, 1.0},
    {0.6, 20, 0.95},  {1.3, 5, 0.5},  {1.0, 1, 1.0},    {1.0, 0, 1e-9}, {5.0, 1000, 0.99},
    {0.05, 0, 0.999}, {1.0, 50, 1.0}, {2.0, 0, 0.9999}, {100, 3, 0.3}};
#define N_SETTINGS (sizeof settings / sizeof *settings)

static void sample_there(const float *logits, size_t n, size_t vocab,
                         const struct sr1__sampling *how, const double *u,
                         struct sr1__sample *out)
{
    sr1_scope *s = sr1__scope_open(device, "sample");
    double *columns = malloc(n * SR1__SAMPLE_COLUMNS * sizeof *columns);
    sr1_tensor *x = t_from_f32(s, logits, T_SHAPE((int64_t)n, (int64_t)vocab));
    sr1_tensor *y = t_from_host(s, u, SR1__F64, T_SHAPE((int64_t)n, 1)), *ids;

    t_to_host_f64(s, sr1__nn_sample(s, x, how->temperature > 0 ? y : NULL, how, &ids),
                  columns, n * SR1__SAMPLE_COLUMNS);
    OK(sr1__scope_close(s));
    OK(sr1__samples_unpack(columns, n, out));
    free(columns);
}

/* Mass of the ids up to a and of those up to b, by what sr1__sample_log_prob says. */
static void sum_mass(const float *x, size_t vocab, const struct sr1__sampling *how,
                     int32_t a, int32_t b, double mass[2])
{
    double sum = 0;

    for (int32_t i = 0; i <= b; i++) {
        float lp;

        OK(sr1__sample_log_prob(x, vocab, how, i, &lp));
        sum += exp((double)lp);
        mass[0] = i == a ? sum : mass[0];
    }
    mass[1] = sum;
}

/* a and b are neighbours of the border at u: up to a there is u, and all up to b but b
 * itself. */
static int lies_on_border(const float *x, size_t vocab, const struct sr1__sampling *how,
                          int32_t a, int32_t b, double u)
{
    double mass[2] = {0, 0};
    float lp;

    if (a > b)
        return lies_on_border(x, vocab, how, b, a, u);
    sum_mass(x, vocab, how, a, b, mass);
    OK(sr1__sample_log_prob(x, vocab, how, b, &lp));
    return fabs(mass[0] - u) < 1e-6 && fabs(mass[1] - exp((double)lp) - u) < 1e-6;
}

static void check_sample(const struct sr1__sample *got, const struct sr1__sample *want)
{
    near((double)got->log_prob, (double)want->log_prob, 1e-5);
    near((double)got->entropy, (double)want->entropy,
         1e-5 * fmax(1, (double)want->entropy));
    near((double)got->log_kept, (double)want->log_kept, 1e-5);
}

/* n rows drawn in both ways; how many ids differ, which must be on borders. */
static int compare_rows(const float *x, size_t n, size_t vocab,
                        const struct sr1__sampling *how, uint64_t seed)
{
    struct sr1__sample *there = calloc(n, sizeof *there), here;
    double *u = calloc(n, sizeof *u);
    int differ = 0;

    for (size_t i = 0; i < n; i++) {
        struct sr1__rng rng;

        sr1__rng_seed(&rng, seed, i);
        u[i] = sr1__rng_uniform(&rng);
    }
    sample_there(x, n, vocab, how, u, there);
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * vocab;
        struct sr1__rng rng;

        sr1__rng_seed(&rng, seed, i);
        OK(sr1__sample_row(row, vocab, how, &rng, &here));
        if (there[i].id == here.id) {
            check_sample(&there[i], &here);
            continue;
        }
        differ++;
        if (!lies_on_border(row, vocab, how, here.id, there[i].id, u[i]))
            fail_msg("id %d, not %d, of %zu for %.17g", (int)there[i].id, (int)here.id,
                     vocab, u[i]);
    }
    free(there);
    free(u);
    return differ;
}

/* Normal logits; in some rows rounded, so that many are equal. */
static float *random_rows(size_t n, size_t vocab, double sd, uint64_t seed)
{
    float *x = normals(n * vocab, seed);

    for (size_t i = 0; i < n * vocab; i++) {
        x[i] *= (float)sd;
        if (i / vocab % 4 == 3)
            x[i] = roundf(2 * x[i]) / 2;
    }
    return x;
}

static void ids_are_those_of_the_host(void **state)
{
    static const size_t sizes[] = {1, 2, 17, 128, 1023, 1024, 4099};
    const size_t rows = test_on_cpu() ? 64 : 16;
    int differ = 0, all = 0;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < N_SETTINGS; j++) {
            float *x = random_rows(rows, sizes[i], j % 3 == 0 ? 0.5 : 3.0, 31 * i + j);

            differ += compare_rows(x, rows, sizes[i], &settings[j], 7 * i + j);
            all += (int)rows;
            free(x);
        }
    assert_true(differ * 1000 <= all);
}

static void ids_of_a_whole_vocabulary(void **state)
{
    (void)state;
    for (size_t j = 0; j < 6; j++) {
        float *x = random_rows(3, QWEN_VOCAB, j % 2 ? 3.0 : 1.0, j);

        (void)compare_rows(x, 3, QWEN_VOCAB, &settings[j], j);
        free(x);
    }
}

/* The lowest and highest uniform draw the first and the last token that is kept. */
static void ends_are_kept_tokens(void **state)
{
    enum { V = 96 };
    const double u[2] = {0, 1.0 - 0x1p-53};
    const struct sr1__sampling how = {1, 0, 1};
    struct sr1__sample out[2];
    float x[2 * V];

    (void)state;
    for (size_t first = 0; first < V; first += 5)
        for (size_t last = first; last < V; last += 7) {
            for (size_t i = 0; i < 2 * V; i++)
                x[i] = i % V == first || i % V == last ? 3.0F : -200.0F;
            sample_there(x, 2, V, &how, u, out);
            assert_int_equal(out[0].id, first);
            assert_int_equal(out[1].id, last);
        }
}

static void equal_logits_are_cut_alike(void **state)
{
    enum { V = 5000 };
    const struct sr1__sampling how = {1, 3, 0.1};
    const double u[2] = {0, 1.0 - 0x1p-53};
    struct sr1__sample out[2];
    float *flat = calloc(2 * V, sizeof *flat);

    (void)state;
    sample_there(flat, 2, V, &how, u, out);
    assert_int_equal(out[0].id, 0); /* all tie at top_k; a tenth of the mass stays */
    assert_int_equal(out[1].id, 499);
    near((double)out[1].log_prob, -log(500), 1e-6);
    near((double)out[1].log_kept, log(0.1), 1e-6);
    free(flat);
}

static void extreme_logits_are_no_error(void **state)
{
    const float huge[4] = {-3e38F, 3e38F, 0, 1};

    (void)state;
    for (size_t j = 0; j < N_SETTINGS; j++)
        assert_int_equal(compare_rows(huge, 1, 4, &settings[j], j), 0);
}

static void a_logit_that_is_not_finite_names_its_row(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    enum { V = 64 };

    (void)state;
    for (size_t j = 0; j < N_SETTINGS * 3; j++) {
        const double u[3] = {0.5, 0.5, 0.5};
        const struct sr1__sampling *how = &settings[j / 3];
        double columns[3 * SR1__SAMPLE_COLUMNS];
        struct sr1__sample out[3] = {{.id = 77}};
        float x[3 * V] = {0};
        sr1_scope *s = sr1__scope_open(device, "odd");
        sr1_tensor *ids;

        x[2 * V + 9 * j % V] = odd[j % 3];
        t_to_host_f64(s,
                      sr1__nn_sample(s, t_from_f32(s, x, T_SHAPE(3, V)),
                                     how->temperature > 0
                                         ? t_from_host(s, u, SR1__F64, T_SHAPE(3, 1))
                                         : NULL,
                                     how, &ids),
                      columns, 3 * SR1__SAMPLE_COLUMNS);
        OK(sr1__scope_close(s));
        assert_int_equal(sr1__samples_unpack(columns, 3, out), SR1_E_NUMERIC);
        assert_non_null(strstr(sr1_last_error(), "row 2: a logit is not finite"));
        assert_int_equal(out[0].id, 77);
    }
}

static int open_test_device(void **state)
{
    (void)state;
    return sr1__device_resolve(test_device(), &device) == SR1_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_the_host),
        cmocka_unit_test(ids_of_a_whole_vocabulary),
        cmocka_unit_test(ends_are_kept_tokens),
        cmocka_unit_test(equal_logits_are_cut_alike),
        cmocka_unit_test(extreme_logits_are_no_error),
        cmocka_unit_test(a_logit_that_is_not_finite_names_its_row),
    };

    return cmocka_run_group_tests(tests, open_test_device, NULL);
}
