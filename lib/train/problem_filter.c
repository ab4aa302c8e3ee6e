/* train/problem_filter.c - questions that are judged by the tests of a problem: each has
 * a problem of its id, or the run does not begin. Rows of a published set that have no
 * tests are left out, as its problems are; what a critic is asked shows its answer. */
#include "train/internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "environment/code/problems.h"
#include "environment/critique/problems_from_config.h"
#include "signal/reward/reward_set.h"
#include "text/data/dataset.h"

/* The problems that rewards or the environment ask about; NULL: none do. */
static const sr1_problems *find_problems(const sr1_trainer *tr)
{
    const sr1_problems *of_rewards = tr->rewards->context.execution.problems;

    return of_rewards ? of_rewards : sr1__rollout_problems(tr->rollout);
}

/* *has 0: its problem has no tests. */
static sr1_status check_problem(const sr1_problems *problems, const char *id, int *has)
{
    const sr1_problem *found;

    *has = !sr1__problem_is_left_out(problems, id);
    if (!*has || sr1__problem_of_question(&found, problems, id) == SR1_OK)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "question '%.64s' is none of the problems in code_problems; set "
                     "id_field to the field of its row that holds the problem's id "
                     "(task_id, problem_id), or name the file that has this problem",
                     id);
}

/* Critics are asked about answers, and have to see them. */
static sr1_status check_critique(const sr1_trainer *tr, const sr1_row *row)
{
    const sr1_problems *problems = sr1__rollout_problems(tr->rollout);

    return problems ? sr1__critique_check_question(problems, sr1_row_id(row),
                                                   sr1_row_question(row))
                    : SR1_OK;
}

static sr1_status list_rows(const sr1_trainer *tr, const sr1_problems *problems,
                            const sr1_dataset *d, int64_t *rows, int64_t *n)
{
    for (int64_t i = 0; i < sr1_dataset_count(d); i++) {
        sr1_row *row = NULL;
        int has = 0;
        sr1_status st;

        SR1__TRY(sr1_dataset_read(d, i, &row));
        st = check_problem(problems, sr1_row_id(row), &has);
        if (st == SR1_OK && has)
            st = check_critique(tr, row);
        st = sr1__dataset_context(d, i, st);
        sr1_row_free(row);
        SR1__TRY(st);
        if (has)
            rows[(*n)++] = i;
    }
    return SR1_OK;
}

sr1_status sr1__filter_problems(const sr1_trainer *tr, sr1_dataset *d, const char *what)
{
    const sr1_problems *problems = find_problems(tr);
    int64_t all = sr1_dataset_count(d), n = 0;
    int64_t *rows;
    sr1_status st;

    if (!problems)
        return SR1_OK;
    SR1__CALLOC(rows, (size_t)all + 1, "questions");
    st = list_rows(tr, problems, d, rows, &n);
    if (st == SR1_OK && n < all) {
        sr1__log(SR1_LOG_WARN,
                 "%lld of %lld %s are left out: their problems have no tests",
                 (long long)(all - n), (long long)all, what);
        st = sr1__dataset_keep(d, rows, n);
    }
    sr1__free(rows);
    return st;
}
