/* brevity.c - a reward as a shared object: short answers are worth more.
 *
 *     cc -shared -fPIC brevity.c -o brevity.so $(pkg-config --cflags --libs searchr1)
 *     sr1-train train.yaml reward_programs=./brevity.so rewards=answer,brevity \
 *         reward_weights=1,0.1
 *
 * The table has the name of the reward (docs/formats.md#programs-of-your-own). */
#include <searchr1/searchr1.h>

static sr1_status score_brevity(void *self, const sr1_trajectory *const *trajectories,
                                size_t n, double *out)
{
    size_t length;

    (void)self;
    for (size_t i = 0; i < n; i++) {
        (void)sr1_trajectory_final_answer(trajectories[i], &length);
        out[i] = 1 / (1 + (double)length / 6); /* a word has about six letters */
    }
    return SR1_OK;
}

const sr1_reward_ops brevity = {
    .struct_size = sizeof(sr1_reward_ops), .name = "brevity", .score = score_brevity};
