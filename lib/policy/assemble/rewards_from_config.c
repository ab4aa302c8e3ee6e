/* policy/assemble/rewards_from_config.c - the rewards that a configuration names. */
#include "config/config.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "environment/critique/problems_from_config.h"
#include "policy/assemble/assemble.h"
#include "signal/reward/reward_set.h"

#include <searchr1/ext/code.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/external.h>
#include <searchr1/ext/judge.h>
#include <searchr1/rollout.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/seed_rewards.h>

#include <string.h>

/* NULL where the configuration names none. */
static sr1_status open_configured_reward_embedder(sr1_embedder **out, const sr1_config *c)
{
    const char *folder = sr1__config_str(c, "reward_embedder");
    sr1_encoder_options o;

    *out = NULL;
    if (!*folder)
        return SR1_OK;
    sr1_encoder_options_init(&o);
    o.device = sr1__config_str(c, "device");
    return sr1__context(sr1_embedder_open(out, folder, &o), "reward_embedder");
}

/* Problems and what runs programs, for the rewards that need them. */
static sr1_status open_reward_checker(sr1_reward_options *o, const sr1_config *c)
{
    if (!sr1__config_has_item(c, "rewards", "execution") &&
        !sr1__config_has_item(c, "rewards", "judgement"))
        return SR1_OK;
    SR1__TRY(sr1__problems_from_config(&o->problems, c));
    return sr1_checker_open(&o->checker, c);
}

static sr1_status open_judge_with(sr1_judge **out, const sr1_config *c,
                                  const char *prompt)
{
    sr1_judge_options o;

    sr1_judge_options_init(&o);
    o.base_url = sr1__config_str(c, "judge_base_url");
    o.model = sr1__config_str(c, "judge_model");
    o.key_env = sr1__config_str(c, "judge_api_key_env");
    o.ca_file = sr1__config_str(c, "openai_ca_file");
    o.timeout_s = sr1__config_real(c, "judge_timeout");
    o.retries = (int32_t)sr1__config_int(c, "judge_retries");
    o.concurrency = (int32_t)sr1__config_int(c, "judge_concurrency");
    o.prompt = prompt;
    o.max_score = sr1__config_real(c, "judge_max_score");
    o.samples = (int32_t)sr1__config_int(c, "judge_samples");
    o.vote =
        sr1__config_is(c, "judge_vote", "majority") ? SR1_JUDGE_MAJORITY : SR1_JUDGE_MEAN;
    o.temperature = sr1__config_real(c, "judge_temperature");
    o.max_tokens = sr1__config_int(c, "judge_max_tokens");
    o.cache_dir = sr1__config_str(c, "judge_cache_dir");
    o.max_requests = sr1__config_int(c, "judge_max_requests");
    o.max_total_tokens = sr1__config_int(c, "judge_max_total_tokens");
    o.seed = (uint64_t)sr1__config_int(c, "seed");
    return sr1_judge_open(out, &o);
}

#define RUBRIC_MAX ((size_t)1 << 20)

sr1_status sr1_judge_open_config(sr1_judge **out, const sr1_config *config)
{
    const char *path;
    struct sr1__buf rubric;
    sr1_status st = SR1_OK;

    SR1__REQUIRE(out && config, "judge: out and config");
    path = sr1__config_str(config, "judge_prompt");
    sr1__buf_init(&rubric, 0);
    if (*path)
        st = sr1__file_read(path, RUBRIC_MAX, &rubric);
    if (st == SR1_OK && !sr1__utf8_valid(sr1__buf_cstr(&rubric), rubric.len))
        st = sr1__fail(SR1_E_CONFIG, "judge_prompt: %s is not UTF-8", path);
    if (st == SR1_OK)
        st = open_judge_with(out, config, sr1__buf_cstr(&rubric));
    sr1__buf_free(&rubric);
    return st;
}

/* NULL where no reward needs one. */
static sr1_status open_reward_judge(sr1_judge **out, const sr1_config *c)
{
    if (!sr1__config_has_item(c, "rewards", "judge"))
        return SR1_OK;
    return sr1_judge_open_config(out, c);
}

/* ---- programs of the user's ---- */

/* "FILE:NAME", or FILE, whose name is that of the file without its ending. A built-in
 * reward's name would have two meanings in rewards. */
struct reward_program_name {
    char path[1024];
    char name[201];
};

static sr1_status read_program_name(const char *item, struct reward_program_name *out)
{
    size_t path = sr1__reward_program_path(item);
    const char *slash = strrchr(item, '/'), *colon = item[path] ? item + path : NULL;
    const char *file = slash ? slash + 1 : item;
    const char *dot = strrchr(file, '.');
    size_t name = colon ? strlen(colon + 1) : dot ? (size_t)(dot - file) : strlen(file);

    if (path == 0 || path >= sizeof(out->path) || name == 0 || name >= sizeof(out->name))
        return sr1__fail(SR1_E_CONFIG,
                         "reward_programs: '%.128s' is neither FILE nor FILE:NAME", item);
    memcpy(out->path, item, path);
    out->path[path] = '\0';
    memcpy(out->name, colon ? colon + 1 : file, name);
    out->name[name] = '\0';
    if (sr1__reward_is_builtin(out->name))
        return sr1__fail(SR1_E_CONFIG,
                         "reward_programs: '%s' is a built-in reward; name the program "
                         "otherwise (%.128s:NAME)",
                         out->name, out->path);
    return SR1_OK;
}

/* Add the program that an item of reward_programs names. */
static sr1_status add_reward_program(sr1_reward_set *set, const char *item, double weight,
                                     const sr1_config *c)
{
    sr1_external_options o = {.struct_size = sizeof(o),
                              .timeout_s = sr1__config_real(c, "program_timeout")};
    struct reward_program_name p;

    SR1__TRY(read_program_name(item, &p));
    return sr1_reward_set_add_external(set, p.path, p.name, weight, &o);
}

/* The names and weights of rewards that are no program's, as text again, and the weight
 * of each program. */
struct reward_split {
    char **programs; /* [n_programs] */
    size_t n_programs;
    double *program_weights; /* [n_programs] */
    char *named;             /* [n_programs] rewards has it */
    struct sr1__buf names, weights;
};

static void free_split(struct reward_split *s)
{
    sr1__free(s->programs);
    sr1__free(s->program_weights);
    sr1__free(s->named);
    sr1__buf_free(&s->names);
    sr1__buf_free(&s->weights);
}

/* The program of that name; n_programs: none. */
static size_t find_program(const struct reward_split *s, const char *name)
{
    struct reward_program_name p;
    size_t i = 0;

    while (i < s->n_programs &&
           (read_program_name(s->programs[i], &p) != SR1_OK || strcmp(p.name, name) != 0))
        i++;
    return i;
}

static sr1_status split_name(struct reward_split *s, const char *name, const char *weight)
{
    size_t i = find_program(s, name);

    if (i < s->n_programs) {
        if (s->named[i]++)
            return sr1__fail(SR1_E_CONFIG, "rewards: '%.128s' is there twice", name);
        if (weight && !sr1__parse_real(weight, strlen(weight), &s->program_weights[i]))
            return sr1__fail(SR1_E_CONFIG, "reward_weights: '%.32s' is no number",
                             weight);
        return SR1_OK;
    }
    sr1__buf_fmt(&s->names, "%s%s", s->names.len ? "," : "", name);
    if (weight)
        sr1__buf_fmt(&s->weights, "%s%s", s->weights.len ? "," : "", weight);
    return SR1_OK;
}

static sr1_status split_names(struct reward_split *s, char *const *names, size_t n,
                              char *const *weights, size_t n_weights)
{
    if (n_weights > n)
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights: more numbers than names in rewards; a "
                         "program is weighed where rewards names it");
    for (size_t i = 0; i < n; i++)
        SR1__TRY(split_name(s, names[i], i < n_weights ? weights[i] : NULL));
    SR1__TRY(sr1__buf_status(&s->names, "rewards"));
    return sr1__buf_status(&s->weights, "rewards");
}

static sr1_status split_rewards(struct reward_split *s, const sr1_config *c)
{
    char **names = NULL, **weights = NULL;
    size_t n = 0, n_weights = 0;
    sr1_status st;

    *s = (struct reward_split){0};
    sr1__buf_init(&s->names, 0);
    sr1__buf_init(&s->weights, 0);
    SR1__TRY(sr1__config_list(c, "reward_programs", &s->programs, &s->n_programs));
    s->program_weights = sr1__calloc(s->n_programs + 1, sizeof(double));
    s->named = sr1__calloc(s->n_programs + 1, 1);
    SR1__CHECK_ALLOC(s->program_weights && s->named, "rewards");
    for (size_t i = 0; i < s->n_programs; i++)
        s->program_weights[i] = 1;
    st = sr1__config_list(c, "rewards", &names, &n);
    if (st == SR1_OK)
        st = sr1__config_list(c, "reward_weights", &weights, &n_weights);
    if (st == SR1_OK)
        st = split_names(s, names, n, weights, n_weights);
    sr1__free(names);
    sr1__free(weights);
    return st;
}

static sr1_status add_reward_programs(sr1_reward_set *set, const struct reward_split *s,
                                      const sr1_config *c)
{
    for (size_t i = 0; i < s->n_programs; i++)
        SR1__TRY(add_reward_program(set, s->programs[i], s->program_weights[i], c));
    return SR1_OK;
}

static sr1_status open_reward_set(sr1_reward_set **out, const sr1_config *c,
                                  const struct reward_split *split)
{
    sr1_status st;
    sr1_reward_scales scales = {.struct_size = sizeof(scales)};
    sr1_reward_options o = {.struct_size = sizeof(o), .scales = &scales};

    sr1_reward_scales_init(&scales);
    scales.format_reward = sr1__config_real(c, "format_reward");
    scales.format_penalty = sr1__config_real(c, "format_penalty");
    scales.answer_reward = sr1__config_real(c, "answer_reward");
    scales.exact_match_bonus = sr1__config_real(c, "exact_match_bonus");
    scales.no_content_reward = sr1__config_real(c, "no_content_reward");
    scales.similarity_threshold = sr1__config_real(c, "similarity_threshold");
    scales.structure_format_score = sr1__config_real(c, "structure_format_score");
    scales.final_format_score = sr1__config_real(c, "final_format_score");
    scales.retrieval_score = sr1__config_real(c, "retrieval_score");
    scales.repetition_n_grams = sr1__config_int(c, "repetition_n_grams");
    scales.repetition_max_penalty = sr1__config_real(c, "repetition_max_penalty");
    scales.search_price = sr1__config_real(c, "search_price");
    scales.closed_thoughts = sr1__config_bool(c, "closed_thoughts");
    scales.no_content_text = sr1__config_str(c, "no_content_text");
    o.rewards = strcmp(sr1__buf_cstr(&split->names), "none") == 0
                    ? ""
                    : sr1__buf_cstr(&split->names);
    o.weights = sr1__buf_cstr(&split->weights);
    o.protocol = sr1__config_protocol(c);
    o.judgement_required = sr1__config_bool(c, "judgement_required");
    o.data_source_rewards = sr1__config_str(c, "data_source_rewards");
    o.gold_ids_field = sr1__config_str(c, "gold_ids_field");
    st = open_configured_reward_embedder(&o.embedder, c);
    if (st == SR1_OK)
        st = open_reward_checker(&o, c);
    if (st == SR1_OK)
        st = open_reward_judge(&o.judge, c);
    if (st == SR1_OK)
        st = sr1_reward_set_new(out, &o);
    sr1_embedder_free(o.embedder);
    sr1_judge_free(o.judge);
    sr1_checker_free(o.checker);
    sr1_problems_free(o.problems);
    return st;
}

sr1_status sr1_reward_set_open(sr1_reward_set **out, const sr1_config *c)
{
    struct reward_split split = {0};
    sr1_reward_set *set = NULL;
    sr1_status st;

    if (!out || !c)
        return sr1__fail(SR1_E_INVALID, "rewards: out and config are required");
    st = split_rewards(&split, c);
    if (st == SR1_OK)
        st = open_reward_set(&set, c, &split);
    if (st == SR1_OK)
        st = add_reward_programs(set, &split, c);
    if (st == SR1_OK)
        st = sr1__reward_keys_hash(c, &set->keys);
    free_split(&split);
    SR1__RETURN_NEW(out, set, st, sr1_reward_set_free);
}
