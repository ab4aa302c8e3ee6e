/* train/prompt_filter.c - remove questions that cannot be asked: prompts that are too
 * long, and critiques of unknown problems. */
#include "train/internal.h"

#include "base/mem.h"
#include "environment/critique/problems_from_config.h"

/* Critics are asked about answers, and have to see them. */
static sr1_status check_critiques(const sr1_trainer *tr, const sr1_dataset *d)
{
    const sr1_problems *problems = sr1__rollout_problems(tr->rollout);
    sr1_status st = SR1_OK;

    for (int64_t i = 0; problems && i < sr1_dataset_count(d) && st == SR1_OK; i++) {
        sr1_row *row = NULL;

        st = sr1_dataset_read(d, i, &row);
        if (st == SR1_OK)
            st = sr1__critique_check_question(problems, sr1_row_id(row),
                                              sr1_row_question(row));
        sr1_row_free(row);
    }
    return st;
}

sr1_status sr1__filter_prompts(const sr1_trainer *tr, sr1_dataset *d, const char *what)
{
    int64_t *rows = NULL, n = 0;
    sr1_status st;

    SR1__TRY(check_critiques(tr, d));
    st = sr1__rollout_filter_prompts(tr->rollout, d, what, sr1_dataset_count(d), &rows,
                                     &n);

    if (st == SR1_OK && n < sr1_dataset_count(d))
        st = sr1__dataset_keep(d, rows, n);
    sr1__free(rows);
    return st;
}
