/* synth.h - sr1-data synth: demonstrations that a model makes. */
#ifndef SR1_TOOLS_SYNTH_H
#define SR1_TOOLS_SYNTH_H

#include <stddef.h>
#include <stdint.h>

struct synth_options {
    int64_t seed, max_rows, samples, keep;
    double min_reward;
    int greedy;
};

/* Answer the questions with the policy (pairs[n] are key=value words) and write the good
 * answers to out. Returns the exit code. */
int synth_run(const struct synth_options *o, const char *policy, const char *questions,
              const char *out, const char *const *pairs, size_t n);

#endif
