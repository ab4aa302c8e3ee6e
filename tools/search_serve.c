/* search_serve.c - `sr1-search serve`: one line when requests are answered, one when the
 * last has been. */
#include "search_serve.h"

#include "common/args.h"

#include <signal.h>
#include <stdio.h>

static sr1_server *running;
static volatile sig_atomic_t stopped_by;

static void on_signal(int number)
{
    stopped_by = number;
    sr1_server_stop(running);
}

/* A second signal ends the process at once. */
static void catch_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

static void announce(sr1_search *engine, const char *path)
{
    sr1_bm25_info info = {sizeof(info)};

    printf("serving %s", path);
    if (sr1_bm25_info_get(engine, &info) == SR1_OK)
        printf(" (%llu documents)", (unsigned long long)info.documents);
    printf(" at %s/retrieve; Ctrl-C stops\n", sr1_server_url(running));
    fflush(stdout);
}

static void say_counts(void)
{
    sr1_server_stats s = {sizeof(s)};

    if (sr1_server_stats_get(running, &s) == SR1_OK)
        printf(
            "stopped: %lld requests answered (%lld refused, %lld failed), %lld dropped "
            "by their clients\n",
            (long long)s.answered, (long long)s.refused, (long long)s.failed,
            (long long)s.dropped);
    fflush(stdout);
}

int serve_engine(sr1_search *engine, const char *path, const sr1_server_options *options)
{
    sr1_status status = sr1_server_open(&running, engine, options);

    if (status == SR1_OK) {
        catch_signals();
        announce(engine, path);
        status = sr1_server_run(running);
        say_counts();
    }
    if (status != SR1_OK)
        fprintf(stderr, "sr1-search: %s\n", sr1_last_error());
    sr1_server_free(running);
    if (status != SR1_OK)
        return status == SR1_E_INVALID ? TOOL_USAGE : TOOL_FAILED;
    return stopped_by == SIGINT ? TOOL_INTERRUPTED : TOOL_OK;
}
