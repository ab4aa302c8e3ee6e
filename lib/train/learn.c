/* train/learn.c - what is learned from the trajectories of a step: first by the critic,
 * then by the policy. */
#include "train/lesson.h"

#include "base/clock.h"

static sr1_status teach_critic(sr1_trainer *tr, const struct sr1__source *from,
                               sr1_step_report *report)
{
    double began = sr1__now();

    if (!tr->critics)
        return SR1_OK;
    SR1__TRY(sr1__update(tr, &tr->critic, &sr1__lesson_critic, from,
                         tr->set.critic_update_times, report));
    report->seconds_critic = sr1__now() - began;
    return SR1_OK;
}

sr1_status sr1__trainer_learn(sr1_trainer *tr, const struct sr1__source *from,
                              int64_t passes, sr1_step_report *report)
{
    double began;
    int64_t now;

    SR1__TRY(teach_critic(tr, from, report));
    began = sr1__now();
    if (!tr->critics || tr->step >= tr->set.critic_warmup)
        SR1__TRY(
            sr1__update(tr, &tr->policy, &sr1__lesson_policy, from, passes, report));
    report->seconds_update = sr1__now() - began;
    SR1__TRY(sr1__device_memory(tr->model->device, &now, &report->device_bytes));
    return sr1__device_release(tr->model->device); /* room for the next rollout */
}
