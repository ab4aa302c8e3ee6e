/* 09_run_code.c - answers to a programming problem, run against its tests.
 *
 *     09_run_code [KEY=VALUE ...]
 *
 * Programs that nobody has read run isolated from this machine (docs/sandbox.md); where
 * that cannot be had, sandbox_isolation=none runs them without. Prints how each answer
 * ended, and what a critic of it would be told. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/code.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/critique.h>
#include <searchr1/ext/sandbox.h>

#include <stdio.h>
#include <string.h>

static const char rows[] =
    "{\"id\": \"add\", \"problem\": \"Write add(a, b) that adds two numbers.\", "
    "\"tests\": [\"assert add(1, 2) == 3\", \"assert add(-1, 1) == 0\"]}\n";

static const char *const answers[] = {
    "Here it is:\n```python\ndef add(a, b):\n    return a + b\n```",
    "```python\ndef add(a, b):\n    return abs(a) + b\n```",
    "```python\ndef add(a, b):\n    return a.plus(b)\n```",
};

static sr1_status run(sr1_checker *checker, const sr1_problem *problem,
                      const char *answer)
{
    sr1_check_report report = {.struct_size = sizeof(report)};
    size_t n = strlen(answer);
    sr1_check *check = NULL;
    char *hint = NULL;
    sr1_status status =
        sr1_checker_run(checker, problem, SR1_CHECK_TEXT, answer, n, &check);

    if (status == SR1_OK)
        status = sr1_check_report_get(check, &report);
    if (status == SR1_OK)
        status = sr1_critique_execution_feedback(problem, answer, n, check, &hint);
    if (status == SR1_OK)
        printf("%s, %d of %d tests pass\n%s\n\n",
               sr1_execution_verdict_name(report.verdict), (int)report.passed,
               (int)report.tests, hint);
    sr1_free(hint);
    sr1_check_free(check);
    return status;
}

int main(int argc, char **argv)
{
    sr1_problems *problems = NULL;
    sr1_checker *checker = NULL;
    sr1_config *config = NULL;
    sr1_status status = sr1_config_new(&config);

    if (status == SR1_OK)
        status = sr1_config_set(config, "execution_score", "pass_rate");
    for (int i = 1; i < argc && status == SR1_OK; i++)
        status = sr1_config_set_pair(config, argv[i]);
    if (status == SR1_OK)
        status = sr1_problems_parse(&problems, rows, strlen(rows), "rows", NULL);
    if (status == SR1_OK)
        status = sr1_checker_open(&checker, config);
    for (size_t i = 0; i < 3 && status == SR1_OK; i++)
        status = run(checker, sr1_problems_at(problems, 0), answers[i]);
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_checker_free(checker);
    sr1_problems_free(problems);
    sr1_config_free(config);
    return status == SR1_OK ? 0 : 1;
}
