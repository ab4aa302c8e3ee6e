/* The loop over a generation engine: what it gives an engine and takes of it, with an
 * engine that is made up here. It says what the model itself has said, in lumps of any
 * size, in another order, and with tokens behind the end of a turn. */
#include "support/tiny.h"

#include "policy/rollout_internal.h"

#define MOST 4

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    return 0;
}

/* ---- the engine ---- */

struct fake_slot {
    const sr1_trajectory *script; /* NULL: empty */
    size_t held;                  /* of its ids, given or sampled */
    int owes;                     /* an output */
};

struct fake {
    sr1_trajectory *const *scripts; /* [n_scripts] by question */
    size_t n_scripts;
    size_t lump; /* tokens an output, the rest are behind the end of the turn */
    int32_t fails;
    enum sr1__engine_finish finish; /* of outputs without the last token of a turn */
    size_t n_slots;
    struct fake_slot slots[MOST];
    int32_t ids[64];
    float log_probs[64];
    struct sr1__error error;
    int steps, opened, closed, begun, ended, wakes;
};

static sr1_status fake_begin(void *self, const struct sr1__engine_task *task)
{
    struct fake *f = self;

    assert_true(task->n_slots >= 1 && task->n_slots <= MOST);
    f->n_slots = (size_t)task->n_slots;
    f->begun++;
    memset(f->slots, 0, sizeof f->slots);
    return SR1_OK;
}

static sr1_status fake_open(void *self, int32_t slot, const sr1_query *q)
{
    struct fake *f = self;

    assert_true(slot >= 0 && (size_t)slot < f->n_slots);
    assert_null(f->slots[slot].script);
    for (size_t i = 0; i < f->n_scripts; i++)
        if (strcmp(sr1_trajectory_query(f->scripts[i], NULL), q->text) == 0)
            f->slots[slot].script = f->scripts[i];
    assert_non_null(f->slots[slot].script);
    f->opened++;
    return SR1_OK;
}

/* The ids are the script's, of which the slot has what it was given before. */
static void take_input(struct fake *f, const struct sr1__engine_input *in)
{
    struct fake_slot *s = &f->slots[in->slot];
    const int32_t *ids = sr1_trajectory_ids(s->script);

    assert_false(s->owes);
    assert_true(in->n_ids > in->n_held && in->max_tokens > 0 && in->n_scored == 0);
    assert_int_equal(in->held_by, in->slot);
    assert_int_equal(in->n_held, s->held);
    assert_true(in->n_ids < sr1_trajectory_token_count(s->script));
    assert_memory_equal(in->ids, ids, in->n_ids * sizeof *ids);
    s->held = in->n_ids;
    s->owes = 1;
}

/* The next tokens of the script's turn; behind its last one two that were never said. */
static void give_output(struct fake *f, int32_t slot, struct sr1__engine_output *o)
{
    struct fake_slot *s = &f->slots[slot];
    const uint8_t *sources = sr1_trajectory_sources(s->script);
    size_t all = sr1_trajectory_token_count(s->script), n = 0;

    s->owes = 0;
    for (size_t i = s->held; n < f->lump && i < all && sources[i] == SR1_SOURCE_POLICY;
         i++) {
        f->ids[n] = sr1_trajectory_ids(s->script)[i];
        f->log_probs[n++] = sr1_trajectory_log_probs(s->script)[i];
    }
    for (; n > 1 && n < f->lump; n++) {
        f->ids[n] = f->ids[0];
        f->log_probs[n] = -1.0F;
    }
    *o = (struct sr1__engine_output){.slot = slot,
                                     .ids = f->ids,
                                     .log_probs = f->log_probs,
                                     .n = n,
                                     .finish = f->finish};
    if (f->fails-- > 0) {
        o->n = 0;
        o->finish = SR1__ENGINE_FAILED;
        o->error = &f->error;
    }
}

/* One output every second step, of the last slot that owes one. */
static sr1_status fake_step(void *self, const struct sr1__engine_input *in, size_t n,
                            struct sr1__engine_output *out, size_t *n_out)
{
    struct fake *f = self;

    for (size_t k = 0; k < n; k++)
        take_input(f, &in[k]);
    if (f->steps++ % 2)
        return SR1_OK;
    for (int32_t i = (int32_t)f->n_slots; i-- > 0 && *n_out == 0;)
        if (f->slots[i].owes)
            give_output(f, i, &out[(*n_out)++]);
    return SR1_OK;
}

static sr1_status break_down(void *self, const struct sr1__engine_input *in, size_t n,
                             struct sr1__engine_output *out, size_t *n_out)
{
    (void)self, (void)in, (void)n, (void)out, (void)n_out;
    return sr1_set_error(SR1_E_INTERNAL, "the engine broke down");
}

static void fake_close(void *self, int32_t slot)
{
    struct fake *f = self;

    f->slots[slot] = (struct fake_slot){0};
    f->closed++;
}

static void fake_wake(void *self)
{
    ((struct fake *)self)->wakes++;
}

static void fake_end(void *self)
{
    ((struct fake *)self)->ended++;
}

static void fake_destroy(void *self)
{
    (void)self;
}

static struct sr1__generation_ops fake_ops(void)
{
    return (struct sr1__generation_ops){.name = "fake",
                                        .begin = fake_begin,
                                        .open = fake_open,
                                        .step = fake_step,
                                        .close = fake_close,
                                        .wake = fake_wake,
                                        .end = fake_end,
                                        .destroy = fake_destroy};
}

/* ---- with it ---- */

#define QUESTIONS 3

static const char *const questions[QUESTIONS] = {"Where is the tower?", "Where?",
                                                 "The tower, where is it?"};

static sr1_status generate(sr1_rollout *r, int32_t group, sr1_trajectory **t)
{
    sr1_query q[QUESTIONS];
    sr1_rollout_options o = {
        .struct_size = sizeof o, .group_size = group, .greedy = 1, .seed = 5};

    for (size_t i = 0; i < QUESTIONS; i++)
        q[i] = tiny_query(questions[i]);
    return sr1_rollout_generate(r, q, QUESTIONS, &o, t);
}

static sr1_env *search_env(void)
{
    sr1_search *e = tiny_engine();
    sr1_env_options o = {.struct_size = sizeof o, .document_format = "plain"};
    sr1_env *env = NULL;

    OK(sr1_env_open(&env, "search", e, &o));
    sr1_search_free(e);
    return env;
}

/* A rollout whose tokens come from the fake; the environment is opened anew, for what
 * carries out its actions depends on the engine. */
static sr1_rollout *rollout_over(struct fake *f, const struct sr1__generation_ops *ops)
{
    sr1_rollout *r = tiny_rollout(tiny_config("searcher", NULL), tiny_engine());
    sr1_env *env = search_env();

    r->server = (struct sr1__engine){.ops = ops, .self = f, .n_slots = MOST};
    OK(sr1_rollout_set_env(r, env));
    sr1_env_free(env);
    return r;
}

/* What the model itself says to each question. */
static void make_scripts(sr1_trajectory **scripts)
{
    sr1_rollout *r = tiny_rollout(tiny_config("searcher", NULL), tiny_engine());

    OK(generate(r, 1, scripts));
    assert_int_equal(sr1_trajectory_search_count(scripts[0]), 1);
    sr1_rollout_free(r);
}

static void same_trajectory(const sr1_trajectory *a, const sr1_trajectory *b)
{
    size_t n = sr1_trajectory_token_count(a);

    assert_int_equal(sr1_trajectory_token_count(b), n);
    assert_memory_equal(sr1_trajectory_ids(a), sr1_trajectory_ids(b),
                        n * sizeof(int32_t));
    assert_memory_equal(sr1_trajectory_sources(a), sr1_trajectory_sources(b), n);
    assert_memory_equal(sr1_trajectory_turns(a), sr1_trajectory_turns(b),
                        n * sizeof(int32_t));
    assert_memory_equal(sr1_trajectory_log_probs(a), sr1_trajectory_log_probs(b),
                        n * sizeof(float));
    assert_string_equal(sr1_trajectory_final_answer(a, NULL),
                        sr1_trajectory_final_answer(b, NULL));
    assert_int_equal(sr1_trajectory_stop_reason(a), sr1_trajectory_stop_reason(b));
}

static double sum_of_log_probs(const sr1_trajectory *t)
{
    const uint8_t *sources = sr1_trajectory_sources(t);
    double sum = 0;

    for (size_t i = 0; i < sr1_trajectory_token_count(t); i++)
        if (sources[i] == SR1_SOURCE_POLICY)
            sum += sr1_trajectory_log_probs(t)[i];
    return sum;
}

static void lumps_in_any_order_are_the_same_trajectories(void **state)
{
    static const size_t lumps[] = {1, 2, 3, 40};
    struct sr1__generation_ops ops = fake_ops();
    sr1_trajectory *scripts[QUESTIONS] = {NULL};

    (void)state;
    make_scripts(scripts);
    for (size_t k = 0; k < sizeof lumps / sizeof *lumps; k++) {
        struct fake f = {.scripts = scripts, .n_scripts = QUESTIONS, .lump = lumps[k]};
        sr1_trajectory *t[3 * QUESTIONS] = {NULL};
        sr1_rollout *r = rollout_over(&f, &ops);
        struct sr1__rollout_stats stats;
        double entropy = 0;

        OK(generate(r, 3, t));
        for (size_t i = 0; i < 3 * QUESTIONS; i++) {
            same_trajectory(t[i], scripts[i / 3]);
            entropy -= sum_of_log_probs(t[i]);
        }
        sr1__rollout_stats(r, &stats);
        assert_float_equal(stats.entropy, entropy, 1e-6);
        assert_int_equal(stats.searches, 3 * QUESTIONS);
        assert_int_equal(f.opened, 3 * QUESTIONS);
        assert_int_equal(f.closed, 3 * QUESTIONS);
        assert_true(f.wakes >= 3 * QUESTIONS); /* an observation is news to the engine */
        assert_int_equal(f.begun, 1);
        assert_int_equal(f.ended, 1);
        tiny_free_all(t, 3 * QUESTIONS);
        sr1_rollout_free(r);
    }
    tiny_free_all(scripts, QUESTIONS);
}

static void what_it_fails_to_continue_is_excluded(void **state)
{
    struct sr1__generation_ops ops = fake_ops();
    sr1_trajectory *scripts[QUESTIONS] = {NULL}, *t[QUESTIONS] = {NULL};
    struct fake f = {.scripts = scripts, .n_scripts = QUESTIONS, .lump = 40, .fails = 2};
    int failed = 0;
    sr1_rollout *r;

    (void)state;
    make_scripts(scripts);
    sr1__error_save(&f.error, sr1__fail(SR1_E_NETWORK, "it is out for lunch"));
    r = rollout_over(&f, &ops);
    OK(generate(r, 1, t));
    for (size_t i = 0; i < QUESTIONS; i++)
        failed += sr1_trajectory_stop_reason(t[i]) == SR1_STOP_ERROR;
    assert_int_equal(failed, 2);
    tiny_free_all(t, QUESTIONS);
    memset(t, 0, sizeof t);
    f.fails = 100;
    REFUSED(generate(r, 1, t), SR1_E_NETWORK, "out for lunch");
    assert_null(t[0]);
    assert_int_equal(f.ended, 2);
    sr1_rollout_free(r);
    tiny_free_all(scripts, QUESTIONS);
}

static void its_finish_ends_an_open_turn(void **state)
{
    static const struct {
        enum sr1__engine_finish finish;
        int32_t stop;
    } rows[] = {{SR1__ENGINE_ENDED, SR1_STOP_EOS},
                {SR1__ENGINE_TRUNCATED, SR1_STOP_TOKEN_LIMIT}};
    struct sr1__generation_ops ops = fake_ops();
    sr1_trajectory *scripts[QUESTIONS] = {NULL};

    (void)state;
    make_scripts(scripts);
    for (size_t k = 0; k < 2; k++) {
        struct fake f = {.scripts = scripts,
                         .n_scripts = QUESTIONS,
                         .lump = 1,
                         .finish = rows[k].finish};
        sr1_trajectory *t[QUESTIONS] = {NULL};
        sr1_rollout *r = rollout_over(&f, &ops);

        OK(generate(r, 1, t));
        for (size_t i = 0; i < QUESTIONS; i++) {
            assert_int_equal(sr1_trajectory_stop_reason(t[i]), rows[k].stop);
            assert_int_equal(sr1_trajectory_policy_count(t[i]), 1);
        }
        tiny_free_all(t, QUESTIONS);
        sr1_rollout_free(r);
    }
    tiny_free_all(scripts, QUESTIONS);
}

static void a_broken_engine_ends_the_call(void **state)
{
    struct sr1__generation_ops ops = fake_ops();
    sr1_trajectory *scripts[QUESTIONS] = {NULL}, *t[QUESTIONS] = {NULL};
    struct fake f = {.scripts = scripts, .n_scripts = QUESTIONS, .lump = 40};
    sr1_rollout *r;

    (void)state;
    make_scripts(scripts);
    ops.step = break_down;
    r = rollout_over(&f, &ops);
    REFUSED(generate(r, 1, t), SR1_E_INTERNAL, "broke down");
    assert_null(t[0]);
    assert_int_equal(f.ended, f.begun);
    r->local = 1; /* the model can take its place */
    OK(generate(r, 1, t));
    for (size_t i = 0; i < QUESTIONS; i++)
        same_trajectory(t[i], scripts[i]);
    tiny_free_all(t, QUESTIONS);
    sr1_rollout_free(r);
    tiny_free_all(scripts, QUESTIONS);
}

/* ---- an engine of this process ---- */

#define LONGEST 12

static struct sr1__engine_output step_once(const struct sr1__engine *e,
                                           const struct sr1__engine_input *in, size_t n)
{
    struct sr1__engine_output out[MOST] = {{0}};
    size_t n_out = 0;

    OK(e->ops->step(e->self, in, n, out, &n_out));
    assert_true(n_out <= 1);
    return out[0];
}

/* Scores of the last two ids, from a slot that begins as `in` says. */
static void score_two(const struct sr1__engine *e, struct sr1__engine_input in,
                      float scores[4])
{
    struct sr1__engine_output o;

    in.n_scored = 2;
    o = step_once(e, &in, 1);
    assert_int_equal(o.slot, in.slot);
    assert_null(o.ids);
    assert_int_equal(o.n, 2);
    memcpy(scores, o.log_probs, 2 * sizeof *scores);
    memcpy(scores + 2, o.entropies, 2 * sizeof *scores);
}

/* Read whole, continued, copied from another slot, or cut back: the scores are the same,
 * and nothing of what was dropped is left. */
static void beginnings_may_be_held_anywhere(void **state)
{
    sr1_rollout *r = tiny_rollout(tiny_config("searcher", "max_rows=4", NULL), NULL);
    const struct sr1__engine *e = &r->engines[0];
    struct sr1__rollout_stats stats = {0};
    const struct sr1__engine_task task = {.sampling = &r->sampling,
                                          .score_temperature = 1,
                                          .env = r->env,
                                          .n_slots = 3,
                                          .stats = &stats,
                                          .lock = &r->env_lock};
    int32_t ids[LONGEST], other[LONGEST];
    float whole[4], scores[4];
    struct sr1__engine_input in[2] = {{.slot = 0, .ids = ids, .n_ids = LONGEST}};

    (void)state;
    for (int32_t i = 0; i < LONGEST; i++) {
        ids[i] = 20 + 3 * i;
        other[i] = i < 6 ? ids[i] : 21 + 3 * i;
    }
    OK(e->ops->begin(e->self, &task));
    score_two(e, in[0], whole);
    assert_true(isfinite(whole[0]) && whole[2] > 0);

    /* slot 1 reads something else behind six ids, slot 2 begins with five of them */
    in[0] = (struct sr1__engine_input){
        .slot = 2, .ids = ids, .n_ids = 5, .n_held = 5, .held_by = 1};
    in[1] = (struct sr1__engine_input){
        .slot = 1, .ids = other, .n_ids = LONGEST, .held_by = 1};
    step_once(e, in, 2);
    assert_int_equal(stats.decode_steps, 1);
    score_two(e, (struct sr1__engine_input){2, 2, ids, LONGEST, 5, 0, NULL, 0}, scores);
    assert_memory_equal(scores, whole, sizeof whole);
    score_two(e, (struct sr1__engine_input){1, 1, ids, LONGEST, 6, 0, NULL, 0}, scores);
    assert_memory_equal(scores, whole, sizeof whole);
    score_two(e, (struct sr1__engine_input){2, 1, ids, LONGEST, 4, 0, NULL, 0}, scores);
    assert_memory_equal(scores, whole, sizeof whole);
    e->ops->end(e->self);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lumps_in_any_order_are_the_same_trajectories),
        cmocka_unit_test(what_it_fails_to_continue_is_excluded),
        cmocka_unit_test(its_finish_ends_an_open_turn),
        cmocka_unit_test(a_broken_engine_ends_the_call),
        cmocka_unit_test(beginnings_may_be_held_anywhere),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
