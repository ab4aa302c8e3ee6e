/* train/rule_files.c - files that decide what a run does, beside its configuration and
 * its data: protocols, programs, prompts, tokenizer, indexes. A checkpoint keeps their
 * hashes, so that a run that goes on by others says so. */
#include "train/internal.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/assemble/assemble.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static sr1_status hash_file(const sr1_config *c, const char *key, uint64_t *hash)
{
    return sr1__rule_file_hash(sr1__config_str(c, key), hash);
}

static sr1_status hash_index(const sr1_config *c, const char *key, uint64_t *hash)
{
    return sr1__index_file_hash(sr1__config_str(c, key), hash);
}

/* What of a tokenizer's folder decides ids and prompts. */
static sr1_status hash_tokenizer(const sr1_config *c, const char *key, uint64_t *hash)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja"};
    const char *folder = sr1__config_str(c, key);

    if (!*folder)
        folder = sr1__config_str(c, "model_name_or_path");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *path = sr1__path_join(folder, names[i]);
        sr1_status st = path ? sr1__rule_file_hash(path, hash) : sr1__fail_nomem("path");

        sr1__free(path);
        SR1__TRY(st);
    }
    return SR1_OK;
}

static const struct {
    const char *key;
    sr1_status (*hash)(const sr1_config *c, const char *key, uint64_t *hash);
    int later; /* older checkpoints say nothing of it */
} files[] = {{"protocol_file", hash_file, 0},
             {"prompt_template", hash_file, 0},
             {"question_template", hash_file, 0},
             {"tools", hash_file, 0},
             {"environment_program", hash_file, 0},
             {"search_program", hash_file, 0},
             {"reward_programs", sr1__listed_files_hash, 0},
             {"judge_prompt", hash_file, 0},
             {"critique_template", hash_file, 0},
             {"solve_template", hash_file, 0},
             {"tokenizer", hash_tokenizer, 1},
             {"search_index", hash_index, 1},
             {"search_dense_index", hash_index, 1},
             {"search_faiss_index", hash_index, 1}};

#define FILES (sizeof(files) / sizeof(files[0]))

static sr1_status hash_key(const sr1_config *c, size_t i, json_t *all)
{
    uint64_t hash = 0;
    char text[17];
    sr1_status st = files[i].hash(c, files[i].key, &hash);

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    if (st == SR1_OK && hash &&
        json_object_set_new(all, files[i].key, json_string(text)) != 0)
        st = sr1__fail_nomem("hashes of files");
    return st;
}

sr1_status sr1__rule_files_hash(const sr1_config *c, json_t **out)
{
    json_t *all = json_object();
    sr1_status st = all ? SR1_OK : sr1__fail_nomem("hashes of files");

    for (size_t i = 0; i < FILES && st == SR1_OK; i++)
        st = hash_key(c, i, all);
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
        const json_t *was = json_object_get(then, files[i].key);
        const json_t *is = json_object_get(tr->rule_files, files[i].key);

        if (was || (is && !files[i].later))
            warn_of_change(files[i].key, was, is);
    }
}
