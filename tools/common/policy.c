/* policy.c - see policy.h. */
#include "common/policy.h"

#include <dirent.h>
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

static int exists(const char *folder, const char *name)
{
    char path[PATH_SIZE];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

/* The checkpoint of the highest step; 0 when there is none. */
static int newest_checkpoint(const char *run, char out[PATH_SIZE])
{
    char folder[PATH_SIZE];
    long best = -1;
    DIR *d;

    snprintf(folder, sizeof(folder), "%s/checkpoints", run);
    d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char *end;
        long step =
            strncmp(e->d_name, "step-", 5) == 0 ? strtol(e->d_name + 5, &end, 10) : -1;

        if (step > best && *end == '\0')
            best = step;
    }
    if (d)
        closedir(d);
    if (best >= 0)
        snprintf(out, PATH_SIZE, "%s/checkpoints/step-%ld/model", run, best);
    return best >= 0;
}

/* Who revised critiques was the policy as training began, not as it is now. */
static sr1_status keep_proxy(sr1_config *c)
{
    const char *proxy = NULL, *began = NULL;
    sr1_status st = sr1_config_get_str(c, "proxy_model", &proxy);

    if (st == SR1_OK)
        st = sr1_config_get_str(c, "model_name_or_path", &began);
    return st == SR1_OK && !*proxy ? sr1_config_set(c, "proxy_model", began) : st;
}

static sr1_status nothing_yet(const char *run)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "the run %.400s has neither model/ nor a checkpoint yet; go on with it by "
             "sr1-train --resume %.400s",
             run, run);
    return sr1_set_error(SR1_E_NOT_FOUND, text);
}

static sr1_status use_run(sr1_config *c, const char *run)
{
    char path[PATH_SIZE];
    sr1_status st;

    snprintf(path, sizeof(path), "%s/config.json", run);
    st = sr1_config_load(c, path);
    if (st != SR1_OK)
        return st;
    if (exists(run, "model/config.json"))
        snprintf(path, sizeof(path), "%s/model", run);
    else if (!newest_checkpoint(run, path))
        return nothing_yet(run);
    st = keep_proxy(c);
    return st == SR1_OK ? sr1_config_set(c, "model_name_or_path", path) : st;
}

sr1_status policy_config(sr1_config **out, const char *path, const char *const *pairs,
                         size_t n)
{
    int is_run = exists(path, "metrics.jsonl");
    sr1_config *c = NULL;
    sr1_status st = sr1_config_new(&c);

    if (st == SR1_OK)
        st = is_run ? use_run(c, path) : sr1_config_set(c, "model_name_or_path", path);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = sr1_config_set_pair(c, pairs[i]);
    if (st != SR1_OK) {
        sr1_config_free(c);
        return st;
    }
    *out = c;
    return SR1_OK;
}
