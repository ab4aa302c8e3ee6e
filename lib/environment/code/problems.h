/* environment/code/problems.h - a code problem, as the readers of rows build it. */
#ifndef SR1__CODE_PROBLEMS_H
#define SR1__CODE_PROBLEMS_H

#include "base/json.h"

#include <searchr1/ext/code.h>

struct sr1__test {
    char *input; /* and, behind its NUL, expected */
    size_t input_len;
    const char *expected;
    size_t expected_len;
};

struct sr1_problem {
    sr1_problems *set;
    size_t row; /* of its files' rows, from 0 */
    char *id;
    char *text;
    char *solution; /* NULL: none; so in the next three */
    char *reference;
    char *entry;
    char *starter; /* code that a solution begins with */
    char *source;
    char *prelude; /* code run before an answer; NULL: none */
    char *setup;   /* code run after it, before the tests; NULL: none */
    int32_t style;
    int32_t as_is;     /* 1: the text is the whole prompt */
    int32_t unwrap;    /* CALL: a result also answers a list that holds it alone */
    int32_t observing; /* 1: the tests may look at names and lines of a program */
    double time_limit;
    struct sr1__test *tests;
    size_t n_tests;
    size_t tests_cap;
    size_t max_tests;   /* further ones are dropped */
    uint64_t digest[2]; /* of all that a program's outcome depends on */
};

/* The problem that a question is about, by the question's id; SR1_E_NOT_FOUND. */
sr1_status sr1__problem_of_question(const sr1_problem **out, const sr1_problems *problems,
                                    const char *id);

/* Is this the id of a row that was left out, since it has no tests, and of no problem? */
int sr1__problem_is_left_out(const sr1_problems *problems, const char *id);

/* Rows of the files, those left out included; blank lines are none. */
size_t sr1__problems_rows(const sr1_problems *problems);

/* One shape: does a row look like it, and how it is read. The id, solution, data source
 * and time limit are read for all of them. */
struct sr1__shape {
    const char *name;
    int (*fits)(const json_t *row);
    sr1_status (*read)(struct sr1_problem *p, const json_t *row);
    const char *ids[3]; /* members that may hold the id, by preference */
    int untested_rows;  /* the published files have rows without tests: left out */
};

extern const struct sr1__shape sr1__shapes[];
extern const size_t sr1__n_shapes;

/* Readers of shapes whose tests are calls (functional.c). */
sr1_status sr1__read_apps(struct sr1_problem *p, const json_t *row);
sr1_status sr1__read_livecodebench(struct sr1_problem *p, const json_t *row);

/* ---- helpers of the readers ---- */

/* Copy text `key` of the row; *out stays NULL where it is absent or null. SR1_E_PARSE: it
 * is no text, or holds NUL. */
sr1_status sr1__row_text(const json_t *row, const char *key, char **out);
/* The same of one that must be there and not be empty. */
sr1_status sr1__row_need(const json_t *row, const char *key, char **out);
/* A member that is JSON or JSON in a text: a new reference; NULL where it is absent. */
sr1_status sr1__row_json(const json_t *row, const char *key, json_t **out);
/* Copy n bytes. */
sr1_status sr1__copy_text(char **out, const char *s, size_t n);

/* Add a test of this style, the same for all of a problem. */
sr1_status sr1__add_test(struct sr1_problem *p, int32_t style, const char *input,
                         size_t input_len, const char *expected, size_t expected_len);
/* Room for one more? Readers may stop when there is not. */
int sr1__wants_tests(const struct sr1_problem *p);
/* A list of tests as in the shape plain. */
sr1_status sr1__add_tests(struct sr1_problem *p, const json_t *tests);
/* Two texts as a test of standard input and output; a list of texts is joined as lines.
 */
sr1_status sr1__add_stdio(struct sr1_problem *p, const json_t *input,
                          const json_t *output);

/* A letter, a digit or '_'. */
int sr1__is_name(char c);
/* Does text have this name as a whole word? */
int sr1__has_word(const char *text, const char *name, size_t n);
/* The function that statements call, by the definitions in a solution: stays NULL where
 * none is found. */
sr1_status sr1__find_entry(struct sr1_problem *p, const char *code);

#endif
