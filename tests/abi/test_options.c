/* Every options struct has an init function of one shape: it sets struct_size and all
 * other fields, writes nothing beyond the struct, and takes NULL. */
#include <searchr1/ext/ext.h>
#include <searchr1/searchr1.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARDS 32

struct options {
    const char *name;
    size_t size;
    void (*init)(void *options);
};

/* Functions of two pointer types may not be called through one another. */
#define INIT(type)                                                                       \
    static void init_##type(void *options)                                               \
    {                                                                                    \
        sr1_##type##_init(options);                                                      \
    }
#define EACH_TYPE(X)                                                                     \
    X(dataset_options)                                                                   \
    X(env_options)                                                                       \
    X(model_options)                                                                     \
    X(reward_scales)                                                                     \
    X(rollout_options)                                                                   \
    X(eval_options)                                                                      \
    X(resume_options)                                                                    \
    X(bm25_build_options)                                                                \
    X(bm25_options)                                                                      \
    X(problems_options)                                                                  \
    X(checker_options)                                                                   \
    X(generator_options)                                                                 \
    X(revision_tree_options)                                                             \
    X(critique_demo_options)                                                             \
    X(record_options)                                                                    \
    X(dense_build_options)                                                               \
    X(dense_options)                                                                     \
    X(encoder_options)                                                                   \
    X(search_measure_options)                                                            \
    X(search_http_options)                                                               \
    X(disk_cache_options)                                                                \
    X(hybrid_options)                                                                    \
    X(rerank_options)                                                                    \
    X(faiss_options)                                                                     \
    X(faiss_build_options)                                                               \
    X(value_options)                                                                     \
    X(openai_options)                                                                    \
    X(reward_options)                                                                    \
    X(sandbox_options)                                                                   \
    X(suite_options)                                                                     \
    X(program)                                                                           \
    X(submission)                                                                        \
    X(server_options)                                                                    \
    X(synth_options)                                                                     \
    X(chat_options)                                                                      \
    X(external_options)                                                                  \
    X(judge_options)                                                                     \
    X(mcp_options)                                                                       \
    X(tokenizer_train_options)                                                           \
    X(world_options)                                                                     \
    X(rooms_options)                                                                     \
    X(programs_options)
EACH_TYPE(INIT)

static void init_loss_options(void *options)
{
    (void)sr1_loss_options_init(options, "grpo");
}

static void init_advantage_options(void *options)
{
    (void)sr1_advantage_options_init(options, "grpo");
}

#define ROW(type) {"sr1_" #type, sizeof(sr1_##type), init_##type},

static const struct options all[] = {EACH_TYPE(ROW) ROW(loss_options)
                                         ROW(advantage_options)};

#define N_ALL (sizeof all / sizeof *all)

static size_t read_size(const unsigned char *options)
{
    size_t size;

    memcpy(&size, options, sizeof size);
    return size;
}

/* init over memory full of one byte; the guards behind must stay. Caller frees. */
static unsigned char *init_over(const struct options *o, unsigned char byte)
{
    unsigned char *p = malloc(o->size + GUARDS);

    assert_non_null(p);
    memset(p, byte, o->size + GUARDS);
    o->init(p);
    if (read_size(p) != o->size)
        fail_msg("%s: struct_size is %zu, not %zu", o->name, read_size(p), o->size);
    for (size_t i = 0; i < GUARDS; i++)
        if (p[o->size + i] != byte)
            fail_msg("%s: init writes beyond the struct", o->name);
    return p;
}

static void init_sets_all_of_the_struct(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ALL; i++) {
        unsigned char *a = init_over(&all[i], 0x5a), *b = init_over(&all[i], 0xa5);

        if (memcmp(a, b, all[i].size) != 0)
            fail_msg("%s: init leaves a field as it was", all[i].name);
        free(a);
        free(b);
        all[i].init(NULL);
    }
}

static int is_listed(const char *name)
{
    for (size_t i = 0; i < N_ALL; i++)
        if (strcmp(all[i].name, name) == 0)
            return 1;
    return 0;
}

/* lib/abi/layouts has every public struct. */
static void every_options_struct_is_listed(void **state)
{
    const char *root = getenv("SR1_SRC");
    char path[4096], line[256], name[128];
    size_t found = 0;
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/lib/abi/layouts", root ? root : ".");
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        size_t n = sscanf(line, "%127[^. ] ", name) == 1 ? strlen(name) : 0;

        if (strchr(line, '.') || n < 8 || strcmp(name + n - 8, "_options") != 0)
            continue;
        found++;
        if (!is_listed(name))
            fail_msg("%s has no init function here", name);
    }
    fclose(f);
    assert_true(found > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_sets_all_of_the_struct),
        cmocka_unit_test(every_options_struct_is_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
