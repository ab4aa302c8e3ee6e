/* Answering a file of questions and scoring it: nothing is dropped, over all rows and for
 * each data source, whatever the size of the chunks. */
#include "support/tiny.h"

#define ROWS 70 /* more than one chunk of 4 * max_rows */

static int make(void **state)
{
    static const struct tiny_rule sure[] = {
        {"", "<search>"},        {"<search>", " tower"},
        {" tower", "</search>"}, {"</information>", "<answer>"},
        {"<answer>", " Paris"},  {" Paris", "</answer>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("sure", sure, 6, 30);
    return 0;
}

static sr1_dataset *questions(void)
{
    const char *path = scratch_path("questions.jsonl");
    FILE *f = fopen(path, "w");
    sr1_dataset *d = NULL;

    for (int i = 0; f && i < ROWS;
         i++) /* every third is about Rome: the policy is wrong */
        fprintf(f,
                "{\"id\": \"q%d\", \"question\": \"Where is %d?\", \"golden_answers\": "
                "[\"%s\"], \"data_source\": \"%s\"}\n",
                i, i, i % 3 ? "Paris" : "Rome", i % 3 ? "zz" : "aa");
    assert_true(f && fclose(f) == 0);
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    return d;
}

static sr1_rollout *open_rollout(const char *pair)
{
    sr1_config *c = tiny_config("sure", pair, NULL);
    sr1_search *e = tiny_engine();
    sr1_rollout *r = NULL;

    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    sr1_config_free(c);
    sr1_search_free(e);
    return r;
}

struct seen {
    size_t n;
    int64_t progress;
};

static sr1_status take(void *user, const sr1_trajectory *t)
{
    struct seen *s = user;
    char id[16];

    snprintf(id, sizeof id, "q%zu", s->n++);
    assert_string_equal(sr1_trajectory_query_id(t), id);
    return SR1_OK;
}

static sr1_status progress(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    struct seen *s = user;

    (void)tokens;
    assert_true(finished >= s->progress && finished <= total);
    s->progress = finished;
    return SR1_OK;
}

/* Paris and Rome lie at an angle whose cosine is 0.6. */
static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    (void)kind;
    ++*(int *)self;
    for (size_t i = 0; i < n; i++) {
        int rome = strcmp(texts[i], "Rome") == 0;

        out[2 * i] = rome ? 0.6F : 1;
        out[2 * i + 1] = rome ? 0.8F : 0;
    }
    return SR1_OK;
}

static sr1_embedder *open_embedder(int *calls)
{
    const sr1_embedder_ops ops = {sizeof ops, "cities", embed, NULL, 2, 0};
    sr1_embedder *e = NULL;

    OK(sr1_embedder_new(&e, &ops, calls));
    return e;
}

static void every_row_counts(void **state)
{
    static const char *const rows[] = {"max_rows=16", "max_rows=3"};
    static const int chunks[] = {2, 6};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_rollout *r = open_rollout(rows[k]);
        sr1_dataset *d = questions();
        struct seen seen = {0, 0};
        int calls = 0;
        sr1_eval_options o = {.struct_size = sizeof o,
                              .greedy = 1,
                              .user = &seen,
                              .progress = progress,
                              .trajectory = take,
                              .embedder = open_embedder(&calls)};
        sr1_eval_scores s = {.struct_size = sizeof s};
        sr1_evaluation *e = NULL;

        OK(sr1_evaluate(&e, r, d, &o));
        assert_int_equal(seen.n, ROWS);
        assert_int_equal(sr1_evaluation_count(e), 3);
        OK(sr1_evaluation_scores(e, 0, &s));
        assert_null(s.data_source);
        assert_int_equal(s.rows, ROWS);
        tiny_near(s.exact_match, 46.0 / 70, 1e-12); /* 24 of 70 are about Rome */
        tiny_near(s.f1, 46.0 / 70, 1e-12);
        tiny_near(s.embedding, (46.0 + 24 * 0.6) / 70, 1e-6);
        assert_int_equal(calls, chunks[k]); /* one call for all answers of a chunk */
        assert_true(s.format == 1 && s.answered == 1 && s.searches == 1 && s.tokens == 6);
        OK(sr1_evaluation_scores(e, 1, &s));
        assert_string_equal(s.data_source, "aa");
        assert_true(s.rows == 24 && s.exact_match == 0);
        OK(sr1_evaluation_scores(e, 2, &s));
        assert_true(s.rows == 46 && s.exact_match == 1 && s.rouge1 == 1 && s.rougeL == 1);
        assert_int_equal(sr1_evaluation_scores(e, 3, &s), SR1_E_INVALID);
        sr1_evaluation_free(e);
        sr1_embedder_free(o.embedder);
        sr1_dataset_free(d);
        sr1_rollout_free(r);
    }
}

static void cut_short_is_no_answer(void **state)
{
    sr1_rollout *r = open_rollout("max_tokens=5"); /* "<answer> Paris" */
    sr1_dataset *d = questions();
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1, .max_rows = 9};
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;

    (void)state;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_int_equal(s.rows, 9);
    assert_true(s.exact_match == 0 && s.answered == 0 && s.format == 0 && s.tokens == 5);
    assert_true(s.embedding == 0);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

static sr1_status enough(void *user, const sr1_trajectory *t)
{
    (void)user, (void)t;
    return sr1_set_error(SR1_E_CANCELLED, "enough");
}

static void a_callback_ends_it(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=4");
    sr1_dataset *d = questions();
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1, .trajectory = enough};
    sr1_evaluation *e = NULL;

    (void)state;
    REFUSED(sr1_evaluate(&e, r, d, &o), SR1_E_CANCELLED, "enough");
    assert_null(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* ---- rewards ---- */

/* Worth 2 with the answer Paris; unknown for the third row. */
static sr1_status worth(void *self, const sr1_trajectory *const *t, size_t n, double *out)
{
    int *seen = self;

    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *answer = sr1_trajectory_final_answer(t[i], &len);

        assert_true(sr1_trajectory_ground_truth_count(t[i]) > 0);
        out[i] = len == 5 && memcmp(answer, "Paris", 5) == 0 ? 2.0 : 0.0;
        if ((*seen)++ == 2)
            out[i] = NAN;
    }
    return SR1_OK;
}

static void rewards_are_scored_too(void **state)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "worth", .score = worth,
                          .may_be_unknown = 1};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_eval_scores with = {.struct_size = sizeof with}, plain = with;
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    int seen = 0;

    (void)state;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &plain));
    assert_true(plain.reward == 0.0);
    sr1_evaluation_free(e);
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, &seen, 1.0));
    o.rewards = set;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &with));
    assert_int_equal(with.rows, plain.rows - 1);
    assert_int_equal(with.excluded, plain.excluded + 1);
    assert_int_equal(seen, plain.rows);
    assert_true(with.reward >= 0.0 && with.reward <= 2.0);
    sr1_evaluation_free(e);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* Every trajectory of a synthesis is in one of its counts. */
static void demonstrations_without_a_reward_are_counted(void **state)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "worth", .score = worth,
                          .may_be_unknown = 1};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_synth_report report = {.struct_size = sizeof report};
    sr1_synth_options o;
    int seen = 0;

    (void)state;
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, &seen, 1.0));
    sr1_synth_options_init(&o);
    o.greedy = 1;
    o.max_rows = 9;
    OK(sr1_synthesise(scratch_path("demos.jsonl"), r, set, d, &o, &report));
    assert_int_equal(report.trajectories, 9);
    assert_int_equal(report.excluded, 1);
    assert_int_equal(report.written + report.below + report.unfit, 8);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* Of the source aa nothing is known. */
static sr1_status knows_zz(void *self, const sr1_trajectory *const *t, size_t n,
                           double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = strcmp(sr1_trajectory_data_source(t[i]), "aa") == 0 ? NAN : 1.0;
    return SR1_OK;
}

static void nothing_is_known_of_no_rows(void **state)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "zz", .score = knows_zz,
                          .may_be_unknown = 1};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};

    (void)state;
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, NULL, 1.0));
    o.rewards = set;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_true(s.rows == 46 && s.excluded == 24 && s.exact_match == 1);
    OK(sr1_evaluation_scores(e, 1, &s));
    assert_string_equal(s.data_source, "aa");
    assert_true(s.rows == 0 && s.excluded == 24);
    assert_true(isnan(s.exact_match) && isnan(s.reward) && isnan(s.tokens));
    sr1_evaluation_free(e);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* ---- rewards that begin early ---- */

struct begun {
    int n, forgotten;
};

static sr1_status begin_one(void *self, sr1_trajectory *t)
{
    (void)t;
    ((struct begun *)self)->n++;
    return SR1_OK;
}

static void forget_all(void *self)
{
    struct begun *b = self;

    b->forgotten += b->n;
    b->n = 0;
}

static sr1_status all_equal(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    (void)t, (void)n, (void)out;
    ((struct begun *)self)->n -= (int)n;
    return SR1_OK;
}

static sr1_status stop_later(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    (void)total, (void)tokens;
    return finished >= *(const int *)user ? sr1_set_error(SR1_E_CANCELLED, "enough")
                                          : SR1_OK;
}

static void what_was_begun_is_forgotten_when_it_is_stopped(void **state)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "early", .score = all_equal,
                          .begin = begin_one, .forget = forget_all};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    struct begun begun = {0, 0};
    int after = 3;
    sr1_rollout *r = open_rollout("max_rows=4");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_eval_options o = {
        .struct_size = sizeof o, .greedy = 1, .progress = stop_later, .user = &after};

    (void)state;
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, &begun, 1.0));
    o.rewards = set;
    REFUSED(sr1_evaluate(&e, r, d, &o), SR1_E_CANCELLED, "enough");
    assert_int_equal(begun.n, 0);
    assert_true(begun.forgotten >= 3);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_counts),
        cmocka_unit_test(cut_short_is_no_answer),
        cmocka_unit_test(rewards_are_scored_too),
        cmocka_unit_test(demonstrations_without_a_reward_are_counted),
        cmocka_unit_test(nothing_is_known_of_no_rows),
        cmocka_unit_test(what_was_begun_is_forgotten_when_it_is_stopped),
        cmocka_unit_test(a_callback_ends_it),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
