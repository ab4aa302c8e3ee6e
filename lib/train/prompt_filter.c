/* train/prompt_filter.c - remove rows that no step could use: questions with prompts that
 * are too long, and demonstrations that the model cannot read; refuse questions that the
 * rewards cannot score. */
#include "train/internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "config/choices.h"
#include "environment/world/rooms.h"
#include "policy/rollout_internal.h"
#include "signal/reward/reward_set.h"
#include "text/data/dataset.h"

/* A row is of a data source that has rewards, and has a gold answer if one of these
 * compares with it. */
static sr1_status check_row_rewards(const sr1_reward_set *rewards, const sr1_row *row)
{
    const char *reward;

    SR1__TRY(sr1__reward_set_comparing(rewards, sr1_row_data_source(row), &reward));
    if (!reward || sr1_row_answer_count(row) > 0)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "question '%.80s' has no gold answer, and reward %s compares "
                     "with one; leave such rows out, name the field that has it "
                     "with answer_field, or choose rewards that need none",
                     sr1_row_question(row), reward);
}

static sr1_status check_row(const sr1_trainer *tr, const sr1_dataset *d, int64_t i)
{
    sr1_row *row = NULL;
    sr1_status st;

    SR1__TRY(sr1_dataset_read(d, i, &row));
    st = check_row_rewards(tr->rewards, row);
    sr1_row_free(row);
    return sr1__dataset_context(d, i, st);
}

/* Without answers_optional the data set itself refuses rows without answers. */
static sr1_status check_dataset_rows(const sr1_trainer *tr, const sr1_dataset *d)
{
    if (!*sr1__config_str(tr->config, "data_source_rewards") &&
        !sr1__dataset_answers_optional(tr->config))
        return SR1_OK;
    for (int64_t i = 0; i < sr1_dataset_count(d); i++)
        SR1__TRY(check_row(tr, d, i));
    return SR1_OK;
}

/* An id that names no world would end the run at the step that comes to it. */
static sr1_status check_world_ids(const sr1_trainer *tr, const sr1_dataset *d)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(tr->config);

    if (!e || !e->names_worlds)
        return SR1_OK;
    for (int64_t i = 0; i < sr1_dataset_count(d); i++) {
        sr1_row *row = NULL;
        sr1_status st;

        SR1__TRY(sr1_dataset_read(d, i, &row));
        st = sr1__dataset_context(d, i, sr1__rooms_check_id(sr1_row_id(row)));
        sr1_row_free(row);
        SR1__TRY(st);
    }
    return SR1_OK;
}

sr1_status sr1__filter_prompts(const sr1_trainer *tr, sr1_dataset *d, const char *what)
{
    int64_t *rows = NULL, n = 0;
    sr1_status st;

    SR1__TRY(sr1__filter_problems(tr, d, what));
    SR1__TRY(check_world_ids(tr, d));
    if (!sr1__config_imitates(tr->config))
        SR1__TRY(check_dataset_rows(tr, d));
    st = sr1__rollout_filter_prompts(tr->rollout, d, what, sr1_dataset_count(d), &rows,
                                     &n);

    if (st == SR1_OK && n < sr1_dataset_count(d))
        st = sr1__dataset_keep(d, rows, n);
    sr1__free(rows);
    return st;
}

/* *fits 0: demonstration i is too long, and such ones are left out. */
static sr1_status check_demonstration(sr1_trainer *tr, int64_t i, int *fits)
{
    sr1_trajectory *t = NULL;
    sr1_status st = sr1__sft_example(tr, i, &t);

    sr1_trajectory_free(t);
    *fits = st != SR1_E_LIMIT;
    return !*fits && tr->rollout->limits.filter ? SR1_OK : st;
}

static sr1_status keep_demonstrations(sr1_trainer *tr, int64_t *rows)
{
    int64_t n = sr1__demos_count(tr->demos), kept = 0;

    for (int64_t i = 0; i < n; i++) {
        int fits = 0;

        SR1__TRY(check_demonstration(tr, i, &fits));
        if (fits)
            rows[kept++] = i;
    }
    if (kept == 0)
        return sr1__fail(SR1_E_CONFIG,
                         "all %lld demonstrations are too long; raise max_prompt_tokens, "
                         "or shorten them to what the model reads, %lld tokens",
                         (long long)n, (long long)tr->rollout->limits.max_context);
    if (kept == n)
        return SR1_OK;
    sr1__log(SR1_LOG_WARN, "%lld of %lld demonstrations are left out: they are too long",
             (long long)(n - kept), (long long)n);
    return sr1__demos_keep(tr->demos, rows, kept);
}

sr1_status sr1__filter_demonstrations(sr1_trainer *tr)
{
    int64_t *rows = sr1__calloc((size_t)sr1__demos_count(tr->demos), sizeof(*rows));
    sr1_status st = rows ? keep_demonstrations(tr, rows) : sr1__fail_nomem("rows");

    sr1__free(rows);
    return st;
}
