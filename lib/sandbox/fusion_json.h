/* sandbox/fusion_json.h - SandboxFusion's requests and answers. */
#ifndef SR1__SANDBOX_FUSION_JSON_H
#define SR1__SANDBOX_FUSION_JSON_H

#include "sandbox/run.h"

/* Can it be sent: UTF-8, no arguments, JSON where JSON is asked for? */
sr1_status sr1__fusion_check(const struct sr1__job *job);

/* The body of POST /run_code, or of POST /submit for a submission. */
sr1_status sr1__fusion_request(const struct sr1__job *job, struct sr1__buf *out);

/* What a service made of it. */
struct sr1__fusion_answer {
    struct sr1__outcome outcome;
    struct sr1__outcome *tests; /* a submission's */
    size_t n_tests;
};

/* Read an answer's body into *out, which is initialised here; free it with
 * sr1__fusion_answer_free. SR1_E_PARSE when it is none; what the service failed at is
 * SR1_RUN_INFRASTRUCTURE. error_bytes: budget of the standard errors. */
sr1_status sr1__fusion_read(const struct sr1__job *job, size_t error_bytes,
                            const char *body, size_t n, struct sr1__fusion_answer *out);
void sr1__fusion_answer_free(struct sr1__fusion_answer *a);

#endif
