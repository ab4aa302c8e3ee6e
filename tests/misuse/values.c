/* misuse/values.c - values that a call takes, so that only what is spoilt is wrong.
 *
 * A text is given as it is, a number as text, a handle by the name of its factory. An
 * array begins with '@': @zeros (the default), @ones (bytes), @rising (int64 0, 1, 2,
 * ...), @one64, @one32, @texts. */
#include "misuse/misuse.h"

#include <searchr1/searchr1.h>
#include <searchr1/ext/code.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/critique.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/faiss.h>
#include <searchr1/ext/loss.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/openai.h>
#include <searchr1/ext/sandbox.h>
#include <searchr1/ext/server.h>
#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/world.h>

#include <stdlib.h>
#include <string.h>

#define LEN(array) (sizeof(array) / sizeof *(array))

static const struct value {
    const char *owner; /* function or struct; NULL: any */
    const char *name;
    const char *value;
} values[] = {
    /* ---- parameters ---- */
    {"sr1_advantage_options_init", "estimator", "grpo"},
    {NULL, "estimator", "grpo"},
    {"sr1_thinking_confidence", "kind", "mean"},
    {"sr1_kl_tokens", "kind", "k3"},
    {"sr1_kl_penalty", "kind", "k3"},
    {"sr1_query_select", "rule", "uniform"},
    {"sr1_overlong_penalty", "max_length", "8"},
    {"sr1_overlong_penalty", "cache", "4"},
    {"sr1_dynamic_sampling", "high", "1"},
    {"sr1_config_load", "path", "config.yaml"},
    {"sr1_config_set", "key", "beta"},
    {"sr1_config_set", "text", "0.1"},
    {"sr1_config_unset", "key", "beta"},
    {"sr1_config_set_pair", "pair", "beta=0.1"},
    {"sr1_config_get_int", "key", "seed"},
    {"sr1_config_get_real", "key", "beta"},
    {"sr1_config_get_bool", "key", "use_openai"},
    {"sr1_config_get_str", "key", "out"},
    {"sr1_config_is_set", "key", "beta"},
    {"sr1_dataset_open", "paths", "questions.jsonl"},
    {"sr1_qrels_open", "path", "qrels.txt"},
    {"sr1_qrels_measure", "query", "q"},
    {"sr1_search_measure_options", "top_k", "1"},
    {"sr1_lines_open", "path", "questions.jsonl"},
    {"sr1_dataset_write_records", "path", "out/records.jsonl"},
    {"sr1_problems_load", "paths", "problems.jsonl"},
    {"sr1_problems_parse", "text",
     "{\"id\": \"p\", \"problem\": \"Do it.\", \"tests\": [\"x\"]}\n"},
    {"sr1_problems_parse", "len", "49"},
    {"sr1_problems_find", "id", "p"},
    {"sr1_critique_style_open", "critique_template", ""},
    {"sr1_critique_style_open", "solve_template", ""},
    {"sr1_revision_trees_expand", "widths", "@one32"},
    {"sr1_revision_trees_write_demos", "path", "out/demos.jsonl"},
    {"sr1_revision_trees_write_rows", "path", "out/rows.jsonl"},
    {"sr1_revision_trees_write_rows", "problem_paths", "problems.jsonl"},
    {"sr1_revision_trees_pass_at_k", "k", "1"},
    {"sr1_pass_at_k", "n", "2"},
    {"sr1_pass_at_k", "k", "1"},
    {"sr1_bm25_info_get", "engine", "bm25"},
    {"sr1_dense_info_get", "engine", "dense"},
    {"sr1_env_open", "name", "none"},
    {"sr1_env_answer", "action", "{\"name\": \"t\", \"args\": {}}"},
    {"sr1_env_step", "action", "{\"name\": \"t\", \"args\": {}}"},
    {"sr1_env_answer", "action_len", "25"},
    {"sr1_env_step", "action_len", "25"},
    {"sr1_env_sink_status", "status", "0"},
    {"sr1_thinking_level", "level", "1"},
    {NULL, "protocol", "search-r1"},
    {"sr1_critique_env_open", "protocol", "ctrl"},
    {"sr1_loss_options_init", "loss", "grpo"},
    {"sr1_loss_compute", "name", "grpo"},
    {"sr1_loss_choose", "name", "clip_cov"},
    {"sr1_loss_reject", "criteria", "token_k1"},
    {"sr1_loss_reject", "thresholds", "2"},
    {"sr1_loss_weights", "aggregation", "token-mean"},
    {"sr1_loss_weights", "weights", "@zeros"},
    {"sr1_embedder_open", "folder", "encoder"},
    {"sr1_reranker_open", "folder", "encoder"},
    {"sr1_model_open", "folder", "model"},
    {"sr1_model_save", "folder", "out/model"},
    {"sr1_trainer_save_model", "folder", "out/trained"},
    {"sr1_trainer_resume", "run_folder", "out/run"},
    {"sr1_config_load_run", "folder", "out/run"},
    {"sr1_generator_open_model", "folder", "model"},
    {"sr1_model_new_random", "config_json",
     "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
     "\"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, "
     "\"num_key_value_heads\": 1, \"head_dim\": 16, \"intermediate_size\": 16, "
     "\"vocab_size\": 320, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, "
     "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}"},
    {"sr1_rollout_log_probs", "out_len", "3"},
    {"sr1_synthesise", "path", "out/synth.jsonl"},
    {"sr1_suite_run", "folder", "sets"},
    {"sr1_suite_run", "results", "out/results"},
    {"sr1_suite_figure", "index", "0"},
    {"sr1_suite_figure", "figure", "f1"},
    {"sr1_search_sink_row", "sink", "sink with a hit"},
    {"sr1_search_sink_row", "row", "{\"id\": \"1\"}"},
    {"sr1_search_sink_hit", "query", "0"},
    {"sr1_search_sink_row", "query", "0"},
    {"sr1_search_sink_status", "query", "0"},
    {"sr1_search_results_status", "query", "0"},
    {"sr1_search_results_message", "query", "0"},
    {"sr1_search_results_hit_count", "query", "0"},
    {"sr1_search_results_hit", "query", "0"},
    {"sr1_search_results_hit", "k", "0"},
    {"sr1_search_set_threads", "threads", "1"},
    {"sr1_search_open_mock_file", "path", "mock.json"},
    {"sr1_search_open_remote", "url", "@url"},
    {"sr1_search_open_opensearch", "url", "@url"},
    {"sr1_search_open_qdrant", "url", "@url"},
    {"sr1_search_open_web", "provider", "searxng"},
    {NULL, "corpus_path", "corpus.jsonl"},
    {"sr1_bm25_build", "index_path", "out/corpus.bm25"},
    {"sr1_dense_build", "index_path", "out/corpus.dense"},
    {"sr1_dense_import", "index_path", "out/imported.dense"},
    {"sr1_dense_import", "vectors_path", "vectors.f32"},
    {"sr1_search_open_hybrid", "weights", "@one32"},
    {NULL, "dim", "4"},
    {"sr1_bm25_verify", "path", "corpus.bm25"},
    {"sr1_search_open_bm25", "path", "corpus.bm25"},
    {"sr1_search_open_dense", "path", "corpus.dense"},
    {"sr1_dense_verify", "path", "corpus.dense"},
    {"sr1_dense_info_read", "path", "corpus.dense"},
    {"sr1_dense_embedder_name", "path", "corpus.dense"},
    {"sr1_search_open_disk_cache", "folder", "out/cache"},
    {"sr1_search_open_faiss", "index_path", "corpus.faiss"},
    {"sr1_search_open_faiss", "documents", "corpus.bm25"},
    {"sr1_faiss_build", "vectors", "corpus.dense"},
    {"sr1_faiss_build", "faiss_path", "out/corpus.faiss"},
    {"sr1_faiss_build", "factory", "Flat"},
    {"sr1_tokenizer_open", "path", "tokenizer"},
    {"sr1_tokenizer_save", "dir", "out"},
    {"sr1_tokenizer_train", "dir", "out/trained-tokenizer"},
    {"sr1_tokenizer_train", "sizes", "@one64"},
    {"sr1_tokenizer_train", "weights", "@one64"},
    {"sr1_tokenizer_chat", "roles", "user"},
    {"sr1_tokenizer_chat", "content_sizes", "@one64"},
    {"sr1_tokenizer_chat_json", "messages", "[{\"role\": \"user\", \"content\": \"q\"}]"},
    {"sr1_tokenizer_chat_json", "n", "34"},
    {"sr1_tokenizer_encode_input", "max_tokens", "8"},
    {"sr1_trajectory_decode", "bytes", "@trajectory.bin"},
    {"sr1_trajectory_from_json", "text", "@trajectory.json"},
    {"sr1_trajectory_set_column", "n", "3"},
    {"sr1_reward_set_score_turns", "turn_begin", "@rising"},
    {"sr1_balance", "parts", "1"},
    {"sr1_world_write", "folder", "out/world"},
    {"sr1_rooms_write", "folder", "out/rooms"},
    {"sr1_programs_write", "folder", "out/programs"},
    {"sr1_rooms_make", "split", "train"},
    {"sr1_execution_wait", "seconds", "1"},
    {"sr1_check_wait", "seconds", "1"},
    {"sr1_evaluation_scores", "index", "0"},
    {"sr1_evaluation_figure", "score", "reward"},
    {"sr1_evaluation_figure", "figure", "mean@1"},
    {"sr1_revision_trees_scores", "revisions", "0"},
    {NULL, "index", "0"},
    {NULL, "i", "0"},
    {NULL, "column", "0"},
    {NULL, "part", "0"},
    {NULL, "what", "0"},
    {NULL, "mode", "0"},
    {NULL, "role", "0"},
    {NULL, "form", "0"},
    {NULL, "status", "0"},
    {NULL, "flags", "0"},
    {NULL, "verdict", "0"},
    {NULL, "stop_reason", "0"},
    {NULL, "skip_special", "0"},
    {NULL, "equal_sizes", "0"},
    {NULL, "episode", "0"},
    {"sr1_embedder_embed", "kind", "0"},
    {"sr1_search_set_cache", "max_bytes", "65536"},
    {"sr1_dataset_split", "validation_fraction", "0"},
    {"sr1_dataset_split", "test_fraction", "0"},
    {NULL, "name", "name"},
    /* ---- fields; those without a value stay as _init or zeros leave them ---- */
    {"sr1_advantage_batch", "n", "2"},
    {"sr1_advantage_batch", "rewards", "@zeros"},
    {"sr1_advantage_batch", "groups", "@zeros"},
    {"sr1_advantage_batch", "token_begin", "@rising"},
    {"sr1_advantage_options", "divide_by_std", "1"},
    {"sr1_advantage_outputs", "advantages", "@zeros"},
    {"sr1_advantage_outputs", "token_advantages", "@zeros"},
    {"sr1_kl_controller", "coef", "0.1"},
    {"sr1_kl_controller", "target", "0.1"},
    {"sr1_query_stats", "n", "2"},
    {"sr1_query_stats", "seen", "@zeros"},
    {"sr1_query_stats", "reward_variance", "@zeros"},
    {"sr1_query_stats", "success", "@zeros"},
    {"sr1_loss_batch", "n", "2"},
    {"sr1_loss_batch", "new_log_probs", "@zeros"},
    {"sr1_loss_batch", "old_log_probs", "@zeros"},
    {"sr1_loss_batch", "ref_log_probs", "@zeros"},
    {"sr1_loss_batch", "advantages", "@zeros"},
    {"sr1_loss_batch", "rollout_log_probs", "@zeros"},
    {"sr1_loss_batch", "n_seqs", "2"},
    {"sr1_loss_batch", "seq_begin", "@rising"},
    {"sr1_loss_options", "clip_low", "0.2"},
    {"sr1_loss_options", "clip_high", "0.2"},
    {"sr1_loss_options", "beta", "0.1"},
    {"sr1_loss_maps", "n_seqs", "1"},
    {"sr1_loss_maps", "seq_begin", "@rising"},
    {"sr1_value_batch", "n", "2"},
    {"sr1_value_batch", "values", "@zeros"},
    {"sr1_value_batch", "returns", "@zeros"},
    {"sr1_value_batch", "old_values", "@zeros"},
    {"sr1_dataset_options", "question_field", "question"},
    {"sr1_conversation", "roles", "user"},
    {"sr1_conversation", "contents", "q"},
    {"sr1_conversation", "sizes", "@one64"},
    {"sr1_conversation", "n", "1"},
    {"sr1_revision_tree_options", "problems", "@"},
    {"sr1_revision_tree_options", "solver", "@"},
    {"sr1_revision_tree_options", "critic", "@"},
    {"sr1_revision_tree_options", "reviser", "@"},
    {"sr1_revision_tree_options", "style", "@"},
    {"sr1_revision_tree_options", "path", "out/trees.jsonl"},
    {"sr1_critique_demo_options", "tokenizer", "@"},
    {"sr1_embedder_ops", "dim", "4"},
    {"sr1_openai_options", "base_url", "@url"},
    {"sr1_judge_options", "base_url", "@url"},
    {"sr1_judge_options", "prompt", "Score {{answer}}"},
    {"sr1_judge_options", "max_score", "1"},
    {"sr1_judge_options", "samples", "1"},
    {"sr1_judge_options", "max_tokens", "8"},
    {"sr1_judge_options", "retries", "0"},
    {"sr1_openai_options", "model", "m"},
    {"sr1_openai_options", "retries", "0"},
    {"sr1_openai_request", "prompt", "q"},
    {"sr1_openai_request", "prompt_len", "1"},
    {"sr1_openai_request", "max_tokens", "4"},
    {"sr1_openai_request", "stop", "."},
    {"sr1_openai_request", "n_stop", "1"},
    {"sr1_query", "text", "q"},
    {"sr1_query", "text_len", "1"},
    {"sr1_query", "id", "q"},
    {"sr1_query", "answers", "Paris"},
    {"sr1_query", "n_answers", "1"},
    {"sr1_query", "history_roles", "user"},
    {"sr1_query", "history_texts", "q"},
    {"sr1_query", "history_sizes", "@one64"},
    {"sr1_query", "n_history", "1"},
    {"sr1_rollout_options", "group_size", "1"},
    {"sr1_rollout_options", "max_tokens", "2"},
    {"sr1_eval_options", "max_rows", "1"},
    {"sr1_eval_options", "embedder", "@"},
    {"sr1_eval_options", "rewards", "@"},
    {"sr1_reward_options", "embedder", "@"},
    {"sr1_reward_options", "checker", "@"},
    {"sr1_reward_options", "problems", "@"},
    {"sr1_sandbox_options", "kind", "fusion"},
    {"sr1_sandbox_options", "url", "http://127.0.0.1:9"},
    {"sr1_sandbox_options", "retries", "0"},
    {"sr1_program", "code", "print(1)"},
    {"sr1_program", "file_paths", "a"},
    {"sr1_program", "file_bytes", "a"},
    {"sr1_program", "file_sizes", "@one64"},
    {"sr1_program", "n_files", "1"},
    {"sr1_sandbox_options", "read_only", "/usr"},
    {"sr1_sandbox_options", "n_read_only", "1"},
    {"sr1_submission", "completion", "x"},
    {"sr1_submission", "dataset", "d"},
    {"sr1_submission", "provided_data", "{}"},
    {"sr1_search_http_options", "retries", "0"},
    {"sr1_search_http_options", "url", "@url"},
    {"sr1_search_http_options", "fields", "contents"},
    {"sr1_server_options", "reranker", "@"},
    {"sr1_tokenizer_train_options", "vocab_size", "280"},
    {"sr1_tokenizer_train_options", "special_tokens", "<|endoftext|>"},
    {"sr1_tokenizer_train_options", "n_special_tokens", "1"},
    {"sr1_tokenizer_train_options", "added_tokens", "<a>"},
    {"sr1_tokenizer_train_options", "n_added_tokens", "1"},
    {"sr1_world_options", "scale", "0.05"},
    {"sr1_world_options", "sft_worlds", "1"},
    {"sr1_rooms_options", "train_questions", "1"},
    {"sr1_rooms_options", "demonstrations", "1"},
    {"sr1_programs_options", "train_problems", "1"},
    {"sr1_model_options", "device", "cpu"},
    {"sr1_model_options", "threads", "1"},
    {"sr1_encoder_options", "device", "cpu"},
    {"sr1_env_options", "protocol", "ctrl"},
};

const char *misuse_value(const char *owner, const char *name)
{
    const char *found = NULL;

    for (size_t i = 0; i < LEN(values); i++) {
        const struct value *v = &values[i];

        if (strcmp(v->name, name) != 0)
            continue;
        if (v->owner && strcmp(v->owner, owner) == 0)
            return v->value;
        if (!v->owner)
            found = v->value;
    }
    return found;
}

/* ---- callbacks: they do nothing, or stop what would take long ---- */

static sr1_status on_search(void *self, const char *const *queries, size_t n,
                            int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)n;
    (void)top_k;
    (void)sink;
    return SR1_OK;
}

static sr1_status on_embed(void *self, const char *const *texts, size_t n, int32_t kind,
                           float *out)
{
    (void)self;
    (void)texts;
    (void)kind;
    memset(out, 0, 4 * n * sizeof *out);
    return SR1_OK;
}

static sr1_status on_score(void *self, const char *query, const char *const *texts,
                           size_t n, double *scores)
{
    (void)self;
    (void)query;
    (void)texts;
    memset(scores, 0, n * sizeof *scores);
    return SR1_OK;
}

static sr1_status on_reward(void *self, const sr1_trajectory *const *trajectories,
                            size_t n, double *out)
{
    (void)self;
    (void)trajectories;
    memset(out, 0, n * sizeof *out);
    return SR1_OK;
}

static sr1_status on_act(void *self, const sr1_env_action *const *actions, size_t n,
                         sr1_env_sink *sink)
{
    (void)self;
    (void)actions;
    (void)n;
    (void)sink;
    return SR1_OK;
}

static sr1_status on_call(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    (void)self;
    (void)args;
    (void)len;
    (void)sink;
    return SR1_OK;
}

static sr1_status on_write(void *self, const sr1_conversation *const *conversations,
                           size_t n, sr1_generator_sink *sink)
{
    (void)self;
    (void)conversations;
    (void)n;
    (void)sink;
    return SR1_OK;
}

static sr1_status on_run(void *user, const sr1_problem *problem, const char *answer,
                         size_t len, int32_t *verdict, double *pass_rate)
{
    (void)user;
    (void)problem;
    (void)answer;
    (void)len;
    *verdict = SR1_RUN_PASSED;
    *pass_rate = 1;
    return SR1_OK;
}

static sr1_status stop_world(void *user, const char *phase, int64_t done, int64_t total)
{
    (void)user;
    (void)phase;
    (void)done;
    (void)total;
    return sr1_set_error(SR1_E_CANCELLED, "stopped");
}

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
}

#define CALLBACK(function) ((void (*)(void))(uintptr_t)(function))

static const struct callback {
    const char *owner;
    const char *name;
    void (*f)(void);
} callbacks[] = {
    {"sr1_search_ops", "search", CALLBACK(on_search)},
    {"sr1_embedder_ops", "embed", CALLBACK(on_embed)},
    {"sr1_reranker_ops", "score", CALLBACK(on_score)},
    {"sr1_reward_ops", "score", CALLBACK(on_reward)},
    {"sr1_env_ops", "act", CALLBACK(on_act)},
    {"sr1_tool_ops", "call", CALLBACK(on_call)},
    {"sr1_generator_ops", "write", CALLBACK(on_write)},
    {"sr1_revision_tree_options", "run", CALLBACK(on_run)},
    {"sr1_world_write", "progress", CALLBACK(stop_world)},
    {"sr1_rooms_write", "progress", CALLBACK(stop_world)},
    {"sr1_programs_write", "progress", CALLBACK(stop_world)},
    {"sr1_log_set", "fn", CALLBACK(on_log)},
};

void (*misuse_callback(const char *owner, const char *name))(void)
{
    for (size_t i = 0; i < LEN(callbacks); i++)
        if (strcmp(callbacks[i].owner, owner) == 0 &&
            strcmp(callbacks[i].name, name) == 0)
            return callbacks[i].f;
    return NULL;
}

/* ---- arrays and structs ---- */

static void fill64(void *room, int64_t first, int64_t step)
{
    int64_t *v = room;

    for (size_t i = 0; i < MISUSE_ROOM / sizeof *v; i++)
        v[i] = first + step * (int64_t)i;
}

void misuse_array(void *room, const char *value)
{
    int32_t *v = room;

    memset(room, 0, MISUSE_ROOM);
    if (strcmp(value, "@rising") == 0)
        fill64(room, 0, 1);
    if (strcmp(value, "@one64") == 0)
        fill64(room, 1, 0);
    if (strcmp(value, "@one32") == 0)
        for (size_t i = 0; i < MISUSE_ROOM / sizeof *v; i++)
            v[i] = 1;
}

static void *array_of(const char *value)
{
    void *room = malloc(MISUSE_ROOM);

    misuse_array(room, value);
    return room;
}

static void *pointers_to(const char *text)
{
    const char **v = malloc(MISUSE_ROOM);

    for (size_t i = 0; i < MISUSE_ROOM / sizeof *v; i++)
        v[i] = text;
    return v;
}

static void fill_integer(char *at, size_t size, const char *value)
{
    int64_t v = strtoll(value, NULL, 10);

    memcpy(at, &v, size); /* little-endian */
}

static void fill_field(char *at, const struct field *f, const char *value)
{
    double real = strtod(value, NULL);
    const void *p = NULL;

    if (f->kind == INTEGER)
        fill_integer(at, f->size, value);
    else if (f->kind == REAL)
        memcpy(at, &real, f->size);
    else if (f->kind == HANDLE)
        p = misuse_make(f->type);
    else if (f->kind == POINTERS)
        p = pointers_to(value);
    else if (strcmp(value, "@url") == 0)
        p = misuse_server_url();
    else if (*value == '@')
        p = array_of(value);
    else
        p = value;
    if (p)
        memcpy(at, &p, sizeof p);
}

void misuse_fill(void *room, const struct shape *shape)
{
    memset(room, 0, MISUSE_ROOM);
    if (shape->init)
        shape->init(room);
    memcpy(room, &shape->size, sizeof shape->size);
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct field *f = &shape->fields[i];
        const char *value = misuse_value(shape->name, f->name);
        void (*callback)(void) = misuse_callback(shape->name, f->name);

        if (value && strcmp(f->name, "struct_size") != 0)
            fill_field((char *)room + f->offset, f, value);
        if (f->kind == FUNCTION && callback)
            memcpy((char *)room + f->offset, &callback, sizeof callback);
    }
}
