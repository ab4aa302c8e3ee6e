/* environment/sandbox/job.h - a job: the caller's program or submission, checked and
 * copied, with its limits filled in. */
#ifndef SR1__SANDBOX_JOB_H
#define SR1__SANDBOX_JOB_H

#include <searchr1/ext/sandbox.h>

#include "base/error.h"

#define SR1__JOB_FILES_MAX 256

struct sr1__job_bytes {
    char *data; /* NUL-terminated */
    size_t n;
};

struct sr1__job_file {
    char *path;
    struct sr1__job_bytes bytes;
};

struct sr1__job_limits {
    double time_s;
    double cpu_s;
    int32_t memory_mib;
    int32_t memory_asked; /* the program set it */
    int32_t processes;
    int64_t output_bytes;
};

struct sr1__sandbox_job {
    char *language;
    struct sr1__job_bytes code; /* a submission: the completion */
    struct sr1__job_bytes input;
    int socket; /* standard input in place of that; -1: none. Closed with the job */
    struct sr1__job_bytes expected; /* data NULL: not compared */
    char **args;
    size_t n_args;
    struct sr1__job_file *files;
    size_t n_files;
    struct sr1__job_limits limits;
    /* A submission; else NULL. */
    char *dataset;
    char *dataset_type;
    char *id;
    char *provided_data;
    char *extra;
    double all_tests_s;
};

/* options: the sandbox's, whose limits hold where the program has none. */
sr1_status sr1__job_of_program(struct sr1__sandbox_job **out, const sr1_program *program,
                               const sr1_sandbox_options *options);
sr1_status sr1__job_of_submission(struct sr1__sandbox_job **out,
                                  const sr1_submission *submission,
                                  const sr1_sandbox_options *options);
void sr1__sandbox_job_free(struct sr1__sandbox_job *job);

#endif
