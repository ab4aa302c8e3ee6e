/* Every estimator with every loss, every protocol with every environment: two steps each,
 * and what is refused says why. */
#include "leveller.h"
#include "step_metric.h"

#include "environment/env/protocol.h"
#include "signal/loss/loss.h"

/* Loss names that the key takes: all rows but imitation. */
static int is_choice(const char *loss)
{
    return strcmp(loss, "nll") != 0;
}

/* Levels that were compared in two steps. */
static int64_t take_two(sr1_trainer *tr, const char *id, const char *what)
{
    sr1_query q = tiny_query("Where is the tower?");
    sr1_step_report r = {.struct_size = sizeof r};
    int64_t compared = 0;

    q.id = id;
    for (int k = 0; k < 2; k++) {
        if (sr1_trainer_train_step(tr, &q, 1, 4, &r, NULL) != SR1_OK)
            fail_msg("%s: %s", what, sr1_last_error());
        if (step_metric(&r, "training/skipped_updates") || !isfinite(r.loss) ||
            !isfinite(r.grad_norm))
            fail_msg("%s: loss %g, gradient %g", what, r.loss, r.grad_norm);
        compared += (int64_t)step_metric(&r, "thinking/steps_compared");
    }
    return compared;
}

/* ---- estimators with losses ---- */

static int needs_levels(size_t estimator)
{
    sr1_advantage_info info = {.struct_size = sizeof info};

    OK(sr1_advantage_describe(estimator, &info));
    return info.needs & SR1_ADVANTAGE_NEEDS_TURN_TAGS;
}

static void two_steps(size_t estimator, const char *loss)
{
    char a[64], l[64], what[160];
    int levels = needs_levels(estimator);
    sr1_trainer *tr = NULL;
    sr1_config *c;
    int64_t compared;

    snprintf(a, sizeof a, "advantage=%s", sr1_advantage_name(estimator));
    snprintf(l, sizeof l, "loss=%s", loss);
    snprintf(what, sizeof what, "%s, %s", a, l);
    c = tiny_config(
        levels ? "leveller" : "model", train_path, knowledge_path, out_pair("pair"), a, l,
        "group_size=4", "update_times=1", "learning_rate=1e-4",
        levels ? "protocol=rlvcr" : "protocol=search-r1", "level_max_tokens=20",
        "thinking_cost_w=0.5", "max_tokens=40", "dro_beta=1", NULL);
    if (sr1_trainer_new(&tr, c, NULL) != SR1_OK)
        fail_msg("%s: %s", what, sr1_last_error());
    sr1_config_free(c);
    compared = take_two(tr, NULL, what);
    if (strcmp(sr1_advantage_name(estimator), "rlvcr") == 0)
        assert_true(compared > 0);
    else
        assert_int_equal(compared, 0);
    sr1_trainer_free(tr);
}

static void every_estimator_goes_with_every_loss(void **state)
{
    size_t pairs = 0;

    (void)state;
    for (size_t i = 0; sr1_advantage_name(i); i++) {
        for (size_t k = 0; sr1_loss_name(k); k++) {
            if (!is_choice(sr1_loss_name(k)))
                continue;
            two_steps(i, sr1_loss_name(k));
            pairs++;
        }
    }
    assert_true(pairs >= 18 * 11);
}

/* Levels are the protocol's: elsewhere the estimators that ask for them are refused. */
static void levels_need_their_protocol(void **state)
{
    (void)state;
    for (size_t i = 0; sr1_advantage_name(i); i++) {
        sr1_trainer *tr = NULL;
        sr1_config *c;
        char a[64];

        if (!needs_levels(i))
            continue;
        snprintf(a, sizeof a, "advantage=%s", sr1_advantage_name(i));
        c = tiny_config("model", train_path, knowledge_path, out_pair("pair"), a, NULL);
        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
                "needs turn_tags, which only the protocol rlvcr has");
        sr1_config_free(c);
    }
}

static void tags_need_their_protocol(void **state)
{
    sr1_config *c = tiny_config("model", train_path, knowledge_path, out_pair("pair"),
                                "advantage=gigpo", "step_advantage_tokens=level", NULL);
    sr1_trainer *tr = NULL;

    (void)state;
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "step_advantage_tokens: level needs the tags of levels");
    sr1_config_free(c);
}

/* ---- protocols with environments ---- */

static void speak_in(const char *protocol, const char *environment, const char *advantage)
{
    static const char world[] = "{\"id\": \"rooms-train-3\", \"question\": \"Go.\", "
                                "\"golden_answers\": [\"go\"]}\n";
    char p[64], e[64], a[64], what[200];
    int levels = strcmp(protocol, "rlvcr") == 0;
    char rows[700];
    sr1_trainer *tr = NULL;
    sr1_config *c;

    snprintf(rows, sizeof rows, "%s", train_path);
    snprintf(p, sizeof p, "protocol=%s", protocol);
    snprintf(e, sizeof e, "environment=%s", environment);
    snprintf(a, sizeof a, "advantage=%s", advantage);
    snprintf(what, sizeof what, "%s, %s, %s", p, e, a);
    if (strcmp(environment, "rooms") == 0)
        snprintf(rows, sizeof rows, "train_file=%s",
                 scratch_file("world.jsonl", world, 0));
    c = tiny_config(levels ? "leveller" : "model", rows, knowledge_path, out_pair("pair"),
                    p, e, a, "group_size=4", "update_times=1", "learning_rate=1e-4",
                    "rewards=format,environment", "max_tokens=40", "level_max_tokens=20",
                    NULL);
    if (sr1_trainer_new(&tr, c, NULL) != SR1_OK)
        fail_msg("%s: %s", what, sr1_last_error());
    sr1_config_free(c);
    (void)take_two(tr, "rooms-train-3", what);
    sr1_trainer_free(tr);
}

/* A critique is a whole message and its answer a revision: ctrl and critique are for each
 * other (test_critics.c trains them). A chat has nothing to act by. */
static int is_refused(const char *protocol, const char *environment)
{
    int acts = strcmp(protocol, "chat") != 0;
    int speaks = strcmp(protocol, "ctrl") == 0;
    int revises = strcmp(environment, "critique") == 0;

    return (!acts || speaks != revises) && strcmp(environment, "none") != 0;
}

static void refuse(const char *protocol, const char *environment)
{
    int chats = strcmp(protocol, "chat") == 0 && strcmp(environment, "critique") != 0;
    char p[64], e[64];
    sr1_trainer *tr = NULL;
    sr1_config *c;

    snprintf(p, sizeof p, "protocol=%s", protocol);
    snprintf(e, sizeof e, "environment=%s", environment);
    c = tiny_config("model", train_path, knowledge_path, out_pair("pair"), p, e, NULL);
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            chats ? "it needs environment none" : "critique");
    sr1_config_free(c);
}

static void every_protocol_goes_with_every_environment(void **state)
{
    static const char *const environments[] = {"search", "tools", "rooms", "none",
                                               "critique"};

    (void)state;
    for (size_t i = 0; sr1__protocol_name(i); i++)
        for (size_t k = 0; k < sizeof environments / sizeof *environments; k++)
            if (is_refused(sr1__protocol_name(i), environments[k]))
                refuse(sr1__protocol_name(i), environments[k]);
            else if (strcmp(environments[k], "critique") != 0)
                speak_in(sr1__protocol_name(i), environments[k], "grpo");
    for (size_t k = 0; k < sizeof environments / sizeof *environments; k++)
        if (strcmp(environments[k], "critique") != 0)
            speak_in("rlvcr", environments[k], "rlvcr");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_estimator_goes_with_every_loss),
        cmocka_unit_test(levels_need_their_protocol),
        cmocka_unit_test(tags_need_their_protocol),
        cmocka_unit_test(every_protocol_goes_with_every_environment),
    };

    return cmocka_run_group_tests_name("pairs", tests, leveller_make, scratch_remove);
}
