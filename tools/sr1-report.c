/* sr1-report - one HTML page of a run, or of several side by side. */
#include "common/args.h"
#include "common/output.h"
#include "sr1_report/report.h"
#include "sr1_report/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAJECTORY_BYTES ((size_t)7 << 20)

static const char help_text[] =
    "usage: sr1-report RUN [RUN...] [-o report.html]\n"
    "       sr1-report RUN [RUN...] --serve [--port N]\n"
    "\n"
    "Writes one HTML file about the runs in these folders: what they came to, curves of "
    "every\n"
    "metric, what differs in their configurations, and trajectories token by token. The "
    "file\n"
    "stands alone: any browser opens it, nothing is fetched. A run that is still under "
    "way can\n"
    "be looked at; lines that cannot be read are passed over and counted on the page.\n"
    "\n"
    "With --serve the page of runs that are under way is served at "
    "http://127.0.0.1:6010/, made\n"
    "anew when a run has gone on, and the browser reloads it. Only this machine reaches "
    "it, unless\n"
    "--host names an address that others reach and --expose says that they may: whoever "
    "does reads\n"
    "everything that the runs have written.\n"
    "\n"
    "Example:\n"
    "  sr1-report runs/first\n"
    "  sr1-report runs/first runs/second -o both.html\n"
    "  sr1-report runs/first --json\n"
    "  sr1-report runs/first --serve\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage or no run in the folder, 130 after "
    "Ctrl-C.\n";

static void format_page_size(size_t n, char out[32])
{
    if (n < 1000000)
        snprintf(out, 32, "%.0f kB", (double)n / 1e3);
    else
        snprintf(out, 32, "%.1f MB", (double)n / 1e6);
}

/* A page of this program: its head says so (page.html). */
static int is_page(const char *path)
{
    static const char mark[] =
        "<!doctype html>\n<html lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"sr1-report\">";

    return begins_with(path, mark, sizeof(mark) - 1);
}

/* The table of final figures, one object a run. */
static int print_figures_json(const struct loaded_run *runs, size_t n)
{
    json_t *all = json_array();
    char *text = NULL;

    for (size_t i = 0; i < n && all != NULL; i++) {
        json_t *o = run_figures(&runs[i]);

        if (o == NULL || json_object_set_new(o, "folder", path_as_json(runs[i].folder)) ||
            json_object_set_new(o, "verdict", run_verdict(&runs[i])) ||
            json_array_append(all, o) != 0) {
            json_decref(all);
            all = NULL;
        }
        json_decref(o);
    }
    if (all != NULL)
        text = json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(8));
    json_decref(all);
    if (text == NULL) {
        fprintf(stderr, "sr1-report: out of memory\n");
        return TOOL_FAILED;
    }
    puts(text);
    free(text);
    return TOOL_OK;
}

/* The last `parts` parts of a path, without slashes at its end. */
static char *path_end(const char *path, int parts)
{
    size_t end = strlen(path), begin;

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0; begin--) {
        if (path[begin - 1] == '/' && --parts == 0)
            break;
    }
    return strndup(path + begin, end - begin);
}

static int all_differ(const struct loaded_run *runs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(runs[i].label, runs[j].label) == 0)
                return 0;
        }
    }
    return 1;
}

/* As much of the ends of their paths as tells them apart. */
static int name_runs(struct loaded_run *runs, size_t n)
{
    for (int parts = 1; parts <= 8; parts++) {
        for (size_t i = 0; i < n; i++) {
            free(runs[i].label);
            runs[i].label = path_end(runs[i].folder, parts);
            if (runs[i].label == NULL) {
                fprintf(stderr, "sr1-report: out of memory\n");
                return TOOL_FAILED;
            }
        }
        if (all_differ(runs, n))
            break;
    }
    return TOOL_OK;
}

static int write_page(struct loaded_run *runs, size_t n, const struct page_options *o,
                      int quiet)
{
    size_t size = 0;
    char text[32];
    int replaces = is_page(o->path);
    int code = page_write(runs, n, o, &size);

    if (code != TOOL_OK || quiet)
        return code;
    format_page_size(size, text);
    printf("%s (%s)%s\n", o->path, text,
           replaces ? ", in place of the page that was there" : "");
    return TOOL_OK;
}

static void free_runs(struct loaded_run *runs, size_t n)
{
    for (size_t i = 0; runs != NULL && i < n; i++)
        run_free(&runs[i]);
    free(runs);
}

/* Read the runs; free them with free_runs, also after a failure. */
static int read_runs(const char *const *folders, size_t n, struct loaded_run **runs)
{
    int code = TOOL_OK;

    *runs = calloc(n, sizeof(**runs));
    if (*runs == NULL) {
        fprintf(stderr, "sr1-report: out of memory\n");
        return TOOL_FAILED;
    }
    for (size_t i = 0; code == TOOL_OK && i < n; i++)
        code = run_read(&(*runs)[i], folders[i]);
    return code == TOOL_OK ? name_runs(*runs, n) : code;
}

static int report_runs(const char *const *folders, size_t n, const struct page_options *o,
                       int json)
{
    struct loaded_run *runs = NULL;
    int code = read_runs(folders, n, &runs);

    if (code == TOOL_OK && json)
        code = print_figures_json(runs, n);
    if (code == TOOL_OK && o->path != NULL)
        code = write_page(runs, n, o, json);
    free_runs(runs, n);
    return code;
}

/* A page is not to take the place of what it is drawn from, nor of anything else that a
 * run holds and no --force brings back. */
static sr1_status check_page(const struct output *page, const char *samples,
                             const char *const *folders, size_t n, int force)
{
    static const char *const names[] = {"config.json",
                                        "metrics.jsonl",
                                        "config-changes.jsonl",
                                        "trajectories.jsonl.zst",
                                        "validation-trajectories.jsonl.zst",
                                        "trajectories.jsonl"};
    sr1_status st = output_check(page, &samples, 1, force);

    for (size_t i = 0; i < n * (sizeof(names) / sizeof(names[0])) && st == SR1_OK; i++) {
        char path[4200];
        const char *input = path;

        snprintf(path, sizeof(path), "%.4096s/%s", folders[i % n], names[i / n]);
        st = output_check(page, &input, 1, force);
    }
    return st;
}

/* ---- served ---- */

struct page_request {
    const char *const *folders;
    size_t n;
    const struct page_options *o;
};

static int make_page(void *user, time_t made, struct text *out)
{
    const struct page_request *q = user;
    struct page_options o = *q->o;
    struct loaded_run *runs = NULL;
    int code = read_runs(q->folders, q->n, &runs);

    o.made = made;
    if (code == TOOL_OK)
        code = page_text(out, runs, q->n, &o);
    free_runs(runs, q->n);
    return code;
}

static int serve_runs(const char *const *folders, size_t n, const struct page_options *o,
                      const struct serve_options *as)
{
    struct page_request request = {folders, n, o};
    struct serve_options server = *as;

    server.folders = folders;
    server.n = n;
    server.make = make_page;
    server.user = &request;
    return serve_page(&server);
}

/* ---- the command line ---- */

static struct report_tool_options {
    struct page_options page;
    int64_t trajectories, port;
    const char *samples;
    int json, force, serve;
    struct serve_options server;
} o = {.page = {.bytes = TRAJECTORY_BYTES},
       .trajectories = 200,
       .port = 6010,
       .server = {.host = "127.0.0.1"}};

static const struct args_option options[] = {
    {"-o", ARGS_STRING, &o.page.path, "FILE", "where the page goes (report.html)", 0, 0},
    {"--trajectories", ARGS_INT, &o.trajectories, "N",
     "most trajectories in the page, spread over the runs (200)", 0, 10000},
    {"--samples", ARGS_STRING, &o.samples, "FILE",
     "open the page with one question as several models answer it (JSON)", 0, 0},
    {"--json", ARGS_FLAG, &o.json, NULL,
     "print the final figures as JSON; no page unless -o is given", 0, 0},
    {"--serve", ARGS_FLAG, &o.serve, NULL,
     "serve the page, and reload it as the runs go on", 0, 0},
    {"--port", ARGS_INT, &o.port, "N", "of --serve (6010); 0: any that is free", 0,
     65535},
    {"--host", ARGS_STRING, &o.server.host, "ADDRESS", "of --serve (127.0.0.1)", 0, 0},
    {"--expose", ARGS_FLAG, &o.server.exposed, NULL, "let other machines reach --host", 0,
     0},
    OUTPUT_FORCE(&o.force),
};

static int given[sizeof(options) / sizeof(options[0])];

static const struct args a = {.program = "sr1-report",
                              .help = help_text,
                              .options = options,
                              .n_options = sizeof(options) / sizeof(options[0]),
                              .given = given};

/* Names that nobody else reaches. */
static int is_this_machine(const char *host)
{
    return strcmp(host, "127.0.0.1") == 0 || strcmp(host, "localhost") == 0 ||
           strcmp(host, "::1") == 0;
}

/* An option of --serve that is given; NULL: none. */
static const char *find_serve_option(void)
{
    static const char *const names[] = {"--port", "--host", "--expose"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (args_is_given(&a, names[i]))
            return names[i];
    return NULL;
}

/* -1 when the options go together, or an exit code after a message. */
static int check_serve_options(void)
{
    if (!o.serve)
        return find_serve_option()
                   ? args_wrong(&a, "%s belongs to --serve", find_serve_option())
                   : -1;
    if (!o.server.exposed && !is_this_machine(o.server.host))
        return args_wrong(&a,
                          "other machines may reach --host %s, and read all that the "
                          "runs have written; --expose lets them",
                          o.server.host);
    if (o.page.path != NULL || o.json)
        return args_wrong(&a, "--serve writes no file and prints no JSON");
    return -1;
}

static int run_report(const char *const *folders, size_t n)
{
    json_t *samples = NULL;
    int code = o.samples != NULL ? samples_read(&samples, o.samples) : TOOL_OK;

    o.page.samples = samples;
    if (code == TOOL_OK)
        code = o.serve ? serve_runs(folders, n, &o.page, &o.server)
                       : report_runs(folders, n, &o.page, o.json);
    json_decref(samples);
    return code;
}

int main(int argc, char **argv)
{
    const char *folders[REPORT_RUNS];
    struct output page;
    size_t n = 0;
    sr1_status st;
    int code = args_read(&a, argc, argv, folders, REPORT_RUNS, &n);

    if (code >= 0)
        return code;
    if (n == 0)
        return args_wrong(&a, "name the folder of a run: sr1-report runs/first");
    code = check_serve_options();
    if (code >= 0)
        return code;
    o.page.trajectories = (size_t)o.trajectories;
    o.server.port = (int32_t)o.port;
    if (o.page.path == NULL && !o.json && !o.serve)
        o.page.path = "report.html";
    page = (struct output){o.page.path, "a page of sr1-report", is_page};
    st = check_page(&page, o.samples, folders, n, o.force);
    if (st != SR1_OK)
        return tool_refused("sr1-report", st);
    return tool_printed("sr1-report", run_report(folders, n));
}
