/* A frozen reference that moves towards the policy: by TRL's numbers, in whole runs, and
 * resumed to the same bits. */
#include "runs.h"

#include "tensor/weights/safetensors.h"

#include <math.h>

#define MOVING(name, ...)                                                                \
    RUN(name, "update_times=1", "beta=0.5", "learning_rate=1e-2", __VA_ARGS__)

/* ---- one move ---- */

#define NUMBERS 24

static void read_numbers(const json_t *of, const char *key, float out[NUMBERS])
{
    const json_t *list = json_object_get(of, key);

    assert_int_equal(json_array_size(list), NUMBERS);
    for (size_t i = 0; i < NUMBERS; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
}

static int64_t count_elements(const sr1_tensor *t, int64_t shape[4])
{
    int64_t n = 1;

    assert_in_range(t_ndim(t), 1, 4);
    for (int32_t k = 0; k < t_ndim(t); k++) {
        shape[k] = t_size(t, k);
        n *= shape[k];
    }
    return n;
}

/* The numbers again and again, leaf by leaf. */
static void fill_model(sr1_model *m, const float *v)
{
    for (size_t i = 0; i < m->n_leaves; i++) {
        sr1_tensor *t = m->leaves[i].tensor;
        int64_t shape[4], n = count_elements(t, shape);
        float *all = sr1__calloc((size_t)n, sizeof(*all));
        sr1_scope *s = sr1__scope_open(m->device, "leaf");

        for (int64_t k = 0; k < n; k++)
            all[k] = v[k % NUMBERS];
        sr1__scope_no_grad(s);
        t_copy_(s, t, t_from_f32(s, all, t_ndim(t), shape));
        OK(sr1__scope_close(s));
        sr1__free(all);
    }
}

/* most: as parts of the larger of the two numbers that were mixed. */
static void check_model(const sr1_model *m, const float *v, const float *larger,
                        double most)
{
    for (size_t i = 0; i < m->n_leaves; i++) {
        int64_t shape[4], n = count_elements(m->leaves[i].tensor, shape);
        float *all = sr1__calloc((size_t)n, sizeof(*all));
        sr1_scope *s = sr1__scope_open(m->device, "leaf");

        t_to_host_f32(s, m->leaves[i].tensor, all, (size_t)n);
        OK(sr1__scope_close(s));
        for (int64_t k = 0; k < n; k++)
            tiny_near(all[k], v[k % NUMBERS], most * larger[k % NUMBERS]);
        sr1__free(all);
    }
}

/* libtorch rounds some of a tensor's numbers once less than others. */
static void a_move_is_trls(void **state)
{
    static const struct {
        const char *dtype;
        double most; /* a bit or two of the type */
    } types[] = {{"fp32", 1.2e-7}, {"bf16", 8e-3}};
    char path[1100];
    float policy[NUMBERS], reference[NUMBERS], moved[NUMBERS], larger[NUMBERS];
    json_t *golden = NULL;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/reference_mix.json", getenv("SR1_SRC"));
    OK(sr1__json_load(&golden, path, 0));
    read_numbers(golden, "policy", policy);
    read_numbers(golden, "reference", reference);
    for (size_t i = 0; i < NUMBERS; i++)
        larger[i] = fmaxf(fabsf(policy[i]), fabsf(reference[i]));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        sr1_model_options o = {
            .struct_size = sizeof o, .device = test_device(), .dtype = types[i].dtype};
        sr1_model *own = NULL, *frozen = NULL;

        OK(sr1_model_open(&own, scratch_path("model"), &o));
        OK(sr1_model_open(&frozen, scratch_path("model"), &o));
        fill_model(own, policy);
        fill_model(frozen, reference);
        OK(sr1__model_mix_weights(frozen, own,
                                  json_number_value(json_object_get(golden, "alpha"))));
        read_numbers(golden, types[i].dtype, moved);
        check_model(frozen, moved, larger, types[i].most);
        check_model(own, policy, larger, 0);
        sr1_model_free(own);
        sr1_model_free(frozen);
    }
    json_decref(golden);
}

/* ---- runs ---- */

static void expect_mix(const char *run, int step, const char *before)
{
    char after[600], policy[600], name[64];
    const char *const files[] = {before, after, policy};
    struct sr1__weights *w[3];

    snprintf(name, sizeof name, "%s/checkpoints/step-%d", run, step);
    snprintf(after, sizeof after, "%s/reference/model.safetensors", scratch_path(name));
    snprintf(policy, sizeof policy, "%s/model/model.safetensors", scratch_path(name));
    for (int k = 0; k < 3; k++)
        OK(sr1__weights_open(&w[k], files[k]));
    for (size_t i = 0; i < sr1__weights_count(w[0]); i++) {
        const struct sr1__weight *was = sr1__weights_at(w[0], i);
        const float *a = sr1__weights_find(w[1], was->name)->data;
        const float *p = sr1__weights_find(w[2], was->name)->data;

        for (size_t k = 0; k < was->n_bytes / sizeof(float); k++)
            tiny_near(a[k], 0.4 * ((const float *)was->data)[k] + 0.6 * p[k], 1e-6);
    }
    for (int k = 0; k < 3; k++)
        sr1__weights_close(w[k]);
}

/* At steps 3 and 6; the metrics of step 4 are the first that tell. */
static void a_run_moves_its_reference(void **state)
{
    json_t *moved, *still;
    char first[600];

    (void)state;
    snprintf(first, sizeof first, "%s/model.safetensors", scratch_path("model"));
    run_whole(MOVING("moved", "reference_sync_steps=3", "save_interval=3"));
    run_whole(MOVING("still", "save_interval=3"));
    expect_mix("moved", 3, first);
    snprintf(first, sizeof first, "%s/reference/model.safetensors",
             scratch_path("moved/checkpoints/step-3"));
    expect_mix("moved", 6, first);
    assert_false(sr1__path_exists(scratch_path("still/checkpoints/step-6/reference")));
    moved = metrics("moved");
    still = metrics("still");
    for (size_t i = 0; i < 3; i++)
        assert_true(metric(moved, i, "kl_div") == metric(still, i, "kl_div"));
    assert_true(metric(moved, 3, "kl_div") < metric(still, 3, "kl_div"));
    json_decref(moved);
    json_decref(still);
}

static void at_1_it_becomes_the_policy(void **state)
{
    size_t n, m;
    char *reference, *policy;

    (void)state;
    run_whole(MOVING("follows", "reference_sync_steps=2", "reference_mixup_alpha=1",
                     "max_steps=2", "workers=2"));
    reference = slurp("follows", "checkpoints/step-2/reference/model.safetensors", &n);
    policy = slurp("follows", "checkpoints/step-2/model/model.safetensors", &m);
    assert_true(n == m && memcmp(reference, policy, n) == 0);
    sr1_free(reference);
    sr1_free(policy);
}

/* Before the first move and between two; from the host, and of bf16 beside an fp32
 * policy.
 */
static void a_moved_reference_is_resumed(void **state)
{
    static const char *const dtypes[] = {"reference_offload=true",
                                         "reference_dtype=bf16"};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        const char *whole = join_run_name("whole", k ? "bf16" : "host");

        run_whole(MOVING(whole, "reference_sync_steps=2", "save_interval=1", dtypes[k]));
        for (int64_t at = 2; at <= 6; at += 2) {
            const char *run = join_run_name(k ? "cut-bf16" : "cut", at == 2   ? "2"
                                                                    : at == 4 ? "4"
                                                                              : "6");
            sr1_trainer *tr = open_trainer(
                MOVING(run, "reference_sync_steps=2", "save_interval=1", dtypes[k]));

            run_until(tr, at);
            sr1_trainer_free(tr);
            tr = NULL;
            OK(sr1_trainer_resume(&tr, scratch_path(run), NULL));
            OK(sr1_trainer_run(tr, NULL));
            sr1_trainer_free(tr);
            same_run(whole, run);
            same_file(whole, run, "checkpoints/step-6/reference/model.safetensors");
        }
    }
}

static void refuse_pair(const char *first, const char *second, const char *text)
{
    sr1_trainer *tr = NULL;
    sr1_config *c = MOVING("refused", "reference_sync_steps=2", first, second);

    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, text);
    sr1_config_free(c);
}

static void what_cannot_move_is_refused(void **state)
{
    const char *const pairs[] = {"reference_sync_steps=4"};
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = pairs, .n_pairs = 1};
    sr1_trainer *tr = NULL;

    (void)state;
    refuse_pair("beta=0", "kl_kind=k3", "with beta 0 there is no reference");
    refuse_pair("kl_reference=old", "kl_kind=k3", "set kl_reference to frozen");
    refuse_pair("reference_quantization=int8", "kl_kind=k3", "an int8 reference cannot");
    refuse_pair("lora_rank=2", "kl_kind=k3", "without its adapter, which does not move");
    REFUSED(sr1_trainer_resume(&tr, scratch_path("moved"), &o), SR1_E_CONFIG,
            "where the reference has moved");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_is_trls),
        cmocka_unit_test(a_run_moves_its_reference),
        cmocka_unit_test(at_1_it_becomes_the_policy),
        cmocka_unit_test(a_moved_reference_is_resumed),
        cmocka_unit_test(what_cannot_move_is_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
