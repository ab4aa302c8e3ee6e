/* The simulated accelerator itself: results are the CPU's, the host cannot touch its
 * memory, everything is counted, memory has an end and a kernel can fail. */
#include "accelerator/accelerator.h"
#include "check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static sr1__device sim;

static struct accelerator_counts counted(void)
{
    struct accelerator_counts c;

    accelerator_read(&c);
    return c;
}

/* ---- its name ---- */

static void it_is_known_by_name(void **state)
{
    sr1__device device = 77;

    (void)state;
    assert_int_equal(sim, SR1__NAMED);
    assert_string_equal(sr1__device_name(sim), "sim:0");
    OK(sr1__device_resolve("sim:0", &device));
    assert_int_equal(device, sim);
    device = 77;
    assert_int_equal(sr1__device_resolve("sim:1", &device), SR1_E_DEVICE);
    assert_non_null(strstr(sr1_last_error(), "device sim:1: its backend has 1 device"));
    assert_int_equal(sr1__device_resolve("simx", &device), SR1_E_INVALID);
    OK(sr1__device_resolve("cpu", &device));
    assert_int_equal(device, SR1__CPU);
}

/* ---- results ---- */

#define T 6
#define D 8

/* A loss through everything that a decoder layer is made of, the gradients of w with
 * their norm, and w after an update: LOSS, GRADS, NORM, UPDATED. */
enum {
    LOSS = 0,
    GRADS = 1,
    NORM = GRADS + 3 * D * D,
    UPDATED = NORM + 1,
    NUMBERS = UPDATED + 3 * D * D
};

static void compute(sr1__device device, int32_t dtype, float *out)
{
    sr1_scope *s = sr1__scope_open(device, "formula");
    sr1_tensor *w = t_to(s, normal_tensor(s, 1, T_SHAPE(3 * D, D)), dtype);
    sr1_tensor *x = t_to(s, normal_tensor(s, 2, T_SHAPE(2 * T, D)), dtype);
    sr1_tensor *norm = t_to(s, normal_tensor(s, 3, T_SHAPE(D)), dtype);
    sr1_tensor *step = t_full(s, 1.0, SR1__F32, 0, NULL);
    sr1_tensor *avg = t_full(s, 0.0, SR1__F32, T_SHAPE(3 * D, D));
    sr1_tensor *sq = t_full(s, 0.0, SR1__F32, T_SHAPE(3 * D, D));
    sr1_tensor *part[3], *y, *g, *master;
    double n = 0;

    t_require_grad(s, w, 1);
    x = t_rms_norm(s, x, norm, 1e-6);
    t_split(s, t_linear(s, x, w, NULL), (int64_t[]){D, D, D}, 3, -1, part);
    for (int i = 0; i < 3; i++)
        part[i] = t_transpose(s, t_reshape(s, part[i], T_SHAPE(2, T, 2, D / 2)), 1, 2);
    y = t_sdpa(s, part[0], part[1], part[2], NULL, 1);
    y = t_reshape(s, t_transpose(s, y, 1, 2), T_SHAPE(2 * T, D));
    y = t_mean(s, t_square(s, t_log_softmax(s, t_to(s, t_silu(s, y), SR1__F32), -1)));
    t_backward(s, y);
    out[LOSS] = (float)t_item(s, y);
    g = t_to(s, t_grad(s, w), SR1__F32);
    t_to_host_f32(s, g, out + GRADS, 3 * D * D);
    sr1__scope_check(s, sr1__shim_norms(&g, 1, &n));
    master = t_clone(s, t_to(s, t_detach(s, w), SR1__F32));
    sr1__scope_check(s, sr1__shim_adamw_(&master, &g, &avg, &sq, &step, 1, 0.1, 0.9,
                                         0.999, 0.01, 1e-8));
    t_to_host_f32(s, master, out + UPDATED, 3 * D * D);
    out[NORM] = (float)n;
    OK(sr1__scope_close(s));
}

/* The first update of Adam goes by the signs of gradients, which rounding may change. */
static void results_are_the_cpus(void **state)
{
    static const int32_t dtypes[] = {SR1__F32, SR1__BF16, SR1__F16};
    float here[NUMBERS], there[NUMBERS];

    (void)state;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        compute(SR1__CPU, dtypes[i], here);
        compute(sim, dtypes[i], there);
        assert_true(here[LOSS] > 0 && here[NORM] > 0);
        for (int k = 0; k < (i ? UPDATED : NUMBERS); k++)
            near(there[k], here[k], (i ? 2e-2 : 1e-6) * (1 + fabsf(here[k])));
    }
}

static void places_are_changed_on_the_device(void **state)
{
    sr1_scope *s = sr1__scope_open(sim, "places");
    sr1_tensor *a = t_full(s, 1.0, SR1__F32, T_SHAPE(4, 3));
    sr1_tensor *part = t_narrow(s, t_transpose(s, a, 0, 1), 1, 1, 2);
    sr1_tensor *list[2] = {t_full(s, 3.0, SR1__F32, T_SHAPE(2)),
                           t_full(s, 4.0, SR1__F32, T_SHAPE(2))};
    float v[12];

    (void)state;
    t_fill_(s, part, 5.0);
    t_mul_scalar_(s, t_narrow(s, a, 0, 2, 1), 2.0);
    t_index_copy_(s, a, t_from_i64(s, (int64_t[]){3}, T_SHAPE(1)),
                  t_full(s, 7.0, SR1__F32, T_SHAPE(1, 3)));
    t_to_host_f32(s, a, v, 12);
    sr1__scope_check(s, sr1__shim_scale_all_(list, 2, 0.5));
    near(t_item(s, t_sum(s, list[0])), 3.0, 0);
    near(t_item(s, t_sum(s, list[1])), 4.0, 0);
    OK(sr1__scope_close(s));
    for (int i = 0; i < 12; i++)
        near(v[i], ((const float[]){1, 5, 10, 7})[i / 3], 0);
}

static void fresh_memory_is_nan(void **state)
{
    sr1_scope *s = sr1__scope_open(sim, "fresh");
    float v[2];

    (void)state;
    t_to_host_f32(s, t_empty(s, SR1__BF16, T_SHAPE(2)), v, 2);
    OK(sr1__scope_close(s));
    assert_true(isnan(v[0]) && isnan(v[1]));
}

/* ---- the host stays outside ---- */

static int child_survives(const volatile char *address, int writes)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the next test */
        signal(SIGBUS, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (writes)
            *(volatile char *)(uintptr_t)address = 1;
        _exit(*address & 0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status);
}

static void the_host_cannot_touch_it(void **state)
{
    sr1_scope *s = sr1__scope_open(sim, "outside");
    sr1_tensor *t = t_full(s, 1.0, SR1__F32, T_SHAPE(3));
    const char *address = accelerator_newest();
    char here = 1;

    (void)state;
    assert_non_null(address);
    assert_null(sr1__shim_data(t));
    assert_false(child_survives(address, 0));
    assert_false(child_survives(address, 1));
    assert_true(child_survives(&here, 1));
    near(t_item(s, t_sum(s, t)), 3.0, 0); /* kernels still may */
    OK(sr1__scope_close(s));
    assert_false(child_survives(address, 0)); /* nor once it is freed */
}

/* ---- counts ---- */

static void everything_is_counted(void **state)
{
    static const float v[6] = {1, 2, 3, 4, 5, 6};
    struct accelerator_counts before, c;
    sr1_scope *s = sr1__scope_open(sim, "counts");
    sr1_tensor *a, *b;
    float back[6];

    (void)state;
    accelerator_reset();
    before = counted();
    assert_int_equal(before.kernels + before.to_host + before.to_device +
                         before.to_host_bytes + before.allocations,
                     0);
    a = t_from_f32(s, v, T_SHAPE(2, 3));
    c = counted();
    assert_int_equal(c.to_device, 1);
    assert_int_equal(c.to_device_bytes, 24);
    assert_int_equal(c.waits, 0);
    assert_int_equal(c.kernels, 0);
    assert_int_equal(c.allocations, 1);
    assert_int_equal(c.live_bytes - before.live_bytes, 24);
    b = t_add(s, t_transpose(s, a, 0, 1), t_transpose(s, a, 0, 1)); /* views are free */
    c = counted();
    assert_int_equal(c.kernels, 1);
    assert_int_equal(c.to_device, 1);
    assert_int_equal(c.to_host, 0);
    t_copy_(s, a, t_transpose(s, b, 0, 1));
    assert_int_equal(counted().kernels, 2);
    t_to_host_f32(s, a, back, 6);
    assert_true(t_item(s, t_narrow(s, t_reshape(s, a, T_SHAPE(6)), 0, 5, 1)) == 12);
    c = counted();
    assert_int_equal(c.kernels, 2);
    assert_int_equal(c.to_host, 2);
    assert_int_equal(c.waits, 2);
    assert_int_equal(c.to_host_bytes, 28);
    assert_int_equal(c.to_host_largest, 24);
    OK(sr1__scope_close(s));
    c = counted();
    assert_int_equal(c.live_bytes, before.live_bytes);
    assert_true(c.peak_bytes >= before.live_bytes + 48);
    accelerator_reset();
    assert_int_equal(counted().peak_bytes, before.live_bytes);
}

static void attention_is_one_kernel(void **state)
{
    sr1_scope *s = sr1__scope_open(sim, "attention");
    sr1_tensor *q = normal_tensor(s, 1, T_SHAPE(1, 4, 5, 8));
    sr1_tensor *k = normal_tensor(s, 2, T_SHAPE(1, 2, 5, 8));

    (void)state;
    accelerator_reset();
    (void)t_sdpa(s, q, k, k, NULL, 1);
    OK(sr1__scope_close(s));
    assert_int_equal(counted().kernels, 1);
}

/* ---- its end ---- */

static void memory_has_an_end(void **state)
{
    int64_t live = counted().live_bytes, now = 0, peak = 0;
    uint64_t room = 0;
    sr1_scope *s;

    (void)state;
    accelerator_limit(live + 1000);
    OK(sr1__device_room(sim, &room));
    assert_int_equal(room, 1000);
    s = sr1__scope_open(sim, "much");
    (void)t_full(s, 0.0, SR1__F32, T_SHAPE(200));
    OK(sr1__scope_status(s));
    OK(sr1__device_memory(sim, &now, &peak));
    assert_int_equal(now, live + 800);
    (void)t_full(s, 0.0, SR1__F32, T_SHAPE(200));
    assert_int_equal(sr1__scope_status(s), SR1_E_DEVICE_NOMEM);
    assert_int_equal(sr1__scope_close(s), SR1_E_DEVICE_NOMEM);
    assert_non_null(strstr(sr1_last_error(), "Tried to allocate 800 bytes"));
    accelerator_limit(0);
    OK(sr1__device_release(sim));
    assert_int_equal(counted().live_bytes, live);
}

static void a_kernel_can_fail(void **state)
{
    sr1_scope *s = sr1__scope_open(sim, "kernels");
    sr1_tensor *a = t_full(s, 1.0, SR1__F32, T_SHAPE(2));

    (void)state;
    accelerator_fail_kernel(2);
    a = t_exp(s, a);
    OK(sr1__scope_status(s));
    (void)t_exp(s, a);
    assert_int_equal(sr1__scope_close(s), SR1_E_DEVICE);
    assert_non_null(strstr(sr1_last_error(), "aten::exp"));
    s = sr1__scope_open(sim, "kernels");
    (void)t_exp(s, t_full(s, 1.0, SR1__F32, T_SHAPE(2)));
    OK(sr1__scope_close(s));
}

static void use_lost_device(int how)
{
    float v[2] = {0, 0};
    sr1_scope *s = sr1__scope_open(sim, "before");
    sr1_tensor *a = t_full(s, 1.0, SR1__F32, T_SHAPE(2));
    sr1_scope *after;

    accelerator_lose(1);
    (void)t_exp(s, a);
    assert_int_equal(sr1__scope_status(s), SR1_E_DEVICE);
    after = sr1__scope_open(sim, "after");
    if (how == 0)
        (void)t_exp(after, a);
    else if (how == 1)
        t_to_host_f32(after, a, v, 2);
    else if (how == 2)
        (void)t_from_f32(after, v, T_SHAPE(2));
    else
        (void)t_empty(after, SR1__F32, T_SHAPE(2));
    assert_int_equal(sr1__scope_close(after), SR1_E_DEVICE);
    assert_non_null(strstr(sr1_last_error(), "the device is lost"));
    accelerator_lose(0);
    assert_int_equal(sr1__scope_close(s), SR1_E_DEVICE);
}

static void a_device_can_be_lost(void **state)
{
    float v[2] = {0, 0};
    sr1_scope *s;

    (void)state;
    for (int how = 0; how < 4; how++)
        use_lost_device(how);
    s = sr1__scope_open(sim, "found again");
    t_to_host_f32(s, t_full(s, 2.0, SR1__F32, T_SHAPE(2)), v, 2);
    OK(sr1__scope_close(s));
    assert_true(v[1] == 2.0f);
}

static int open_device(void **state)
{
    (void)state;
    return sr1__device_resolve("sim", &sim) == SR1_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_known_by_name),
        cmocka_unit_test(results_are_the_cpus),
        cmocka_unit_test(places_are_changed_on_the_device),
        cmocka_unit_test(fresh_memory_is_nan),
        cmocka_unit_test(the_host_cannot_touch_it),
        cmocka_unit_test(everything_is_counted),
        cmocka_unit_test(attention_is_one_kernel),
        cmocka_unit_test(memory_has_an_end),
        cmocka_unit_test(a_kernel_can_fail),
        cmocka_unit_test(a_device_can_be_lost),
    };

    return cmocka_run_group_tests_name("accelerator", tests, open_device, NULL);
}
