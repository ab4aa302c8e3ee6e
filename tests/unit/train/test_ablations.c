/* Ablations of Search-R1: an update with the key is that of a trajectory put together by
 * hand whose tokens are the policy's, or context, as the key says. */
#include "runs.h"
#include "step_metric.h"

#include "environment/trajectory/builder.h"

/* Who a word is from, and under each key. */
struct word {
    const char *text;
    char plain, no_think, all; /* 'p': the policy's, 'e': context */
};

static const struct word words[] = {
    {"<think>", 'p', 'e', 'p'},
    {" well", 'p', 'e', 'p'},
    {"</think>", 'p', 'e', 'p'},
    {"<search>", 'p', 'p', 'p'},
    {" tower", 'p', 'p', 'p'},
    {"</search>", 'p', 'p', 'p'},
    {"<information>", 'e', 'e', 'p'},
    {"<think>", 'e', 'e', 'p'},
    {"</information>", 'e', 'e', 'p'},
    {"<think>", 'p', 'e', 'p'},
    {" so", 'p', 'e', 'p'},
    {"</think>", 'p', 'e', 'p'},
    {"<answer>", 'p', 'p', 'p'},
    {" Paris", 'p', 'p', 'p'},
    {"</answer>", 'p', 'p', 'p'},
    {"<think>", 'p', 'e', 'p'},
    {" Rome", 'p', 'e', 'p'}, /* never closed */
};
#define WORDS (sizeof words / sizeof *words)

enum { PLAIN, NO_THINK, ALL };

/* 1: the first word stands at the end of the prompt instead. */
static size_t opened;

static char source_of(size_t i, int kind)
{
    return kind == PLAIN ? words[i].plain
           : kind == ALL ? words[i].all
                         : words[i].no_think;
}

/* log_probs[WORDS]: at sampling. Columns come from `by_word`, may be NULL. */
static sr1_trajectory *by_hand(int kind, const float *log_probs, const float *by_word)
{
    const int32_t prompt[] = {300, 301, 302};
    const struct sr1__trajectory_context context = {.temperature = 1,
                                                    .top_p = 1,
                                                    .weights_version = -1,
                                                    .begins_in_thought = (int)opened};
    struct sr1__trajectory_builder *b = NULL;
    sr1_tokenizer *tok = NULL;
    sr1_trajectory *t = NULL;
    float column[WORDS];
    size_t n = 0;

    OK(sr1_tokenizer_open(&tok, scratch_path("model")));
    OK(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0));
    OK(sr1__trajectory_builder_context(b, &context));
    OK(sr1__trajectory_builder_prompt(b, prompt, 3));
    for (size_t i = opened; i < WORDS; i++) {
        int32_t id = tiny_id(tok, words[i].text), turn = i >= 9;
        size_t len = strlen(words[i].text);

        if (source_of(i, kind) == 'p')
            OK(sr1__trajectory_builder_policy(b, id, log_probs[i], turn, words[i].text,
                                              len));
        else
            OK(sr1__trajectory_builder_environment(b, &id, 1, turn, words[i].text, len, 0,
                                                   len));
        if (source_of(i, kind) == 'p' && by_word)
            column[n++] = by_word[i];
    }
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    OK(sr1_trajectory_set_reward(t, 1));
    OK(sr1_trajectory_set_advantage(t, 1.5));
    if (by_word)
        OK(sr1_trajectory_set_column(t, SR1_COLUMN_ADVANTAGE, column, n));
    sr1_tokenizer_free(tok);
    return t;
}

/* Log-probs of all words under the untrained weights. */
static void score(float *out)
{
    float zeros[WORDS] = {0};
    sr1_trainer *tr = tiny_trainer(tiny_config("model", NULL));
    sr1_trajectory *t = by_hand(ALL, zeros, NULL);
    const sr1_trajectory *one = t;

    OK(sr1_rollout_log_probs(sr1_trainer_rollout(tr), &one, 1, out + opened,
                             WORDS - opened));
    sr1_trajectory_free(t);
    sr1_trainer_free(tr);
}

static float *updated(sr1_config *c, sr1_trajectory *t, sr1_step_report *r, size_t *n)
{
    sr1_trainer *tr = tiny_trainer(c);
    float *w;

    OK(sr1_trainer_update(tr, &t, 1, r));
    keep_metrics(r);
    w = tiny_weights(tr->model, n);
    sr1_trainer_free(tr);
    return w;
}

/* The update of the plain trajectory with this key is that of the one made by hand. */
static void same_update(const char *key, int kind, const char *more, int by_token,
                        double within)
{
    float log_probs[WORDS] = {0}, advantages[WORDS];
    sr1_step_report a = {.struct_size = sizeof a}, b = a, c = a;
    sr1_trajectory *plain, *hand;
    float *keyed, *made, *without;
    double worst = 0, apart = 0;
    size_t n;

    score(log_probs);
    for (size_t i = 0; i < WORDS; i++) /* inserted words inherit */
        advantages[i] =
            words[i].plain == 'p' ? 0.5f + 0.25f * (float)i : advantages[i - 1];
    plain = by_hand(PLAIN, log_probs, by_token ? advantages : NULL);
    hand = by_hand(kind, log_probs, by_token ? advantages : NULL);
    keyed = updated(tiny_config("model", key, more, NULL), plain, &a, &n);
    made = updated(tiny_config("model", more, NULL), hand, &b, &n);
    without = updated(tiny_config("model", more, NULL), plain, &c, &n);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)keyed[i] - made[i]));
        apart = fmax(apart, fabs((double)keyed[i] - without[i]));
    }
    assert_true(worst <= within && apart > 1e-4);
    tiny_near(a.loss, b.loss, 1e-5);
    tiny_near(a.grad_norm, b.grad_norm, 1e-4 * b.grad_norm);
    assert_true(step_metric(&a, "sampling/sampling_logp_difference/max") < 1e-4);
    free(keyed);
    free(made);
    free(without);
    sr1_trajectory_free(plain);
    sr1_trajectory_free(hand);
}

static void thoughts_are_not_learned_when_asked(void **state)
{
    (void)state;
    for (opened = 0; opened < 2; opened++) {
        same_update("no_think_rl=true", NO_THINK, "beta=0.1", 0, 0);
        same_update("no_think_rl=true", NO_THINK, "kl_reference=frozen", 1, 0);
    }
    opened = 0;
}

static void inserted_text_is_learned_when_asked(void **state)
{
    (void)state;
    same_update("mask_environment=false", ALL, "beta=0.1", 0, 1e-5);
    same_update("mask_environment=false", ALL, "kl_reference=frozen", 1, 1e-5);
}

static void ablated_runs_are_resumed(void **state)
{
    static const char *const keys[] = {"mask_environment=false", "no_think_rl=true"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char whole[32], stopped[32];
        sr1_trainer *tr;

        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(stopped, sizeof stopped, "stopped-%zu", i);
        run_whole(RUN(whole, keys[i]));
        tr = open_trainer(RUN(stopped, keys[i]));
        run_until(tr, 4);
        sr1_trainer_free(tr);
        tr = NULL;
        OK(sr1_trainer_resume(&tr, scratch_path(stopped), NULL));
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        same_run(whole, stopped);
    }
}

static void a_critic_does_not_learn_inserted_text(void **state)
{
    sr1_config *c = tiny_config("model", "mask_environment=false", "advantage=gae", NULL);
    sr1_trainer *tr = NULL;

    (void)state;
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "mask_environment: false");
    sr1_config_free(c);
    tr = tiny_trainer(tiny_config("model", "no_think_rl=true", "advantage=gae", NULL));
    sr1_trainer_free(tr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thoughts_are_not_learned_when_asked),
        cmocka_unit_test(inserted_text_is_learned_when_asked),
        cmocka_unit_test(ablated_runs_are_resumed),
        cmocka_unit_test(a_critic_does_not_learn_inserted_text),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
