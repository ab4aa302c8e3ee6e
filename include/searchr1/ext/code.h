/* searchr1/ext/code.h - code problems, what a model's text says about them, and programs
 * run against their tests.
 *
 * A problem is a task in words with tests that a Python program must pass. An answer is
 * text of a model with a program in it (sr1_code_extract); a critique is text that judges
 * an answer (sr1_critique_judgement). A checker runs answers on a sandbox.
 *
 * Text:      UTF-8; bytes that are not UTF-8 become U+FFFD where text is copied.
 * Ownership: free problems with sr1_problems_free, a checker with sr1_checker_free, a
 *            check with sr1_check_free. A checker keeps its own reference to its sandbox,
 *            a check to its problem set; what runs is cancelled with its checker.
 * Errors:    outputs are untouched on failure.
 * Threads:   problems never change once loaded: any number of threads. A checker: any
 *            number of threads. A check: wait, done, cancel from any thread; free once.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_CODE_H
#define SEARCHR1_EXT_CODE_H

#include <searchr1/base.h>
#include <searchr1/config.h>
#include <searchr1/ext/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- problems ---- */

typedef struct sr1_problems sr1_problems;
typedef struct sr1_problem sr1_problem; /* one of them, borrowed from its set */

/* How a program is tested. */
enum {
    SR1_CODE_ASSERT = 0, /* Python statements run after it, in its name space */
    SR1_CODE_STDIO = 1,  /* it is given stdin, and its stdout is compared */
    SR1_CODE_CALL = 2    /* a function of it, or of its class Solution, is called with
                            JSON arguments, and what it returns is compared */
};

/* Most problems of a set, tests of a problem, and bytes of a row. */
#define SR1_PROBLEMS_MAX 1000000
#define SR1_PROBLEM_TESTS_MAX 10000
#define SR1_PROBLEM_ROW_MAX ((size_t)64 << 20)

/* Shapes of rows, one JSON object a line:
 *
 *     plain         "id", "problem" (absent: "question"), "tests"; optional: "solution"
 *                   (the answer to be criticised), "reference" (one that passes),
 *                   "setup" (code run after an answer, before the tests), "entry_point",
 *                   "time_limit" (seconds), "data_source". "question" is what a policy
 *                   is asked (train_file). A test is a statement; or {"stdin",
 *                   "stdout"}; or {"input": {"stdin"}, "output": {"stdout"}}; or
 *                   {"args": [...], "expected"} of the function "entry_point". All tests
 *                   of a problem are of one style.
 *     mbpp          "task_id", "text" or "prompt", "code", "test_list"; optional:
 *                   "test_setup_code", "test_imports". MBPP+: "test", one program, takes
 *                   the place of "test_list"
 *     humaneval     "task_id", "prompt", "entry_point", "canonical_solution", "test".
 *                   What stands before the function in "prompt" (imports, helpers) is
 *                   run before an answer
 *     apps          also TACO. "question", "input_output" ({"inputs", "outputs",
 *                   "fn_name"}, also as text); optional: "solutions", "starter_code",
 *                   "time_limit". Its id is "id", "problem_id" or "task_id". With
 *                   "fn_name": SR1_CODE_CALL. A row without tests is left out
 *     codecontests  "name", "description", "public_tests", "private_tests",
 *                   "generated_tests" (each {"input": [...], "output": [...]}), used in
 *                   this order; optional: "solutions", "time_limit" ({"seconds",
 *                   "nanos"}). Also {"id", "content", "test"}, with "test" a list as in
 *                   plain, also as text
 *     livecodebench "question_id", "question_content", "public_test_cases",
 *                   "private_test_cases" (lists of {"input", "output", "testtype"}, also
 *                   as text; compressed ones are refused: see docs/sandbox.md),
 *                   "starter_code", "metadata" ("func_name"). Also {"id", "content",
 *                   "test": {"input_output"}}
 *
 * A row without an id gets one of its text, that of a row of questions with this text
 * alone, and its place behind where texts are equal. In every shape "solution",
 * "data_source" and "time_limit" are read (a number of seconds, or a text: "2.0 seconds",
 * "500 ms", "1 minute"); members not named are ignored. */
typedef struct sr1_problems_options {
    size_t struct_size; /* set by sr1_problems_options_init */
    const char *shape;  /* a name above; NULL or "auto": of each row by its members */
    int32_t max_tests;  /* keep the first so many tests of each problem; 0: all */
    double time_limit;  /* seconds a test where a row says none; 0: 10 */
} sr1_problems_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_problems_options_init(sr1_problems_options *options);

/* Read all rows of n_paths files. options may be NULL. Caller frees with
 * sr1_problems_free. SR1_E_IO; SR1_E_PARSE: a row does not have its shape, or no known
 * shape; SR1_E_INVALID: an id occurs twice, or there is no row; SR1_E_LIMIT: a row
 * exceeds one of the bounds above. Errors name the file and line. */
SR1_API sr1_status sr1_problems_load(sr1_problems **out, const char *const *paths,
                                     size_t n_paths, const sr1_problems_options *options);

/* Read rows from text [len] in memory, as sr1_problems_load; errors call the text `name`
 * (NULL: "problems"). options may be NULL. Caller frees with sr1_problems_free. */
SR1_API sr1_status sr1_problems_parse(sr1_problems **out, const char *text, size_t len,
                                      const char *name,
                                      const sr1_problems_options *options);

/* Take one more reference. Returns problems; NULL for NULL. */
SR1_API sr1_problems *sr1_problems_retain(sr1_problems *problems);

/* Drop one reference; the last one frees the set. NULL is fine. */
SR1_API void sr1_problems_free(sr1_problems *problems);

/* Return the number of problems. */
SR1_API size_t sr1_problems_count(const sr1_problems *problems);

/* Return the number of rows without tests that were left out (APPS, TACO); 0 for NULL. */
SR1_API size_t sr1_problems_left_out(const sr1_problems *problems);

/* Return problem index, in the order of the rows; NULL past the last. Borrowed until the
 * set is freed. */
SR1_API const sr1_problem *sr1_problems_at(const sr1_problems *problems, size_t index);

/* Return the problem with this id (the id of a sr1_query); NULL if there is none.
 * Borrowed until the set is freed. */
SR1_API const sr1_problem *sr1_problems_find(const sr1_problems *problems,
                                             const char *id);

/* Return the problem's id. Borrowed until the problem's set is freed. */
SR1_API const char *sr1_problem_id(const sr1_problem *problem);

/* Return the task in words. Borrowed until the problem's set is freed. */
SR1_API const char *sr1_problem_text(const sr1_problem *problem);

/* Return the solution that the row gives to be criticised; NULL if it gives none.
 * Borrowed until the problem's set is freed. */
SR1_API const char *sr1_problem_solution(const sr1_problem *problem);

/* Return a solution that passes the tests; NULL if the row gives none. Borrowed until the
 * problem's set is freed. */
SR1_API const char *sr1_problem_reference(const sr1_problem *problem);

/* Return the name of the function that the task asks for; NULL if it names none. Borrowed
 * until the problem's set is freed. */
SR1_API const char *sr1_problem_entry_point(const sr1_problem *problem);

/* Return the name of the problem's data set; the name of its shape where the row gives
 * none. Borrowed until the problem's set is freed. */
SR1_API const char *sr1_problem_data_source(const sr1_problem *problem);

/* Return how the tests run a solution, SR1_CODE_*. */
SR1_API int32_t sr1_problem_style(const sr1_problem *problem);

/* Return the time limit of one test in seconds: the row's, or where it has none that of
 * sr1_problems_options (10 by default); 0 for NULL. A checker may set another limit
 * (time_limit of its options) and bounds this one by its max_time_limit. */
SR1_API double sr1_problem_time_limit(const sr1_problem *problem);

/* Return the number of tests, at least 1. */
SR1_API size_t sr1_problem_test_count(const sr1_problem *problem);

/* One test: ASSERT: input is the statement, expected is ""; STDIO: stdin and stdout;
 * CALL: the arguments as a JSON array and the result as JSON. Texts may hold NUL. */
typedef struct sr1_problem_case {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *input;  /* borrowed until the problem's set is freed */
    size_t input_len;
    const char *expected;
    size_t expected_len;
} sr1_problem_case;

/* Fill *out (struct_size set) with test index. SR1_E_INVALID: index is out of range. */
SR1_API sr1_status sr1_problem_test(const sr1_problem *problem, size_t index,
                                    sr1_problem_case *out);

/* Write the prompt that asks a model for a solution (after Xie et al. 2025): the task,
 * then a request by style. ASSERT and CALL ask for a function in a ``` block without
 * tests, and give its name where the task does not: as the first test calls it, or as the
 * starter code names it. STDIO asks for a program from standard input to standard output
 * in a ``` block. *out is NUL-terminated; caller frees it with sr1_free. */
SR1_API sr1_status sr1_problem_prompt(const sr1_problem *problem, char **out);

/* ---- what a text says ---- */

/* Where a program was found. */
enum {
    SR1_CODE_FENCED = 0,     /* in a ``` block */
    SR1_CODE_OPEN_FENCE = 1, /* in one that is not closed: it ends with the text */
    SR1_CODE_WHOLE = 2       /* there is no fence: it is the text */
};

/* Extract the program from an answer. Text up to the last </think> is ignored. A block
 * begins after a line of at least three backticks with an optional language, and ends
 * before a line of as many backticks, or at the end of the text (an open block); an
 * indented fence removes its indentation from the block. Chosen is the first closed block
 * whose language is python, py or python3 in any case; else the first closed block; else
 * the open block; else, without any fence, the whole text. *out is NUL-terminated and
 * *out_len bytes long (it may contain NUL bytes); caller frees it with sr1_free. *found
 * (may be NULL) receives SR1_CODE_*. SR1_E_LIMIT: the text is longer than 1 MiB. */
SR1_API sr1_status sr1_code_extract(const char *text, size_t len, char **out,
                                    size_t *out_len, int32_t *found);

/* What a critique says of its answer. */
enum { SR1_JUDGEMENT_NONE = 0, SR1_JUDGEMENT_CORRECT = 1, SR1_JUDGEMENT_INCORRECT = 2 };

/* Return the judgement of a critique, SR1_JUDGEMENT_*, from a line "Overall judgment:
 * Correct" or "Overall judgment: Incorrect" of its text (sr1_critique_text). The line may
 * contain nothing else but white space, marks of emphasis, headings and lists, and a full
 * stop; case does not matter, and "judgement" is accepted. Lines that disagree, or a line
 * with both words, give SR1_JUDGEMENT_NONE. */
SR1_API int32_t sr1_critique_judgement(const char *text, size_t len);

/* Find the critique in a model's text: the content of the first <format>...</format>
 * behind the last </think>; else the text behind an open <format>; else all text behind
 * the last </think>; stripped. *begin and *n receive its place in text. */
SR1_API void sr1_critique_text(const char *text, size_t len, size_t *begin, size_t *n);

/* How well critiques tell correct answers from incorrect ones. A rate without anything to
 * be counted is 0. */
typedef struct sr1_judgement_scores {
    size_t struct_size;  /* set by the caller; later versions append fields */
    int64_t n;           /* critiques; those of unknown truth are left out */
    int64_t none;        /* without a judgement: counted as wrong */
    double accuracy;     /* true judgements / n */
    double f1;           /* harmonic mean of precision and recall of "correct" */
    double f1_incorrect; /* the same of "incorrect" */
} sr1_judgement_scores;

/* Score n judgements, SR1_JUDGEMENT_*, against correct [n]: 1 if the solution passes its
 * tests, 0 if it does not, -1 if that is unknown. Fills *out (struct_size set). */
SR1_API sr1_status sr1_judgement_score(const int32_t *judgements, const int32_t *correct,
                                       size_t n, sr1_judgement_scores *out);

/* ---- running answers ---- */

typedef struct sr1_checker sr1_checker;
typedef struct sr1_check sr1_check;

/* Verdicts are SR1_RUN_* (searchr1/ext/sandbox.h). Of a test: WRONG: an assertion failed,
 * or another output or result came; RUNTIME_ERROR: an exception, or it ended before its
 * tests did. And of one that was not run, since another had failed before: */
enum { SR1_CHECK_SKIPPED = 64 };

typedef struct sr1_checker_options {
    size_t struct_size;     /* set by sr1_checker_options_init */
    int32_t all_or_nothing; /* 1: stop at the first failure */
    double time_limit;      /* seconds a test (statements and calls with
                               all_or_nothing: all of them together); 0: the problem's */
    double max_time_limit;  /* bound on the problem's; 0: 60 */
    int64_t memory_limit;   /* bytes, at least 16 MiB; 0: the sandbox's */
    int32_t concurrency;    /* programs of one answer at a time; 0: 4 */
    int32_t threads;        /* answers at a time, each on a thread that mostly waits; to
                               1024; 0: 64 */
    /* Folder for results that stay; NULL: they are kept in memory alone. */
    const char *cache_folder;
    int64_t cache_entries; /* in memory; 0: 65536; -1: nothing is kept anywhere */
    const char *python;    /* interpreter that normalises programs for the cache; NULL:
                              the sandbox's own; "", or where that is not known: the
                              exact text is the key */
    /* Who compares: NULL, "outside": never the process that runs the answer, so that no
     * answer can pass by saying that it does. "any": where only that process could say,
     * it does, and the report is marked (judged_inside). With a service statements and
     * calls can be judged no other way. */
    const char *judge;
} sr1_checker_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_checker_options_init(sr1_checker_options *options);

/* Make a checker on a sandbox, which is retained. options may be NULL and is copied.
 * Caller frees with sr1_checker_free. SR1_E_INVALID names an option that is out of
 * range. */
SR1_API sr1_status sr1_checker_new(sr1_checker **out, sr1_sandbox *sandbox,
                                   const sr1_checker_options *options);

/* Make the checker that a configuration names (keys sandbox, sandbox_*, code_judge,
 * execution_score, execution_time_limit, execution_cache), on a sandbox of its own.
 * Errors as sr1_sandbox_open. Caller frees with sr1_checker_free. */
SR1_API sr1_status sr1_checker_open(sr1_checker **out, const sr1_config *config);

/* Take one more reference. Returns checker; NULL for NULL. */
SR1_API sr1_checker *sr1_checker_retain(sr1_checker *checker);

/* Drop one reference; the last one cancels the checks that still run. NULL is fine. */
SR1_API void sr1_checker_free(sr1_checker *checker);

/* What is given to be checked: text with a program in it (sr1_code_extract), or one. */
enum { SR1_CHECK_TEXT = 0, SR1_CHECK_PROGRAM = 1 };

/* Start to run the program in text [len] (copied; form: SR1_CHECK_*) against the tests of
 * a problem, whose set is retained, and return at once. From any thread. SR1_E_INVALID:
 * an argument is NULL. SR1_E_UNSUPPORTED: the sandbox is a service that cannot judge from
 * outside (option judge). Caller frees *out with sr1_check_free. */
SR1_API sr1_status sr1_checker_submit(sr1_checker *checker, const sr1_problem *problem,
                                      int32_t form, const char *text, size_t len,
                                      sr1_check **out);

/* Run a program as sr1_checker_submit and wait until it has ended. Caller frees *out with
 * sr1_check_free. */
SR1_API sr1_status sr1_checker_run(sr1_checker *checker, const sr1_problem *problem,
                                   int32_t form, const char *text, size_t len,
                                   sr1_check **out);

/* Wait until a check has ended, at most so many seconds (below 0: without bound). SR1_OK:
 * it has ended, and its report says how. SR1_E_TIMEOUT: it still runs. */
SR1_API sr1_status sr1_check_wait(sr1_check *check, double seconds);

/* Return 1 when the check has ended, else 0. */
SR1_API int32_t sr1_check_done(const sr1_check *check);

/* End a check early; its verdict becomes SR1_RUN_CANCELLED unless it has already
 * ended. */
SR1_API void sr1_check_cancel(sr1_check *check);

/* Free a check; one that still runs is cancelled. NULL is fine. */
SR1_API void sr1_check_free(sr1_check *check);

/* What all tests of an answer gave. */
typedef struct sr1_check_report {
    size_t struct_size; /* set by the caller; later versions append fields */
    int32_t verdict;    /* SR1_RUN_PASSED: all tests; _CANCELLED, _INFRASTRUCTURE: nothing
                           is known; else that of the first test that failed */
    int64_t tests;
    int64_t passed;
    double pass_rate;     /* passed / tests; all-or-nothing: 1 or 0 */
    int64_t first_failed; /* the test's number; -1: none */
    int32_t cached;       /* 1: known from before, nothing was run */
    double seconds;       /* from its first program's start to its end */
    /* Of the first test that failed, cut short, NUL-terminated; borrowed until the check
     * is freed. got: stdout, or what was returned, as Python writes it; error: the end of
     * stderr, or why the sandbox failed. */
    const char *got;
    const char *error;
    int32_t judged_inside; /* 1: by the answer's own process, which can say anything */
} sr1_check_report;

/* Fill *out (struct_size set) with the report of a check that has ended. SR1_E_STATE: it
 * still runs. */
SR1_API sr1_status sr1_check_report_get(const sr1_check *check, sr1_check_report *out);

/* Return the verdict of test index, SR1_RUN_*; -1 if index is out of range or the check
 * still runs. */
SR1_API int32_t sr1_check_verdict(const sr1_check *check, size_t index);

/* What a checker did since it was made. */
typedef struct sr1_checker_stats {
    size_t struct_size;     /* set by the caller; later versions append fields */
    int64_t checks;         /* ended */
    int64_t cached;         /* of them known from before */
    int64_t programs;       /* run */
    int64_t infrastructure; /* checks of which nothing is known */
    double seconds;         /* of all checks together */
    int64_t judged_inside;  /* checks of which the answer's own process has judged */
} sr1_checker_stats;

/* Fill *out (struct_size set) with the counts of the checker. */
SR1_API sr1_status sr1_checker_stats_get(const sr1_checker *checker,
                                         sr1_checker_stats *out);

#ifdef __cplusplus
}
#endif
#endif
