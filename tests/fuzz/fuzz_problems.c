/* Rows of code problems, of any shape, and what is asked about them. */
#include "fuzz.h"

#include <searchr1/ext/code.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sr1_problems *set = NULL;
    sr1_problem_case c = {sizeof(c)};
    char *prompt = NULL;

    if (sr1_problems_parse(&set, (const char *)data, size, "rows", NULL) != SR1_OK)
        return 0;
    for (size_t i = 0; i < sr1_problems_count(set); i++) {
        const sr1_problem *p = sr1_problems_at(set, i);

        FUZZ_CHECK(sr1_problems_find(set, sr1_problem_id(p)) == p);
        for (size_t k = 0; k < sr1_problem_test_count(p); k++)
            FUZZ_CHECK(sr1_problem_test(p, k, &c) == SR1_OK && c.input[c.input_len] == 0);
        if (sr1_problem_prompt(p, &prompt) == SR1_OK)
            sr1_free(prompt);
    }
    sr1_problems_free(set);
    return 0;
}
