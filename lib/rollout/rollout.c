/* rollout/rollout.c - build a rollout from a configuration. */
#include "rollout/remote.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "critique/configured.h"
#include "data/question.h"
#include "rollout/asker.h"
#include "rollout/reviser.h"
#include "tokenizer/tokenizer.h"

#include <searchr1/world.h>

#include <string.h>
#include <unistd.h>

#define TEMPLATE_MAX ((size_t)1 << 20)

/* ---- parts by configuration ---- */

static sr1_status open_rooms(sr1_env **env, sr1_env **deaf, const sr1_env_options *o)
{
    SR1__TRY(sr1_rooms_env_open(env, o));
    return sr1_env_open(deaf, "none", NULL, o);
}

static int32_t choose_lanes(const sr1_config *c, const sr1_model *m);

/* Revisions are asked of a model that stands still, over the problems of the
 * configuration. */
static sr1_status open_critique(sr1_rollout *r, const sr1_config *c,
                                const sr1_env_options *o)
{
    sr1_critique_style *style = NULL;
    sr1_status st;

    SR1__TRY(sr1__problems_configured(&r->problems, c));
    SR1__TRY(sr1__reviser_open(&r->reviser, c, r->model ? choose_lanes(c, r->model) : 1));
    SR1__TRY(sr1_critique_style_open(&style, sr1__config_str(c, "critique_template"),
                                     sr1__config_str(c, "solve_template")));
    st = sr1_critique_env_open(&r->env, r->problems, r->reviser, style, o);
    sr1_critique_style_free(style);
    SR1__TRY(st);
    return sr1_env_open(&r->deaf_env, "none", NULL, o);
}

static sr1_status open_environments(sr1_rollout *r, const sr1_config *c)
{
    sr1_env_options o = {.struct_size = sizeof(o)};
    const char *name = sr1__config_str(c, "environment");
    int no_engine = sr1__config_is(c, "search_engine", "none") && !r->search;
    sr1_search *nothing = NULL;
    sr1_status st;

    if (no_engine && strcmp(name, "search") == 0)
        name = "none";
    o.protocol = sr1__config_str(c, "protocol");
    o.document_format = sr1__config_str(c, "document_format");
    o.top_k = (int32_t)sr1__config_int(c, "search_top_k");
    if (strcmp(name, "rooms") == 0)
        return open_rooms(&r->env, &r->deaf_env, &o);
    if (strcmp(name, "critique") == 0)
        return open_critique(r, c, &o);
    if (strcmp(name, "none") != 0 && !r->search && !no_engine)
        SR1__TRY(sr1_search_open(&r->search, c));
    SR1__TRY(sr1_env_open(&r->env, name, r->search, &o));
    SR1__TRY(sr1_search_open_mock(&nothing, NULL, NULL, 0));
    st = sr1_env_open(&r->deaf_env, name, nothing, &o);
    sr1_search_free(nothing);
    return st;
}

/* An environment that lets one wait gets threads to do so; *out NULL for another. */
static sr1_status open_asker(const sr1_rollout *r, sr1_env *env, struct sr1__asker **out)
{
    int32_t flags = sr1__env_flags(env);

    *out = NULL;
    if (!(flags & SR1_ENV_WAITS))
        return SR1_OK;
    return sr1__asker_new(out, env,
                          flags & SR1_ENV_BATCHES      ? 1
                          : flags & SR1_ENV_CONCURRENT ? r->limits.ask_threads
                                                       : 1,
                          r->limits.ask_deadline);
}

static sr1_status open_server(sr1_rollout *r, const sr1_config *c)
{
    int imitates = r->trained && sr1__config_is(c, "stage", "sft");

    if (!sr1__config_bool(c, "use_openai") || imitates)
        return SR1_OK;
    SR1__TRY(sr1__context(sr1__remote_new(&r->remote, c), "use_openai"));
    return r->trained ? sr1__remote_train(r->remote, c) : SR1_OK;
}

static sr1_status open_model(sr1_rollout *r, const sr1_config *c)
{
    const char *dtype = sr1__config_str(c, "dtype");
    sr1_model_options o = {.struct_size = sizeof(o)};

    if (r->model || (r->remote && !r->trained))
        return SR1_OK;
    o.device = sr1__config_str(c, "device");
    o.dtype = strcmp(dtype, "auto") == 0 ? NULL : dtype;
    o.threads = (int32_t)sr1__config_int(c, "threads");
    return sr1_model_open(&r->model, sr1__config_str(c, "model_name_or_path"), &o);
}

static sr1_status open_tokenizer(sr1_rollout *r, const sr1_config *c)
{
    const char *path = sr1__config_str(c, "tokenizer");

    if (!*path)
        path = sr1__config_str(c, "model_name_or_path");
    if (!r->tokenizer)
        SR1__TRY(sr1__context(sr1_tokenizer_open(&r->tokenizer, path), "tokenizer"));
    SR1__TRY(sr1__needs_byte_level(r->tokenizer, "tokenizer"));
    if (r->model && sr1_tokenizer_vocab_size(r->tokenizer) > r->model->config.vocab_size)
        return sr1__fail(SR1_E_INVALID,
                         "the tokenizer has %d ids but the model only %lld embeddings; "
                         "they do not belong together",
                         sr1_tokenizer_vocab_size(r->tokenizer),
                         (long long)r->model->config.vocab_size);
    return SR1_OK;
}

static sr1_status read_system(sr1_rollout *r, const sr1_config *c)
{
    const struct sr1__protocol *p = sr1__env_protocol(r->env);
    const char *path = sr1__config_str(c, "prompt_template");
    struct sr1__buf text;

    if (strcmp(path, "none") == 0 || (!*path && p->prompt && !*p->prompt))
        return SR1_OK;
    if (*path) {
        SR1__TRY(sr1__file_read(path, TEMPLATE_MAX, &text));
        r->system_source = sr1__strdup(sr1__buf_cstr(&text));
        sr1__buf_free(&text);
    } else {
        const char *builtin;

        SR1__TRY(sr1__template_builtin(p->prompt ? p->prompt : p->name, &builtin, NULL));
        r->system_source = sr1__strdup(builtin);
    }
    return r->system_source ? SR1_OK : sr1__fail_nomem("system message");
}

static sr1_status read_question(sr1_rollout *r, const sr1_config *c)
{
    const char *name = sr1__config_str(c, "question_template");

    return *name ? sr1__question_template(&r->question, name) : SR1_OK;
}

/* The system message with the tools of env in their place; *out NULL without one. A text
 * without such a place is taken as it is, braces and all. */
static sr1_status show_tools(const sr1_rollout *r, const sr1_env *env, char **out)
{
    static const char *const places[] = {"tools"};
    const char *source = r->system_source, *values[1];
    struct sr1__template *t = NULL;
    struct sr1__buf text;
    sr1_status st;

    *out = NULL;
    if (!source)
        return SR1_OK;
    if (!strstr(source, "{{tools}}")) {
        *out = sr1__strdup(source);
        return *out ? SR1_OK : sr1__fail_nomem("system message");
    }
    SR1__TRY(
        sr1__template_parse(&t, source, strlen(source), "prompt_template", places, 1));
    sr1__buf_init(&text, 0);
    values[0] = sr1_env_tools(env);
    st = sr1__template_render(t, values, &text);
    if (st == SR1_OK && !(*out = sr1__buf_take(&text)))
        st = sr1__fail_nomem("system message");
    sr1__buf_free(&text);
    sr1__template_free(t);
    return st;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What model and server read at most. A server that does not say takes what it takes. */
static int64_t max_context(const sr1_rollout *r, const sr1_config *c)
{
    int64_t most = SR1_TRAJECTORY_MAX_TOKENS;
    int64_t key = sr1__config_int(c, "openai_max_context");
    int64_t said = r->remote ? sr1_openai_context(r->remote->client) : 0;

    if (r->model)
        most = least(most, r->model->config.max_positions);
    if (r->remote && key > 0)
        return least(most, key);
    return said > 0 ? least(most, said) : most;
}

static void read_limits(sr1_rollout *r, const sr1_config *c)
{
    int32_t turns = (int32_t)sr1__config_int(c, "max_turns");
    int32_t calls = (int32_t)sr1__config_int(c, "max_env_steps");

    r->limits = (struct sr1__limits){
        .max_tokens = sr1__config_int(c, "max_tokens"),
        .max_turn_tokens = sr1__config_int(c, "max_tokens_per_turn"),
        .max_prompt = sr1__config_int(c, "max_prompt_tokens"),
        .filter = sr1__config_bool(c, "filter_overlong_prompts"),
        .max_observation = sr1__config_int(c, "max_observation_tokens"),
        .max_context = max_context(r, c),
        .max_turns = turns > calls ? turns : calls,
        .max_calls = calls > 0 ? calls : turns,
        .count_unexecuted = sr1__config_bool(c, "count_unexecuted"),
        .ask_threads = (int32_t)sr1__config_int(c, "search_concurrency"),
        .ask_deadline = sr1__config_real(c, "search_deadline"),
        .go_on = sr1__config_is(c, "search_failure", "continue"),
        .max_rows = (int32_t)sr1__config_int(c, "max_rows"),
    };
    r->sampling = (struct sr1__sampling){
        .temperature = sr1__config_real(c, "temperature"),
        .top_k = (int32_t)sr1__config_int(c, "top_k"),
        .top_p = sr1__config_real(c, "top_p"),
    };
    r->thinking = sr1__config_bool(c, "enable_thinking");
    r->score_tokens = sr1__config_int(c, "micro_batch_tokens");
    r->logit_chunk = sr1__config_int(c, "logit_chunk");
}

/* A critique whose revision could not be had is never worth something, nor nothing: it is
 * left out, whatever search_failure says of searches. */
static void suit_reviser(sr1_rollout *r)
{
    if (r->reviser)
        r->limits.go_on = 0;
    if (sr1__writer_model(r->reviser)) /* it works here, and ends by itself */
        r->limits.ask_deadline = 0.0;
}

/* ---- the handle ---- */

int32_t sr1__rollout_lane_rows(const sr1_rollout *r)
{
    int32_t n = r->limits.max_rows / r->n_lanes;

    return n > 0 ? n : 1;
}

int32_t sr1__rollout_decoder_rows(const sr1_rollout *r)
{
    int32_t n = sr1__rollout_lane_rows(r);

    return n > SR1__LEVEL_ROWS ? n : SR1__LEVEL_ROWS;
}

/* Below this many parameters one operation is too short to be worth cutting up. */
#define SMALL_MODEL 32000000

static int32_t cpu_threads(const sr1_config *c)
{
    int64_t n = sr1__config_int(c, "threads");

    return n > 0 ? (int32_t)n : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

static int32_t choose_lanes(const sr1_config *c, const sr1_model *m)
{
    int64_t n = sr1__config_int(c, "workers");

    if (n > 0)
        return (int32_t)n;
    if (m->device != SR1__CPU || sr1_model_info(m, SR1_MODEL_PARAMETERS) > SMALL_MODEL)
        return 1;
    return cpu_threads(c);
}

/* Lanes share the weights; threads that are left over go into single operations. */
static sr1_status make_lanes(sr1_rollout *r, const sr1_config *c)
{
    size_t n = r->model ? (size_t)choose_lanes(c, r->model) : 0;
    int32_t each = cpu_threads(c) / (n ? (int32_t)n : 1);

    if (n == 0)
        return SR1_OK;
    r->decoders = sr1__calloc(n, sizeof(struct sr1__decoder *));
    r->replicas = sr1__calloc(n, sizeof(sr1_model *));
    if (!r->decoders || !r->replicas)
        return sr1__fail_nomem("rollout");
    r->n_lanes = (int32_t)n;
    r->replicas[0] = sr1__model_retain(r->model);
    for (size_t i = 1; i < n; i++)
        SR1__TRY(sr1__model_replica(&r->replicas[i], r->model));
    SR1__TRY(sr1__torch_threads(each > 0 ? each : 1));
    return n > 1 ? sr1__pool_new(&r->pool, (int32_t)n) : SR1_OK;
}

static sr1_status build(sr1_rollout *r, const sr1_config *c)
{
    SR1__TRY(open_server(r, c));
    SR1__TRY(open_model(r, c));
    SR1__TRY(open_tokenizer(r, c));
    SR1__TRY(open_environments(r, c));
    SR1__TRY(read_system(r, c));
    SR1__TRY(read_question(r, c));
    SR1__TRY(show_tools(r, r->env, &r->system));
    read_limits(r, c);
    suit_reviser(r);
    SR1__TRY(open_asker(r, r->env, &r->asker));
    if (sr1__env_protocol(r->env)->chat)
        SR1__TRY(sr1__chat_border_make(&r->border, r->tokenizer, !r->thinking));
    SR1__TRY(sr1__sampling_check(&r->sampling));
    return make_lanes(r, c);
}

static sr1_status new_rollout(sr1_rollout **out, const sr1_config *config,
                              sr1_model *model, sr1_tokenizer *tokenizer,
                              sr1_search *search, int32_t trained)
{
    sr1_rollout *r;
    sr1_status st;

    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "rollout: out and config are required");
    SR1__TRY(sr1_config_validate(config));
    r = sr1__calloc(1, sizeof(*r));
    if (!r)
        return sr1__fail_nomem("rollout");
    pthread_mutex_init(&r->env_lock, NULL);
    r->model = sr1__model_retain(model);
    r->tokenizer = tokenizer ? sr1__tokenizer_ref(tokenizer) : NULL;
    r->search = sr1_search_retain(search);
    r->server_version = -1;
    r->trained = trained;
    st = build(r, config);
    if (st != SR1_OK) {
        sr1_rollout_free(r);
        return st;
    }
    *out = r;
    return SR1_OK;
}

sr1_status sr1_rollout_new(sr1_rollout **out, const sr1_config *config, sr1_model *model,
                           sr1_tokenizer *tokenizer, sr1_search *search)
{
    return new_rollout(out, config, model, tokenizer, search, 0);
}

sr1_status sr1__rollout_new_trained(sr1_rollout **out, const sr1_config *config,
                                    sr1_search *search)
{
    return new_rollout(out, config, NULL, NULL, search, 1);
}

void sr1_rollout_free(sr1_rollout *r)
{
    if (!r)
        return;
    for (int32_t i = 0; r->decoders && i < r->n_lanes; i++)
        sr1__decoder_free(r->decoders[i]);
    for (int32_t i = 0; r->replicas && i < r->n_lanes; i++)
        sr1_model_free(r->replicas[i]);
    sr1__free(r->decoders);
    sr1__free(r->replicas);
    sr1__pool_free(r->pool);
    sr1__remote_free(r->remote);
    sr1__asker_free(r->asker);
    sr1_env_free(r->env);
    sr1_env_free(r->deaf_env);
    sr1_writer_free(r->reviser);
    sr1_problems_free(r->problems);
    sr1_search_free(r->search);
    sr1_tokenizer_free(r->tokenizer);
    sr1_model_free(r->model);
    sr1__free(r->system);
    sr1__free(r->system_source);
    sr1__chat_border_free(&r->border);
    sr1__template_free(r->question);
    pthread_mutex_destroy(&r->env_lock);
    sr1__free(r);
}

static sr1_status check_env(const sr1_rollout *r, const sr1_env *env)
{
    const struct sr1__protocol *ours, *theirs;

    if (!r || !env)
        return sr1__fail(SR1_E_INVALID, "rollout: rollout and environment are required");
    ours = sr1__env_protocol(r->env);
    theirs = sr1__env_protocol(env);
    if (ours != theirs)
        return sr1__fail(SR1_E_INVALID,
                         "environment '%s' speaks the protocol %s, the configuration "
                         "says %s; open it with that one",
                         sr1_env_name(env), theirs->name, ours->name);
    return SR1_OK;
}

sr1_status sr1_rollout_set_env(sr1_rollout *r, sr1_env *env)
{
    sr1_env_options o = {.struct_size = sizeof(o)};
    struct sr1__asker *asker = NULL;
    sr1_env *deaf = NULL;
    char *system = NULL;
    sr1_status st;

    SR1__TRY(check_env(r, env));
    o.protocol = sr1__env_protocol(env)->name;
    SR1__TRY(sr1_env_open(&deaf, "none", NULL, &o));
    st = show_tools(r, env, &system);
    if (st == SR1_OK)
        st = open_asker(r, env, &asker);
    if (st != SR1_OK) {
        sr1_env_free(deaf);
        sr1__free(system);
        return st;
    }
    sr1__asker_free(r->asker);
    sr1_env_free(r->env);
    sr1_env_free(r->deaf_env);
    sr1__free(r->system);
    r->asker = asker;
    r->env = sr1__env_retain(env);
    r->deaf_env = deaf;
    r->system = system;
    return SR1_OK;
}

sr1_model *sr1_rollout_model(sr1_rollout *r)
{
    return r->model;
}

sr1_tokenizer *sr1_rollout_tokenizer(sr1_rollout *r)
{
    return r->tokenizer;
}

void sr1__rollout_stats(const sr1_rollout *r, struct sr1__rollout_stats *out)
{
    *out = r->stats;
}

int32_t sr1__rollout_lanes(const sr1_rollout *r, sr1_model ***replicas,
                           struct sr1__pool **pool)
{
    *replicas = r->replicas;
    *pool = r->pool;
    return r->n_lanes;
}

sr1_model *sr1__rollout_reviser(const sr1_rollout *r)
{
    return sr1__writer_model(r->reviser);
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
    return r->remote != NULL;
}

void sr1__rollout_use_local(sr1_rollout *r, int32_t local)
{
    r->local = local;
}

void sr1__rollout_set_server_version(sr1_rollout *r, int64_t version)
{
    r->server_version = version;
}

int64_t sr1__rollout_server_version(const sr1_rollout *r)
{
    return r->server_version;
}

sr1_status sr1_rollout_remote_get(const sr1_rollout *r, sr1_remote_report *out)
{
    sr1_remote_report report = {0};

    if (!r)
        return sr1__fail(SR1_E_INVALID, "remote report: rollout is required");
    if (r->remote)
        sr1__remote_describe(r->remote, &report);
    return sr1__struct_give(out, &report, sizeof(report), "remote report");
}
