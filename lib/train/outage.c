/* train/outage.c - stop a run in which every search, or other action, fails, instead of
 * letting it go on to its end. */
#include "train/internal.h"

#include "policy/rollout_internal.h"

#include <searchr1/ext/episodes.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void sr1__outage_watch(struct sr1__outage *o, sr1_trainer *tr)
{
    double searches = (double)tr->step_metrics.searches_made;
    double failed = sr1__metrics_get(&tr->step_metrics, "failed_searches");
    struct sr1__rollout_stats stats;

    if (searches == 0)
        return;
    tr->failed_steps = failed == searches ? tr->failed_steps + 1 : 0;
    sr1__rollout_stats(tr->rollout, &stats);
    if (stats.failure[0])
        snprintf(o->why, sizeof(o->why), "%s", stats.failure);
}

int sr1__outage_ends(const sr1_trainer *tr)
{
    int64_t most = sr1__config_int(tr->config, "search_max_failed_steps");

    return most > 0 && tr->failed_steps >= most;
}

/* Where an engine, or an environment without one, of this name asks. */
static const struct {
    const char *kind, *name, *key;
} addresses[] = {{"engine", "remote", "search_url"},
                 {"engine", "chain", "search_url"},
                 {"engine", "rerank", "search_url"},
                 {"engine", "searxng", "search_web_url"},
                 {"engine", "program", "search_program"},
                 {"environment", "program", "environment_program"},
                 {"environment", "tools", "tools"},
                 {"environment", "critique", "proxy_model"},
                 {"environment", "critique", "proxy_url"}};

/* "the engine is remote (search_url URL)" */
static void name_answerer(const sr1_trainer *tr, char *out, size_t size)
{
    const sr1_rollout *r = tr->rollout;
    const char *kind = r->search ? "engine" : "environment";
    const char *name = r->search ? sr1_search_name(r->search) : sr1_env_name(r->env);
    int n = snprintf(out, size, "the %s is %.100s", kind, name);

    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        const char *where = sr1__config_str(tr->config, addresses[i].key);

        if (*where && strcmp(kind, addresses[i].kind) == 0 &&
            strcmp(name, addresses[i].name) == 0)
            snprintf(out + n, size - (size_t)n, " (%s %.300s)", addresses[i].key, where);
    }
}

sr1_status sr1__outage_fail(const struct sr1__outage *o, const sr1_trainer *tr)
{
    char answerer[512];

    name_answerer(tr, answerer, sizeof(answerer));
    return sr1__fail(SR1_E_NETWORK,
                     "stopped after step %" PRId64 " of %" PRId64
                     ": every %s of the last %" PRId64
                     " step%s failed; %s; the last error: %s; "
                     "search_max_failed_steps sets how many such steps end a run",
                     tr->step, tr->planned, tr->rollout->search ? "search" : "action",
                     tr->failed_steps, tr->failed_steps == 1 ? "" : "s", answerer,
                     o->why[0] ? o->why : "none was given");
}
