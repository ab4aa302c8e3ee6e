/* fuzz_math_scores.c - worked solutions of any bytes: the score is one of the two that
 * there are, and a boxed answer equals itself. */
#include "fuzz.h"

#include "signal/reward/math_scores.h"
#include "text/data/boxed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__str solution = {(const char *)data, size / 2}, box;
    struct sr1__str truth = {(const char *)data + size / 2, size - size / 2};
    double out = 9;

    FUZZ_CHECK(sr1__match_gsm8k(solution, truth, NULL, &out) == SR1_OK);
    FUZZ_CHECK(out == 0 || out == 1);
    FUZZ_CHECK(sr1__match_math_reward(solution, truth, NULL, &out) == SR1_OK);
    FUZZ_CHECK(out == 0 || out == 1);
    FUZZ_CHECK(sr1__match_math_dapo(solution, truth, NULL, &out) == SR1_OK);
    FUZZ_CHECK(out == -1 || out == 1);
    if (size > 1 && sr1__boxed(solution, &box)) {
        FUZZ_CHECK(box.s >= solution.s && box.n <= solution.n &&
                   box.s + box.n <= solution.s + solution.n);
        FUZZ_CHECK(sr1__match_math_reward(solution, box, NULL, &out) == SR1_OK);
        FUZZ_CHECK(out == 1);
    }
    return 0;
}
