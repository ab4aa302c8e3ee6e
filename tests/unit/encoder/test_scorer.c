/* Exact search by libtorch, on its CPU in a device's place: hits are those of the search
 * without it, bit for bit; what is refused; memory.
 * usage: test-scorer [lowered], the latter where libtorch may round fp32 products. */
#include "support/dense_bed.h"
#include "support/device.h"

#include "tensor/encoder/device_scorer.h"
#include "tensor/torch/shim.h"

static const char *device_name(void)
{
    return test_on_cpu() ? "cpu" : "sim:0";
}

static void hits_are_the_cpus_bit_for_bit(void **state)
{
    (void)state;
    bed_rounds(&sr1__scorer_torch, test_device(), 150);
}

/* Scores of several blocks against sums in double. */
static void scores_are_those_of_sums_in_double(void **state)
{
    enum { N = 50, D = 32, K = 50 };
    static float v[N * D], q[D], scores[K];
    static int8_t bytes[N * D];
    static float scales[N];
    static int64_t rows[K];
    int seen[N] = {0};
    struct sr1__rng rng;
    struct sr1__scorer_rows of = {.type = SR1__DOT_INT8,
                                  .n = N,
                                  .dim = D,
                                  .rows = bytes,
                                  .scales = scales,
                                  .block = 7,
                                  .bytes = 1};
    void *scorer = NULL;

    (void)state;
    sr1__rng_seed(&rng, 3, 3);
    for (size_t i = 0; i < N * D; i++)
        v[i] = (float)sr1__rng_normal(&rng);
    for (size_t k = 0; k < D; k++)
        q[k] = (float)(int)(1000 * sr1__rng_normal(&rng));
    for (size_t i = 0; i < N; i++)
        scales[i] = sr1__to_int8(v + i * D, bytes + i * D, D);
    assert_int_equal(sr1__scorer_torch.open(&scorer, test_device(), &of), SR1_OK);
    assert_string_equal(sr1__scorer_torch.device(scorer), device_name());
    assert_int_equal(sr1__scorer_torch.best(scorer, q, 1, K, scores, rows), SR1_OK);
    for (size_t i = 0; i < K; i++) {
        double want = 0;

        for (size_t k = 0; k < D; k++)
            want += (double)bytes[rows[i] * D + (int64_t)k] * (double)q[k];
        want *= (double)scales[rows[i]];
        assert_true(fabs(want - (double)scores[i]) < 1e-6 * (1 + fabs(want)) * D);
        assert_true(i == 0 || scores[i] <= scores[i - 1]);
        assert_false(seen[rows[i]]++);
    }
    sr1__scorer_torch.close(scorer);
}

static struct bed small_bed(void)
{
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 5, 5);
    return bed_make(BED_NORMAL, "fp16", 300, 20, &rng);
}

static void what_cannot_be_is_refused(void **state)
{
    struct bed b = small_bed();
    struct sr1__scorer_rows rows = {.type = SR1__DOT_FP16,
                                    .n = b.n,
                                    .dim = 32,
                                    .rows = sr1__dense_vectors(b.ix),
                                    .block = 100,
                                    .bytes = (uint64_t)1 << 60};
    sr1_search *engine = NULL;
    sr1_dense_info info = {sizeof(info)};
    void *scorer = NULL;

    (void)state;
    bed_refused(sr1__scorer_torch.open(&scorer, test_device(), &rows), SR1_E_DEVICE_NOMEM,
                "need 1099511627776 MiB of memory on");
    assert_non_null(strstr(sr1_last_error(), "search_index_device"));
    rows.bytes = 1;
    bed_refused(sr1__scorer_torch.open(&scorer, "tpu", &rows), SR1_E_INVALID, "'tpu'");
    sr1__device_library_dir("no-such-folder");
    bed_refused(sr1__scorer_torch.open(&scorer, "auto", &rows), SR1_E_DEVICE,
                "no CUDA device");
    assert_null(scorer);
    assert_ptr_equal(sr1__scorer_offered(), &sr1__scorer_torch);
    bed_refused(bed_open(&engine, &b, "cuda"), SR1_E_DEVICE, "use device: cpu");
    bed_refused(bed_open(&engine, &b, "cudax"), SR1_E_INVALID, "cuda:N");
    assert_null(engine);
    assert_int_equal(bed_open(&engine, &b, "auto"), SR1_OK);
    assert_int_equal(sr1_dense_info_get(engine, &info), SR1_OK);
    assert_string_equal(info.device, "cpu");
    sr1_search_free(engine);
    sr1__device_library_dir(NULL);
    bed_free(&b);
}

static sr1_status open_and_scan(void *arg)
{
    struct bed *b = arg;
    const struct sr1__dense_device_settings s = {.margin = 1, .block = 64};
    struct sr1__dense_device *d = NULL;
    struct sr1__dense_hit hits[3 * 5];
    int32_t found;
    sr1_status status =
        sr1__dense_device_open(&d, b->ix, NULL, &sr1__scorer_torch, test_device(), &s);

    if (status == SR1_OK)
        status = sr1__dense_device_scan(d, NULL, b->queries, 3, 5, hits, &found);
    sr1__dense_device_close(d);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    struct bed b = small_bed();

    (void)state;
    assert_true(torture(open_and_scan, &b) > 10);
    bed_free(&b);
}

static void lowered_products_are_refused(void **state)
{
    struct bed b = small_bed();

    (void)state;
    bed_refused(open_and_scan(&b), SR1_E_STATE, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE");
    bed_free(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_are_the_cpus_bit_for_bit),
        cmocka_unit_test(scores_are_those_of_sums_in_double),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    const struct CMUnitTest lowered[] = {
        cmocka_unit_test(lowered_products_are_refused),
    };

    if (argc > 1 && strcmp(argv[1], "lowered") == 0)
        return cmocka_run_group_tests(lowered, scratch_make, scratch_remove);
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
