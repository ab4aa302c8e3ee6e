/* policy.c - see policy.h. */
#include "common/policy.h"

#include <searchr1/ext/config_names.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096

void policy_passive_waiting(char **argv)
{
    char path[PATH_SIZE];
    ssize_t n;

    if (getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1) != 0)
        return;
    n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        return;
    path[n] = '\0';
    execv(path, argv); /* by its own name, so that ps shows that and not "exe" */
}

static int folder_has_file(const char *folder, const char *name)
{
    char path[PATH_SIZE];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

static int is_run(const char *path)
{
    return folder_has_file(path, "metrics.jsonl") || folder_has_file(path, "state.json");
}

/* RUN/model, RUN/checkpoints/step-N/model. */
static int is_model_of_run(const char *path)
{
    if (!folder_has_file(path, "config.json"))
        return 0;
    return (folder_has_file(path, "../metrics.jsonl") &&
            folder_has_file(path, "../config.json")) ||
           (folder_has_file(path, "../state.json") &&
            folder_has_file(path, "../../../config.json"));
}

sr1_status policy_config(sr1_config **out, const char *path, const char *const *pairs,
                         size_t n)
{
    int below = !is_run(path) && is_model_of_run(path);
    sr1_config *c = NULL;
    sr1_status st = sr1_config_new(&c);

    if (below)
        fprintf(stderr,
                "%s is the model of a run, and used with the run's keys (protocol, "
                "search engine, prompts)\n",
                path);
    if (st == SR1_OK)
        st = below || is_run(path) ? sr1_config_load_run(c, path)
                                   : sr1_config_set(c, "model_name_or_path", path);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_config_set_pair(c, pairs[i]);
    if (st != SR1_OK) {
        sr1_config_free(c);
        return st;
    }
    *out = c;
    return SR1_OK;
}

sr1_status policy_questions(sr1_dataset **out, const sr1_config *c, const char *path)
{
    sr1_dataset_options o = {.struct_size = sizeof(o)};

    if (sr1_config_get_bool(c, "answers_optional", &o.answers_optional) != SR1_OK ||
        sr1_config_get_str(c, "question_field", &o.question_field) != SR1_OK ||
        sr1_config_get_str(c, "answer_field", &o.answer_field) != SR1_OK ||
        sr1_config_get_str(c, "id_field", &o.id_field) != SR1_OK ||
        sr1_config_get_str(c, "history_field", &o.history_field) != SR1_OK)
        return SR1_E_CONFIG;
    return sr1_dataset_open(out, &path, 1, &o);
}
