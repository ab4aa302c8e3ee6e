/* FAISS in one process with libtorch, which brings an OpenMP runtime and BLAS of its own:
 * both compute what they compute alone, in turns and at the same time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include <cmocka.h>

#include "retrieval/search/faiss_bridge.h"
#include "tensor/ops/ops.h"

#define SIDE 192
#define DIM 16
#define VECTORS 2000
#define QUERIES 64 /* FAISS uses BLAS from 20 on */

static const struct sr1__faiss_table *table;
static float vectors[VECTORS * DIM];

/* Numbers that do not repeat soon, -1 to 1. */
static float number(size_t i)
{
    return (float)sin(12.9898 * (double)(i + 1));
}

/* The sum of squares of A A^T, A[i, j] = number(i * SIDE + j). */
static double multiply(void)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "beside");
    float *a = malloc(SIDE * SIDE * sizeof(*a));
    sr1_tensor *t, *p;
    double sum;

    for (size_t i = 0; i < SIDE * SIDE; i++)
        a[i] = number(i);
    t = t_from_f32(s, a, T_SHAPE(SIDE, SIDE));
    p = t_matmul(s, t, t_transpose(s, t, 0, 1));
    sum = t_item(s, t_sum(s, t_square(s, p)));
    free(a);
    assert_int_equal(sr1__scope_close(s), SR1_OK);
    return sum;
}

static double multiply_here(void)
{
    double sum = 0.0;

    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < SIDE; j++) {
            double dot = 0.0;

            for (size_t k = 0; k < SIDE; k++)
                dot += (double)number(i * SIDE + k) * number(j * SIDE + k);
            sum += dot * dot;
        }
    return sum;
}

/* Every vector finds itself, by an index that was trained. */
static void search(void)
{
    static float distances[QUERIES];
    static int64_t ids[QUERIES];
    struct sr1__faiss_error error = {""};
    sr1__faiss_index *ix = NULL;
    sr1_status st = table->make(&ix, DIM, "IVF8,Flat", 1, &error);

    if (st == SR1_OK)
        st = table->train(ix, vectors, VECTORS, &error);
    if (st == SR1_OK)
        st = table->add(ix, vectors, VECTORS, &error);
    if (st == SR1_OK)
        st = table->search(ix, vectors, QUERIES, 1, distances, ids, &error);
    if (st != SR1_OK)
        fail_msg("%s", error.text);
    for (int64_t i = 0; i < QUERIES; i++)
        assert_true(ids[i] == i && distances[i] < 1e-3F);
    table->release(ix);
}

static void in_turns(void **state)
{
    double want = multiply_here();

    (void)state;
    if (table == NULL)
        skip();
    for (int round = 0; round < 3; round++) {
        assert_true(fabs(multiply() / want - 1.0) < 1e-4);
        search();
    }
}

static void *search_often(void *arg)
{
    for (int round = 0; round < 5; round++)
        search();
    return arg;
}

static void at_the_same_time(void **state)
{
    double want = multiply_here();
    pthread_t thread;

    (void)state;
    if (table == NULL)
        skip();
    assert_int_equal(pthread_create(&thread, NULL, search_often, NULL), 0);
    for (int round = 0; round < 20; round++)
        assert_true(fabs(multiply() / want - 1.0) < 1e-4);
    pthread_join(thread, NULL);
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTORS * DIM; i++)
        vectors[i] = number(i * i);
    (void)sr1__faiss_bridge(&table);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_turns),
        cmocka_unit_test(at_the_same_time),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
