/* environment/world/programs.h - tiny programs with planted bugs, shared by their files.
 *
 *     programs.c        drawing, bugs, tests     programs_meaning.c  what they compute
 *     programs_text.c   tables and texts         programs_rows.c     rows of files
 *     programs_write.c  files, the tokenizer
 *
 * A program is a family (a task in words and lines of Python, both with slots), a value
 * for each slot and names for its variables. A bug is one slot of the lines with another
 * value than the task says. Everything here is a value: copied by assignment. */
#ifndef SR1__WORLD_PROGRAMS_H
#define SR1__WORLD_PROGRAMS_H

#include "base/buf.h"
#include "base/rng.h"

#include <searchr1/ext/world.h>

#define SR1__PROGRAMS_FAMILIES 5
#define SR1__PROGRAMS_SLOTS 8
#define SR1__PROGRAMS_LINES 7
#define SR1__PROGRAMS_NAMES 4
#define SR1__PROGRAMS_TESTS 4
#define SR1__PROGRAMS_LIST 5  /* most numbers of an argument */
#define SR1__PROGRAMS_BUGS 48 /* no family has more */

/* What a slot holds; a slot's value counts within its kind. */
enum sr1__programs_kind {
    SR1__PROGRAMS_OPERATOR, /* + - * */
    SR1__PROGRAMS_COMPARISON,
    SR1__PROGRAMS_MOST, /* largest, smallest: a comparison with what was found so far */
    SR1__PROGRAMS_NUMBER,
    SR1__PROGRAMS_START,    /* a number where counting begins */
    SR1__PROGRAMS_BOUND,    /* whether the last number counts */
    SR1__PROGRAMS_VARIABLE, /* which name */
    SR1__PROGRAMS_KINDS
};

/* The role of a name: words of a table. A list is the only argument that is no number. */
enum sr1__programs_role {
    SR1__PROGRAMS_FIRST,
    SR1__PROGRAMS_SECOND,
    SR1__PROGRAMS_LISTED,
    SR1__PROGRAMS_EACH,
    SR1__PROGRAMS_TOTAL
};

struct sr1__programs_slot {
    int8_t kind;
    int8_t least, most; /* values a task may ask for; equal: it always does */
};

/* Texts: $0 to $7 are slots, @0 to @3 names. */
struct sr1__programs_family {
    const char *task;
    const char *lines[SR1__PROGRAMS_LINES + 1]; /* then NULL */
    int32_t n_slots, n_names;
    int32_t n_arguments; /* the first names */
    struct sr1__programs_slot slots[SR1__PROGRAMS_SLOTS];
    int8_t roles[SR1__PROGRAMS_NAMES];
};
extern const struct sr1__programs_family sr1__programs_families[SR1__PROGRAMS_FAMILIES];

struct sr1__program {
    int8_t family;
    int8_t value[SR1__PROGRAMS_SLOTS];
    int8_t name[SR1__PROGRAMS_NAMES]; /* in the table of its role */
};

/* One argument: a number, or a list of n. */
struct sr1__programs_argument {
    int32_t n; /* -1: a number, v[0] */
    int64_t v[SR1__PROGRAMS_LIST];
};

/* A call with what it returns. */
struct sr1__programs_test {
    struct sr1__programs_argument arguments[2];
    int64_t expected;
};

/* Another value in a slot: a bug, or a change that is advised. */
struct sr1__programs_change {
    int8_t slot;
    int8_t value;
};

/* A task with tests, and the bugs that each fail at least one of them. */
struct sr1__programs_problem {
    struct sr1__program right;
    struct sr1__programs_test tests[SR1__PROGRAMS_TESTS];
    struct sr1__programs_change bugs[SR1__PROGRAMS_BUGS];
    int32_t n_bugs; /* >= 1 */
};

/* ---- meaning ---- */

/* The return value of the program for these arguments, as in Python. */
int64_t sr1__programs_run(const struct sr1__program *p,
                          const struct sr1__programs_argument *arguments);

/* ---- making ---- */

/* A problem drawn at random. */
void sr1__programs_draw(struct sr1__programs_problem *out, struct sr1__rng *rng);
/* Other values for all slots, as another task could ask for. */
void sr1__programs_redraw(struct sr1__program *p, struct sr1__rng *rng);
/* The program with this change. */
struct sr1__program sr1__programs_with(const struct sr1__program *p,
                                       struct sr1__programs_change c);
/* A random change of p whose position in the text is unambiguous. */
struct sr1__programs_change sr1__programs_any_change(const struct sr1__program *p,
                                                     struct sr1__rng *rng);
/* The same for equal family and values, whatever the names: splits go by it. */
uint64_t sr1__programs_hash(const struct sr1__program *p);

/* ---- texts ---- */

/* "Write f(x, y) that gives x times y plus 3." */
void sr1__programs_append_task(struct sr1__buf *b, const struct sr1__program *p);
/* A ```python block. */
void sr1__programs_append_code(struct sr1__buf *b, const struct sr1__program *p);
/* "assert f(1, 2) == 5" */
void sr1__programs_append_test(struct sr1__buf *b, const struct sr1__program *p,
                               const struct sr1__programs_test *t);
/* The text of a critique: for so many slots the task's value and the solution's value;
 * then the slot to change, and its new value. */
struct sr1__programs_critique {
    const struct sr1__program *task, *solution;
    int32_t compared;
    const struct sr1__programs_change *advice; /* NULL: none, the solution is correct */
};
void sr1__programs_append_critique(struct sr1__buf *b,
                                   const struct sr1__programs_critique *c);
/* Number (from 1) of the line that contains a slot. */
int32_t sr1__programs_line(const struct sr1__program *p, int32_t slot);
/* 1 if the text of the slot occurs only once in its line. */
int sr1__programs_is_plain(const struct sr1__program *p, int32_t slot);
/* Words and sentences for a tokenizer, each ended by NUL; returns how many. */
size_t sr1__programs_vocabulary(struct sr1__buf *b);

/* n words of the vocabulary. */
void sr1__programs_append_words(struct sr1__buf *b, int32_t n, struct sr1__rng *rng);
/* The prompt of a critic, as a template and for a solution. */
extern const char sr1__programs_prompt[];
void sr1__programs_append_prompt(struct sr1__buf *b, const struct sr1__program *right,
                                 const struct sr1__program *solution);

/* ---- rows ---- */

enum sr1__programs_split {
    SR1__PROGRAMS_TRAIN,
    SR1__PROGRAMS_VALIDATION,
    SR1__PROGRAMS_TEST
};

enum sr1__programs_form {
    SR1__PROGRAMS_PROBLEM,
    SR1__PROGRAMS_COPY,
    SR1__PROGRAMS_BOTH, /* a row with a careful critique, and one with a revision */
    SR1__PROGRAMS_CARELESS
};

/* Rows of one form for a file. */
struct sr1__programs_part {
    const char *name; /* of its phase; in ids of problems */
    enum sr1__programs_split split;
    enum sr1__programs_form form;
    int32_t count;
};

/* Append row i of a part; a solution is correct with this chance. */
sr1_status sr1__programs_row(struct sr1__buf *out, const struct sr1__programs_part *p,
                             int32_t i, double correct, struct sr1__rng *rng);

#endif
