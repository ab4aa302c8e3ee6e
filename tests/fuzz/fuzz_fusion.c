/* fuzz_fusion.c - what a SandboxFusion service answers.
 *
 * The first byte chooses /run_code (with or without an expected output) or /submit; the
 * rest is the body. */
#include "fuzz.h"
#include "environment/sandbox/fusion_json.h"

#include <math.h>
#include <string.h>

static void check_outcome(const struct sr1__outcome *o, int64_t output_bytes)
{
    FUZZ_CHECK(o->verdict >= SR1_RUN_PASSED && o->verdict <= SR1_RUN_INFRASTRUCTURE);
    FUZZ_CHECK((o->verdict == SR1_RUN_PASSED) == (o->accepted == 1));
    FUZZ_CHECK((o->verdict == SR1_RUN_PASSED) == (o->message[0] == '\0'));
    FUZZ_CHECK((int64_t)o->out.len <= output_bytes && o->err.len <= 512);
    FUZZ_CHECK(isfinite(o->wall_s) && o->wall_s >= 0);
    FUZZ_CHECK(o->signal == 0 || o->exit_code == -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dataset[] = "x";
    char expected[] = "42";
    struct sr1__sandbox_job job = {.limits = {.time_s = 1,
                                              .cpu_s = 1,
                                              .memory_mib = 64,
                                              .processes = 1,
                                              .output_bytes = 64}};
    struct sr1__fusion_answer answer;
    sr1_status status;

    if (size < 1)
        return 0;
    job.dataset = data[0] % 3 == 0 ? dataset : NULL;
    if (data[0] % 3 == 1)
        job.expected = (struct sr1__job_bytes){expected, 2};
    status = sr1__fusion_read(&job, 512, (const char *)data + 1, size - 1, &answer);
    FUZZ_CHECK(status == SR1_OK || status == SR1_E_PARSE);
    if (status != SR1_OK)
        return 0;
    check_outcome(&answer.outcome, 64);
    for (size_t i = 0; i < answer.n_tests; i++)
        check_outcome(&answer.tests[i], 64);
    sr1__fusion_answer_free(&answer);
    return 0;
}
