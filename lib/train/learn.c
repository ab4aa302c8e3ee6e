/* train/learn.c - what is learned from the trajectories of a step. */
#include "train/lesson.h"

#include "base/clock.h"

sr1_status sr1__trainer_learn(sr1_trainer *tr, const struct sr1__source *from,
                              int64_t passes, sr1_step_report *report)
{
    double began = sr1__now();
    sr1_status st =
        sr1__update(tr, &tr->policy, &sr1__lesson_policy, from, passes, report);

    if (st == SR1_OK) /* room for the next rollout */
        st = sr1__device_release(tr->model->device);
    report->seconds_update = sr1__now() - began;
    return st;
}
