/* test_trajectory.c - what the builder makes, what it refuses, and what may be set later.
 */
#include "random_trajectory.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#define OK(call) assert_int_equal((call), SR1_OK)
#define REFUSED(call, code)                                                              \
    do {                                                                                 \
        assert_int_equal((call), (code));                                                \
        assert_true(sr1_last_error()[0] != '\0');                                        \
    } while (0)

static struct sr1__trajectory_builder *begin(void)
{
    const int32_t prompt[] = {100, 101, 102};
    struct sr1__trajectory_builder *b;

    OK(sr1__trajectory_builder_new(&b, "who?", 4, "train-7", 2));
    OK(sr1__trajectory_builder_prompt(b, prompt, 3));
    return b;
}

static sr1_trajectory *end(struct sr1__trajectory_builder *b)
{
    sr1_trajectory *t;

    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    return t;
}

/* Prompt of 3; "a", half a character, its rest; a block of 2 tokens; "z" and a lost half.
 */
static sr1_trajectory *two_turns(void)
{
    struct sr1__trajectory_builder *b = begin();
    const int32_t block[] = {50, 51};

    OK(sr1__trajectory_builder_policy(b, 1, -0.5f, 0, "a", 1));
    OK(sr1__trajectory_builder_policy(b, 2, -1.5f, 0, "", 0));
    OK(sr1__trajectory_builder_policy(b, 3, -2.5f, 0, "\xc3\xa9", 2));
    OK(sr1__trajectory_builder_environment(b, block, 2, 0, "[hit]", 5, 1, 3));
    OK(sr1__trajectory_builder_policy(b, 4, -3.5f, 1, "z", 1));
    OK(sr1__trajectory_builder_policy(b, 5, -4.5f, 1, "", 0));
    OK(sr1__trajectory_flush_text(b, "\xef\xbf\xbd", 3));
    return end(b);
}

static void buffers_describe_the_sequence(void **state)
{
    static const int32_t ids[] = {100, 101, 102, 1, 2, 3, 50, 51, 4, 5};
    static const uint8_t sources[] = {0, 0, 0, 1, 1, 1, 2, 2, 1, 1};
    static const uint8_t mask[] = {0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
    static const int32_t turns[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
    static const float log_probs[] = {0, 0, 0, -0.5f, -1.5f, -2.5f, 0, 0, -3.5f, -4.5f};
    static const int32_t positions[] = {3, 4, 5, 8, 9};
    static const float policy[] = {-0.5f, -1.5f, -2.5f, -3.5f, -4.5f};
    static const uint32_t ends[] = {1, 1, 3, 3, 8, 9, 12};
    sr1_trajectory *t = two_turns();
    size_t len;

    (void)state;
    assert_int_equal(sr1_trajectory_token_count(t), 10);
    assert_int_equal(sr1_trajectory_prompt_count(t), 3);
    assert_int_equal(sr1_trajectory_policy_count(t), 5);
    assert_int_equal(sr1_trajectory_environment_count(t), 2);
    assert_int_equal(sr1_trajectory_turn_count(t), 2);
    assert_memory_equal(sr1_trajectory_ids(t), ids, sizeof ids);
    assert_memory_equal(sr1_trajectory_sources(t), sources, sizeof sources);
    assert_memory_equal(sr1_trajectory_policy_mask(t), mask, sizeof mask);
    assert_memory_equal(sr1_trajectory_turns(t), turns, sizeof turns);
    assert_memory_equal(sr1_trajectory_log_probs(t), log_probs, sizeof log_probs);
    assert_memory_equal(sr1_trajectory_policy_positions(t), positions, sizeof positions);
    assert_memory_equal(sr1_trajectory_policy_log_probs(t), policy, sizeof policy);
    assert_memory_equal(sr1_trajectory_text_ends(t), ends, sizeof ends);
    assert_string_equal(sr1_trajectory_generated_text(t, &len),
                        "a\xc3\xa9[hit]z\xef\xbf\xbd");
    assert_int_equal(len, 12);
    sr1_trajectory_free(t);
}

static void steps_are_the_policy_tokens(void **state)
{
    static const struct {
        int32_t id, position, turn;
        double log_prob;
        const char *text;
    } want[] = {{1, 3, 0, -0.5, "a"},
                {2, 4, 0, -1.5, ""},
                {3, 5, 0, -2.5, "\xc3\xa9"},
                {4, 8, 1, -3.5, "z"},
                {5, 9, 1, -4.5, "\xef\xbf\xbd"}};
    sr1_trajectory *t = two_turns();
    sr1_token_step step = {.struct_size = sizeof step};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        OK(sr1_trajectory_step(t, i, &step));
        assert_int_equal(step.token_id, want[i].id);
        assert_int_equal(step.position, want[i].position);
        assert_int_equal(step.turn, want[i].turn);
        assert_int_equal(step.source, SR1_SOURCE_POLICY);
        assert_true(step.log_prob == want[i].log_prob);
        assert_int_equal(step.text_len, strlen(want[i].text));
        assert_memory_equal(step.text, want[i].text, step.text_len);
    }
    REFUSED(sr1_trajectory_step(t, 5, &step), SR1_E_INVALID);
    OK(sr1_trajectory_token(t, 1, &step));
    assert_int_equal(step.source, SR1_SOURCE_PROMPT);
    assert_int_equal(step.text_len, 0);
    OK(sr1_trajectory_token(t, 7, &step)); /* the block's last token carries its text */
    assert_int_equal(step.text_len, 5);
    assert_memory_equal(step.text, "[hit]", 5);
    sr1_trajectory_free(t);
}

static void segments_cover_text_and_tokens(void **state)
{
    struct sr1__rng r;

    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        sr1_trajectory *t;
        sr1_text_segment s = {.struct_size = sizeof s};
        size_t token, text = 0, len;

        sr1__rng_seed(&r, seed, 1);
        OK(random_trajectory(&r, 12, &t));
        token = sr1_trajectory_prompt_count(t);
        for (size_t i = 0; i < sr1_trajectory_segment_count(t); i++) {
            OK(sr1_trajectory_segment(t, i, &s));
            assert_int_equal(s.token_begin, token);
            assert_int_equal(s.text_begin, text);
            assert_true(s.token_count > 0);
            assert_true(s.body_begin >= s.text_begin);
            assert_true(s.body_begin + s.body_len <= s.text_begin + s.text_len);
            for (size_t k = token; k < token + s.token_count; k++) {
                assert_int_equal(sr1_trajectory_sources(t)[k], s.source);
                assert_int_equal(sr1_trajectory_turns(t)[k], s.turn);
            }
            token += s.token_count;
            text += s.text_len;
        }
        sr1_trajectory_generated_text(t, &len);
        assert_int_equal(token, sr1_trajectory_token_count(t));
        assert_int_equal(text, len);
        sr1_trajectory_free(t);
    }
}

static void a_block_knows_its_body(void **state)
{
    sr1_trajectory *t = two_turns();
    sr1_text_segment s = {.struct_size = sizeof s};

    (void)state;
    assert_int_equal(sr1_trajectory_segment_count(t), 3);
    OK(sr1_trajectory_segment(t, 1, &s));
    assert_int_equal(s.source, SR1_SOURCE_ENVIRONMENT);
    assert_int_equal(s.text_len, 5);
    assert_memory_equal(sr1_trajectory_generated_text(t, NULL) + s.body_begin, "hit", 3);
    assert_int_equal(s.body_len, 3);
    sr1_trajectory_free(t);
}

static void a_caller_with_an_older_struct_gets_its_part(void **state)
{
    sr1_trajectory *t = two_turns();
    sr1_token_step step;

    (void)state;
    memset(&step, 0x55, sizeof step);
    step.struct_size = offsetof(sr1_token_step, source);
    OK(sr1_trajectory_step(t, 3, &step));
    assert_int_equal(step.turn, 1);
    assert_int_equal(step.source, 0x55555555);
    assert_int_equal(step.struct_size, offsetof(sr1_token_step, source));
    step.struct_size = 0;
    REFUSED(sr1_trajectory_step(t, 3, &step), SR1_E_INVALID);
    REFUSED(sr1_trajectory_step(t, 3, NULL), SR1_E_INVALID);
    sr1_trajectory_free(t);
}

static void an_empty_one_is_possible(void **state)
{
    struct sr1__trajectory_builder *b;
    sr1_trajectory *t;
    size_t len;

    (void)state;
    OK(sr1__trajectory_builder_new(&b, NULL, 0, NULL, 0));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EMPTY_QUERY, NULL, 0, &t));
    assert_int_equal(sr1_trajectory_token_count(t), 0);
    assert_int_equal(sr1_trajectory_turn_count(t), 0);
    assert_null(sr1_trajectory_ids(t));
    assert_null(sr1_trajectory_policy_log_probs(t));
    assert_string_equal(sr1_trajectory_query(t, &len), "");
    assert_string_equal(sr1_trajectory_query_id(t), "");
    assert_string_equal(sr1_trajectory_generated_text(t, &len), "");
    assert_string_equal(sr1_trajectory_final_answer(t, NULL), "");
    assert_int_equal(sr1_trajectory_weights_version(t), -1);
    sr1_trajectory_free(t);
}

static void context_and_searches_are_copied(void **state)
{
    char gold[] = "x\0y", source[] = "nq", hit[] = "doc-4", query[] = "who is";
    const char *golds[] = {gold}, *hits[] = {hit};
    const size_t lens[] = {3};
    struct sr1__trajectory_context c = {0.7, 0.9, 20, 41, source, golds, lens, 1};
    sr1_action_event e = {.struct_size = sizeof e};
    struct sr1__trajectory_builder *b = begin();
    sr1_trajectory *t;
    size_t len;

    (void)state;
    OK(sr1__trajectory_builder_context(b, &c));
    OK(sr1__trajectory_builder_action(b, 0, query, 6, SR1_OK, 1, hits));
    OK(sr1__trajectory_builder_action(b, 1, "", 0, 2, 0, NULL));
    memset(gold, 'g', 3);
    memset(source, 's', 2);
    memset(hit, 'h', 5);
    memset(query, 'q', 6);
    t = end(b);
    assert_true(sr1_trajectory_temperature(t) == 0.7 && sr1_trajectory_top_p(t) == 0.9);
    assert_int_equal(sr1_trajectory_top_k(t), 20);
    assert_int_equal(sr1_trajectory_weights_version(t), 41);
    assert_string_equal(sr1_trajectory_data_source(t), "nq");
    assert_int_equal(sr1_trajectory_ground_truth_count(t), 1);
    assert_memory_equal(sr1_trajectory_ground_truth(t, 0, &len), "x\0y", 4);
    assert_int_equal(len, 3);
    assert_null(sr1_trajectory_ground_truth(t, 1, NULL));
    assert_int_equal(sr1_trajectory_search_count(t), 2);
    OK(sr1_trajectory_search(t, 0, &e));
    assert_string_equal(e.query, "who is");
    assert_int_equal(e.n_hits, 1);
    assert_int_equal(e.n_hit_ids, 1);
    assert_string_equal(e.hit_ids[0], "doc-4");
    OK(sr1_trajectory_search(t, 1, &e));
    assert_int_equal(e.status, 2);
    assert_int_equal(e.turn, 1);
    REFUSED(sr1_trajectory_search(t, 2, &e), SR1_E_INVALID);
    sr1_trajectory_free(t);
}

static void many_hits_are_counted_and_cut(void **state)
{
    const char *hits[40];
    sr1_action_event e = {.struct_size = sizeof e};
    struct sr1__trajectory_builder *b = begin();
    sr1_trajectory *t;

    (void)state;
    for (size_t i = 0; i < 40; i++)
        hits[i] = "d";
    REFUSED(sr1__trajectory_builder_action_reward(b, 1, 0),
            SR1_E_INVALID); /* for what? */
    OK(sr1__trajectory_builder_action(b, 0, "q", 1, SR1_OK, 40, hits));
    OK(sr1__trajectory_builder_action_reward(b, 0.5, 1));
    REFUSED(sr1__trajectory_builder_action_reward(b, NAN, 0), SR1_E_NUMERIC);
    REFUSED(sr1__trajectory_builder_action_reward(b, 0, 2), SR1_E_INVALID);
    t = end(b);
    OK(sr1_trajectory_search(t, 0, &e));
    assert_true(e.reward == 0.5 && e.success == 1);
    assert_int_equal(e.n_hits, 40);
    assert_int_equal(e.n_hit_ids, SR1_TRAJECTORY_MAX_HIT_IDS);
    sr1_trajectory_free(t);
}

/* Each refused call leaves the builder as it was: the end is the same as without them. */
static void what_cannot_be_is_refused(void **state)
{
    const int32_t ids[] = {1, -1};
    const struct sr1__trajectory_context bad[] = {
        {.temperature = -1, .top_p = 1},
        {.temperature = NAN, .top_p = 1},
        {.temperature = 1, .top_p = 0},
        {.temperature = 1, .top_p = 1.5},
        {.temperature = 1, .top_p = NAN},
        {.temperature = 1, .top_p = 1, .top_k = -1},
        {.temperature = 1, .top_p = 1, .weights_version = -2},
    };
    struct sr1__trajectory_builder *b, *c = begin();
    sr1_trajectory *t, *plain;

    (void)state;
    REFUSED(sr1__trajectory_builder_new(&b, "q", 1, "id", -1), SR1_E_INVALID);
    OK(sr1__trajectory_builder_new(&b, "who?", 4, "train-7", 2));
    REFUSED(sr1__trajectory_builder_policy(b, 1, 0, 0, "", 0), SR1_E_STATE);
    REFUSED(sr1__trajectory_builder_environment(b, ids, 1, 0, "a", 1, 0, 1), SR1_E_STATE);
    REFUSED(sr1__trajectory_flush_text(b, "x", 1), SR1_E_STATE);
    REFUSED(sr1__trajectory_builder_prompt(b, ids, 2), SR1_E_INVALID);
    OK(sr1__trajectory_builder_prompt(b, (const int32_t[]){100, 101, 102}, 3));
    REFUSED(sr1__trajectory_builder_prompt(b, ids, 1), SR1_E_STATE);
    REFUSED(sr1__trajectory_flush_text(b, "x", 1), SR1_E_STATE);
    OK(sr1__trajectory_builder_policy(b, 7, -1, 3, "t", 1));
    REFUSED(sr1__trajectory_builder_policy(b, -1, 0, 3, "", 0), SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_policy(b, 1, NAN, 3, "", 0), SR1_E_NUMERIC);
    REFUSED(sr1__trajectory_builder_policy(b, 1, -INFINITY, 3, "", 0), SR1_E_NUMERIC);
    REFUSED(sr1__trajectory_builder_policy(b, 1, 0, 2, "", 0), SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_policy(b, 1, 0, 1 << 20, "", 0), SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_policy(b, 1, 0, 3, "", (size_t)1 << 29), SR1_E_LIMIT);
    REFUSED(sr1__trajectory_builder_environment(b, ids, 0, 3, "a", 1, 0, 1),
            SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_environment(b, ids, 1, 3, "a", 1, 1, 1),
            SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_environment(b, ids, 1, 3, "a", 1, 2, 0),
            SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_environment(b, ids, 2, 3, "a", 1, 0, 1),
            SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_environment(b, ids, (size_t)1 << 24, 3, "a", 1, 0, 1),
            SR1_E_LIMIT);
    OK(sr1__trajectory_builder_environment(b, NULL, 0, 3, NULL, 0, 0, 0));
    REFUSED(sr1__trajectory_builder_action(b, 0, "q", 1, -1, 0, NULL), SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_action(b, 0, "q", 1, 0, -1, NULL), SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_action(b, -1, "q", 1, 0, 0, NULL), SR1_E_INVALID);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(sr1__trajectory_builder_context(b, &bad[i]), SR1_E_INVALID);
    t = end(b);
    OK(sr1__trajectory_builder_policy(c, 7, -1, 3, "t", 1));
    plain = end(c);
    assert_true(sr1_trajectory_equal(t, plain));
    sr1_trajectory_free(t);
    sr1_trajectory_free(plain);
}

static void an_unknown_stop_reason_frees_the_builder(void **state)
{
    sr1_trajectory *t = NULL;

    (void)state;
    REFUSED(sr1__trajectory_builder_finish(begin(), 99, NULL, 0, &t), SR1_E_INVALID);
    REFUSED(sr1__trajectory_builder_finish(begin(), -1, NULL, 0, &t), SR1_E_INVALID);
    assert_null(t);
    assert_string_equal(sr1_stop_reason_name(SR1_STOP_CONTEXT_LIMIT), "context_limit");
    assert_string_equal(sr1_stop_reason_name(99), "?");
}

static void the_builder_can_be_looked_into(void **state)
{
    struct sr1__trajectory_builder *b = begin();
    size_t n;

    (void)state;
    OK(sr1__trajectory_builder_policy(b, 7, -1, 0, "to", 2));
    assert_int_equal(sr1__trajectory_builder_ids(b, &n)[3], 7);
    assert_int_equal(n, 4);
    sr1__trajectory_builder_free(b);
}

static void group_key_is_of_query_and_prompt(void **state)
{
    static const struct {
        const char *id;
        int32_t last;
    } others[] = {{"train-7", 103}, {"train-8", 102}, {NULL, 102}, {"", 102}};
    struct sr1__trajectory_builder *b;
    sr1_trajectory *t[6];

    (void)state;
    b = begin();
    t[0] = end(b);
    b = begin();
    OK(sr1__trajectory_builder_policy(b, 7, -1, 0, "to", 2));
    t[1] = end(b);
    for (size_t i = 0; i < 4; i++) {
        const int32_t prompt[] = {100, 101, others[i].last};

        OK(sr1__trajectory_builder_new(&b, "who?", 4, others[i].id, 2));
        OK(sr1__trajectory_builder_prompt(b, prompt, 3));
        t[2 + i] = end(b);
    }
    for (size_t i = 1; i < 6; i++) /* of the first: one sample; of an id-less: one more */
        for (size_t k = 0; k < i; k++)
            assert_int_equal(sr1_trajectory_group_key(t[i]) ==
                                 sr1_trajectory_group_key(t[k]),
                             (i == 1 && k == 0) || (i == 5 && k == 4));
    for (size_t i = 0; i < 6; i++)
        sr1_trajectory_free(t[i]);
}

static void reward_and_advantage_are_set_later(void **state)
{
    const struct sr1__reward_value parts[] = {{"format", 0.5, 1.0}, {"answer", 1.0, 2.0}};
    const struct sr1__reward_value bad[] = {{"format", 0.5, 1.0}, {"answer", NAN, 1.0}};
    const float advantages[] = {1, 2, 3, 4, 5}, not_finite[] = {1, 2, INFINITY, 4, 5};
    sr1_trajectory *t = two_turns();
    const char *name;
    double value, weight;

    (void)state;
    assert_false(sr1_trajectory_has_reward(t) || sr1_trajectory_has_advantage(t));
    REFUSED(sr1__trajectory_set_reward(t, bad, 2, 1.0), SR1_E_NUMERIC);
    REFUSED(sr1_trajectory_set_reward(t, NAN), SR1_E_NUMERIC);
    REFUSED(sr1_trajectory_set_advantage(t, INFINITY), SR1_E_NUMERIC);
    assert_false(sr1_trajectory_has_reward(t) || sr1_trajectory_has_advantage(t));
    OK(sr1__trajectory_set_reward(t, parts, 2, 2.5));
    assert_true(sr1_trajectory_reward(t) == 2.5);
    OK(sr1_trajectory_reward_component(t, 1, &name, &value, &weight));
    assert_string_equal(name, "answer");
    assert_true(value == 1.0 && weight == 2.0);
    REFUSED(sr1_trajectory_reward_component(t, 2, &name, NULL, NULL), SR1_E_INVALID);
    OK(sr1_trajectory_set_reward(t, -1.0));
    assert_int_equal(sr1_trajectory_reward_component_count(t), 0);
    OK(sr1_trajectory_set_advantage(t, 0.75));
    assert_true(sr1_trajectory_advantage(t) == 0.75);
    OK(sr1_trajectory_set_column(t, SR1_COLUMN_ADVANTAGE, advantages, 5));
    REFUSED(sr1_trajectory_set_column(t, SR1_COLUMN_ADVANTAGE, not_finite, 5),
            SR1_E_NUMERIC);
    REFUSED(sr1_trajectory_set_column(t, SR1_COLUMN_ADVANTAGE, advantages, 4),
            SR1_E_INVALID);
    REFUSED(sr1_trajectory_set_column(t, SR1_COLUMN_ADVANTAGE, NULL, 5), SR1_E_INVALID);
    assert_memory_equal(sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE), advantages,
                        sizeof advantages);
    OK(sr1_trajectory_set_column(t, SR1_COLUMN_ADVANTAGE, NULL, 0));
    assert_null(sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE));
    OK(sr1_trajectory_set_column(t, SR1_COLUMN_VALUE, advantages, 5));
    assert_memory_equal(sr1_trajectory_column(t, SR1_COLUMN_VALUE), advantages,
                        sizeof advantages);
    assert_null(sr1_trajectory_column(t, SR1_COLUMN_RETURN));
    assert_null(sr1_trajectory_column(t, SR1_COLUMN_COUNT));
    REFUSED(sr1_trajectory_set_column(t, SR1_COLUMN_COUNT, advantages, 5), SR1_E_INVALID);
    REFUSED(sr1_trajectory_set_column(t, -1, advantages, 5), SR1_E_INVALID);
    assert_string_equal(sr1_column_name(SR1_COLUMN_THINKING_COST),
                        "thinking_token_costs");
    sr1_trajectory_free(t);
}

static void references_are_counted(void **state)
{
    int64_t live = sr1__mem_live();
    sr1_trajectory *t = two_turns();

    (void)state;
    assert_ptr_equal(sr1_trajectory_retain(t), t);
    sr1_trajectory_free(t);
    assert_int_equal(sr1_trajectory_ids(t)[0], 100);
    sr1_trajectory_free(t);
    sr1_trajectory_free(NULL);
    assert_null(sr1_trajectory_retain(NULL));
    assert_int_equal(sr1__mem_live(), live);
}

/* Two that differ in one value are not equal, whatever the value. */
static void equal_sees_each_difference(void **state)
{
    struct sr1__rng a, b;
    sr1_trajectory *t, *same, *other;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        sr1__rng_seed(&a, seed, 3);
        b = a;
        OK(random_trajectory(&a, 6, &t));
        OK(random_trajectory(&b, 6, &same));
        sr1__rng_seed(&b, seed, 4);
        OK(random_trajectory(&b, 6, &other));
        assert_true(sr1_trajectory_equal(t, same));
        assert_false(sr1_trajectory_equal(t, other));
        OK(sr1_trajectory_set_reward(t, 0.0));
        OK(sr1_trajectory_set_reward(same, -0.0));
        assert_false(sr1_trajectory_equal(t, same));
        sr1_trajectory_free(t);
        sr1_trajectory_free(same);
        sr1_trajectory_free(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_describe_the_sequence),
        cmocka_unit_test(steps_are_the_policy_tokens),
        cmocka_unit_test(segments_cover_text_and_tokens),
        cmocka_unit_test(a_block_knows_its_body),
        cmocka_unit_test(a_caller_with_an_older_struct_gets_its_part),
        cmocka_unit_test(an_empty_one_is_possible),
        cmocka_unit_test(context_and_searches_are_copied),
        cmocka_unit_test(many_hits_are_counted_and_cut),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(an_unknown_stop_reason_frees_the_builder),
        cmocka_unit_test(the_builder_can_be_looked_into),
        cmocka_unit_test(group_key_is_of_query_and_prompt),
        cmocka_unit_test(reward_and_advantage_are_set_later),
        cmocka_unit_test(references_are_counted),
        cmocka_unit_test(equal_sees_each_difference),
    };

    return cmocka_run_group_tests_name("trajectory", tests, NULL, NULL);
}
