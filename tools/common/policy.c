/* policy.c - see policy.h. */
#include "common/policy.h"

#include <searchr1/ext/config_names.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096
#define MAX_RUNS 12 /* named in a list of them */

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
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);

    return n > 0 && n < PATH_SIZE && stat(path, &st) == 0;
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

static int compare_step_names(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_step_name(const struct dirent *d)
{
    static const char prefix[] = "step-";
    const char *number = d->d_name + sizeof(prefix) - 1;

    return strncmp(d->d_name, prefix, sizeof(prefix) - 1) == 0 && *number != '\0' &&
           number[strspn(number, "0123456789")] == '\0';
}

/* "step-2, step-4" of a folder of checkpoints. */
static void list_checkpoints(const char *folder, char *out, size_t size)
{
    struct dirent **found = NULL;
    int count = scandir(folder, &found, is_step_name, compare_step_names);
    size_t n = 0;

    snprintf(out, size, "none");
    for (int i = 0; i < count; i++) {
        if (n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? ", " : "",
                                  found[i]->d_name);
        free(found[i]);
    }
    free(found);
}

/* A checkpoint that is not in its run: which are? */
static sr1_status check_checkpoint(const char *path)
{
    static const char part[] = "/checkpoints/";
    const char *at = strstr(path, part);
    char folder[PATH_SIZE], steps[1024], text[2 * PATH_SIZE];
    size_t n = at ? (size_t)(at - path) + sizeof(part) - 1 : 0;

    if (!at || n >= sizeof(folder) || access(path, F_OK) == 0)
        return SR1_OK;
    snprintf(folder, sizeof(folder), "%.*s", (int)n, path);
    if (access(folder, F_OK) != 0)
        return SR1_OK;
    list_checkpoints(folder, steps, sizeof(steps));
    snprintf(text, sizeof(text), "%s is not there; checkpoints of the run: %s", path,
             steps);
    return sr1_set_error(SR1_E_NOT_FOUND, text);
}

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

/* "clean, grpo, sft": the runs in a folder. Returns how many there are. */
static size_t list_runs(const char *folder, char *out, size_t size)
{
    struct dirent **found = NULL;
    int count = scandir(folder, &found, is_visible, alphasort);
    size_t n = 0, runs = 0;
    char path[PATH_SIZE];

    for (int i = 0; i < count; i++) {
        int fits = snprintf(path, sizeof(path), "%s/%s", folder, found[i]->d_name) <
                   PATH_SIZE / 2;

        if (fits && is_run(path) && runs++ < MAX_RUNS && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? ", " : "",
                                  found[i]->d_name);
        free(found[i]);
    }
    free(found);
    if (runs > MAX_RUNS && n < size)
        snprintf(out + n, size - n, " and %zu more", runs - MAX_RUNS);
    return runs;
}

/* A folder with runs in it is neither a run nor a model. */
static sr1_status check_folder_of_runs(const char *path)
{
    char runs[1024], text[2 * PATH_SIZE];

    if (is_run(path) || folder_has_file(path, "config.json") ||
        list_runs(path, runs, sizeof(runs)) == 0)
        return SR1_OK;
    snprintf(text, sizeof(text), "%s holds runs: %s; name one, as %s/NAME", path, runs,
             path);
    return sr1_set_error(SR1_E_NOT_FOUND, text);
}

sr1_status policy_config(sr1_config **out, const char *path, const char *const *pairs,
                         size_t n)
{
    int below = !is_run(path) && is_model_of_run(path);
    sr1_config *c = NULL;
    sr1_status st = check_checkpoint(path);

    if (st == SR1_OK)
        st = check_folder_of_runs(path);
    if (st == SR1_OK)
        st = sr1_config_new(&c);
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

size_t policy_paths(const sr1_config *c, const char **paths)
{
    size_t n = 0;

    for (size_t i = 0; i < sr1_config_key_count() && n < POLICY_PATHS; i++) {
        sr1_config_key_info k = {.struct_size = sizeof(k)};
        const char *path = "";

        if (sr1_config_key_describe(i, &k) == SR1_OK && k.type == SR1_CONFIG_PATH &&
            strcmp(k.name, "out") != 0 &&
            sr1_config_get_str(c, k.name, &path) == SR1_OK && *path)
            paths[n++] = path;
    }
    return n;
}

void policy_warn_of_sampling(int sample, const char *const *pairs, size_t n)
{
    static const char *const keys[] = {"temperature", "top_p", "top_k"};

    for (size_t i = 0; i < n && !sample; i++)
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
            size_t len = strlen(keys[k]);

            if (strncmp(pairs[i], keys[k], len) == 0 && pairs[i][len] == '=')
                fprintf(stderr,
                        "warning: %s does nothing without --sample: the likeliest tokens "
                        "are taken\n",
                        keys[k]);
        }
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
