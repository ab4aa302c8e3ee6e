/* policy/assemble/policy_from_config.c - the policy of a configuration: the server that
 * generates, weights, tokenizer, prompts, limits, and engines over the weights. */
#include "policy/assemble/assemble.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/choices.h"
#include "config/model_folder.h"
#include "policy/local_engine.h"
#include "policy/server_engine.h"
#include "tensor/model/host_weights.h"
#include "tensor/model/model_load.h"
#include "text/data/question.h"
#include "text/tokenizer/tokenizer.h"

#include <searchr1/ext/model_details.h>

#include <string.h>
#include <unistd.h>

#define TEMPLATE_MAX ((size_t)1 << 20)

/* ---- weights and tokenizer ---- */

static sr1_status open_server(sr1_rollout *r, const sr1_config *c)
{
    int imitates = r->trained && sr1__config_imitates(c);

    if (!sr1__config_bool(c, "use_openai") || imitates)
        return SR1_OK;
    SR1__TRY(sr1__context(sr1__server_engine_new(&r->server, r, c, &r->server_context),
                          "use_openai"));
    return r->trained ? sr1__server_engine_require_exact(&r->server, c) : SR1_OK;
}

static sr1_status model_folder(const sr1_config *c, const char **out)
{
    *out = sr1__config_str(c, "model_name_or_path");
    if (**out)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "model_name_or_path is not set; name a folder that holds a model "
                     "('hf download Qwen/Qwen3-0.6B --local-dir models/qwen3-0.6b' gets "
                     "one)");
}

static sr1_status check_base_wanted(const sr1_config *c, const char *folder)
{
    int is_adapter;

    if (!*sr1__config_str(c, "base_model_name_or_path"))
        return SR1_OK;
    SR1__TRY(sr1__model_folder_check("model", folder)); /* what is gone is neither */
    SR1__TRY(sr1__adapter_is_folder(folder, &is_adapter));
    return is_adapter ? SR1_OK
                      : sr1__fail(SR1_E_CONFIG,
                                  "base_model_name_or_path is of an adapter, and %s is a "
                                  "whole model; leave it out",
                                  folder);
}

static sr1_status open_rollout_model(sr1_rollout *r, const sr1_config *c)
{
    const char *dtype = sr1__config_str(c, "dtype");
    const char *folder = NULL;
    sr1_model_options o = {.struct_size = sizeof(o)};

    if (r->model || (r->server.ops && !r->trained))
        return SR1_OK;
    SR1__TRY(model_folder(c, &folder));
    SR1__TRY(check_base_wanted(c, folder));
    o.device = sr1__config_str(c, "device");
    o.dtype = strcmp(dtype, "auto") == 0 ? NULL : dtype;
    o.threads = (int32_t)sr1__config_int(c, "threads");
    o.base_model = sr1__config_str(c, "base_model_name_or_path");
    SR1__TRY(sr1_model_open(&r->model, folder, &o));
    return r->trained ? sr1__adapter_configured(r->model, c) : SR1_OK;
}

/* The tokenizer may be the caller's, shared by others: it stays as it is. */
static sr1_status choose_template(sr1_rollout *r, const sr1_config *c)
{
    sr1_tokenizer *chosen = NULL;
    const char *name = sr1__config_str(c, "chat_template_name");
    int own = sr1__config_is(c, "chat_template", "auto");

    if (own && !*name)
        return sr1__chat_check_family(r->tokenizer);
    if (own)
        SR1__TRY(sr1__tokenizer_with_template(&chosen, r->tokenizer, name));
    else
        SR1__TRY(sr1__tokenizer_with_family(&chosen, r->tokenizer,
                                            sr1__config_str(c, "chat_template")));
    sr1_tokenizer_free(r->tokenizer);
    r->tokenizer = chosen;
    return sr1__chat_check_family(r->tokenizer);
}

static sr1_status open_rollout_tokenizer(sr1_rollout *r, const sr1_config *c)
{
    const char *path = sr1__config_str(c, "tokenizer");

    if (!r->tokenizer && !*path && r->server.ops &&
        !*sr1__config_str(c, "model_name_or_path"))
        return sr1__fail(SR1_E_CONFIG,
                         "neither tokenizer nor model_name_or_path is set; name the "
                         "tokenizer of the server's model (tokenizer=FOLDER)");
    if (!r->tokenizer && !*path)
        SR1__TRY(model_folder(c, &path));
    if (!r->tokenizer)
        SR1__TRY(sr1__context(
            sr1__tokenizer_open_on(&r->tokenizer, path,
                                   sr1__config_str(c, "base_model_name_or_path")),
            "tokenizer"));
    SR1__TRY(sr1__needs_bpe(r->tokenizer, "tokenizer"));
    SR1__TRY(choose_template(r, c));
    if (r->model && sr1_tokenizer_vocab_size(r->tokenizer) > r->model->config.vocab_size)
        return sr1__fail(SR1_E_INVALID,
                         "the tokenizer has %d ids but the model only %lld embeddings; "
                         "they do not belong together",
                         sr1_tokenizer_vocab_size(r->tokenizer),
                         (long long)r->model->config.vocab_size);
    return SR1_OK;
}

/* ---- prompts ---- */

/* A place of question_template would stand in every prompt as it is written. */
static sr1_status refuse_question_place(const char *text, const char *path)
{
    if (!sr1__prompt_template_names(text, "question") &&
        !sr1__prompt_template_names(text, "marked_question"))
        return SR1_OK;
    return sr1__fail(
        SR1_E_PARSE,
        "%s: {{question}} is not replaced in a system message; name the file "
        "by question_template",
        path);
}

static sr1_status read_system(sr1_rollout *r, const sr1_config *c,
                              const struct sr1__protocol *p)
{
    const char *path = sr1__config_str(c, "prompt_template");
    struct sr1__buf text;

    if (strcmp(path, "none") == 0 || (!*path && !p->system && p->prompt && !*p->prompt))
        return SR1_OK;
    if (*path) {
        SR1__TRY(
            sr1__context(sr1__file_read(path, TEMPLATE_MAX, &text), "prompt_template"));
        r->system_source = sr1__strdup(sr1__buf_cstr(&text));
        sr1__buf_free(&text);
        if (r->system_source)
            SR1__TRY(sr1__context(refuse_question_place(r->system_source, path),
                                  "prompt_template"));
    } else if (p->system) {
        r->system_source = sr1__strdup(p->system);
    } else {
        const char *builtin;

        SR1__TRY(sr1__prompt_template_builtin(p->prompt ? p->prompt : p->name, &builtin,
                                              NULL));
        r->system_source = sr1__strdup(builtin);
    }
    return r->system_source ? SR1_OK : sr1__fail_nomem("system message");
}

/* For the figures of evaluations. */
static sr1_status read_gold_field(sr1_rollout *r, const sr1_config *c)
{
    r->gold_ids_field = sr1__strdup(sr1__config_str(c, "gold_ids_field"));
    return r->gold_ids_field ? SR1_OK : sr1__fail_nomem("gold_ids_field");
}

static sr1_status read_question(sr1_rollout *r, const sr1_config *c)
{
    const char *name = sr1__config_str(c, "question_template");

    return *name ? sr1__question_template(&r->question, name) : SR1_OK;
}

/* ---- limits ---- */

/* What model and server read at most. A server that does not say takes what it takes. */
static int64_t max_context(const sr1_rollout *r, const sr1_config *c)
{
    int64_t most = SR1_TRAJECTORY_MAX_TOKENS;
    int64_t key = sr1__config_int(c, "openai_max_context");
    int64_t said = r->server.ops ? r->server_context : 0;

    if (r->model)
        most = sr1__min_i64(most, r->model->config.max_positions);
    if (r->server.ops && key > 0)
        return sr1__min_i64(most, key);
    return said > 0 ? sr1__min_i64(most, said) : most;
}

/* 0 is for the plan of a training run, which has set the key by now. */
static int64_t get_or_default(const sr1_config *c, const char *key, int64_t otherwise)
{
    int64_t n = sr1__config_int(c, key);

    return n > 0 ? n : otherwise;
}

static void read_limits(sr1_rollout *r, const sr1_config *c)
{
    int32_t turns = (int32_t)sr1__config_int(c, "max_turns");
    int32_t calls = (int32_t)sr1__config_int(c, "max_env_steps");

    r->limits = (struct sr1__rollout_limits){
        .max_tokens = sr1__config_int(c, "max_tokens"),
        .max_turn_tokens = sr1__config_int(c, "max_tokens_per_turn"),
        .max_prompt = sr1__config_int(c, "max_prompt_tokens"),
        .filter = sr1__config_bool(c, "filter_overlong_prompts"),
        .max_observation = sr1__config_int(c, "max_observation_tokens"),
        .max_context = max_context(r, c),
        .max_turns = turns > calls ? turns : calls,
        .max_calls = calls > 0 ? calls : turns,
        .count_unexecuted = sr1__config_bool(c, "count_unexecuted"),
        .batch_steps = (int32_t)sr1__config_int(c, "search_batch_steps"),
        .batch_wait = sr1__config_real(c, "search_batch_wait_s"),
        .ask_threads = (int32_t)sr1__config_int(c, "search_concurrency"),
        .max_rows = (int32_t)get_or_default(c, "max_rows", 256),
    };
    r->ask_deadline = sr1__config_real(c, "search_deadline");
    r->go_on = sr1__config_is(c, "search_failure", "continue");
    r->sampling = (struct sr1__sampling){
        .temperature = sr1__config_real(c, "temperature"),
        .top_k = (int32_t)sr1__config_int(c, "top_k"),
        .top_p = sr1__config_real(c, "top_p"),
    };
    r->thinking = sr1__config_bool(c, "enable_thinking");
    r->closed_thoughts = sr1__config_bool(c, "closed_thoughts");
    r->score_tokens = get_or_default(c, "micro_batch_tokens", 16384);
    r->logit_chunk = sr1__config_int(c, "logit_chunk");
    r->share_prompts = sr1__config_bool(c, "share_prompts");
}

/* ---- engines ---- */

/* Below this many parameters one operation is too short to be worth cutting up. */
#define SMALL_MODEL 32000000

static int32_t cpu_threads(const sr1_config *c)
{
    int64_t n = sr1__config_int(c, "threads");

    return n > 0 ? (int32_t)n : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

int sr1__has_own_order(const sr1_config *c, sr1__device device)
{
    return device == SR1__CPU && sr1__config_bool(c, "full_determinism");
}

int32_t sr1__plan_engine_count(const sr1_config *c, sr1__device device, double parameters)
{
    int64_t n = sr1__config_int(c, "workers");

    if (n > 0)
        return (int32_t)n;
    if (device != SR1__CPU ||
        (parameters > SMALL_MODEL && !sr1__has_own_order(c, device)))
        return 1;
    return cpu_threads(c);
}

int32_t sr1__plan_engine_threads(const sr1_config *c, sr1__device device, int32_t engines)
{
    int32_t each = sr1__has_own_order(c, device) ? 1 : cpu_threads(c) / engines;

    return each > 0 ? each : 1;
}

int32_t sr1__choose_engine_count(const sr1_config *c, const sr1_model *m)
{
    return sr1__plan_engine_count(c, m->device,
                                  (double)sr1_model_info(m, SR1_MODEL_PARAMETERS));
}

/* Keys of generation on a CPU, and what goes with any device. */
static const struct {
    const char *key, *anywhere;
} host_keys[] = {{"quantization", "none"}, {"kv_cache_dtype", "auto"}};

static sr1_status check_host_keys(const sr1_rollout *r, const sr1_config *c)
{
    for (size_t i = 0; i < sizeof host_keys / sizeof host_keys[0]; i++) {
        const char *key = host_keys[i].key, *anywhere = host_keys[i].anywhere;

        if (!sr1__config_is(c, key, anywhere) && !sr1__host_supports(r->model))
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "%s %s is of generation on a CPU in fp32 or bf16; set "
                             "device and dtype so, or %s to %s",
                             key, sr1__config_str(c, key), key, anywhere);
    }
    return SR1_OK;
}

static sr1_status open_engines(sr1_rollout *r, const sr1_config *c)
{
    const struct sr1__local_options options = {
        .n_slots = sr1__rollout_engine_sequences(r),
        .decoder_rows = sr1__rollout_decoder_rows(r),
        .max_context = r->limits.max_context,
        .eager = sr1__config_bool(c, "enforce_eager"),
        .int8 = sr1__config_is(c, "quantization", "int8"),
        .narrow_cache = sr1__config_is(c, "kv_cache_dtype", "bfloat16")};

    for (int32_t i = 0; i < r->n_engines; i++)
        SR1__TRY(sr1__local_engine_new(&r->engines[i], r->replicas[i], &options));
    return SR1_OK;
}

static void begin_worker(void *rollout)
{
    (void)sr1__torch_threads_swap(sr1__rollout_threads(rollout));
}

/* Engines share the weights; threads that are left over go into single operations. */
static sr1_status make_engines(sr1_rollout *r, const sr1_config *c)
{
    size_t n = r->model ? (size_t)sr1__choose_engine_count(c, r->model) : 0;

    if (n == 0)
        return SR1_OK;
    SR1__TRY(check_host_keys(r, c));
    r->engines = sr1__calloc(n, sizeof(*r->engines));
    r->replicas = sr1__calloc(n, sizeof(sr1_model *));
    if (!r->engines || !r->replicas)
        return sr1__fail_nomem("rollout");
    r->n_engines = (int32_t)n;
    r->replicas[0] = sr1__model_retain(r->model);
    for (size_t i = 1; i < n; i++)
        SR1__TRY(sr1__model_replica(&r->replicas[i], r->model));
    SR1__TRY(open_engines(r, c));
    r->threads = sr1__plan_engine_threads(c, r->model->device, (int32_t)n);
    return n > 1 ? sr1__pool_new_begun(&r->pool, (int32_t)n, begin_worker, r) : SR1_OK;
}

/* Messages that say how much they think before they think cannot begin in a thought. */
static sr1_status check_thoughts(const sr1_rollout *r)
{
    const struct sr1__protocol *p = sr1__env_protocol(r->env);

    if (!p->levels || !sr1__chat_begins_in_thought(r->tokenizer, !r->thinking))
        return SR1_OK;
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "protocol %s: the chat template (%s) opens a thought before the "
                     "policy can choose its level; take a model whose template does not",
                     p->name, sr1_tokenizer_chat_family(r->tokenizer));
}

static sr1_status hold_determinism(sr1_rollout *r, const sr1_config *c)
{
    if (!sr1__config_bool(c, "full_determinism"))
        return SR1_OK;
    SR1__TRY(sr1__torch_determinism_hold());
    r->deterministic = 1;
    return SR1_OK;
}

sr1_status sr1__rollout_begin(sr1_rollout **out, const sr1_config *config,
                              const struct sr1__rollout_given *given)
{
    sr1_rollout *r;
    sr1_status st;

    SR1__TRY(sr1_config_validate(config));
    SR1__TRY(sr1__rollout_new_empty(&r));
    r->model = sr1__model_retain(given->model);
    r->tokenizer = given->tokenizer ? sr1__tokenizer_ref(given->tokenizer) : NULL;
    r->search = sr1_search_retain(given->search);
    r->trained = given->trained;
    st = hold_determinism(r, config);
    if (st == SR1_OK)
        st = open_server(r, config);
    if (st == SR1_OK)
        st = open_rollout_model(r, config);
    if (st == SR1_OK)
        st = open_rollout_tokenizer(r, config);
    if (st != SR1_OK) {
        sr1_rollout_free(r);
        return st;
    }
    *out = r;
    return SR1_OK;
}

static sr1_status copy_warning(char **out, const char *text)
{
    *out = *text ? sr1__strdup(text) : NULL;
    return *text && !*out ? sr1__fail_nomem("rollout") : SR1_OK;
}

sr1_status sr1__rollout_complete(sr1_rollout *r, const sr1_config *c,
                                 const struct sr1__env_parts *parts)
{
    const struct sr1__protocol *p = sr1__env_protocol(parts->env);

    SR1__TRY(read_system(r, c, p));
    SR1__TRY(read_question(r, c));
    SR1__TRY(read_gold_field(r, c));
    read_limits(r, c);
    SR1__TRY(sr1__answer_keys_hash(c, &r->answer_keys));
    SR1__TRY(sr1__rollout_use_env(r, parts->env, parts->no_search_env, parts->reviser));
    SR1__TRY(copy_warning(&r->no_env, parts->no_env));
    SR1__TRY(copy_warning(&r->no_engine, parts->no_engine));
    SR1__TRY(copy_warning(&r->odd_pair, parts->odd_pair));
    SR1__TRY(check_thoughts(r));
    SR1__TRY(sr1__tokenizer_with_text(&r->speech, r->tokenizer, p->tags, SR1__TAG_COUNT));
    if (p->chat)
        SR1__TRY(sr1__turn_delimiters_make(&r->border, r->tokenizer, !r->thinking));
    if (p->ipython)
        SR1__TRY(sr1__ipython_delimiters_make(&r->ipython, r->tokenizer, !r->thinking));
    SR1__TRY(sr1__sampling_check(&r->sampling));
    return make_engines(r, c);
}
