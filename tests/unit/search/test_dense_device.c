/* test_dense_device.c - searches on a device that is none: its sums are those of doubles,
 * off by as much as fp32 may be, and it fails where it is told to. */
#include "support/dense_bed.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- the device ---- */

struct fake {
    struct sr1__scorer_rows rows;
    void *copy; /* of the vectors */
    float *scales;
    struct sr1__rng rng;
};

static struct {
    double noise; /* of what rounding may be off by; 1: all of it */
    int hide;     /* every 16th row gets a score of nothing */
    sr1_status open_status;
    long calls;
    long fail_at; /* call that fails; 0: none */
    int bad_row;  /* names a row that is not there */
    int bad_score;
    atomic_int inside;
    atomic_int together; /* was it ever called by two at once? */
    int open;
} fake;

static void fake_reset(void)
{
    memset(&fake, 0, sizeof(fake));
    fake.noise = 1;
}

static double fake_element(const struct fake *f, size_t row, size_t k)
{
    size_t at = row * f->rows.dim + k;
    float v;

    if (f->rows.type == SR1__DOT_FP32)
        return (double)((const float *)f->copy)[at];
    if (f->rows.type == SR1__DOT_INT8)
        return (double)((const int8_t *)f->copy)[at];
    sr1__f16_to_f32((const uint16_t *)f->copy + at, &v, 1);
    return (double)v;
}

/* The worst that fp32 sums in some order may give, up or down as it comes. */
static float fake_score(struct fake *f, size_t row, const float *query)
{
    double scale = f->scales != NULL ? (double)f->scales[row] : 1.0;
    double off = ((double)f->rows.dim + 2) * 0x1p-24 * fake.noise;
    double sum = 0;
    double size = 0;

    for (size_t k = 0; k < f->rows.dim; k++) {
        double product = fake_element(f, row, k) * (double)query[k];

        sum += product;
        size += fabs(product);
    }
    if (fake.hide && row % 16 == 3)
        return -1e9F;
    return (float)(scale * (sum + (sr1__rng_below(&f->rng, 2) ? off : -off) * size));
}

struct scored {
    float score;
    size_t row;
};

/* Of equal scores the last row first: not the order of hits. */
static int by_score(const void *a, const void *b)
{
    const struct scored *x = a;
    const struct scored *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->row > y->row ? -1 : 1;
}

static sr1_status fake_best(void *self, const float *queries, size_t n, size_t most,
                            float *scores, int64_t *rows)
{
    struct fake *f = self;
    struct scored *all = malloc(f->rows.n * sizeof(*all));

    if (atomic_fetch_add(&fake.inside, 1) > 0)
        atomic_store(&fake.together, 1);
    for (size_t q = 0; q < n; q++) {
        for (size_t r = 0; r < f->rows.n; r++)
            all[r] = (struct scored){fake_score(f, r, queries + q * f->rows.dim), r};
        qsort(all, f->rows.n, sizeof(*all), by_score);
        for (size_t i = 0; i < most; i++) {
            scores[q * most + i] = all[i].score;
            rows[q * most + i] = (int64_t)all[i].row;
        }
    }
    free(all);
    if (fake.bad_row)
        rows[0] = fake.bad_row > 0 ? (int64_t)f->rows.n : -1;
    if (fake.bad_score)
        scores[0] = fake.bad_score > 0 ? INFINITY : NAN;
    atomic_fetch_sub(&fake.inside, 1);
    if (++fake.calls == fake.fail_at)
        return sr1__fail(SR1_E_DEVICE, "the device fell off");
    return SR1_OK;
}

static void fake_close(void *self)
{
    struct fake *f = self;

    free(f->copy);
    free(f->scales);
    free(f);
    fake.open--;
}

static sr1_status fake_open(void **out, const char *device,
                            const struct sr1__scorer_rows *rows)
{
    size_t bytes = rows->n * rows->dim *
                   (size_t)(rows->type == SR1__DOT_FP32   ? 4
                            : rows->type == SR1__DOT_FP16 ? 2
                                                          : 1);
    struct fake *f;

    assert_true(rows->block >= 1 && rows->block <= rows->n);
    assert_true(rows->bytes > bytes);
    if (fake.open_status != SR1_OK)
        return sr1__fail(fake.open_status, "no '%s' today", device);
    f = calloc(1, sizeof(*f));
    f->rows = *rows;
    f->copy = malloc(bytes);
    memcpy(f->copy, rows->rows, bytes);
    if (rows->scales != NULL) {
        f->scales = malloc(rows->n * sizeof(float));
        memcpy(f->scales, rows->scales, rows->n * sizeof(float));
    }
    sr1__rng_seed(&f->rng, rows->n, rows->dim);
    fake.open++;
    *out = f;
    return SR1_OK;
}

static const char *fake_device(const void *self)
{
    (void)self;
    return "fake:0";
}

static const struct sr1__scorer_ops fake_ops = {fake_open, fake_device, fake_best,
                                                fake_close};

/* ---- the same as here ---- */

static void hits_are_the_cpus_bit_for_bit(void **state)
{
    (void)state;
    fake_reset();
    bed_rounds(&fake_ops, "cuda", 400);
    assert_int_equal(fake.open, 0);
}

/* A device that rounds worse than fp32 is not believed; one that leaves rows out is, and
 * the comparison above sees it. */
static void a_worse_device_is_seen(void **state)
{
    (void)state;
    for (int hide = 0; hide < 2; hide++) {
        struct sr1__dense_device *d = NULL;
        uint64_t queries;
        uint64_t again;
        struct sr1__rng rng;
        struct bed b;

        fake_reset();
        fake.hide = hide;
        fake.noise = hide ? 1 : 100;
        sr1__rng_seed(&rng, 1, 1);
        b = bed_make(BED_NORMAL, "fp32", 900, 33, &rng);
        assert_int_equal(sr1__dense_device_open(&d, b.ix, NULL, &fake_ops, "x", NULL),
                         SR1_OK);
        assert_int_equal(bed_differences(&b, d, BED_QUERIES, 10) > 0, hide);
        sr1__dense_device_counts(d, &queries, &again);
        assert_int_equal(again, hide ? 1 : queries); /* the query of zeros */
        sr1__dense_device_close(d);
        bed_free(&b);
    }
}

/* Where nothing is near anything no query has to be searched again; among twins it has to
 * be where the margin ends within a group of them. */
static void few_queries_are_searched_again(void **state)
{
    static const struct {
        enum bed_kind kind;
        size_t margin;
        int again; /* 0: none, 1: some, 2: all */
    } cases[] = {
        {BED_NORMAL, 128, 0}, {BED_TWINS, 128, 0}, {BED_NEAR, 128, 0},
        {BED_TWINS, 1, 1},    {BED_NEAR, 1, 1},    {BED_ZEROS, 128, 2},
    };

    (void)state;
    fake_reset();
    for (size_t i = 0; i < 3 * sizeof(cases) / sizeof(cases[0]); i++) {
        struct sr1__dense_device_settings s = {.margin = cases[i / 3].margin};
        struct sr1__dense_device *d = NULL;
        uint64_t queries;
        uint64_t again;
        struct sr1__rng rng;
        struct bed b;

        sr1__rng_seed(&rng, i, 2);
        b = bed_make(cases[i / 3].kind, bed_dtypes[i % 3], 900, 33, &rng);
        memcpy(b.queries, b.queries + b.dim, b.dim * sizeof(float)); /* none of zeros */
        assert_int_equal(sr1__dense_device_open(&d, b.ix, NULL, &fake_ops, "x", &s),
                         SR1_OK);
        assert_int_equal(bed_differences(&b, d, BED_QUERIES, 10), 0);
        sr1__dense_device_counts(d, &queries, &again);
        assert_int_equal(queries, BED_QUERIES);
        assert_int_equal(again == 0, cases[i / 3].again == 0);
        assert_int_equal(again == BED_QUERIES, cases[i / 3].again == 2);
        sr1__dense_device_close(d);
        bed_free(&b);
    }
}

/* ---- through the engine ---- */

static struct bed small_bed(void)
{
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 5, 5);
    return bed_make(BED_NORMAL, "int8", 300, 20, &rng);
}

static void names_of_devices(void **state)
{
    struct bed b = small_bed();
    sr1_dense_info info = {sizeof(info)};
    sr1_search *engine = NULL;

    (void)state;
    fake_reset();
    sr1__scorer_offer(NULL);
    bed_refused(bed_open(&engine, &b, "tpu"), SR1_E_INVALID,
                "'tpu' is not one of auto, cpu, cuda, cuda:N");
    bed_refused(bed_open(&engine, &b, "cuda"), SR1_E_UNSUPPORTED, "use device cpu");
    assert_null(engine);
    assert_int_equal(bed_open(&engine, &b, "auto"), SR1_OK);
    assert_int_equal(sr1_dense_info_get(engine, &info), SR1_OK);
    assert_string_equal(info.device, "cpu");
    sr1_search_free(engine);
    engine = NULL;
    sr1__scorer_offer(&fake_ops);
    fake.open_status = SR1_E_DEVICE_NOMEM;
    bed_refused(bed_open(&engine, &b, "cuda:1"), SR1_E_DEVICE_NOMEM,
                "dense search: no 'cuda:1' today");
    assert_null(engine);
    assert_int_equal(bed_open(&engine, &b, "auto"), SR1_OK);
    sr1_search_free(engine);
    engine = NULL;
    fake.open_status = SR1_E_CORRUPT; /* nothing that the CPU would mend */
    bed_refused(bed_open(&engine, &b, "auto"), SR1_E_CORRUPT, "today");
    assert_int_equal(fake.open, 0);
    bed_free(&b);
}

static sr1_status ask(sr1_search *engine, size_t first, size_t n, char (*ids)[16])
{
    const char *queries[BED_QUERIES];
    char text[BED_QUERIES][16];
    sr1_search_results *r = NULL;
    sr1_status status;

    memset(ids, 0, n * sizeof(*ids));
    for (size_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof(text[i]), "q%zu", first + i);
        queries[i] = text[i];
    }
    status = sr1_search_run(engine, queries, n, 5, &r);
    for (size_t i = 0; status == SR1_OK && i < n; i++) {
        sr1_search_hit hit = {sizeof(hit)};

        status = sr1_search_results_hit(r, i, 4, &hit);
        snprintf(ids[i], sizeof(ids[i]), "%s", status == SR1_OK ? hit.id : "none");
    }
    sr1_search_results_free(r);
    return status;
}

static void an_engine_searches_there_and_tells(void **state)
{
    struct bed b = small_bed();
    char here[BED_QUERIES][16];
    char there[BED_QUERIES][16];
    sr1_dense_info info = {sizeof(info)};
    sr1_dense_info of_file = {sizeof(of_file)};
    sr1_search *engine = NULL;

    (void)state;
    fake_reset();
    sr1__scorer_offer(&fake_ops);
    assert_int_equal(bed_open(&engine, &b, NULL), SR1_OK);
    assert_int_equal(ask(engine, 0, BED_QUERIES, here), SR1_OK);
    assert_int_equal(fake.calls, 0);
    sr1_search_free(engine);
    assert_int_equal(bed_open(&engine, &b, "cuda"), SR1_OK);
    assert_int_equal(ask(engine, 0, BED_QUERIES, there), SR1_OK);
    assert_int_equal(fake.calls, 3); /* 64, 64, 2 */
    assert_memory_equal(here, there, sizeof(here));
    assert_int_equal(sr1_dense_info_get(engine, &info), SR1_OK);
    assert_string_equal(info.device, "fake:0");
    assert_int_equal(info.device_queries, BED_QUERIES);
    assert_int_equal(info.device_rescans, 1); /* of zeros: all rows are alike */
    assert_int_equal(sr1_dense_info_read(scratch_path("bed.idx"), &of_file), SR1_OK);
    assert_null(of_file.device);
    assert_int_equal(of_file.device_bytes, info.device_bytes);
    /* a block of vectors in steps of 2 MiB, scales in steps of 512 bytes, the block as
     * fp32, four times the scores of 64 queries, 128 MiB */
    assert_int_equal(info.device_bytes,
                     (2 << 20) + 3 * 512 + 300 * 4 * (32 + 4 * 64) + (128 << 20));
    sr1_search_free(engine);
    assert_int_equal(fake.open, 0);
    bed_free(&b);
}

static void a_device_that_fails_is_told_of(void **state)
{
    struct bed b = small_bed();
    char ids[BED_QUERIES][16];
    char again[BED_QUERIES][16];
    sr1_dense_info info = {sizeof(info)};
    sr1_search *engine = NULL;

    (void)state;
    fake_reset();
    sr1__scorer_offer(&fake_ops);
    assert_int_equal(bed_open(&engine, &b, "cuda"), SR1_OK);
    fake.fail_at = 2;
    bed_refused(ask(engine, 1, 100, ids), SR1_E_DEVICE, "the device fell off");
    assert_int_equal(ask(engine, 1, 100, ids), SR1_OK); /* it is as it was */
    fake.bad_row = 1;
    bed_refused(ask(engine, 1, 1, again), SR1_E_INTERNAL, "named row 300 of 300");
    fake.bad_row = -1;
    bed_refused(ask(engine, 1, 1, again), SR1_E_INTERNAL, "named row -1 of 300");
    fake.bad_row = 0;
    for (fake.bad_score = -1; fake.bad_score <= 1; fake.bad_score += 2) {
        assert_int_equal(ask(engine, 1, 1, again), SR1_OK);
        assert_string_equal(again[0], ids[0]);
    }
    assert_int_equal(sr1_dense_info_get(engine, &info), SR1_OK);
    assert_int_equal(info.device_rescans, 2);
    sr1_search_free(engine);
    bed_free(&b);
}

/* Numbers that are not finite are found when the rows are measured. */
static void a_damaged_row_is_found_at_opening(void **state)
{
    static const size_t sizes[] = {4, 2, 4}; /* the last is a scale */
    struct sr1__rng rng;

    (void)state;
    fake_reset();
    sr1__rng_seed(&rng, 6, 6);
    for (size_t t = 0; t < 3; t++) {
        struct bed b = bed_make(BED_NORMAL, bed_dtypes[t], 40, 20, &rng);
        struct sr1__dense_device *d = NULL;
        struct sr1__dense_index *ix = NULL;
        struct sr1__buf bytes;
        char *at;

        assert_int_equal(sr1__file_read(scratch_path("bed.idx"), 0, &bytes), SR1_OK);
        assert_int_equal(sr1__dense_open_memory(&ix, bytes.data, bytes.len), SR1_OK);
        at = bytes.data + ((t == 2 ? (const char *)sr1__dense_scales(ix)
                                   : (const char *)sr1__dense_vectors(ix)) -
                           bytes.data);
        memset(at + 7 * sizes[t] * (t == 2 ? 1 : 32), 0xff, sizes[t]);
        bed_refused(sr1__dense_device_open(&d, ix, NULL, &fake_ops, "x", NULL),
                    SR1_E_CORRUPT, "document 7 is not finite");
        assert_null(d);
        sr1__dense_close(ix);
        sr1__buf_free(&bytes);
        bed_free(&b);
    }
    assert_int_equal(fake.open, 0);
}

struct asker {
    sr1_search *engine;
    pthread_t thread;
    size_t first;
    sr1_status status;
    char ids[20][16];
};

static void *ask_some(void *arg)
{
    struct asker *a = arg;

    for (size_t i = 0; i < 20 && a->status == SR1_OK; i++)
        a->status = ask(a->engine, a->first + i, 1, &a->ids[i]);
    return NULL;
}

static void threads_take_turns(void **state)
{
    struct bed b = small_bed();
    struct asker askers[4] = {{0}};
    char want[BED_QUERIES][16];
    sr1_search *engine = NULL;

    (void)state;
    fake_reset();
    sr1__scorer_offer(&fake_ops);
    assert_int_equal(bed_open(&engine, &b, "cuda"), SR1_OK);
    for (size_t i = 0; i < 4; i++) {
        askers[i] = (struct asker){.engine = engine, .first = 25 * i};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_some, &askers[i]),
                         0);
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(askers[i].thread, NULL);
    assert_int_equal(ask(engine, 0, BED_QUERIES, want), SR1_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(askers[i].status, SR1_OK);
        assert_memory_equal(askers[i].ids, want + 25 * i, sizeof(askers[i].ids));
    }
    assert_false(atomic_load(&fake.together));
    sr1_search_free(engine);
    bed_free(&b);
}

/* ---- memory ---- */

static sr1_status open_and_ask(void *arg)
{
    struct bed *b = arg;
    char ids[3][16];
    sr1_search *engine = NULL;
    sr1_status status = bed_open(&engine, b, "cuda");

    if (status == SR1_OK)
        status = ask(engine, 0, 3, ids);
    sr1_search_free(engine);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    struct bed b = small_bed();

    (void)state;
    fake_reset();
    sr1__scorer_offer(&fake_ops);
    torture(open_and_ask, &b);
    assert_int_equal(fake.open, 0);
    bed_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_are_the_cpus_bit_for_bit),
        cmocka_unit_test(a_worse_device_is_seen),
        cmocka_unit_test(few_queries_are_searched_again),
        cmocka_unit_test(names_of_devices),
        cmocka_unit_test(an_engine_searches_there_and_tells),
        cmocka_unit_test(a_device_that_fails_is_told_of),
        cmocka_unit_test(a_damaged_row_is_found_at_opening),
        cmocka_unit_test(threads_take_turns),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
