/* train/rule_files.c - files that decide what a run does, beside its configuration and
 * its data: protocols, programs, prompts, tokenizer, indexes. A checkpoint keeps their
 * hashes, so that a run that goes on by others says so. */
#include "train/internal.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/assemble/assemble.h"
#include "policy/rollout_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static sr1_status hash_file(const sr1_trainer *tr, const char *key, uint64_t *hash)
{
    return sr1__rule_file_hash(sr1__config_str(tr->config, key), hash);
}

static sr1_status hash_list(const sr1_trainer *tr, const char *key, uint64_t *hash)
{
    return sr1__listed_files_hash(tr->config, key, hash);
}

static sr1_status hash_index(const sr1_trainer *tr, const char *key, uint64_t *hash)
{
    return sr1__index_file_hash(sr1__config_str(tr->config, key), hash);
}

/* What was read from a folder, of an adapter the base's too. */
static sr1_status hash_tokenizer(const sr1_trainer *tr, const char *key, uint64_t *hash)
{
    (void)key;
    sr1__tokenizer_hash_files(tr->rollout->tokenizer, 0, hash);
    return SR1_OK;
}

static sr1_status hash_more_of_tokenizer(const sr1_trainer *tr, const char *key,
                                         uint64_t *hash)
{
    (void)key;
    sr1__tokenizer_hash_files(tr->rollout->tokenizer, 1, hash);
    return SR1_OK;
}

static const struct {
    const char *key;
    sr1_status (*hash)(const sr1_trainer *tr, const char *key, uint64_t *hash);
    int later;        /* older checkpoints say nothing of it */
    const char *name; /* a checkpoint's, where the key has another; NULL: the key's */
} files[] = {{"protocol_file", hash_file, 0, NULL},
             {"prompt_template", hash_file, 0, NULL},
             {"question_template", hash_file, 0, NULL},
             {"tools", hash_file, 0, NULL},
             {"environment_program", hash_file, 0, NULL},
             {"search_program", hash_file, 0, NULL},
             {"reward_programs", hash_list, 0, NULL},
             {"judge_prompt", hash_file, 0, NULL},
             {"critique_template", hash_file, 0, NULL},
             {"solve_template", hash_file, 0, NULL},
             {"tokenizer", hash_tokenizer, 1, NULL},
             {"tokenizer", hash_more_of_tokenizer, 1, "tokenizer_more"},
             {"search_index", hash_index, 1, NULL},
             {"search_dense_index", hash_index, 1, NULL},
             {"search_faiss_index", hash_index, 1, NULL}};

#define FILES (sizeof(files) / sizeof(files[0]))

static const char *name_file(size_t i)
{
    return files[i].name ? files[i].name : files[i].key;
}

static sr1_status hash_key(const sr1_trainer *tr, size_t i, json_t *all)
{
    uint64_t hash = 0;
    char text[17];
    sr1_status st = files[i].hash(tr, files[i].key, &hash);

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    if (st == SR1_OK && hash &&
        json_object_set_new(all, name_file(i), json_string(text)) != 0)
        st = sr1__fail_nomem("hashes of files");
    return st;
}

sr1_status sr1__rule_files_hash(const sr1_trainer *tr, json_t **out)
{
    json_t *all = json_object();
    sr1_status st = all ? SR1_OK : sr1__fail_nomem("hashes of files");

    for (size_t i = 0; i < FILES && st == SR1_OK; i++)
        st = hash_key(tr, i, all);
    SR1__RETURN_NEW(out, all, st, json_decref);
}

static void warn_of_change(const char *key, const json_t *was, const json_t *is)
{
    if (was && is && json_equal(was, is))
        return;
    sr1__log(SR1_LOG_WARN,
             "resume: the file of the key %s is not what it was at the checkpoint: from "
             "here on the run goes by other rules",
             key);
}

void sr1__rule_files_compare(const sr1_trainer *tr, const json_t *then)
{
    for (size_t i = 0; then && i < FILES; i++) {
        const json_t *was = json_object_get(then, name_file(i));
        const json_t *is = json_object_get(tr->rule_files, name_file(i));

        if (was || (is && !files[i].later))
            warn_of_change(files[i].key, was, is);
    }
}
