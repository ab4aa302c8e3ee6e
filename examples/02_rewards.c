/* 02_rewards.c - what a response is worth, and what a group of rewards teaches.
 *
 *     02_rewards
 *
 * A response is scored by its format and its answer; advantages compare the responses to
 * one question with each other. Nothing here needs a model. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/estimators.h>
#include <searchr1/ext/seed_rewards.h>

#include <stdio.h>
#include <string.h>

static const char *const responses[] = {
    ("<search>Eiffel Tower</search><information>It is in Paris.</information>"
     "<answer>Paris</answer>"),
    "<answer>paris, France</answer>", "<answer>Rome</answer>",
    "<search>Eiffel Tower", /* broken off */
};

#define N (sizeof(responses) / sizeof(responses[0]))

int main(void)
{
    const char *truths[] = {"Paris"};
    double rewards[N], advantages[N];
    sr1_status status = SR1_OK;

    for (size_t i = 0; i < N && status == SR1_OK; i++)
        status = sr1_reward_total(responses[i], strlen(responses[i]), truths, 1, NULL,
                                  &rewards[i]);
    if (status == SR1_OK)
        status = sr1_advantage_group(rewards, N, SR1_ADVANTAGE_EPS, advantages);
    if (status != SR1_OK)
        return fprintf(stderr, "%s\n", sr1_last_error()), 1;

    printf("reward  advantage  response\n");
    for (size_t i = 0; i < N; i++)
        printf("%6.2f  %9.3f  %.48s\n", rewards[i], advantages[i], responses[i]);
    return 0;
}
