/* Columns of the training file reach rewards: a policy learns by one that nothing else
 * reads. */
#include "runs.h"

#include "base/json.h"

#define ROWS 6

/* Gold answers say Paris; the column says Rome. One row is too long to travel. */
static const char *write_rows(const char *name, int with_long)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "w");

    for (int i = 0; f && i < ROWS; i++) {
        fprintf(f,
                "{\"id\": \"q%d\", \"question\": \"Where is tower %d?\", "
                "\"golden_answers\": [\"Paris\"], \"wanted\": \"Rome\", \"pad\": \"",
                i, i);
        for (int k = 0; with_long && i == 0 && k < SR1_TRAJECTORY_MAX_ROW; k++)
            fputc('x', f);
        fputs("\"}\n", f);
    }
    if (!f || fclose(f) != 0)
        abort();
    return path;
}

/* 1 where the answer is what the column says; self counts rows without columns. */
static sr1_status score(void *self, const sr1_trajectory *const *t, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *text = sr1_trajectory_row_json(t[i], &len);
        json_t *row = NULL;
        const char *wanted;

        if (len == 0) {
            ++*(int *)self;
            out[i] = 0;
            continue;
        }
        SR1__TRY(sr1__json_parse(&row, text, len, "row"));
        wanted = json_string_value(json_object_get(row, "wanted"));
        out[i] = strcmp(wanted, sr1_trajectory_final_answer(t[i], NULL)) == 0;
        json_decref(row);
    }
    return SR1_OK;
}

static sr1_trainer *open_rows(sr1_config *c, int *without)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "column", .score = score};
    sr1_trainer *tr = open_trainer(c);

    *without = 0;
    OK(sr1_trainer_add_reward(tr, &ops, without, 1.0));
    return tr;
}

static void a_run_learns_by_a_column(void **state)
{
    int without;
    sr1_config *c = RUN("column", "rewards=none", "learning_rate=3e-3", "group_size=8",
                        "beta=0", "max_steps=12");
    sr1_trainer *tr;
    json_t *rows;

    (void)state;
    OK(sr1_config_set(c, "train_file", write_rows("rows.jsonl", 0)));
    tr = open_rows(c, &without);
    OK(sr1_trainer_run(tr, NULL));
    rows = metrics("column");
    assert_true(metric(rows, 11, "avg_reward") > metric(rows, 0, "avg_reward"));
    assert_true(metric(rows, 11, "avg_reward") > 0.95);
    assert_int_equal(without, 0);
    json_decref(rows);
    sr1_trainer_free(tr);
}

/* The record of a run holds the rows, and resuming goes on with them. */
static void a_record_holds_the_row(void **state)
{
    sr1_lines *lines = NULL;
    char path[1200];
    const char *text;
    size_t len, found = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/trajectories.jsonl.zst", scratch_path("column"));
    OK(sr1_lines_open(&lines, path));
    for (;;) {
        sr1_trajectory *t = NULL;

        OK(sr1_lines_next(lines, &text, &len));
        if (!text)
            break;
        OK(sr1_trajectory_from_json(&t, text, len));
        assert_non_null(strstr(sr1_trajectory_row_json(t, NULL), "\"wanted\":\"Rome\""));
        sr1_trajectory_free(t);
        found++;
    }
    assert_true(found > 0);
    sr1_lines_free(lines);
}

static void a_row_too_long_trains_without_columns(void **state)
{
    int without;
    sr1_config *c =
        RUN("long", "rewards=none", "max_steps=3", "group_size=2", "shuffle=false");
    sr1_trainer *tr;

    (void)state;
    OK(sr1_config_set(c, "train_file", write_rows("long.jsonl", 1)));
    tr = open_rows(c, &without);
    OK(sr1_trainer_run(tr, NULL));
    assert_int_equal(without, 2); /* the samples of one question */
    sr1_trainer_free(tr);
}

/* A step of the caller's own questions. */
static void a_step_takes_rows(void **state)
{
    int without;
    sr1_trainer *tr = open_rows(RUN("own", "rewards=none"), &without);
    sr1_query q = tiny_query("Where is the tower?");
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trajectory *t[4] = {0};

    (void)state;
    q.row = "{\"wanted\": \"Rome\"}";
    q.row_len = strlen(q.row);
    OK(sr1_trainer_train_step(tr, &q, 1, 4, &r, t));
    assert_int_equal(without, 0);
    for (size_t i = 0; i < 4; i++)
        assert_true(sr1_trajectory_reward(t[i]) ==
                    (strcmp(sr1_trajectory_final_answer(t[i], NULL), "Rome") == 0));
    tiny_free_all(t, 4);
    sr1_trainer_free(tr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_learns_by_a_column),
        cmocka_unit_test(a_record_holds_the_row),
        cmocka_unit_test(a_row_too_long_trains_without_columns),
        cmocka_unit_test(a_step_takes_rows),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
