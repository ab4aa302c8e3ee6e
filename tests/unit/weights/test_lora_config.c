/* adapter_config.json: layers by name, scales, a file that reads back. */
#include "base/file.h"
#include "base/mem.h"
#include "tensor/weights/lora_config.h"

#include "support/files.h"
#include "support/torture.h"

#include <math.h>
#include <string.h>

#define ALL ((1u << SR1__LORA_MODULES) - 1)

static sr1_status parse(const char *text, struct sr1__lora_config *c)
{
    char *base = NULL;
    sr1_status st = sr1__lora_config_parse(c, &base, text, strlen(text), "file");

    sr1__free(base);
    return st;
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
    assert_true(sr1__lora_scale(&c) == 2.0);
    c.rslora = 1;
    assert_true(sr1__lora_scale(&c) == 8.0);
}

static void check_reading_back(struct sr1__lora_config c)
{
    struct sr1__lora_config again = {0};
    char *base = NULL;
    int yes = 0;

    assert_int_equal(sr1__lora_config_save(&c, "/a/base", scratch_dir), SR1_OK);
    assert_int_equal(sr1__lora_is_folder(scratch_dir, &yes), SR1_OK);
    assert_true(yes);
    assert_int_equal(sr1__lora_config_load(&again, &base, scratch_dir), SR1_OK);
    assert_string_equal(base, "/a/base");
    assert_true(again.rank == c.rank && again.alpha == c.alpha &&
                again.rslora == c.rslora && again.targets == c.targets);
    sr1__free(base);
}

static void a_file_reads_back(void **state)
{
    (void)state;
    check_reading_back((struct sr1__lora_config){8, 16.0, 0, ALL});
    check_reading_back((struct sr1__lora_config){1, 0.5, 1, 1u << SR1__LORA_GATE});
}

static sr1_status save_and_load(void *arg)
{
    struct sr1__lora_config c = {8, 16.0, 0, ALL}, again;
    char *base = NULL;
    sr1_status st = sr1__lora_config_save(&c, "b", scratch_dir);

    (void)arg;
    if (st == SR1_OK)
        st = sr1__lora_config_load(&again, &base, scratch_dir);
    sr1__free(base);
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
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };

    return cmocka_run_group_tests_name("lora config", tests, scratch_make,
                                       scratch_remove);
}
