/* environment/sandbox/fusion_json.h - SandboxFusion's requests and answers. */
#ifndef SR1__SANDBOX_FUSION_JSON_H
#define SR1__SANDBOX_FUSION_JSON_H

#include "environment/sandbox/sandbox_execution.h"

/* Check that the job can be sent: UTF-8, no arguments, JSON where JSON is required. */
sr1_status sr1__fusion_check(const struct sr1__sandbox_job *job);

/* The body of POST /run_code, or of POST /submit for a submission. */
sr1_status sr1__fusion_request(const struct sr1__sandbox_job *job, struct sr1__buf *out);

/* The service's answer. */
struct sr1__fusion_answer {
    struct sr1__outcome outcome;
    struct sr1__outcome *tests; /* a submission's */
    size_t n_tests;
};

/* Read an answer's body into *out, which is initialised here; free it with
 * sr1__fusion_answer_free. SR1_E_PARSE if it is not an answer; a failure of the service
 * becomes SR1_RUN_INFRASTRUCTURE. error_bytes: budget of the standard errors. */
sr1_status sr1__fusion_read(const struct sr1__sandbox_job *job, size_t error_bytes,
                            const char *body, size_t n, struct sr1__fusion_answer *out);
void sr1__fusion_answer_free(struct sr1__fusion_answer *a);

#endif
