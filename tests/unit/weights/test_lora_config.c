/* adapter_config.json: layers by name, scales, a file that reads back. */
#include "base/file.h"
#include "base/mem.h"
#include "config/model_folder.h"
#include "tensor/weights/lora_config.h"

#include "support/files.h"
#include "support/torture.h"

#include <math.h>
#include <string.h>

#define ALL ((1u << SR1__LORA_MODULES) - 1)

static sr1_status parse(const char *text, struct sr1__lora_config *c)
{
    sr1__lora_config_free(c);
    return sr1__lora_config_parse(c, text, strlen(text), "file");
}

static void refused_targets(const char *list, const char *text)
{
    uint32_t targets = 99;

    assert_int_equal(sr1__lora_targets_parse(list, "lora_targets", &targets),
                     SR1_E_UNSUPPORTED);
    assert_int_equal(targets, 99);
    if (!strstr(sr1_last_error(), text))
        fail_msg("'%s' is not in: %s", text, sr1_last_error());
}

static void layers_are_named_as_by_peft(void **state)
{
    uint32_t targets = 0;

    (void)state;
    assert_int_equal(sr1__lora_targets_parse("all-linear", "k", &targets), SR1_OK);
    assert_int_equal(targets, ALL);
    assert_int_equal(sr1__lora_targets_parse("v_proj, mlp.up_proj", "k", &targets),
                     SR1_OK);
    assert_int_equal(targets, 1u << SR1__LORA_V | 1u << SR1__LORA_UP);
    refused_targets("", "lora_targets: '' is no layer");
    refused_targets("q_proj,", "'' is no layer");
    refused_targets("q_proj,lm_head", "'lm_head' is no layer that can have an adapter; "
                                      "q_proj, k_proj, v_proj, o_proj, gate_proj, "
                                      "up_proj, down_proj can");
    refused_targets("self_attn.up_proj", "'self_attn.up_proj'");
}

static void layers_may_be_named_one_by_one(void **state)
{
    static const char good[] =
        "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":16,\"base_model_name_or_path\":"
        "\"b\",\"target_modules\":[\"model.layers.0.self_attn.q_proj\","
        "\"layers.11.mlp.up_proj\",\"3.mlp.down_proj\"]}";
    static const char *const bad[] = {"model.layers.x.self_attn.q_proj",
                                      "model.layers..self_attn.q_proj",
                                      "vision.layers.0.self_attn.q_proj", "xq_proj"};
    struct sr1__lora_config c = {0};
    char text[300];

    (void)state;
    assert_int_equal(parse(good, &c), SR1_OK);
    assert_int_equal(c.targets,
                     1u << SR1__LORA_Q | 1u << SR1__LORA_UP | 1u << SR1__LORA_DOWN);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text,
                 "{\"peft_type\":\"LORA\",\"r\":4,\"base_model_name_or_path\":\"b\","
                 "\"target_modules\":[\"%s\"]}",
                 bad[i]);
        assert_int_equal(parse(text, &c), SR1_E_UNSUPPORTED);
        assert_non_null(strstr(sr1_last_error(), bad[i]));
    }
    assert_int_equal(parse("[]", &c), SR1_E_PARSE);
    assert_int_equal(parse("{\"peft_type\":\"LORA\"}", &c), SR1_E_PARSE);
}

static void the_scale_is_alpha_by_rank_or_its_root(void **state)
{
    struct sr1__lora_config c = {16, 32.0, 0, ALL};

    (void)state;
    assert_true(sr1__lora_scale(&c, 0, SR1__LORA_Q) == 2.0);
    c.rslora = 1;
    assert_true(sr1__lora_scale(&c, 0, SR1__LORA_Q) == 8.0);
}

static void check_reading_back(struct sr1__lora_config c)
{
    struct sr1__lora_config again = {0};
    struct sr1__model_base base = {NULL, NULL};
    int yes = 0;

    assert_int_equal(sr1__lora_config_save(&c, "/a/base", scratch_dir), SR1_OK);
    assert_int_equal(sr1__adapter_is_folder(scratch_dir, &yes), SR1_OK);
    assert_true(yes);
    assert_int_equal(sr1__lora_config_load(&again, scratch_dir), SR1_OK);
    assert_int_equal(sr1__model_base_find(&base, scratch_dir, NULL), SR1_OK);
    assert_string_equal(base.folder, "/a/base");
    assert_true(sr1__lora_config_same(&again, &c) && again.dropout == c.dropout);
    sr1__model_base_free(&base);
    sr1__lora_config_free(&again);
}

static void a_file_reads_back(void **state)
{
    (void)state;
    check_reading_back((struct sr1__lora_config){8, 16.0, 0, ALL});
    check_reading_back((struct sr1__lora_config){1, 0.5, 1, 1u << SR1__LORA_GATE});
    check_reading_back((struct sr1__lora_config){
        .rank = 2, .alpha = 3, .targets = ALL, .dropout = 0.25, .value_head = 1});
}

/* peft: the first key that matches the end of a layer's path counts; ranks and alphas are
 * looked up apart. */
static void layers_may_differ_in_rank_and_alpha(void **state)
{
    static const char text[] =
        "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":16,\"target_modules\":"
        "\"all-linear\",\"rank_pattern\":{\"model.layers.1.self_attn.q_proj\":2,"
        "\"q_proj\":6,\"layers.0.mlp.up_proj\":3,\"lm_head\":9},"
        "\"alpha_pattern\":{\"0.self_attn.q_proj\":3,\"down_proj\":1}}";
    static const char *const bad[][2] = {
        {"\"rank_pattern\":{\".*proj\":2}", "'rank_pattern': a pattern of layers"},
        {"\"rank_pattern\":{\"q_proj\":0}", "'rank_pattern', the rank, must be from 1"},
        {"\"rank_pattern\":{\"q_proj\":1.5}", "no whole number"},
        {"\"alpha_pattern\":{\"q_proj\":\"x\"}", "a value that is no number"},
        {"\"alpha_pattern\":[1]", "'alpha_pattern' is no object"},
    };
    struct sr1__lora_config c = {0}, copy = {0};

    (void)state;
    assert_int_equal(parse(text, &c), SR1_OK);
    assert_int_equal(sr1__lora_rank(&c, 1, SR1__LORA_Q), 2);
    assert_int_equal(sr1__lora_rank(&c, 0, SR1__LORA_Q), 6);
    assert_int_equal(sr1__lora_rank(&c, 0, SR1__LORA_UP), 3);
    assert_int_equal(sr1__lora_rank(&c, 1, SR1__LORA_UP), 4);
    assert_true(sr1__lora_scale(&c, 0, SR1__LORA_Q) == 3.0 / 6);
    assert_true(sr1__lora_scale(&c, 1, SR1__LORA_Q) == 16.0 / 2);
    assert_true(sr1__lora_scale(&c, 5, SR1__LORA_DOWN) == 1.0 / 4);
    check_reading_back(c);
    assert_int_equal(sr1__lora_config_copy(&copy, &c), SR1_OK);
    copy.patterns[0].rank++;
    assert_false(sr1__lora_config_same(&copy, &c));
    sr1__lora_config_free(&copy);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char whole[300];

        snprintf(whole, sizeof whole,
                 "{\"peft_type\":\"LORA\",\"r\":4,\"target_modules\":\"all-linear\",%s}",
                 bad[i][0]);
        assert_int_not_equal(parse(whole, &c), SR1_OK);
        if (!strstr(sr1_last_error(), bad[i][1]))
            fail_msg("'%s' is not in: %s", bad[i][1], sr1_last_error());
    }
}

static void what_only_training_reads_is_accepted(void **state)
{
    static const struct {
        const char *member, *says; /* NULL: accepted */
    } rows[] = {
        {"\"init_lora_weights\":\"eva\",\"eva_config\":{\"rho\":2.0}", NULL},
        {"\"init_lora_weights\":\"orthogonal\"", NULL},
        {"\"init_lora_weights\":\"corda\"", "'init_lora_weights'"},
        {"\"lora_dropout\":0.3", NULL},
        {"\"lora_dropout\":1.5", "'lora_dropout' must be from 0 to 1"},
        {"\"lora_bias\":true", "'lora_bias'"},
        {"\"modules_to_save\":[\"score\"]", "'modules_to_save'"},
        {"\"task_type\":\"TOKEN_CLS\",\"modules_to_save\":[\"classifier\",\"score\"]",
         NULL},
        {"\"revision\":\"a\\u0000b\"", "'revision' has a NUL in a text"},
        {"\"base_model_name_or_path\":\"a\\u0000b\"", "has a NUL in it"},
        {"\"base_model_name_or_path\":7", "is not a text"},
    };
    struct sr1__lora_config c = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char whole[300];

        snprintf(whole, sizeof whole,
                 "{\"peft_type\":\"LORA\",\"r\":4,\"target_modules\":\"all-linear\",%s}",
                 rows[i].member);
        assert_int_equal(parse(whole, &c) == SR1_OK, rows[i].says == NULL);
        if (rows[i].says && !strstr(sr1_last_error(), rows[i].says))
            fail_msg("'%s' is not in: %s", rows[i].says, sr1_last_error());
    }
    sr1__lora_config_free(&c);
}

static void a_base_that_is_not_utf8_is_named(void **state)
{
    struct sr1__lora_config c = {8, 16.0, 0, ALL};

    (void)state;
    assert_int_equal(sr1__lora_config_save(&c, "/b\xff/c", scratch_dir), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "rename that folder"));
}

static sr1_status save_and_load(void *arg)
{
    struct sr1__lora_pattern row = {-1, SR1__LORA_K, 2, 3};
    struct sr1__lora_config c = {8, 16.0, 0, ALL, .patterns = &row, .n_patterns = 1},
                            again = {0};
    sr1_status st = sr1__lora_config_save(&c, "b", scratch_dir);

    (void)arg;
    if (st == SR1_OK)
        st = sr1__lora_config_load(&again, scratch_dir);
    sr1__lora_config_free(&again);
    return st;
}

static void every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    assert_true(torture(save_and_load, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_named_as_by_peft),
        cmocka_unit_test(layers_may_be_named_one_by_one),
        cmocka_unit_test(the_scale_is_alpha_by_rank_or_its_root),
        cmocka_unit_test(a_file_reads_back),
        cmocka_unit_test(layers_may_differ_in_rank_and_alpha),
        cmocka_unit_test(what_only_training_reads_is_accepted),
        cmocka_unit_test(a_base_that_is_not_utf8_is_named),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };

    return cmocka_run_group_tests_name("lora config", tests, scratch_make,
                                       scratch_remove);
}
