/* test_nccl.c - distributed_backend: nccl, with a table of this program's in place of
 * libsearchr1_nccl.so: its groups are Gloo's, on the CPU. What exchanges tensors, in
 * whose order sums are added, and what is said where there is no such group. No NCCL
 * runs. */
#define TINY_WIDTH "768" /* so that tensors have several chunks, and are cut */

#include "dist/fake_nccl.h"
#include "dist/ranks.h"
#include "dist/saved.h"
#include "unit/train/runs.h"

#include "tensor/ops/ops.h"

/* ---- exchanges ---- */

static sr1_status open_job(const struct ranks *r, int32_t reduces, struct sr1__dist **out)
{
    struct sr1__launch l = ranks_launch(r);
    struct sr1__dist_options o = {.backend = "nccl",
                                  .device = SR1__CPU,
                                  .limit = 30,
                                  .reduces = reduces,
                                  .debug = r->debug};

    return sr1__dist_open(out, &l, &o);
}

/* 2^24 + 1 - 2^24 in fp32: what a sum is tells in which order it was added. */
static float number_of(int32_t rank, int64_t i)
{
    static const float of[4] = {16777216.0F, 1.0F, -16777216.0F, 3.0F};

    return of[rank] * (float)(1 + i % 3);
}

#define NUMBERS 24

static float sum_of(int32_t first, int32_t step, int64_t i)
{
    float sum = number_of(first, i);

    for (int32_t k = 1; k < 4; k++)
        sum += number_of(first + k * step, i);
    return sum;
}

static sr1_status reduce_scatter(struct sr1__dist *d, sr1_tensor *to, sr1_tensor *from)
{
    struct sr1__work *w = NULL;
    sr1_status st = sr1__dist_scatter_begin(&w, d, "sums", SR1_OK, to, from);

    return st == SR1_OK ? sr1__dist_finish(d, w, "sums") : st;
}

static void exchange_tensors(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_scope *s = sr1__scope_open(SR1__CPU, "exchange");
    sr1_tensor *from = t_empty(s, SR1__F32, T_SHAPE(NUMBERS));
    sr1_tensor *to = t_empty(s, SR1__F32, T_SHAPE(NUMBERS / 4));
    float *x = sr1__shim_data(from), *y = sr1__shim_data(to);

    OK(open_job(r, 1, &d));
    RANK_CHECK(sr1__dist_reduces(d) && fake_nccl_groups == 1);
    for (int64_t i = 0; i < NUMBERS; i++)
        x[i] = number_of(ranks_self, i);
    OK(reduce_scatter(d, to, from));
    for (int64_t i = 0; i < NUMBERS / 4; i++) /* from the last rank to the first */
        RANK_CHECK(y[i] == sum_of(3, -1, ranks_self * NUMBERS / 4 + i));
    for (int64_t i = 0; i < NUMBERS; i++)
        x[i] = (float)(ranks_self + 1) * (float)i;
    OK(sr1__dist_sum(d, "sum", SR1_OK, from));
    for (int64_t i = 0; i < NUMBERS; i++)
        RANK_CHECK(x[i] == 10.0F * (float)i);
    RANK_CHECK(fake_nccl_calls == 2); /* meetings are Gloo's */
    sr1__dist_free(d);
    OK(sr1__scope_close(s));
}

/* full_determinism */
static void exchange_in_order(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_scope *s = sr1__scope_open(SR1__CPU, "exchange");
    sr1_tensor *from = t_empty(s, SR1__F32, T_SHAPE(NUMBERS));
    float *x = sr1__shim_data(from);

    OK(open_job(r, 0, &d));
    RANK_CHECK(!sr1__dist_reduces(d) && fake_nccl_groups == 1);
    for (int64_t i = 0; i < NUMBERS; i++)
        x[i] = number_of(ranks_self, i);
    OK(sr1__dist_sum(d, "sum", SR1_OK, from));
    for (int64_t i = 0; i < NUMBERS; i++)
        RANK_CHECK(x[i] == sum_of(0, 1, i));
    RANK_CHECK(fake_nccl_calls == 2); /* all_to_all and all_gather */
    sr1__dist_free(d);
    OK(sr1__scope_close(s));
}

static void tensors_go_by_its_group(void **state)
{
    struct ranks added = {.size = 4}, ordered = {.size = 4};

    (void)state;
    ranks_run(&added, exchange_tensors, 0);
    ranks_run(&ordered, exchange_in_order, 0);
}

static void differ_in_size(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_scope *s = sr1__scope_open(SR1__CPU, "exchange");
    sr1_tensor *t = t_full(s, 1.0, SR1__F32, T_SHAPE(4 + 4 * ranks_self));
    sr1_tensor *to = t_empty(s, SR1__F32, T_SHAPE(2 + 2 * ranks_self));

    OK(open_job(r, 1, &d));
    RANK_CHECK(reduce_scatter(d, to, t) == SR1_E_STATE);
    RANK_CHECK(strstr(sr1_last_error(), "rank 1 has size 8 and rank 0 size 4"));
    sr1__dist_free(d);
    (void)sr1__scope_close(s);
}

static void other_sizes_are_an_error(void **state)
{
    struct ranks r = {.size = 2};

    (void)state;
    ranks_run(&r, differ_in_size, 0);
}

/* ---- a run ---- */

static const char *run_name, *const *run_pairs;
static int run_groups; /* of the fake that a rank has to open */

static sr1_config *config_of(const char *name)
{
    sr1_config *c =
        tiny_config("model", train_path, knowledge_path, out_pair(name), "max_steps=2",
                    "save_interval=2", "threads=1", "kl_reference=frozen", "batch_size=3",
                    "group_size=4", "beta=0.1", "micro_batch_tokens=64",
                    "log_trajectories=-1", "workers=1", NULL);

    for (size_t i = 0; run_pairs[i]; i++)
        OK(sr1_config_set_pair(c, run_pairs[i]));
    return c;
}

static void train_ranks(const struct ranks *r)
{
    ranks_set_variables(r);
    run_whole(config_of(run_name));
    RANK_CHECK(fake_nccl_groups == run_groups);
    RANK_CHECK(run_groups == 0 || fake_nccl_calls > 0);
}

static void run_in(const char *name, int groups, const char *const *pairs)
{
    struct ranks r = {.size = 2};

    run_name = name;
    run_pairs = pairs;
    run_groups = groups;
    ranks_run(&r, train_ranks, 0);
}

static void in_the_order_of_ranks_bits_are_those_of_gloo(void **state)
{
    static const char *const gloo[] = {"full_determinism=true", NULL};
    static const char *const whole[] = {"distributed_backend=nccl",
                                        "full_determinism=true", NULL};
    static const char *const parts[] = {"distributed_backend=nccl",
                                        "full_determinism=true",
                                        "fsdp_size=-1",
                                        "forward_prefetch=true",
                                        "reshard_after_forward=true",
                                        "distributed_debug=true",
                                        NULL};

    (void)state;
    run_in("gloo", 0, gloo);
    run_in("whole", 1, whole);
    same_records("gloo", "whole");
    same_file("gloo", "whole", "model/model.safetensors");
    run_in("parts", 1, parts);
    same_records("gloo", "parts");
    same_file("gloo", "parts", "model/model.safetensors");
    same_states("gloo", "parts", "checkpoints/step-2/optimizer");
}

/* Weights of two runs differ by rounding only. */
static void near_weights(const char *one, const char *other)
{
    char path[2][700];
    struct sr1__weights *w[2] = {NULL, NULL};

    for (int k = 0; k < 2; k++) {
        snprintf(path[k], sizeof path[k], "%s/model/model.safetensors",
                 scratch_path(k ? other : one));
        OK(sr1__weights_open(&w[k], path[k]));
    }
    for (size_t i = 0; i < sr1__weights_count(w[0]); i++) {
        const struct sr1__weight *a = sr1__weights_at(w[0], i);
        const struct sr1__weight *b = sr1__weights_find(w[1], a->name);
        const float *x = a->data, *y = b->data;

        assert_int_equal(a->n_bytes, b->n_bytes);
        for (size_t k = 0; k < a->n_bytes / sizeof *x; k++)
            if (fabsf(x[k] - y[k]) > 1e-4F)
                fail_msg("%s[%zu] is %g and %g", a->name, k, (double)x[k], (double)y[k]);
    }
    sr1__weights_close(w[0]);
    sr1__weights_close(w[1]);
}

static void in_its_own_order_they_differ_by_rounding(void **state)
{
    static const char *const whole[] = {"distributed_backend=nccl", "max_steps=1", NULL};
    static const char *const gloo[] = {"max_steps=1", NULL};
    static const char *const parts[] = {"distributed_backend=nccl", "fsdp_size=-1",
                                        "reshard_after_forward=true", "max_steps=1",
                                        NULL};

    (void)state;
    run_in("gloo-1", 0, gloo);
    run_in("own-whole", 1, whole);
    near_weights("gloo-1", "own-whole");
    run_in("own-parts", 1, parts);
    near_weights("gloo-1", "own-parts");
}

/* ---- what is refused ---- */

static void expect_refusal(const struct ranks *r, sr1_status code, const char *text)
{
    sr1_trainer *tr = NULL;
    sr1_config *c = config_of("refused");

    ranks_set_variables(r);
    RANK_CHECK(sr1_trainer_new(&tr, c, NULL) == code);
    RANK_CHECK(strstr(sr1_last_error(), text));
    sr1_config_free(c);
}

static void refuse_failing(const struct ranks *r)
{
    setenv("FAKE_NCCL_FAILS", "1", 1);
    expect_refusal(r, SR1_E_DEVICE, "NCCL: no such wire");
    RANK_CHECK(!strstr(sr1_last_error(), "frame"));
}

static void refuse_stale(const struct ranks *r)
{
    sr1__nccl_table.version = SR1__NCCL_VERSION + 1;
    expect_refusal(r, SR1_E_UNSUPPORTED, "of another version of this library");
}

static void a_group_that_fails_is_an_error(void **state)
{
    static const char *const nccl[] = {"distributed_backend=nccl", NULL};
    struct ranks failing = {.size = 2}, stale = {.size = 2};

    (void)state;
    run_pairs = nccl;
    ranks_run(&failing, refuse_failing, 0);
    ranks_run(&stale, refuse_stale, 0);
}

static void make_model(const struct ranks *r)
{
    (void)r;
    tiny_deep_model("model", 2, TINY_SEARCHER, 9);
}

static int make_files(void **state)
{
    if (ranks_make_files(state, make_model) != 0)
        return -1;
    runs_files();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_go_by_its_group),
        cmocka_unit_test(other_sizes_are_an_error),
        cmocka_unit_test(in_the_order_of_ranks_bits_are_those_of_gloo),
        cmocka_unit_test(in_its_own_order_they_differ_by_rounding),
        cmocka_unit_test(a_group_that_fails_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_files, scratch_remove);
}
