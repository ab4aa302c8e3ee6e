/* searchr1/ext/sandbox.h - run untrusted programs in isolation, and report how they
 * ended.
 *
 * A sandbox is a sr1_sandbox handle. The local one runs Python under bubblewrap: no
 * network, a read-only system, a private /tmp, a process namespace of its own, limits on
 * time, memory, processes, files and output; when a run ends, everything it started has
 * ended. The fusion one sends programs to a SandboxFusion service over HTTP.
 *
 *     sr1_sandbox *box = NULL;
 *     sr1_execution *run = NULL;
 *     sr1_execution_result result = {sizeof(result)};
 *     sr1_program program;
 *
 *     sr1_program_init(&program);
 *     program.code = "print(int(input()) * 2)";
 *     program.input = "21\n";
 *     program.input_bytes = 3;
 *     program.expected = "42\n";
 *     if (sr1_sandbox_open(&box, NULL) == SR1_OK &&
 *         sr1_sandbox_run(box, &program, &run) == SR1_OK &&
 *         sr1_execution_result_get(run, &result) == SR1_OK)
 *         printf("%s %s", sr1_execution_verdict_name(result.verdict), result.out);
 *     sr1_execution_free(run);
 *     sr1_sandbox_free(box);
 *
 * Ownership: a sandbox is counted: sr1_sandbox_retain takes a reference,
 *            sr1_sandbox_free gives one back. An execution belongs to the caller that
 *            started it and may outlive the sandbox.
 * Errors:    a status other than SR1_OK leaves outputs as they were. A program that
 *            fails, or could not be run, is no error of the call: it is a verdict.
 * Threads:   every function may be called from any thread; sr1_execution_free is the last
 *            call on an execution. Executions run side by side up to the sandbox's
 *            concurrency; the others wait in the order in which they were started. The
 *            library sets no signal handler and waits for no child of the caller's.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_SANDBOX_H
#define SEARCHR1_EXT_SANDBOX_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_sandbox sr1_sandbox;
typedef struct sr1_execution sr1_execution;

/* How a run ended. Values are never reused. */
enum {
    SR1_RUN_PASSED = 0, /* exit code 0, and the expected output where one was given */
    SR1_RUN_WRONG = 1,  /* exit code 0, but other output; a submission: not accepted */
    SR1_RUN_RUNTIME_ERROR = 2,  /* another exit code, or ended by a signal */
    SR1_RUN_TIMEOUT = 3,        /* stopped at its limit of time */
    SR1_RUN_MEMORY = 4,         /* failed for want of memory */
    SR1_RUN_OUTPUT = 5,         /* stopped: it wrote more than its limit */
    SR1_RUN_INFRASTRUCTURE = 6, /* could not be run, retries among it: nothing is known
                                   about the program, so never score it */
    SR1_RUN_CANCELLED = 7 /* sr1_execution_cancel, or the sandbox was freed: as above */
};

/* Return the name of a verdict: "passed", "wrong", "runtime error", "timeout", "memory",
 * "output", "infrastructure error", "cancelled"; "?" for an unknown number. Static. */
SR1_API const char *sr1_execution_verdict_name(int32_t verdict);

/* ---- a sandbox ---- */

typedef struct sr1_sandbox_options {
    size_t struct_size;    /* set by sr1_sandbox_options_init */
    const char *kind;      /* "local", the default, or "fusion" */
    const char *isolation; /* local: "bubblewrap", the default; "none": limits only, and
                              the program can do all that this process can */
    int32_t concurrency;   /* runs under way at once, to 1024; 0, the default: local: one
                              a processor; fusion: 64. A local run that has lasted a
                              second gives its place up, while no more than so many are
                              that old: one that hangs delays no other */
    int32_t retries;       /* of a run that ends INFRASTRUCTURE; default 3 */
    /* Limits of a run where the program sets none. */
    double time_s;        /* from its start to its end; default 10 */
    double cpu_s;         /* local: processor seconds of each of its processes; 0, the
                             default: as time_s, rounded up */
    int32_t memory_mib;   /* local: address space of each process, and memory of all
                             together; fusion: sent where a program sets it; 1024 */
    int32_t processes;    /* local, isolated: processes and threads at a time; 32 */
    int32_t tmp_mib;      /* local, isolated: all it can write to /tmp; default 64 */
    int32_t file_mib;     /* local: of one file; default 64 */
    int64_t output_bytes; /* of stdout, and of stderr; default 1 MiB */
    int64_t error_bytes;  /* stderr is shown cut to so many, its beginning and its end,
                             with a mark of what is missing; at least 256; 8192 */
    /* local */
    const char *interpreter; /* NULL, the default: /usr/bin/python3, or the first python3
                                of /usr/local/bin and /bin. Isolated, it has to lie below
                                /usr or one of read_only */
    const char *const *read_only; /* [n_read_only] absolute folders that programs can read
                                     besides /usr: a virtual environment. Copied */
    size_t n_read_only;
    /* fusion */
    const char *url;          /* of the service: "http://localhost:8080" */
    const char *token_env;    /* environment variable with a key that is sent as
                                 "Authorization: Bearer"; NULL, the default: none */
    const char *ca_file;      /* PEM file of certificates to trust in place of the
                                 system's; NULL, the default: the system's */
    double connect_timeout_s; /* default 5 */
    double queue_s;       /* an attempt may last the limits it asks for and so much more,
                             for the service's own queue; default 300 */
    double retry_first_s; /* wait before the first retry, then doubled; default 0.5 */
    double retry_max_s;   /* default 20 */
    double rate_limit;    /* attempts a second, evenly spaced; default 0: no limit */
    int32_t breaker_failures; /* in a row, then the service is left alone; default 20; 0:
                                 no breaker */
    double breaker_rest_s;    /* for so long; default 10 */
    uint64_t seed;            /* of the jitter of waits; default 0 */
    int64_t
        queue_max; /* runs that may wait to begin; more are refused; default 1000000 */
} sr1_sandbox_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_sandbox_options_init(sr1_sandbox_options *options);

/* Open a sandbox. A local one first runs a small program, to know that all limits can be
 * enforced; nothing is sent to a service. options may be NULL; its texts are copied.
 * SR1_E_INVALID: an option is out of range. SR1_E_CONFIG: token_env is not set.
 * SR1_E_UNSUPPORTED: programs cannot be isolated on this machine, or there is no
 * interpreter; the text says what to install or allow. Caller frees with
 * sr1_sandbox_free. */
SR1_API sr1_status sr1_sandbox_open(sr1_sandbox **out,
                                    const sr1_sandbox_options *options);

/* Take one more reference. Returns box; NULL for NULL. */
SR1_API sr1_sandbox *sr1_sandbox_retain(sr1_sandbox *box);

/* Drop one reference. With the last one, executions that have not ended are cancelled,
 * and the call waits until their processes are gone. NULL is fine. */
SR1_API void sr1_sandbox_free(sr1_sandbox *box);

/* Return one line about what runs programs: "bubblewrap, Python 3.11.2
 * (/usr/bin/python3)", "no isolation, ...", "SandboxFusion at http://localhost:8080".
 * Borrowed until the sandbox is freed. */
SR1_API const char *sr1_sandbox_describe(const sr1_sandbox *box);

/* Counts since the sandbox was opened. */
typedef struct sr1_sandbox_counters {
    size_t struct_size;  /* set by the caller */
    int64_t started;     /* runs asked for */
    int64_t ended;       /* of them: with a verdict */
    int64_t verdicts[8]; /* of those: with each verdict */
    int64_t retries;     /* runs begun again after a failure of the infrastructure */
    int64_t waiting;     /* now: not begun */
    int64_t running;     /* now: begun and not ended */
    double wall_s;       /* sum over the ended ones */
    double cpu_s;        /* the same; local only */
} sr1_sandbox_counters;

/* Fill *out (struct_size set) with the counts of the sandbox. */
SR1_API sr1_status sr1_sandbox_counters_get(const sr1_sandbox *box,
                                            sr1_sandbox_counters *out);

/* ---- a program ---- */

/* All is copied when the run is started. */
typedef struct sr1_program {
    size_t struct_size;   /* set by sr1_program_init */
    const char *language; /* NULL, the default: "python", the only one of a local
                             sandbox; a service knows more ("cpp", "go", ...) */
    const char *code;     /* its text; must be set. At most 16 MiB */
    const char *input;    /* [input_bytes] its standard input; NULL: empty. For a
                             service it has to be UTF-8 without NUL. To 256 MiB */
    size_t input_bytes;
    const char *expected;    /* NULL, the default: only the exit code counts; else its
                                standard output is compared by sr1_judge_output */
    const char *const *args; /* [n_args] its arguments; local only */
    size_t n_args;
    /* Further files, written beside the program before it starts: [n_files] relative
     * paths without "..", bytes, numbers of bytes. To 256 files, 256 MiB together. */
    const char *const *file_paths;
    const char *const *file_bytes;
    const size_t *file_sizes;
    size_t n_files;
    /* Limits of this run; 0, the default: the sandbox's. */
    double time_s;
    double cpu_s;
    int32_t memory_mib;
    int32_t processes;
    int64_t output_bytes;
    size_t expected_bytes; /* of expected, which may hold NUL; 0, the default: it ends at
                              its first one */
} sr1_program;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_program_init(sr1_program *program);

/* A completion that a fusion service judges by itself: POST /submit. It takes the code
 * from the markdown and runs the tests of provided_data. All is copied. Texts are UTF-8;
 * provided_data and extra have at most 256 MiB each. */
typedef struct sr1_submission {
    size_t struct_size;       /* set by sr1_submission_init */
    const char *dataset;      /* "code_contests"; a name the service has registered wins
                                 over dataset_type */
    const char *dataset_type; /* "CommonOJDataset", the default; "LiveCodeBenchDataset" */
    const char *id;           /* of the task; default "0" */
    const char *completion;   /* the model's text; must be set */
    const char *language;     /* default "python" */
    /* JSON object, must be set. CommonOJDataset: {"test": [{"input": {"stdin": text},
     * "output": {"stdout": text}}, ...]}; LiveCodeBenchDataset: {"id", "content",
     * "labels", "test": {"input_output": text}}. */
    const char *provided_data;
    const char *extra;  /* JSON object, as {"run_all_cases": true}; NULL: {} */
    double time_s;      /* of one test; 0, the default: the service's */
    double all_tests_s; /* how long all tests may take together, for the deadline of the
                           request; 0, the default: 160 */
} sr1_submission;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_submission_init(sr1_submission *submission);

/* ---- runs ---- */

/* Start to execute a program and return at once. SR1_E_INVALID: the program is incomplete
 * or a value is out of range. SR1_E_UNSUPPORTED: a local sandbox does not have the
 * language. SR1_E_LIMIT: more than queue_max executions wait. Caller frees *out with
 * sr1_execution_free. */
SR1_API sr1_status sr1_sandbox_start(sr1_sandbox *box, const sr1_program *program,
                                     sr1_execution **out);

/* Start to judge a submission as sr1_sandbox_start. SR1_E_UNSUPPORTED: the sandbox is
 * local. Caller frees *out with sr1_execution_free. */
SR1_API sr1_status sr1_sandbox_submit(sr1_sandbox *box, const sr1_submission *submission,
                                      sr1_execution **out);

/* Execute a program as sr1_sandbox_start and wait until it has ended, however long that
 * takes. Errors as sr1_sandbox_start; a program that fails is none, its result has the
 * verdict. Caller frees *out with sr1_execution_free. */
SR1_API sr1_status sr1_sandbox_run(sr1_sandbox *box, const sr1_program *program,
                                   sr1_execution **out);

/* Wait until an execution has ended, at most so many seconds (0: only look; below 0:
 * without bound). SR1_E_TIMEOUT: it has not ended yet. Several threads may wait. */
SR1_API sr1_status sr1_execution_wait(sr1_execution *run, double seconds);

/* End an execution with SR1_RUN_CANCELLED unless it has ended; the call does not wait.
 * NULL is fine. */
SR1_API void sr1_execution_cancel(sr1_execution *run);

/* Free an execution; one that still runs is cancelled, and the call does not wait for it.
 * NULL is fine. */
SR1_API void sr1_execution_free(sr1_execution *run);

/* Strings are borrowed until the run is freed, never NULL. */
typedef struct sr1_execution_result {
    size_t struct_size; /* set by the caller */
    int32_t verdict;    /* SR1_RUN_ */
    int32_t exit_code;  /* -1 when it was ended by a signal or is not known */
    int32_t signal;     /* that ended it; 0: none */
    int32_t attempts;   /* made, retries among them */
    const char *out;    /* [out_bytes] its standard output, as bytes, and a NUL */
    size_t out_bytes;   /* at most the run's output_bytes */
    const char *err; /* [err_bytes] its standard error, cut to error_bytes, and a NUL */
    size_t err_bytes;
    int64_t err_total;   /* bytes it wrote there (fusion: that arrived) */
    const char *message; /* why it did not pass, in one line; "" when it did */
    double waited_s;     /* from its start by the caller to that of the program */
    double wall_s;       /* the program ran; fusion: as the service says */
    double cpu_s;        /* its processor time, children too; -1 where not known */
    int64_t peak_bytes;  /* largest resident set of one of its processes; -1 */
    int32_t accepted;    /* submission: 1 when all tests passed; else verdict == PASSED */
    int32_t reserved;    /* not read */
} sr1_execution_result;

/* Fill *out (struct_size set) with the result of an execution that has ended.
 * SR1_E_STATE: it has not ended. */
SR1_API sr1_status sr1_execution_result_get(const sr1_execution *run,
                                            sr1_execution_result *out);

/* Return the number of tests that a service ran for a submission; 0 for a program, or
 * while the submission has not ended. */
SR1_API size_t sr1_execution_test_count(const sr1_execution *run);

/* Fill *out (struct_size set) with the result of test i of a submission. SR1_E_NOT_FOUND:
 * there is no such test. */
SR1_API sr1_status sr1_execution_test_get(const sr1_execution *run, size_t i,
                                          sr1_execution_result *out);

/* ---- comparing outputs ---- */

/* Return 1 when the standard output `got` matches `expected` by the rules of online
 * judges, else 0. White space at both ends of each text is removed, then the texts are
 * compared line by line: they must have the same number of lines, but for one empty line
 * at the end; two lines match when they are equal without case and without white space at
 * their ends, or when both are numbers with
 *
 *     |got - expected| < 1e-5 max(|expected|, 1e-10)
 *
 * NULL counts as "". */
SR1_API int32_t sr1_judge_output(const char *expected, const char *got);

#ifdef __cplusplus
}
#endif
#endif
