/* Critics: values equal to transformers', the head that a policy's critic begins with. */
#include "golden.h"

#include "tensor/model/model.h"

#include <searchr1/ext/model_details.h>

#define MAX_IDS 32

static const char dir[] = "test-critic-folder";
static const char *const names[] = {"qwen3", "qwen2"};

static sr1_status values_of(sr1_model *m, const int32_t *ids, size_t n, float *out)
{
    int64_t cu_seqlens[2] = {0, (int64_t)n};
    struct sr1__packed in = {ids, cu_seqlens, 1};
    sr1_scope *s = sr1__scope_open(SR1__CPU, "values");
    sr1_tensor *hidden;

    sr1__scope_no_grad(s);
    hidden = sr1__causal_lm_forward(s, m, &in, NULL);
    t_to_host_f32(s, sr1__causal_lm_values(s, m, hidden), out, n);
    return sr1__scope_close(s);
}

static sr1_model *open_folder(const char *folder)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu"};
    sr1_model *m = NULL;

    OK(sr1_model_open(&m, folder, &o));
    return m;
}

static void check_values(const struct golden *g, sr1_model *m)
{
    for (size_t i = 0; i < golden_count(g, "sequences"); i++) {
        int32_t ids[MAX_IDS];
        float got[MAX_IDS];
        char name[32];
        size_t n = golden_ids(g, "sequences", i, ids, MAX_IDS);

        snprintf(name, sizeof name, "values.%zu", i);
        OK(values_of(m, ids, n, got));
        assert_true(largest_gap(got, golden_tensor(g, name, n), n) <= 1e-4);
    }
}

static void values_equal_transformers(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        struct golden g = golden_open_kind("critic", names[c]);
        sr1_model *m = open_folder(g.dir), *again;

        check_values(&g, m);
        OK(sr1_model_save(m, dir));
        again = open_folder(dir);
        check_values(&g, again);
        OK(sr1__dir_remove(dir));
        sr1_model_free(again);
        sr1_model_free(m);
        golden_close(&g);
    }
}

static void a_policys_critic_begins_at_zero(void **state)
{
    struct golden g = golden_open("qwen3-untied-wide");
    sr1_model *policy = open_folder(g.dir), *critic = NULL, *copy = NULL, *twin = NULL;
    const int32_t ids[] = {3, 1, 4, 1, 5};
    float v[5] = {1, 1, 1, 1, 1}, w[5];
    sr1_scope *s;

    (void)state;
    OK(sr1__model_critic(&critic, policy, -1));
    assert_int_equal(critic->n_params,
                     policy->n_params + 1); /* two for the head of one */
    OK(values_of(critic, ids, 5, v));
    for (int i = 0; i < 5; i++)
        assert_true(v[i] == 0.0f);
    s = sr1__scope_open(SR1__CPU, "head");
    t_fill_(s, critic->value_head, 0.25);
    t_fill_(s, critic->value_bias, -1.0);
    OK(sr1__scope_close(s));
    OK(values_of(critic, ids, 5, v));
    OK(sr1__model_critic(&copy, critic, -1));
    OK(sr1__model_replica(&twin, critic));
    OK(values_of(copy, ids, 5, w));
    assert_memory_equal(v, w, sizeof v);
    OK(values_of(twin, ids, 5, w));
    assert_memory_equal(v, w, sizeof v);
    assert_true(fabsf(v[0] + 1.0f) > 1e-3f);
    sr1_model_free(twin);
    sr1_model_free(copy);
    sr1_model_free(critic);
    sr1_model_free(policy);
    golden_close(&g);
}

static void each_kind_refuses_the_others_question(void **state)
{
    struct golden g = golden_open_kind("critic", "qwen3");
    struct golden p = golden_open("qwen3-tied");
    sr1_model *critic = open_folder(g.dir), *policy = open_folder(p.dir);
    const int32_t ids[] = {3, 1};
    float logits[128], v[2];

    (void)state;
    assert_int_equal(sr1_model_logits(critic, ids, 1, logits), SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "is a critic"));
    assert_int_equal(values_of(policy, ids, 2, v), SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "no critic"));
    sr1_model_free(critic);
    sr1_model_free(policy);
    golden_close(&g);
    golden_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_equal_transformers),
        cmocka_unit_test(a_policys_critic_begins_at_zero),
        cmocka_unit_test(each_kind_refuses_the_others_question),
    };

    return cmocka_run_group_tests_name("critic", tests, NULL, NULL);
}
