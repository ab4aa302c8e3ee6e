/* The real all-MiniLM-L6-v2 against transformers', on questions of SQuAD. Its folder is
 * in the environment variable SR1_MINILM (docs/search.md says how to get it); without it
 * there is nothing to test. */
#include "encoder_test.h"

#include <searchr1/ext/embed.h>

#define QUESTIONS 100
#define DIM 384

static void questions_equal_transformers(void **state)
{
    static float got[QUESTIONS * DIM];
    const char *folder = getenv("SR1_MINILM");
    const char *texts[QUESTIONS];
    sr1_encoder_options o;
    sr1_embedder *e = NULL;
    struct golden g;

    (void)state;
    if (!folder)
        skip();
    g = golden_open_kind("encoder", "minilm");
    assert_int_equal(golden_count(&g, "texts"), QUESTIONS);
    for (size_t i = 0; i < QUESTIONS; i++)
        texts[i] = json_string_value(json_array_get(json_object_get(g.json, "texts"), i));
    sr1_encoder_options_init(&o);
    o.device = "cpu";
    OK(sr1_embedder_open(&e, folder, &o));
    assert_int_equal(sr1_embedder_dim(e), DIM);
    OK(sr1_embedder_embed(e, texts, QUESTIONS, SR1_EMBED_QUERY, got));
    print_message("largest difference %g\n",
                  largest_gap(got, golden_tensor(&g, "output", sizeof got / sizeof *got),
                              sizeof got / sizeof *got));
    assert_true(largest_gap(got, golden_tensor(&g, "output", sizeof got / sizeof *got),
                            sizeof got / sizeof *got) <= 1e-4);
    sr1_embedder_free(e);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(questions_equal_transformers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
