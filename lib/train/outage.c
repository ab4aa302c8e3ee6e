/* train/outage.c - stop a run in which every search fails, instead of letting it go on to
 * its end. */
#include "train/internal.h"

#include "policy/rollout_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void sr1__outage_watch(struct sr1__outage *o, const sr1_trainer *tr)
{
    double searches = (double)tr->step_metrics.searches_made;
    double failed = sr1__metrics_get(&tr->step_metrics, "failed_searches");
    struct sr1__rollout_stats stats;

    if (searches == 0)
        return;
    o->steps = failed == searches ? o->steps + 1 : 0;
    sr1__rollout_stats(tr->rollout, &stats);
    if (stats.failure[0])
        snprintf(o->why, sizeof(o->why), "%s", stats.failure);
}

int sr1__outage_ends(const struct sr1__outage *o, const sr1_trainer *tr)
{
    int64_t most = sr1__config_int(tr->config, "search_max_failed_steps");

    return most > 0 && o->steps >= most;
}

/* Where an engine of this name asks. */
static const struct {
    const char *engine, *key;
} addresses[] = {{"remote", "search_url"},
                 {"chain", "search_url"},
                 {"rerank", "search_url"},
                 {"searxng", "search_web_url"}};

static void name_engine(const sr1_trainer *tr, char *out, size_t size)
{
    const sr1_search *engine = tr->rollout->search;
    const char *name = engine ? sr1_search_name(engine) : "that of its tools";
    int n = snprintf(out, size, "%.100s", name);

    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        const char *url = sr1__config_str(tr->config, addresses[i].key);

        if (*url && strcmp(name, addresses[i].engine) == 0)
            snprintf(out + n, size - (size_t)n, " (%s %.300s)", addresses[i].key, url);
    }
}

sr1_status sr1__outage_fail(const struct sr1__outage *o, const sr1_trainer *tr)
{
    char engine[512];

    name_engine(tr, engine, sizeof(engine));
    return sr1__fail(SR1_E_NETWORK,
                     "stopped after step %" PRId64 " of %" PRId64
                     ": every search of the last %" PRId64
                     " step%s failed; the engine is %s; the last error: %s; "
                     "search_max_failed_steps sets how many such steps end a run",
                     tr->step, tr->planned, o->steps, o->steps == 1 ? "" : "s", engine,
                     o->why[0] ? o->why : "none was given");
}
