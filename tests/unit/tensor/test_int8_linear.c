/* Matrices as int8: the vectors of numpy, blocks, types, and the CPU's bits on a device.
 */
#include "check.h"

#include "support/device.h"

#include "base/file.h"
#include "base/json.h"
#include "tensor/ops/int8_linear.h"

static sr1__device device;

static size_t read_numbers(const json_t *row, const char *key, float *out, size_t most)
{
    const json_t *list = json_object_get(row, key);
    size_t n = json_array_size(list);

    assert_true(n > 0 && n <= most);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
    return n;
}

#define MOST 128

static void check_row(const json_t *row)
{
    float w[MOST], q[MOST], scale[MOST], x[MOST], y[MOST], got[MOST];
    size_t n = read_numbers(row, "w", w, MOST),
           rows = read_numbers(row, "scale", scale, MOST);
    size_t n_in = n / rows;
    sr1_scope *s = sr1__scope_open(device, "int8");
    sr1_tensor *qt = t_empty(s, SR1__I8, T_SHAPE((int64_t)rows, (int64_t)n_in));
    sr1_tensor *st = t_empty(s, SR1__F32, T_SHAPE((int64_t)rows, 1));
    sr1_tensor *yt;

    assert_int_equal(read_numbers(row, "q", q, MOST), n);
    assert_int_equal(read_numbers(row, "x", x, MOST), 3 * n_in);
    assert_int_equal(read_numbers(row, "y", y, MOST), 3 * rows);
    sr1__int8_quantize(s, qt, st,
                       t_from_f32(s, w, T_SHAPE((int64_t)rows, (int64_t)n_in)));
    t_to_host_f32(s, qt, got, n);
    for (size_t i = 0; i < n; i++)
        near(got[i], q[i], 0);
    t_to_host_f32(s, st, got, rows);
    for (size_t i = 0; i < rows; i++)
        near(got[i], scale[i], 1e-7 * scale[i] + 2e-38);
    yt = sr1__int8_linear(s, t_from_f32(s, x, T_SHAPE(3, (int64_t)n_in)), qt, st, NULL);
    t_to_host_f32(s, yt, got, 3 * rows);
    OK(sr1__scope_close(s));
    for (size_t i = 0; i < 3 * rows; i++)
        near(got[i], y[i], 2e-6 * (1 + fabsf(y[i])));
}

static void equals_numpy(void **state)
{
    char path[512], *line, *rest = NULL;
    struct sr1__buf text;
    size_t n = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/int8.jsonl", getenv("SR1_SRC"));
    OK(sr1__file_read(path, 0, &text));
    for (line = strtok_r(text.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, line, strlen(line), "vectors"));
        check_row(row);
        json_decref(row);
        n++;
    }
    assert_int_equal(n, 5);
    sr1__buf_free(&text);
}

/* Rows of more than a block: each is multiplied, in its place. */
static void blocks_are_joined(void **state)
{
    const int64_t rows = 4500, n_in = 1024;
    sr1_scope *s = sr1__scope_open(device, "blocks");
    sr1_tensor *w = normal_tensor(s, 1, T_SHAPE(rows, n_in));
    sr1_tensor *x = normal_tensor(s, 2, T_SHAPE(2, n_in));
    sr1_tensor *bias = normal_tensor(s, 3, T_SHAPE(rows));
    sr1_tensor *q = t_empty(s, SR1__I8, T_SHAPE(rows, n_in));
    sr1_tensor *scale = t_empty(s, SR1__F32, T_SHAPE(rows, 1));
    float *got = malloc(4 * (size_t)rows * sizeof *got), *want = got + 2 * rows;

    (void)state;
    assert_true(rows * n_in > SR1__INT8_BLOCK);
    sr1__int8_quantize(s, q, scale, w);
    t_to_host_f32(s, sr1__int8_linear(s, x, q, scale, bias), got, 2 * (size_t)rows);
    t_to_host_f32(s, t_linear(s, x, t_mul(s, q, scale), bias), want, 2 * (size_t)rows);
    OK(sr1__scope_close(s));
    for (int64_t i = 0; i < 2 * rows; i++)
        near(got[i], want[i], 1e-4);
    free(got);
}

/* Products have the type of x, and no number is far from that of fp32. */
static void types_are_those_of_x(void **state)
{
    static const int32_t types[] = {SR1__BF16, SR1__F16};
    float want[6], got[6];

    (void)state;
    for (int i = 0; i < 2; i++) {
        sr1_scope *s = sr1__scope_open(device, "types");
        sr1_tensor *w = normal_tensor(s, 4, T_SHAPE(3, 64));
        sr1_tensor *x = t_to(s, normal_tensor(s, 5, T_SHAPE(2, 64)), types[i]);
        sr1_tensor *q = t_empty(s, SR1__I8, T_SHAPE(3, 64));
        sr1_tensor *scale = t_empty(s, SR1__F32, T_SHAPE(3, 1)), *y;

        sr1__int8_quantize(s, q, scale, t_to(s, w, types[i]));
        y = sr1__int8_linear(s, x, q, scale, NULL);
        assert_int_equal(t_dtype(y), types[i]);
        t_to_host_f32(s, y, got, 6);
        t_to_host_f32(s, t_linear(s, t_to(s, x, SR1__F32), w, NULL), want, 6);
        OK(sr1__scope_close(s));
        for (int k = 0; k < 6; k++)
            near(got[k], want[k], 0.25);
    }
}

/* Quantised here from weights there, and there. */
static void bits_are_the_cpus(void **state)
{
    enum { ROWS = 40, IN = 72, N = ROWS * IN };
    float q[2][N], scale[2][ROWS];

    (void)state;
    for (int i = 0; i < 2; i++) {
        sr1_scope *there = sr1__scope_open(device, "there");
        sr1_scope *s = sr1__scope_open(i ? device : SR1__CPU, "int8");
        sr1_tensor *qt = t_empty(s, SR1__I8, T_SHAPE(ROWS, IN));
        sr1_tensor *st = t_empty(s, SR1__F32, T_SHAPE(ROWS, 1));

        sr1__int8_quantize(s, qt, st, normal_tensor(there, 6, T_SHAPE(ROWS, IN)));
        t_to_host_f32(s, qt, q[i], N);
        t_to_host_f32(s, st, scale[i], ROWS);
        OK(sr1__scope_close(s));
        OK(sr1__scope_close(there));
    }
    assert_memory_equal(q[0], q[1], sizeof q[0]);
    assert_memory_equal(scale[0], scale[1], sizeof scale[0]);
}

static int open_device(void **state)
{
    (void)state;
    return sr1__device_resolve(test_device(), &device) == SR1_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_numpy),
        cmocka_unit_test(blocks_are_joined),
        cmocka_unit_test(types_are_those_of_x),
        cmocka_unit_test(bits_are_the_cpus),
    };

    return cmocka_run_group_tests(tests, open_device, NULL);
}
