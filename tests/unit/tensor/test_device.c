/* Names of devices and types, and the failures of loading CUDA: library missing, not a
 * library, another library, no driver. */
#include "base/file.h"
#include "check.h"

/* Expect "cuda" to be refused with both words in the text. */
static void refused(const char *word, const char *other)
{
    sr1__device device = 77;

    assert_int_equal(sr1__device_resolve("cuda", &device), SR1_E_DEVICE);
    assert_int_equal(device, 77);
    assert_non_null(strstr(sr1_last_error(), "device cuda"));
    if (!strstr(sr1_last_error(), word) || !strstr(sr1_last_error(), other)) {
        fprintf(stderr, "unexpected: %s\n", sr1_last_error());
        fail();
    }
}

static void names_are_parsed(void **state)
{
    static const char *const bad[] = {"",        "gpu",    "cuda:",   "cuda:x",
                                      "cuda:1x", "cuda-1", "cuda:64", "privateuseone"};
    sr1__device device = 77;
    int32_t dtype = -1;

    (void)state;
    OK(sr1__device_resolve("cpu", &device));
    assert_int_equal(device, SR1__CPU);
    assert_string_equal(sr1__device_name(device), "cpu");
    assert_string_equal(sr1__device_name(SR1__CUDA), "cuda:0");
    assert_string_equal(sr1__device_name(SR1__CUDA + 63), "cuda:63");
    assert_string_equal(sr1__device_name(SR1__NAMED + 64), "?");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(sr1__device_resolve(bad[i], &device), SR1_E_INVALID);
    OK(sr1__torch_dtype_parse("bfloat16", &dtype));
    assert_int_equal(dtype, SR1__BF16);
    assert_int_equal(sr1__torch_dtype_parse("int8", &dtype), SR1_E_INVALID);
    assert_int_equal(sr1__torch_threads(-1), SR1_E_INVALID);
}

static void a_missing_library_is_named(void **state)
{
    (void)state;
    OK(sr1__dir_make("test-device-dir"));
    sr1__device_library_dir("test-device-dir");
    refused("test-device-dir/libtorch_cuda.so", "is not there");
}

static void garbage_is_no_library(void **state)
{
    (void)state;
    OK(sr1__file_replace("test-device-dir/libtorch_cuda.so", "not ELF", 7));
    refused("does not load", "torch 2.");
}

/* A sound library that registers nothing: not the CUDA half of this torch. */
static void another_library_is_refused(void **state)
{
    struct sr1__buf lib;

    (void)state;
    OK(sr1__file_read(getenv("SR1_OTHER_LIBRARY"), 0, &lib));
    OK(sr1__file_replace("test-device-dir/libtorch_cuda.so", lib.data, lib.len));
    sr1__buf_free(&lib);
    refused("is not the CUDA half", "registered nothing");
}

static void keep_warning(void *user, int32_t level, const char *text)
{
    struct sr1__buf *said = user;

    assert_int_equal(level, SR1_LOG_WARN);
    sr1__buf_fmt(said, "%s\n", text);
}

/* With a build for CUDA and a device that cannot be used: it is said why, once. */
static void automatic_says_why_it_is_the_cpu(void **state)
{
    sr1__device device = 77;
    struct sr1__buf said;
    const char *text;

    (void)state;
    sr1__buf_init(&said, 0);
    sr1_log_set(keep_warning, &said);
    OK(sr1__file_replace("test-device-dir/nvidia", "", 0)); /* the sign of a device */
    OK(sr1__device_resolve("auto", &device));
    OK(sr1__device_resolve("auto", &device));
    sr1_log_set(NULL, NULL);
    text = sr1__buf_cstr(&said);
    assert_int_equal(device, SR1__CPU);
    assert_non_null(
        strstr(text, "device auto: the CPU is used, because CUDA cannot be ("));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    sr1__buf_free(&said);
    OK(sr1__dir_remove("test-device-dir"));
}

static void count_warning(void *user, int32_t level, const char *text)
{
    (void)level;
    (void)text;
    ++*(int *)user;
}

static void automatic_is_the_cpu_without_a_device(void **state)
{
    sr1__device device = 77;
    int warnings = 0;

    (void)state;
    sr1__device_library_dir("no-such-folder");
    sr1_log_set(count_warning, &warnings);
    OK(sr1__device_resolve("auto", &device));
    sr1_log_set(NULL, NULL);
    assert_int_equal(device, SR1__CPU);
    assert_int_equal(warnings, 0);
    sr1__device_library_dir(NULL);
}

static void room_and_products_of_the_cpu(void **state)
{
    uint64_t room = 0;
    int full = 0;

    (void)state;
    OK(sr1__device_room(SR1__CPU, &room));
    assert_true(room > (uint64_t)64 << 20 && room < (uint64_t)1 << 50);
    OK(sr1__torch_full_products(&full));
    assert_int_equal(full, 1); /* lowered: tests/unit/encoder/test_scorer.c */
}

/* What has no kernel of fixed order is refused by name while anybody asks for it. */
static void determinism_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(sr1__torch_determinism_get(), 0);
    OK(sr1__torch_determinism_hold());
    assert_int_equal(sr1__torch_determinism_get(), 1);
    assert_string_equal(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
    OK(sr1__torch_determinism_hold());
    sr1__torch_determinism_release();
    assert_int_equal(sr1__torch_determinism_get(), 1);
    sr1__torch_determinism_release();
    assert_int_equal(sr1__torch_determinism_get(), 0);
}

/* libtorch fixes its devices at the first backward pass. */
static void cuda_comes_before_training(void **state)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "training");
    sr1_tensor *x = t_full(s, 1.0, SR1__F32, T_SHAPE(2));
    sr1__device device = 77;

    (void)state;
    t_require_grad(s, x, 1);
    t_backward(s, t_sum(s, x));
    OK(sr1__scope_close(s));
    sr1__device_library_dir("no-such-folder");
    assert_int_equal(sr1__device_resolve("cuda", &device), SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "open the model on CUDA before"));
    assert_int_equal(device, 77);
    OK(sr1__device_resolve("auto", &device));
    assert_int_equal(device, SR1__CPU);
    sr1__device_library_dir(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_parsed),
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(garbage_is_no_library),
        cmocka_unit_test(another_library_is_refused),
        cmocka_unit_test(automatic_says_why_it_is_the_cpu),
        cmocka_unit_test(automatic_is_the_cpu_without_a_device),
        cmocka_unit_test(room_and_products_of_the_cpu),
        cmocka_unit_test(determinism_is_asked_for),
        cmocka_unit_test(cuda_comes_before_training),
    };

    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
