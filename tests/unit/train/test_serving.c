/* Training on what a server generates: the same update as on one's own rollouts, refusals
 * of servers that give too little, weights that grow old and are renewed. */
#include "support/openai_server.h"

#include "runs.h"
#include "step_metric.h"

#include <searchr1/ext/synthesis.h>

#include <unistd.h>

#define GROUP 4

/* Calls its tool, or answers: one or the other in every message. */
static const struct tiny_rule caller[] = {{"", "<tool>"},        {"", "<answer>"},
                                          {"<tool>", TINY_CALL}, {TINY_CALL, "</tool>"},
                                          {"<answer>", " Rome"}, {" Rome", "</answer>"}};

static const struct tiny_rule halves[] = {{"", "</sear"},
                                          {"", " so"},
                                          {"</sear", "ch> and"},
                                          {"ch> and", "<|im_end|>"},
                                          {" so", "<|im_end|>"}};
static const struct tiny_rule quiet[] = {{"", " so"}, {" so", "<|im_end|>"}};

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    tiny_model("caller", caller, sizeof caller / sizeof *caller, 16);
    tiny_model("quiet", quiet, 2, 16);
    tiny_model("unsure", quiet, 2, 1);
    tiny_model("halves", halves, sizeof halves / sizeof *halves, 16);
    return 0;
}

static struct openai_server server;

static sr1_config *config_of(const char *model, const char *word, const char *other)
{
    sr1_config *c = tiny_config(model, "beta=0", NULL);
    char out[600];

    openai_use(&server, c);
    snprintf(out, sizeof out, "out=%s", scratch_path("run"));
    OK(sr1_config_set_pair(c, out));
    if (word)
        OK(sr1_config_set_pair(c, word));
    if (other)
        OK(sr1_config_set_pair(c, other));
    return c;
}

static sr1_config *config_for(const char *word, const char *other)
{
    return config_of("searcher", word, other);
}

static sr1_trainer *trainer_for(const char *word, const char *other)
{
    return tiny_trainer(config_for(word, other));
}

static sr1_status step(sr1_trainer *tr, sr1_step_report *r, sr1_trajectory **out)
{
    sr1_query q = tiny_query("Where is the tower?");

    *r = (sr1_step_report){.struct_size = sizeof *r};
    return sr1_trainer_train_step(tr, &q, 1, GROUP, r, out);
}

static void a_step_learns_from_the_servers_trajectories(void **state)
{
    sr1_trajectory *t[GROUP] = {NULL};
    sr1_step_report r;
    sr1_trainer *tr;
    float *before, *after;
    size_t n, moved = 0;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    tr = trainer_for(NULL, NULL);
    before = tiny_weights(sr1_rollout_model(sr1_trainer_rollout(tr)), &n);
    OK(step(tr, &r, t));
    after = tiny_weights(sr1_rollout_model(sr1_trainer_rollout(tr)), &n);
    for (size_t i = 0; i < n; i++)
        moved += before[i] != after[i];
    assert_true(moved > n / 2);
    assert_true(server.completions >= GROUP);
    assert_int_equal(step_metric(&r, "rollout/staleness"), 0);
    /* the server has the same weights: what it says of its tokens is what we say */
    assert_true(step_metric(&r, "sampling/sampling_logp_difference/max") < 2e-5);
    assert_true(r.entropy > 0);
    for (size_t i = 0; i < GROUP; i++)
        assert_int_equal(sr1_trajectory_weights_version(t[i]), 0);
    tiny_free_all(t, GROUP);
    free(before);
    free(after);
    sr1_trainer_free(tr);
    openai_stop(&server);
}

static void too_little_is_refused(void **state)
{
    static const struct {
        int plain, no_ids, no_log_probs, cut_stop;
        const char *word;
        const char *text;
        int adds_prompt;
    } rows[] = {
        {0, 1, 0, 0, NULL, "gives no token ids"},
        {0, 0, 1, 0, NULL, "gives no log-probs"},
        {1, 0, 0, 0, NULL, "set openai_endpoint to completions"},
        {1, 0, 0, 0, "openai_endpoint=completions", "gives no token ids"},
        {0, 0, 0, 1, NULL, "cuts </"},
        {0, 0, 0, 0, "openai_endpoint=chat", "set openai_endpoint to completions"},
        {0, 0, 0, 0, "temperature=0.7", "raw, of temperature 1"},
        {0, 0, 0, 0, NULL, "read another prompt than the", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_search *e = tiny_engine();
        sr1_trainer *tr = NULL;
        sr1_step_report r;
        sr1_config *c;
        sr1_status st;

        openai_start(&server, scratch_path("searcher"));
        server.plain = rows[i].plain;
        server.no_ids = rows[i].no_ids;
        server.no_log_probs = rows[i].no_log_probs;
        server.cut_stop = rows[i].cut_stop;
        server.adds_prompt = rows[i].adds_prompt;
        c = config_for(rows[i].word, NULL);
        st = sr1_trainer_new(&tr, c, e);
        if (st == SR1_OK)
            st = step(tr, &r, NULL);
        if ((st != SR1_E_CONFIG && st != SR1_E_UNSUPPORTED) ||
            !strstr(sr1_last_error(), rows[i].text))
            fail_msg("row %zu: %s", i, sr1_last_error());
        sr1_trainer_free(tr);
        sr1_config_free(c);
        sr1_search_free(e);
        openai_stop(&server);
    }
}

/* Where a message must end before the next begins, its end has a log-prob, or nothing is
 * learned; elsewhere the trajectory is over. */
static void an_end_without_log_prob_is_not_made_up(void **state)
{
    sr1_trajectory *t[GROUP] = {NULL};
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("quiet"));
    server.cut_end = 1;
    tr = tiny_trainer(config_of("quiet", "protocol=search-r1-compat", NULL));
    REFUSED(step(tr, &r, NULL), SR1_E_UNSUPPORTED,
            "does not give the token that ended its message");
    sr1_trainer_free(tr);
    tr = tiny_trainer(config_of("quiet", NULL, NULL));
    OK(step(tr, &r, t));
    for (size_t i = 0; i < GROUP; i++) {
        assert_true(sr1_trajectory_policy_count(t[i]) > 0);
        assert_int_equal(sr1_trajectory_stop_reason(t[i]), SR1_STOP_EOS);
    }
    tiny_free_all(t, GROUP);
    sr1_trainer_free(tr);
    openai_stop(&server);
}

/* What the server would cut by defaults of its own is switched off. */
static void the_servers_own_defaults_are_not_used(void **state)
{
    sr1_trajectory *t[GROUP] = {NULL};
    sr1_step_report r;
    sr1_trainer *tr;
    int others = 0;

    (void)state;
    openai_start(&server, scratch_path("unsure"));
    server.default_top_k = 1;
    tr = tiny_trainer(config_of("unsure", NULL, NULL));
    OK(step(tr, &r, t));
    for (size_t i = 1; i < GROUP; i++)
        others += strcmp(sr1_trajectory_generated_text(t[i], NULL),
                         sr1_trajectory_generated_text(t[0], NULL)) != 0;
    assert_true(others > 0);
    tiny_free_all(t, GROUP);
    sr1_trainer_free(tr);
    openai_stop(&server);
}

static void old_weights_are_refused_or_weighed(void **state)
{
    sr1_trajectory *t[GROUP] = {NULL};
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    tr = trainer_for(NULL, NULL);
    OK(step(tr, &r, t));
    REFUSED(step(tr, &r, NULL), SR1_E_STATE, "1 steps behind, max_staleness is 0");
    for (size_t i = 0; i < GROUP; i++) {
        OK(sr1_trajectory_set_reward(t[i], (double)i));
        OK(sr1_trajectory_set_advantage(t[i], (double)i - 1.5));
    }
    r = (sr1_step_report){.struct_size = sizeof r};
    REFUSED(sr1_trainer_update(tr, t, GROUP, &r), SR1_E_STATE, "is 1 steps old");
    assert_int_equal(sr1_trainer_steps_done(tr), 1);
    tiny_free_all(t, GROUP);
    sr1_trainer_free(tr);
    /* allowed */
    tr = trainer_for("max_staleness=1", NULL);
    OK(step(tr, &r, NULL));
    OK(step(tr, &r, NULL));
    assert_int_equal(step_metric(&r, "rollout/staleness"), 1);
    REFUSED(step(tr, &r, NULL), SR1_E_STATE, "2 steps behind, max_staleness is 1");
    sr1_trainer_free(tr);
    /* weighed: the ratio of the policy before the update to the sampler is not 1 */
    tr = trainer_for("importance_correction=token_truncate", "learning_rate=0.02");
    OK(step(tr, &r, NULL));
    tiny_near(step_metric(&r, "rollout_corr/rollout_is_mean"), 1.0, 1e-4);
    OK(step(tr, &r, NULL));
    assert_int_equal(step_metric(&r, "rollout/staleness"), 1);
    assert_true(step_metric(&r, "sampling/sampling_logp_difference/mean") > 1e-3);
    assert_true(fabs(step_metric(&r, "rollout_corr/rollout_is_max") - 1.0) > 1e-3);
    sr1_trainer_free(tr);
    openai_stop(&server);
}

static void a_plan_that_cannot_be_kept_is_refused_at_once(void **state)
{
    sr1_search *e = tiny_engine();
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    c = config_for("max_steps=3", NULL);
    OK(sr1_config_set(c, "train_file", tiny_questions("train.jsonl", 4)));
    REFUSED(sr1_trainer_new(&tr, c, e), SR1_E_CONFIG, "3 steps are planned");
    OK(sr1_config_set(c, "max_staleness", "2"));
    OK(sr1_trainer_new(&tr, c, e));
    sr1_trainer_free(tr);
    tr = NULL;
    OK(sr1_config_set(c, "max_staleness", "1"));
    OK(sr1_config_set(c, "openai_sync_url", server.http.url));
    OK(sr1_config_set(c, "openai_sync_interval", "4")); /* more than the plan has */
    REFUSED(sr1_trainer_new(&tr, c, e), SR1_E_CONFIG, "gets 2 steps old");
    OK(sr1_config_set(c, "openai_sync_interval", "2"));
    OK(sr1_trainer_new(&tr, c, e));
    sr1_trainer_free(tr);
    sr1_config_free(c);
    sr1_search_free(e);
    openai_stop(&server);
}

/* The server is told where the weights lie, and its trajectories are new again. */
static void new_weights_reach_the_server(void **state)
{
    char url[128], other[160];
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    snprintf(url, sizeof url, "openai_sync_url=%s/update_weights_from_disk",
             server.http.url);
    tr = trainer_for(url, NULL);
    OK(step(tr, &r, NULL)); /* it may still have the weights of another run */
    assert_int_equal(server.loads, 1);
    assert_non_null(strstr(server.loaded, "/searcher\"}"));
    OK(step(tr, &r, NULL));
    assert_int_equal(server.loads, 2);
    assert_int_equal(step_metric(&r, "rollout/staleness"), 0);
    assert_non_null(strstr(server.loaded, "{\"model_path\":\"/"));
    assert_non_null(strstr(server.loaded, "/run/served\"}"));
    assert_true(sr1__path_exists(scratch_path("run/served/model.safetensors")));
    sr1_trainer_free(tr);
    tr = trainer_for(url, "openai_sync_interval=2");
    OK(step(tr, &r, NULL));
    REFUSED(step(tr, &r, NULL), SR1_E_STATE, "1 steps behind");
    sr1_trainer_free(tr);
    snprintf(other, sizeof other, "openai_sync_url=%s/nothing/there", server.http.url);
    tr = trainer_for(other, NULL);
    server.fail_code = 404;
    server.fail_every = 1;
    REFUSED(step(tr, &r, NULL), SR1_E_NETWORK, "openai_sync_url: http://127.0.0.1");
    sr1_trainer_free(tr);
    openai_stop(&server);
}

/* Servers load whole models, and what they are given is the policy with its adapter. */
static void an_adapter_reaches_the_server_merged(void **state)
{
    char url[128], folder[600];
    sr1_model *served = NULL;
    sr1_trainer *tr = NULL;
    float want[384], got[384];
    sr1_step_report r;
    sr1_config *c;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    snprintf(url, sizeof url, "openai_sync_url=%s/update_weights_from_disk",
             server.http.url);
    tr = trainer_for(url, "lora_rank=2");
    OK(step(tr, &r, NULL));
    OK(sr1_model_logits(tr->model, (int32_t[]){7}, 1, want));
    OK(step(tr, &r, NULL));
    assert_int_equal(server.loads, 2);
    assert_false(sr1__path_exists(scratch_path("run/served/adapter_config.json")));
    assert_true(sr1__path_exists(scratch_path("run/served/tokenizer.json")));
    OK(sr1_model_open(&served, scratch_path("run/served"), NULL));
    OK(sr1_model_logits(served, (int32_t[]){7}, 1, got));
    for (size_t i = 0; i < 384; i++)
        tiny_near(got[i], want[i], 1e-4);
    sr1_model_free(served);
    OK(sr1_trainer_save_model(tr, scratch_path("adapted")));
    sr1_trainer_free(tr);
    /* A run that begins with an adapter sends that, merged, before its first step. */
    c = config_for(url, "lora_rank=2");
    snprintf(folder, sizeof folder, "model_name_or_path=%s", scratch_path("adapted"));
    OK(sr1_config_set_pair(c, folder));
    OK(sr1_config_set(c, "out", scratch_path("goes-on")));
    tr = tiny_trainer(c);
    OK(sr1_model_logits(tr->model, (int32_t[]){7}, 1, want));
    OK(step(tr, &r, NULL));
    assert_int_equal(server.loads, 3);
    assert_non_null(strstr(server.loaded, "/goes-on/served\"}"));
    served = NULL;
    OK(sr1_model_open(&served, scratch_path("goes-on/served"), NULL));
    assert_null(served->adapter);
    OK(sr1_model_logits(served, (int32_t[]){7}, 1, got));
    for (size_t i = 0; i < 384; i++)
        tiny_near(got[i], want[i], 1e-4);
    sr1_model_free(served);
    sr1_trainer_free(tr);
    openai_stop(&server);
}

/* ---- resuming ---- */

static sr1_config *synced(const char *run)
{
    sr1_config *c = tiny_config("searcher", "beta=0", out_pair(run), "max_steps=6",
                                "save_interval=2", "openai_concurrency=1",
                                "openai_sync_interval=3", "max_staleness=2", NULL);
    char url[128];

    openai_use(&server, c);
    snprintf(url, sizeof url, "%s/update_weights_from_disk", server.http.url);
    OK(sr1_config_set(c, "openai_sync_url", url));
    OK(sr1_config_set(c, "train_file", tiny_questions("train.jsonl", 5)));
    OK(sr1_config_set(c, "mock_knowledge", tiny_knowledge("facts.json")));
    return c;
}

static sr1_status pull_the_plug(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)planned;
    return r->step == *(const int64_t *)user ? sr1_set_error(SR1_E_IO, "pulled the plug")
                                             : SR1_OK;
}

/* The server is given weights after steps 3 and 6; checkpoints are of steps 2 and 4. What
 * it has when the run is resumed is of a step that is done again, or nothing new. */
static void the_server_is_as_it_was_at_the_checkpoint(void **state)
{
    static const struct {
        int64_t stop;
        int begins_anew;
    } rows[] = {{4, 0}, {4, 1}, {5, 0}, {5, 1}, {1, 0}};

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    run_whole(synced("whole"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t stop = rows[i].stop;
        sr1_run_callbacks cb = {
            .struct_size = sizeof cb, .step = pull_the_plug, .user = &stop};
        char name[32];
        sr1_trainer *tr;

        snprintf(name, sizeof name, "stopped-%zu", i);
        openai_reload(&server, scratch_path("searcher"));
        tr = open_trainer(synced(name));
        REFUSED(sr1_trainer_run(tr, &cb), SR1_E_IO, "pulled the plug");
        sr1_trainer_free(tr);
        if (rows[i].begins_anew)
            openai_reload(&server, scratch_path("searcher"));
        tr = NULL;
        OK(sr1_trainer_resume(&tr, scratch_path(name), NULL));
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        same_run("whole", name);
    }
    openai_stop(&server);
}

static void finish_resumed(const char *run, const char *url)
{
    const char *pairs[] = {url};
    sr1_resume_options o = {
        .struct_size = sizeof o, .pairs = pairs, .n_pairs = url != NULL};
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_resume(&tr, scratch_path(run), &o));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static sr1_config *synced_adapter(const char *run)
{
    sr1_config *c = synced(run);

    OK(sr1_config_set(c, "openai_sync_url", ""));
    OK(sr1_config_set(c, "weight_sync_backend", "lora"));
    OK(sr1_config_set(c, "lora_rank", "2"));
    return c;
}

/* A new adapter changes nothing, so at step 2 the servers' own weights are those that the
 * run began with: newer ones are not due yet. */
/* A server without the new adapter computes what one with it does, in another order. */
static void same_but_for_rounding(const char *whole, const char *cut)
{
    static const char *const keys[] = {"loss", "entropy", "avg_reward",
                                       "response_length/mean"};
    json_t *x = metrics(whole), *y = metrics(cut);

    assert_int_equal(json_array_size(x), json_array_size(y));
    for (size_t i = 0; i < json_array_size(x); i++) {
        tiny_near(metric(x, i, "rollout/staleness"), metric(y, i, "rollout/staleness"),
                  0);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            tiny_near(metric(x, i, keys[k]), metric(y, i, keys[k]), 1e-6);
    }
    json_decref(x);
    json_decref(y);
}

static void servers_without_an_adapter_are_as_at_the_beginning(void **state)
{
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    server.engine = VLLM;
    run_whole(synced_adapter("adapter"));
    openai_reload(&server, scratch_path("searcher"));
    server.adapter[0] = '\0';
    tr = open_trainer(synced_adapter("adapter-cut"));
    run_until(tr, 3);
    sr1_trainer_free(tr);
    openai_reload(&server, scratch_path("searcher"));
    server.adapter[0] = '\0';
    finish_resumed("adapter-cut", NULL);
    same_but_for_rounding("adapter", "adapter-cut");
    openai_stop(&server);
}

/* ---- what a checkpoint keeps of the server's weights ---- */

static sr1_config *synced_longer(const char *run)
{
    sr1_config *c = synced(run);

    OK(sr1_config_set(c, "max_steps", "8"));
    OK(sr1_config_set(c, "save_interval", "4"));
    OK(sr1_config_set(c, "max_staleness", "7"));
    return c;
}

static sr1_status stop_at_5(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)planned;
    if (r->step == 5)
        sr1_trainer_stop(user);
    return SR1_OK;
}

/* Go on with a run up to step 5, whose checkpoint is written. */
static void resume_to_5(const char *run, const char *url)
{
    const char *pairs[] = {url};
    sr1_resume_options o = {
        .struct_size = sizeof o, .pairs = pairs, .n_pairs = url != NULL};
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = stop_at_5};
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_resume(&tr, scratch_path(run), &o));
    cb.user = tr;
    REFUSED(sr1_trainer_run(tr, &cb), SR1_E_CANCELLED, "step 5 of 8");
    sr1_trainer_free(tr);
}

/* The run is killed in step 8, after the server was given weights of step 6, and goes on
 * from step 4, where the server had those of step 3. */
static void a_checkpoint_after_going_on_has_the_servers_weights(void **state)
{
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    run_whole(synced_longer("long"));
    tr = open_trainer(synced_longer("killed"));
    run_until(tr, 7);
    sr1_trainer_free(tr);
    resume_to_5("killed", NULL);
    same_file("killed/checkpoints/step-4", "killed/checkpoints/step-5",
              "served/model.safetensors");
    same_file("killed", "killed/checkpoints/step-5", "served/model.safetensors");
    openai_reload(&server, scratch_path("searcher"));
    finish_resumed("killed", NULL);
    same_file("long", "killed", "model/model.safetensors");
    openai_stop(&server);
}

/* One made while no weights were sent, or after the folder was removed. */
static void without_served_weights_newer_ones_are_sent(void **state)
{
    char url[160];
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    snprintf(url, sizeof url, "openai_sync_url=%s/update_weights_from_disk",
             server.http.url);
    tr = open_trainer(synced_longer("unsent"));
    run_until(tr, 7);
    sr1_trainer_free(tr);
    resume_to_5("unsent", "openai_sync_url=");
    assert_false(sr1__path_exists(scratch_path("unsent/checkpoints/step-5/served")));
    finish_resumed("unsent", url);
    assert_non_null(strstr(server.loaded, "/unsent/served\"}"));
    openai_stop(&server);
}

static sr1_status remove_served(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)user;
    (void)planned;
    return r->step == 3 ? sr1__dir_remove(scratch_path("removed/served")) : SR1_OK;
}

static void a_folder_that_was_removed_ends_no_run(void **state)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = remove_served};
    sr1_config *c;
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    c = synced_longer("removed");
    OK(sr1_config_set(c, "openai_sync_interval", "2"));
    OK(sr1_config_set(c, "save_interval", "3"));
    OK(sr1_config_set(c, "max_steps", "3"));
    tr = open_trainer(c);
    OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
    assert_true(sr1__path_exists(scratch_path("removed/checkpoints/step-3/model")));
    assert_false(sr1__path_exists(scratch_path("removed/checkpoints/step-3/served")));
    openai_stop(&server);
}

/* In place of libc's: was the folder of served weights in a checkpoint synced? */
static int served_synced;

int fsync(int fd)
{
    char link[64], path[600] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) < 0)
        return -1;
    served_synced |= strstr(path, "/checkpoints/step-4.tmp/served") &&
                     strcmp(strrchr(path, '/'), "/served") == 0;
    return 0;
}

/* What a process that was killed while it wrote the server's weights left. */
static sr1_status leave_half(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)user;
    (void)planned;
    if (r->step == 4)
        (void)scratch_file("leftover/served/model.safetensors.tmp-12-3", "half", 0);
    return SR1_OK;
}

static void a_checkpoint_keeps_the_served_weights_alone(void **state)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = leave_half};
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    tr = open_trainer(synced("leftover"));
    OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
    assert_true(sr1__path_exists(
        scratch_path("leftover/checkpoints/step-4/served/model.safetensors")));
    assert_false(sr1__path_exists(
        scratch_path("leftover/checkpoints/step-4/served/model.safetensors.tmp-12-3")));
    assert_true(served_synced);
    openai_stop(&server);
}

/* ---- figures ---- */

/* Half of the answers say a tag in pieces, as no text of it would. Further questions of a
 * step count too. */
static void drift_is_that_of_all_rounds(void **state)
{
    static const char drifted[] = "\"generated_text\":\"</search> and";
    sr1_config *c;
    size_t lines = 0, found = 0;
    json_t *rows;
    char *text;

    (void)state;
    openai_start(&server, scratch_path("halves"));
    c = tiny_config("halves", "beta=0", out_pair("drift"), "max_steps=1",
                    "dynamic_sampling=3", "rewards=format", "reward_weights=0",
                    "environment=none", "search_engine=none", NULL);
    openai_use(&server, c);
    OK(sr1_config_set(c, "train_file", tiny_questions("train.jsonl", 9)));
    run_whole(c);
    rows = metrics("drift");
    text = slurp_trajectories("drift");
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    for (const char *at = text; (at = strstr(at, drifted)) != NULL; at++)
        found++;
    assert_int_equal(lines, 8 * GROUP);
    assert_true(found > 0 && found < lines);
    tiny_near(metric(rows, 0, "rollout/text_drift"), (double)found / (double)lines,
              1e-12);
    json_decref(rows);
    sr1_free(text);
    openai_stop(&server);
}

static sr1_status on_validation(void *user, int64_t step, const sr1_evaluation *e)
{
    sr1_eval_scores all = {.struct_size = sizeof all};

    (void)step;
    OK(sr1_evaluation_scores(e, 0, &all));
    *(int64_t *)user += all.rows;
    return SR1_OK;
}

/* A whole run; what is validated are the weights that learn, not the server's. */
static void a_run_validates_its_own_weights(void **state)
{
    sr1_run_callbacks callbacks = {.struct_size = sizeof callbacks,
                                   .validation = on_validation};
    int64_t rows = 0;
    sr1_trainer *tr;
    sr1_config *c;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    c = config_for("max_steps=2", "importance_correction=token_mask");
    OK(sr1_config_set(c, "train_file", tiny_questions("train.jsonl", 4)));
    OK(sr1_config_set(c, "validation_file", tiny_questions("validation.jsonl", 40)));
    OK(sr1_config_set(c, "validate_interval", "2"));
    OK(sr1_config_set(c, "group_size", "2"));
    OK(sr1_config_set(c, "save_final_model", "false"));
    OK(sr1_config_set(c, "out", scratch_path("validated")));
    tr = tiny_trainer(c);
    callbacks.user = &rows;
    OK(sr1_trainer_run(tr, &callbacks));
    assert_int_equal(rows, 40);
    /* 2 steps, 2 questions, 2 samples: each at least one answer, at most three; none of
     * the 40 */
    assert_in_range(server.completions, 8, 24);
    sr1_trainer_free(tr);
    openai_stop(&server);
}

/* The folder of weights that a caller's own steps left for the server is no stranger's,
 * unless another trainer left it. */
static void a_run_follows_steps_of_the_callers(void **state)
{
    char url[128];
    sr1_step_report r;
    sr1_trainer *tr;

    (void)state;
    openai_start(&server, scratch_path("searcher"));
    snprintf(url, sizeof url, "openai_sync_url=%s/update_weights_from_disk",
             server.http.url);
    for (int i = 0; i < 2; i++) {
        sr1_config *c = config_for(url, "max_steps=3");

        OK(sr1_config_set(c, "train_file", tiny_questions("train.jsonl", 4)));
        OK(sr1_config_set(c, "group_size", "2"));
        OK(sr1_config_set(c, "save_final_model", "false"));
        OK(sr1_config_set(c, "out", scratch_path("followed")));
        tr = tiny_trainer(c);
        if (i == 0) {
            OK(step(tr, &r, NULL));
            OK(step(tr, &r, NULL));
            assert_true(sr1__path_exists(scratch_path("followed/served")));
            OK(sr1_trainer_run(tr, NULL));
            assert_int_equal(sr1_trainer_steps_done(tr), 3);
            OK(sr1__dir_remove(scratch_path("followed/run.json")));
        } else {
            REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "followed holds ");
        }
        sr1_trainer_free(tr);
    }
    openai_stop(&server);
}

/* The demonstration of t, as stage sft reads it. */
static sr1_trajectory *read_back(const sr1_rollout *r, const sr1_trajectory *t,
                                 const char *model, const char *word)
{
    sr1_config *c = tiny_config(model, "stage=sft", word, NULL);
    sr1_trajectory *out = NULL;
    sr1_trainer *tr;
    char *text = NULL;
    size_t n = 0;

    OK(sr1_rollout_demonstration(r, t, &text, &n));
    OK(sr1_config_set(c, "sft_file", scratch_file("demo.jsonl", text, n)));
    sr1_free(text);
    tr = tiny_trainer(c);
    OK(sr1__sft_example(tr, 0, &out));
    sr1_trainer_free(tr);
    return out;
}

static void a_demonstration_is_learned_as_the_tokens_it_was(void **state)
{
    static const struct {
        const char *model;
        const char *word;
    } rows[] = {{"searcher", "protocol=search-r1"},
                {"searcher", "protocol=search-r1-compat"},
                {"caller", "protocol=mt-grpo"}};
    static const char *const roles[] = {"user", "assistant"};
    static const char *const texts[] = {"Well?", "So."};
    sr1_query q = tiny_query("Where is the tower?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 12, .seed = 2};

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        sr1_config *c = tiny_config(rows[k].model, rows[k].word, NULL);
        sr1_rollout *r;
        sr1_trajectory *t[12] = {NULL};
        int compared = 0;

        if (k == 2)
            OK(sr1_config_set(c, "environment", "tools"));
        q.history_roles = roles;
        q.history_texts = texts;
        q.n_history = k == 0 ? 2 : 0;
        r = tiny_rollout(c, tiny_engine());
        OK(sr1_rollout_generate(r, &q, 1, &o, t));
        for (size_t i = 0; i < 12; i++) {
            sr1_trajectory *back;

            if (sr1_trajectory_stop_reason(t[i]) != SR1_STOP_ANSWER ||
                sr1_trajectory_search_count(t[i]) == 0)
                continue;
            back = read_back(r, t[i], rows[k].model, rows[k].word);
            assert_int_equal(sr1_trajectory_token_count(back),
                             sr1_trajectory_token_count(t[i]));
            assert_memory_equal(sr1_trajectory_ids(back), sr1_trajectory_ids(t[i]),
                                sr1_trajectory_token_count(back) * sizeof(int32_t));
            assert_memory_equal(sr1_trajectory_sources(back),
                                sr1_trajectory_sources(t[i]),
                                sr1_trajectory_token_count(back));
            sr1_trajectory_free(back);
            compared++;
        }
        assert_true(compared > 0);
        tiny_free_all(t, 12);
        sr1_rollout_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_learns_from_the_servers_trajectories),
        cmocka_unit_test(too_little_is_refused),
        cmocka_unit_test(an_end_without_log_prob_is_not_made_up),
        cmocka_unit_test(the_servers_own_defaults_are_not_used),
        cmocka_unit_test(old_weights_are_refused_or_weighed),
        cmocka_unit_test(a_plan_that_cannot_be_kept_is_refused_at_once),
        cmocka_unit_test(new_weights_reach_the_server),
        cmocka_unit_test(an_adapter_reaches_the_server_merged),
        cmocka_unit_test(the_server_is_as_it_was_at_the_checkpoint),
        cmocka_unit_test(servers_without_an_adapter_are_as_at_the_beginning),
        cmocka_unit_test(a_checkpoint_after_going_on_has_the_servers_weights),
        cmocka_unit_test(without_served_weights_newer_ones_are_sent),
        cmocka_unit_test(a_folder_that_was_removed_ends_no_run),
        cmocka_unit_test(a_checkpoint_keeps_the_served_weights_alone),
        cmocka_unit_test(drift_is_that_of_all_rounds),
        cmocka_unit_test(a_run_validates_its_own_weights),
        cmocka_unit_test(a_run_follows_steps_of_the_callers),
        cmocka_unit_test(a_demonstration_is_learned_as_the_tokens_it_was),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("serving", tests, make, scratch_remove);
}
