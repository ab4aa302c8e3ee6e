/* policy/rollout.c - the rollout as an object: its environment, its parts, its end. */
#include "policy/rollout.h"

#include <searchr1/ext/episodes.h>
#include <searchr1/ext/remote.h>

#include "base/mem.h"
#include "base/struct.h"
#include "policy/env_executor.h"
#include "policy/server_engine.h"
#include "text/data/question.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

sr1_status sr1__rollout_new_empty(sr1_rollout **out)
{
    sr1_rollout *r = sr1__calloc(1, sizeof(*r));

    if (!r)
        return sr1__fail_nomem("rollout");
    pthread_mutex_init(&r->env_lock, NULL);
    atomic_init(&r->server_version, -1);
    *out = r;
    return SR1_OK;
}

void sr1_rollout_free(sr1_rollout *r)
{
    if (!r || !sr1__life_drop(&r->life))
        return;
    for (int32_t i = 0; r->engines && i < r->n_engines; i++)
        sr1__engine_free(&r->engines[i]);
    for (int32_t i = 0; r->replicas && i < r->n_engines; i++)
        sr1_model_free(r->replicas[i]);
    sr1__free(r->engines);
    sr1__free(r->replicas);
    sr1__pool_free(r->pool);
    sr1__engine_free(&r->server);
    sr1__env_executor_free(r->executor);
    sr1_env_free(r->env);
    sr1_env_free(r->no_search_env);
    sr1_generator_free(r->reviser);
    sr1_problems_free(r->problems);
    sr1_search_free(r->search);
    sr1_tokenizer_free(r->speech);
    sr1_tokenizer_free(r->tokenizer);
    sr1_model_free(r->model);
    sr1__free(r->system);
    sr1__spans_free(&r->system_own);
    sr1__free(r->system_source);
    sr1__free(r->gold_ids_field);
    sr1__free(r->no_env);
    sr1__free(r->no_engine);
    sr1__free(r->odd_pair);
    sr1__turn_delimiters_free(&r->border);
    sr1__turn_delimiters_free(&r->ipython);
    sr1__prompt_template_free(r->question);
    if (r->deterministic)
        sr1__torch_determinism_release();
    pthread_mutex_destroy(&r->env_lock);
    sr1__free(r);
}

/* ---- the environment ---- */

static int32_t count_executor_threads(const sr1_rollout *r, int32_t flags)
{
    return flags & SR1_ENV_WAITS && flags & SR1_ENV_CONCURRENT &&
                   !(flags & SR1_ENV_BATCHES)
               ? r->limits.ask_threads
               : 1;
}

/* Environments with SR1_ENV_WAITS get an executor; with remote generation every
 * environment gets one, which batches the actions of concurrent trajectories. *out is
 * NULL where engines call the environment themselves. */
static sr1_status open_env_executor(sr1_rollout *r, sr1_env *env, double deadline,
                                    struct sr1__env_executor **out)
{
    int32_t flags = sr1__env_flags(env);
    struct sr1__env_executor_options o = {.threads = count_executor_threads(r, flags),
                                          .deadline = deadline,
                                          .wait = r->limits.batch_wait};

    *out = NULL;
    if (!(flags & SR1_ENV_WAITS)) {
        o.deadline = 0;
        o.env_lock = &r->env_lock;
    }
    return flags & SR1_ENV_WAITS || r->server.ops ? sr1__env_executor_new(out, env, &o)
                                                  : SR1_OK;
}

/* The system message with the tools of env in their place; *out NULL without one. */
static sr1_status render_system_message(const sr1_rollout *r, const sr1_env *env,
                                        char **out, struct sr1__spans *own)
{
    const char *values[1];
    struct sr1__prompt_template *t = NULL;
    struct sr1__buf text;
    sr1_status st;

    *out = NULL;
    if (!r->system_source)
        return SR1_OK;
    SR1__TRY(sr1__system_template_parse(&t, r->system_source, "prompt_template"));
    sr1__buf_init(&text, 0);
    values[0] = sr1_env_tools(env);
    st = sr1__prompt_template_render(t, values, &text, own);
    if (st == SR1_OK && !(*out = sr1__buf_take(&text)))
        st = sr1__fail_nomem("system message");
    sr1__buf_free(&text);
    sr1__prompt_template_free(t);
    return st;
}

/* A model that revises works here, and ends by itself. */
static double executor_deadline(const sr1_rollout *r, const sr1_generator *reviser)
{
    return reviser && r->reviser_model ? 0.0 : r->ask_deadline;
}

/* Once nothing can fail any more: the old environment goes, the new ones are taken over.
 */
static void replace_env(sr1_rollout *r, sr1_env *env, sr1_env *no_search)
{
    sr1_env_free(r->env);
    sr1_env_free(r->no_search_env);
    r->env = env;
    r->no_search_env = no_search;
    sr1__free(r->no_env);
    sr1__free(r->no_engine);
    sr1__free(r->odd_pair);
    r->no_env = r->no_engine = r->odd_pair = NULL;
}

sr1_status sr1__rollout_use_env(sr1_rollout *r, sr1_env *env, sr1_env *no_search,
                                const sr1_generator *reviser)
{
    double deadline = executor_deadline(r, reviser);
    struct sr1__env_executor *executor = NULL;
    struct sr1__spans own = {0};
    char *system = NULL;
    sr1_status st = render_system_message(r, env, &system, &own);

    if (st == SR1_OK)
        st = open_env_executor(r, env, deadline, &executor);
    if (st != SR1_OK) {
        sr1__free(system);
        sr1__spans_free(&own);
        return st;
    }
    sr1__env_executor_free(r->executor);
    sr1__free(r->system);
    sr1__spans_free(&r->system_own);
    r->executor = executor;
    r->system = system;
    r->system_own = own;
    /* A failed revision has no reward, not reward 0: its trajectory is dropped, whatever
     * search_failure says. */
    r->limits.go_on = r->go_on && !reviser;
    r->limits.ask_deadline = deadline;
    replace_env(r, sr1__env_retain(env), sr1__env_retain(no_search));
    return SR1_OK;
}

static sr1_status check_env(const sr1_rollout *r, const sr1_env *env)
{
    const struct sr1__protocol *ours, *theirs;

    if (!r || !env)
        return sr1__fail(SR1_E_INVALID, "rollout: rollout and environment are required");
    if (atomic_load(&r->working) || atomic_load(&r->beside) > 0)
        return sr1__fail(SR1_E_STATE, "rollout: it works; change its environment after");
    ours = sr1__env_protocol(r->env);
    theirs = sr1__env_protocol(env);
    if (ours != theirs)
        return sr1__fail(SR1_E_INVALID,
                         "environment '%s' speaks the protocol %s, the configuration "
                         "says %s; open it with that one",
                         sr1_env_name(env), theirs->name, ours->name);
    return SR1_OK;
}

/* Where a message is the answer nothing is an action. */
static sr1_status note_unasked_env(sr1_rollout *r)
{
    const struct sr1__protocol *p = sr1__env_protocol(r->env);
    char text[400];

    if (!p->answers)
        return SR1_OK;
    snprintf(
        text, sizeof text,
        "the program gave environment '%.100s', and protocol %.64s has no tags to act "
        "by: it is never asked; name another protocol, or a protocol_file",
        sr1_env_name(r->env), p->name);
    r->odd_pair = sr1__strdup(text);
    SR1__CHECK_ALLOC(r->odd_pair, "a warning");
    return SR1_OK;
}

sr1_status sr1_rollout_set_env(sr1_rollout *r, sr1_env *env)
{
    sr1_env_options o = {.struct_size = sizeof(o)};
    sr1_env *no_search = NULL;
    sr1_status st;

    SR1__TRY(check_env(r, env));
    o.protocol = sr1__env_protocol(env)->name;
    SR1__TRY(sr1_env_open(&no_search, "none", NULL, &o));
    st = sr1__rollout_use_env(r, env, no_search, NULL);
    sr1_env_free(no_search);
    return st == SR1_OK ? note_unasked_env(r) : st;
}

/* ---- its parts ---- */

int32_t sr1__rollout_engine_sequences(const sr1_rollout *r)
{
    int32_t n = r->limits.max_rows / r->n_engines;

    return n > 0 ? n : 1;
}

int32_t sr1__rollout_decoder_rows(const sr1_rollout *r)
{
    int32_t n = sr1__rollout_engine_sequences(r);

    return n > SR1__LEVEL_BRANCH_ROWS ? n : SR1__LEVEL_BRANCH_ROWS;
}

sr1_status sr1__rollout_check_env(const sr1_rollout *r)
{
    return r->no_env ? sr1__fail(SR1_E_CONFIG, "%s", r->no_env) : SR1_OK;
}

sr1_status sr1__rollout_check_engine(const sr1_rollout *r)
{
    SR1__TRY(sr1__rollout_check_env(r));
    return r->no_engine ? sr1__fail(SR1_E_CONFIG, "%s", r->no_engine) : SR1_OK;
}

sr1_model *sr1_rollout_model(sr1_rollout *r)
{
    return r ? r->model : NULL;
}

sr1_tokenizer *sr1_rollout_tokenizer(sr1_rollout *r)
{
    return r ? r->tokenizer : NULL;
}

void sr1__rollout_stats(const sr1_rollout *r, struct sr1__rollout_stats *out)
{
    *out = r->stats;
}

void sr1__rollout_set_stats(sr1_rollout *r, const struct sr1__rollout_stats *stats)
{
    r->stats = *stats;
}

int32_t sr1__rollout_replicas(const sr1_rollout *r, sr1_model ***replicas,
                              struct sr1__pool **pool)
{
    *replicas = r->replicas;
    *pool = r->pool;
    return r->n_engines;
}

int32_t sr1__rollout_threads(const sr1_rollout *r)
{
    return r->threads;
}

sr1_model *sr1__rollout_reviser(const sr1_rollout *r)
{
    return r->reviser_model;
}

sr1_problems *sr1__rollout_problems(const sr1_rollout *r)
{
    return r->problems;
}

void sr1__rollout_set_version(sr1_rollout *r, int64_t version)
{
    r->weights_version = version;
}

int32_t sr1__rollout_is_remote(const sr1_rollout *r)
{
    return r->server.ops != NULL;
}

struct sr1__server_pool *sr1__rollout_servers(const sr1_rollout *r)
{
    return r->server.ops ? sr1__server_engine_pool(&r->server) : NULL;
}

void sr1__rollout_use_local(sr1_rollout *r, int32_t local)
{
    r->local = local;
}

void sr1__rollout_set_server_version(sr1_rollout *r, int64_t version)
{
    atomic_store(&r->server_version, version);
}

int64_t sr1__rollout_server_version(const sr1_rollout *r)
{
    return atomic_load(&r->server_version);
}

sr1_status sr1_rollout_remote_get(const sr1_rollout *r, sr1_remote_report *out)
{
    const struct sr1__remote_stats *s;
    sr1_remote_report report = {0};

    if (!r)
        return sr1__fail(SR1_E_INVALID, "remote report: rollout is required");
    s = &r->remote_total;
    report.answers = s->answers;
    report.exact = s->sources[SR1__SERVER_IDS];
    report.spelled = s->sources[SR1__SERVER_TOKEN_TEXTS];
    report.encoded = s->sources[SR1__SERVER_ENCODED];
    report.drifted = s->drifted;
    report.prompts_differ = s->prompts_differ;
    report.dropped_tokens = s->dropped_tokens;
    report.server_tokens = s->server_tokens;
    report.failed = s->failed;
    return sr1__struct_give(out, &report, sizeof(report), "remote report");
}
