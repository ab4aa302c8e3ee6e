/* policy/assemble/answer_keys.c - hashes of what the configuration says: of the answers
 * to a policy's actions (engines, the form of their hits, programs, tools, protocols)
 * with the numbers that the policy computes with, and of what rewards are computed with.
 * Work that goes on by others (policy/fingerprint.h) is refused. */
#include "policy/assemble/assemble.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/run_config.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_RULE_FILE ((size_t)64 << 20)

/* What a search finds and how its hits are written follows from these, whichever engine
 * the caller gives. */
static const char *const keys[] = {"search_engine",         "search_fallback",
                                   "search_index",          "search_dense_index",
                                   "search_faiss_index",    "search_documents",
                                   "search_nprobe",         "search_ef",
                                   "search_encoder",        "search_hybrid",
                                   "search_hybrid_weights", "search_hybrid_depth",
                                   "search_rrf_k",          "search_reranker",
                                   "search_rerank_depth",   "mock_knowledge",
                                   "document_format",       "search_top_k"};

/* And from these, which came later: a default adds nothing, so that work begun before
 * goes on. */
static const char *const later_keys[] = {"search_provider",
                                         "search_google_cx",
                                         "opensearch_fields",
                                         "qdrant_vector",
                                         "qdrant_fields",
                                         "qdrant_id_field",
                                         "bm25_k1",
                                         "bm25_b",
                                         "dtype",
                                         "quantization",
                                         "max_parallel_calls",
                                         "kv_cache_dtype"};

/* A server may have moved; what it is asked for there counts. */
static const char *const addresses[] = {"search_url", "search_web_url", "opensearch_url",
                                        "qdrant_url"};

/* By what is in them. */
static const struct {
    const char *key;
    sr1_status (*hash)(const char *path, uint64_t *hash);
} files[] = {{"search_program", sr1__rule_file_hash},
             {"environment_program", sr1__rule_file_hash},
             {"tools", sr1__rule_file_hash},
             {"protocol_file", sr1__rule_file_hash},
             {"search_index", sr1__index_file_hash},
             {"search_dense_index", sr1__index_file_hash},
             {"search_faiss_index", sr1__index_file_hash}};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

sr1_status sr1__index_file_hash(const char *path, uint64_t *hash)
{
    return *path && sr1__path_exists(path) && !sr1__path_is_dir(path)
               ? sr1__file_end_hash(path, UINT64_MAX, hash)
               : SR1_OK;
}

sr1_status sr1__rule_file_hash(const char *path, uint64_t *hash)
{
    struct stat info;
    struct sr1__buf text;

    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) ||
        (uint64_t)info.st_size > MAX_RULE_FILE)
        return SR1_OK;
    SR1__TRY(sr1__file_read(path, MAX_RULE_FILE, &text));
    *hash = sr1__hash64(sr1__buf_cstr(&text), text.len, *hash + 1);
    sr1__buf_free(&text);
    return SR1_OK;
}

size_t sr1__reward_program_path(const char *item)
{
    const char *slash = strrchr(item, '/'), *colon = strrchr(slash ? slash : item, ':');

    return colon ? (size_t)(colon - item) : strlen(item);
}

sr1_status sr1__listed_files_hash(const sr1_config *c, const char *key, uint64_t *hash)
{
    char **items = NULL;
    size_t n = 0;
    sr1_status st = sr1__config_list(c, key, &items, &n);

    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        items[i][sr1__reward_program_path(items[i])] = '\0';
        st = sr1__rule_file_hash(items[i], hash);
    }
    sr1__free(items);
    return st;
}

static sr1_status read_defaults(json_t **out)
{
    sr1_config *c = NULL;
    sr1_status st = sr1_config_new(&c);

    if (st == SR1_OK)
        st = sr1__config_to_object(c, out);
    sr1_config_free(c);
    return st;
}

static sr1_status add_values(const sr1_config *c, struct sr1__buf *b)
{
    json_t *all = NULL;
    sr1_status st = sr1__config_to_object(c, &all);

    for (size_t i = 0; st == SR1_OK && i < COUNT(keys); i++) {
        sr1__buf_str(b, "\n");
        st = sr1__json_dump(json_object_get(all, keys[i]), 0, b);
    }
    json_decref(all);
    return st;
}

/* Those of the keys [n] that have other values than their defaults. */
static sr1_status add_changed_values(const sr1_config *c, const char *const *names,
                                     size_t n, struct sr1__buf *b)
{
    json_t *all = NULL, *defaults = NULL;
    sr1_status st = sr1__config_to_object(c, &all);

    if (st == SR1_OK)
        st = read_defaults(&defaults);
    for (size_t i = 0; st == SR1_OK && i < n; i++) {
        const json_t *v = json_object_get(all, names[i]);

        if (json_equal(v, json_object_get(defaults, names[i])))
            continue;
        sr1__buf_fmt(b, "\n%s ", names[i]);
        st = sr1__json_dump(v, 0, b);
    }
    json_decref(all);
    json_decref(defaults);
    return st;
}

static void add_addresses(const sr1_config *c, struct sr1__buf *b)
{
    for (size_t i = 0; i < COUNT(addresses); i++) {
        const char *url = sr1__config_str(c, addresses[i]);
        const char *host = strstr(url, "://"),
                   *path = host ? strchr(host + 3, '/') : NULL;

        if (path && path[1])
            sr1__buf_fmt(b, "\n%s %s", addresses[i], path);
    }
}

static sr1_status add_files(const sr1_config *c, struct sr1__buf *b)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        uint64_t hash = 0;

        SR1__TRY(files[i].hash(sr1__config_str(c, files[i].key), &hash));
        if (hash)
            sr1__buf_fmt(b, "\n%s %016" PRIx64, files[i].key, hash);
    }
    return SR1_OK;
}

sr1_status sr1__answer_keys_hash(const sr1_config *c, uint64_t *out)
{
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    st = add_values(c, &text);
    if (st == SR1_OK)
        st = add_changed_values(c, later_keys, COUNT(later_keys), &text);
    if (st == SR1_OK) {
        add_addresses(c, &text);
        st = add_files(c, &text);
    }
    if (st == SR1_OK)
        st = sr1__buf_status(&text, "keys of a rollout");
    *out = sr1__hash64(sr1__buf_cstr(&text), text.len, 0);
    sr1__buf_free(&text);
    return st;
}

/* ---- rewards ---- */

/* What they are computed with, beside their names and weights. */
static const char *const reward_keys[] = {
    "format_reward",        "format_penalty",
    "closed_thoughts",      "answer_reward",
    "exact_match_bonus",    "no_content_reward",
    "no_content_text",      "structure_format_score",
    "final_format_score",   "retrieval_score",
    "similarity_threshold", "reward_embedder",
    "reward_programs",      "judge_model",
    "judge_prompt",         "judge_max_score",
    "judge_samples",        "judge_vote",
    "judge_temperature",    "judge_max_tokens",
    "judgement_required",   "code_problems",
    "code_judge",           "execution_score",
    "execution_time_limit", "data_source_rewards",
    "repetition_n_grams",   "repetition_max_penalty",
    "gold_ids_field",       "search_price"};

/* Their files, by what is in them. */
static sr1_status hash_reward_files(const sr1_config *c, uint64_t *hash)
{
    SR1__TRY(sr1__rule_file_hash(sr1__config_str(c, "judge_prompt"), hash));
    SR1__TRY(sr1__listed_files_hash(c, "reward_programs", hash));
    return sr1__listed_files_hash(c, "code_problems", hash);
}

sr1_status sr1__reward_keys_hash(const sr1_config *c, uint64_t *out)
{
    uint64_t hash = 0;
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    st = add_changed_values(c, reward_keys, COUNT(reward_keys), &text);
    if (st == SR1_OK)
        st = hash_reward_files(c, &hash);
    if (st == SR1_OK)
        st = sr1__buf_status(&text, "keys of rewards");
    *out = text.len ? sr1__hash64(sr1__buf_cstr(&text), text.len, hash) : 0;
    sr1__buf_free(&text);
    return st;
}
