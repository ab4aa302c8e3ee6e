/* test_trajectory_forms.c - the binary and the JSON form give back what was written, and
 * refuse everything else. */
#include "base/file.h"
#include "base/json.h"
#include "random_trajectory.h"
#include "environment/trajectory/codec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

struct form {
    const char *name;
    sr1_status (*write)(const sr1_trajectory *t, void **bytes, size_t *n);
    sr1_status (*read)(sr1_trajectory **out, const void *bytes, size_t n);
};

static sr1_status write_json(const sr1_trajectory *t, void **bytes, size_t *n)
{
    char *text = NULL;
    sr1_status status = sr1_trajectory_to_json(t, &text, n);

    if (status == SR1_OK)
        *bytes = text;
    return status;
}

static sr1_status read_json(sr1_trajectory **out, const void *bytes, size_t n)
{
    return sr1_trajectory_from_json(out, bytes, n);
}

static const struct form forms[] = {
    {"binary", sr1_trajectory_encode, sr1_trajectory_decode},
    {"json", write_json, read_json},
};
#define N_FORMS (sizeof forms / sizeof *forms)

static void check_round_trip(const struct form *f, const sr1_trajectory *t)
{
    sr1_trajectory *back = NULL;
    void *bytes = NULL, *again = NULL;
    size_t n, m;

    assert_int_equal(f->write(t, &bytes, &n), SR1_OK);
    if (f->read(&back, bytes, n) != SR1_OK)
        fail_msg("%s: %s", f->name, sr1_last_error());
    assert_true(sr1_trajectory_equal(t, back));
    assert_int_equal(f->write(back, &again, &m), SR1_OK);
    assert_int_equal(n, m);
    assert_memory_equal(bytes, again, n);
    sr1_free(bytes);
    sr1_free(again);
    sr1_trajectory_free(back);
}

static void random_ones_read_back_equal(void **state)
{
    struct sr1__rng r;
    sr1_trajectory *t = NULL;
    size_t policy = 0, blocks = 0, searches = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        sr1__rng_seed(&r, seed, 0);
        assert_int_equal(random_trajectory(&r, 12, &t), SR1_OK);
        for (size_t f = 0; f < N_FORMS; f++)
            check_round_trip(&forms[f], t);
        policy += sr1_trajectory_policy_count(t);
        blocks += sr1_trajectory_environment_count(t);
        searches += sr1_trajectory_search_count(t);
        sr1_trajectory_free(t);
    }
    assert_true(policy > 5000 && blocks > 5000 && searches > 500);
}

static void a_huge_one_reads_back_equal(void **state)
{
    struct sr1__trajectory_builder *b;
    sr1_trajectory *t;
    int32_t prompt[2] = {1, 2};

    (void)state;
    assert_int_equal(sr1__trajectory_builder_new(&b, "q", 1, "id", 0), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_prompt(b, prompt, 2), SR1_OK);
    for (int32_t i = 0; i < 30000; i++)
        assert_int_equal(sr1__trajectory_builder_policy(b, i, -1.0f / (float)(i + 3),
                                                        i / 1000, "word ", 5),
                         SR1_OK);
    assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_TOKEN_LIMIT, NULL, 0, &t),
                     SR1_OK);
    for (size_t f = 0; f < N_FORMS; f++)
        check_round_trip(&forms[f], t);
    sr1_trajectory_free(t);
}

/* One with all parts filled, small enough to try every byte of. */
static sr1_trajectory *full_with(const char *row)
{
    const char *truths[] = {"Paris", "the city of Paris"}, *hits[] = {"doc1", "doc22"};
    struct sr1__trajectory_context c = {0.7, 0.9, 40, 17, "nq", truths, NULL, 2};
    struct sr1__reward_value parts[] = {{"format", 0.5, 1.0}, {"answer", 2.0, 1.0}};
    const char *roles[] = {"user", "assistant"}, *said[] = {"Hi", "\xff no"};
    const int32_t prompt[] = {9, 8, 7}, block[] = {21, 22};
    const float advantages[] = {0.25f, -0.5f};
    struct sr1__trajectory_builder *b;
    struct sr1__row_text *text;
    sr1_trajectory *t;

    assert_int_equal(sr1__trajectory_builder_new(&b, "capital?", 8, "train-3", 1),
                     SR1_OK);
    assert_int_equal(sr1__trajectory_builder_context(b, &c), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_history(b, roles, said, NULL, 2), SR1_OK);
    assert_int_equal(sr1__row_text_new(&text, row, strlen(row)), SR1_OK);
    sr1__trajectory_builder_row(b, text);
    sr1__row_text_free(text);
    assert_int_equal(sr1__trajectory_builder_prompt(b, prompt, 3), SR1_OK);
    assert_int_equal(
        sr1__trajectory_builder_policy(b, 11, -0.1f, 0, "<search>x</search>", 18),
        SR1_OK);
    assert_int_equal(sr1__trajectory_builder_action(b, 0, "x", 1, SR1_OK, 2, hits),
                     SR1_OK);
    assert_int_equal(sr1__trajectory_builder_action_reward(b, -0.125, 1), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_environment(
                         b, block, 2, 0, "<information>p</information>", 28, 13, 1),
                     SR1_OK);
    assert_int_equal(sr1__trajectory_builder_policy(b, 12, -2.5f, 1, "a\xff\0", 3),
                     SR1_OK);
    assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, "Paris", 5, &t),
                     SR1_OK);
    assert_int_equal(sr1__trajectory_set_reward(t, parts, 2, 2.5), SR1_OK);
    assert_int_equal(sr1_trajectory_set_advantage(t, -1.25), SR1_OK);
    assert_int_equal(sr1_trajectory_set_column(t, SR1_COLUMN_ADVANTAGE, advantages, 2),
                     SR1_OK);
    return t;
}

#define FULL_ROW "{\"hop\": 2, \"hex\": {\"hex\": \"ff\"}}"

static sr1_trajectory *full_one(void)
{
    return full_with(FULL_ROW);
}

static int is_refusal(sr1_status s)
{
    return s == SR1_E_CORRUPT || s == SR1_E_PARSE || s == SR1_E_UNSUPPORTED;
}

/* Each bit of the binary form matters; none is read as something else. */
static void every_changed_bit_is_seen(void **state)
{
    sr1_trajectory *t = full_one(), *back = NULL;
    void *bytes;
    size_t n;

    (void)state;
    assert_int_equal(sr1_trajectory_encode(t, &bytes, &n), SR1_OK);
    for (size_t i = 0; i < 8 * n; i++) {
        ((unsigned char *)bytes)[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_true(is_refusal(sr1_trajectory_decode(&back, bytes, n)));
        assert_null(back);
        ((unsigned char *)bytes)[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    assert_int_equal(sr1_trajectory_decode(&back, bytes, n), SR1_OK);
    sr1_trajectory_free(back);
    sr1_free(bytes);
    sr1_trajectory_free(t);
}

static void every_cut_and_extension_is_seen(void **state)
{
    sr1_trajectory *t = full_one(), *back = NULL;
    char *bytes, *longer;
    size_t n;

    (void)state;
    for (size_t f = 0; f < N_FORMS; f++) {
        assert_int_equal(forms[f].write(t, (void **)&bytes, &n), SR1_OK);
        for (size_t len = 0; len < n; len++) {
            char *cut = sr1__memdup(bytes, len);

            assert_true(is_refusal(forms[f].read(&back, cut, len)));
            assert_null(back);
            sr1__free(cut);
        }
        longer = sr1__malloc(n + 1);
        memcpy(longer, bytes, n);
        longer[n] = 'x';
        assert_true(is_refusal(forms[f].read(&back, longer, n + 1)));
        sr1__free(longer);
        sr1_free(bytes);
    }
    sr1_trajectory_free(t);
}

/* Below the checksum, where a record was made up: whatever is accepted must be sound. */
static void a_changed_payload_is_refused_or_sound(void **state)
{
    static const unsigned char changes[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
    sr1_trajectory *t = full_one();
    char *bytes;
    size_t n, accepted = 0;

    (void)state;
    assert_int_equal(sr1_trajectory_encode(t, (void **)&bytes, &n), SR1_OK);
    for (size_t i = SR1__CODEC_HEADER; i < n; i++) {
        for (size_t k = 0; k < sizeof changes; k++) {
            sr1_trajectory *back = NULL;

            bytes[i] = (char)(bytes[i] ^ changes[k]);
            if (sr1__trajectory_decode_payload(&back, bytes + SR1__CODEC_HEADER,
                                               n - SR1__CODEC_HEADER,
                                               SR1__CODEC_VERSION) == SR1_OK) {
                accepted++;
                check_round_trip(&forms[0], back);
            } else {
                assert_null(back);
            }
            sr1_trajectory_free(back);
            bytes[i] = (char)(bytes[i] ^ changes[k]);
        }
    }
    assert_true(accepted > 0); /* another answer is as good a trajectory */
    sr1_free(bytes);
    sr1_trajectory_free(t);
}

/* Version 3 is the same without what stands behind the credit. */
static void a_record_without_history_is_read(void **state)
{
    sr1_trajectory *t = full_one(), *back = NULL, *again = NULL;
    struct sr1__buf b;
    char *bytes;
    size_t n, history = 4 + (4 + 5) + (4 + 2) + (4 + 10) + (4 + 4),
              tail = history + 4 + strlen(FULL_ROW) + 4 + 8;

    (void)state;
    assert_int_equal(sr1_trajectory_encode(t, (void **)&bytes, &n), SR1_OK);
    n -= SR1__CODEC_HEADER + tail;
    sr1__buf_init(&b, 0);
    sr1__buf_add(&b, SR1__CODEC_MAGIC, 4);
    sr1__buf_u32(&b, 3);
    sr1__buf_u64(&b, n);
    sr1__buf_u64(&b, sr1__hash64(bytes + SR1__CODEC_HEADER, n, 3));
    sr1__buf_add(&b, bytes + SR1__CODEC_HEADER, n);
    assert_int_equal(sr1_trajectory_decode(&back, b.data, b.len), SR1_OK);
    assert_int_equal(sr1_trajectory_history_count(back), 0);
    assert_null(sr1_trajectory_history(back, 0, NULL, NULL));
    assert_false(sr1_trajectory_equal(t, back));
    assert_string_equal(sr1_trajectory_final_answer(back, NULL), "Paris");
    b.data[4] = 2;
    assert_int_equal(sr1_trajectory_decode(&again, b.data, b.len), SR1_E_UNSUPPORTED);
    sr1__buf_free(&b);
    sr1_free(bytes);
    sr1_trajectory_free(back);
    sr1_trajectory_free(t);
}

/* The file holds what the library wrote before there were rows. */
static void a_record_of_version_5_is_read(void **state)
{
    sr1_trajectory *t = full_with(""), *back = NULL;
    char path[1024];
    struct sr1__buf b;
    size_t n;

    (void)state;
    sr1__buf_init(&b, 0);
    snprintf(path, sizeof path, "%s/tests/golden/trajectory-5.bin", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, 4096, &b), SR1_OK);
    assert_int_equal(sr1_trajectory_decode(&back, b.data, b.len), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    assert_string_equal(sr1_trajectory_row_json(back, &n), "");
    assert_int_equal(n, 0);
    sr1__buf_free(&b);
    sr1_trajectory_free(back);
    sr1_trajectory_free(t);
}

static void a_record_of_version_6_is_read(void **state)
{
    sr1_trajectory *t = full_one(), *back = NULL;
    char path[1024];
    struct sr1__buf b;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/trajectory-6.bin", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, 4096, &b), SR1_OK);
    assert_int_equal(sr1_trajectory_decode(&back, b.data, b.len), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    assert_int_equal(sr1_trajectory_token_weights_version(back, 0), 17);
    sr1__buf_free(&b);
    sr1_trajectory_free(back);
    sr1_trajectory_free(t);
}

/* ---- weights that changed meanwhile ---- */

static sr1_trajectory *mixed_one(void)
{
    static const struct sr1__version_run runs[] = {{0, 18}, {1, 21}};
    sr1_trajectory *t = full_one();

    assert_int_equal(sr1__trajectory_set_versions(t, runs, 2), SR1_OK);
    return t;
}

/* Written before there were copies. */
static void a_record_of_version_7_is_read(void **state)
{
    sr1_trajectory *t = mixed_one(), *back = NULL;
    char path[1024];
    struct sr1__buf b;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/trajectory-7.bin", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, 4096, &b), SR1_OK);
    assert_int_equal(sr1_trajectory_decode(&back, b.data, b.len), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    assert_int_equal(sr1_trajectory_copy(back), 0);
    sr1__buf_free(&b);
    sr1_trajectory_free(back);
    sr1_trajectory_free(t);
}

/* An empty trajectory of a copy of a question. */
static sr1_trajectory *copied_one(int64_t copy)
{
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;

    assert_int_equal(sr1__trajectory_builder_new(&b, "Where?", 6, "q1", 2), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_EMPTY_QUERY, NULL, 0, &t),
                     SR1_OK);
    assert_int_equal(sr1__trajectory_set_copy(t, -1), SR1_E_INVALID);
    assert_int_equal(sr1__trajectory_set_copy(t, copy), SR1_OK);
    return t;
}

static void copies_are_given_back(void **state)
{
    sr1_trajectory *t = copied_one(3), *first = copied_one(0), *back = NULL;
    char *text = NULL;
    void *bytes = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(sr1_trajectory_copy(t), 3);
    assert_int_equal(sr1_trajectory_copy(NULL), 0);
    assert_true(sr1_trajectory_group_key(t) != sr1_trajectory_group_key(first));
    assert_false(sr1_trajectory_equal(t, first));
    assert_int_equal(sr1_trajectory_encode(t, &bytes, &n), SR1_OK);
    assert_int_equal(sr1_trajectory_decode(&back, bytes, n), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    sr1_trajectory_free(back);
    back = NULL;
    assert_int_equal(sr1_trajectory_to_json(t, &text, &n), SR1_OK);
    assert_non_null(strstr(text, "\"sample\":2,\"copy\":3,\"group_key\""));
    assert_int_equal(sr1_trajectory_from_json(&back, text, n), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    sr1_free(text);
    text = NULL;
    assert_int_equal(sr1_trajectory_to_json(first, &text, &n), SR1_OK);
    assert_null(strstr(text, "copy"));
    sr1_free(text);
    sr1_free(bytes);
    sr1_trajectory_free(back);
    sr1_trajectory_free(first);
    sr1_trajectory_free(t);
}

static void versions_of_tokens_are_given_back(void **state)
{
    sr1_trajectory *t = mixed_one(), *plain = full_one(), *back = NULL;
    struct sr1__buf line;
    char *text;
    void *bytes;
    size_t n;

    (void)state;
    assert_true(sr1_trajectory_policy_count(t) > 1);
    assert_int_equal(sr1_trajectory_weights_version(t), 18);
    assert_int_equal(sr1_trajectory_token_weights_version(t, 0), 18);
    assert_int_equal(sr1_trajectory_token_weights_version(t, 1), 21);
    assert_int_equal(
        sr1_trajectory_token_weights_version(t, sr1_trajectory_policy_count(t)), -1);
    assert_int_equal(sr1_trajectory_token_weights_version(NULL, 0), -1);
    assert_int_equal(sr1_trajectory_token_weights_version(plain, 1), 17);
    assert_false(sr1_trajectory_equal(t, plain));
    assert_int_equal(sr1_trajectory_encode(t, &bytes, &n), SR1_OK);
    assert_int_equal(sr1_trajectory_decode(&back, bytes, n), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    sr1_free(bytes);
    sr1_trajectory_free(back);
    back = NULL;
    assert_int_equal(sr1_trajectory_to_json(t, &text, &n), SR1_OK);
    assert_non_null(strstr(text, "\"weights_versions\":[[0,18],[1,21]]"));
    assert_int_equal(sr1_trajectory_from_json(&back, text, n), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    sr1_free(text);
    sr1_trajectory_free(back);
    back = NULL;
    sr1__buf_init(&line, 0);
    assert_int_equal(sr1__trajectory_to_line(t, 3, &line), SR1_OK);
    assert_int_equal(sr1_trajectory_from_json(&back, line.data, line.len), SR1_OK);
    assert_int_equal(sr1_trajectory_token_weights_version(back, 1), 21);
    sr1__buf_free(&line);
    sr1_trajectory_free(back);
    sr1_trajectory_free(plain);
    sr1_trajectory_free(t);
}

static void versions_that_cannot_be_are_refused(void **state)
{
    static const struct sr1__version_run rows[][2] = {
        {{1, 18}, {2, 21}}, {{0, 18}, {0, 21}},   {{0, 18}, {1, 18}},
        {{0, 18}, {1, -1}}, {{0, 18}, {900, 21}},
    };
    sr1_trajectory *t = full_one(), *back = NULL;
    static const char *const texts[] = {"[[0]]", "3", "[[0, 18], [0, 21]]", "[[-1, 3]]",
                                        "[[0, 1.5]]"};
    char *text, *changed;
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(sr1__trajectory_set_versions(t, rows[i], 2), SR1_E_INVALID);
    assert_int_equal(sr1_trajectory_weights_version(t), 17);
    assert_int_equal(sr1_trajectory_to_json(t, &text, &n), SR1_OK);
    changed = malloc(n + 128);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(changed, n + 128, "{\"weights_versions\": %s, %s", texts[i], text + 1);
        assert_true(
            is_refusal(sr1_trajectory_from_json(&back, changed, strlen(changed))));
    }
    free(changed);
    sr1_free(text);
    sr1_trajectory_free(t);
}

/* Byte for byte, and another row is another trajectory. */
static void a_row_is_given_back(void **state)
{
    sr1_trajectory *t = full_one(), *other = full_with("{\"hop\": 3}");
    size_t n;

    (void)state;
    assert_string_equal(sr1_trajectory_row_json(t, &n), FULL_ROW);
    assert_int_equal(n, strlen(FULL_ROW));
    assert_string_equal(sr1_trajectory_row_json(t, NULL), FULL_ROW);
    assert_string_equal(sr1_trajectory_row_json(NULL, NULL), "");
    assert_false(sr1_trajectory_equal(t, other));
    assert_true(sr1__trajectory_memory(t) > sr1__trajectory_memory(other));
    sr1_trajectory_free(other);
    sr1_trajectory_free(t);
}

static void a_row_is_a_bounded_object(void **state)
{
    static const char large[] = "{\"n\": 1180591620717411303424}"; /* 2^70 */
    const size_t most = SR1_TRAJECTORY_MAX_ROW;
    struct sr1__row_text *row = NULL;
    char *text = sr1__malloc(most + 1);

    (void)state;
    memset(text, ' ', most + 1);
    text[0] = '{';
    text[most - 1] = '}';
    assert_int_equal(sr1__row_text_new(&row, text, most), SR1_OK);
    sr1__row_text_free(row);
    assert_int_equal(sr1__row_text_new(&row, text, most + 1), SR1_E_LIMIT);
    assert_null(row);
    assert_int_equal(sr1__row_text_new(&row, large, strlen(large)), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "field 'n' has 1180591620717411303424, a"));
    assert_int_equal(sr1__row_text_new(&row, "[1]", 3), SR1_E_PARSE);
    assert_int_equal(sr1__row_text_new(&row, "{\0}", 3), SR1_E_PARSE);
    assert_int_equal(sr1__row_text_new(&row, "{\"a\":\"\xff\"}", 9), SR1_E_PARSE);
    assert_int_equal(sr1__row_text_new(&row, "", 0), SR1_OK);
    assert_null(row);
    sr1__free(text);
}

static void history_is_given_back(void **state)
{
    sr1_trajectory *t = full_one();
    const char *role;
    size_t len;

    (void)state;
    assert_int_equal(sr1_trajectory_history_count(t), 2);
    assert_string_equal(sr1_trajectory_history(t, 0, &role, NULL), "Hi");
    assert_string_equal(role, "user");
    assert_memory_equal(sr1_trajectory_history(t, 1, &role, &len), "\xff no", 4);
    assert_string_equal(role, "assistant");
    assert_int_equal(len, 4);
    assert_null(sr1_trajectory_history(t, 2, NULL, NULL));
    sr1_trajectory_free(t);
}

static void a_later_version_is_named(void **state)
{
    sr1_trajectory *t = full_one(), *back = NULL;
    char *bytes;
    size_t n;

    (void)state;
    assert_int_equal(sr1_trajectory_encode(t, (void **)&bytes, &n), SR1_OK);
    bytes[4] = (char)(SR1__CODEC_VERSION + 1);
    assert_int_equal(sr1_trajectory_decode(&back, bytes, n), SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "version 9"));
    sr1_free(bytes);
    sr1_trajectory_free(t);
}

static void json_has_the_names_of_the_schema(void **state)
{
    static const char *const names[] = {
        "query",        "token_steps",    "generated_text", "reward",
        "final_answer", "full_input_ids", "advantage",      "generated_positions"};
    sr1_trajectory *t = full_one();
    const json_t *step;
    json_t *o;
    char *text;
    size_t n;

    (void)state;
    assert_int_equal(sr1_trajectory_to_json(t, &text, &n), SR1_OK);
    assert_null(memchr(text, '\n', n));
    assert_int_equal(sr1__json_parse(&o, text, n, "test"), SR1_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(json_object_get(o, names[i]));
    step = json_array_get(json_object_get(o, "token_steps"), 1);
    assert_int_equal(json_integer_value(json_object_get(step, "token_id")), 12);
    assert_int_equal(json_integer_value(json_object_get(step, "position")), 6);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(step, "token_text"), "hex")),
        "61ff00");
    assert_true(json_real_value(json_object_get(step, "log_prob")) == -2.5);
    assert_true(json_real_value(json_object_get(o, "reward")) == 2.5);
    json_decref(o);
    sr1_free(text);
    sr1_trajectory_free(t);
}

/* Change one member of the good text (value NULL: remove it); the status must be as
 * given. */
static void check_changed(const char *key, const char *value, sr1_status expected)
{
    sr1_trajectory *t = full_one(), *back = NULL;
    json_t *o;
    char *text;
    size_t n;
    struct sr1__buf b;
    sr1_status status;

    assert_int_equal(sr1_trajectory_to_json(t, &text, &n), SR1_OK);
    assert_int_equal(sr1__json_parse(&o, text, n, "test"), SR1_OK);
    if (value)
        assert_int_equal(
            json_object_set_new(
                o, key, json_loads(value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)),
            0);
    else
        json_object_del(o, key);
    sr1__buf_init(&b, 0);
    assert_int_equal(sr1__json_dump(o, 0, &b), SR1_OK);
    status = sr1_trajectory_from_json(&back, b.data, b.len);
    if (status != expected)
        fail_msg("%s = %s: %s (%s)", key, value ? value : "nothing",
                 sr1_status_name(status), sr1_last_error());
    sr1_trajectory_free(back);
    sr1__buf_free(&b);
    json_decref(o);
    sr1_free(text);
    sr1_trajectory_free(t);
}

/* ---- lines of a run ---- */

static json_t *line_object(const sr1_trajectory *t)
{
    struct sr1__buf b;
    json_t *o = NULL;

    sr1__buf_init(&b, 0);
    assert_int_equal(sr1__trajectory_to_line(t, 12, &b), SR1_OK);
    assert_null(memchr(b.data, '\n', b.len));
    assert_int_equal(sr1__json_parse(&o, b.data, b.len, "test"), SR1_OK);
    sr1__buf_free(&b);
    return o;
}

/* Nothing is lost: no bit of a number, no byte of a text that is not UTF-8. */
static void lines_of_a_run_read_back(void **state)
{
    static const float odd[] = {-0.0f, 1e-45f, -3.4028234e38f, 0.1f, -5.8822875f, 0.0f};
    sr1_trajectory *t = full_one(), *back = NULL;
    size_t m = sr1_trajectory_policy_count(t);
    float values[64];
    struct sr1__buf b;
    json_t *o;

    (void)state;
    for (size_t i = 0; i < m; i++)
        values[i] = odd[i % 6];
    assert_int_equal(sr1_trajectory_set_column(t, SR1_COLUMN_VALUE, values, m), SR1_OK);
    sr1__buf_init(&b, 0);
    assert_int_equal(sr1__trajectory_to_line(t, 12, &b), SR1_OK);
    assert_int_equal(sr1_trajectory_from_json(&back, b.data, b.len), SR1_OK);
    assert_true(sr1_trajectory_equal(t, back));
    assert_memory_equal(sr1_trajectory_column(back, SR1_COLUMN_VALUE), values,
                        m * sizeof *values);
    o = line_object(t);
    assert_int_equal(json_integer_value(json_object_get(o, "step")), 12);
    json_decref(o);
    sr1__buf_free(&b);
    sr1_trajectory_free(back);
    sr1_trajectory_free(t);
}

static void short_steps_are_checked(void **state)
{
    static const struct {
        const char *steps;
        sr1_status expected;
    } cases[] = {
        {"{}", SR1_E_PARSE},
        {"{\"token_text\": [\"a\"]}", SR1_E_PARSE},
        {"{\"token_text\": [], \"log_prob\": []}", SR1_E_CORRUPT},
        {"{\"token_text\": [\"a\"], \"log_prob\": []}", SR1_E_CORRUPT},
        {"{\"token_text\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\"], "
         "\"log_prob\": [0, 0, 0, 0, 0, 0, 0, 0]}",
         SR1_E_CORRUPT},
        {"{\"token_text\": [1, 2, 3], \"log_prob\": [0, 0, 0]}", SR1_E_PARSE},
        {"{\"token_text\": [\"\", \"\", \"\"], \"log_prob\": [\"x\", 0, 0]}",
         SR1_E_PARSE},
        {"{\"token_text\": [\"\", \"\", \"\"], \"log_prob\": [1e300, 0, 0]}",
         SR1_E_PARSE},
        {"7", SR1_E_PARSE},
    };
    sr1_trajectory *t = full_one();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *o = line_object(t);
        sr1_trajectory *back = NULL;
        struct sr1__buf b;
        sr1_status status;

        json_object_set_new(o, "token_steps",
                            json_loads(cases[i].steps, JSON_DECODE_ANY, NULL));
        sr1__buf_init(&b, 0);
        assert_int_equal(sr1__json_dump(o, 0, &b), SR1_OK);
        status = sr1_trajectory_from_json(&back, b.data, b.len);
        if (status != cases[i].expected)
            fail_msg("%s: %s (%s)", cases[i].steps, sr1_status_name(status),
                     sr1_last_error());
        sr1__buf_free(&b);
        json_decref(o);
    }
    sr1_trajectory_free(t);
}

static void json_members_are_checked(void **state)
{
    static const struct {
        const char *key, *value;
        sr1_status expected;
    } cases[] = {
        {"comment", "\"not ours\"", SR1_OK},
        {"reward", "2", SR1_OK},
        {"query", NULL, SR1_E_PARSE},
        {"query", "17", SR1_E_PARSE},
        {"query", "{\"hex\": \"6\"}", SR1_E_PARSE},
        {"query", "{\"hex\": \"6G\"}", SR1_E_PARSE},
        {"query", "{\"hex\": \"ff00\"}", SR1_OK},
        {"query_id", "\"a\\u0000b\"", SR1_E_PARSE},
        {"sample", "-1", SR1_E_CORRUPT},
        {"sample", "5000000000", SR1_E_PARSE},
        {"temperature", "-0.5", SR1_E_CORRUPT},
        {"top_p", "0", SR1_E_CORRUPT},
        {"stop_reason", "\"boredom\"", SR1_E_CORRUPT},
        {"generated_text", "\"other\"", SR1_E_CORRUPT},
        {"generated_positions", "[3]", SR1_E_CORRUPT},
        {"generated_positions", "[3, 5]", SR1_E_CORRUPT},
        {"full_input_ids", "[9, 8, 7, 11, 21, 22, 13]", SR1_E_CORRUPT},
        {"full_input_ids", "[9, 8, 7, 11, 21, 22, 12, 1]", SR1_E_CORRUPT},
        {"full_input_ids", "[9, 8, 7, 11, 21, -2, 12]", SR1_E_PARSE},
        {"full_input_ids", "[9, 8]", SR1_E_CORRUPT},
        {"prompt_tokens", "4", SR1_E_CORRUPT},
        {"prompt_tokens", "-4", SR1_E_PARSE},
        {"token_steps", "[]", SR1_E_PARSE},
        {"segments", "[]", SR1_E_CORRUPT},
        {"segments", "[7]", SR1_E_PARSE},
        {"searches",
         "[{\"turn\":0,\"query\":\"x\",\"status\":0,\"hits\":1,\"hit_ids\":"
         "[\"a\",\"b\"]}]",
         SR1_E_CORRUPT},
        {"searches",
         "[{\"turn\":0,\"query\":\"x\",\"status\":0,\"hits\":1,\"hit_ids\":"
         "[\"a\\u0000\"]}]",
         SR1_E_PARSE},
        {"searches", /* of before searches earned anything */
         "[{\"turn\":0,\"query\":\"x\",\"status\":0,\"hits\":1,\"hit_ids\":"
         "[\"a\"]}]",
         SR1_OK},
        {"reward_parts", "[{\"name\":\"a\"}]", SR1_E_PARSE},
        {"reward", "null", SR1_E_CORRUPT},
        {"token_advantages", "[0.5]", SR1_E_CORRUPT},
        {"token_advantages", "[]", SR1_E_CORRUPT},
        {"token_advantages", "[0.5, 1e300]", SR1_E_PARSE},
        {"token_advantages", "[0.5, \"a\"]", SR1_E_PARSE},
        {"ground_truths", "[1]", SR1_E_PARSE},
        {"row", "7", SR1_E_PARSE},
        {"row", "\"7\"", SR1_E_PARSE},
        {"row", NULL, SR1_OK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_changed(cases[i].key, cases[i].value, cases[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ones_read_back_equal),
        cmocka_unit_test(a_huge_one_reads_back_equal),
        cmocka_unit_test(every_changed_bit_is_seen),
        cmocka_unit_test(every_cut_and_extension_is_seen),
        cmocka_unit_test(a_changed_payload_is_refused_or_sound),
        cmocka_unit_test(a_record_without_history_is_read),
        cmocka_unit_test(a_record_of_version_5_is_read),
        cmocka_unit_test(a_record_of_version_6_is_read),
        cmocka_unit_test(a_record_of_version_7_is_read),
        cmocka_unit_test(copies_are_given_back),
        cmocka_unit_test(versions_of_tokens_are_given_back),
        cmocka_unit_test(versions_that_cannot_be_are_refused),
        cmocka_unit_test(a_row_is_given_back),
        cmocka_unit_test(a_row_is_a_bounded_object),
        cmocka_unit_test(history_is_given_back),
        cmocka_unit_test(a_later_version_is_named),
        cmocka_unit_test(json_has_the_names_of_the_schema),
        cmocka_unit_test(lines_of_a_run_read_back),
        cmocka_unit_test(short_steps_are_checked),
        cmocka_unit_test(json_members_are_checked),
    };

    return cmocka_run_group_tests_name("trajectory_forms", tests, NULL, NULL);
}
