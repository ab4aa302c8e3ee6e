/* fuzz_judge_reply.c - the score in a judge's reply, and a rubric of the user's. The
 * first byte chooses. */
#include "base/error.h"
#include "base/mem.h"
#include "fuzz.h"
#include "signal/reward/judge_text.h"

#include <math.h>
#include <string.h>

static void write_rubric(const char *text, size_t n)
{
    const char *truths[] = {"one", "{{answer}}"};
    const sr1_judge_item item = {sizeof(item), "{{question}}", "{{", truths, 2};
    char *prompt = sr1__strndup(text, n);
    struct sr1__buf b;

    sr1__buf_init(&b, 1 << 20);
    FUZZ_CHECK(sr1__judge_prompt_check(prompt) == SR1_OK || sr1_last_error()[0] != '\0');
    sr1__judge_prompt_write(&b, prompt, &item);
    FUZZ_CHECK(b.status == SR1_OK || b.status == SR1_E_LIMIT);
    sr1__buf_free(&b);
    sr1__free(prompt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    double score;

    if (size < 1)
        return 0;
    if (data[0] & 1) {
        write_rubric((const char *)data + 1, size - 1);
        return 0;
    }
    score = sr1__judge_reply_score((const char *)data + 1, size - 1, 10);
    FUZZ_CHECK(isnan(score) || isfinite(score));
    return 0;
}
