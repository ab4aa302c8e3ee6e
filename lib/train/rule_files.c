/* train/rule_files.c - small files that decide what a run does, beside its configuration
 * and its data: protocols, programs, prompts. A checkpoint keeps their hashes, so that a
 * run that goes on by others says so. */
#include "train/internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "policy/assemble/assemble.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROGRAMS "reward_programs" /* a list */

static const char *const keys[] = {
    "protocol_file", "prompt_template",     "question_template",
    "tools",         "environment_program", "search_program",
    PROGRAMS,        "judge_prompt",        "critique_template",
    "solve_template"};

static sr1_status hash_key(const sr1_config *c, const char *key, json_t *all)
{
    uint64_t hash = 0;
    char text[17];
    sr1_status st = strcmp(key, PROGRAMS) == 0
                        ? sr1__listed_files_hash(c, key, &hash)
                        : sr1__rule_file_hash(sr1__config_str(c, key), &hash);

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    if (st == SR1_OK && hash && json_object_set_new(all, key, json_string(text)) != 0)
        st = sr1__fail_nomem("hashes of files");
    return st;
}

sr1_status sr1__rule_files_hash(const sr1_config *c, json_t **out)
{
    json_t *all = json_object();
    sr1_status st = all ? SR1_OK : sr1__fail_nomem("hashes of files");

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && st == SR1_OK; i++)
        st = hash_key(c, keys[i], all);
    SR1__RETURN_NEW(out, all, st, json_decref);
}

void sr1__rule_files_compare(const sr1_trainer *tr, const json_t *then)
{
    for (size_t i = 0; then && i < sizeof(keys) / sizeof(keys[0]); i++) {
        const json_t *was = json_object_get(then, keys[i]);
        const json_t *is = json_object_get(tr->rule_files, keys[i]);

        if ((was || is) && !(was && is && json_equal(was, is)))
            sr1__log(
                SR1_LOG_WARN,
                "resume: the file of the key %s is not what it was at the checkpoint: "
                "from here on the run goes by other rules",
                keys[i]);
    }
}
