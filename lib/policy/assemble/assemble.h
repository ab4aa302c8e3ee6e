/* policy/assemble/assemble.h - objects from configuration keys, a file for each kind:
 *
 *     search_from_config.c     search engines
 *     rewards_from_config.c    rewards
 *     adapter_from_config.c    the adapter that a policy is trained by
 *     answer_keys.c            hashes of what answers actions, how policies compute, and
 *                              what rewards are computed with
 *     policy_from_config.c     server, weights, tokenizer, prompts, limits of a rollout
 *     generator_from_config.c  models that talk: a rollout in the environment "none"
 *     env_from_config.c        environments, by the table of the key `environment`
 *     rollout_from_config.c    a rollout of these
 *
 * A file uses those above it. */
#ifndef SR1__POLICY_ASSEMBLE_ASSEMBLE_H
#define SR1__POLICY_ASSEMBLE_ASSEMBLE_H

#include "policy/rollout_internal.h"

/* The keys lora_rank (0: no adapter), lora_alpha, lora_targets and lora_dropout; before
 * is
 * "", or "critic_" for the critic's, whose dropout is the policy's. */
sr1_status sr1__lora_configured(struct sr1__lora_config *out, const char *before,
                                const sr1_config *c);
/* SR1_E_CONFIG unless c asks for the adapter that model_name_or_path holds, of a base of
 * this shape. */
sr1_status sr1__adapter_check(const struct sr1__lora_config *held,
                              const struct sr1__hf_config *shape, const sr1_config *c);
/* Give the policy m the adapter that c asks for; one that m was loaded with must be it.
 */
sr1_status sr1__adapter_configured(sr1_model *m, const sr1_config *c);

/* A function of what the configuration says of the answers to actions, and of the numbers
 * that the policy computes with: equal where they are. */
sr1_status sr1__answer_keys_hash(const sr1_config *c, uint64_t *out);
/* The same of what rewards are computed with; 0: all of it is the default. */
sr1_status sr1__reward_keys_hash(const sr1_config *c, uint64_t *out);
/* *hash goes on with the bytes of a small file; what is no file of reasonable size, such
 * as a word in place of a path, changes nothing. */
sr1_status sr1__rule_file_hash(const char *path, uint64_t *hash);
/* The same for an index, which is too large to be read for this: of its size and its end,
 * where one of ours has the checksums of all its parts (retrieval/search/sections.h). */
sr1_status sr1__index_file_hash(const char *path, uint64_t *hash);
/* The same of each file that a key lists, as FILE or FILE:NAME. */
sr1_status sr1__listed_files_hash(const sr1_config *c, const char *key, uint64_t *hash);

/* What the caller of a rollout brings; a reference of its own is taken. */
struct sr1__rollout_given {
    sr1_model *model;         /* NULL: the configuration's, if any is needed */
    sr1_tokenizer *tokenizer; /* NULL: the configuration's */
    sr1_search *search;       /* NULL: the configuration's */
    int32_t trained;          /* weights that learn, also where a server generates */
};

/* What answers a rollout's actions; zeroed there is none. */
struct sr1__env_parts {
    sr1_env *env;
    sr1_env *no_search_env;       /* for the no_search ablation */
    const sr1_generator *reviser; /* borrowed: failed revisions drop trajectories */
    /* what to say of them, "" nothing: */
    char no_env[512];    /* the run had another one, or an engine, of its program's */
    char no_engine[512]; /* nobody named the engine that env searches */
    char odd_pair[512];  /* the protocol is that of another environment */
};

/* A rollout that has all but its environment. */
sr1_status sr1__rollout_begin(sr1_rollout **out, const sr1_config *config,
                              const struct sr1__rollout_given *given);
/* With the environment it is whole. */
sr1_status sr1__rollout_complete(sr1_rollout *r, const sr1_config *c,
                                 const struct sr1__env_parts *parts);

/* How many bytes of an item of reward_programs, FILE or FILE:NAME, are the file. */
size_t sr1__reward_program_path(const char *item);

/* Engines side by side over these weights (key workers). */
int32_t sr1__choose_engine_count(const sr1_config *c, const sr1_model *m);
/* The same for weights that are not there: so many parameters on this device. */
int32_t sr1__plan_engine_count(const sr1_config *c, sr1__device device,
                               double parameters);
/* Does no sum depend on how the work is divided? Those of libtorch do among threads. */
int sr1__has_own_order(const sr1_config *c, sr1__device device);
/* CPU threads of each of so many. */
int32_t sr1__plan_engine_threads(const sr1_config *c, sr1__device device,
                                 int32_t engines);

/* The environment that c names; what belongs to it (engine, problems, reviser) is kept in
 * r. Free parts also after a failure. */
sr1_status sr1__env_parts_open(struct sr1__env_parts *parts, sr1_rollout *r,
                               const sr1_config *c);
void sr1__env_parts_free(struct sr1__env_parts *parts);

/* The frozen model that revises answers in the environment critique, as the configuration
 * names it, on as many engines as the policy has: loaded from its folder now, so that no
 * update reaches it. */
sr1_status sr1__reviser_open(sr1_generator **out, const sr1_config *c, int32_t engines);

#endif
