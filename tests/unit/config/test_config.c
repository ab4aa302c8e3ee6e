/* The configuration: every key's bounds, files, errors, secrets, the saved form. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/choices.h"
#include "config/config.h"

#include <searchr1/ext/config_names.h>

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static sr1_config_key_info describe(size_t i)
{
    sr1_config_key_info info = {.struct_size = sizeof info};

    assert_int_equal(sr1_config_key_describe(i, &info), SR1_OK);
    return info;
}

static void assert_error(sr1_status status, sr1_status expected, const char *part)
{
    if (status != expected || !strstr(sr1_last_error(), part))
        fail_msg("%s: '%s', not %s: '%s'", sr1_status_name(status), sr1_last_error(),
                 sr1_status_name(expected), part);
}

/* The keys and defaults that the requirements name. */
static void required_defaults(void **state)
{
    static const char *const rows[][2] = {
        {"use_openai", "false"},  {"openai_model", "gpt-4o-mini"},
        {"device", "auto"},       {"model_name_or_path", ""},
        {"max_tokens", "500"},    {"group_size", "2"},
        {"update_times", "4"},    {"clip_epsilon", "0.2"},
        {"beta", "0.1"},          {"learning_rate", "1e-5"},
        {"batch_size", "1"},      {"num_epochs", "10"},
        {"max_grad_norm", "0.5"}, {"format_reward", "0.5"},
        {"answer_reward", "1.0"}, {"exact_match_bonus", "2.0"},
        {"log_interval", "1"},    {"seed", "42"},
        {"openai_api_key", ""},
    };

    (void)state;
    for (size_t r = 0; r < COUNT(rows); r++) {
        int found = 0;

        for (size_t i = 0; i < sr1_config_key_count(); i++) {
            sr1_config_key_info info = describe(i);

            if (strcmp(info.name, rows[r][0]) == 0) {
                assert_string_equal(info.default_text, rows[r][1]);
                found = 1;
            }
        }
        assert_true(found);
    }
}

/* A value just outside an inclusive bound, as text. */
static void beyond(const sr1_config_key_info *info, int above, char text[64])
{
    double edge = above ? info->max : info->min;

    if (info->type == SR1_CONFIG_INT)
        snprintf(text, 64, "%.0f", edge + (above ? 1 : -1));
    else
        snprintf(text, 64, "%.17g",
                 edge + (above ? 1 : -1) *
                            (edge == 0 ? 1e-9 : 1e-3 * (edge < 0 ? -edge : edge)));
}

static void check_number(sr1_config *c, const sr1_config_key_info *info)
{
    char text[64];

    for (int above = 0; above < 2; above++) {
        beyond(info, above, text);
        assert_error(sr1_config_set(c, info->name, text), SR1_E_CONFIG, info->name);
        assert_non_null(strstr(sr1_last_error(), "from"));
        sr1__format_real(above ? info->max : info->min, text);
        assert_int_equal(sr1_config_set(c, info->name, text), SR1_OK);
    }
    assert_error(sr1_config_set(c, info->name, "word"), SR1_E_CONFIG, "number");
    assert_error(sr1_config_set(c, info->name, ""), SR1_E_CONFIG, "number");
    assert_error(sr1_config_set(c, info->name, "nan"), SR1_E_CONFIG, "number");
    if (info->type == SR1_CONFIG_INT)
        assert_error(sr1_config_set(c, info->name, "1.5"), SR1_E_CONFIG, "whole number");
}

/* A device by its number, as libtorch writes it. */
static void devices_have_numbers(void **state)
{
    static const char *const keys[] = {"device", "search_device", "search_index_device"};
    static const char *const good[] = {"cuda:0", "cuda:1", "cuda:10", "cuda:63"};
    static const char *const bad[] = {"cuda:",
                                      "cuda:64",
                                      "cuda:-1",
                                      "cuda:+1",
                                      "cuda:01",
                                      "cuda:1 ",
                                      "cuda:x",
                                      "cuda:1|cpu",
                                      "cuda1",
                                      "cpu:0",
                                      "cuda:99999999999999999999"};
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const char *v = NULL;

        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            assert_int_equal(sr1_config_set(c, keys[k], good[i]), SR1_OK);
            assert_int_equal(sr1_config_get_str(c, keys[k], &v), SR1_OK);
            assert_string_equal(v, good[i]);
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            assert_error(sr1_config_set(c, keys[k], bad[i]), SR1_E_CONFIG, "cuda:N");
    }
    sr1_config_free(c);
}

static void check_choices(sr1_config *c, const sr1_config_key_info *info)
{
    char choices[256];
    char *saved = NULL;

    snprintf(choices, sizeof choices, "%s", info->choices);
    for (char *word = strtok_r(choices, "|", &saved); word;
         word = strtok_r(NULL, "|", &saved)) {
        size_t n = strlen(word);

        if (n > 2 && strcmp(word + n - 2, ":N") == 0) {
            assert_error(sr1_config_set(c, info->name, word), SR1_E_CONFIG, word);
            word[n - 1] = '7';
        }
        assert_int_equal(sr1_config_set(c, info->name, word), SR1_OK);
        word[0] ^= 0x20; /* another case is another word */
        assert_error(sr1_config_set(c, info->name, word), SR1_E_CONFIG, info->choices);
    }
    assert_error(sr1_config_set(c, info->name, ""), SR1_E_CONFIG, info->choices);
    assert_error(sr1_config_set(c, info->name, info->choices),
                 strchr(info->choices, '|') ? SR1_E_CONFIG : SR1_OK, "");
}

static const char *not_the_default(const sr1_config_key_info *info)
{
    if (info->type != SR1_CONFIG_BOOL)
        return "other";
    return strcmp(info->default_text, "true") == 0 ? "false" : "true";
}

/* As Python writes them, too. */
static void check_words_of_bool(sr1_config *c, const char *name)
{
    static const char *const words[] = {"false", "true", "False", "True"};
    int32_t v;

    for (size_t i = 0; i < COUNT(words); i++) {
        assert_int_equal(sr1_config_set(c, name, words[i]), SR1_OK);
        assert_int_equal(sr1_config_get_bool(c, name, &v), SR1_OK);
        assert_int_equal(v, (int)i % 2);
    }
    assert_error(sr1_config_set(c, name, "yes"), SR1_E_CONFIG, "true or false");
}

static void every_key_holds_its_bounds(void **state)
{
    sr1_config *c = NULL;

    (void)state;
    assert_true(sr1_config_key_count() > 80);
    for (size_t i = 0; i < sr1_config_key_count(); i++) {
        sr1_config_key_info info = describe(i);
        int32_t set = 7;

        assert_int_equal(sr1_config_new(&c), SR1_OK);
        assert_true(strlen(info.help) > 10 && !strchr(info.help, '\n'));
        assert_int_equal(sr1_config_is_set(c, info.name, &set), SR1_OK);
        assert_int_equal(set, 0);
        if (info.type == SR1_CONFIG_SECRET) {
            assert_error(sr1_config_set(c, info.name, "x"), SR1_E_CONFIG, info.choices);
        } else {
            assert_int_equal(sr1_config_set(c, info.name, info.default_text), SR1_OK);
            assert_int_equal(sr1_config_is_set(c, info.name, &set), SR1_OK);
            assert_int_equal(set, 1);
        }
        if (info.type == SR1_CONFIG_INT || info.type == SR1_CONFIG_REAL)
            check_number(c, &info);
        if (info.type == SR1_CONFIG_CHOICE)
            check_choices(c, &info);
        if (info.type == SR1_CONFIG_BOOL)
            check_words_of_bool(c, info.name);
        if (info.status == SR1_CONFIG_LATER)
            assert_error(sr1_config_set(c, info.name, not_the_default(&info)),
                         SR1_E_CONFIG, "does not have yet");
        sr1_config_free(c);
    }
}

static void descriptions_grow(void **state)
{
    sr1_config_key_info info = {.struct_size = offsetof(sr1_config_key_info, help)};

    (void)state;
    info.help = "untouched";
    assert_int_equal(sr1_config_key_describe(0, &info), SR1_OK);
    assert_string_equal(info.name, "use_openai");
    assert_string_equal(info.help, "untouched");
    info.struct_size = 0;
    assert_error(sr1_config_key_describe(0, &info), SR1_E_INVALID, "struct_size");
    info.struct_size = sizeof info;
    assert_error(sr1_config_key_describe(sr1_config_key_count(), &info), SR1_E_INVALID,
                 "key");
}

static void getters_check_types(void **state)
{
    sr1_config *c = NULL;
    int64_t i = -1;
    double r = -1.0;
    int32_t b = -1;
    const char *s = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_get_int(c, "group_size", &i), SR1_OK);
    assert_int_equal(sr1_config_get_real(c, "group_size", &r), SR1_OK);
    assert_int_equal(sr1_config_get_bool(c, "shuffle", &b), SR1_OK);
    assert_int_equal(sr1_config_get_str(c, "rewards", &s), SR1_OK);
    assert_true(i == 2 && r == 2.0 && b == 1);
    assert_string_equal(s, "format,answer");
    assert_error(sr1_config_get_int(c, "beta", &i), SR1_E_INVALID, "whole number");
    assert_error(sr1_config_get_bool(c, "beta", &b), SR1_E_INVALID, "beta");
    assert_error(sr1_config_get_str(c, "beta", &s), SR1_E_INVALID, "beta");
    assert_error(sr1_config_get_str(c, "openai_api_key", &s), SR1_E_INVALID,
                 "openai_api_key");
    assert_error(sr1_config_get_real(c, "betta", &r), SR1_E_CONFIG, "'beta'");
    assert_true(i == 2 && r == 2.0 && b == 1);
    assert_true(sr1__config_int(c, "seed") == 42 && sr1__config_real(c, "beta") == 0.1);
    assert_true(sr1__config_is(c, "stage", "rl") && !sr1__config_is(c, "stage", "sft"));
    assert_true(sr1__config_int(c, "no such key") == 0);
    sr1_config_free(c);
    sr1_config_free(NULL);
}

/* As the config.json of a model has them. */
static void precisions_have_their_names_in_torch(void **state)
{
    static const char *const names[][2] = {
        {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}, {"bf16", "bf16"}};
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(sr1_config_set(c, "dtype", names[i][0]), SR1_OK);
        assert_int_equal(sr1_config_set(c, "reference_dtype", names[i][0]), SR1_OK);
        assert_true(sr1__config_is(c, "dtype", names[i][1]));
        assert_true(sr1__config_is(c, "reference_dtype", names[i][1]));
    }
    assert_error(sr1_config_set(c, "dtype", "float8"), SR1_E_CONFIG, "'float8' is not");
    assert_error(sr1_config_set(c, "stage", "bfloat16"), SR1_E_CONFIG, "'bfloat16' is");
    sr1_config_free(c);
}

static void pairs(void **state)
{
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "group_size=8"), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "max_tokens=1e3"), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "name=a=b"), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "tokenizer="), SR1_OK);
    assert_int_equal(sr1__config_int(c, "group_size"), 8);
    assert_int_equal(sr1__config_int(c, "max_tokens"), 1000);
    assert_string_equal(sr1__config_str(c, "name"), "a=b");
    assert_error(sr1_config_set_pair(c, "group_size"), SR1_E_CONFIG, "key=value");
    assert_error(sr1_config_set_pair(c, "=1"), SR1_E_CONFIG, "without the name of a key");
    assert_error(sr1_config_set_pair(c, "group_size=1"), SR1_E_CONFIG, "from 2 to");
    assert_error(sr1_config_set_pair(c, "seed=9007199254740993"), SR1_E_CONFIG, "seed");
    assert_error(sr1_config_set_pair(c, "seed=1e300"), SR1_E_CONFIG, "seed");
    assert_error(sr1_config_set_pair(c, "name=\xff"), SR1_E_CONFIG, "UTF-8");
    assert_int_equal(sr1__config_int(c, "group_size"), 8);
    sr1_config_free(c);
}

static void a_documents_name_is_the_same_key(void **state)
{
    sr1_config *c = NULL;
    int64_t group = 0;
    char *json = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "num_generations=7"), SR1_OK);
    assert_int_equal(sr1_config_get_int(c, "group_size", &group), SR1_OK);
    assert_int_equal(group, 7);
    assert_int_equal(sr1_config_to_json(c, &json), SR1_OK);
    assert_null(strstr(json, "num_generations"));
    sr1_free(json);
    sr1_config_free(c);
}

static void nearest_names(void **state)
{
    static const char *const rows[][2] = {{"group_sze", "group_size"},
                                          {"lerning_rate", "learning_rate"},
                                          {"Beta", "beta"},
                                          {"max_token", "max_tokens"},
                                          {"clip_epsilon_hi", "clip_epsilon_high"},
                                          {"validation_files", "validation_file"}};
    char long_name[5000];
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[128];

        snprintf(expected, sizeof expected,
                 "key '%s' is not known; the nearest known key is '%s'", rows[i][0],
                 rows[i][1]);
        assert_error(sr1_config_set(c, rows[i][0], "1"), SR1_E_CONFIG, expected);
    }
    memset(long_name, 'g', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_error(sr1_config_set(c, long_name, "1"), SR1_E_CONFIG, "not known");
    assert_error(sr1_config_set(c, "", "1"), SR1_E_CONFIG, "without the name of a key");
    sr1_config_free(c);
}

/* name's ending chooses the format; expected: part of the error, NULL when it loads. */
static const struct {
    const char *name, *text, *expected;
    sr1_status status;
} files[] = {
    {"a.yaml", "group_size: 8\nbeta: 0\nname: x\n", NULL, SR1_OK},
    {"a.yaml", "# nothing\n", NULL, SR1_OK},
    {"a.yaml", "rewards: [format, answer]\nreward_weights: [0.5, 2]\n", NULL, SR1_OK},
    {"a.yaml", "reward_weights: 3\nrewards: format\n", NULL, SR1_OK},
    {"a.json", "{\"group_size\": 4.0, \"out\": null}", NULL, SR1_OK},
    {"a.yaml", "beta: 1\n\ngroup_size: 1\n",
     "a.yaml:3: key 'group_size': '1' is not allowed; it takes a whole number from 2 to "
     "65536",
     SR1_E_CONFIG},
    {"a.json", "{\n\"beta\": 1,\n\"group_sise\": 1}",
     "a.json:3: key 'group_sise' is not known; the nearest known key is 'group_size'",
     SR1_E_CONFIG},
    {"a.yaml", "name: 42\n", "a.yaml:1: key 'name' takes text (put it in quotes)",
     SR1_E_CONFIG},
    {"a.yaml", "shuffle: 'true'\n", "takes true or false", SR1_E_CONFIG},
    {"a.yaml", "group_size: '8'\n", "takes a whole number", SR1_E_CONFIG},
    {"a.yaml", "group_size: [8]\n", "takes a whole number", SR1_E_CONFIG},
    {"a.yaml", "group_size: auto\n", "takes a whole number", SR1_E_CONFIG},
    {"a.yaml", "max_rows: most\n", "takes a whole number", SR1_E_CONFIG},
    {"a.yaml", "beta: {x: 1}\n", "takes a number", SR1_E_CONFIG},
    {"a.yaml", "sft_file: [a, b]\n", "takes text", SR1_E_CONFIG},
    {"a.yaml", "rewards: ['a,b']\n", "key 'rewards': 'a,b' has a comma", SR1_E_CONFIG},
    {"a.yaml", "train_file: ['a,b.jsonl']\n",
     "a file with a comma in its name another name, or a link to it", SR1_E_CONFIG},
    {"a.yaml", "name: \"a\\0b\"\n", "takes text", SR1_E_CONFIG},
    {"a.yaml", "device: gpu\n",
     "a.yaml:1: key 'device': 'gpu' is not allowed; it takes one of auto|cpu|cuda",
     SR1_E_CONFIG},
    {"a.yaml", "- a\n- b\n", "a.yaml: a configuration is a mapping", SR1_E_CONFIG},
    {"a.yaml", "beta: 1\nbeta: 2\n", "a.yaml: line 2: key 'beta' is given twice",
     SR1_E_PARSE},
    {"a.yaml", "beta: 1\n  x: 2\n", "a.yaml: line 2", SR1_E_PARSE},
    {"a.json", "{\"beta\": 1,}", "a.json: line 1", SR1_E_PARSE},
    {"a.json", "{\"beta\": 1, \"beta\": 2}", "duplicate", SR1_E_PARSE},
    {"a.json", "", "a.json: line 1", SR1_E_PARSE},
    {"a.yaml", "learning_rate: 1e999\n", "takes a number", SR1_E_CONFIG},
};

static void files_and_their_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        const char *path =
            scratch_file(files[i].name, files[i].text, files[i].text[0] ? 0 : 1);
        sr1_config *c = NULL;
        char *before = NULL, *after = NULL;
        sr1_status status;

        if (!files[i].text[0])
            assert_int_equal(sr1__file_replace(path, "", 0), SR1_OK);
        assert_int_equal(sr1_config_new(&c), SR1_OK);
        assert_int_equal(sr1_config_to_json(c, &before), SR1_OK);
        status = sr1_config_load(c, path);
        if (files[i].expected) {
            assert_error(status, files[i].status, files[i].expected);
            assert_non_null(strstr(sr1_last_error(), path));
            assert_int_equal(sr1_config_to_json(c, &after), SR1_OK);
            assert_string_equal(before, after);
        } else if (status != SR1_OK) {
            fail_msg("%s: %s", files[i].text, sr1_last_error());
        }
        sr1_free(before);
        sr1_free(after);
        sr1_config_free(c);
    }
}

static void missing_and_huge_files(void **state)
{
    static char big[(1 << 20) + 2];
    sr1_config *c = NULL;

    (void)state;
    memset(big, '#', sizeof big - 1);
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_error(sr1_config_load(c, scratch_path("gone.yaml")), SR1_E_IO, "gone.yaml");
    assert_error(sr1_config_load(c, scratch_dir), SR1_E_IO,
                 "is a folder, and a configuration is a file; a run goes on with");
    assert_error(sr1_config_load(c, scratch_file("big.yaml", big, sizeof big - 1)),
                 SR1_E_LIMIT, "big.yaml");
    sr1_config_free(c);
}

static void values_of_files(void **state)
{
    const char *path =
        scratch_file("v.yaml",
                     "rewards: [format, answer]\nreward_weights: [0.5, 2]\n"
                     "learning_rate: 1e-6\nshuffle: false\nname: null\n"
                     "no_content_text: nichts gefunden\n",
                     0);
    sr1_config *c = NULL;
    int32_t set = 7;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set(c, "name", "other"), SR1_OK);
    assert_int_equal(sr1_config_load(c, path), SR1_OK);
    assert_string_equal(sr1__config_str(c, "rewards"), "format,answer");
    assert_string_equal(sr1__config_str(c, "reward_weights"), "0.5,2");
    assert_string_equal(sr1__config_str(c, "no_content_text"), "nichts gefunden");
    assert_true(sr1__config_real(c, "learning_rate") == 1e-6);
    assert_false(sr1__config_bool(c, "shuffle"));
    assert_string_equal(sr1__config_str(c, "name"), "run"); /* null: the default again */
    assert_int_equal(sr1_config_is_set(c, "name", &set), SR1_OK);
    assert_int_equal(set, 0);
    sr1_config_free(c);
}

static void saved_form_reads_back(void **state)
{
    sr1_config *a = NULL, *b = NULL, *copy = NULL;
    char *first = NULL, *second = NULL, *third = NULL;
    const char *path;

    (void)state;
    assert_int_equal(sr1_config_new(&a), SR1_OK);
    assert_int_equal(sr1_config_new(&b), SR1_OK);
    assert_int_equal(sr1_config_set(a, "name", "q\"uote\\ \xe6\x9c\xaa\n"), SR1_OK);
    assert_int_equal(sr1_config_set(a, "learning_rate", "0.30000000000000004"), SR1_OK);
    assert_int_equal(sr1_config_set(a, "seed", "9007199254740991"), SR1_OK);
    assert_int_equal(sr1_config_to_json(a, &first), SR1_OK);
    path = scratch_file("saved.json", first, 0);
    assert_int_equal(sr1_config_load(b, path), SR1_OK);
    assert_int_equal(sr1_config_to_json(b, &second), SR1_OK);
    assert_string_equal(first, second);
    assert_int_equal(sr1_config_copy(&copy, a), SR1_OK);
    assert_int_equal(sr1_config_set(a, "name", "changed"), SR1_OK);
    assert_int_equal(sr1_config_to_json(copy, &third), SR1_OK);
    assert_string_equal(first, third);
    assert_non_null(strstr(first, "\"beta\": 0.1,"));
    sr1_free(first);
    sr1_free(second);
    sr1_free(third);
    sr1_config_free(a);
    sr1_config_free(b);
    sr1_config_free(copy);
}

static void secrets_stay_in_the_environment(void **state)
{
    static const char *const texts[] = {"openai_api_key: sk-secret\n",
                                        "openai_api_key: [sk-secret]\n"};
    sr1_config *c = NULL;
    char *json = NULL;

    (void)state;
    setenv("OPENAI_API_KEY", "sk-environment", 1);
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_string_equal(sr1__config_secret(c, "openai_api_key"), "sk-environment");
    assert_string_equal(sr1__config_secret(c, "name"), "");
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_error(sr1_config_load(c, scratch_file("s.yaml", texts[i], 0)),
                     SR1_E_CONFIG, "s.yaml:1: key 'openai_api_key' is a secret");
        assert_non_null(strstr(sr1_last_error(), "OPENAI_API_KEY"));
        assert_null(strstr(sr1_last_error(), "sk-"));
    }
    assert_error(sr1_config_set_pair(c, "openai_api_key=sk-secret"), SR1_E_CONFIG,
                 "OPENAI_API_KEY");
    assert_null(strstr(sr1_last_error(), "sk-"));
    assert_int_equal(sr1_config_to_json(c, &json), SR1_OK);
    assert_null(strstr(json, "sk-"));
    assert_null(strstr(json, "openai_api_key"));
    unsetenv("OPENAI_API_KEY");
    assert_string_equal(sr1__config_secret(c, "openai_api_key"), "");
    sr1_free(json);
    sr1_config_free(c);
}

/* Space-separated pairs; expected: part of the error, NULL when they fit together. */
static const struct {
    const char *pairs, *expected;
} rules[] = {
    {"", NULL},
    {"max_tokens_per_turn=501",
     "max_tokens_per_turn is 501, above max_tokens, which is 500;"},
    {"max_tokens_per_turn=500", NULL},
    {"compat=search-r1 max_tokens=32",
     "max_tokens_per_turn is 500 (compat: search-r1), above max_tokens, which is 32;"},
    {"importance_correction=token_mask importance_low=0.9 importance_high=0.5",
     "importance_low is 0.9, above importance_high, which is 0.5;"},
    {"max_steps=10 warmup_steps=11", NULL}, /* the run says how far it comes */
    {"lr_decay_start=0.5", "lr_decay_start"},
    {"lr_final_ratio=0.1", "lr_final_ratio"},
    {"lr_decay_start=0.5 lr_final_ratio=0.1 lr_schedule=linear", NULL},
    {"clip_epsilon_high=0.1",
     "clip_epsilon_high is 0.1, below clip_epsilon, which is 0.2;"},
    {"clip_epsilon_high=0.28", NULL},
    {"validation_split=0.5 test_split=0.5", "below 1"},
    {"validation_split=0.1 validation_file=v.jsonl", "validation_file"},
    {"test_split=0.1 test_file=t.jsonl", "test_file"},
    {"validation_split=0.1 test_split=0.1 validate_interval=5", NULL},
    {"validate_interval=5", "validation"},
    {"validate_at_start=true", "validation"},
    {"search_engine=none", "dense"},
    {"search_engine=none environment=none", NULL},
    {"search_engine=bm25", "search_index"},
    {"search_engine=bm25 search_index=x", NULL},
    {"environment=critique", "environment critique needs protocol ctrl"},
    {"environment=critique protocol=ctrl", NULL},
    {"protocol=ctrl", "goes with environment critique"},
    {"protocol=ctrl environment=none", NULL},
    {"protocol=chat", "protocol chat has no tags"},
    {"protocol=chat environment=none", NULL},
    {"protocol=chat protocol_file=moves.yaml", NULL},
    {"search_engine=dense", "search_dense_index"},
    {"stage=sft", "sft_file"},
    {"stage=sft sft_file=d.jsonl validate_interval=3", NULL},
    {"rewards=", "rewards"},
    {"rewards=a,,b", "rewards"},
    {"rewards=a,", "rewards"},
    {"reward_weights=1", "1 number for 2 rewards"},
    {"reward_weights=1,x", "numbers"},
    {"reward_weights=1,0.5", NULL},
    {"reward_weights=1.0,\t0.5", NULL},
    {"reward_weights=1.0,\t", "numbers"},
    {"rewards=a,\t,b", "empty between commas"},
    {"rewards=none", NULL},
    {"rewards=none reward_weights=1", "but rewards is none"},
    {"rewards=em reward_weights=-1", NULL},
    {"entropy_controller=adaptive entropy_coef_min=0.5 entropy_coef_max=0.1",
     "entropy_coef_min is 0.5, above entropy_coef_max, which is 0.1"},
    {"entropy_controller=adaptive entropy_coef=2", "move one of them"},
    {"entropy_controller=adaptive entropy_coef=1", NULL},
    {"entropy_coef_min=0.5 entropy_coef_max=0.1", NULL},
    {"quantization=int8", NULL},
    {"quantization=int8 use_openai=true", "a server (use_openai) has its own"},
    {"kv_cache_dtype=bfloat16", NULL},
    {"kv_cache_dtype=bfloat16 use_openai=true", "kv_cache_dtype to auto"},
    {"name=", "name is empty, and the run would lie in runs itself"},
    {"name=..", "name is '..', and the run would lie in the working folder itself"},
    {"name= out=somewhere", NULL},
    {"name=n\nl", "name has a control character"},
};

static void rules_between_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        sr1_config *c = NULL;
        char text[256];
        char *saved = NULL;

        assert_int_equal(sr1_config_new(&c), SR1_OK);
        snprintf(text, sizeof text, "%s", rules[i].pairs);
        for (char *p = strtok_r(text, " ", &saved); p; p = strtok_r(NULL, " ", &saved))
            assert_int_equal(sr1_config_set_pair(c, p), SR1_OK);
        if (rules[i].expected)
            assert_error(sr1_config_validate(c), SR1_E_CONFIG, rules[i].expected);
        else if (sr1_config_validate(c) != SR1_OK)
            fail_msg("%s: %s", rules[i].pairs, sr1_last_error());
        sr1_config_free(c);
    }
}

/* ---- presets ---- */

static void assert_text(const sr1_config *c, const char *key, const char *expected)
{
    assert_string_equal(sr1__config_str(c, key), expected);
}

static int is_set(const sr1_config *c, const char *key)
{
    int32_t set = -1;

    assert_int_equal(sr1_config_is_set(c, key, &set), SR1_OK);
    return set;
}

static void lists_have_items(void **state)
{
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set(c, "rewards", "format,judge , exact_match"), SR1_OK);
    assert_true(sr1__config_has_item(c, "rewards", "format"));
    assert_true(sr1__config_has_item(c, "rewards", "judge"));
    assert_true(sr1__config_has_item(c, "rewards", "exact_match"));
    assert_false(sr1__config_has_item(c, "rewards", "match"));
    assert_false(sr1__config_has_item(c, "rewards", "exact"));
    assert_true(sr1__config_has_item(c, "search_engine", "mock"));
    sr1_config_free(c);
}

static void compat_moves_defaults_only(void **state)
{
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "max_turns=7"), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "compat=search-r1"), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "rewards=f1"), SR1_OK);
    assert_int_equal(sr1__config_int(c, "max_turns"), 7);
    assert_int_equal(sr1__config_int(c, "max_tokens_per_turn"), 500);
    assert_int_equal(sr1__config_int(c, "max_tokens"), 4096);
    assert_text(c, "protocol", "search-r1-compat");
    assert_text(c, "prompt_template", "none");
    assert_text(c, "question_template", "search-r1");
    assert_text(c, "rewards", "f1");
    assert_true(is_set(c, "max_turns") && is_set(c, "compat") && !is_set(c, "protocol"));
    assert_int_equal(sr1_config_validate(c), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "compat=search-r2"), SR1_E_CONFIG);
    assert_text(c, "protocol", "search-r1-compat");
    assert_int_equal(sr1_config_set_pair(c, "compat=none"), SR1_OK);
    assert_text(c, "protocol", "search-r1");
    assert_int_equal(sr1__config_int(c, "max_tokens"), 500);
    assert_int_equal(sr1__config_int(c, "max_turns"), 7);
    sr1_config_free(c);
}

/* In a file the order of keys does not matter, and what is saved reads back. */
static void compat_in_files(void **state)
{
    sr1_config *c = NULL, *again = NULL;
    char *json = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_load(c, scratch_file("p.yaml",
                                                     "max_turns: 1\ncompat: search-r1\n"
                                                     "search_top_k: 5\n",
                                                     0)),
                     SR1_OK);
    assert_int_equal(sr1__config_int(c, "max_turns"), 1);
    assert_int_equal(sr1__config_int(c, "search_top_k"), 5);
    assert_text(c, "rewards", "search_r1_em");
    assert_int_equal(sr1_config_to_json(c, &json), SR1_OK);
    assert_int_equal(sr1_config_new(&again), SR1_OK);
    assert_int_equal(sr1_config_load(again, scratch_file("p.json", json, 0)), SR1_OK);
    assert_text(again, "rewards", "search_r1_em");
    assert_int_equal(sr1__config_int(again, "search_top_k"), 5);
    sr1_free(json);
    sr1_config_free(c);
    sr1_config_free(again);
}

/* The default comes back as if nothing had set the key: compat's where it has one. */
static void what_is_unset_was_never_set(void **state)
{
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "compat=trl"), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "group_size=4"), SR1_OK);
    assert_int_equal(sr1_config_set_pair(c, "name=mine"), SR1_OK);
    assert_int_equal(sr1_config_unset(c, "group_size"), SR1_OK);
    assert_int_equal(sr1_config_unset(c, "name"), SR1_OK);
    assert_int_equal(sr1__config_int(c, "group_size"), 8);
    assert_text(c, "name", "run");
    assert_true(!is_set(c, "group_size") && !is_set(c, "name") && is_set(c, "compat"));
    assert_int_equal(sr1_config_unset(c, "compat"), SR1_OK);
    assert_int_equal(sr1__config_int(c, "group_size"), 2);
    assert_true(!is_set(c, "compat"));
    assert_error(sr1_config_unset(c, "group_sise"), SR1_E_CONFIG, "'group_size'");
    assert_error(sr1_config_unset(c, "openai_api_key"), SR1_E_CONFIG, "is a secret");
    assert_error(sr1_config_unset(NULL, "name"), SR1_E_INVALID, "config and key");
    assert_error(sr1_config_validate(NULL), SR1_E_INVALID, "configuration: config");
    sr1_config_free(c);
}

/* What nobody set does not come back from the saved form as if somebody had. */
static void the_saved_form_keeps_what_was_not_set(void **state)
{
    static const char *const keys[] = {"openai_model", "search_engine",
                                       "execution_score"};
    static const char *const values[] = {"small", "bm25", "all"};
    sr1_config *c = NULL, *again = NULL;
    char *json = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (int set = 0; set < 2; set++) {
        for (size_t i = 0; set && i < COUNT(keys); i++)
            assert_int_equal(sr1_config_set(c, keys[i], values[i]), SR1_OK);
        assert_int_equal(sr1_config_to_json(c, &json), SR1_OK);
        assert_int_equal(sr1_config_new(&again), SR1_OK);
        assert_int_equal(sr1_config_load(again, scratch_file("kept.json", json, 0)),
                         SR1_OK);
        for (size_t i = 0; i < COUNT(keys); i++) {
            assert_int_equal(is_set(again, keys[i]), set);
            assert_text(again, keys[i], sr1__config_str(c, keys[i]));
        }
        sr1_free(json);
        sr1_config_free(again);
    }
    sr1_config_free(c);
}

static sr1_status load_and_save(void *path)
{
    sr1_config *c = NULL, *copy = NULL;
    char *json = NULL, **items = NULL;
    size_t n = 0;
    sr1_status status = sr1_config_new(&c);

    if (status == SR1_OK)
        status = sr1_config_load(c, path);
    if (status == SR1_OK)
        status = sr1_config_set_pair(c, "name=second");
    if (status == SR1_OK)
        status = sr1_config_set_pair(c, "compat=search-r1");
    if (status == SR1_OK)
        status = sr1_config_unset(c, "name");
    if (status == SR1_OK)
        status = sr1_config_copy(&copy, c);
    if (status == SR1_OK)
        status = sr1_config_to_json(copy, &json);
    if (status == SR1_OK)
        status = sr1__config_list(copy, "rewards", &items, &n);
    sr1__free(items);
    sr1_free(json);
    sr1_config_free(c);
    sr1_config_free(copy);
    return status;
}

/* Items with '|' between them, as sr1__config_list gives them. */
static void lists_are_cut(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"a", "a"},
        {"a.jsonl, b.jsonl", "a.jsonl|b.jsonl"},
        {" a b ,c", "a b|c"},
        {",,", "|"},
        {"a,,b", "a||b"},
    };
    sr1_config *c = NULL;

    (void)state;
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char **items = NULL, joined[64] = "";
        size_t n = 0;

        assert_int_equal(sr1_config_set(c, "code_problems", cases[i][0]), SR1_OK);
        assert_int_equal(sr1__config_list(c, "code_problems", &items, &n), SR1_OK);
        for (size_t k = 0; k < n; k++) {
            strcat(joined, k ? "|" : "");
            strcat(joined, items[k]);
        }
        assert_string_equal(joined, cases[i][1]);
        sr1__free(items);
    }
    sr1_config_free(c);
}

/* The row of each choice of a key bears its name. */
static size_t count_rows(const char *key, const char *(*name_of)(const sr1_config *c))
{
    char choices[400], *saved = NULL;
    size_t i = 0, n = 0;

    while (strcmp(describe(i).name, key) != 0)
        i++;
    snprintf(choices, sizeof choices, "%s", describe(i).choices);
    for (char *p = strtok_r(choices, "|", &saved); p; p = strtok_r(NULL, "|", &saved)) {
        sr1_config *c = NULL;

        assert_int_equal(sr1_config_new(&c), SR1_OK);
        assert_int_equal(sr1_config_set(c, key, p), SR1_OK);
        assert_string_equal(name_of(c), p);
        sr1_config_free(c);
        n++;
    }
    return n;
}

static const char *name_environment(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    return e ? e->name : "no row";
}

static const char *name_protocol(const sr1_config *c)
{
    const struct sr1__protocol_choice *p = sr1__protocol_choice(c);

    return p ? p->name : "no row";
}

static void every_choice_has_its_row(void **state)
{
    (void)state;
    assert_int_equal(count_rows("environment", name_environment), 6);
    assert_int_equal(count_rows("protocol", name_protocol), 9);
}

static void memory_may_fail(void **state)
{
    char yaml[600], json[600];

    (void)state;
    snprintf(yaml, sizeof yaml, "%s",
             scratch_file("t.yaml", "name: x\nbeta: 0.2\nrewards: [a, b]\n", 0));
    snprintf(json, sizeof json, "%s",
             scratch_file("t.json", "{\"name\": \"x\", \"beta\": 2}", 0));
    assert_true(torture(load_and_save, yaml) > 50);
    assert_true(torture(load_and_save, json) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_numbers),
        cmocka_unit_test(required_defaults),
        cmocka_unit_test(every_key_holds_its_bounds),
        cmocka_unit_test(descriptions_grow),
        cmocka_unit_test(getters_check_types),
        cmocka_unit_test(precisions_have_their_names_in_torch),
        cmocka_unit_test(pairs),
        cmocka_unit_test(a_documents_name_is_the_same_key),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(files_and_their_errors),
        cmocka_unit_test(missing_and_huge_files),
        cmocka_unit_test(values_of_files),
        cmocka_unit_test(saved_form_reads_back),
        cmocka_unit_test(secrets_stay_in_the_environment),
        cmocka_unit_test(rules_between_keys),
        cmocka_unit_test(compat_moves_defaults_only),
        cmocka_unit_test(compat_in_files),
        cmocka_unit_test(what_is_unset_was_never_set),
        cmocka_unit_test(the_saved_form_keeps_what_was_not_set),
        cmocka_unit_test(lists_are_cut),
        cmocka_unit_test(every_choice_has_its_row),
        cmocka_unit_test(lists_have_items),
        cmocka_unit_test(memory_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
