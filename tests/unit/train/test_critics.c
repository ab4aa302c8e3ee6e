/* Learning to criticise: the reward of a revision reaches the critique that led to it,
 * and neither reviser nor reference moves while the policy does. */
#include "step_metric.h"
#include "support/tiny.h"

#include "base/clock.h"
#include "environment/critique/generator.h"
#include "policy/rollout_internal.h"
#include "train/internal.h"

#include <searchr1/ext/critique.h>

static int make(void **state)
{
    static const struct tiny_rule critic[] = {
        {"", " Paris"}, {"", " Rome"}, {" Paris", "<|im_end|>"}, {" Rome", "<|im_end|>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("critic", critic, 4, 14);
    (void)scratch_file(
        "problems.jsonl",
        "{\"id\": \"p0\", \"problem\": \"Where?\", \"solution\": \"x = 1\", "
        "\"tests\": [\"assert x\"]}\n",
        0);
    return 0;
}

static sr1_query question(void)
{
    sr1_query q = tiny_query("Is x = 1 right?");

    q.id = "p0";
    return q;
}

/* ---- the reward of a revision, in place of running it ---- */

static int right(const sr1_trajectory *t)
{
    sr1_text_segment s = {.struct_size = sizeof s};
    const char *text = sr1_trajectory_generated_text(t, NULL);

    for (size_t i = 0; sr1_trajectory_segment(t, i, &s) == SR1_OK; i++)
        if (s.source == SR1_SOURCE_ENVIRONMENT &&
            memmem(text + s.body_begin, s.body_len, "x = 2", 5))
            return 1;
    return 0;
}

static sr1_status score(void *self, const sr1_trajectory *const *t, size_t n, double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = right(t[i]);
    return SR1_OK;
}

static sr1_trainer *trainer(sr1_config *c)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "revision", .score = score};
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_new(&tr, c, NULL));
    OK(sr1_trainer_add_reward(tr, &ops, NULL, 1.0));
    sr1_config_free(c);
    return tr;
}

/* ---- it learns ---- */

/* Follows a critique that names Paris. */
static sr1_status follow(void *self, const sr1_conversation *const *c, size_t n,
                         sr1_generator_sink *sink)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        const char *said = strstr(c[i]->contents[2], "Paris") ? "x = 2" : "x = 1";

        SR1__TRY(sr1_generator_sink_text(sink, i, said, strlen(said)));
    }
    return SR1_OK;
}

static void let_write(sr1_trainer *tr, const sr1_generator_ops *ops, void *self)
{
    const char *path = scratch_path("problems.jsonl");
    sr1_problems *problems = NULL;
    sr1_generator *w = NULL;
    sr1_env *env = NULL;

    OK(sr1_problems_load(&problems, &path, 1, NULL));
    OK(sr1_generator_new(&w, ops, self));
    OK(sr1_critique_env_open(&env, problems, w, NULL, NULL));
    OK(sr1_rollout_set_env(sr1_trainer_rollout(tr), env));
    sr1_env_free(env);
    sr1_generator_free(w);
    sr1_problems_free(problems);
}

static void let_follow(sr1_trainer *tr)
{
    sr1_generator_ops ops = {
        .struct_size = sizeof ops, .name = "follower", .write = follow};

    let_write(tr, &ops, NULL);
}

static void critiques_that_lead_to_right_revisions_are_learned(void **state)
{
    sr1_trainer *tr =
        trainer(tiny_config("critic", "environment=none", "protocol=ctrl",
                            "rewards=environment", "beta=0", "learning_rate=3e-3", NULL));
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_query q = question();
    double first = 0.0, last = 0.0;

    (void)state;
    let_follow(tr);
    for (int k = 0; k < 12; k++) {
        OK(sr1_trainer_train_step(tr, &q, 1, 16, &r, NULL));
        first += k < 2 ? r.avg_reward / 2 : 0.0;
        last += k >= 10 ? r.avg_reward / 2 : 0.0;
    }
    assert_in_range((int)(first * 100), 15, 85);
    assert_true(last > 0.95);
    sr1_trainer_free(tr);
}

/* ---- what stands still ---- */

static sr1_config *frozen_config(const char *dtype)
{
    sr1_config *c =
        tiny_config("critic", "environment=critique", "protocol=ctrl",
                    "rewards=environment", "kl_reference=frozen", "proxy_max_tokens=6",
                    "workers=2", "learning_rate=1e-2", dtype, NULL);

    OK(sr1_config_set(c, "code_problems", scratch_path("problems.jsonl")));
    return c;
}

static char *revision(sr1_trainer *tr)
{
    static const char *const roles[] = {"user", "assistant", "user"};
    static const char *const contents[] = {"Where?", "x = 1", "Paris"};
    static const size_t sizes[] = {6, 5, 5};
    sr1_conversation c = {.struct_size = sizeof c,
                          .roles = roles,
                          .contents = contents,
                          .sizes = sizes,
                          .n = 3};
    char *text = NULL;

    OK(sr1_generator_generate(tr->rollout->reviser, &c, 1, &text, NULL));
    return text;
}

static void updates_reach_neither_reviser_nor_reference(void **state)
{
    sr1_trainer *tr = trainer(frozen_config(NULL));
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_query q = question();
    size_t n, m;
    char *before = revision(tr), *after;
    float *reference = tiny_weights(tr->references[0], &n);
    float *policy = tiny_weights(tr->model, &m), *now;

    (void)state;
    for (int k = 0; k < 5; k++) {
        sr1_trajectory *t[8];

        OK(sr1_trainer_train_step(tr, &q, 1, 8, &r, t));
        for (size_t i = 0; i < 8; i++) { /* a reward that differs, so that it moves */
            OK(sr1_trajectory_set_advantage(t[i], i % 2 ? 1.0 : -1.0));
        }
        OK(sr1_trainer_update(tr, t, 8, &r));
        tiny_free_all(t, 8);
    }
    after = revision(tr);
    assert_string_equal(before, after);
    now = tiny_weights(tr->references[0], &n);
    assert_memory_equal(reference, now, n * sizeof *now);
    free(now);
    now = tiny_weights(tr->model, &m);
    assert_memory_not_equal(policy, now, m * sizeof *now);
    free(now);
    free(policy);
    free(reference);
    sr1_free(before);
    sr1_free(after);
    sr1_trainer_free(tr);
}

/* What is written into the reviser's weights is read in the reference's: they are one. In
 * another precision they are two. */
static void reviser_and_reference_are_one_copy(void **state)
{
    static const struct tiny_rule other[] = {{"", " nothing"}};
    static const char *const dtype[] = {NULL, "reference_dtype=bf16"};

    (void)state;
    for (int two = 0; two < 2; two++) {
        sr1_trainer *tr = trainer(frozen_config(dtype[two]));
        sr1_model *reviser = sr1__rollout_reviser(tr->rollout);
        size_t n;
        float *before = tiny_weights(tr->references[1], &n), *after;

        assert_non_null(reviser);
        tiny_teach(reviser, sr1_rollout_tokenizer(tr->rollout), other, 1, 20);
        after = tiny_weights(tr->references[1], &n);
        assert_int_equal(memcmp(before, after, n * sizeof *after) == 0, two);
        free(before);
        free(after);
        sr1_trainer_free(tr);
    }
}

/* ---- programs run while others write ---- */

/* An executor that only counts its programs, and how many were begun when. */
struct executor {
    int begun, batches; /* programs; batches of revisions */
    int at_second;      /* begun when the reviser was asked for its second batch, */
    int at_scoring;     /* and when rewards were computed */
    double last, scored;
};

static sr1_status run_program(void *self, sr1_trajectory *t)
{
    struct executor *e = self;

    (void)t;
    e->begun++;
    e->last = sr1__now();
    return SR1_OK;
}

static sr1_status collect(void *self, const sr1_trajectory *const *t, size_t n,
                          double *out)
{
    struct executor *e = self;

    e->scored = sr1__now();
    e->at_scoring = e->begun;
    for (size_t i = 0; i < n; i++)
        out[i] = right(t[i]);
    return SR1_OK;
}

static sr1_status write_counted(void *self, const sr1_conversation *const *c, size_t n,
                                sr1_generator_sink *sink)
{
    struct executor *e = self;

    if (++e->batches == 2)
        e->at_second = e->begun;
    return follow(NULL, c, n, sink);
}

/* One step of 8 critiques, of which 4 are written at a time. */
static void step_counted(struct executor *e, int early, sr1_step_report *r)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "counted",
                          .score = collect,
                          .begin = early ? run_program : NULL};
    sr1_generator_ops writer = {
        .struct_size = sizeof writer, .name = "counted", .write = write_counted};
    sr1_trainer *tr = NULL;
    sr1_config *c =
        tiny_config("critic", "environment=none", "protocol=ctrl", "rewards=environment",
                    "kl_reference=frozen", "max_rows=4", NULL);
    sr1_query q = question();

    OK(sr1_trainer_new(&tr, c, NULL));
    sr1_config_free(c);
    OK(sr1_trainer_add_reward(tr, &ops, e, 1.0));
    let_write(tr, &writer, e);
    OK(sr1_trainer_train_step(tr, &q, 1, 8, r, NULL));
    keep_metrics(r);
    sr1_trainer_free(tr);
}

static void programs_run_while_others_write_and_the_reference_reads(void **state)
{
    sr1_step_report r = {.struct_size = sizeof r};
    struct executor late = {0}, early = {0};

    (void)state;
    step_counted(&late, 0, &r);
    assert_int_equal(late.begun, 0); /* its programs run when they are scored */
    step_counted(&early, 1, &r);
    assert_int_equal(early.batches, 2);
    assert_int_equal(early.at_second, 4); /* they run while the second batch is written */
    assert_int_equal(early.at_scoring, 8);
    assert_true(step_metric(&r, "timing_s/ref") > 0);
    assert_true(early.scored - early.last >= 0.9 * step_metric(&r, "timing_s/ref"));
}

/* ---- what a critic is shown ---- */

/* Rows as sr1-data critiques --rows writes them of TACO: both fields are questions. */
static sr1_config *row_config(const char *question_field)
{
    static const char row[] =
        "{\"id\": \"p0\", \"question\": \"Where?\", \"solution\": "
        "\"```python\\nx  =  1\\n```\", \"input_output\": {\"inputs\": [\"a\"], "
        "\"outputs\": [\"b\"]}, \"critique_prompt\": \"Where? x = 1. Right?\"}\n";
    sr1_config *c = frozen_config(NULL);
    const char *path = scratch_file("rows.jsonl", row, 0);

    OK(sr1_config_set(c, "train_file", path));
    OK(sr1_config_set(c, "code_problems", path));
    OK(sr1_config_set(c, "question_field", question_field));
    return c;
}

static void a_critic_is_shown_what_it_criticises(void **state)
{
    sr1_config *bare = row_config("question"), *whole = row_config("critique_prompt");
    sr1_trainer *tr = NULL;

    (void)state;
    assert_int_equal(sr1_trainer_new(&tr, bare, NULL), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "'p0' does not show the answer"));
    assert_non_null(strstr(sr1_last_error(), "critique_prompt"));
    OK(sr1_trainer_new(&tr, whole, NULL));
    sr1_trainer_free(tr);
    sr1_config_free(bare);
    sr1_config_free(whole);
}

/* The policy's int8 and bf16 cache, which no model of fp16 has here; the reviser's
 * revisions are worth what its own weights are. */
static void a_reviser_generates_by_its_exact_weights(void **state)
{
    sr1_config *c = tiny_config("critic", "quantization=int8", "kv_cache_dtype=bfloat16",
                                "dtype=fp16", NULL);
    sr1_generator *g = NULL;

    (void)state;
    REFUSED(sr1_generator_open_model(&g, scratch_path("critic"), c, NULL),
            SR1_E_UNSUPPORTED, "quantization int8");
    OK(sr1_generator_open_reviser(&g, c));
    sr1_generator_free(g);
    sr1_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(critiques_that_lead_to_right_revisions_are_learned),
        cmocka_unit_test(updates_reach_neither_reviser_nor_reference),
        cmocka_unit_test(reviser_and_reference_are_one_copy),
        cmocka_unit_test(programs_run_while_others_write_and_the_reference_reads),
        cmocka_unit_test(a_critic_is_shown_what_it_criticises),
        cmocka_unit_test(a_reviser_generates_by_its_exact_weights),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
