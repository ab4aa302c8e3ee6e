/* train/gold_check.c - rows for a reward that goes by their gold documents: what is wrong
 * with them is said before the first step, not where a row is drawn. */
#include "train/internal.h"

#include "base/log.h"
#include "signal/reward/reward_set.h"
#include "text/data/dataset.h"
#include "text/data/gold_ids.h"

/* *has: row i has ids. */
static sr1_status check_row_ids(const sr1_dataset *d, int64_t i, const char *field,
                                int *has)
{
    struct sr1__gold_ids gold = {0};
    sr1_row *row = NULL;
    sr1_status st;

    SR1__TRY(sr1_dataset_read(d, i, &row));
    st = sr1__gold_ids_read(&gold, sr1__dataset_row_json(row), field);
    *has = gold.n > 0;
    sr1__gold_ids_free(&gold);
    sr1_row_free(row);
    return sr1__dataset_context(d, i, st);
}

sr1_status sr1__check_gold_ids(const sr1_trainer *tr, const sr1_dataset *d)
{
    const char *field = sr1__config_str(tr->config, "gold_ids_field");
    long long all = (long long)sr1_dataset_count(d), n = 0;

    if (!sr1__reward_set_has(tr->rewards, sr1__str_of("retrieval_recall")))
        return SR1_OK;
    for (int64_t i = 0; i < all; i++) {
        int has = 0;

        SR1__TRY(check_row_ids(d, i, field, &has));
        n += has;
    }
    if (n == 0 && all > 0)
        return sr1__fail(
            SR1_E_CONFIG,
            "retrieval_recall: none of the %lld questions to train on has "
            "gold ids in field '%.64s'; set gold_ids_field to the field that "
            "has them, or leave the reward out",
            all, field);
    if (n < all)
        sr1__log(SR1_LOG_WARN,
                 "retrieval_recall does not apply to %lld of %lld questions to train on, "
                 "which have no gold ids in field '%.64s'",
                 all - n, all, field);
    return SR1_OK;
}
