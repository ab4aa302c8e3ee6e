/* Prompts that open a thought, as the chat template of Qwen3-*-Thinking-2507 does, and
 * chat templates that are not known. */
#include "support/tiny.h"

#include "environment/env/thinking_turn.h"
#include "signal/reward/format.h"
#include "policy/rollout_internal.h"

#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/seed_rewards.h>

static int make(void **state)
{
    static const struct tiny_rule thinker[] = {{"", " well"},
                                               {" well", "</think>"},
                                               {"</think>", "<answer>"},
                                               {"<answer>", " Paris"},
                                               {" Paris", "</answer>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("thinker", thinker, 5, 30);
    return 0;
}

static sr1_trajectory *answer(sr1_rollout *r)
{
    const char *truths[] = {"Paris"};
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *t = NULL;

    q.answers = truths;
    q.n_answers = 1;
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    return t;
}

static double score(const sr1_trajectory *t, const char *rewards, const char *protocol)
{
    sr1_reward_scales scales = {.struct_size = sizeof scales};
    sr1_reward_options o = {.struct_size = sizeof o,
                            .rewards = rewards,
                            .protocol = protocol,
                            .scales = &scales};
    sr1_reward_set *set = NULL;
    double total = 0;

    sr1_reward_scales_init(&scales);
    scales.closed_thoughts = 1;
    OK(sr1_reward_set_new(&set, &o));
    OK(sr1_reward_set_score(set, &t, 1, NULL, &total));
    sr1_reward_set_free(set);
    return total;
}

static void the_prompt_opens_the_first_thought(void **state)
{
    static const char *const templates[2] = {"chat_template=auto",
                                             "chat_template=qwen3-thinking"};

    (void)state;
    for (int opens = 0; opens < 2; opens++) {
        sr1_rollout *r =
            tiny_rollout(tiny_config("thinker", templates[opens], NULL), NULL);
        sr1_trajectory *t = answer(r);

        assert_string_equal(sr1_trajectory_generated_text(t, NULL),
                            " well</think><answer> Paris</answer>");
        assert_int_equal(sr1_trajectory_begins_in_thought(t), opens);
        assert_true(score(t, "format", NULL) == (opens ? 0.5 : -1.0));
        assert_true(score(t, "search_r1_format", "search-r1-compat") ==
                    (opens ? 1.0 : 0.8));
        assert_int_equal(sr1__thinking_tokens(t), opens);
        sr1_trajectory_free(t);
        sr1_rollout_free(r);
    }
}

static void levels_cannot_stand_behind_an_open_thought(void **state)
{
    sr1_config *c =
        tiny_config("thinker", "protocol=rlvcr", "chat_template=qwen3-thinking", NULL);
    sr1_rollout *r = NULL;

    (void)state;
    REFUSED(sr1_rollout_new(&r, c, NULL, NULL, NULL), SR1_E_UNSUPPORTED,
            "opens a thought before");
    assert_null(r);
    sr1_config_free(c);
}

/* A template of no family whose prompt opens a thought unless it is told not to think. */
static void a_template_that_is_run_opens_the_first_thought(void **state)
{
    static const char source[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% "
        "endfor %}<|im_start|>assistant: {{ '<think>\n' if enable_thinking is not "
        "defined }}";
    static const char *const thinking[] = {"enable_thinking=false",
                                           "enable_thinking=true"};

    (void)state;
    scratch_file("thinker/chat_template.jinja", source, 0);
    for (int opens = 0; opens < 2; opens++) {
        sr1_rollout *r =
            tiny_rollout(tiny_config("thinker", thinking[opens], NULL), NULL);
        sr1_trajectory *t;

        assert_string_equal(sr1_tokenizer_chat_family(sr1_rollout_tokenizer(r)),
                            "template");
        t = answer(r);
        assert_int_equal(sr1_trajectory_begins_in_thought(t), opens);
        sr1_trajectory_free(t);
        sr1_rollout_free(r);
    }
    remove(scratch_path("thinker/chat_template.jinja"));
}

static void broken_templates_are_refused_with_the_remedy(void **state)
{
    sr1_config *c = tiny_config("thinker", NULL);
    sr1_rollout *r = NULL;

    (void)state;
    scratch_file("thinker/chat_template.jinja", "{{ messages", 0);
    REFUSED(sr1_rollout_new(&r, c, NULL, NULL, NULL), SR1_E_UNSUPPORTED,
            "with the key chat_template: qwen3");
    assert_null(r);
    OK(sr1_config_set(c, "chat_template", "chatml"));
    OK(sr1_rollout_new(&r, c, NULL, NULL, NULL));
    assert_string_equal(sr1_tokenizer_chat_family(sr1_rollout_tokenizer(r)), "chatml");
    sr1_rollout_free(r);
    sr1_config_free(c);
    remove(scratch_path("thinker/chat_template.jinja"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prompt_opens_the_first_thought),
        cmocka_unit_test(levels_cannot_stand_behind_an_open_thought),
        cmocka_unit_test(a_template_that_is_run_opens_the_first_thought),
        cmocka_unit_test(broken_templates_are_refused_with_the_remedy),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
